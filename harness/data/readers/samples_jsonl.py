"""Sample sets of our own writing to samples: one JSON object a line, nothing guessed.

A sample set is mended in its own file; there is no overlay for it.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import field

from harness.core import Sample
from harness.errors import DataError, SpecError
from harness.parts import digest
from harness.specs.data import OverlaySpec
from harness.specs.schema import Spec, load_spec
from harness.storage.tables import read_text


class SampleLine(Spec, frozen=True, kw_only=True):
    """What one line may say; references are texts by name, the id is derived where missing.

    `provenance` says where made texts come from; it is kept in the file and not read.
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


def read(files: Sequence[Path], overlay: OverlaySpec | None) -> list[Sample]:
    """One sample a line, in the order of the files."""
    if overlay is not None:
        names = ", ".join(str(path) for path in files)
        raise SpecError(
            f"{names}: a sample set takes no overlay; correct the file itself and remove "
            "`overlay` from the task's data"
        )
    placed = [pair for path in files for pair in _read_file(path)]
    _refuse_repeats(placed)
    return [sample for _, sample in placed]


def _read_file(path: Path) -> list[tuple[str, Sample]]:
    """Each sample of one file after the place it stands at."""
    lines = enumerate(read_text(path).split("\n"), start=1)
    places = [(f"{path}:{number}", line) for number, line in lines if line.strip()]
    return [(where, _sample(line, where=where)) for where, line in places]


def _sample(line: str, *, where: str) -> Sample:
    """The sample of one line."""
    said = _parsed(line, where=where)
    for name, texts in said.references.items():
        if not texts or not all(text.strip() for text in texts):
            raise DataError(f"{where}: reference {name!r} has no text; give one or remove it")
    try:
        return Sample(
            id=said.id or f"{said.group}-{digest((said.group, said.fields))[:10]}",
            fields=said.fields,
            references=said.references,
            choices=said.choices,
            gold=said.gold,
            group=said.group,
            cluster=said.cluster,
            flags=said.flags,
        )
    except ValueError as error:
        raise DataError(f"{where}: {error}; rename one of them") from error


def _parsed(line: str, *, where: str) -> SampleLine:
    """A line, checked; what is wrong with it is the data's fault, not a spec's."""
    try:
        content = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise DataError(f"{where}: not JSON ({error}); give one JSON object a line") from error
    if not isinstance(content, dict):
        raise DataError(f"{where}: {type(content).__name__}, not an object; put it in braces")
    try:
        said: SampleLine = load_spec(content, SampleLine, where=where)
    except SpecError as error:
        raise DataError(f"{error}; correct the line") from error
    return said


def _refuse_repeats(placed: Sequence[tuple[str, Sample]]) -> None:
    """Refuse two lines that share an id."""
    seen: dict[str, str] = {}
    for where, sample in placed:
        if first := seen.get(sample.id):
            raise DataError(
                f"{where}: id {sample.id!r} is also that of {first}; remove one, or change its id"
            )
        seen[sample.id] = where
