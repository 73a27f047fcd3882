"""The commands table and report: the tables of a paper, and one page of runs, also served."""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.cli import options
from harness.cli.options import HOME, RESULTS, AsJson, Home, Results, argument, option, output
from harness.errors import SpecError
from harness.present.document import FORMS
from harness.present.page.items import MOST_ANSWERS
from harness.present.page.page import REPORT, PageServer, write_page
from harness.present.screen import PAGE, say, show_json, show_rows, warn
from harness.specs.layouts import LayoutSpec
from harness.storage.find_runs import NoSuchRun, find_runs, run_folders, shown_runs


@dataclass(frozen=True, kw_only=True)
class TableChoice:
    """What is in a table, and in which file it is written."""

    names: list[str] | None = argument(
        "NAME",
        "Layout (a name in configs/layouts/, or the path of a YAML file), runs, or both. Default: "
        "all runs.",
        None,
    )
    rows: str | None = option(
        "What rows are of, comma-separated: model, task, variant, level, decoding, group, judge, "
        "metric. Default: model."
    )
    columns: str | None = option("What columns are of. Default: judge.")
    groups: str | None = option("Make a table for each value of these. Default: none.")
    where: list[str] | None = option(
        "Keep some values, by patterns: variant=base,cot*. May be repeated."
    )
    cell: str | None = option("What a cell shows, comma-separated: value, interval, sd, n, rank.")
    digits: int | None = option("Digits after the point, at most 6.", min=0)
    ratings: Path | None = option("People's ratings, as `harness agree` reads them.")
    data: list[Path] | None = option(
        "Folder of data; or files to read in place of the layout's. May be repeated."
    )
    is_printed: bool = options.switch(
        "--printed", "Print what the layout's paper prints, what is here, and the difference."
    )
    out: Path | None = output("File to write: .tex, .md, .csv or .html.", *FORMS, default=None)


def table(
    choice: TableChoice, results: Results = RESULTS, home: Home = HOME, is_json: AsJson = False
) -> None:
    """Make a table of stored runs, ratings or data: for the screen, LaTeX, Markdown, HTML or CSV.

    Two numbers never share a cell: what they differ in makes tables of their own. Bold is what a
    paired test separates from the rest of its column. `harness list layouts` has those of papers.

    \b
    Examples:
      harness table --rows model --columns group --where variant=base
      harness table intent-phenomena -o phenomena.tex
    """
    from harness.analysis.tables.build import TableInput, build
    from harness.analysis.tables.printed import with_printed
    from harness.present.document import screen_cells, to_json, write

    registry, names = options.registry(home), choice.names or []
    known = registry.names("configs/layouts")
    layouts = [name for name in names if name in known or name.endswith((".yaml", ".yml"))]
    if len(layouts) > 1:
        raise SpecError(f"{', '.join(layouts)}: these are layouts; name one at a time")
    found = registry.load("configs/layouts", layouts[0]) if layouts else None
    try:
        runs = find_runs(results, [name for name in names if name not in layouts])
    except NoSuchRun as error:
        raise error.nor("layout", known, "harness list layouts") from error
    files = [path for path in choice.data or () if not path.is_dir()]
    folders = [path for path in choice.data or () if path.is_dir()]
    folders += map(Path, filter(None, [registry.environ.get("HARNESS_DATA")]))
    folder = options.data_folder(next(iter(folders), None))
    given = TableInput(runs or run_folders(results), choice.ratings, files, folder)
    tables = build(_adapted(choice, found), given)
    if choice.is_printed:
        tables = with_printed(registry.all("configs/golden"), "".join(layouts), tables)
    if is_json:
        show_json([to_json(one) for one in tables])
    elif choice.out is None:
        for one in tables:
            show_rows(one.caption, *screen_cells(one))
            say("".join(f"{note}\n" for note in one.notes))
    else:
        write(tables, choice.out)
        say(f"wrote {len(tables)} {'table' if len(tables) == 1 else 'tables'} to {choice.out}")


def _adapted(choice: TableChoice, found: LayoutSpec | None) -> LayoutSpec:
    """The layout of a name, or the plain one, as the options change it."""
    from harness.analysis.tables.build import adapted

    lists = {
        name: options.names(given, f"--{name}")
        for name in ("rows", "columns", "groups", "cell")
        if (given := getattr(choice, name)) is not None
    }
    where = dict(map(_condition, choice.where or ()))
    return adapted(found, **lists, where=where, digits=choice.digits)


def _condition(text: str) -> tuple[str, tuple[str, ...]]:
    name, mark, patterns = text.partition("=")
    if not mark or not name.strip():
        raise SpecError(f"--where {text!r}: write NAME=PATTERN,PATTERN")
    return name.strip(), options.names(patterns, "--where")


def report(
    runs: list[str] | None = argument(
        "RUN", options.SOME_RUNS + " Default: all runs of RESULTS.", None
    ),
    answers: int = option(
        "Show about so many answers of a run that has more; tables are of all of them.",
        MOST_ANSWERS,
        min=1,
    ),
    serve: bool = option("Show the page in a browser while runs go on, until Ctrl+C.", False),
    port: int = option("With --serve: port on this machine; 0 takes a free one.", 0),
    out: Path | None = output(
        "File to write. Default: RESULTS/report.html.", ".html", default=None
    ),
    results: Results = RESULTS,
) -> None:
    """Write one HTML page of runs: who is better, every answer, and what was asked.

    The page opens from disk, needs no server and asks nothing of any host. It holds prompts and
    answers: share it only where you may share these. With --serve nothing is written: the page is
    for this machine alone.

    \b
    Examples:
      harness report -o report.html
      harness report --serve
    """
    folders = partial(shown_runs, results, runs or ())
    if serve:
        folders()  # what is named wrongly is refused at once
        with PageServer(port, results, folders, answers) as server:
            say(f"{server.url} shows the runs of {results}; end with Ctrl+C")
            PAGE.end()
            with suppress(KeyboardInterrupt):
                server.serve_forever(poll_interval=0.2)
        return
    path = out or results / REPORT
    data, size = write_page(folders(), results, path, answers=answers)
    for note in data.notes:
        warn(note)
    say(f"wrote {len(data.runs)} runs, {size / 2**20:.1f} MB, to {path}; open it in a browser")
