"""The FILE that commands read texts from: its options, and its rows in any supported format."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.output import log
from harness.errors import DataError, SpecError

if TYPE_CHECKING:
    from harness.storage.tables import Table

STDIN = "-"
File = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="CSV, TSV, JSON lines, Parquet or plain lines; - reads stdin."
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", help="Format of FILE: csv, tsv, jsonl, parquet or lines. Default: by its name."
    ),
]


def read_input(file: str, layout: str | None, *, has_column: bool) -> "tuple[Table, str]":
    """The rows of a file or of stdin, and its name for messages."""
    from harness.storage.tables import FileFormat, detect_format, format_by_name, read_table

    name = "stdin" if file == STDIN else file
    if layout is not None and layout not in [*FileFormat]:
        raise SpecError(f"--format {layout!r}: give one of {', '.join(FileFormat)}")
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror}); correct the path") from error
    kind = FileFormat(layout) if layout else detect_format(name, data, has_column=has_column)
    if kind is FileFormat.LINES and has_column:
        raise SpecError(
            f"{name}: is read as plain lines, which have no columns; if it has columns, give it a "
            "name that ends in .csv or .tsv, or give --format if the command has it"
        )
    is_guess = layout is None and format_by_name(name) is None and not has_column
    if is_guess and kind is FileFormat.LINES and _looks_like_csv(data):
        log(f"{name}: read as plain lines; --column NAME reads it as CSV")
    try:
        return read_table(name, data, kind), name
    except DataError as error:
        if is_guess and kind is FileFormat.JSONL:
            raise DataError(f"{error}, or give --format lines if it is plain text") from error
        raise


def log_overlap(scorer: str, overlap: int | None, total: int, what: str = "texts") -> None:
    """Warn where a scorer was, or may have been, trained on the texts that it measured."""
    from harness.implicitness.scorer import overlap_message

    if line := overlap_message(scorer, overlap, total, what=what):
        log(line)


def _looks_like_csv(data: bytes) -> bool:
    """Whether the first line and most others have the same number of commas outside quotes."""
    lines = data[:65536].decode("utf-8", "replace").splitlines()[:50]
    first, *others = [re.sub('"[^"]*"', "", line).count(",") for line in lines if line] or [0]
    return first > 0 and 2 * others.count(first) > len(others) > 0
