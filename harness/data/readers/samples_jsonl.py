"""Sample sets in this program's own format to samples: one JSON object a line.

A sample set takes no overlay: corrections belong into the file itself.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import field, structs

from harness.core import Sample
from harness.data.readers.released import refuse_overlay, refuse_repeats
from harness.errors import DataError, SpecError
from harness.parts import digest
from harness.specs.data import OverlaySpec
from harness.specs.schema import Spec, load_spec
from harness.storage.tables import json_objects, read_text


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
    samples = {
        f"{path}:{number}": _sample(content, place=f"{path}:{number}")
        for path in files
        for number, _, content in json_objects(str(path), read_text(path))
    }
    refuse_repeats((place, sample.id) for place, sample in samples.items())
    return list(samples.values())


def _sample(content: dict[str, Any], *, place: str) -> Sample:
    try:
        parsed = load_spec(content, SampleLine, where=place)
    except SpecError as error:  # the line is data and not a spec
        raise DataError(f"{error}; correct the line") from error
    for name, texts in parsed.references.items():
        if not texts or not all(text.strip() for text in texts):
            raise DataError(f"{place}: reference {name!r} has no text; give one or remove it")
    values = structs.asdict(parsed)
    del values["provenance"]
    values["id"] = parsed.id or f"{parsed.group}-{digest((parsed.group, parsed.fields))[:10]}"
    try:
        return Sample(**values)
    except ValueError as error:
        raise DataError(f"{place}: {error}; rename one of them") from error
