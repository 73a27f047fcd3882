"""The command items: answers as a person reads them, and as tables for other programs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import get_terminal_size
from typing import get_args

from harness.analysis.items import (
    ItemBlock,
    ItemQuery,
    ItemSelection,
    ShownText,
    Sort,
    Where,
    entries,
    select_items,
)
from harness.cli import options
from harness.cli.options import RESULTS, AsJson, ExitCode, Results, option
from harness.errors import StoreError
from harness.lazy import pyarrow
from harness.present.document import form
from harness.present.screen import say, show_json_rows
from harness.storage.cells import arrow_column, csv_lines, csv_text, parquet_bytes
from harness.storage.files import write_whole
from harness.storage.find_runs import find_runs
from harness.storage.runs import StoredRun
from harness.text.cleanup import without_controls

SHOWN = 20
"""Items on screen at most where no --limit is given, and no more than fit it."""
WIDEST, GUTTER, INDENT = 100, 16, "  "
Page = Iterator[tuple[ItemBlock, list[ShownText]]]


@dataclass(frozen=True, kw_only=True)
class ItemChoice:
    """The runs and the answers that are shown, and in which order."""

    runs: options.RunNames
    where: str | None = option(
        "right, wrong or missing: by any of the judges; disagree: two judges differ; flip: right "
        "in one run or variant and wrong in another.",
        None,
    )
    judge: list[str] | None = option("Judges, comma-separated. Default: all.", None)
    group: str | None = option(
        "Groups, separated by semicolons. Default: all.", None, metavar="NAMES"
    )
    variant: str | None = option("Variants, comma-separated. Default: all.", None)
    below: float | None = option(
        "Answers whose value by the judge is below this.", None, metavar="VALUE"
    )
    sort: str = option("data: as in the data; worst or best: by the value of the judge.", "data")
    has_pairs: bool = option(
        "Show all items of a cluster, such as a minimal pair, under each other.",
        False,
        flags="--pairs",
    )
    limit: int | None = option(
        "Most items. Default: as many as fit the screen, all in files.", None, min=1
    )

    def query(self) -> ItemQuery:
        """What is selected."""
        groups = tuple(part.strip() for part in (self.group or "").split(";") if part.strip())
        where: Where | None = None
        if self.where is not None:
            where = options.one_of("--where", self.where, *get_args(Where))
        sort: Sort = options.one_of("--sort", self.sort, *get_args(Sort))
        judges, variants = options.names(self.judge, "--judge"), options.names(self.variant)
        return ItemQuery(where, judges, groups, variants, self.below, sort, self.has_pairs)


@dataclass(frozen=True, kw_only=True)
class ItemFiles:
    """Where the answers are written, besides the screen."""

    csv: Path | None = option("Write the answers as CSV.", None, metavar="FILE")
    parquet: Path | None = option("Write the answers as Parquet.", None, metavar="FILE")
    html: Path | None = option("Write the page as HTML.", None, metavar="FILE")


def items(
    choice: ItemChoice, files: ItemFiles, results: Results = RESULTS, is_json: AsJson = False
) -> int:
    """Show items with the answers of one or several runs, the verdicts and the judges' replies.

    \b
    Examples:
      harness items 3f9a --where wrong --judge gold --limit 5
      harness items 3f9a 81c2 --where flip
      harness items 3f9a --sort worst --judge gpt4-rating --below 2
    """
    query = choice.query()
    found_runs = find_runs(results, choice.runs)
    runs = [StoredRun.read(folder, with_prompts=True) for folder in found_runs]
    found = select_items(runs, query)
    count = len(found.blocks)
    found = replace(found, blocks=found.blocks[: choice.limit])
    written = _write(found, files, has_pairs=query.has_pairs)
    if is_json:
        show_json_rows(found.cells())
        return ExitCode.DONE
    shown = found.blocks[: choice.limit or SHOWN]
    page = _page(replace(found, blocks=shown), has_pairs=query.has_pairs)
    room, number = get_terminal_size().lines - 2 - len(written), 0
    for number, (block, parts) in enumerate(page, 1):
        title = _title(block, has_pairs=query.has_pairs)
        lines = _block_lines(f"-- {number} of {count} -- {title} ", parts)
        room -= len(lines)
        if room < 0 and number > 1 and not choice.limit:
            number -= 1
            break
        say("\n".join(lines))
    hint = "" if number == count else f", {number} shown (more: --limit N, --csv FILE)"
    say(f"{count} of {found.total} items{hint}")
    for path, answers in written.items():
        say(f"wrote {answers} answers to {path}")
    return ExitCode.DONE


def _page(found: ItemSelection, *, has_pairs: bool) -> Page:
    """The blocks as a reader sees them; a text that stands above, in the same pair, only once."""
    above: ItemBlock | None = None
    for block in found.blocks:
        lines = list(entries(block, found.judges))
        if above is not None and (above.cluster, above.title) == (block.cluster, block.title):
            known = {(e.label, e.text) for e in entries(above, ()) if e.kind == "text"}
            lines = [e for e in lines if e.kind != "text" or (e.label, e.text) not in known]
        above = block if has_pairs else None
        yield block, lines


def _block_lines(head: str, parts: Sequence[ShownText]) -> list[str]:
    """An item on the screen, with an empty line at its end."""
    width = max(40, min(WIDEST, get_terminal_size().columns))
    first = [*_wrapped(head, width)] if len(head) > width else [head.ljust(width, "-")]
    return [*first, *(line for part in parts for line in _lines(part, width)), ""]


def _lines(entry: ShownText, width: int) -> list[str]:
    """An entry's label and, to its right or below it, the lines of its text."""
    indent = INDENT if entry.kind == "verdict" else ""
    label = indent + without_controls(entry.label).replace("\n", " ")
    texts = list(_wrapped(entry.text, width - GUTTER))
    if len(label) < GUTTER:
        label = label.ljust(GUTTER)
    elif len(texts) == 1 and len(label) + 2 + len(texts[0]) <= width:
        label += "  "
    else:
        return [label, *(" " * GUTTER + text for text in texts)]
    return [label + texts[0], *(" " * GUTTER + text for text in texts[1:])]


def _title(block: ItemBlock, *, has_pairs: bool) -> str:
    """The item; if others of its original are shown, also that original."""
    sample = block.sample
    parts = [sample.id, sample.group, block.title]
    if has_pairs and sample.cluster != sample.id:
        parts.append(f"of {sample.cluster}")
    return without_controls(" -- ".join(part.replace("\n", " ") for part in parts if part))


def _wrapped(text: str, width: int) -> Iterator[str]:
    """The lines of a text in a column, as wide as a terminal draws them."""
    from rich.console import Console
    from rich.text import Text

    console = Console(width=width)
    clean = without_controls(text).rstrip()
    yield from (line.plain.rstrip() for line in Text(clean).wrap(console, width)) if clean else [""]


def _write(found: ItemSelection, files: ItemFiles, *, has_pairs: bool) -> dict[Path, int]:
    made: dict[Path, Iterator[bytes]] = {}
    if files.csv:
        made[files.csv] = _csv(found)
    if files.parquet:
        made[files.parquet] = _parquet(found)
    if files.html:
        blocks = _page(found, has_pairs=has_pairs)
        page = ((_title(block, has_pairs=has_pairs), lines) for block, lines in blocks)
        summary = f"{len(found.blocks)} of {found.total} items"
        parts = form("items.html", page=page, summary=summary)
        made[files.html] = (part.encode("utf-8", "replace") for part in parts)
    if len(made) < sum(path is not None for path in (files.csv, files.parquet, files.html)):
        raise StoreError("--csv, --parquet and --html name one file; give each its own")
    for path, data in made.items():
        write_whole(path, data)
    return dict.fromkeys(made, sum(len(block.answers) for block in found.blocks))


def _csv(found: ItemSelection) -> Iterator[bytes]:
    yield csv_text(found.columns, ()).encode("utf-8", "replace")
    yield from (csv_lines([row]).encode("utf-8", "replace") for row in found.rows())


def _parquet(found: ItemSelection) -> Iterator[bytes]:
    """The answers as a Parquet file: values are numbers, all else is text."""
    cells = zip(*found.rows(), strict=True) if found.blocks else [()] * len(found.columns)
    columns = zip(found.columns, cells, strict=True)
    kinds = ((n, own, "float64" if n.startswith("value_") else "string") for n, own in columns)
    yield parquet_bytes(pyarrow.table({n: arrow_column(n, own, kind) for n, own, kind in kinds}))
