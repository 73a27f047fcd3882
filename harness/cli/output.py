"""Results to stdout as tables or JSON; messages to stderr.

Control characters are removed from texts of models and data before they reach a terminal. Only on
a terminal are lines wrapped, tables split, and what needs attention coloured.
"""

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from math import floor, log10
from operator import attrgetter
from pathlib import Path
from textwrap import TextWrapper
from typing import Any, TextIO

import msgspec

from harness.storage.files import write_whole
from harness.text.cleanup import without_controls

HEADINGS = {"interval": "95% interval"}
ERASE = "\r\x1b[K"
"""Empties the line that the cursor is in: a line of progress may stand there."""
_FEWEST_COLUMNS = 20


@dataclass(frozen=True, slots=True)
class Flagged:
    """A cell that needs attention: on a terminal it is coloured."""

    value: "str | int | float | None"


Cell = str | int | float | tuple[float | None, float | None] | Flagged | None


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


class LogLines(logging.Formatter):
    """Messages of the program's parts as `log` shows its own."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as lines that fit the terminal."""
        return _message(super().format(record))


def log(message: str) -> None:
    """One message on stderr."""
    print(_message(message), file=sys.stderr)


def _message(text: str) -> str:
    width, clean = screen_width(sys.stderr), without_controls(text)
    if width is None:
        return clean
    label, mark, rest = wrapped(clean, width).partition(":")
    is_alarm = label in ("alarm", "WARNING", "ERROR")
    label = attention(label, sys.stderr) if is_alarm else label
    erase = "" if os.environ.get("TERM") == "dumb" else ERASE
    return f"{erase}{label}{mark}{rest}"


def echo(text: str, *, is_prose: bool = False) -> None:
    """Result text, on stdout; prose is wrapped on a terminal, other text stands as it is."""
    clean, width = without_controls(text), screen_width() if is_prose else None
    print(clean if width is None else wrapped(clean, width))


def screen_width(stream: TextIO | None = None) -> int | None:
    """The columns of the terminal that a stream, by default stdout, goes to; None for no terminal.

    COLUMNS goes before what the terminal says; without either there are 80.
    """
    stream = stream or sys.stdout
    if not stream.isatty():
        return None
    given = os.environ.get("COLUMNS", "")
    try:
        found = int(given) if given.isdecimal() else os.get_terminal_size(stream.fileno()).columns
    except OSError:
        found = 0
    return max(found or 80, _FEWEST_COLUMNS)


def wrapped(text: str, width: int) -> str:
    """Text whose lines fit a width, broken at spaces alone; signatures also after their marks."""
    wrapper = TextWrapper(width, break_on_hyphens=False, break_long_words=False)
    wrapper.subsequent_indent = "  "
    if "|" in text:
        wrapper.wordsep_simple_re = re.compile(r"((?<=[|/])|\s+)")
    lines = text.split("\n")
    return "\n".join(wrapper.fill(line) if len(line) > width else line for line in lines)


def attention(text: str, stream: TextIO | None = None) -> str:
    """The text in the colour of what needs attention, where a stream shows colours.

    It does not where NO_COLOR is set (no-color.org), where TERM is dumb, and where it is no
    terminal.
    """
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if is_plain or not (stream or sys.stdout).isatty():
        return text
    return f"\x1b[33m{text}\x1b[0m"


def echo_json(value: object) -> None:
    """Indented JSON on stdout, with every control character escaped."""
    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
    # JSON itself escapes those below a space; some terminals obey these as well.
    clean = re.sub(r"[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text)
    sys.stdout.write(clean + "\n")


def put_rows(
    rows: Sized, files: Mapping[Path, str], show: Callable[[], object], *, is_json: bool
) -> None:
    """Write a result's files: a table, then plots; then print it as JSON or by `show`."""
    for path, text in files.items():
        write_whole(path, text.encode())
    if is_json:
        echo_json(rows)
        return
    show()
    table, *plots = files
    echo(f"wrote {len(rows)} rows to {table}{''.join(f', a plot to {path}' for path in plots)}")


def echo_records(
    title: str, records: Iterable[Any], columns: str, **shown: Callable[[Any], Cell]
) -> None:
    """A table of records; `columns` names fields, comma-separated, or `heading=field`.

    Key columns, which each block of a wide table repeats, end in a semicolon; the first is one.
    `interval` is the 95 % interval, from low to high; `shown` has functions of other cells.
    """
    keys = columns.partition(";")[0].count(",") + 1 if ";" in columns else 1
    pairs = [part.strip().rpartition("=") for part in columns.replace(";", ",").split(",")]
    shown.setdefault("interval", lambda record: (record.low, record.high))
    head = [
        heading or HEADINGS.get(name) or name.rpartition(".")[2].replace("_", " ")
        for heading, _, name in pairs
    ]
    cells = [shown.get(name) or attrgetter(name) for _, _, name in pairs]
    rows = [[value(record) for value in cells] for record in records]
    echo_table(title, head, rows, keys=keys)


def echo_table(
    title: str, head: Sequence[str], rows: Iterable[Sequence[Cell] | None], *, keys: int = 1
) -> None:
    """A table on stdout; on a terminal in blocks of columns that fit, each with the key columns.

    None for a row draws a line.
    """
    lines = [None if row is None else [*map(_flat, row)] for row in (head, *rows)]
    flags = [[isinstance(v, Flagged) for v in row or ()] for row in (head, *rows)]
    columns = list(zip(*(line for line in lines if line is not None), strict=True))
    widths = [max(map(_cells, column)) for column in columns]
    room = screen_width()
    print(without_controls(title) if room is None else wrapped(without_controls(title), room))
    for block in [[*range(len(widths))]] if room is None else blocks(widths, room, keys):
        for line, flagged in zip(lines, flags, strict=True):
            if line is None:
                print("-" * (sum(widths[place] + 2 for place in block) - 2))
                continue
            parts = [
                (line[at] + " " * (widths[at] - _cells(line[at])), flagged[at]) for at in block
            ]
            print("  ".join(attention(t) if flag else t for t, flag in parts).rstrip())
        print()


def _flat(value: Cell) -> str:
    return without_controls(cell(value)).replace("\n", " ")


def _cells(text: str) -> int:
    """How many columns of a terminal a text takes: characters of some scripts take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def blocks(widths: Sequence[int], room: int, keys: int = 1) -> list[list[int]]:
    """The columns of each block of a table that fits into `room`; the key columns are in each."""
    first = [*range(min(keys, len(widths)))]
    made = [[*first]]
    for place in range(len(first), len(widths)):
        needed = sum(widths[one] + 2 for one in (*made[-1], place)) - 2
        if needed > room and len(made[-1]) > len(first):
            made.append([*first])
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
        case Flagged():
            return cell(value.value)
        case _:
            return str(value)


def p_value(value: float | None) -> str:
    """The p of a test for a table; one that would be printed as 0 is printed as a bound."""
    return "<.001" if value is not None and value < 0.0005 else cell(value)


def usd(value: float | None) -> str:
    """US dollars: four decimals, more where these would leave less than two digits."""
    if not value:
        return "-" if value is None else "0"
    places = 4 if value >= 0.001 else 1 - floor(log10(value))
    return f"{value:.{places}f}"


def folded(names: Sequence[str]) -> str:
    """Names in a sentence: the first and the last of four or more, with their number."""
    return ", ".join(names) if len(names) < 4 else f"{names[0]} to {names[-1]} ({len(names)})"
