"""Results to stdout as tables or JSON; messages to stderr.

What a terminal would obey is removed from all that is put on it, whoever wrote it. Only on
a terminal, or where COLUMNS is set, are lines wrapped and tables split; only on a terminal is
coloured what needs attention.
"""

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass
from io import TextIOWrapper, UnsupportedOperation
from math import ceil, floor, fsum, log10
from operator import attrgetter
from pathlib import Path
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import msgspec

from harness.parts import possible
from harness.storage.files import write_whole
from harness.text.cleanup import TURNING, for_display

if TYPE_CHECKING:
    from harness.models.client.cached import Stage
    from harness.present.figures.figure import Figure

HEADINGS = {"interval": "95% interval"}
_ESCAPED = re.compile(rf"[\x7f-\x9f{TURNING}]")
ERASE = "\r\x1b[K"
"""Empties the line that the cursor is in: a line of progress may stand there."""
_FEWEST_COLUMNS = 20


@dataclass(frozen=True, slots=True)
class Marked:
    """A cell that needs attention: on a terminal it is coloured."""

    value: "str | int | float | None"


Cell = str | int | float | tuple[float | None, float | None] | Marked | None


class OncePerCommand(logging.Filter):
    """Shows each message about data once a command: several models read the same data.

    So with others whose record has `is_once`.
    """

    of = ("harness.workspace", "harness.data", "harness.implicitness.open")

    def __init__(self) -> None:
        """No message has been shown yet."""
        super().__init__()
        self._shown: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to show a record."""
        if not (record.name.startswith(self.of) or hasattr(record, "is_once")):
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
        print(_message(message), file=sys.stderr)


def _message(text: str) -> str:
    width, clean = screen_width(sys.stderr), for_display(text)
    if width is None:
        return clean
    label, mark, rest = wrapped(clean, width).partition(":")
    is_alarm = label in ("alarm", "WARNING", "ERROR")
    label = attention(label, sys.stderr) if is_alarm else label
    erase = ERASE if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else ""
    return f"{erase}{label}{mark}{rest}"


def echo(text: str, *, is_prose: bool = False) -> None:
    """Result text, on stdout; prose is wrapped to fit, other text stands as it is."""
    clean, width = for_display(text), screen_width() if is_prose else None
    print(clean if width is None else wrapped(clean, width))


def screen_width(stream: TextIO | None = None) -> int | None:
    """The columns that fit where a stream, by default stdout, goes to; None for no limit.

    COLUMNS goes before what a terminal says, and without either a terminal has 80. What goes
    elsewhere, as into a file, has a limit only by COLUMNS.
    """
    stream, given = stream or sys.stdout, os.environ.get("COLUMNS", "")
    found = int(given) if given.isdecimal() else 0
    if not found and not stream.isatty():
        return None
    with suppress(OSError):
        found = found or os.get_terminal_size(stream.fileno()).columns
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
    sys.stdout.write(_json(value) + "\n")


def echo_json_rows(rows: Iterable[object]) -> None:
    """A list as `echo_json` prints it, row by row as they come."""
    mark = "["
    for row in rows:
        sys.stdout.write(f"{mark}\n  " + _json(row).replace("\n", "\n  "))
        mark = ","
    sys.stdout.write("\n]\n" if mark == "," else "[]\n")


def _json(value: object) -> str:
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
    return clean


def put_rows(
    rows: Sized,
    files: Mapping[Path, str],
    show: Callable[[], object],
    *,
    is_json: bool,
    chart: "Figure | None" = None,
) -> None:
    """Write a result's table and the figure of a chart; then print it as JSON or by `show`.

    Without a file the result is only printed.
    """
    for path, text in files.items():
        write_whole(path, text.encode())
    table = next(iter(files), None)
    drawn = "" if chart is None or table is None else draw_beside(table, chart)
    if is_json:
        echo_json(rows)
        return
    show()
    if table is not None:
        echo(f"wrote {len(rows)} rows to {table}{drawn}")


def draw_beside(table: Path, chart: "Figure") -> str:
    """Write the figure of a table beside it as SVG, and say so; or what to install first."""
    from harness.present.figures.figure import missing_package, pictures

    if why := missing_package():
        log(why)
        return ""
    path = table.with_suffix(".svg")
    write_whole(path, pictures(chart, [".svg"])[".svg"])
    return f", a figure to {path}"


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
    """A table on stdout, in blocks of columns that fit, each with the key columns.

    None for a row draws a line.
    """
    lines = [None if row is None else [*map(_flat, row)] for row in (head, *rows)]
    flags = [[isinstance(v, Marked) for v in row or ()] for row in (head, *rows)]
    columns = list(zip(*(line for line in lines if line is not None), strict=True))
    widths = [max(map(_cells, column)) for column in columns]
    room = screen_width()
    print(for_display(title) if room is None else wrapped(for_display(title), room))
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
    return for_display(cell(value)).replace("\n", " ")


def _cells(text: str) -> int:
    """How many columns of a terminal a text takes: characters of some scripts take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def blocks(widths: Sequence[int], room: int, keys: int = 1) -> list[list[int]]:
    """The columns of each block of a table that fits into `room`; the key columns are in each.

    Of key columns that are too wide beside another one only the first ones are repeated.
    """
    count = min(keys, len(widths))
    while count > 1 and sum(widths[:count]) + 2 * count + max(widths[count:], default=0) > room:
        count -= 1
    first = [*range(count)]
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
        case Marked():
            return cell(value.value)
        case _:
            return str(value)


def p_value(value: float | None) -> str:
    """The p of a test for a table; one that would be printed as 0 is printed as a bound."""
    return "<.001" if value is not None and value < 0.0005 else cell(value)


def usd(value: float | None) -> str:
    """US dollars: four decimals, more where these would leave less than two digits."""
    value = possible(value)
    if not value:
        return "-" if value is None else "0"
    places = 4 if value >= 0.001 else 1 - floor(log10(value))
    return f"{value:.{places}f}"


def folded(names: Sequence[str]) -> str:
    """Names in a sentence: the first and the last of four or more, with their number."""
    return ", ".join(names) if len(names) < 4 else f"{names[0]} to {names[-1]} ({len(names)})"


_T = TypeVar("_T")
EVERY_S, LIVE_EVERY_S = 10.0, 0.1


class ProgressLine:
    """Shows the progress of a stage; a live line is erased when its stage ends."""

    def __init__(self, verb: str = "stored") -> None:
        """Nothing is shown before the first call; `verb` follows counts: `2 of 3 stored`."""
        self._verb = verb
        self._shown = self._began = 0.0
        self._stage, self._run, self._first = "", "", 0
        self._spent: dict[str, float] = {}
        self._is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def each(self, names: Sequence[str], runs: Iterable[_T]) -> Iterator[_T]:
        """The runs of some names as they end; meanwhile a live line says which one it is of."""
        ended = iter(runs)
        for place, name in enumerate(names, 1):
            self._run = f"[{place}/{len(names)} {name}] "
            yield next(ended)

    def __call__(
        self,
        stage: "Stage | str",
        done: int,
        total: int,
        failed: int = 0,
        spent_usd: float | None = None,
    ) -> None:
        """Show that `done` of the `total` calls or texts of a stage are done, `failed` of them.

        `spent_usd` is what the calls of this stage have cost so far.
        """
        now, name = time.monotonic(), f"{self._run}{stage}"
        if name != self._stage:
            self._began, self._first = now, done
        elif done < total and now - self._shown < (LIVE_EVERY_S if self._is_live else EVERY_S):
            return
        self._stage, self._shown = name, now
        self._spent[name] = spent_usd or 0.0
        lost = f", {failed} failed" if failed else ""
        if not self._is_live:
            line = f"{stage}: {done - failed} of {total} {self._verb}{lost}"
            with suppress(OSError):
                print(_one_line(line), file=sys.stderr, flush=True)
            return
        line = f"{self._live(stage, done, total)}{lost}" if done < total else ""
        room = (screen_width(sys.stderr) or 80) - 1
        with suppress(OSError):
            print(f"{ERASE}{_one_line(line)[:room]}", end="", file=sys.stderr, flush=True)

    def _live(self, stage: "Stage | str", done: int, total: int) -> str:
        words = stage if isinstance(stage, str) else stage.short
        facts = [f"{self._run}{words} {done}/{total}"]
        if done > self._first:
            rate = (done - self._first) / max(self._shown - self._began, 1e-9)
            facts.append(f"{rate:.0f}/s" if rate >= 1 else f"{60 * rate:.0f}/min")
            facts.append(f"{duration((total - done) / rate)} left")
        if spent := sum(self._spent.values()):
            facts.append(f"{spent:.2f} USD")
        return "  ".join(facts)


def _one_line(text: str) -> str:
    return for_display(text).replace("\n", " ")


def duration(seconds: float) -> str:
    """A time to wait in its two largest units: 55 s, 3 min 20 s, 2 h 5 min."""
    whole = ceil(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes < 10 and rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def usd_range(spans: Sequence[tuple[float, float]]) -> str:
    """What some calls cost together, from the least to the most."""
    least, most = (fsum(span[end] for span in spans) for end in range(2))
    return f"{usd(least)} to {usd(most)}"
