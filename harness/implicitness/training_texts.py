"""A table of the texts that a scorer was trained on, to their fingerprints.

Those of a file are computed once and kept by its digest; of its texts nothing is kept.
"""

import hashlib
import logging
from pathlib import Path
from typing import Final

from harness.errors import DataError, StoreError
from harness.implicitness.pairs import RELEASED
from harness.storage.layouts import layout_of
from harness.storage.runs import write_whole
from harness.storage.table_files import Table, read_table
from harness.text.dedup import fingerprint

_log = logging.getLogger(__name__)
COLUMNS: Final = (*RELEASED, "implicit", "explicit", "levels", "text")


def trained_on(path: Path, kept: Path) -> frozenset[str]:
    """The fingerprints (sameness) of the texts in a file, from the folder where they are kept."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); correct `trained_on:` in the scorer's YAML"
        ) from error
    known = kept / f"{hashlib.sha256(data).hexdigest()}.txt"
    if known.is_file():
        return frozenset(known.read_text("utf-8").split())
    layout = layout_of(path.name, data, has_column=True)
    found = fingerprints(read_table(str(path), data, layout), where=str(path))
    try:
        write_whole(known, "".join(f"{one}\n" for one in sorted(found)).encode())
    except StoreError as error:
        _log.warning("%s; the fingerprints will be computed again", error)
    return found


def fingerprints(table: Table, *, where: str) -> frozenset[str]:
    """The fingerprints of the texts of a table, in whichever of COLUMNS it has.

    Lists of texts count as the texts in them; cells without a text do not count.
    """
    places = [place for place, name in enumerate(table.columns) if name in COLUMNS]
    cells = [cell for place in places for cell in table.cells(place)]
    parts = [part for cell in cells for part in (cell if isinstance(cell, list) else [cell])]
    texts = {part for part in parts if isinstance(part, str) and part.strip()}
    if not texts:
        raise DataError(
            f"{where}: no texts in any column of {', '.join(COLUMNS)}; call the column of the "
            "texts `text`"
        )
    return frozenset(map(fingerprint, texts))
