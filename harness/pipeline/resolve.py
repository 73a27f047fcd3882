"""Names and options to plans: a task, its samples, a model, judges and their cached clients.

All is found or built here, so that what can fail does so before the first call; nothing is asked.
What comes after works on the plans alone, and knows neither workspace nor registry.
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
from harness.errors import SpecError, StoreError
from harness.implicitness.open import NONE, with_options
from harness.judges.custom import JudgeLabel, SourcedJudge
from harness.models.client.cached import CachedClient, OfflineModel, Retry
from harness.parts import Mode, digest
from harness.pipeline import plan as planning
from harness.pipeline import repeats, setup
from harness.pipeline.plan import AnswerMode, Plan
from harness.pipeline.records import SamplesOf, step_keys
from harness.pipeline.setup import JudgeSetup, JudgeSource
from harness.specs.judges import ContrastSpec
from harness.specs.models import Backend, HostedSpec, LocalSpec, ScriptedSpec
from harness.specs.tasks import TaskSpec
from harness.storage.ledger import Ledger
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import NAMES, DataEntry, ModelEntry, RunFile, RunFolder, StoredRows
from harness.workspace import DataSource, Workspace

_log = logging.getLogger(__name__)
ResponsesOf = Callable[[Sequence[SampleRecord]], Mapping[str, Response]]
"""Gives the whole responses of some records, by key; where one is not there, a record has it."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What to run: a task, a model, judges, and what to leave out.

    Models and judges are names, or objects that implement `core.Model` and `core.Judge`.
    """

    task: str
    model: str | Model
    judges: tuple[JudgeSource, ...] = ()
    variants: tuple[str, ...] = ()
    backend: Backend | None = None
    judge_model: str | None = None
    seed: int = 0
    limit: int | None = None
    is_self_judge_allowed: bool = False
    answers: AnswerMode | None = None
    table: str | None = None
    scorer: str | None = None


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A run ready to be answered and judged; nothing has been asked yet.

    `again` are the judges that have read it before, where what they said was changed since: it is
    derived again, from stored replies alone. `sources` are the tables that it reads.

    `inputs` is what a repeat is recognised by, None where it is not. Of a run that is recognised
    there is `repeat`, and nothing is carried out.
    """

    plan: Plan
    client: CachedClient
    judges: tuple[JudgeSetup, ...]
    file: RunFile
    folder: RunFolder
    again: tuple[JudgeSetup, ...] = ()
    sources: tuple[Path, ...] = ()
    inputs: Mapping[str, str] | None = None
    repeat: repeats.Repeat | None = None

    @property
    def clients(self) -> list[CachedClient]:
        """The clients of all models that are asked, that of the model under test first."""
        return [self.client, *(one.client for one in self.judges if one.client)]


@dataclass(frozen=True, slots=True)
class JudgePlan:
    """An answered run and the judges that are to read it.

    `task` says how to read the answers. `responses` gives the whole ones of some records, by key.
    """

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
    """The options of a run, its parts found and none of its samples read."""

    options: RunOptions
    task: TaskSpec
    variants: tuple[str, ...]
    source: DataSource
    judges: tuple[JudgeSource, ...]


def resolve(workspace: Workspace, options: RunOptions, *, is_shown_again: bool = False) -> RunPlan:
    """The plan of a run: its task, samples, planned responses, model and judges.

    With `is_shown_again` an unchanged run is recognised, and its plan has nothing but its end.
    """
    parts = _parts(workspace, options)
    retry: Retry = "none" if workspace.is_offline else workspace.terms.retry
    known = _recognised(workspace, parts, retry) if is_shown_again else None
    return known or _resolved(workspace, parts)


def unchanged(workspace: Workspace, options: RunOptions) -> RunPlan | None:
    """The plan of a run that is as it was written, which has nothing but its end; else None.

    What it cost counts against no budget, and no server is asked whether it is there.
    """
    space = replace(workspace, terms=replace(workspace.terms, budget=None, is_offline=True))
    retry: Retry = "none" if workspace.is_offline else workspace.terms.retry
    return _recognised(space, _parts(space, options), retry)


def _parts(workspace: Workspace, options: RunOptions) -> _Parts:
    task = workspace.registry.load("tasks", options.task)
    task = with_options(task, name=options.task, table=options.table, scorer=options.scorer)
    variants = planning.chosen_variants(task, options.variants, name=options.task)
    if isinstance(options.model, str):
        workspace.registry.load("configs/models", options.model, options.backend)
    elif not _NAME.fullmatch(options.model.name):
        raise SpecError(
            f"model {options.model.name!r}: give it a name of letters, digits, dots, dashes, plus "
            "signs and underscores that begins with a letter or digit"
        )
    # A name that is given twice is one judge; two objects of one name are refused.
    given = options.judges or task.judges
    judges = tuple({j if isinstance(j, str) else id(j): j for j in given}.values())
    setup.check_judges(workspace, judges, task=task, name=options.task)
    return _Parts(replace(options, judges=()), task, variants, workspace.source(task.data), judges)


def _is_known_by_files(parts: _Parts) -> bool:
    """Whether files and names say all that a run is made of: no objects, no foreign code.

    Implicitness that is measured does not say its scorer's files, and a swapped judge needs
    samples.
    """
    names = [JudgeLabel.parse(one) for one in parts.judges if isinstance(one, str)]
    is_plain = len(names) == len(parts.judges) and not any(one.is_swapped for one in names)
    is_measured = parts.task.implicitness and parts.task.implicitness.scorer != NONE
    is_read = not parts.source.is_own and not is_measured
    return is_plain and is_read and isinstance(parts.options.model, str)


def _recognised(workspace: Workspace, parts: _Parts, retry: Retry) -> RunPlan | None:
    """The end of the run that these options made, if nothing differs since.

    `retry` says which stored failures would be asked again.
    """
    name = parts.options.model
    if not isinstance(name, str) or not _is_known_by_files(parts) or workspace.terms.budget:
        return None
    place = workspace.results / "runs" / parts.options.task / name
    if not repeats.has_any(place):
        return None
    spec = workspace.registry.load("configs/models", name, parts.options.backend)
    tested: Model = OfflineModel(name, "scripted", "scripted", frozenset())
    if isinstance(spec, HostedSpec | LocalSpec):
        tested = setup.resolved(workspace, setup.shared(workspace, name, spec), spec)
    inputs = _inputs(workspace, parts, tested, _judges(workspace, parts, tested, ()))
    known = None if inputs is None else repeats.recognised(place, inputs, retry)
    if known is None:
        return None
    file = known[0].read()
    model = OfflineModel(file.model.name, file.model.kind, file.model.identity, frozenset())
    plan = Plan(file.run, parts.task, (), workspace.registry.prompts, file.model.identity)
    end = RunPlan(plan, workspace.desk(model), (), file, known[0], sources=parts.source.tables)
    return replace(end, repeat=known[1])


def _judges(
    workspace: Workspace, parts: _Parts, tested: Model, samples: Sequence[Sample]
) -> tuple[JudgeSetup, ...]:
    return setup.set_up_judges(
        workspace,
        parts.judges,
        tested=tested,
        samples=samples,
        judge_model=parts.options.judge_model,
        allows_self=parts.options.is_self_judge_allowed,
    )


def _inputs(
    workspace: Workspace, parts: _Parts, model: Model, setups: Sequence[JudgeSetup]
) -> dict[str, str] | None:
    """What a repeat of the run is recognised by; None where files do not say all of it."""
    options, task, registry = parts.options, parts.task, workspace.registry
    if not _is_known_by_files(parts) or not isinstance(options.model, str):
        return None
    spec = registry.load("configs/models", options.model, options.backend)
    is_own = any(isinstance(one.judge, SourcedJudge) for one in setups)
    if is_own or not isinstance(spec, HostedSpec | LocalSpec | ScriptedSpec):
        return None
    # The identity of a control is made of its samples and its task, which are given below.
    identity = "" if isinstance(spec, ScriptedSpec) else model.identity
    words = [*_words(workspace, parts, task).values()]
    language = workspace.language(task.data)
    asked = (options, task, words, parts.source.entry, language, spec, identity)
    found = {"": repeats.program_digest(*asked)}
    for entry in (one.entry for one in setups):
        own = registry.load("configs/judges", JudgeLabel.parse(entry.name).name)
        found[entry.name] = digest((entry, own))
    return found


def _words(workspace: Workspace, parts: _Parts, task: TaskSpec) -> dict[str, str]:
    """The digest of each variant that is asked, of the task as the model is asked it."""
    of = partial(planning.variant_digest, prompts=workspace.registry.prompts)
    return {name: of(task, name, name=parts.options.task) for name in parts.variants}


def _resolved(workspace: Workspace, parts: _Parts) -> RunPlan:
    options, source = parts.options, parts.source
    samples = workspace.read(source)
    chosen = _limited(workspace, parts.task, samples, options)
    chosen, data = workspace.measured(chosen, source.entry, parts.task.implicitness)
    context = setup.TaskContext(options.task, parts.task, samples, chosen)
    model, task = _model(workspace, options, context)
    words = _words(workspace, parts, task)
    plan = _plan_of(workspace, parts, task, chosen, data, (model.identity, digest(words)))
    declared = workspace.language(task.data)
    setup.warn_of_languages(workspace, task, parts.judges, samples=chosen, declared=declared)
    setups = _judges(workspace, parts, model, chosen)
    setup.check_questions(task, options.task, setups, chosen)
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
    )
    path = workspace.results / "runs" / options.task / model.name / plan.run.digest[:16]
    folder, named = RunFolder(path), {one.entry.name for one in setups}
    others = [] if is_whole(folder) else [o for o in folder.judges_before() if o.name not in named]
    again = tuple(setup.setups_again(workspace, others, chosen))
    inputs = _inputs(workspace, parts, model, setups)
    return RunPlan(plan, workspace.desk(model), setups, file, folder, again, source.tables, inputs)


def _plan_of(
    workspace: Workspace,
    parts: _Parts,
    task: TaskSpec,
    samples: Sequence[Sample],
    data: DataEntry,
    digests: tuple[str, str],
) -> Plan:
    """The plan of a run; `digests` are the model's identity and that of the words asked."""
    identity, prompts = digests
    run = Run(
        task=parts.options.task,
        variants=parts.variants,
        model=identity,
        decodings=planning.decodings(task),
        seed=parts.options.seed,
        limit=parts.options.limit,
        prompts=prompts,
        data=data.label,
    )
    plan = Plan(run, task, samples, workspace.registry.prompts, identity)
    planning.check_templates(plan)
    return plan


def is_whole(folder: RunFolder) -> bool:
    """Whether there is no run in a folder, or one that is as it was written."""
    if not any((folder.path / name).exists() for name in NAMES):
        return True
    try:
        StoredRows.whole(folder)
    except StoreError:
        return False
    return True


def resolve_stored(
    workspace: Workspace,
    folder: RunFolder,
    judges: Sequence[JudgeSource],
    *,
    judge_model: str | None = None,
    allows_self: bool = False,
) -> JudgePlan:
    """The plan of further judges of a stored run; the model under test is not loaded."""
    file, records = folder.read(), StoredRows.whole(folder)
    task, name, samples = file.task, file.run.task, SamplesOf(records)
    setup.check_judges(workspace, judges, task=task, name=name)
    declared = task.data.language or None
    setup.warn_of_languages(workspace, task, judges, samples=samples, declared=declared)
    setups = setup.set_up_judges(
        workspace,
        judges,
        tested=file.model,
        samples=samples,
        judge_model=judge_model,
        allows_self=allows_self,
    )
    setup.check_questions(task, name, setups, samples)
    return JudgePlan(file, folder, task, records, _responses(workspace, file, task), setups)


def resolve_reread(workspace: Workspace, folder: RunFolder) -> JudgePlan:
    """The plan of reading a stored run again, as its task and its judges read answers today.

    Its records need not be whole: reading again mends verdicts, and refuses what else was changed.
    """
    file, records = folder.read(), StoredRows.whole(folder, is_checked=False)
    today = workspace.registry.load("tasks", file.run.task)
    task, samples = structs.replace(file.task, postprocess=today.postprocess), SamplesOf(records)
    known, setups = workspace.registry.names("configs/judges"), list[JudgeSetup]()
    for entry in file.judges:
        if JudgeLabel.parse(entry.name).name in known:
            setups.append(setup.stored_setup(workspace, entry, samples))
        else:
            _log.warning("judge %s has no YAML: its verdicts are kept, not read again", entry.name)
    responses = _responses(workspace, file, task)
    return JudgePlan(file, folder, task, records, responses, tuple(setups))


def _responses(workspace: Workspace, file: RunFile, task: TaskSpec) -> ResponsesOf:
    ledger = Ledger(workspace.results / "calls" / file.model.name)
    return partial(stored_responses, ledger, task=task)


def _limited(
    workspace: Workspace, task: TaskSpec, samples: Sequence[Sample], options: RunOptions
) -> Sequence[Sample]:
    """The samples that --limit leaves: whole clusters where the task's own judges compare these."""
    if options.limit is None:
        return samples
    known = workspace.registry.names("configs/judges")
    names = [JudgeLabel.parse(name).name for name in task.judges]
    specs = [workspace.registry.load("configs/judges", name) for name in names if name in known]
    is_by_cluster = any(isinstance(spec, ContrastSpec) for spec in specs)
    return planning.subsample(
        samples, options.limit, seed=options.seed, is_by_cluster=is_by_cluster
    )


def _model(
    workspace: Workspace, options: RunOptions, context: setup.TaskContext
) -> tuple[Model, TaskSpec]:
    """The model that is asked, and the task as it is asked of it."""
    if not isinstance(options.model, str):
        options.model.resolve()
        model = options.model
        return model, planning.with_mode(
            context.task, model.modes, options.answers, model=model.name
        )
    spec = workspace.registry.load("configs/models", options.model, options.backend)
    model = setup.build_model(workspace, options.model, spec, context)
    task = planning.with_mode(context.task, model.modes, options.answers, model=model.name)
    return setup.resolved(workspace, model, spec), task


def stored_responses(
    ledger: Ledger, records: Sequence[SampleRecord], task: TaskSpec
) -> dict[str, Response]:
    """The responses behind the records of a stored run; raises StoreError where one is lost."""
    keys = step_keys(records)
    responses = ledger.find(keys)
    if lost := [key for key in keys if key not in responses]:
        raise StoreError(
            f"{len(lost)} responses of this run are not in the calls ledger (first: "
            f"{lost[0][:12]}); copy its folder back, or repeat the run"
        )
    if gone := sorted({record.variant for record in records} - set(task.variants)):
        raise StoreError(
            f"the task no longer has the variants {', '.join(gone)} of this run; put them back "
            "into its YAML"
        )
    return responses


def resolve_choices(workspace: Workspace, options: RunOptions) -> tuple[Plan, LocalSpec]:
    """What a run of a local model would ask by log-probability, and the model's spec.

    No weights are opened, and no back end need be installed.
    """
    spec = workspace.registry.load("configs/models", str(options.model))
    if not isinstance(spec, LocalSpec):
        raise SpecError(
            f"model {options.model} is of kind {spec.__struct_config__.tag}: its tokenizer is not "
            "at hand; name a model of kind transformers or vllm (`harness list models`), for a "
            "server one with the checkpoint it serves"
        )
    parts = _parts(workspace, options)
    if not parts.task.has_choices:
        raise SpecError(f"task {options.task} has no choices; name one that has (docs/tasks.md)")
    task = planning.with_mode(parts.task, frozenset({Mode.CHOOSE}), None, model="any")
    samples = _limited(workspace, task, workspace.read(parts.source), options)
    return _plan_of(workspace, parts, task, samples, parts.source.entry, ("any", "any")), spec
