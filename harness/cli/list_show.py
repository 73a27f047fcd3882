"""The commands that show what there is: list, show."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.options import HOME, RESULTS, AsJson, Home, Results
from harness.cli.output import echo, echo_json, log
from harness.errors import SpecError

if TYPE_CHECKING:
    from harness.registry import Registry, Section
    from harness.storage.runs import RunFolder

SECTIONS: "dict[str, Section]" = {
    "tasks": "tasks",
    "models": "configs/models",
    "judges": "configs/judges",
    "data": "configs/data",
    "builds": "configs/builds",
    "imports": "configs/imports",
    "scorers": "configs/scorers",
    "tables": "configs/tables",
    "perturbations": "configs/perturbations",
}


# What a kind of model needs that may not be here.
NOT_HERE = {
    "vllm": " (without vLLM add --backend transformers, or --backend server)",
}


def list_names(
    what: Annotated[
        str | None,
        typer.Argument(help="tasks, models, judges, data or runs; default: all but runs."),
    ] = None,
    results: Results = RESULTS,
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """List the names that commands take."""
    if what == "runs":
        return _list_runs(results, is_json=is_json)
    if what is not None and what not in SECTIONS:
        raise SpecError(f"list {what!r}: give one of {', '.join([*SECTIONS, 'runs'])}")
    registry = options.registry(home)
    found = {name: registry.names(SECTIONS[name]) for name in ([what] if what else SECTIONS)}
    if is_json:
        echo_json(found)
        return 0
    for section, members in found.items():
        echo(f"{section}:")
        for name in members:
            echo(f"  {name:24} {_about(registry, SECTIONS[section], name)}".rstrip())
    return 0


def show(
    name: Annotated[str, typer.Argument(help="A task, model, judge, data source or run.")],
    results: Results = RESULTS,
    home: Home = HOME,
) -> int:
    """Show what a name stands for: its YAML file, or a run's."""
    registry = options.registry(home)
    files = [registry.file(s, name) for s in SECTIONS.values() if name in registry.names(s)]
    for path in files:
        echo(f"# {path}\n{path.read_text('utf-8', 'replace')}")
    if files:
        return 0
    from harness.errors import StoreError
    from harness.storage.runs import RunFolder, find_run

    try:
        path = find_run(results, name).path
    except StoreError as error:
        raise SpecError(f"no name {name!r}{_meant(registry, name)}; and {error}") from error
    from harness.cli.run_summary import gap_lines

    for line in gap_lines(RunFolder(path).read(), has_remedy=False):
        echo(f"# {line}")
    echo(f"# {path}\n{(path / 'run.json').read_text('utf-8')}")
    return 0


def _meant(registry: "Registry", name: str) -> str:
    """The name that may be meant; without one, where all of them are told."""
    from difflib import get_close_matches

    known = {name for section in SECTIONS.values() for name in registry.names(section)}
    if close := get_close_matches(name, sorted(known), n=1):
        return f"; did you mean {close[0]!r}?"
    return "; `harness list` shows them"


def _about(registry: "Registry", section: "Section", name: str) -> str:
    """The line a YAML file says of itself, found without checking the rest of it."""
    lines = registry.file(section, name).read_text("utf-8", "replace").splitlines()
    said = {
        key: line.removeprefix(f"{key}:").partition(" #")[0].strip().strip("\"'")
        for key in ("about", "kind")
        for line in reversed(lines)
        if line.startswith(f"{key}:")
    }
    about, kind = said.get("about", ""), said.get("kind", "")
    if section != "configs/models":
        return about
    return f"{kind:12} {about}{NOT_HERE.get(kind, '')}"


def _list_runs(results: "Results", *, is_json: bool) -> int:
    from harness.errors import StoreError
    from harness.storage.runs import run_folders

    if not results.is_dir():
        raise StoreError(f"--results {results}: no such folder; `harness run` makes one")
    found = run_folders(results)
    if is_json:
        echo_json([str(folder.path) for folder in found])
        return 0
    for folder in found:
        echo(f"{folder.path}  {_state(folder)}")
    if not found:
        log(f"no runs below {results}/runs; `harness run` makes one, or see --results")
    return 0


def _state(folder: "RunFolder") -> str:
    """When a run was last written, by this machine's clock, and how much is missing of it."""
    from harness.errors import StoreError

    try:
        missing = folder.read().missing
    except StoreError:
        return "damaged; repeat the run to rebuild it"
    day = datetime.fromtimestamp((folder.path / "run.json").stat().st_mtime).astimezone()
    told = "" if missing is None else f"  missing {sum(gap.count for gap in missing)}"
    return f"{day:%Y-%m-%d %H:%M}{told}"
