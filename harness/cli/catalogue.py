"""The commands that show what there is: list, with runs, show, schema, tokens; data; verify."""

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from harness.cli import options
from harness.cli.list_runs import WIDTH, list_runs
from harness.cli.options import HOME, AsJson, ExitCode, Home, argument, option
from harness.data import download
from harness.errors import SpecError, did_you_mean
from harness.present.screen import Cell, say, show_json, show_records, show_rows, warn
from harness.registry import EXTENDED, KINDS, SPECS, Registry, Section
from harness.specs import plugins
from harness.specs.data import GoldenSpec, OverlaySpec
from harness.specs.models import PricesSpec, is_usual_variable
from harness.specs.schema import json_schema
from harness.storage.environment import other_versions, versions_here
from harness.storage.files import write_whole
from harness.storage.find_runs import NoSuchRun, find_run, run_facts
from harness.storage.runs import RunFolder, read_table

if TYPE_CHECKING:
    from harness.analysis.verify import VerifiedCell

SECTIONS: dict[str, Section] = {
    "tasks": "tasks",
    "models": "configs/models",
    "judges": "configs/judges",
    "data": "configs/data",
    "annotations": "configs/annotations",
    "builds": "configs/builds",
    "imports": "configs/imports",
    "scorers": "configs/scorers",
    "sheets": "configs/sheets",
    "tables": "configs/tables",
    "pairs": "configs/pairs",
    "layouts": "configs/layouts",
    "perturbations": "configs/perturbations",
    "plans": "configs/plans",
}
NOT_HERE = {"vllm": " (without vLLM add --backend transformers, or --backend server)"}
"""What a model of a kind needs that may not be installed."""
EXAMPLES, WIDEST = 3, 12
TOKENS_HEAD = (
    *("variant", "choices", "tokens a choice (min/median/max)", "one token", "other tokens apart"),
    *("token across", "nothing before", "BOS", "longest context"),
)
SOURCE_NAMES = "Sources. Default: all."


def list_names(
    where: Annotated[options.Where, options.Only("results home")],
    what: str | None = argument(
        "KIND", f"{', '.join(SECTIONS)} or runs. Default: a line of each kind.", None
    ),
    names: list[str] | None = argument(
        "RUN", "With runs, which: @TAG, a task, a model, TASK/MODEL. Default: all.", None
    ),
    tag: str | None = option("With runs, those of a tag.", None),
    is_json: AsJson = False,
) -> int:
    """List the names that commands take: tasks, models, judges and more.

    \b
    Examples:
      harness list tasks
      harness list runs @pilot
    """
    names = [*(names or ()), *([f"@{tag.removeprefix('@')}"] if tag else ())]
    if what == "runs":
        return list_runs(where.results, names, is_json=is_json)
    if names:
        raise SpecError(f"list {what or ''} {names[0]}: only runs are chosen by names")
    if what is not None and what not in SECTIONS:
        raise SpecError(f"list {what!r}: give one of {', '.join([*SECTIONS, 'runs'])}")
    registry = options.registry(where.home)
    found = {name: registry.names(SECTIONS[name]) for name in ([what] if what else SECTIONS)}
    if is_json:
        show_json(found)
        return ExitCode.DONE
    if what is None:
        for section, members in found.items():
            say(_shortened(section, members))
        say("\nall of a kind, and what each is: harness list KIND; runs: harness list runs")
        return ExitCode.DONE
    for section, members in found.items():
        say(f"{section}:")
        for name in members:
            say(_listed(name, _about(registry, SECTIONS[section], name)))
    return ExitCode.DONE


def _shortened(section: str, members: Sequence[str]) -> str:
    """The number of names of a kind, and as many of them as fit a line."""
    head = f"{section:13} {len(members):3}  "
    first, *rest = wrap(", ".join(members), WIDTH - len(head) - 4, break_on_hyphens=False)
    return f"{head}{first}{' ...' if rest else ''}"


def _listed(name: str, about: str) -> str:
    """A line of the list; on a terminal what is longer goes on under where the words begin."""
    line = f"  {name:24} {about}".rstrip()
    if not sys.stdout.isatty():
        return line
    width = max(60, get_terminal_size().columns)
    return fill(line, width, subsequent_indent=" " * 27, break_on_hyphens=False)


def _about(registry: Registry, section: Section, name: str) -> str:
    """A YAML file's line `about`, read without parsing or checking the file."""
    lines = registry.file(section, name).read_text("utf-8", "replace").splitlines()
    values = {
        key: line.removeprefix(f"{key}:").partition(" #")[0].strip().strip("\"'")
        for key in ("about", "kind", "ends")
        for line in reversed(lines)
        if line.startswith(f"{key}:")
    }
    about, kind = values.get("about", ""), values.get("kind", "")
    if section != "configs/models":
        return about
    ends = values.get("ends", "")
    when = "shut" if ends <= date.today().isoformat() else "shuts"
    end = f" Its provider {when} it down on {ends}." if ends else ""
    return f"{kind:12} {about}{end}{NOT_HERE.get(kind, '')}"


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
        say(f"# {path}\n{_without_keys(path.read_text('utf-8', 'replace'), registry)}")
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
    """Print what was run, its headline scores, its cost and what is missing."""
    from harness.cli.run_report import cost_line, gap_lines, put_scores

    file = folder.read()
    if not has_all:
        if folder.scores.is_file():
            put_scores(file, read_table(folder.scores))
        facts = "; ".join(f"{name} {fact}" for name, fact in run_facts(file).items())
        say(facts, is_prose=True)
        if (line := cost_line(file.costs)) is not None:
            say(line, is_prose=True)
    for line in gap_lines(file, has_remedy=False):
        say(f"# {line}", is_prose=True)
    if other := other_versions(file.packages, versions_here(file.packages)):
        words = "; ".join(f"{name} {then}, here {now}" for name, then, now in other)
        say(f"# computed with other versions than are here: {words}", is_prose=True)
    say(f"# {folder.path}")
    if has_all:
        say((folder.path / "run.json").read_text("utf-8"))
    else:
        say(f"all that is stored of it: harness show {folder.path.name[:8]} --all")
    return ExitCode.DONE


def _without_keys(text: str, registry: Registry) -> str:
    """A YAML file without what some write as `key_env` in place of a variable's name: the key."""

    def shown(found: re.Match[str]) -> str:
        name = found[2]
        is_shown = name in ("null", "~") or name in registry.environ or is_usual_variable(name)
        return found[0] if is_shown else f"{found[1]}[not shown: the name of no variable]"

    return re.sub(r"""(key_env['"]?\s*:\s*['"]?)([^\s'",}]+)""", shown, text)


def schema(
    kind: str = argument(
        "KIND",
        "task, model, judge, scorer, recipe, sheet, annotation, table, layout, perturbation, "
        "build, plan, import, data, golden, overlay or prices.",
    ),
    out: Path | None = option("File to write. Default: stdout.", None, flags="--out -o"),
) -> int:
    """Print the JSON schema of a kind of YAML file; editors use it to complete and check the file.

    The kinds of models and judges that installed packages add are part of it.
    """
    text = schema_text(kind)
    if out is None:
        say(text.removesuffix("\n"))
    else:
        write_whole(out, text.encode())
        warn(f"{out}: the schema of a {kind} file")
    return ExitCode.DONE


def schema_text(kind: str, *, has_plugins: bool = True) -> str:
    """Return the JSON schema of a kind of file as text, in one order of keys."""
    known: dict[str, Any] = {"overlay": OverlaySpec, "prices": PricesSpec}
    for section, spec in SPECS.items():
        name = section.removeprefix("configs/").removesuffix("s")
        known[name], group = spec, EXTENDED.get(section)
        if has_plugins and group is not None:
            for added in sorted({*plugins.plugin_kinds(group)} - KINDS[group].keys()):
                plugin = plugins.plugin(group, added, known=(), where=group)
                known[name] |= plugins.spec_of(plugin, added, where=group)
    if kind not in known:
        raise SpecError(f"no kind of file {kind!r}{did_you_mean(kind, list(known))}")
    content = msgspec.json.encode(json_schema(known[kind], title=f"harness {kind}"))
    return msgspec.json.format(content, indent=1).decode() + "\n"


@dataclass(frozen=True, kw_only=True)
class TokensChoice:
    """Whose tokenizer reads which choices."""

    task: str = option("Task with choices: a name in tasks/.")
    model: str = option("Local model: a name in configs/models/.")
    variant: str | None = option("Variants, comma-separated, or all. Default: the task's.", None)
    limit: options.Limit = None


def tokens(
    choice: TokensChoice,
    where: Annotated[options.Where, options.Only("data data_mode prompts home")],
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
        show_json(reports)
        return ExitCode.DONE
    lines = []
    for variant, one in reports.items():
        lengths = f"{one['fewest']} / {one['median']:g} / {one['most']}"
        counts = (one[name] for name in ("single", "differing", "spanning", "ungiven"))
        starts = " or ".join(map(str, one["bos_counts"]))
        lines.append((variant, one["choices"], lengths, *counts, starts, one["longest_context"]))
    show_rows(f"{choice.task}, {choice.model}", TOKENS_HEAD, lines)
    examples = [
        (part["scored"] == part["apart"], place, name, part)
        for name, report in reports.items()
        for place, part in enumerate(report["examples"])
    ]
    # First those whose tokens change when the choice is tokenised alone.
    for _, _, name, part in sorted(examples, key=lambda entry: entry[:2])[:EXAMPLES]:
        say(f"{name}, sample {part['sample_id']}, choice {part['choice']!r}")
        for what in ("given", "scored", "apart"):
            say(f"  {what:<6} {_shown(part[what])}")
    return ExitCode.DONE


def _shown(pieces: Sequence[str]) -> str:
    more = f" and {len(pieces) - WIDEST} more" if len(pieces) > WIDEST else ""
    return " ".join(f"[{piece}]" for piece in pieces[:WIDEST]) + more


def list_sources(home: Home = HOME, is_json: AsJson = False) -> int:
    """List the sources of data, their licences and origins."""
    registry = options.registry(home)
    sources = {name: registry.load("configs/data", name) for name in registry.names("configs/data")}
    if is_json:
        show_json(sources)
        return ExitCode.DONE
    for name, spec in sources.items():
        say(f"{name}: {spec.about}")
        say(f"  licence {spec.licence}; {spec.repository} at {spec.commit}; {spec.citation}")
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
    has_all: bool = option("Print every file, not only those that differ.", False, flags="--all"),
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
        for file in files:
            if has_all or file.state == "differs":
                say(f"{file.state:8} {file.path}")
    if missing := sorted({file.source for file in files if file.state == "missing"}):
        warn(
            f"missing below {folder}: `harness data fetch {' '.join(missing)}` downloads it; or "
            "name another folder with --data"
        )
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
    from harness.analysis.verify import SOURCES, CellStatus
    from harness.analysis.verify import verify as verify_papers

    registry = options.registry(home)
    names = [paper] if paper else registry.names("configs/golden")
    papers = {name: registry.load("configs/golden", name) for name in names}
    folder = options.data_folder(data)
    if data is not None and not any((folder / source).is_dir() for source in SOURCES):
        raise SpecError(
            f"{folder}: no folder of a source in it ({', '.join(sorted(SOURCES))}); name the "
            "folder that holds them"
        )
    cells = verify_papers(papers, lambda name: path if (path := folder / name).is_dir() else None)
    if is_json:
        show_json(cells)
    else:
        _put_verified(papers, cells, has_all=has_all)
    is_wrong = any(cell.status == CellStatus.DIFFERS for cell in cells)
    return ExitCode.CHECK_FAILED if is_wrong else ExitCode.DONE


def _put_verified(
    papers: Mapping[str, GoldenSpec], cells: "Sequence[VerifiedCell]", *, has_all: bool
) -> None:
    from harness.analysis.verify import CellStatus

    for name, spec in papers.items() if has_all else ():
        _put_cells(f"{name}: {spec.paper}", [cell for cell in cells if cell.paper == name])
        for rest in spec.unlisted:
            say(f"not listed: {rest.table}, {rest.cells} ({rest.reason})")
    differing = [cell for cell in cells if cell.status == CellStatus.DIFFERS]
    if not has_all:
        found = Counter((cell.paper, str(cell.status)) for cell in cells)
        states = [*map(str, CellStatus)]
        rows: list[list[Cell]] = [[name, *(found[name, s] for s in states)] for name in papers]
        show_rows("published numbers, recomputed", ("paper", *states), rows)
    if differing and not has_all:
        _put_cells("not as published", differing)
    counts = ", ".join(f"{sum(c.status == s for c in cells)} {s}" for s in CellStatus)
    origins = Counter(cell.origin for cell in cells if cell.status == CellStatus.OK)
    say(f"{len(cells)} cells: {counts}")
    say(
        f"of those ok, {origins['printed']} are printed in a paper, {origins['derived']} follow "
        f"from printed numbers, and {origins['release']} are counts of the released files"
    )
    if not has_all:
        say("every number: harness verify --all")


def _put_cells(title: str, cells: "Sequence[VerifiedCell]") -> None:
    counts = Counter((cell.status, cell.reason) for cell in cells if cell.reason)
    shared = {key: count for key, count in counts.items() if count > 1}
    show_records(
        title,
        cells,
        "table, cell, published, recomputed, difference, status",
        published=lambda cell: _number(cell.published),
        recomputed=lambda cell: _number(cell.recomputed),
        difference=lambda cell: _number(cell.difference),
        status=lambda cell: (
            f"{cell.status} ({cell.reason})"
            if counts[cell.status, cell.reason] == 1
            else cell.status
        ),
    )
    for (status, reason), count in shared.items():
        say(f"{count} {status}: {reason}")


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value == round(value) else f"{value:.5g}"
