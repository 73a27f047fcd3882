"""Results to stdout as tables or JSON; progress and messages to stderr.

What a terminal would obey is removed from all that is put on it, whoever wrote it.
"""

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from contextlib import suppress
from io import TextIOWrapper, UnsupportedOperation
from operator import attrgetter
from pathlib import Path
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from harness.storage.files import write_whole
from harness.text.cleanup import TURNING, for_display

if TYPE_CHECKING:
    from harness.analysis.figures.chart import Chart

HEADINGS = {"interval": "95% interval"}
_ESCAPED = re.compile(rf"[\x7f-\x9f{TURNING}]")
Cell = str | int | float | tuple[float | None, float | None] | None


class OncePerCommand(logging.Filter):
    """Shows each message about data once a command: several models read the same data."""

    of = ("harness.workspace", "harness.data", "harness.implicitness.open")

    def __init__(self) -> None:
        """No message has been shown yet."""
        super().__init__()
        self._shown: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to show a record."""
        if not record.name.startswith(self.of):
            return True
        message = record.getMessage()
        is_new = message not in self._shown
        self._shown.add(message)
        return is_new


class CleanMessages(logging.Formatter):
    """Messages of loggers as they may be shown."""

    def format(self, record: logging.LogRecord) -> str:
        """The message of a record, with its traceback if it has one."""
        return for_display(super().format(record))


def prepare_streams() -> None:
    """Open what is closed of stdin, stdout and stderr, as nothing; let all three show any text.

    Else the next file that is opened would be taken for stdout, and receive what is printed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def stream_fault(stream: TextIO, *, is_tried: bool = False) -> str | None:
    """Why a stream takes no more, as when a disk is full; None where it does.

    With `is_tried` an empty line is written to it: without a buffer there is nothing to flush. What
    it holds is dropped where it takes no more, so that the end of the program does not try again.
    """
    try:
        stream.flush()
        if is_tried:
            os.write(stream.fileno(), b"\n")
    except UnsupportedOperation:  # it is no file, and takes all
        return None
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error.strerror or str(error)
    return None


def log(message: str) -> None:
    """One message on stderr; what cannot be told there ends no command."""
    with suppress(OSError):
        print(for_display(message), file=sys.stderr)


def echo(text: str) -> None:
    """Result text, on stdout."""
    print(for_display(text))


def echo_json(value: object) -> None:
    """Indented JSON on stdout, with every control character escaped."""
    try:
        text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
    except UnicodeEncodeError:  # a folder's name that is no UTF-8
        text = json.dumps(msgspec.to_builtins(value, enc_hook=str), indent=2)
    # JSON itself escapes those below a space; some terminals obey these as well.
    clean = _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    try:
        clean.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        clean = re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], clean)
    sys.stdout.write(clean + "\n")


def put_rows(
    rows: Sized,
    files: Mapping[Path, str],
    show: Callable[[], object],
    *,
    is_json: bool,
    chart: "Chart | None" = None,
) -> None:
    """Write a result's table and the figure of a chart; then print it as JSON or by `show`."""
    for path, text in files.items():
        write_whole(path, text.encode())
    table, *_ = files
    drawn = "" if chart is None else draw_beside(table, chart)
    if is_json:
        echo_json(rows)
        return
    show()
    echo(f"wrote {len(rows)} rows to {table}{drawn}")


def draw_beside(table: Path, chart: "Chart") -> str:
    """Write the figure of a table beside it as SVG, and say so; or what to install first."""
    from harness.analysis.figures.drawing import lacking, svg

    if why := lacking():
        log(why)
        return ""
    path = table.with_suffix(".svg")
    write_whole(path, svg(chart).encode())
    return f", a figure to {path}"


def echo_records(
    title: str, records: Iterable[Any], columns: str, **shown: Callable[[Any], Cell]
) -> None:
    """A table of records; `columns` names fields, comma-separated, or `heading=field`.

    `interval` is the 95 % interval, from low to high; `shown` has functions of other cells.
    """
    pairs = [part.strip().rpartition("=") for part in columns.split(",")]
    shown.setdefault("interval", lambda record: (record.low, record.high))
    head = [
        heading or HEADINGS.get(name) or name.rpartition(".")[2].replace("_", " ")
        for heading, _, name in pairs
    ]
    cells = [shown.get(name) or attrgetter(name) for _, _, name in pairs]
    echo_table(title, head, [[value(record) for value in cells] for record in records])


def echo_table(title: str, head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """A table on stdout: plain columns; on a terminal, blocks of columns that fit its width."""
    title, lines = for_display(title), [[_one_line(cell(v)) for v in row] for row in (head, *rows)]
    if sys.stdout.isatty():
        _draw(title, lines)
        return
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(title)
    for line in lines:
        cells = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())
    print()


def _one_line(text: str) -> str:
    return for_display(text).replace("\n", " ")


def _draw(title: str, lines: list[list[str]]) -> None:
    """Print a table that is wider than the terminal in blocks, each with the first column."""
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    wrapper = TextWrapper(console.width, subsequent_indent="  ", break_on_hyphens=False)
    wrapper.wordsep_simple_re = re.compile(r"((?<=[|/])|\s+)")  # signatures: between their fields
    console.print(Text(wrapper.fill(title)))
    for block in blocks(widths, console.width):
        table = Table(box=box.SIMPLE_HEAD)
        for place in block:
            table.add_column(Text(lines[0][place]), overflow="fold")
        for line in lines[1:]:
            table.add_row(*(Text(line[place]) for place in block))
        console.print(table)


def blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    """The columns of each block of a table that fits into `room` cells; the first is in each."""
    made = [[0]]
    for place in range(1, len(widths)):
        # A drawn column has a space at either side and one before the next column.
        needed = sum(widths[one] + 3 for one in (*made[-1], place)) + 1
        if needed > room and len(made[-1]) > 1:
            made.append([0])
        made[-1].append(place)
    return made


def cell(value: Cell) -> str:
    """A value in a table: a score in three decimals, a pair as an interval, a dash for None."""
    match value:
        case None | (None, None):
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.3f}"
        case (low, high):
            return f"{cell(low)} to {cell(high)}"
        case _:
            return str(value)


def p_value(value: float | None) -> str:
    """The p of a test for a table; one that would be printed as 0 is printed as a bound."""
    return "<.001" if value is not None and value < 0.0005 else cell(value)


class ProgressLine:
    """Shows the progress of a stage: a live line on a terminal, else a line every ten seconds."""

    def __init__(self, verb: str = "stored") -> None:
        """Nothing is shown before the first call; `verb` follows counts: `2 of 3 stored`."""
        self._verb = verb
        self._shown = 0.0
        self._stage = ""
        self._is_live = sys.stderr.isatty()

    def __call__(self, stage: str, done: int, total: int, failed: int = 0) -> None:
        """Show that `done` of the `total` calls or texts of a stage are done, `failed` of them."""
        now = time.monotonic()
        is_due = stage != self._stage or done == total
        if not is_due and now - self._shown < (0.1 if self._is_live else 10.0):
            return
        self._stage, self._shown = stage, now
        line = f"{_one_line(stage)}: {done - failed} of {total} {self._verb}"
        line += f", {failed} failed" if failed else ""
        start, end = ("\r\x1b[K", "\n" if done == total else "") if self._is_live else ("", "\n")
        with suppress(OSError):
            print(f"{start}{line}", end=end, file=sys.stderr, flush=True)
