"""The command report: runs as one HTML page, or with --serve the same page as runs go on."""

from dataclasses import dataclass
from pathlib import Path

from harness.cli import options
from harness.cli.options import RESULTS, ExitCode, Results, argument, option
from harness.cli.output import echo, log
from harness.errors import SpecError
from harness.present.page.items import MOST_ANSWERS
from harness.present.page.page import REPORT, page_agreement, write_page
from harness.present.page.server import LiveRuns, PageServer
from harness.storage.find_runs import find_runs, run_folders
from harness.storage.runs import RunFolder

_RUNS = options.SOME_RUNS + " Default: all runs of RESULTS."
_RATINGS = "Ratings by people in long form (a CSV file): adds how well judges agree with them."
_ANSWERS = "Show about so many answers of a run that has more; tables are of all of them."
_MEGABYTE = 2**20


@dataclass(frozen=True, kw_only=True)
class PageChoice:
    """Which runs a page shows, with what, and whether it is served."""

    runs: list[str] | None = argument("RUN", _RUNS, None)
    ratings: Path | None = option(_RATINGS, None)
    answers: int = option(_ANSWERS, MOST_ANSWERS)
    serve: bool = option("Show the page in a browser while runs go on, until Ctrl+C.", False)
    port: int = option("With --serve: port on this machine; 0 takes a free one.", 0)


def report(
    choice: PageChoice,
    out: Path | None = option(
        "File to write. Default: RESULTS/report.html.", None, flags="-o --out"
    ),
    results: Results = RESULTS,
) -> int:
    """Write one HTML page of runs: what was asked, who is better, and every answer.

    The page opens from disk, needs no server and asks nothing of any host. It holds prompts and
    answers: share it only where you may share these. With --serve nothing is written: the page is
    for this machine alone.

    \b
    Examples:
      harness report -o report.html
      harness report --serve
    """

    def folders() -> list[RunFolder]:
        return find_runs(results, choice.runs or ()) or run_folders(results)

    if choice.serve:
        if out is not None:
            raise SpecError("--serve writes no file: leave -o out")
        live = LiveRuns(
            results, folders, lambda: page_agreement(choice.ratings, folders()), choice.answers
        )
        folders()
        with PageServer(choice.port, live) as server:
            echo(f"{server.url} shows the runs of {results}; end with Ctrl+C")
            server.serve_until_interrupted()
        return ExitCode.DONE
    path = out or results / REPORT
    data, size = write_page(folders(), results, path, choice.ratings, answers=choice.answers)
    for note in data.notes:
        log(note)
    megabytes = f"{size / _MEGABYTE:.1f} MB"
    echo(f"wrote {len(data.runs)} runs, {megabytes}, to {path}; open it in a browser")
    return ExitCode.DONE
