"""The commands that show what there is: list, with runs, show, schema, tokens; data; verify."""

from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches
from textwrap import shorten
from typing import Annotated

from harness.cli import options
from harness.cli.list_runs import WIDTH, list_runs
from harness.cli.options import HOME, AsJson, ExitCode, Home, argument, option
from harness.data import download
from harness.errors import SpecError
from harness.lazy import DataFrame, pandas
from harness.present.screen import say, show_json, show_rows, warn
from harness.present.screen import show as show_frame
from harness.registry import Section, schema_text, without_keys
from harness.specs.data import GoldenSpec
from harness.storage.environment import other_versions, versions_here
from harness.storage.find_runs import NoSuchRun, find_run, run_facts
from harness.storage.frames import plain_rows
from harness.storage.runs import RunFolder, read_table

_SECTIONS: tuple[Section, ...] = (
    *("tasks", "configs/models", "configs/judges", "configs/data", "configs/annotations"),
    *("configs/builds", "configs/imports", "configs/scorers", "configs/sheets", "configs/tables"),
    *("configs/pairs", "configs/layouts", "configs/perturbations", "configs/plans"),
)
SECTIONS = {section.rpartition("/")[2]: section for section in _SECTIONS}
NOT_HERE = {"vllm": " (without vLLM add --backend transformers, or --backend server)"}
SOURCE_NAMES = "Sources. Default: all."


def list_names(
    where: Annotated[options.Where, options.Only("results home")],
    what: str | None = argument("KIND", f"{', '.join(SECTIONS)} or runs. Default: counts.", None),
    names: list[str] | None = argument("RUN", "With runs, which: @TAG, a task, a model.", None),
    is_json: AsJson = False,
) -> int:
    """List the names that commands take: tasks, models, judges and more.

    \b
    Examples:
      harness list tasks
      harness list runs @pilot
    """
    if what == "runs":
        return list_runs(where.results, names or (), is_json=is_json)
    if names or (what is not None and what not in SECTIONS):
        wrong = f"list {what or ''} {' '.join(names or ())}".strip()
        raise SpecError(f"{wrong}: give one of {', '.join(SECTIONS)}; or runs, and names of runs")
    registry = options.registry(where.home)
    found = {name: registry.names(SECTIONS[name]) for name in ([what] if what else SECTIONS)}
    if is_json:
        show_json(found)
    elif what is not None:
        has_kind = what == "models"
        lines = [(name, *registry.about(SECTIONS[what], name)) for name in found[what]]
        rows = [(n, *[kind] * has_kind, about + NOT_HERE.get(kind, "")) for n, kind, about in lines]
        show_rows("", (what, *["kind"] * has_kind, "about"), rows)
    else:
        for kind, members in found.items():
            start = f"{kind:13} {len(members):3}  "
            say(start + shorten(", ".join(members), WIDTH - len(start), placeholder=" ..."))
        say("\nall of a kind, and what each is: harness list KIND; runs: harness list runs")
    return ExitCode.DONE


def show(
    *,
    name: str = argument("NAME", "Name that `harness list` lists; or a run."),
    where: Annotated[options.Where, options.Only("results home")],
    has_all: bool = option("Of a run, print the whole run.json.", False, flags="--all"),
) -> int:
    """Show the YAML file of a name; or a run: its scores, cost and what is missing."""
    registry = options.registry(where.home)
    known = {section: registry.names(section) for section in SECTIONS.values()}
    files = [registry.file(section, name) for section in known if name in known[section]]
    for path in files:
        say(f"# {path}\n{without_keys(path.read_text('utf-8', 'replace'), registry)}")
    if files:
        return ExitCode.DONE
    try:
        folder = find_run(where.results, name)
    except NoSuchRun as error:
        close = get_close_matches(name, sorted({n for names in known.values() for n in names}), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "; `harness list` lists the names"
        raise SpecError(f"no name {name!r}{hint}; and {error}") from error
    return _show_run(folder, has_all=has_all)


def _show_run(folder: RunFolder, *, has_all: bool) -> int:
    from harness.cli.run_report import cost_line, gap_lines, put_scores

    file = folder.read()
    if not has_all:
        if folder.scores.is_file():
            put_scores(file, read_table(folder.scores))
        say("; ".join(f"{name} {fact}" for name, fact in run_facts(file).items()), is_prose=True)
        if (line := cost_line(file.costs)) is not None:
            say(line, is_prose=True)
    for line in gap_lines(file, has_remedy=False):
        say(f"# {line}", is_prose=True)
    if other := other_versions(file.packages, versions_here(file.packages)):
        words = "; ".join(f"{name} {then}, here {now}" for name, then, now in other)
        say(f"# computed with other versions than are here: {words}", is_prose=True)
    say(f"# {folder.path}")
    more = f"all that is stored of it: harness show {folder.path.name[:8]} --all"
    say((folder.path / "run.json").read_text("utf-8") if has_all else more)
    return ExitCode.DONE


def schema(
    kind: str = argument(
        "KIND",
        "task, model, judge, scorer, recipe, sheet, annotation, table, layout, perturbation, "
        "build, plan, import, data, golden, overlay or prices.",
    ),
) -> int:
    """Print the JSON schema of a kind of YAML file; editors use it to complete and check the file.

    The kinds of models and judges that installed packages add are part of it.
    """
    say(schema_text(kind).removesuffix("\n"))
    return ExitCode.DONE


def tokens(
    where: Annotated[options.Where, options.Only("data data_mode prompts home")],
    *,
    task: str = option("Task with choices: a name in tasks/."),
    model: str = option("Local model: a name in configs/models/."),
    variant: str | None = option("Variants, comma-separated, or all. Default: the task's.", None),
    limit: options.Limit = None,
    is_json: AsJson = False,
) -> int:
    """Show how a local model's tokenizer reads a task's choices; its weights are not loaded."""
    from harness.pipeline.preview import check_tokens
    from harness.pipeline.resolve import RunOptions, resolve_choices

    space = where.workspace()
    wanted = RunOptions(task, model, variants=options.names(variant), limit=limit)
    plan, spec = resolve_choices(space, wanted)
    reports = check_tokens(plan, spec, space.registry.cache / "checkpoints")
    if is_json:
        show_json(reports)
        return ExitCode.DONE
    frame = pandas.DataFrame.from_dict(reports, orient="index")
    show_frame(frame.reset_index(names="variant"), f"{task}, {model}")
    return ExitCode.DONE


def fetch(
    names: list[str] | None = argument("SOURCE", SOURCE_NAMES, None),
    data: options.DataFolder = None,
    home: Home = HOME,
) -> int:
    """Download sources at a fixed commit; refuse files that have another sha256 than stated."""
    registry, folder = options.registry(home), options.data_folder(data, must_exist=False)
    for name in names or registry.names("configs/data"):
        spec = registry.load("configs/data", name)
        warn(f"{name}: licence {spec.licence}; {spec.citation}")
        for path in download.fetch(name, spec, folder):
            say(str(path))
    return ExitCode.DONE


def check(
    names: list[str] | None = argument("SOURCE", SOURCE_NAMES, None),
    data: options.DataFolder = None,
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Compare the files of sources with their stated sha256.

    Exit code 1: a file is missing or differs.
    """
    registry, folder = options.registry(home), options.data_folder(data)
    files: list[download.Checked] = []
    for name in names or registry.names("configs/data"):
        files += download.check(name, registry.load("configs/data", name), folder)
    if is_json:
        show_json(files)
    else:
        states = Counter((file.source, file.state) for file in files)
        for (source, state), count in states.items():
            say(f"{source}: {count} {state}")
        for file in (file for file in files if file.state == "differs"):
            say(f"{file.state:8} {file.path}")
    if missing := sorted({file.source for file in files if file.state == "missing"}):
        fetch = f"`harness data fetch {' '.join(missing)}` downloads it"
        warn(f"missing below {folder}: {fetch}; or name another folder with --data")
    is_ok = all(file.state == "ok" for file in files)
    return ExitCode.DONE if is_ok else ExitCode.CHECK_FAILED


def verify(
    data: options.DataFolder = None,
    paper: str | None = option("Paper: a name in configs/golden/. Default: all.", None),
    has_all: bool = option("Print every number, not only those that differ.", False, flags="--all"),
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Recompute the numbers of published papers from their data; no download, no model calls.

    A number is ok if rounding its last digit explains the difference. Exit code 1: one differs.
    """
    # Imported here: `list` has no use for numpy.
    from harness.analysis.verify import DIFFERS, SOURCES
    from harness.analysis.verify import verify as verify_papers

    registry = options.registry(home)
    names = [paper] if paper else registry.names("configs/golden")
    papers = {name: registry.load("configs/golden", name) for name in names}
    folder = options.data_folder(data)
    if data is not None and not any((folder / source).is_dir() for source in SOURCES):
        fact = f"no folder of a source in it ({', '.join(sorted(SOURCES))})"
        raise SpecError(f"{folder}: {fact}; name the folder that holds them")
    cells = verify_papers(papers, lambda name: path if (path := folder / name).is_dir() else None)
    if is_json:
        show_json(plain_rows(cells.drop(columns="origin")))
    else:
        _put_verified(papers, cells, has_all=has_all)
    return ExitCode.CHECK_FAILED if (cells["status"] == DIFFERS).any() else ExitCode.DONE


def _put_verified(papers: Mapping[str, GoldenSpec], cells: DataFrame, *, has_all: bool) -> None:
    from harness.analysis.verify import DIFFERS, OK, STATES

    status = cells["status"]
    for name, spec in papers.items() if has_all else ():
        _put_cells(f"{name}: {spec.paper}", cells[cells["paper"] == name])
        for cells_left, reason in spec.unlisted.items():
            say(f"not listed: {cells_left} ({reason})")
    if not has_all:
        by = cells.groupby(["paper", "status"]).size().unstack(fill_value=0)
        counts = by.reindex(index=list(papers), columns=list(STATES), fill_value=0)
        show_frame(counts.reset_index(), "published numbers, recomputed")
        if (status == DIFFERS).any():
            _put_cells("not as published", cells[status == DIFFERS])
    say(f"{len(cells)} cells: {', '.join(f'{(status == one).sum()} {one}' for one in STATES)}")
    origins = Counter(cells.loc[status == OK, "origin"])
    say(
        f"of those ok, {origins['printed']} are printed in a paper, {origins['derived']} follow "
        f"from printed numbers, and {origins['release']} are counts of the released files"
    )
    if not has_all:
        say("every number: harness verify --all")


def _put_cells(title: str, cells: DataFrame) -> None:
    why = (" (" + cells["reason"].astype(object) + ")").fillna("").replace(" ()", "")
    shown = cells[["table", "cell", "published", "recomputed"]].assign(
        difference=cells["recomputed"] - cells["published"], status=cells["status"] + why
    )

    def number(value: float | None) -> str | None:
        is_whole = value is not None and value == round(value)
        return None if value is None else f"{value:.0f}" if is_whole else f"{value:.5g}"

    show_frame(shown, title, published=number, recomputed=number, difference=number)
