"""The commands that show what there is: list, with runs, show, schema, tokens; data; verify."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from textwrap import shorten
from typing import Annotated

from harness.cli import options
from harness.cli.list_runs import list_runs
from harness.cli.options import HOME, AsJson, ExitCode, Home, argument, option, switch
from harness.data import download
from harness.errors import DataError, SpecError
from harness.lazy import DataFrame, pandas
from harness.present.screen import PAGE, say, show_json, show_names, warn
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
    what: str | None = argument("KIND", "One of these. Default: counts of all.", None),
    words: list[str] | None = argument(
        "WORD", "Those alone that name this; of runs: @TAG, task or model.", None
    ),
    has_size: bool = switch("--size", "Of runs: what they, and stored calls, take on the disk."),
    is_json: AsJson = False,
) -> None:
    """List what commands take: tasks, models, judges, data, annotations, builds, imports, scorers,
    sheets, tables, pairs, layouts, perturbations, plans or runs.

    \b
    Examples:
      harness list models llama
      harness list runs @pilot
    """
    if what == "runs":
        list_runs(where.results, words or (), is_json=is_json, has_size=has_size)
        return
    if what is not None and what not in SECTIONS:
        raise SpecError(f"list {what}: give one of {', '.join(SECTIONS)}; or runs")
    registry, sought = options.registry(where.home), " ".join(words or ()).lower()
    found = {kind: registry.names(SECTIONS[kind]) for kind in ([what] if what else SECTIONS)}
    if what is not None:
        rows = [(name, *registry.about(SECTIONS[what], name)) for name in found[what]]
        rows = [row for row in rows if sought in " ".join(row).lower()]
        if sought and not rows:
            raise SpecError(f"list {what}: no line has {sought!r}; `harness list {what}` has all")
        found[what] = [name for name, *_ in rows]
        has_kind = what == "models"
        shown = [(n, *[kind] * has_kind, about + NOT_HERE.get(kind, "")) for n, kind, about in rows]
        show_names((what, *["kind"] * has_kind, "about"), shown, [kind for _, kind, _ in rows])
    else:
        for kind, members in found.items():
            start = f"{kind:13} {len(members):3}  "
            say(start + shorten(", ".join(members), 80 - len(start), placeholder=" ..."))
        say("\nall of a kind: harness list KIND; some: harness list KIND WORD; runs: list runs")
    show_json(found, is_json)


def show(
    *,
    name: str = argument("NAME", "Name that `harness list` lists; or a run."),
    where: Annotated[options.Where, options.Only("results home")],
) -> None:
    """Show the YAML file of a name; or a run: its scores, cost and what is missing."""
    registry = options.registry(where.home)
    known = {section: registry.names(section) for section in SECTIONS.values()}
    files = [registry.file(section, name) for section in known if name in known[section]]
    for path in files:
        say(f"# {path}\n{without_keys(path.read_text('utf-8', 'replace'), registry)}", is_raw=True)
    if files:
        return
    try:
        folder = find_run(where.results, name)
    except NoSuchRun as error:
        names = {name for names in known.values() for name in names}
        raise error.nor("name", names, "harness list") from error
    _show_run(folder)


def _show_run(folder: RunFolder) -> None:
    from harness.cli.run_report import cost_line, gap_lines, put_scores

    file = folder.read()
    if not PAGE.is_whole:
        if folder.scores.is_file():
            put_scores(file, read_table(folder.scores))
        say("; ".join(f"{name} {fact}" for name, fact in run_facts(file).items()))
        if (line := cost_line(file.costs)) is not None:
            say(line)
    for line in gap_lines(file, has_remedy=False):
        say(f"# {line}")
    if other := other_versions(file.packages, versions_here(file.packages)):
        words = "; ".join(f"{name} {then}, here {now}" for name, then, now in other)
        say(f"# computed with other versions than are here: {words}")
    say(f"# {folder.path}")
    more = f"all that is stored of it: harness show {folder.path.name[:8]} --all"
    say((folder.path / "run.json").read_text("utf-8") if PAGE.is_whole else more, is_raw=True)


def schema(
    kind: str = argument(
        "KIND",
        "task, model, judge, scorer, recipe, sheet, annotation, table, layout, perturbation, "
        "build, plan, import, data, golden, overlay or prices.",
    ),
) -> None:
    """Print the JSON schema of a kind of YAML file; editors use it to complete and check the file.

    The kinds of models and judges that installed packages add are part of it.
    """
    PAGE.end()  # a file, which is not cut
    say(schema_text(kind).removesuffix("\n"), is_raw=True)


def tokens(
    where: Annotated[options.Where, options.Only("data data_mode prompts home")],
    *,
    task: str = option("Task with choices: a name in tasks/.", ...),
    model: str = option("Local model: a name in configs/models/.", ...),
    variant: str | None = option("Variants, comma-separated, or all. Default: the task's."),
    limit: options.Limit = None,
    is_json: AsJson = False,
) -> None:
    """Show how a local model's tokenizer reads a task's choices; its weights are not loaded."""
    from harness.pipeline.preview import check_tokens
    from harness.pipeline.resolve import RunOptions, resolve_choices

    space = where.workspace()
    wanted = RunOptions(task, model, variants=options.names(variant), limit=limit)
    plan, spec = resolve_choices(space, wanted)
    reports = check_tokens(plan, spec, space.registry.cache / "checkpoints")
    show_json(reports, is_json)
    frame = pandas.DataFrame.from_dict(reports, orient="index")
    show_frame(frame.reset_index(names="variant"), f"{task}, {model}")


def fetch(
    names: list[str] | None = argument("SOURCE", SOURCE_NAMES, None),
    data: options.DataFolder = None,
    home: Home = HOME,
) -> None:
    """Download sources at a fixed commit; refuse files that have another sha256 than stated."""
    registry, folder = options.registry(home), options.data_folder(data, must_exist=False)
    lost = list[str]()
    for name in (wanted := names or registry.names("configs/data")):
        spec = registry.load("configs/data", name)
        try:
            paths = download.fetch(name, spec, folder)
        except DataError as error:
            lost.append(str(error))
            warn(lost[-1].partition("; ")[0])
            continue
        warn(f"{name}: licence {spec.licence}; {spec.citation}")
        for path in paths:
            say(str(path))
    if lost:
        count = f"{len(lost)} of {len(wanted)} sources: " * (len(wanted) > 1)
        raise DataError(f"{count}{lost[0]}")


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
    show_json(files, is_json)
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
    paper: str | None = option("Paper: a name in configs/golden/. Default: all."),
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Recompute the numbers of published papers from their data; no download, no model calls.

    A number is ok if rounding its last digit explains the difference. Exit code 1: one differs.
    """
    # Imported here: `list` has no use for numpy.
    from harness.analysis.verify import DIFFERS
    from harness.analysis.verify import verify as verify_papers

    registry = options.registry(home)
    golden: Section = "configs/golden"
    papers = {paper: registry.load(golden, paper)} if paper else registry.all(golden)
    folder = options.data_folder(data)
    cells = verify_papers(papers, lambda name: path if (path := folder / name).is_dir() else None)
    if data is not None and not any(map(Path.is_dir, folder.iterdir())):
        raise SpecError(f"{folder}: no folder of a source in it; name the one that holds them")
    show_json(plain_rows(cells), is_json)
    _put_verified(papers, cells)
    return ExitCode.CHECK_FAILED if (cells["status"] == DIFFERS).any() else ExitCode.DONE


def _put_verified(papers: Mapping[str, GoldenSpec], cells: DataFrame) -> None:
    from harness.analysis.verify import DIFFERS, OK, STATES

    status = cells["status"]
    for name, spec in papers.items() if PAGE.is_whole else ():
        _put_cells(f"{name}: {spec.paper}", cells[cells["paper"] == name])
        for cells_left, reason in spec.unlisted.items():
            say(f"not listed: {cells_left} ({reason})")
    if not PAGE.is_whole:
        by = cells.groupby(["paper", "status"]).size().unstack(fill_value=0)
        counts = by.reindex(index=list(papers), columns=list(STATES), fill_value=0)
        show_frame(counts.reset_index(), "published numbers, recomputed")
        if (status == DIFFERS).any():
            _put_cells("not as published", cells[status == DIFFERS])
    say(f"{len(cells)} cells: {', '.join(f'{(status == one).sum()} {one}' for one in STATES)}")
    of = Counter(cells.loc[status == OK, "origin"]) + Counter(cells.loc[status == OK, "by"])
    say(
        f"of those ok, {of['printed']} are printed in a paper, {of['derived']} follow from printed "
        f"numbers, and {of['counted']} were counted in the released files; {of['files']} were "
        f"recomputed of files, {of['figures']} of other published numbers"
    )
    if not PAGE.is_whole:
        say("every number: harness verify --all")


def _put_cells(title: str, cells: DataFrame) -> None:
    why = (" (" + cells["reason"].astype(object) + ")").fillna("").replace(" ()", "")
    shown = cells[["table", "cell", "published", "recomputed"]].assign(
        difference=cells["recomputed"] - cells["published"],
        by=cells["by"],
        status=cells["status"] + why,
    )

    def number(value: float | None) -> str | None:
        is_whole = value is not None and value == round(value)
        return None if value is None else f"{value:.0f}" if is_whole else f"{value:.5g}"

    show_frame(shown, title, published=number, recomputed=number, difference=number)
