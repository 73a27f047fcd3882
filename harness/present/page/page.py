"""Run folders to the page: one HTML file with all data in it, or the shell that `view` serves.

The file asks nothing of any host: its policy allows its own script and style by their digests, and
no connection. Texts are data in a compressed block; the script puts them into the page as text.
"""

import base64
import gzip
import hashlib
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

import msgspec

from harness import __version__
from harness.analysis.boards.alarms import judge_fitness
from harness.analysis.boards.ranked import leaderboard
from harness.errors import SpecError, StoreError
from harness.lazy import DataFrame
from harness.present.page import tables
from harness.present.page.items import (
    MOST_ANSWERS,
    PageParts,
    PageSection,
    PageTable,
    collect_items,
)
from harness.storage.files import write_whole
from harness.storage.runs import RunFolder

REPORT = "report.html"
"""The page's name in a results folder, where no other is given."""
_LEVEL = 6
"""Of gzip: 9 takes four times as long for a file that is 2 % smaller."""


_SHOWN = (
    *("title", "texts", "runs", "sections", "samples", "calls", "items", "whys", "chosen", "notes"),
)
"""What of `PageParts` the script reads, with the version and the prompts."""


def write_page(
    folders: Sequence[RunFolder], results: Path, out: Path, *, answers: int = MOST_ANSWERS
) -> tuple[PageParts, int]:
    """Write the page of some runs as one file; what it shows, and its size in bytes."""
    if out.is_dir():
        raise SpecError(f"--out {out}: a folder; name a file in it")
    data = page_data(folders, results, answers=answers)
    page = page_text(data).encode()
    write_whole(out, page)
    return data, len(page)


def page_data(
    folders: Sequence[RunFolder], results: Path, *, answers: int = MOST_ANSWERS
) -> PageParts:
    """All that a page shows of some runs; their calls ledger is below `results`.

    Of a run with more than so many `answers` it shows about as many, and all its numbers.
    """
    if answers < 1:
        raise SpecError(f"--answers {answers}: give 1 or more")
    if not folders:
        raise StoreError(f"no runs below {results}/runs; `harness run` makes one, or see --results")
    rows, boards, verdicts = leaderboard(folders)
    made = collect_items(folders, results, answers, rows)
    ordered = tables.in_order(made, [own for _, own in boards.groupby("board")])
    alarms = [*tables.alarms(made, judge_fitness(boards, verdicts))]
    made.sections = _sections(made, ordered, alarms)
    tasks = list(dict.fromkeys(file.run.task for file in made.files))
    shown = ", ".join(tasks[:3]) + (f" and {len(tasks) - 3} more" if len(tasks) > 3 else "")
    made.title = f"{len(made.runs)} run{'s' * (len(made.runs) != 1)} of {shown}"
    made.place_calls()
    return made


def compressed(data: PageParts) -> bytes:
    """The data of a page as compressed JSON, the same bytes for the same runs."""
    shown = {name: getattr(data, name) for name in _SHOWN}
    shown |= {"version": __version__, "prompts": list(data.prompts)}
    return gzip.compress(msgspec.json.encode(shown), _LEVEL, mtime=0)


def page_text(data: PageParts) -> str:
    """The whole page in one file."""
    return _html(data.title, base64.b64encode(compressed(data)).decode(), connect="'none'")


def shell_text() -> str:
    """The page without data, which it gets from the server that it came from."""
    return _html("Live report", "", connect="'self'")


def policy(*, connect: str) -> str:
    """The content security policy of a page: its own script and style, and no other source."""
    sums = (hashlib.sha256(_asset(f"report.{name}").encode()).digest() for name in ("js", "css"))
    script, style = (base64.b64encode(one).decode() for one in sums)
    return (
        f"default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; "
        f"img-src data:; connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def _html(title: str, block: str, *, connect: str) -> str:
    parts = {
        "TITLE": escape(title),
        "HEADING": escape(title),
        "POLICY": escape(policy(connect=connect), quote=False),
        "STYLE": _asset("report.css"),
        "SCRIPT": _asset("report.js"),
        "DATA": block,
    }
    # Each mark is there once, and the data, which is base64, holds none.
    page = _asset("report.html")
    for name, text in parts.items():
        page = page.replace(f"@@{name}@@", text, 1)
    return page


def _asset(name: str) -> str:
    return (files("harness.present.page") / "assets" / name).read_text("utf-8")


def _sections(
    made: PageParts, boards: Sequence[tables.Named], alarms: Sequence[str]
) -> list[PageSection]:
    lines, differences = _headlines(made, boards)
    ranked = [tables.leaderboard(made, board, pick) for board, pick in boards]
    found = [
        PageSection("asked", "What was asked", [*tables.asked(made.files, made.called)]),
        PageSection("headline", "The result in words", lines),
        PageSection("alarms", "Alarms", alarms),
        PageSection("leaderboard", "Leaderboard", tables=ranked),
        PageSection("differences", "Differences", tables=differences),
        PageSection("phenomena", "Phenomena", tables=[*tables.phenomena(made, boards)]),
        PageSection("cost", "Cost", tables=[tables.costs(made)]),
    ]
    always = ("alarms", "headline")
    return [one for one in found if one.lines or one.tables or one.name in always]


def _headlines(
    made: PageParts, boards: Sequence[tables.Named]
) -> tuple[list[str], list[PageTable]]:
    """A sentence and a table of differences for each task's main board by each of its judges."""
    lines, found = list[str](), list[PageTable]()
    ranked, unranked = set[str](), list[DataFrame]()
    for board, pick in boards:
        row = tables.first(board)
        is_main = row.variant == tables.main_variant(made.file_of(row))
        if not is_main:
            continue
        if board["rank"].isna().all():
            unranked.append(board)
            continue
        ranked.add(row.task)
        compared, differences, notes = tables.differences(made, board, pick)
        lines += [tables.headline(board, compared, pick), *notes]
        found += differences
    left = [board for board in unranked if tables.first(board).task not in ranked]
    return [*lines, *tables.unranked(left)], found
