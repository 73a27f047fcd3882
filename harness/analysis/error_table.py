"""Missed texts and false alarms of a run to a table: the user's own rows, with what was said.

A row out for each error in. The columns of the data file stand as they are in it, ours behind
them under names that begin with `harness_`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from harness.analysis.flags import RateQuery, unknown_columns
from harness.data.readers.labelled_table import OriginalRows, texts_of
from harness.data.split import picked
from harness.errors import DataError, SpecError, did_you_mean
from harness.lazy import DataFrame, pandas
from harness.pipeline.choice_scores import IMPLICITNESS
from harness.storage.cells import cell_text, filled, json_text
from harness.storage.environment import read_data_paths
from harness.storage.frames import load, plain_rows
from harness.storage.runs import RunFolder
from harness.storage.tables import (
    ENDINGS,
    FileFormat,
    Table,
    extended,
    format_by_name,
    read_file,
)
from harness.workspace import Workspace

MISSED, FALSE_ALARM, ALL_KINDS = "missed", "false-alarm", "all"
KINDS = (MISSED, FALSE_ALARM, ALL_KINDS)
OURS: Final = "harness_"


def run_errors(folder: RunFolder, texts: DataFrame, kind: str) -> DataFrame:
    """The texts that were flagged other than their label says, in the order of the run.

    `texts` are those of `rates.flags`; what has no answer is no error, and a tie is one in part.
    A text has a row for each prompt that erred. The columns of `flags`, `answer`, `gold`, `group`,
    `fields` and `references` of its sample, and `error` and `verdict` in words. `kind` is one of
    KINDS.
    """
    known = texts[texts["is_measured"] & texts["flagged"].notna()]
    found = known[known["flagged"] != known["is_positive"].astype(float)]
    found = found.assign(
        error=found["is_positive"].map({True: MISSED, False: FALSE_ALARM}),
        verdict=found["flagged"].map({0.0: "not flagged", 1.0: "flagged"}).fillna("tie"),
    )
    if kind != ALL_KINDS:
        found = found[found["error"] == kind]
    answers = load([folder], "answers", ["row", "answer"])[["row", "answer"]]
    samples = load([folder], "samples", ["sample", "gold", "group", "fields", "references"])
    samples = samples.drop(columns=["task", "model", "run"]).astype({"sample": object})
    return found.merge(answers, on="row").merge(samples, on="sample").reset_index(drop=True)


def output_format(out: Path) -> FileFormat:
    """The format of a file to write, by its name; SpecError for an unknown ending."""
    found = format_by_name(out.name)
    if found is None or found is FileFormat.LINES:
        known = ", ".join(end for end, kind in ENDINGS.items() if kind is not FileFormat.LINES)
        raise SpecError(f"-o {out}: end its name in one of {known}")
    return found


def _whole(originals: OriginalRows) -> tuple[Table, dict[str, int]]:
    """The rows of all data files as one table, and which of them is at each `file:line`."""
    tables = [read_file(path, quotes=originals.quotes) for path in originals.files]
    places = [
        f"{path}:{line}"
        for path, table in zip(originals.files, tables, strict=True)
        for line in table.lines
    ]
    first, rows = tables[0], {place: row for row, place in enumerate(places)}
    if len(tables) == 1:
        return first, rows
    is_alike = all(table.columns == first.columns for table in tables)
    every = dict.fromkeys(name for table in tables for name in table.columns)
    columns = first.columns if is_alike else tuple(every)

    def cells(at: int) -> list[object]:
        found: list[object] = []
        for table in tables:
            is_there = columns[at] in table.columns
            place = at if is_alike or not is_there else table.columns.index(columns[at])
            found += table.cells(place) if is_there else [None] * len(table)
        return found

    lines = [line for table in tables for line in table.lines]
    if len({table.file_format for table in tables}) > 1:
        return Table(FileFormat.PARQUET, columns, lines, cells), rows
    return Table(first.file_format, columns, lines, cells), rows


def original_table(errors: DataFrame, originals: OriginalRows) -> Table:
    """The rows of the data files that the errors are of, one each, in their order."""
    table, rows = _whole(originals)
    if unknown := [name for name in errors["sample"] if name not in originals.places]:
        raise DataError(
            f"text {unknown[0]} is not in the data as its column map now reads it; put the map "
            "back to what it was when the run was made"
        )
    return picked(table, [rows[originals.places[name][0]] for name in errors["sample"]])


def sample_table(errors: DataFrame) -> Table:
    """What a run keeps of the texts, for data that is no table of the user's: our sample sets."""
    rows: list[dict[str, Any]] = []
    for one in errors[["sample", "fields", "references", "group"]].itertuples():
        references = {
            name: texts[0] if len(texts) == 1 else json_text(list(texts))
            for name, texts in one.references.items()
        }
        rows.append({"id": one.sample, **one.fields, **references, "group": one.group})
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    cells = [[row.get(name) for row in rows] for name in columns]
    return Table(FileFormat.PARQUET, columns, range(1, len(rows) + 1), cells.__getitem__)


def error_file(errors: DataFrame, originals: OriginalRows | None, target: FileFormat) -> bytes:
    """The file of some errors: their rows in the data, and what the run says of each.

    `harness_same_words` names the other rows of the data that have the same words. Without
    `originals` what the run keeps of the texts.
    """
    table = original_table(errors, originals) if originals else sample_table(errors)
    rows = error_cells(errors, originals.places if originals else {})
    added = pandas.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)
    names = {name: _free(f"{OURS}{name}", table.columns) for name in COLUMNS}
    return extended(table, added.rename(columns=names), target)


COLUMNS: Final = {
    **dict.fromkeys(("error", "answer", "verdict"), "object"),
    **dict.fromkeys(("score", IMPLICITNESS), "float64"),
    **dict.fromkeys(("label", "variant", "decoding", "id", "row", "same_words"), "object"),
}
"""The columns that are added, and their types."""


def error_cells(errors: DataFrame, places: Mapping[str, tuple[str, ...]]) -> list[dict[str, Any]]:
    """What a run says of each error, by COLUMNS; `places` has the rows of each sample."""
    rows = [[Path(place).name for place in places.get(name, ())] for name in errors["sample"]]
    cells = errors.assign(
        label=errors["gold"],
        id=errors["sample"],
        row=[own[0] if own else None for own in rows],
        same_words=[", ".join(own[1:]) or None for own in rows],
    )
    return plain_rows(cells[list(COLUMNS)])


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def originals_of(
    workspace: Workspace, folder: RunFolder, table: str | None = None
) -> OriginalRows | None:
    """The rows of the user's table that a run is of; None for our sample set, and what is no table.

    `table` names another column map than the run's. DataError where the data is not to be found.
    """
    file = folder.read()
    spec = file.task.data
    if spec.map is None or file.data.mode == "sample":
        return None
    spec = structs.replace(spec, map=table) if table else spec
    return workspace.original_rows(spec, file.data, read_data_paths(folder))


def joined_query(
    workspace: Workspace, folder: RunFolder, query: RateQuery, table: str | None = None
) -> RateQuery:
    """The query with the columns that the run did not keep, from its data where that is a table."""
    wanted = unknown_columns(folder, query.by)
    originals = originals_of(workspace, folder, table) if wanted else None
    if originals is None:
        return query
    whole, rows = _whole(originals)
    if unknown := [name for name in wanted if name not in whole.columns]:
        close = did_you_mean(unknown[0], [name for name in whole.columns if name])
        files = ", ".join(map(str, originals.files))
        raise DataError(f"{files}: no column {unknown[0]!r}{close}")
    cells = {name: whole.cells(whole.columns.index(name)) for name in wanted}
    columns = {
        sample: {name: texts_of(filled(own[rows[places[0]]])) for name, own in cells.items()}
        for sample, places in originals.places.items()
    }
    return replace(query, columns=columns)


def original_errors(errors: DataFrame, originals: OriginalRows | None) -> list[dict[str, Any]]:
    """Each error by the columns of its row in the data, as texts, then by COLUMNS.

    Of our sample set the fields of its sample. A column of the data that has the name of one of
    ours begins with `data_`.
    """
    if originals is None:
        pairs = zip(errors["fields"], error_cells(errors, {}), strict=True)
        return [{**fields, **cells} for fields, cells in pairs]
    table = original_table(errors, originals)
    cells = {
        _free(f"data_{name}", table.columns) if name in COLUMNS else name: table.cells(at)
        for at, name in enumerate(table.columns)
    }
    return [
        {**{name: cell_text(column[row]) for name, column in cells.items()}, **said}
        for row, said in enumerate(error_cells(errors, originals.places))
    ]
