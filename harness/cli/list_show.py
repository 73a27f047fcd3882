"""The commands that show what there is: list, show, tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from harness.cli import options
from harness.cli.command import ExitCode, Only, argument, option
from harness.cli.options import AsJson, Where
from harness.cli.output import Cell, echo, echo_json, echo_table, log
from harness.errors import SpecError

if TYPE_CHECKING:
    from harness.models.local.tokenization import TokenReport
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


KINDS = ", ".join(SECTIONS)
NOT_HERE = {"vllm": " (without vLLM add --backend transformers, or --backend server)"}
"""What a model of a kind needs that may not be installed."""
EXAMPLES, WIDEST = 3, 12
HEAD = (
    "variant",
    "choices",
    "tokens a choice (min/median/max)",
    "one token",
    "other tokens apart",
    "token across",
    "nothing before",
    "BOS",
    "longest context",
)


def list_names(
    where: Annotated[Where, Only("results", "home")],
    what: str | None = argument("WHAT", f"{KINDS} or runs. Default: all but runs.", None),
    is_json: AsJson = False,
) -> int:
    """List the names that commands take: tasks, models, judges and more."""
    if what == "runs":
        return _list_runs(where.results, is_json=is_json)
    if what is not None and what not in SECTIONS:
        raise SpecError(f"list {what!r}: give one of {', '.join([*SECTIONS, 'runs'])}")
    registry = where.registry()
    found = {name: registry.names(SECTIONS[name]) for name in ([what] if what else SECTIONS)}
    if is_json:
        echo_json(found)
        return ExitCode.DONE
    for section, members in found.items():
        echo(f"{section}:")
        for name in members:
            echo(f"  {name:24} {_about(registry, SECTIONS[section], name)}".rstrip())
    return ExitCode.DONE


def show(
    *,
    name: str = argument("NAME", "Name of a task, model, judge, source or other; or a run."),
    where: Annotated[Where, Only("results", "home")],
) -> int:
    """Show the YAML file of a name; or a run's run.json, with what is missing of the run."""
    registry = where.registry()
    files = [registry.file(s, name) for s in SECTIONS.values() if name in registry.names(s)]
    for path in files:
        echo(f"# {path}\n{path.read_text('utf-8', 'replace')}")
    if files:
        return ExitCode.DONE
    from harness.errors import StoreError
    from harness.storage.runs import find_run

    try:
        folder = find_run(where.results, name)
    except StoreError as error:
        raise SpecError(f"no name {name!r}{_meant(registry, name)}; and {error}") from error
    from harness.cli.run_summary import gap_lines

    for line in gap_lines(folder.read(), has_remedy=False):
        echo(f"# {line}")
    echo(f"# {folder.path}\n{(folder.path / 'run.json').read_text('utf-8')}")
    return ExitCode.DONE


@dataclass(frozen=True, kw_only=True)
class TokensChoice:
    """Whose tokenizer reads which choices."""

    task: str = option("--task", "Task with choices: a name in tasks/.")
    model: str = option("--model", "Local model: a name in configs/models/.")
    variant: str | None = option(
        "--variant", "Variants, comma-separated, or all. Default: the task's.", None
    )
    limit: options.Limit = None


def tokens(
    choice: TokensChoice,
    where: Annotated[Where, Only("data", "data_mode", "prompts", "home")],
    is_json: AsJson = False,
) -> int:
    """Show how a local model's tokenizer reads a task's choices; its weights are not loaded."""
    from harness.pipeline.preview import check_tokens
    from harness.pipeline.resolve import RunOptions, resolve_choices

    variants = options.names(choice.variant)
    wanted = RunOptions(choice.task, choice.model, variants=variants, limit=choice.limit)
    space = where.workspace()
    plan, spec = resolve_choices(space, wanted)
    reports = check_tokens(plan, spec, space.registry.cache / "checkpoints")
    if is_json:
        echo_json(reports)
        return ExitCode.DONE
    title, lines = f"{choice.task}, {choice.model}", [_cells(*pair) for pair in reports.items()]
    echo_table(title, HEAD, lines)
    _put_examples(reports)
    return ExitCode.DONE


def _meant(registry: "Registry", name: str) -> str:
    from difflib import get_close_matches

    known = {name for section in SECTIONS.values() for name in registry.names(section)}
    if close := get_close_matches(name, sorted(known), n=1):
        return f"; did you mean {close[0]!r}?"
    return "; `harness list` lists the names"


def _about(registry: "Registry", section: "Section", name: str) -> str:
    """A YAML file's line `about`, read without parsing or checking the file."""
    lines = registry.file(section, name).read_text("utf-8", "replace").splitlines()
    values = {
        key: line.removeprefix(f"{key}:").partition(" #")[0].strip().strip("\"'")
        for key in ("about", "kind")
        for line in reversed(lines)
        if line.startswith(f"{key}:")
    }
    about, kind = values.get("about", ""), values.get("kind", "")
    if section != "configs/models":
        return about
    return f"{kind:12} {about}{NOT_HERE.get(kind, '')}"


def _list_runs(results: Path, *, is_json: bool) -> int:
    from harness.errors import StoreError
    from harness.storage.runs import run_folders

    if not results.is_dir():
        raise StoreError(f"--results {results}: no such folder; `harness run` makes one")
    found = run_folders(results)
    if is_json:
        echo_json([str(folder.path) for folder in found])
        return ExitCode.DONE
    for folder in found:
        echo(f"{folder.path}  {_state(folder)}")
    if not found:
        log(f"no runs below {results}/runs; `harness run` makes one, or see --results")
    return ExitCode.DONE


def _state(folder: "RunFolder") -> str:
    """The time a run was last written, in local time, and how much of it is missing."""
    from harness.errors import StoreError

    try:
        missing = folder.read().missing
    except StoreError:
        return "damaged; repeat the run to rebuild it"
    day = datetime.fromtimestamp((folder.path / "run.json").stat().st_mtime).astimezone()
    count = "" if missing is None else f"  missing {sum(gap.count for gap in missing)}"
    return f"{day:%Y-%m-%d %H:%M}{count}"


def _cells(variant: str, report: "TokenReport") -> Sequence[Cell]:
    lengths = f"{report.fewest} / {report.median:g} / {report.most}"
    counts = (report.single, report.differing, report.spanning, report.ungiven)
    starts = " or ".join(map(str, report.bos_counts))
    return (variant, report.choices, lengths, *counts, starts, report.longest_context)


def _put_examples(reports: "dict[str, TokenReport]") -> None:
    """Three choices; first those whose tokens change when the choice is tokenised alone."""
    found = [
        (part.scored == part.apart, place, name, part)
        for name, report in reports.items()
        for place, part in enumerate(report.examples)
    ]
    for _, _, name, part in sorted(found, key=lambda entry: entry[:2])[:EXAMPLES]:
        echo(f"{name}, sample {part.sample_id}, choice {part.choice!r}")
        echo(f"  given  {_shown(part.given)}")
        echo(f"  scored {_shown(part.scored)}")
        echo(f"  apart  {_shown(part.apart)}")


def _shown(pieces: Sequence[str]) -> str:
    more = f" and {len(pieces) - WIDEST} more" if len(pieces) > WIDEST else ""
    return " ".join(f"[{piece}]" for piece in pieces[:WIDEST]) + more
