"""What commands print: results on stdout as tables or JSON, messages and progress on stderr.

Text of models and data is shown as it is, never read as markup, and without what a terminal would
obey. Only on a terminal, or with COLUMNS set, are lines wrapped and wide tables split.
"""

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from io import TextIOWrapper, UnsupportedOperation
from itertools import accumulate
from math import ceil, floor, fsum, inf, isnan, log10
from stat import S_ISREG
from textwrap import TextWrapper, shorten, wrap
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeVar

import msgspec

from harness.lazy import DataFrame
from harness.parts import possible
from harness.text.cleanup import TURNING, for_display

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

HEADINGS = {"interval": "95% interval"}
ALARMS = ("alarm", "WARNING", "ERROR")
"""Messages that begin so are coloured."""
_ESCAPED = re.compile(rf"[\x7f-\x9f{TURNING}]")
_FEWEST_COLUMNS, _FEWEST_LINES, _LEAST_OF_BLOCK = 20, 10, 4
_GAP, _NARROWEST_TEXT = 2, 16
_NUMBER = re.compile(r"[-+~<]?[-\d.,]*%?( (to|/) -?[\d.]+)*")
MOST_LAST = 5  # so many lines of sentences that end a page are not cut

Cell = str | int | float | tuple[float | None, float | None] | None


def prepare_streams() -> None:
    """Have stdout and stderr show any text, or nothing where they are closed from the start."""
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def stream_fault(stream: TextIO, *, is_tried: bool = False) -> str | None:
    """Why a stream cannot be written to, as when a disk is full; None if it can.

    With `is_tried` an empty line is written: without a buffer there is nothing to flush. The buffer
    of a stream at fault is dropped, so that the end of the program does not try again.
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


def screen_width(stream: TextIO | None = None) -> int | None:
    """The columns of COLUMNS, else of a stream's terminal; None, no limit, for a file or pipe."""
    stream, given = stream or sys.stdout, os.environ.get("COLUMNS", "")
    found = int(given) if given.isdecimal() else 0
    if not found and not stream.isatty():
        return None
    with suppress(OSError):
        found = found or os.get_terminal_size(stream.fileno()).columns
    return max(found or 80, _FEWEST_COLUMNS)


def wrapped(text: str, width: int | None) -> str:
    """Text whose lines fit a width, broken at spaces alone; signatures also after their marks."""
    if width is None:
        return text
    wrapper = TextWrapper(width, break_on_hyphens=False, break_long_words=False)
    wrapper.subsequent_indent = "  "
    if "|" in text:
        wrapper.wordsep_simple_re = re.compile(r"((?<=[|/])|\s+)")
    lines = text.split("\n")
    return "\n".join(wrapper.fill(line) if len(line) > width else line for line in lines)


class Page:
    """What a command prints on stdout, cut to one screen: how it begins, and its last sentences."""

    def __init__(self) -> None:
        """Until `begin`, and after `end`, everything is printed at once."""
        self.begin(None)

    def begin(self, lines: int | None, *, is_silent: bool = False) -> None:
        """Hold what follows for `end`, which prints what fits a screen of so many lines.

        With None, and into a file, all is printed at once, uncut; if it is silent, nothing is.
        `is_whole`, of None alone, also has commands print what they would leave out.
        """
        is_held = not is_silent and not _is_file(sys.stdout)
        self.room = max(lines - 1, _FEWEST_LINES) if lines and is_held else None
        self.is_whole = lines is None
        self._is_silent, self._held = is_silent, list[tuple[list[str], bool]]()

    def put(self, text: str, *, may_end: bool = False) -> None:
        """Print or hold a text; one that `may_end` a page is not cut where it does."""
        if self.room is not None:
            self._held.append((text.split("\n"), may_end))
        elif not self._is_silent:
            print(text)

    def end(self) -> None:
        """Print what is held: all of it, or what fits and how many lines more there are.

        What reads from a pipe may drop lines: there stderr has the number, too.
        """
        held, room, more = self._held, self.room or 0, ""
        self.begin(None)
        lines, last = [line for own, _ in held for line in own], list[str]()
        if sum(map(_height, lines)) > room:
            while held and held[-1][1] and len(held[-1][0]) + len(last) <= MOST_LAST:
                sentence, _ = held.pop()
                # What a command itself says of --all would repeat the count of the page.
                last = sentence * (not sentence[0].startswith("--all prints")) + last
            lines, starts = [line for own, _ in held for line in own], [0]
            starts += accumulate(len(own) for own, _ in held)
            room -= sum(map(_height, last)) + 2
            fit = sum(height <= room for height in accumulate(map(_height, lines)))
            start = max(place for place in starts if place <= fit)
            fit = fit if fit - start >= _LEAST_OF_BLOCK else start  # no sentence, no head alone
            more = f"--all prints {len(lines) - fit} more lines"
            lines = [*lines[:fit], "...", *last, more]
        print(*lines, sep="\n", end="\n" * bool(lines))
        warn(more if screen_width() is None else "")


def _is_file(stream: TextIO) -> bool:
    with suppress(OSError, AttributeError):  # a stream that is closed from the start is None
        return S_ISREG(os.fstat(stream.fileno()).st_mode)
    return False


def _height(line: str) -> int:
    """How many lines of a screen a line takes, without the codes of its style."""
    return max(1, ceil(len(re.sub(r"\x1b\[\d+m", "", line)) / (screen_width() or inf)))


PAGE = Page()


def say(text: str, *, is_raw: bool = False) -> None:
    """Print result text on stdout, wrapped to fit, or raw, with its lines as they are."""
    may_end = not is_raw and "\n" not in text
    PAGE.put(wrapped(for_display(text), None if is_raw else screen_width()), may_end=may_end)


def warn(message: str) -> None:
    """Print a message, if any, on stderr, above the live line; a closed one ends no command."""
    if not message:
        return
    text = wrapped(for_display(message), screen_width(sys.stderr))
    with suppress(OSError):
        if not _is_live():
            print(text, file=sys.stderr)
            return
        from rich.text import Text

        shown, label = Text(text), text.partition(":")[0]
        if label in ALARMS:
            shown.stylize("yellow", 0, len(label))
        _stderr().print(shown, soft_wrap=True)


class Messages(logging.Handler):
    """Shows what is logged as `warn` does; messages on data, or with `is_once`, once a command."""

    once = ("harness.workspace", "harness.data", "harness.implicitness.open")

    def __init__(self) -> None:
        """No message has been shown yet."""
        super().__init__()
        self.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        self._shown: set[str] = set()
        self.has_missing = False

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record."""
        text = self.format(record)
        self.has_missing |= hasattr(record, "is_missing")
        if record.name.startswith(self.once) or hasattr(record, "is_once"):
            if text in self._shown:
                return
            self._shown.add(text)
        warn(text)


def show_json(value: object, is_asked: bool = True) -> None:
    """Print indented JSON on stdout, if asked, with every control character escaped."""
    if is_asked:
        sys.stdout.write(_json(value) + "\n")


def show_json_rows(rows: Iterable[object]) -> None:
    """Print a list as `show_json` does, row by row."""
    mark = "["
    for row in rows:
        sys.stdout.write(f"{mark}\n  " + _json(row).replace("\n", "\n  "))
        mark = ","
    sys.stdout.write("\n]\n" if mark == "," else "[]\n")


def _json(value: object) -> str:
    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
    if "utf" not in (getattr(sys.stdout, "encoding", None) or "utf").lower():
        text = json.dumps(json.loads(text), indent=2)  # in ASCII
    # JSON itself escapes those below a space; some terminals obey these as well.
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def show(
    frame: DataFrame,
    title: str = "",
    *,
    notes: Sequence[str] = (),
    keys: int = 1,
    **shown: Callable[[Any], Cell],
) -> None:
    """Print a frame with its title above and its notes below; `shown` words values, by column."""
    head = [HEADINGS.get(name, str(name).replace("_", " ")) for name in frame.columns]
    values = frame.astype(object).where(frame.notna(), None)
    cells = [map(shown[n], values[n]) if n in shown else values[n] for n in frame.columns]
    show_rows(title, head, list(zip(*cells, strict=True)), keys)
    for note in notes:  # with their table, not the last sentences of all
        PAGE.put(wrapped(for_display(note), screen_width()))


def without_alike(frame: DataFrame, names: Sequence[str]) -> tuple[DataFrame, str]:
    """A frame without those of some columns that have one value, and these values in words."""
    alike = [name for name in names if name in frame and frame[name].nunique(dropna=False) == 1]
    words = ", ".join(str(frame[name].iat[0]) for name in alike)
    return frame.drop(columns=alike), words


def intervals(frame: DataFrame) -> list[tuple[float, float]]:
    """The cells of a column of intervals, from `low` to `high`."""
    return list(zip(frame["low"], frame["high"], strict=True))


def show_rows(
    title: str, head: Sequence[str], rows: Iterable[Sequence[Cell]], keys: int = 1
) -> None:
    """Print a table: if it is too wide, with its long texts wrapped, or in blocks of columns.

    Each block has the first `keys` columns.
    """
    from rich.table import Table
    from rich.text import Text

    columns = [[_one_line(cell(v)) for v in column] for column in zip(head, *rows, strict=True)]
    room = screen_width()
    start = f"{wrapped(for_display(title), room)}\n" if title else ""
    for block in _blocks(columns, room, keys):
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        for name, *texts in block:
            is_number = all(map(_NUMBER.fullmatch, texts))
            is_whole = room is None or _widest([name, *texts]) == _widest([name, *texts], " ")
            justify: Literal["left", "right"] = "right" if is_number else "left"
            table.add_column(Text(name), justify=justify, no_wrap=is_whole)
        for row in list(zip(*block, strict=True))[1:]:
            table.add_row(*map(Text, row))
        console = _console(sys.stdout, room or 100_000)
        with console.capture() as captured:
            console.print(table)
        PAGE.put(start + "\n".join(line.rstrip() for line in captured.get().split("\n")))
        start = ""


def _widest(texts: Iterable[str], mark: str | None = None) -> int:
    """The columns of the widest of some texts, or of their words."""
    from rich.cells import cell_len

    return max(cell_len(part) for text in texts for part in (text.split(mark) if mark else [text]))


def _blocks(columns: list[list[str]], room: int | None, keys: int) -> Iterator[list[list[str]]]:
    """The columns of each block that fits into `room`; as many key columns as fit are in each."""
    widths = [_widest(column) + _GAP for column in columns]
    words = [_widest(column, " ") + _GAP for column in columns]
    least = [max(min(w, _NARROWEST_TEXT + _GAP), n) for w, n in zip(widths, words, strict=True)]
    if room is None or sum(least) - _GAP <= room:
        yield columns
        return
    count, room = min(keys, len(widths)), room + _GAP
    while count > 1 and sum(widths[:count]) + max(widths[count:], default=0) > room:
        count -= 1
    used, start = sum(widths[:count]), count
    for place in range(count, len(widths)):
        if used + widths[place] > room and place > start:
            yield columns[:count] + columns[start:place]
            used, start = sum(widths[:count]), place
        used += widths[place]
    yield columns[:count] + columns[start:]


def show_names(head: Sequence[str], rows: Sequence[Sequence[str]], kinds: Sequence[str]) -> None:
    """Print names and what each is, in a line each if need be; of too many, the names by kind."""
    names = [max(map(len, own)) + _GAP for own in zip(head, *rows, strict=True)][:-1]
    width, room = max((screen_width() or 1000) - sum(names), _NARROWEST_TEXT), PAGE.room
    if room is None or sum(len(wrap(about, width)) for *_, about in rows) <= room - 2:
        show_rows("", head, rows)
    elif len(rows) <= room - 3:
        cut = [(*own, shorten(about, width, placeholder=" ...")) for *own, about in rows]
        show_rows("", head, cut)
        say("--all prints all of each line")
    else:
        for kind in sorted({*kinds}):
            own = [row[0] for row, of in zip(rows, kinds, strict=True) if of == kind]
            say(f"{kind or head[0]}: {', '.join(own)}")
        say("\n--all prints what each is")


def cell(value: Cell) -> str:
    """A value in a table: a score in three decimals, a pair as an interval, a dash for None."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return "-" if isnan(value) else f"{value:.3f}"
        case (low, high):
            ends = cell(low), cell(high)
            return "-" if ends == ("-", "-") else " to ".join(ends)
        case _:
            return str(value)


def p_value(value: float | None) -> str:
    """The p of a test for a table; one that would be printed as 0 is printed as a bound."""
    return "<.001" if value is not None and value < 0.0005 else cell(value)


def usd(value: float | None) -> str:
    """US dollars: four decimals, more if these would leave less than two digits."""
    value = possible(value)
    if not value:
        return "-" if value is None else "0"
    places = 4 if value >= 0.001 else 1 - floor(log10(value))
    return f"{value:.{places}f}"


def usd_range(spans: Sequence[tuple[float, float]]) -> str:
    """What some calls cost together, from the least to the most."""
    least, most = (fsum(span[end] for span in spans) for end in range(2))
    return f"{usd(least)} to {usd(most)}"


def folded(names: Sequence[str]) -> str:
    """Names in a sentence: the first and the last of four or more, with their number."""
    return ", ".join(names) if len(names) < 4 else f"{names[0]} to {names[-1]} ({len(names)})"


_T = TypeVar("_T")
EVERY_S = 10.0


def _is_live() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _console(stream: TextIO, width: int | None = None) -> "Console":
    from rich.console import Console

    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


@cache
def _stderr() -> "Console":
    return _console(sys.stderr)


class ProgressLine:
    """Shows the progress of a stage: a live line on a terminal, else a plain line now and then."""

    _line: "Progress | None" = None  # of the process: a terminal has one

    def __init__(self, verb: str = "stored") -> None:
        """Nothing is shown before the first call; `verb` follows counts: `2 of 3 stored`."""
        self._verb, self._printed = verb, 0.0
        self._stage, self._run = "", ""
        self._spent: dict[str, float] = {}

    def each(self, names: Sequence[str], runs: Iterable[_T]) -> Iterator[_T]:
        """The runs of some names as they end; meanwhile each line names the current one."""
        ended = iter(runs)
        for place, name in enumerate(names, 1):
            self.of(f"[{place}/{len(names)} {name}] ")
            yield next(ended)

    def of(self, run: str) -> None:
        """Name the run on the lines that follow."""
        self._run = run

    def __call__(
        self, stage: str, done: int, total: int, failed: int = 0, spent_usd: float | None = None
    ) -> None:
        """Show that `done` of `total` calls or texts are done, `failed` of them, for how much."""
        name, now = f"{self._run}{stage}", time.monotonic()
        is_new, self._stage = name != self._stage, name
        self._spent[name] = spent_usd or 0.0
        if _is_live():
            self._show_live(_one_line(name), done, total, failed, is_new=is_new)
        elif is_new or done >= total or now - self._printed >= EVERY_S:
            self._printed = now
            lost = f", {failed} failed" if failed else ""
            warn(_one_line(f"{name}: {done - failed} of {total} {self._verb}{lost}"))

    def _show_live(self, words: str, done: int, total: int, failed: int, *, is_new: bool) -> None:
        from rich.progress import Progress, TextColumn, TimeRemainingColumn

        if is_new or done >= total:
            self.close()
        if done >= total:
            return
        if ProgressLine._line is None:
            count = "{task.description} {task.completed}/{task.total}"
            columns = (count, TimeRemainingColumn(), "{task.fields[facts]}")
            shown = [TextColumn(c, markup=False) if isinstance(c, str) else c for c in columns]
            how: dict[str, Any] = {"console": _stderr(), "transient": True}
            line = Progress(*shown, redirect_stdout=False, speed_estimate_period=600, **how)
            line.add_task(words, total=total, facts="")
            line.start()
            ProgressLine._line = line
        spent = sum(self._spent.values())
        facts = [f"{spent:.2f} USD"] * bool(spent) + [f"{failed} failed"] * bool(failed)
        [task] = ProgressLine._line.task_ids
        ProgressLine._line.update(task, completed=done, facts=", ".join(facts), refresh=True)

    @staticmethod
    def close() -> None:
        """Erase the live line, as at the end of a command."""
        if ProgressLine._line is not None:
            ProgressLine._line.stop()
            ProgressLine._line = None


def _one_line(text: str) -> str:
    return for_display(text).replace("\n", " ")
