"""Sample sets in this program's own format to samples: one JSON object a line.

A sample set takes no overlay: corrections belong into the file itself.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import field, structs

from harness.core import Sample
from harness.data.readers.released import refuse_overlay, refuse_repeats
from harness.errors import DataError, SpecError
from harness.parts import digest
from harness.specs.data import OverlaySpec
from harness.specs.schema import Spec, load_spec
from harness.storage.tables import read_text


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


def read(files: Sequence[Path], overlay: OverlaySpec | None) -> list[Sample]:
    """One sample a line, in the order of the files."""
    refuse_overlay(", ".join(map(str, files)), overlay)
    lines = {
        f"{path}:{number}": line
        for path in files
        for number, line in enumerate(read_text(path).split("\n"), start=1)
        if line.strip()
    }
    samples = {place: _sample(line, place=place) for place, line in lines.items()}
    refuse_repeats((place, sample.id) for place, sample in samples.items())
    return list(samples.values())


def _sample(line: str, *, place: str) -> Sample:
    parsed = _parsed(line, place=place)
    for name, texts in parsed.references.items():
        if not texts or not all(text.strip() for text in texts):
            raise DataError(f"{place}: reference {name!r} has no text; give one or remove it")
    try:
        values = structs.asdict(parsed)
        del values["provenance"]
        values["id"] = parsed.id or f"{parsed.group}-{digest((parsed.group, parsed.fields))[:10]}"
        return Sample(**values)
    except ValueError as error:
        raise DataError(f"{place}: {error}; rename one of them") from error


def _parsed(line: str, *, place: str) -> SampleLine:
    """A line, checked; its faults are DataErrors, as the line is data and not a spec."""
    try:
        content = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise DataError(f"{place}: not JSON ({error}); give one JSON object a line") from error
    if not isinstance(content, dict):
        raise DataError(f"{place}: {type(content).__name__}, not an object; put it in braces")
    try:
        parsed: SampleLine = load_spec(content, SampleLine, where=place)
    except SpecError as error:
        raise DataError(f"{error}; correct the line") from error
    return parsed
