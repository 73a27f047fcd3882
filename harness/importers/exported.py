"""A run that `export parquet` wrote to a run folder again: its answers and verdicts, scored again.

The calls are not in such a file. A part of the records is held at a time.
"""

from dataclasses import replace
from os.path import normpath
from pathlib import Path

import msgspec

from harness import __version__
from harness.errors import DataError
from harness.pipeline.columns.run import RunColumns
from harness.pipeline.execute import RunResult, put_run
from harness.pipeline.items import items_header, items_lines
from harness.storage.cells import decode_json
from harness.storage.parquet import read_records, said_of, write_records
from harness.storage.rebuilt import found_sum
from harness.storage.runs import RUN, SAMPLES, RunFile, RunFolder, StoredRows, lines_of
from harness.storage.spool import Spool
from harness.storage.tables import FileFormat, format_by_name


def export_run(folder: RunFolder, out: Path) -> int:
    """Write the records of a run as Parquet, with its run.json; how many there are."""
    rows = StoredRows(folder)
    sums = found_sum(folder.path / SAMPLES).encode()
    about = {RUN: (folder.path / RUN).read_bytes(), SAMPLES: sums}
    write_records(out, rows, about)
    return len(rows)


def is_exported(path: Path) -> bool:
    """Whether a file is a run that `export_run` wrote."""
    return format_by_name(path.name) is FileFormat.PARQUET and RUN in said_of(path)


def import_run(results: Path, path: Path) -> RunResult:
    """Make the run of a file below `results`; one that is there already stays as it is.

    Raises DataError for records that are not those that were exported, and for a run of that digest
    that is there with others.
    """
    said = said_of(path)
    try:
        file: RunFile = decode_json(said[RUN], RunFile)
    except (msgspec.DecodeError, ValueError) as error:
        raise _refused(path, f"its {RUN} is damaged ({error})") from error
    names = (file.run.task, file.model.name, file.digest[:16])
    folder = RunFolder(results.joinpath("runs", *names))
    if file.digest != file.run.digest or Path(normpath(folder.path)).parts[-3:] != names:
        raise _refused(path, f"its {RUN} names another run than it is of")
    folder.check()
    scored, lines, items = RunColumns(file.task), Spool(folder.path), Spool(folder.path)
    items.add(items_header(file))
    for records in read_records(path):
        scored.add(records)
        lines.add(lines_of(records))
        items.add(items_lines(file, records))
    is_same = file.version != __version__ or lines.digest.encode() == said.get(SAMPLES)
    if scored.count != file.planned or not is_same:
        raise _refused(path, f"its {scored.count} answers are not those that were exported")
    if (folder.path / RUN).exists() and found_sum(folder.path / SAMPLES) != lines.digest:
        raise DataError(
            f"{path}: {folder.path} is the same run with other answers or verdicts; name another "
            "--results"
        )
    return put_run(folder, replace(file, version=__version__), scored, lines, items)


def _refused(path: Path, fact: str) -> DataError:
    return DataError(f"{path}: {fact}; export it again, or import its answers with --map")
