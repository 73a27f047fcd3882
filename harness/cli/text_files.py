"""The FILE that commands read texts from, whatever it is: its options, and its rows."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.errors import DataError, SpecError

if TYPE_CHECKING:
    from harness.table_files import Table

STDIN = "-"
File = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="CSV, TSV, JSON lines, Parquet or plain lines; - reads from stdin."
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", help="What FILE is: csv, tsv, jsonl, parquet or lines. Default: by its name."
    ),
]


def opened(file: str, layout: str | None, *, has_column: bool) -> "tuple[Table, str]":
    """The rows of a file, or of what comes from stdin, and what errors call it."""
    from harness.layouts import Layout, layout_of
    from harness.table_files import read_table

    name = "stdin" if file == STDIN else file
    if layout is not None and layout not in [*Layout]:
        raise SpecError(f"--format {layout!r}: give one of {', '.join(Layout)}")
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror}); correct the path") from error
    kind = Layout(layout) if layout else layout_of(name, data, has_column=has_column)
    if kind is Layout.LINES and has_column:
        raise SpecError(
            f"{name}: is read as plain lines, which have no columns; say what it is, as by "
            "--format tsv or a name that ends in .tsv, or name no column"
        )
    return read_table(name, data, kind), name
