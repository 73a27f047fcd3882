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
from harness.pipeline import repeats
from harness.pipeline.plan import (
    AnswerMode,
    Plan,
    check_templates,
    chosen_variants,
    decodings,
    subsample,
    variant_digest,
    with_mode,
)
from harness.pipeline.records import SamplesOf, step_keys
from harness.pipeline.setup import (
    JudgeModelOptions,
    JudgeSetup,
    JudgeSource,
    TaskContext,
    build_model,
    check_judges,
    check_questions,
    resolved,
    set_up_judges,
    setups_again,
    shared,
    stored_setup,
    warn_of_languages,
)
from harness.specs.judges import ContrastSpec
from harness.specs.models import Backend, HostedSpec, LocalSpec, ScriptedSpec
from harness.specs.tasks import TaskSpec
from harness.storage.ledger import Ledger
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import NAMES, DataEntry, ModelEntry, RunFile, RunFolder, StoredRows
from harness.workspace import DataSource, Workspace

_log = logging.getLogger(__name__)
OWN_MODELS = JudgeModelOptions()
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


class _Parts(NamedTuple):
    """The options of a run, its parts found and none of its samples read."""

    options: RunOptions
    task: TaskSpec
    variants: tuple[str, ...]
    source: DataSource
    judges: tuple[JudgeSource, ...]

    @property
    def is_known_by_files(self) -> bool:
        """Whether files and names say all that the run is made of: no objects, no foreign code.

        Implicitness that is measured does not say its scorer's files, and a swapped judge needs
        samples.
        """
        named = [JudgeLabel.parse(one) for one in self.judges if isinstance(one, str)]
        is_plain = len(named) == len(self.judges) and not any(one.is_swapped for one in named)
        measured = self.task.implicitness
        is_measured = measured is not None and measured.scorer != NONE
        is_read = not self.source.is_own and not is_measured
        return is_plain and is_read and isinstance(self.options.model, str)


def _recognised(
    workspace: Workspace, parts: _Parts, retry: Retry
) -> tuple[RunFolder, repeats.Repeat] | None:
    """The run that these options made, if nothing differs since.

    `retry` says which stored failures would be asked again.
    """
    name = parts.options.model
    if not parts.is_known_by_files or not isinstance(name, str) or workspace.terms.budget:
        return None
    place = workspace.results / "runs" / parts.options.task / name
    if not repeats.has_any(place):
        return None
    spec = workspace.registry.load("configs/models", name, parts.options.backend)
    tested: Model = OfflineModel(name, "scripted", "scripted", frozenset())
    if isinstance(spec, HostedSpec | LocalSpec):
        tested = resolved(workspace, shared(workspace, name, spec), spec)
    setups = _judges(workspace, parts, tested, ())
    inputs = _inputs(workspace, parts, tested, setups)
    return None if inputs is None else repeats.recognised(place, inputs, retry)


def _judges(
    workspace: Workspace, parts: _Parts, tested: Model, samples: Sequence[Sample]
) -> tuple[JudgeSetup, ...]:
    asking = JudgeModelOptions(parts.options.judge_model, parts.options.is_self_judge_allowed)
    return set_up_judges(workspace, parts.judges, asking=asking, tested=tested, samples=samples)


def _inputs(
    workspace: Workspace, parts: _Parts, model: Model, setups: Sequence[JudgeSetup]
) -> dict[str, str] | None:
    """What a repeat of the run is recognised by; None where files do not say all of it."""
    options, task, registry = parts.options, parts.task, workspace.registry
    if not parts.is_known_by_files or not isinstance(options.model, str):
        return None
    spec = registry.load("configs/models", options.model, options.backend)
    is_own = any(isinstance(setup.judge, SourcedJudge) for setup in setups)
    if is_own or not isinstance(spec, HostedSpec | LocalSpec | ScriptedSpec):
        return None
    # The identity of a control is made of its samples and its task, which are given below.
    identity = "" if isinstance(spec, ScriptedSpec) else model.identity
    words = [*_words(workspace, task, parts).values()]
    # A list of repeated rows that was removed is to be written again.
    is_listed = workspace.repeats_of(parts.source.entry).exists()
    language = workspace.language(task.data)
    asked = (options, task, words, parts.source.entry, language, is_listed, spec, identity)
    found = {"": repeats.program_digest(*asked)}
    for entry in (setup.entry for setup in setups):
        own = registry.load("configs/judges", JudgeLabel.parse(entry.name).name)
        found[entry.name] = digest((entry, own))
    return found


def _words(workspace: Workspace, task: TaskSpec, parts: _Parts) -> dict[str, str]:
    """The digest of each variant that is asked."""
    prompts, name = workspace.registry.prompts, parts.options.task
    return {v: variant_digest(task, v, prompts=prompts, name=name) for v in parts.variants}


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
        return [self.client, *(setup.client for setup in self.judges if setup.client)]


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
        return [setup.client for setup in self.judges if setup.client]


def resolve(workspace: Workspace, options: RunOptions, *, is_shown_again: bool = False) -> RunPlan:
    """The plan of a run: its task, samples, planned responses, model and judges.

    With `is_shown_again` an unchanged run is recognised, and its plan has nothing but its end.
    """
    parts = _parts(workspace, options)
    retry: Retry = "none" if workspace.is_offline else workspace.terms.retry
    if is_shown_again and (known := _recognised(workspace, parts, retry)) is not None:
        return _as_stored(workspace, parts, *known)
    return _resolved(workspace, parts)


def unchanged(workspace: Workspace, options: RunOptions) -> RunPlan | None:
    """The plan of a run that is as it was written, which has nothing but its end; else None.

    What it cost counts against no budget, and no server is asked whether it is there.
    """
    terms = replace(workspace.terms, budget=None, is_offline=True)
    space, parts = replace(workspace, terms=terms), _parts(workspace, options)
    known = _recognised(space, parts, "none" if workspace.is_offline else workspace.terms.retry)
    return _as_stored(space, parts, *known) if known else None


def _parts(workspace: Workspace, options: RunOptions) -> _Parts:
    task = workspace.registry.load("tasks", options.task)
    task = with_options(task, name=options.task, table=options.table, scorer=options.scorer)
    variants = chosen_variants(task, options.variants, name=options.task)
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
    check_judges(workspace, judges, task=task, name=options.task)
    source = workspace.source(task.data)
    return _Parts(replace(options, judges=()), task, variants, source, judges)


def _as_stored(
    workspace: Workspace, parts: _Parts, folder: RunFolder, repeat: repeats.Repeat
) -> RunPlan:
    file = folder.read()
    model = OfflineModel(file.model.name, file.model.kind, file.model.identity, frozenset())
    plan = Plan(file.run, parts.task, (), workspace.registry.prompts, file.model.identity)
    sources, desk = parts.source.tables, workspace.desk(model)
    return RunPlan(plan, desk, (), file, folder, sources=sources, repeat=repeat)


def _resolved(workspace: Workspace, parts: _Parts) -> RunPlan:
    options, registry = parts.options, workspace.registry
    samples, data = workspace.read(parts.source), parts.source.entry
    chosen = _limited(workspace, parts.task, samples, options)
    chosen, data = workspace.measured(chosen, data, parts.task.implicitness)
    context = TaskContext(options.task, parts.task, samples, chosen)
    model, task = _model(workspace, options, context)
    words = _words(workspace, task, parts)
    asked = (task, parts.variants)
    run = _run_of(options, *asked, identity=model.identity, data=data, prompts=digest(words))
    plan = Plan(run, task, chosen, registry.prompts, model.identity)
    check_templates(plan)
    language = workspace.language(task.data)
    warn_of_languages(workspace, task, parts.judges, samples=chosen, declared=language)
    setups = _judges(workspace, parts, model, chosen)
    check_questions(task, options.task, setups, chosen)
    file = RunFile(
        digest=run.digest,
        run=run,
        task=task,
        model=ModelEntry(model.name, model.kind, model.identity, model.revision),
        data=data,
        variants=words,
        samples=len(chosen),
        planned=plan.planned,
        chance=task.chance,
        version=__version__,
    )
    path = workspace.results / "runs" / options.task / model.name / run.digest[:16]
    folder, named = RunFolder(path), {setup.entry.name for setup in setups}
    others = [] if is_whole(folder) else folder.judges_before()
    again = tuple(setups_again(workspace, (o for o in others if o.name not in named), chosen))
    inputs, sources = _inputs(workspace, parts, model, setups), parts.source.tables
    return RunPlan(plan, workspace.desk(model), setups, file, folder, again, sources, inputs)


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
    asking: JudgeModelOptions = OWN_MODELS,
) -> JudgePlan:
    """The plan of further judges of a stored run; the model under test is not loaded."""
    file, records = folder.read(), StoredRows.whole(folder)
    check_judges(workspace, judges, task=file.task, name=file.run.task)
    ledger = Ledger(workspace.results / "calls" / file.model.name)
    responses = partial(stored_responses, ledger, task=file.task)
    samples, language = SamplesOf(records), file.task.data.language or None
    warn_of_languages(workspace, file.task, judges, samples=samples, declared=language)
    setups = set_up_judges(workspace, judges, asking=asking, tested=file.model, samples=samples)
    check_questions(file.task, file.run.task, setups, samples)
    return JudgePlan(file, folder, file.task, records, responses, setups)


def resolve_reread(workspace: Workspace, folder: RunFolder) -> JudgePlan:
    """The plan of reading a stored run again, as its task and its judges read answers today.

    Its records need not be whole: reading again mends verdicts, and refuses what else was changed.
    """
    file, records = folder.read(), StoredRows.whole(folder, is_checked=False)
    today = workspace.registry.load("tasks", file.run.task)
    task = structs.replace(file.task, postprocess=today.postprocess)
    ledger = Ledger(workspace.results / "calls" / file.model.name)
    responses = partial(stored_responses, ledger, task=task)
    samples = SamplesOf(records)
    known = workspace.registry.names("configs/judges")
    named = [entry for entry in file.judges if JudgeLabel.parse(entry.name).name in known]
    for entry in (entry for entry in file.judges if entry not in named):
        _log.warning("judge %s has no YAML: its verdicts are kept, not read again", entry.name)
    setups = tuple(stored_setup(workspace, entry, samples) for entry in named)
    return JudgePlan(file, folder, task, records, responses, setups)


def _run_of(
    options: RunOptions,
    task: TaskSpec,
    variants: tuple[str, ...],
    *,
    identity: str,
    data: DataEntry,
    prompts: str,
) -> Run:
    """The run of some options; `prompts` is a digest of the words asked."""
    return Run(
        task=options.task,
        variants=variants,
        model=identity,
        decodings=decodings(task),
        seed=options.seed,
        limit=options.limit,
        prompts=prompts,
        data=data.label,
    )


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
    return subsample(samples, options.limit, seed=options.seed, is_by_cluster=is_by_cluster)


def _model(
    workspace: Workspace, options: RunOptions, context: TaskContext
) -> tuple[Model, TaskSpec]:
    if not isinstance(options.model, str):
        model = options.model
        model.resolve()
        return model, with_mode(context.task, model.modes, options.answers, model=model.name)
    spec = workspace.registry.load("configs/models", options.model, options.backend)
    model = build_model(workspace, options.model, spec, context)
    task = with_mode(context.task, model.modes, options.answers, model=model.name)
    return resolved(workspace, model, spec), task


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

    No weights are opened, and no back end need be installed; judges are not read.
    """
    registry, name, model = workspace.registry, options.task, options.model
    spec = registry.load("configs/models", model) if isinstance(model, str) else None
    if not isinstance(spec, LocalSpec):
        kind = spec.__struct_config__.tag if spec else "object"
        raise SpecError(
            f"model {model} is of kind {kind}: its tokenizer is not at hand; "
            "name a model of kind transformers or vllm (`harness list models`), for a server one "
            "with the checkpoint it serves"
        )
    task = registry.load("tasks", name)
    if not task.has_choices:
        able = [one for one in registry.names("tasks") if registry.load("tasks", one).has_choices]
        raise SpecError(f"task {name} has no choices; tasks that have: {', '.join(able) or 'none'}")
    task = with_mode(task, frozenset({Mode.CHOOSE}), None, model="any")
    variants = chosen_variants(task, options.variants, name=name)
    samples, data = workspace.samples(task.data)
    chosen = _limited(workspace, task, samples, options)
    run = _run_of(options, task, variants, identity="any", data=data, prompts="any")
    plan = Plan(run, task, chosen, registry.prompts, identity="any")
    check_templates(plan)
    return plan, spec
