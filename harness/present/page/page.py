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
from harness.analysis.agreement import agreement_with
from harness.analysis.boards.alarms import judge_fitness
from harness.analysis.boards.ranked import leaderboard
from harness.analysis.curves import COLUMNS as CURVES
from harness.errors import SpecError, StoreError
from harness.lazy import DataFrame, pandas
from harness.present.page import pairs, tables, words
from harness.present.page.items import MOST_ANSWERS, PageParts, collect_items
from harness.present.page.records import PageData, PageSection, PageTable
from harness.present.page.tables import PageNumbers
from harness.storage.files import write_whole
from harness.storage.frames import Row, records
from harness.storage.runs import RunFolder

REPORT = "report.html"
"""The page's name in a results folder, where no other is given."""
_LEVEL = 6
"""Of gzip: 9 takes four times as long for a file that is 2 % smaller."""


def page_agreement(ratings: Path | None, folders: Sequence[RunFolder]) -> list[Row]:
    """How well all judges of some runs agree with a file of ratings; nothing without one."""
    return records(agreement_with(ratings, folders)) if ratings else []


def write_page(
    folders: Sequence[RunFolder],
    results: Path,
    out: Path,
    ratings: Path | None = None,
    *,
    answers: int = MOST_ANSWERS,
) -> tuple[PageData, int]:
    """Write the page of some runs as one file; what it shows, and its size in bytes."""
    if out.is_dir():
        raise SpecError(f"--out {out}: a folder; name a file in it")
    data = page_data(folders, results, page_agreement(ratings, folders), answers=answers)
    page = page_text(data).encode()
    write_whole(out, page)
    return data, len(page)


def page_data(
    folders: Sequence[RunFolder],
    results: Path,
    agreement: Sequence[Row] = (),
    *,
    answers: int = MOST_ANSWERS,
) -> PageData:
    """All that a page shows of some runs; their calls ledger is below `results`.

    Of a run with more than so many `answers` it shows about as many, and all its numbers.
    """
    if answers < 1:
        raise SpecError(f"--answers {answers}: give 1 or more")
    if not folders:
        raise StoreError(f"no runs below {results}/runs; `harness run` makes one, or see --results")
    rows, boards, verdicts = leaderboard(folders)
    made = collect_items(folders, results, answers)
    numbers = PageNumbers(made, rows, [own for _, own in boards.groupby("board")])
    sections = [*_sections(numbers, judge_fitness(boards, verdicts), agreement)]
    calls = made.calls()
    return PageData(
        title=_title(made),
        version=__version__,
        runs=made.runs,
        sections=sections,
        samples=made.samples,
        prompts=list(made.prompts),
        calls=calls,
        items=made.items,
        whys=numbers.whys,
        chosen=numbers.chosen,
        notes=made.notes,
        texts=made.texts.texts,
    )


def compressed(data: PageData) -> bytes:
    """The data of a page as compressed JSON, the same bytes for the same runs."""
    return gzip.compress(msgspec.json.encode(data), _LEVEL, mtime=0)


def page_text(data: PageData) -> str:
    """The whole page in one file."""
    block = base64.b64encode(compressed(data)).decode()
    return _html(data.title, block, connect="'none'")


def shell_text() -> str:
    """The page without data, which it gets from the server that it came from."""
    return _html("Live report", "", connect="'self'")


def policy(*, connect: str) -> str:
    """The content security policy of a page: its own script and style, and no other source."""
    script, style = (_digest(_asset(name)) for name in ("report.js", "report.css"))
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
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
    # Each mark stands once, and the data, which is base64, holds none.
    page = _asset("report.html")
    for name, text in parts.items():
        page = page.replace(f"@@{name}@@", text, 1)
    return page


def _asset(name: str) -> str:
    return (files("harness.present.page") / "assets" / name).read_text("utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _title(made: PageParts) -> str:
    tasks = list(dict.fromkeys(str(run["task"]) for run in made.runs))
    shown = ", ".join(tasks[:3]) + (f" and {len(tasks) - 3} more" if len(tasks) > 3 else "")
    return f"{len(made.runs)} run{'s' * (len(made.runs) != 1)} of {shown}"


def _sections(
    numbers: PageNumbers, fitness: DataFrame, agreement: Sequence[Row]
) -> list[PageSection]:
    made = numbers.made
    lines, differences = _headlines(numbers)
    boards = [*tables.leaderboards(numbers)]
    known = pairs.know_and_act(numbers)
    drawn = pandas.concat(made.curves) if made.curves else pandas.DataFrame(columns=[*CURVES])
    asked = words.asked([run.file for run in made.stored], made.called)
    found = [
        PageSection(
            "asked",
            "What was asked",
            lines=[*asked],
        ),
        PageSection("headline", "The result in words", lines=lines),
        PageSection("alarms", "Alarms", lines=[*words.alarms(numbers, fitness)]),
        PageSection("leaderboard", "Leaderboard", tables=boards),
        PageSection("differences", "Differences", tables=differences),
        PageSection("phenomena", "Phenomena", tables=[*tables.phenomena(numbers)]),
        PageSection("levels", "Levels", tables=[*tables.levels(numbers)]),
        PageSection("know", "Know and act", tables=[*pairs.know_tables(numbers, known)]),
        PageSection(
            "curves",
            "Implicitness",
            "Hits and false alarms against implicitness: points are bins, lines are logistic "
            "curves with their 95% band.",
            tables=[*tables.bins(drawn)],
            curves=[*tables.curve_series(drawn)],
        ),
        PageSection(
            "agreement", "Agreement with people", tables=[*tables.agreement_tables(agreement)]
        ),
        PageSection("cost", "Cost", tables=[tables.costs(numbers)]),
    ]
    always = ("alarms", "headline")
    return [one for one in found if one.lines or one.tables or one.curves or one.name in always]


def _headlines(numbers: PageNumbers) -> tuple[list[str], list[PageTable]]:
    """A sentence and a table of differences for each task's main board by each of its judges."""
    lines, made = list[str](), list[PageTable]()
    ranked = set[str]()
    unranked: list[DataFrame] = []
    boards = tables.in_order(numbers)
    for board, pick in zip(boards, tables.picks(numbers, boards), strict=True):
        task = tables.first(board).task
        if not _is_main(numbers, board):
            continue
        if board["rank"].isna().all():
            unranked.append(board)
            continue
        ranked.add(task)
        compared, notes = pairs.leader_and_others(numbers, board)
        lines += [words.headline(board, compared, pick), *notes]
        if compared:
            made.append(pairs.difference_table(numbers, compared, task, pick))
    left = [board for board in unranked if tables.first(board).task not in ranked]
    return [*lines, *words.unranked(left)], made


def _is_main(numbers: PageNumbers, board: DataFrame) -> bool:
    row = tables.first(board)
    is_swapped = row.judge.endswith(":swapped")
    return not is_swapped and row.variant == tables.main_variant(numbers.file_of(row))
