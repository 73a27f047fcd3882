"""Stored runs derived once more from their stored calls, and what differs from what is stored.

Prompts are rendered again, so that every call is found by what it asked; answers are read, judged
and scored again. The samples of a run are taken from it unchanged. No model is called, and no
judge's own code is run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import structs

from harness import __version__
from harness.core import Sample
from harness.errors import HarnessError
from harness.judges.custom import JudgeLabel
from harness.models.client.cached import CachedClient, CallPolicy, OfflineModel
from harness.parts import digest
from harness.pipeline.execute import answer, with_judge
from harness.pipeline.plan import Plan, variant_digest
from harness.pipeline.records import SamplesOf, with_costs, with_verdicts
from harness.pipeline.resolve import stored_responses
from harness.pipeline.score import score_rows
from harness.pipeline.setup import joined, stored_setup
from harness.pipeline.walk import rebuild
from harness.registry import JUDGES
from harness.specs.plugins import OWN
from harness.storage.ledger import Ledger
from harness.storage.run_tables import RunTables
from harness.storage.runs import (
    RUN,
    SCORES,
    JudgeEntry,
    RunFile,
    RunFolder,
    SampleRecord,
    ScoreRow,
    StoredRun,
    VerdictRecord,
)
from harness.workspace import Workspace

IMPORTED = "replay"
"""The kind of a model whose answers were imported: what it was asked is not ours to derive."""
MOST_SHOWN = 10


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


@dataclass(frozen=True, slots=True)
class _Derived:
    file: RunFile
    records: list[SampleRecord]
    differences: list[str]
    unproven: list[str]


def prove(workspace: Workspace, folder: RunFolder) -> Proof:
    """Derive a stored run from the calls of a workspace, and compare its files byte for byte.

    The workspace's registry has the prompts and judges to derive it with.
    """
    name = "/".join(folder.path.parts[-3:])
    try:
        run = StoredRun.read_all(folder)
        calls = len(call_keys(run.rows))
        derived = _derived(workspace, run)
    except HarnessError as error:
        return Proof(name, 0, (str(error),))
    found = [*derived.differences, *_compared(workspace, folder, run, derived)]
    if found and run.file.version != __version__:
        found.append(f"version {run.file.version} scored it, and this is {__version__}; try that")
    return Proof(name, calls, tuple(found), tuple(derived.unproven))


def call_keys(records: Sequence[SampleRecord]) -> set[str]:
    """The keys of every call behind some records: of their steps and of their judges."""
    keys = {step.key for record in records for step in record.steps}
    verdicts = (verdict for record in records for verdict in record.verdicts.values())
    return keys | {key for verdict in verdicts for key in verdict.keys}


def _derived(workspace: Workspace, run: StoredRun) -> _Derived:
    file, differences, unproven = run.file, [*_digests(workspace, run.file)], list[str]()
    records = _answered(workspace, run)
    derived = replace(file, judges=())
    for entry in file.judges:
        why = _why_unproven(workspace, entry)
        if why is None:
            try:
                derived, records = _judged(workspace, derived, records, entry, differences)
                continue
            except (HarnessError, ImportError, OSError) as error:
                why = str(error)
        unproven.append(f"judge {entry.name}: {why}")
        stored = {n: row.verdicts[entry.name] for n, row in enumerate(run.rows)}
        records = with_verdicts(records, entry.name, stored)
        derived = replace(derived, judges=joined(derived.judges, entry))
    return _Derived(with_costs(derived, records), records, differences, unproven)


def _digests(workspace: Workspace, file: RunFile) -> Iterator[str]:
    """What is wrong with the digests of a run: of itself, and of the words it asked in."""
    if file.run.digest != file.digest:
        yield f"run.json: its digest is {file.run.digest[:16]}, and it says {file.digest[:16]}"
    if file.model.kind == IMPORTED:
        return
    prompts, name = workspace.registry.prompts, file.run.task
    words = {v: variant_digest(file.task, v, prompts=prompts, name=name) for v in file.run.variants}
    for variant, found in words.items():
        if file.variants.get(variant) != found:
            yield f"variant {variant}: its prompts are not those that the run asked"
    if digest(dict(file.variants)) != file.run.prompts:
        yield "run.json: its variants are not those of its digest"


def _answered(workspace: Workspace, run: StoredRun) -> list[SampleRecord]:
    file, bare = run.file, [replace(row, verdicts={}) for row in run.rows]
    ledger = Ledger(workspace.results / "calls" / file.model.name)
    if file.model.kind == IMPORTED:  # others asked, in words that only they know
        responses = stored_responses(ledger, bare, file.task)
        return [rebuild(record, responses, file.task) for record in bare]
    entry = file.model
    model = OfflineModel(entry.name, entry.kind, entry.identity, frozenset({file.task.mode}))
    samples = _in_order(run.rows)
    plan = Plan(file.run, file.task, samples, workspace.registry.prompts, entry.identity)
    policy = CallPolicy(is_offline=True, retry="none")
    return answer(plan, CachedClient(model, ledger, workspace.progress, policy))


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
    return tuple(by_id[name] for name in before.static_order())


def _why_unproven(workspace: Workspace, entry: JudgeEntry) -> str | None:
    """Why a judge is not run again: it has no YAML, or code of its own, which is never run here."""
    registry, name = workspace.registry, JudgeLabel.parse(entry.name).name
    if name not in registry.names("configs/judges"):
        return "it has no YAML, so that its verdicts are kept as stored"
    kind = str(type(registry.load("configs/judges", name)).__struct_config__.tag)
    if kind == OWN or kind not in JUDGES:
        return f"it is code of its own (kind {kind}), which is not run; read it, then run it"
    return None


def _judged(
    workspace: Workspace,
    file: RunFile,
    records: list[SampleRecord],
    entry: JudgeEntry,
    differences: list[str],
) -> tuple[RunFile, list[SampleRecord]]:
    setup = stored_setup(workspace, entry, SamplesOf(records))
    if setup.judge.recipe != entry.recipe:
        differences.append(
            f"judge {entry.name}: its YAML or prompts give {setup.judge.recipe}, and it judged as "
            f"{entry.recipe}"
        )
    responses = {}
    if file.model.kind == IMPORTED:
        ledger = Ledger(workspace.results / "calls" / file.model.name)
        responses = stored_responses(ledger, records, file.task)
    return with_judge(file, records, file.task, setup, responses)


def _compared(
    workspace: Workspace, folder: RunFolder, run: StoredRun, derived: _Derived
) -> Iterator[str]:
    differing, scores = list[str](), list[ScoreRow]()
    for file in _in_orders(workspace, derived.file):
        scores = score_rows(file, derived.records, is_every=False)
        differing = _differing(folder, run, replace(derived, file=file), scores)
        if SCORES not in differing:
            break
    for name in differing:
        yield f"{name}: other values are derived"
    found = [line for pair in zip(run.rows, derived.records, strict=False) for line in _of(*pair)]
    if SCORES in differing:
        known = set(map(repr, folder.read_scores()))
        found += [
            f"score {row.score.metric} of {row.score.variant}, {row.score.group} by "
            f"{row.score.judge}: {row.score.value} is derived"
            for row in scores
            if repr(row) not in known
        ]
    yield from found[:MOST_SHOWN]
    if len(found) > MOST_SHOWN:
        yield f"and {len(found) - MOST_SHOWN} more answers, verdicts or scores"


def _differing(
    folder: RunFolder, run: StoredRun, derived: _Derived, scores: Sequence[ScoreRow]
) -> list[str]:
    """The files of a run folder that hold other values than the derived records give."""
    with TemporaryDirectory() as place:
        other = RunFolder(Path(place))
        stored, made = RunTables(other.path), RunTables(other.path)
        stored.add(run.rows)
        made.add(derived.records)
        tables = made.digests
        found = [f"{name}.parquet" for name, sum_ in stored.digests.items() if sum_ != tables[name]]
        # A run that a judge has read has scores, though somebody took them away.
        has_scores = folder.scores.exists() or bool(derived.file.judges)
        other.put(derived.file, made, scores if has_scores else None)
        return [*found, *(n for n in (RUN, SCORES) if _held(folder, n) != _held(other, n))]


def _held(folder: RunFolder, name: str) -> bytes | None:
    path = folder.path / name
    return path.read_bytes() if path.is_file() else None


def _in_orders(workspace: Workspace, file: RunFile) -> Iterator[RunFile]:
    """The run with its task's variants in the order of run.json, then in that of the YAML.

    run.json has them by name, and the rows of averages follow the one they were scored by.
    """
    yield file
    name, own = file.run.task, file.task.variants
    if name in workspace.registry.names("tasks"):
        listed = workspace.registry.load("tasks", name).variants
        order = dict.fromkeys((*(v for v in listed if v in own), *own))
        variants = {variant: own[variant] for variant in order}
        yield replace(file, task=structs.replace(file.task, variants=variants))


def _of(stored: SampleRecord, derived: SampleRecord) -> Iterator[str]:
    """What differs of one answer."""
    where = f"{stored.sample.id} {stored.variant} {stored.decoding}"
    if stored.answer != derived.answer:
        yield f"{where}: answer {stored.answer!r} is stored, {derived.answer!r} derived"
    elif replace(stored, verdicts={}) != replace(derived.unprompted, verdicts={}):
        yield f"{where}: another call or another text of it is derived"
    for name, verdict in stored.verdicts.items():
        other: VerdictRecord | None = derived.verdicts.get(name)
        if other != verdict:
            yield f"{where}: {name} {_unlike(verdict, other)}"


def _unlike(stored: VerdictRecord, derived: VerdictRecord | None) -> str:
    """The first part in which two verdicts differ, and both of its values."""
    if derived is None:
        return f"{stored.value} is stored, none derived"
    for part in fields(VerdictRecord):
        one, other = (getattr(verdict, part.name) for verdict in (stored, derived))
        name, said = part.name, "" if part.name == "value" else f"{stored.value}: "
        if one != other and isinstance(one, Mapping):
            name = next(key for key in {**one, **other} if one.get(key) != other.get(key))
            one, other = one.get(name), other.get(name)
        if one != other:
            said += "" if part.name == "value" else f"{name} "
            return f"{said}{one!r:.60} is stored, {other!r:.60} derived"
    return "differs"
