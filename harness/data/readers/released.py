"""What several readers of released data share: JSON files, and what each of them refuses."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import DataError, SpecError
from harness.specs.data import OverlaySpec
from harness.storage.cells import decode_json
from harness.storage.tables import TableRow, read_text


def read_json(path: Path, layout: Any, described: str) -> Any:  # noqa: ANN401 - a type, and its value
    """The content of a JSON file as the type `layout`; errors describe the layout in words."""
    try:
        return decode_json(read_text(path), layout)
    except msgspec.DecodeError as error:
        fact = f"{path}: not the released layout ({described}): {error}"
        raise DataError(f"{fact}; fetch it again") from error


def refuse_overlay(source: str, overlay: OverlaySpec | None) -> None:
    """Raise SpecError where a task gives corrections for data that takes none."""
    if overlay is not None:
        remedy = "remove `overlay` from the task's data"
        raise SpecError(f"{source}: this data takes no overlay; {remedy}")


def refuse_repeats(named: Iterable[tuple[str, str]]) -> None:
    """Raise DataError where two samples, given as place and id, share an id."""
    first: dict[str, str] = {}
    for place, name in named:
        if (known := first.setdefault(name, place)) != place:
            fact = f"{place}: id {name!r} is also that of {known}"
            raise DataError(f"{fact}; remove one, or change its id")


def damaged(row: TableRow, fact: str) -> DataError:
    """The error for a row that is not as released."""
    return DataError(f"{row.place}: {fact}; fetch the file again")
