"""Stored runs to a zip with all that derives their numbers again, and such a zip to its proof.

A proof renders the prompts again, so that every call is found by what it asked, and reads, judges
and scores the answers again, offline. Samples are taken as they are stored; no code is run.
"""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

from harness import __version__
from harness.core import Sample
from harness.errors import HarnessError, SpecError, StoreError
from harness.judges.custom import JudgeLabel
from harness.lazy import DataFrame, pandas
from harness.models.client.cached import CachedClient, CallPolicy, OfflineModel, Progress
from harness.parts import digest
from harness.pipeline.execute import answer, with_judge
from harness.pipeline.plan import Plan, variant_digest
from harness.pipeline.records import SamplesOf, step_keys, with_verdicts
from harness.pipeline.resolve import stored_responses
from harness.pipeline.score import derived
from harness.pipeline.setup import joined, stored_setup
from harness.pipeline.walk import rebuild
from harness.registry import JUDGES, Registry
from harness.specs.implicitness import PythonEncoderSpec
from harness.specs.models import IMPORTED, HostedSpec, ModerationSpec
from harness.specs.plugins import OWN
from harness.storage.bundle import pack, unpack
from harness.storage.cells import decode_json
from harness.storage.find_runs import run_folders
from harness.storage.ledger import Ledger
from harness.storage.read_tables import arrow_table
from harness.storage.run_tables import RunTables, SampleRecord
from harness.storage.runs import NAMES, RUN, SCORES, SUMS, RunFile, RunFolder, StoredRun
from harness.storage.tables import write_named
from harness.workspace import Workspace

MOST_SHOWN, LEAST_SECRET = 10, 8
_LABELS = ("sample", "variant", "decoding", "group", "judge", "metric")
_DERIVED = re.compile(
    rf"results/(runs/([^/]+/){{3}}({'|'.join(map(re.escape, (*NAMES, SUMS)))})|"
    r"calls/[^/]+/calls\.jsonl)|home/(configs/judges|prompts)/.+|README\.md"
)

README = """# A bundle of evaluation results

{count} of the pragmatics harness, version {version}, and all that derives their numbers again:

    harness bundle --check FILE.zip

renders every prompt again, finds each stored call by what it asked, reads, judges and scores the
answers again, without a key or a model, and compares all values. That shows that these numbers
follow from these calls. It does not show that the calls are what a model said, or that the texts
are those of the data set: compare the sums of the data files in `run.json` with the release. Mind
the licence of the texts, and that some may offend.

{runs}
"""


@dataclass(frozen=True, slots=True)
class Proof:
    """One run derived again: its name, how many calls it is of, and each thing that differs.

    `unproven` are judges whose verdicts were not derived, and why: these are kept as stored.
    """

    run: str
    calls: int
    differences: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether every file came out the same, and every judge was derived."""
        return not self.differences and not self.unproven


def write_bundle(workspace: Workspace, folders: Sequence[RunFolder], out: Path) -> tuple[int, int]:
    """Write the bundle of some runs; how many files and how many bytes it has.

    Raises StoreError for a run that is not whole, or whose calls are not all stored, and SpecError
    where a file has a key or a path of this machine in it.
    """
    found = [(folder, StoredRun.read(folder)) for folder in folders]
    runs = sorted(found, key=lambda pair: (pair[1].file.run.task, pair[1].file.digest))
    files, made = dict[str, bytes](), [run.file for _, run in runs]
    for folder, run in runs:
        names = [name for name in (*NAMES, SUMS) if (folder.path / name).exists()]
        place = f"results/runs/{_place(run.file)}"
        files |= {f"{place}/{name}": (folder.path / name).read_bytes() for name in names}
        files |= _home(workspace.registry, run.file)
    count = f"{len(made)} run{'s' * (len(made) != 1)}"
    files |= _calls(workspace, runs)
    lines = "\n".join(map(_line_of, made))
    files["README.md"] = README.format(count=count, version=__version__, runs=lines).encode()
    _refuse_secrets(workspace, made, files)
    write_named(out, data := pack(files))
    return len(files), len(data)


def _line_of(file: RunFile) -> str:
    """A run in the README, with what is missing of it."""
    judges = ", ".join(entry.name for entry in file.judges) or "nobody"
    lost = (
        f"{gap.count} {gap.judge and 'verdicts of '}{gap.judge or 'answers'} {gap.reason}"
        for gap in file.missing or ()
    )
    answers = f"{file.samples} samples, {file.planned} answers, judged by {judges}; missing: "
    return f"- {file.run.task}, {file.model.name}: {answers}{', '.join(lost) or 'nothing'}"


def _calls(workspace: Workspace, runs: Sequence[tuple[RunFolder, StoredRun]]) -> dict[str, bytes]:
    """The ledger lines of the runs' calls, each once, by time, by the model that was asked."""
    found: dict[str, dict[bytes, float]] = {}
    for folder, run in runs:
        results, keys, stored = folder.results(workspace.results), _call_keys(run.rows), set[str]()
        asked = {entry.asks for entry in run.file.judges if entry.asks is not None}
        for name in sorted({run.file.model.name, *asked}):
            ledger = Ledger(results / "calls" / name)
            stored |= ledger.find(keys).keys()
            for moment, line in ledger.stored_lines(keys):
                found.setdefault(f"results/calls/{name}/calls.jsonl", {})[line] = moment
        if lost := sorted(keys - stored):
            raise StoreError(
                f"{folder.path}: {len(lost)} of its calls are not in the ledger (first: "
                f"{lost[0][:12]}); copy its folder back, or repeat the run"
            )
    # Of one time in the order of the ledger, which `sorted` keeps.
    timed = {name: sorted(lines, key=lines.__getitem__) for name, lines in found.items()}
    return {name: b"".join(lines) for name, lines in timed.items()}


def _call_keys(records: Sequence[SampleRecord]) -> set[str]:
    """The keys of every call behind some records: of their steps and of their judges."""
    verdicts = (verdict for record in records for verdict in record.verdicts.values())
    return {*step_keys(records), *(key for verdict in verdicts for key in verdict.keys)}


def _home(registry: Registry, file: RunFile) -> dict[str, bytes]:
    """The judges and prompts of a run, by their paths in the bundle."""
    files, prompts, templates = dict[str, bytes](), registry.prompts, set[str]()
    texts: dict[str, str] = {}
    if file.model.kind != IMPORTED:
        for variant in (file.task.variants[name] for name in file.run.variants):
            templates |= {*(step.template for step in variant.steps), *variant.slots.values()}
        for phrase in file.task.phrases:
            texts |= prompts.sources_below(f"{file.task.origin(file.run.task)}/{phrase}")
    named = {JudgeLabel.parse(entry.name).name for entry in file.judges}
    for name in sorted(named & {*registry.names("configs/judges")}):
        path, spec = registry.file("configs/judges", name), registry.load("configs/judges", name)
        files[f"home/configs/judges/{name}.yaml"] = path.read_bytes()
        templates |= {getattr(spec, "template", ""), *getattr(spec, "slots", {}).values()}
        own = path.parent / str(getattr(spec, "entry", "")).rpartition(":")[0]
        if own.suffix == ".py" and own.parent == path.parent and own.is_file():
            files[f"home/configs/judges/{own.name}"] = own.read_bytes()
    for template in filter(None, templates):
        texts |= prompts.sources(template)
    return files | {f"home/prompts/{name}": text.encode() for name, text in texts.items()}


def _place(file: RunFile) -> str:
    return f"{file.run.task}/{file.model.name}/{file.digest[:16]}"


def _refuse_secrets(
    workspace: Workspace, runs: Sequence[RunFile], files: Mapping[str, bytes]
) -> None:
    """Refuse a bundle with a key of the environment, or a path of this machine, in it."""
    registry = workspace.registry
    named = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN"}
    for spec in registry.all("configs/models").values():
        if isinstance(spec, HostedSpec | ModerationSpec):
            named |= {*filter(None, [spec.key_env]), *spec.headers_env.values()}
    keys = {registry.environ.get(key, ""): f"the key in {key}" for key in sorted(named)}
    found = {value: what for value, what in keys.items() if len(value) >= LEAST_SECRET}
    home = [*map(Path, filter(None, [os.environ.get("HOME")]))]
    for place in (*home, Path.cwd(), workspace.results.resolve(), *registry.homes):
        if len(place.parts) > 2:
            found.setdefault(str(place), f"a path of this machine ({place})")
    for table in (run.task.data.map for run in runs):
        if table and Path(table).is_absolute():
            found[table] = "the path of a column map (name one in configs/tables/)"
    for text, what in found.items():
        if has := [name for name, data in files.items() if text.encode() in data]:
            fact = f"{has[0]} has {what} in it, which is not to be handed on"
            raise SpecError(f"{fact}; repeat the run without it")


def prove_bundle(path: Path, progress: Progress) -> tuple[list[str], list[Proof]]:
    """The files of a bundle that nothing derives, and each of its runs derived again.

    Only what the bundle brings is used: no file of a home folder, and no key. Raises StoreError
    for what is no bundle, or not safe to unpack.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with tempfile.TemporaryDirectory(prefix="harness-prove-") as place:
        unpack(path, folder := Path(place).resolve())
        if not (folders := run_folders(folder / "results")):
            raise StoreError(f"{path}: no run in it; name what `harness bundle` made")
        (home := folder / "home").mkdir(exist_ok=True)
        registry = replace(Registry.open(home), homes=(home,), environ={})
        space = Workspace(registry, folder / "results", None, "corrected", progress)
        files = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
        others = [name for p in files if not _DERIVED.fullmatch(name := p.as_posix())]
        return [f"{n}: nothing derives it" for n in others], [_prove(space, o) for o in folders]


def _prove(workspace: Workspace, folder: RunFolder) -> Proof:
    """Derive a stored run from the calls of a workspace, and compare the values of its files."""
    calls, found, unproven = 0, list[str](), list[str]()
    try:
        run = StoredRun.read(folder)
        file, records = _derived(workspace, run, unproven)
        calls = len(_call_keys(run.rows))
        if not folder.path.as_posix().endswith(f"/{_place(file)}"):
            found.append(f"{RUN}: is of run {_place(file)}")
        found += _compared(folder, file, records)
        if len(found) > MOST_SHOWN:
            found[MOST_SHOWN:] = [f"and {len(found) - MOST_SHOWN} more values"]
        if found and file.version != __version__:
            found.append(f"version {file.version} scored it, and this is {__version__}; try that")
    except HarnessError as error:
        found, unproven = [str(error)], []
    # Lines do not name the folder that the bundle was unpacked to.
    here = f"{workspace.results.parent}{os.sep}"
    shown = [tuple(line.replace(here, "") for line in part) for part in (found, unproven)]
    return Proof("/".join(folder.path.parts[-3:]), calls, *shown)


def _derived(
    workspace: Workspace, run: StoredRun, unproven: list[str]
) -> tuple[RunFile, list[SampleRecord]]:
    """A run and its records made again; what was not derived is added to `unproven`."""
    file, responses, registry = replace(run.file, judges=()), {}, workspace.registry
    ledger = Ledger(workspace.results / "calls" / file.model.name)
    if file.model.kind == IMPORTED:  # others asked, in words that only they know
        bare = [replace(row, verdicts={}) for row in run.rows]
        responses = stored_responses(ledger, bare, file.task)
        records = [rebuild(record, responses, file.task) for record in bare]
    else:
        words = {
            name: variant_digest(file.task, name, prompts=registry.prompts, name=file.run.task)
            for name in file.run.variants
        }
        file = replace(file, variants=words, run=replace(file.run, prompts=digest(words)))
        asked, samples = file.model, _in_order(run.rows)
        model = OfflineModel(asked.name, asked.kind, asked.identity, frozenset({file.task.mode}))
        plan = Plan(file.run, file.task, samples, registry.prompts, asked.identity)
        policy = CallPolicy(is_offline=True, retry="none")
        records = answer(plan, CachedClient(model, ledger, workspace.progress, policy))
    file = replace(file, digest=file.run.digest)
    for entry in run.file.judges:
        try:
            if (name := JudgeLabel.parse(entry.name).name) not in registry.names("configs/judges"):
                raise SpecError("it has no YAML, so that its verdicts are kept as stored")
            spec = registry.load("configs/judges", name)
            kind = str(type(spec).__struct_config__.tag)
            has_own = isinstance(getattr(spec, "encoder", None), PythonEncoderSpec)
            if has_own or kind == OWN or kind not in JUDGES:
                raise SpecError("it is code of its own, which is not run; read it, then run it")
            setup = stored_setup(workspace, entry)
            with setup.client or nullcontext():
                records = with_judge(records, file.task, setup, responses)
            made = replace(entry, recipe=setup.judge.recipe)
        except (HarnessError, ImportError, OSError) as error:
            unproven.append(f"judge {entry.name}: {error}")
            rows = ((n, row.verdicts.get(entry.name)) for n, row in enumerate(run.rows))
            stored = {n: verdict for n, verdict in rows if verdict is not None}
            records, made = with_verdicts(records, entry.name, stored), entry
        file = replace(file, judges=joined(file.judges, made))
    return file, records


def _in_order(records: Sequence[SampleRecord]) -> tuple[Sample, ...]:
    """The samples in an order that gives each variant its own, as a variant may lack some."""
    lines: dict[tuple[str, str], list[str]] = {}
    for record in records:
        lines.setdefault((record.variant, record.decoding), []).append(record.sample.id)
    before = TopologicalSorter({record.sample.id: () for record in records})
    for line in lines.values():
        for first, second in pairwise(line):
            before.add(second, first)
    by_id = {sample.id: sample for sample in SamplesOf(records)}
    try:
        return tuple(by_id[name] for name in before.static_order())
    except CycleError:
        raise StoreError("its samples are in another order in each variant") from None


def _compared(folder: RunFolder, file: RunFile, records: Sequence[SampleRecord]) -> Iterator[str]:
    """The values of a run's files that differ from those that the derived records give."""
    tables = RunTables(folder.path)
    tables.add(records)
    file, scores = derived(file, tables.files)
    with tempfile.TemporaryDirectory() as place:
        other = RunFolder(Path(place))
        # A run that a judge has read has scores, though somebody took them away.
        has_scores = folder.scores.exists() or bool(file.judges)
        other.put(file, tables, scores if has_scores else None)
        for name in NAMES:
            yield from _unlike(name, *(_values(one.path / name) for one in (folder, other)))


def _values(path: Path) -> DataFrame:
    """The values of a file: of run.json one row of its parts, of scores sorted rows."""
    if not path.is_file():
        return pandas.DataFrame()
    if path.name == RUN:
        return pandas.DataFrame([decode_json(path.read_bytes())], dtype=object)
    if path.name == SCORES:
        scores = pandas.read_csv(path, dtype=str, keep_default_na=False)
        return scores.sort_values([*scores.columns], ignore_index=True)
    return pandas.DataFrame(arrow_table(path).to_pydict(), dtype=object)


def _unlike(file: str, stored: DataFrame, derived: DataFrame) -> Iterator[str]:
    """The columns that differ, each with its first row that does."""
    if len(stored) != len(derived):
        yield f"{file}: {len(stored)} rows are stored, {len(derived)} derived"
        return
    for name in sorted({*stored, *derived}):
        none = [None] * len(stored)
        pairs = zip(stored.get(name, none), derived.get(name, none), strict=True)
        rows = [(at, *pair) for at, pair in enumerate(pairs) if repr(pair[0]) != repr(pair[1])]
        for at, one, other in rows[:1]:
            where = " ".join(str(stored[part][at]) for part in _LABELS if part in stored)
            more = f" (and {len(rows) - 1} more rows)" if len(rows) > 1 else ""
            said = f"{one!r:.60} is stored, {other!r:.60} derived{more}"
            yield f"{file}: {name}{' of ' * bool(where)}{where}: {said}"
