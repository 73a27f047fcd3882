"""Names and options to plans: a task, its samples, a model, judges and their cached clients.

What can fail does so before the first call; what comes after knows no workspace and no registry.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from harness import __version__
from harness.core import Model, Response, Run, Sample
from harness.errors import ModelError, SpecError, StoreError, of_model
from harness.implicitness.open import NONE, with_options
from harness.judges.custom import JudgeLabel, SourcedJudge
from harness.models.client.cached import CachedClient, OfflineModel, Retry
from harness.parts import Mode, digest
from harness.pipeline import plan as planning
from harness.pipeline import repeats, setup
from harness.pipeline.plan import Plan
from harness.pipeline.records import SamplesOf, step_keys
from harness.pipeline.setup import JudgeSetup, JudgeSource
from harness.pipeline.setup import RunOptions as RunOptions
from harness.specs.judges import ContrastSpec
from harness.specs.models import HostedSpec, LocalSpec, ModelSpec, ScriptedSpec
from harness.specs.tasks import TaskSpec
from harness.storage.ledger import Ledger
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import DataEntry, ModelEntry, RunFile, RunFolder, StoredRows
from harness.workspace import DataSource, Workspace

_log = logging.getLogger(__name__)
ResponsesOf = Callable[[Sequence[SampleRecord]], Mapping[str, Response]]
"""Gives the whole responses of some records, by key; where one is not there, a record has it."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A run ready to be answered and judged; nothing has been asked yet.

    `sources` are the tables that it reads, `inputs` what a repeat is recognised by, if it can be.
    Of one that is recognised there is `repeat`, and nothing is carried out.
    """

    plan: Plan
    client: CachedClient
    judges: tuple[JudgeSetup, ...]
    file: RunFile
    folder: RunFolder
    sources: tuple[Path, ...] = ()
    inputs: Mapping[str, str] | None = None
    repeat: repeats.Repeat | None = None

    @property
    def clients(self) -> list[CachedClient]:
        """The clients of all models that are asked, that of the model under test first."""
        return [self.client, *(one.client for one in self.judges if one.client)]


@dataclass(frozen=True, slots=True)
class JudgePlan:
    """An answered run and the judges that are to read it; `task` says how to read the answers."""

    file: RunFile
    folder: RunFolder
    task: TaskSpec
    records: StoredRows | Sequence[SampleRecord]
    responses: ResponsesOf
    judges: tuple[JudgeSetup, ...]

    @property
    def clients(self) -> list[CachedClient]:
        """The clients of the models that judges ask."""
        return [one.client for one in self.judges if one.client]


class _Parts(NamedTuple):
    """The options of a run, its parts found and none of its samples read; no spec of an object."""

    options: RunOptions
    task: TaskSpec
    spec: ModelSpec | None
    source: DataSource


def resolve(workspace: Workspace, options: RunOptions, *, is_shown_again: bool = False) -> RunPlan:
    """The plan of a run; with `is_shown_again` that of an unchanged run has nothing but its end."""
    parts, known = _parts(workspace, options), None
    if is_shown_again and not workspace.terms.budget:
        known = _recognised(workspace, parts, _retry(workspace))
    return known or _resolved(workspace, parts)


def unchanged(workspace: Workspace, options: RunOptions) -> RunPlan | None:
    """The end of a run that is as it was written, else None; no server is asked."""
    space = replace(workspace, terms=replace(workspace.terms, budget=None, is_offline=True))
    return _recognised(space, _parts(space, options), _retry(workspace))


def _retry(workspace: Workspace) -> Retry:
    return "none" if workspace.is_offline else workspace.terms.retry


def _parts(workspace: Workspace, options: RunOptions) -> _Parts:
    task, spec = workspace.registry.load("tasks", options.task), None
    task = with_options(task, name=options.task, table=options.table, scorer=options.scorer)
    if options.decoding is not None:
        task = structs.replace(task, decodings=(options.decoding,))
    variants = planning.chosen_variants(task, options.variants, name=options.task)
    if isinstance(options.model, str):
        spec = workspace.registry.load("configs/models", options.model, options.backend)
    elif not _NAME.fullmatch(options.model.name):
        rule = "letters, digits, dots, dashes, plus signs and underscores"
        first = "that begins with a letter or digit"
        raise SpecError(f"model {options.model.name!r}: give it a name of {rule} {first}")
    # A name that is given twice is one judge; two objects of one name are refused.
    given = options.judges or task.judges
    judges = tuple({j if isinstance(j, str) else id(j): j for j in given}.values())
    options = replace(options, variants=variants, judges=judges)
    setup.check_judges(workspace, options, task)
    return _Parts(options, task, spec, workspace.source(task.data))


def _recognised(workspace: Workspace, parts: _Parts, retry: Retry) -> RunPlan | None:
    name, spec = parts.options.model, parts.spec
    place = workspace.results / "runs" / parts.options.task / str(name)
    if not isinstance(name, str) or not _is_known_by_files(parts):
        return None
    if not repeats.records_of(place).is_dir():
        return None
    tested: Model = OfflineModel(name, "scripted", "scripted", frozenset())
    if isinstance(spec, HostedSpec | LocalSpec):
        tested = setup.resolved(workspace, setup.shared(workspace, name, spec), spec)
    setups = setup.set_up_judges(workspace, parts.options, tested=tested)
    inputs = _inputs(workspace, parts, tested, setups)
    known = None if inputs is None else repeats.recognised(place, inputs, retry)
    if known is None:
        return None
    file = known[0].read()
    model = OfflineModel(file.model.name, file.model.kind, file.model.identity, frozenset())
    plan = Plan(file.run, parts.task, (), workspace.registry.prompts, file.model.identity)
    end = RunPlan(plan, workspace.desk(model), (), file, known[0], sources=parts.source.tables)
    return replace(end, repeat=known[1])


def _is_known_by_files(parts: _Parts) -> bool:
    """Whether files and names say all that a run is made of: no objects, no foreign code.

    Implicitness that is measured does not say its scorer's files.
    """
    labels, task = parts.options.labels, parts.task
    is_plain = len(labels) == len(parts.options.judges)
    is_measured = task.implicitness and task.implicitness.scorer != NONE
    is_known = isinstance(parts.spec, HostedSpec | LocalSpec | ScriptedSpec)
    return is_plain and is_known and not parts.source.is_own and not is_measured


def _inputs(
    workspace: Workspace, parts: _Parts, model: Model, setups: Sequence[JudgeSetup]
) -> dict[str, str] | None:
    """What a repeat of the run is recognised by; None where files do not say all of it."""
    is_own = any(isinstance(one.judge, SourcedJudge) for one in setups)
    if is_own or not _is_known_by_files(parts):
        return None
    # The identity of a control is made of its samples and its task, which are given below.
    identity = "" if isinstance(parts.spec, ScriptedSpec) else model.identity
    words = [*_words(workspace, parts, parts.task).values()]
    asked = (replace(parts.options, judges=()), parts.task, words, parts.source.entry)
    found = {"": repeats.program_digest(*asked, parts.spec, identity)}
    for entry in (one.entry for one in setups):
        own = workspace.registry.load("configs/judges", JudgeLabel.parse(entry.name).name)
        found[entry.name] = digest((entry, own))
    return found


def _words(workspace: Workspace, parts: _Parts, task: TaskSpec) -> dict[str, str]:
    of = partial(planning.variant_digest, prompts=workspace.registry.prompts)
    return {name: of(task, name, name=parts.options.task) for name in parts.options.variants}


def _resolved(workspace: Workspace, parts: _Parts) -> RunPlan:
    options, source = parts.options, parts.source
    samples = workspace.read(source)
    chosen = _limited(workspace, parts, samples)
    chosen, data = workspace.measured(chosen, source.entry, parts.task.implicitness)
    model, task = _model(workspace, parts, samples, chosen)
    words, is_scored = _words(workspace, parts, task), task.mode in planning.SCORED
    plan = _plan_of(workspace, options, task, chosen, data, (model.identity, digest(words)))
    setups = setup.ready_judges(workspace, options, task, tested=model, samples=chosen)
    file = RunFile(
        digest=plan.run.digest,
        run=plan.run,
        task=task,
        model=ModelEntry(model.name, model.kind, model.identity, model.revision),
        data=data,
        variants=words,
        samples=len(chosen),
        planned=plan.planned,
        chance=task.chance,
        version=__version__,
        written=_words(workspace, parts, planning.as_written(task)) if is_scored else {},
    )
    path = workspace.results / "runs" / options.task / model.name / plan.run.digest[:16]
    inputs = _inputs(workspace, parts, model, setups)
    client = workspace.desk(model)
    return RunPlan(plan, client, setups, file, RunFolder(path), source.tables, inputs)


def _model(
    workspace: Workspace, parts: _Parts, samples: Sequence[Sample], chosen: Sequence[Sample]
) -> tuple[Model, TaskSpec]:
    options = parts.options
    as_asked = partial(planning.with_mode, parts.task, wanted=options.answers)
    if not isinstance(options.model, str):
        options.model.resolve()
        return options.model, as_asked(options.model.modes, model=options.model.name)
    spec = workspace.registry.load("configs/models", options.model, options.backend)
    context = setup.TaskContext(options.task, parts.task, samples, chosen)
    try:
        model = setup.build_model(workspace, options.model, spec, context)
        task = as_asked(model.modes, model=model.name)
        return setup.resolved(workspace, model, spec), task
    except ModelError as error:
        if not (workspace.terms.is_dry and isinstance(spec, LocalSpec | HostedSpec)):
            raise
        said = "%s; its calls are counted at four characters a token"
        _log.warning(said, of_model(options.model, error), extra={"is_once": True})
    modes = frozenset({Mode.GENERATE, Mode.CHOOSE})
    unopened = OfflineModel(options.model, "unopened", f"unopened {options.model}", modes)
    return unopened, as_asked(unopened.modes, model=unopened.name)


def _plan_of(
    workspace: Workspace,
    options: RunOptions,
    task: TaskSpec,
    samples: Sequence[Sample],
    data: DataEntry,
    digests: tuple[str, str],
) -> Plan:
    """The plan of a run; `digests` are the model's identity and that of the words asked."""
    run = Run(
        task=options.task,
        variants=options.variants,
        model=digests[0],
        decodings=planning.decodings(task),
        seed=options.seed,
        limit=options.limit,
        prompts=digests[1],
        data=data.label,
    )
    plan = Plan(run, task, samples, workspace.registry.prompts, digests[0])
    planning.check_templates(plan)
    return plan


def _limited(workspace: Workspace, parts: _Parts, samples: Sequence[Sample]) -> Sequence[Sample]:
    """The samples that --limit leaves: whole clusters where the task's own judges compare these."""
    registry, options = workspace.registry, parts.options
    if options.limit is None:
        return samples
    known = {*registry.names("configs/judges")} & {
        JudgeLabel.parse(one).name for one in parts.task.judges
    }
    specs = [registry.load("configs/judges", name) for name in known]
    is_by_cluster = any(isinstance(spec, ContrastSpec) for spec in specs)
    return planning.subsample(
        samples, options.limit, seed=options.seed, is_by_cluster=is_by_cluster
    )


def resolve_stored(
    workspace: Workspace,
    folder: RunFolder,
    judges: Sequence[JudgeSource],
    *,
    judge_model: str | None = None,
    allows_self: bool = False,
) -> JudgePlan:
    """The plan of further judges of a stored run; the model under test is not loaded."""
    file, records = folder.read(), StoredRows(folder)
    options = RunOptions(file.run.task, file.model.name, tuple(judges), judge_model=judge_model)
    options = replace(options, is_self_judge_allowed=allows_self)
    setup.check_judges(workspace, options, file.task)
    samples = SamplesOf(records)
    setups = setup.ready_judges(workspace, options, file.task, tested=file.model, samples=samples)
    responses = _responses(workspace, file, file.task)
    return JudgePlan(file, folder, file.task, records, responses, setups)


def resolve_reread(workspace: Workspace, folder: RunFolder) -> JudgePlan:
    """The plan of reading a stored run again, as its task and its judges read answers today.

    Its records need not be whole: reading again mends verdicts.
    """
    file, records = folder.read(), StoredRows(folder, is_checked=False)
    today = workspace.registry.load("tasks", file.run.task)
    task = structs.replace(file.task, postprocess=today.postprocess)
    known, setups = workspace.registry.names("configs/judges"), list[JudgeSetup]()
    for entry in file.judges:
        if JudgeLabel.parse(entry.name).name in known:
            setups.append(setup.stored_setup(workspace, entry))
        else:
            _log.warning("judge %s has no YAML: its verdicts are kept, not read again", entry.name)
    responses = _responses(workspace, file, task)
    return JudgePlan(file, folder, task, records, responses, tuple(setups))


def _responses(workspace: Workspace, file: RunFile, task: TaskSpec) -> ResponsesOf:
    ledger = Ledger(workspace.results / "calls" / file.model.name)
    return partial(stored_responses, ledger, task=task)


def stored_responses(
    ledger: Ledger, records: Sequence[SampleRecord], task: TaskSpec
) -> dict[str, Response]:
    """The responses behind the records of a stored run; raises StoreError where one is lost."""
    keys = step_keys(records)
    responses = ledger.find(keys)
    if lost := [key for key in keys if key not in responses]:
        fact = f"are not in the calls ledger (first: {lost[0][:12]})"
        raise StoreError(
            f"{len(lost)} responses of this run {fact}; copy its folder back, or repeat the run"
        )
    if gone := sorted({record.variant for record in records} - set(task.variants)):
        fact = f"the task no longer has the variants {', '.join(gone)} of this run"
        raise StoreError(f"{fact}; put them back into its YAML")
    return responses


def resolve_choices(workspace: Workspace, options: RunOptions) -> tuple[Plan, LocalSpec]:
    """What a run of a local model would ask by log-probability, and the model's spec."""
    parts = _parts(workspace, options)
    if not isinstance(spec := parts.spec, LocalSpec) or not parts.task.has_choices:
        kinds = "and a model of kind transformers or vllm"
        fact = f"task {options.task}, model {options.model}: name a task with choices {kinds}"
        raise SpecError(f"{fact} (docs/choices.md)")
    task = planning.with_mode(parts.task, frozenset({Mode.CHOOSE}), None, model="any")
    samples = _limited(workspace, parts, workspace.read(parts.source))
    data, digests = parts.source.entry, ("any", "any")
    return _plan_of(workspace, parts.options, task, samples, data, digests), spec
