"""The commands that show runs as a page: report, one file; view, the same page as runs go on."""

from dataclasses import dataclass
from pathlib import Path

from harness.analysis.agreement import AgreementRow
from harness.analysis.report.items import MOST_ANSWERS
from harness.analysis.report.page import REPORT, page_agreement, write_page
from harness.cli import options
from harness.cli.options import RESULTS, ExitCode, Results, argument, option
from harness.cli.output import echo, log
from harness.cli.page_server import LiveRuns, PageServer
from harness.storage.find_runs import find_runs, run_folders
from harness.storage.runs import RunFolder

_RUNS = options.SOME_RUNS + " Default: all runs of RESULTS."
_MEGABYTE = 2**20


@dataclass(frozen=True, kw_only=True)
class PageChoice:
    """Which runs are shown, and with whose ratings."""

    runs: list[str] | None = argument("RUN", _RUNS, None)
    ratings: Path | None = option(
        "Ratings by people in long form (a CSV file): adds how well judges agree with them.", None
    )

    answers: int = option(
        "Show about so many answers of a run that has more; tables are of all of them.",
        MOST_ANSWERS,
    )

    def folders(self, results: Path) -> list[RunFolder]:
        """The folders of the chosen runs, or of all below a results folder."""
        return find_runs(results, self.runs or ()) or run_folders(results)

    def agreement(self, results: Path) -> list[AgreementRow]:
        """The agreement of all judges with the ratings, task by task; nothing without ratings."""
        return page_agreement(self.ratings, self.folders(results))


def report(
    choice: PageChoice,
    out: Path | None = option(
        "File to write. Default: RESULTS/report.html.", None, flags="-o --out"
    ),
    results: Results = RESULTS,
) -> int:
    """Write one HTML page of runs: what was asked, who is better, and every answer.

    The page opens from disk, needs no server and asks nothing of any host. It holds prompts and
    answers: share it only where you may share these.

    \b
    Example:
      harness report -o report.html
    """
    path = out or results / REPORT
    data, size = write_page(
        choice.folders(results), results, path, choice.ratings, answers=choice.answers
    )
    for note in data.notes:
        log(note)
    told = f"{size / _MEGABYTE:.1f} MB"
    echo(f"wrote {len(data.runs)} runs, {told}, to {path}; open it in a browser")
    return ExitCode.DONE


def view(
    choice: PageChoice,
    port: int = option("Port on this machine; 0 takes a free one.", 0),
    results: Results = RESULTS,
) -> int:
    """Show the same page in a browser while runs go on, until it is interrupted.

    It answers this machine alone, and only reads.
    """
    runs = LiveRuns(
        results, lambda: choice.folders(results), lambda: choice.agreement(results), choice.answers
    )
    choice.folders(results)
    with PageServer(port, runs) as server:
        echo(f"{server.url} shows the runs of {results}; end with Ctrl+C")
        server.serve_until_interrupted()
    return ExitCode.DONE
