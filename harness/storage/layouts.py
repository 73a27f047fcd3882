"""Names and first bytes of files of texts to how they hold their rows.

CSV, TSV, JSON lines, Parquet and plain lines. Nothing here reads a row.
"""

from enum import StrEnum
from typing import Final

from harness.errors import DataError

PARQUET_MARK: Final = b"PAR1"
BOM: Final = b"\xef\xbb\xbf"


class FileFormat(StrEnum):
    """How a file holds its rows."""

    CSV = "csv"
    TSV = "tsv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    LINES = "lines"

    @property
    def mark(self) -> str:
        """What parts the cells of delimited text."""
        return "\t" if self is FileFormat.TSV else ","


ENDINGS: Final = {
    **dict.fromkeys((".parquet", ".parquet.gzip", ".parquet.gz", ".pq"), FileFormat.PARQUET),
    **dict.fromkeys((".jsonl", ".ndjson"), FileFormat.JSONL),
    **{".tsv": FileFormat.TSV, ".csv": FileFormat.CSV, ".txt": FileFormat.LINES},
}


def named_layout(name: str) -> FileFormat | None:
    """The layout that the end of a file's name tells; null where it tells none."""
    ends = (end for end in ENDINGS if name.lower().endswith(end))
    return next((ENDINGS[end] for end in ends), None)


def layout_of(name: str, data: bytes, *, has_column: bool) -> FileFormat:
    """The layout of a file by its content, then its name; `-` and others by what was asked.

    JSON lines begin with a brace; of other text a column makes CSV, none plain lines. Text that
    begins as a list of JSON does is refused: it would be neither.
    """
    if data.startswith(PARQUET_MARK):
        return FileFormat.PARQUET
    if (found := named_layout(name)) is not None:
        return found
    start = data.removeprefix(BOM).lstrip()
    if start.startswith(b"{"):
        return FileFormat.JSONL
    if start.startswith(b"["):
        raise DataError(
            f"{name}: begins with '[', as a list of JSON does; write one object a line, or say "
            "what else it is, as by --format lines or a name in .txt"
        )
    return FileFormat.CSV if has_column else FileFormat.LINES
