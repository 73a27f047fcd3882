"""The commands that show runs as a page: report, one file; view, the same page as runs go on."""

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from harness.analysis.agreement import AgreementRow, AgreementSettings, agreement_rows
from harness.analysis.panels import AgreementQuery, match_ratings
from harness.analysis.report.page import page_data, page_text
from harness.cli import options
from harness.cli.options import RESULTS, ExitCode, Results, argument, option
from harness.cli.output import echo, log
from harness.cli.page_server import LiveRuns, PageServer
from harness.data.ratings import read_ratings
from harness.errors import SpecError
from harness.storage.files import write_whole
from harness.storage.find_runs import find_runs, run_folders, stored_runs
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

    def folders(self, results: Path) -> list[RunFolder]:
        """The folders of the chosen runs, or of all below a results folder."""
        return find_runs(results, self.runs or ()) or run_folders(results)

    def agreement(self, results: Path) -> list[AgreementRow]:
        """The agreement of all judges with the ratings, task by task; nothing without ratings."""
        if self.ratings is None:
            return []
        rows: list[AgreementRow] = []
        given = sorted(read_ratings(self.ratings), key=lambda rating: rating.task)
        for task, rated in groupby(given, key=lambda rating: rating.task):
            runs = stored_runs(self.folders(results), task)
            for panel in match_ratings(runs, list(rated), AgreementQuery()):
                rows += agreement_rows(panel, AgreementSettings())
        return rows


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
    path = out or results / "report.html"
    if path.is_dir():
        raise SpecError(f"--out {path}: a folder; name a file in it")
    data = page_data(choice.folders(results), results, choice.agreement(results))
    page = page_text(data).encode()
    write_whole(path, page)
    for note in data.notes:
        log(note)
    size = len(page) / _MEGABYTE
    echo(f"wrote {len(data.runs)} runs, {size:.1f} MB, to {path}; open it in a browser")
    return ExitCode.DONE


def view(
    choice: PageChoice,
    port: int = option("Port on this machine; 0 takes a free one.", 0),
    results: Results = RESULTS,
) -> int:
    """Show the same page in a browser while runs go on, until it is interrupted.

    It answers this machine alone, and only reads.
    """
    runs = LiveRuns(results, lambda: choice.folders(results), lambda: choice.agreement(results))
    choice.folders(results)
    with PageServer(port, runs) as server:
        echo(f"{server.url} shows the runs of {results}; end with Ctrl+C")
        server.serve_until_interrupted()
    return ExitCode.DONE
