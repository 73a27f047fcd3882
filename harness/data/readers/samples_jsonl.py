"""Sample sets in this program's own format to samples: one JSON object a line."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from msgspec import field, structs

from harness.core import Sample
from harness.data.readers.released import refuse_overlay, refuse_repeats
from harness.errors import DataError, SpecError
from harness.parts import digest
from harness.specs.data import OverlaySpec
from harness.specs.schema import Spec, load_spec
from harness.storage.tables import BOM, Table, json_objects, read_text


class SampleLine(Spec, frozen=True, kw_only=True):
    """The keys of one line; a missing id is derived from the fields."""

    group: str
    fields: dict[str, str]
    references: dict[str, tuple[str, ...]]
    id: str = ""
    cluster: str = ""
    choices: tuple[str, ...] = ()
    gold: str | None = None
    flags: tuple[str, ...] = ()
    provenance: dict[str, dict[str, str]] = field(default_factory=dict)


_DECODER = msgspec.json.Decoder(SampleLine)


def read(files: Sequence[Path], overlay: OverlaySpec | None) -> list[Sample]:
    """One sample a line, in the order of the files."""
    refuse_overlay(", ".join(map(str, files)), overlay)
    samples = dict(one for path in files for one in _each_of(path))
    refuse_repeats((place, sample.id) for place, sample in samples.items())
    return list(samples.values())


def each(files: Sequence[Path], overlay: OverlaySpec | None) -> Iterator[Sample]:
    """The samples one by one, each read as it is wanted; two may have one id."""
    refuse_overlay(", ".join(map(str, files)), overlay)
    for path in files:
        yield from (sample for _, sample in _each_of(path))


def with_texts(table: Table) -> Table:
    """A table with the fields and references of its samples as columns; others stay as they are."""
    if not {"group", "fields", "references"} <= set(table.columns):
        return table
    both = zip(
        *(table.cells(table.columns.index(n)) for n in ("fields", "references")), strict=True
    )
    rows = [
        {key: _one(cell) for one in pair if isinstance(one, dict) for key, cell in one.items()}
        for pair in both
    ]
    every = dict.fromkeys(name for row in rows for name, cell in row.items() if cell is not None)
    names, count = [name for name in every if name not in table.columns], len(table.columns)

    def column(at: int) -> list[object]:
        return table.cells(at) if at < count else [row.get(names[at - count]) for row in rows]

    return replace(table, columns=(*table.columns, *names), cells=column)


def _one(texts: object) -> object:
    return texts[0] if isinstance(texts, list) and len(texts) == 1 else texts


def _each_of(path: Path) -> Iterator[tuple[str, Sample]]:
    """The samples of a file, each with its place; DataError for a file without a line."""
    is_empty = True
    for number, line in enumerate(_lines(path), 1):
        if (parsed := _parsed(line, path, number)) is not None:
            is_empty = False
            yield f"{path}:{number}", _sample(parsed, f"{path}:{number}")
    if is_empty:
        read_text(path)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield file.readline().removeprefix(BOM.encode())
            yield from file
    except OSError:
        read_text(path)  # which says what is wrong with the file
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
    try:
        for _, content in json_objects(str(path), text, first=number):
            parsed: SampleLine = load_spec(content, SampleLine, where=f"{path}:{number}")
            return parsed
    except SpecError as error:  # the line is data and not a spec
        raise DataError(f"{error}; correct the line") from error
    return None


def _sample(parsed: SampleLine, place: str) -> Sample:
    for name, texts in parsed.references.items():
        if not texts or not all(map(str.strip, texts)):
            raise DataError(f"{place}: reference {name!r} has no text; give one or remove it")
    given = structs.asdict(parsed)
    del given["provenance"]
    given["id"] = parsed.id or f"{parsed.group}-{digest((parsed.group, parsed.fields))[:10]}"
    try:
        return Sample(**given)
    except ValueError as error:
        raise DataError(f"{place}: {error}; rename one of them") from error
