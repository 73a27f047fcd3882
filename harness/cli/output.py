"""What a person sees: tables and JSON on stdout, progress and messages on stderr.

Text from models and data loses its control characters before it reaches a terminal.
"""

import logging
import re
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from harness.text.controls import without_controls


class OncePerCommand(logging.Filter):
    """Lets what is said of data through once a command: several models read the same data."""

    of = ("harness.workspace", "harness.data", "harness.implicitness.bins")

    def __init__(self) -> None:
        """Nothing has been said yet."""
        super().__init__()
        self._said: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is to be shown."""
        if not record.name.startswith(self.of):
            return True
        message = record.getMessage()
        is_new = message not in self._said
        self._said.add(message)
        return is_new


def log(message: str) -> None:
    """One line for the person, on stderr."""
    print(without_controls(message), file=sys.stderr)


def echo(text: str) -> None:
    """Result text, on stdout."""
    print(without_controls(text))


def echo_json(value: object) -> None:
    """A result for a program: indented JSON on stdout, every control character escaped."""
    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=_plain), indent=2).decode()
    # JSON itself escapes those below a space; some terminals obey these as well.
    clean = re.sub(r"[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text)
    sys.stdout.write(clean + "\n")


def _plain(value: object) -> str:
    """What JSON has no form of its own for: paths."""
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"no JSON for {type(value).__name__}")


def echo_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table on stdout: drawn on a terminal, plain columns elsewhere."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(soft_wrap=not sys.stdout.isatty())
    if not console.is_terminal:
        _put_plain(title, [list(head), *map(list, rows)])
        return
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD)
    for name in head:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*(Text(without_controls(cell)) for cell in row))
    console.print(table)


def _put_plain(title: str, rows: list[list[str]]) -> None:
    clean = [[without_controls(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max(len(row[place]) for row in clean) for place in range(len(clean[0]))]
    print(title)
    for row in clean:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
    print()


def number(value: float | None) -> str:
    """A score for a table: three decimals, a dash where there is none."""
    return "-" if value is None else f"{value:.3f}"


def span(low: float | None, high: float | None) -> str:
    """An interval for a table; a dash where there is none."""
    return "-" if low is None and high is None else f"{number(low)} to {number(high)}"


def p_value(value: float | None) -> str:
    """The p of a test for a table: one that three decimals would make zero is told as a bound."""
    return "<.001" if value is not None and value < 0.0005 else number(value)


class ProgressLine:
    """Shows how far a stage is: a moving line on a terminal, a line each ten seconds elsewhere."""

    def __init__(self, verb: str = "stored") -> None:
        """Nothing is shown before the first call; `verb` is what has been done to what is done."""
        self._verb = verb
        self._shown = 0.0
        self._stage = ""
        self._is_live = sys.stderr.isatty()

    def __call__(self, stage: str, done: int, total: int, failed: int = 0) -> None:
        """Show that `done` of `total` calls or texts of a stage are done, `failed` in vain."""
        now = time.monotonic()
        is_due = stage != self._stage or done == total
        if not is_due and now - self._shown < (0.1 if self._is_live else 10.0):
            return
        self._stage, self._shown = stage, now
        line = f"{stage}: {done - failed} of {total} {self._verb}"
        line += f", {failed} failed" if failed else ""
        if self._is_live:
            print(f"\r\x1b[K{line}", end="\n" if done == total else "", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)
