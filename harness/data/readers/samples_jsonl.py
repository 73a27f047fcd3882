"""Sample sets in this program's own format to samples: one JSON object a line, or Parquet.

A sample set takes no overlay: corrections belong into the file itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import field

from harness.core import Sample
from harness.data.readers.released import refuse_overlay, refuse_repeats
from harness.errors import DataError, SpecError
from harness.parts import digest
from harness.specs.data import OverlaySpec
from harness.specs.schema import Spec, load_spec
from harness.storage.tables import (
    BOM,
    FileFormat,
    Table,
    format_by_name,
    json_objects,
    read_text,
)


class SampleLine(Spec, frozen=True, kw_only=True):
    """The keys of one line; references are texts by name, a missing id is derived from the fields.

    `provenance` names the source of generated texts; no command reads it.
    """

    group: str
    fields: dict[str, str]
    references: dict[str, tuple[str, ...]]
    id: str = ""
    cluster: str = ""
    choices: tuple[str, ...] = ()
    gold: str | None = None
    flags: tuple[str, ...] = ()
    provenance: dict[str, dict[str, str]] = field(default_factory=dict)


ROWS = 2_000
"""The rows of a Parquet file that are read at once."""
_DECODER = msgspec.json.Decoder(SampleLine)


def read(files: Sequence[Path], overlay: OverlaySpec | None) -> list[Sample]:
    """One sample a line, in the order of the files."""
    refuse_overlay(", ".join(map(str, files)), overlay)
    samples = {f"{path}:{number}": one for path in files for number, one in _each_of(path)}
    refuse_repeats((place, sample.id) for place, sample in samples.items())
    return list(samples.values())


def each(files: Sequence[Path], overlay: OverlaySpec | None) -> Iterator[Sample]:
    """The samples one by one, each read as it is wanted; two may have one id."""
    refuse_overlay(", ".join(map(str, files)), overlay)
    for path in files:
        yield from (sample for _, sample in _each_of(path))


def with_texts(table: Table) -> Table:
    """A table with the fields and references of its samples as columns; others stay as they are.

    A reference of one text is that text.
    """
    if not {"group", "fields", "references"} <= set(table.columns):
        return table
    cells = (table.cells(table.columns.index(name)) for name in ("fields", "references"))
    pairs = zip(*(map(_without_none, column) for column in cells), strict=True)
    rows = [
        {key: _one(text) for part in pair if isinstance(part, dict) for key, text in part.items()}
        for pair in pairs
    ]
    names = [n for n in dict.fromkeys(n for row in rows for n in row) if n not in table.columns]
    count = len(table.columns)

    def column(at: int) -> list[object]:
        return table.cells(at) if at < count else [row.get(names[at - count]) for row in rows]

    return replace(table, columns=(*table.columns, *names), cells=column)


def _one(texts: object) -> object:
    return texts[0] if isinstance(texts, list) and len(texts) == 1 else texts


def _each_of(path: Path) -> Iterator[tuple[int, Sample]]:
    """The samples of a file, each with its line; DataError for a file without a line."""
    if format_by_name(path.name) is FileFormat.PARQUET:
        yield from _each_row(path)
        return
    is_empty = True
    for number, line in _lines(path):
        if (parsed := _parsed(line, path, number)) is not None:
            is_empty = False
            yield number, _sample(parsed, path, number)
    if is_empty:
        read_text(path)


def _each_row(path: Path) -> Iterator[tuple[int, Sample]]:
    """The samples of a Parquet file, whose columns are the keys of a line, each with its row."""
    for number, content in enumerate(_rows(path), 1):
        yield number, _sample(_spec(_without_none(content), f"{path}:{number}"), path, number)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file as objects, also its maps; DataError for what it may not hold."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            names = file.schema_arrow.names
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise DataError(f"{path}: two columns are named {twice[0]!r}; rename one of them")
            for batch in file.iter_batches(batch_size=ROWS):
                yield from batch.to_pylist(maps_as_pydicts="strict")
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: no Parquet file ({error}); write it again") from error
    except KeyError as error:  # of a map
        raise DataError(f"{path}: a map has a key twice ({error}); remove one") from error


def _without_none(value: Any) -> Any:  # noqa: ANN401 - what Parquet holds
    """A row without the empty cells, also those of its structs."""
    if isinstance(value, dict):
        return {name: _without_none(part) for name, part in value.items() if part is not None}
    return value


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines, each with its number; DataError for what is no file."""
    try:
        with path.open("rb") as file:
            yield 1, file.readline().removeprefix(BOM.encode())
            yield from enumerate(file, 2)
    except OSError:
        read_text(path)
        raise


def _parsed(line: bytes, path: Path, number: int) -> SampleLine | None:
    """What a line holds, None for a blank one; DataError for what no text is."""
    try:
        return _DECODER.decode(line)  # most lines are right as they are
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        text = line.decode()
    except UnicodeDecodeError:
        read_text(path)
        raise
    if not text.strip():
        return None
    [(_, content)] = json_objects(str(path), text, first=number)
    return _spec(content, f"{path}:{number}")


def _spec(content: dict[str, Any], place: str) -> SampleLine:
    try:
        parsed: SampleLine = load_spec(content, SampleLine, where=place)
    except SpecError as error:  # the line is data and not a spec
        raise DataError(f"{error}; correct the line") from error
    return parsed


def _sample(parsed: SampleLine, path: Path, number: int) -> Sample:
    for name, texts in parsed.references.items():
        if not texts or not all(map(str.strip, texts)):
            fact = f"{path}:{number}: reference {name!r} has no text"
            raise DataError(f"{fact}; give one or remove it")
    try:
        return Sample(
            id=parsed.id or f"{parsed.group}-{digest((parsed.group, parsed.fields))[:10]}",
            fields=parsed.fields,
            references=parsed.references,
            choices=parsed.choices,
            gold=parsed.gold,
            group=parsed.group,
            cluster=parsed.cluster,
            flags=parsed.flags,
        )
    except ValueError as error:
        raise DataError(f"{path}:{number}: {error}; rename one of them") from error
