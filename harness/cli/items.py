"""The command items: answers as a person reads them, and as tables for other programs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import chain
from pathlib import Path
from shutil import get_terminal_size
from typing import get_args

from harness.analysis import items as selection
from harness.cli import options
from harness.cli.options import RESULTS, AsJson, Results, option, output, switch
from harness.data.ratings import read_ratings
from harness.pipeline.items import ShownText, entries, item_columns
from harness.present.screen import PAGE, say, show_json_rows
from harness.storage.cells import csv_lines
from harness.storage.find_runs import find_runs
from harness.storage.tables import write_named
from harness.text.cleanup import without_controls

SHOWN = 20  # items on screen at most where no --limit is given, and no more than fit it
WIDEST, GUTTER, INDENT = 100, 14, "  "
Page = Iterator[tuple[str, list[ShownText]]]


@dataclass(frozen=True, kw_only=True)
class ItemChoice:
    """The runs and the answers that are shown, and in which order."""

    runs: options.RunNames
    where: str | None = option(
        "right, wrong or missing: by any of the judges; disagree: two judges differ; flip: right "
        "in one run or variant and wrong in another; lost, won: the second run is worse, better."
    )
    judge: list[str] | None = option("Judges, comma-separated. Default: all.")
    group: str | None = option("Groups, separated by semicolons.", metavar="NAMES")
    variant: str | None = option("Variants, comma-separated. Default: all.")
    below: float | None = option("Values by the judge that are below this.", metavar="VALUE")
    sort: str = option("data: as in the data; worst or best: by the value of the judge.", "data")
    ratings: Path | None = option("People's ratings; --below and --sort: by their mean.")
    has_pairs: bool = switch(
        "--pairs", "Show all items of a cluster, such as a minimal pair, under each other."
    )
    limit: int | None = option(
        "Most items. Default: as many as fit the screen, all in files.", min=1
    )


def items(
    choice: ItemChoice,
    csv: Path | None = output("Write the answers as CSV.", ".csv", default=None, flags="--csv"),
    results: Results = RESULTS,
    is_json: AsJson = False,
) -> None:
    """Show items with the answers of one or several runs, the verdicts and the judges' replies.

    \b
    Examples:
      harness items 3f9a --where wrong --judge gold --limit 5
      harness items 3f9a 81c2 --where lost
      harness items 3f9a --sort worst --judge gpt4-rating --below 2
    """
    wanted = choice.where and options.one_of("--where", choice.where, *get_args(selection.Where))
    query = selection.ItemQuery(
        where=wanted or None,
        judges=options.names(choice.judge, "--judge"),
        groups=tuple(name for part in (choice.group or "").split(";") if (name := part.strip())),
        variants=options.names(choice.variant),
        below=choice.below,
        sort=options.one_of("--sort", choice.sort, *get_args(selection.Sort)),
        has_pairs=choice.has_pairs,
        ratings=None if choice.ratings is None else read_ratings(choice.ratings),
    )
    whole = selection.select_items(find_runs(results, choice.runs), query)
    found = whole.first(choice.limit)
    columns = item_columns(found.judges)
    if csv is not None:
        texts = csv_lines(chain([columns], found.rows()))
        write_named(csv, (text.encode("utf-8", "replace") for text in texts))
    if is_json:
        show_json_rows(dict(zip(columns, row, strict=True)) for row in found.rows())
        return
    _put(whole, choice, is_full=csv is not None)
    if csv is not None:
        say(f"wrote {len(found.answers)} answers to {csv}")


def _put(whole: selection.ItemSelection, choice: ItemChoice, *, is_full: bool) -> None:
    """Print the first items, by default as many as fit; a line more is below where `is_full`."""
    limit = choice.limit or (len(whole) if PAGE.is_whole else 0)
    room, number = get_terminal_size().lines - 2 - is_full, 0
    if limit:
        PAGE.end()
    page = _page(whole.first(limit or SHOWN), has_pairs=choice.has_pairs)
    for number, (title, parts) in enumerate(page, 1):
        lines = _block_lines(f"-- {number} of {len(whole)} -- {title} ", parts)
        room -= len(lines)
        if room < 0 and number > 1 and not limit:
            number -= 1
            break
        say("\n".join(lines), is_raw=True)
    hint = "" if number == len(whole) else f", {number} shown (more: --limit N, --all, --csv FILE)"
    say(f"{len(whole)} of {whole.total} items{hint}")


def _page(found: selection.ItemSelection, *, has_pairs: bool) -> Page:
    """The blocks as a reader sees them; a text that is above, in the same pair, only once."""
    above: tuple[object, ...] = ()
    known: set[ShownText] = set()
    for way, answers in found.blocks():
        sample, lines = answers[0][2].sample, list(entries(answers, found.judges))
        own = {line for line in lines if line[0] == "text"}
        if has_pairs and above == (sample.cluster, way):
            lines = [line for line in lines if line not in known]
        above, known = (sample.cluster, way), own
        parts = [sample.id, sample.group, way]
        if has_pairs and sample.cluster != sample.id:
            parts.append(f"of {sample.cluster}")
        title = " -- ".join(part.replace("\n", " ") for part in parts if part)
        yield without_controls(title), lines


def _block_lines(head: str, parts: Sequence[ShownText]) -> list[str]:
    """An item on the screen, texts to the right of their labels, with an empty line at its end."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = max(40, min(WIDEST, get_terminal_size().columns))
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(min_width=GUTTER, overflow="fold")
    grid.add_column(overflow="fold")
    for kind, label, text in parts:
        named = INDENT * (kind == "verdict") + without_controls(label).replace("\n", " ")
        grid.add_row(Text(named), Text(without_controls(text).rstrip()))
    console = Console(width=width, file=StringIO(), force_terminal=False)
    with console.capture() as made:
        console.print(Text(head.ljust(width, "-") if len(head) < width else head), grid)
    return [*(line.rstrip() for line in made.get().splitlines()), ""]
