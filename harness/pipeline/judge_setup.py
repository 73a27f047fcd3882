"""Judges, by name or as objects, to judges with the cached client of the model they ask, if any.

Finds what keeps a judge from judging before the model under test is paid for. Asks no model.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.core import Case, Judge, Model, Response, Sample
from harness.errors import ModelError, SpecError, did_you_mean
from harness.judges.label import JudgeLabel
from harness.judges.swapped import Swapped, partners
from harness.models.client.cached import CachedClient, CallPolicy
from harness.parts import Mode
from harness.pipeline.model_setup import OfflineModel, resolved
from harness.pipeline.plan import Plan, request
from harness.specs.judges import CosineSpec, JudgeSpec, asked_model, reads_choices, step_read
from harness.specs.tasks import TaskSpec
from harness.storage.ledger import Ledger
from harness.storage.runs import JudgeEntry, ModelEntry
from harness.storage.signature import JudgeRecipe
from harness.workspace import Workspace

_log = logging.getLogger(__name__)
JudgeSource = str | Judge
"""A judge by the name of its YAML, or as an object."""


@dataclass(frozen=True, slots=True)
class JudgeSetup:
    """A judge, its entry in run.json, and the client of the model it asks; None if it asks none.

    `key_error` is what is wrong with that model's key, None where nothing is.
    """

    judge: Judge
    entry: JudgeEntry
    client: CachedClient | None = None
    key_error: str | None = None


@dataclass(frozen=True, slots=True)
class JudgeModelOptions:
    """The model that judges ask, None for their own, and whether it may be the one tested."""

    model: str | None = None
    is_self_allowed: bool = False


def set_up_judges(
    workspace: Workspace,
    judges: Sequence[JudgeSource],
    *,
    asking: JudgeModelOptions,
    tested: Model | ModelEntry,
    samples: Sequence[Sample],
) -> tuple[JudgeSetup, ...]:
    """Build judges by name, each with the cached client of its judge model, if any.

    Judges given as objects are taken as they are; `samples` are those of the run.
    """
    setups = tuple(
        _set_up(workspace, JudgeLabel.parse(judge), asking=asking, tested=tested, samples=samples)
        if isinstance(judge, str)
        else _set_up_object(judge)
        for judge in judges
    )
    if asking.model and not any(setup.client for setup in setups):
        raise SpecError(
            f"--judge-model {asking.model}: none of the judges "
            f"{', '.join(map(judge_name, judges))} asks a model; leave it out"
        )
    return setups


def stored_setup(workspace: Workspace, entry: JudgeEntry, samples: Sequence[Sample]) -> JudgeSetup:
    """A judge that has read a run, as its YAML now has it, with the replies it was given then."""
    label = JudgeLabel.parse(entry.name)
    judge = _judge(workspace, label, identity=entry.identity, samples=samples)
    if entry.asks is None:
        return JudgeSetup(judge, entry)
    model = OfflineModel(entry.asks, "stored", entry.identity or "", frozenset())
    ledger = Ledger(workspace.results / "calls" / entry.asks)
    policy = CallPolicy(is_offline=True)
    return JudgeSetup(judge, entry, CachedClient(model, ledger, workspace.progress, policy))


def judge_name(judge: JudgeSource) -> str:
    """The name of a judge."""
    return judge if isinstance(judge, str) else judge.name


def joined(judges: Sequence[JudgeEntry], new: JudgeEntry) -> tuple[JudgeEntry, ...]:
    """The judges of a run by name, with one that has read it now in place of one of its name.

    Warns where that one asked another model, as before its YAML was changed.
    """
    for old in judges:
        if old.name == new.name and old.asks != new.asks:
            _log.warning(
                "judge %s asked %s when it read this run before, and asks %s now: its new verdicts "
                "take the place of those",
                *(old.name, old.asks, new.asks),
            )
    others = (entry for entry in judges if entry.name != new.name)
    return tuple(sorted((*others, new), key=lambda entry: entry.name))


def check_judges(
    workspace: Workspace, judges: Sequence[JudgeSource], *, task: TaskSpec, name: str
) -> None:
    """Refuse a judge that cannot read a task's answers, or that reads a step no variant has."""
    for judge in judges:
        if isinstance(judge, str):
            _check(workspace, JudgeLabel.parse(judge), task=task, name=name)


def _check(workspace: Workspace, judge: JudgeLabel, *, task: TaskSpec, name: str) -> None:
    spec = _spec(workspace, judge)
    step = step_read(spec)
    if reads_choices(spec) != task.has_choices:
        what = "choices" if task.has_choices else "texts"
        raise SpecError(
            f"judge {judge} cannot read the answers to task {name}, which are {what}; "
            f"the task's own judges can: {', '.join(task.judges)}"
        )
    if reads_choices(spec) and judge.is_swapped:
        raise SpecError(
            f"judge {judge}: choices are laid out for one sample, and mean nothing under "
            f"another; name {replace(judge, is_swapped=False)} alone"
        )
    steps = {part.name for variant in task.variants.values() for part in variant.steps}
    if step is not None and step not in steps:
        raise SpecError(
            f"judge {judge} reads step {step!r}, which no variant of task {name} has"
            f"{did_you_mean(step, sorted(steps))}"
        )


def smoke_test_judges(plan: Plan, judges: Sequence[JudgeSetup], client: CachedClient) -> None:
    """Have each judge read a made-up answer, and check its key, unless no answer is missing.

    `client` is that of the model under test.
    """
    variants = plan.task.variants
    first = [
        request(plan, cell, step=variants[cell.variant].steps[0], earlier={}) for cell in plan.cells
    ]
    if client.terms.is_offline or len(client.ledger.find([r.key for r in first])) == len(first):
        return
    for setup in judges:
        _smoke_test(setup, plan.samples)


def _smoke_test(setup: JudgeSetup, samples: Sequence[Sample]) -> None:
    judge = setup.judge
    known = judge.partners if isinstance(judge, Swapped) else {part.id for part in samples}
    sample = next(part for part in samples if part.id in known)
    response = Response(key="made up", texts=("a made-up answer",))
    judge.ask(sample, response)
    if setup.entry.asks is None:
        judge.read([Case(sample, response)])
    if setup.key_error is not None:
        raise ModelError(
            f"judge {setup.entry.name}: {setup.key_error}, or have another model judge with "
            "--judge-model"
        )


def _set_up_object(judge: Judge) -> JudgeSetup:
    JudgeRecipe.parse(judge.recipe)
    return JudgeSetup(judge, JudgeEntry(judge.name, judge.metric, judge.recipe))


def _set_up(
    workspace: Workspace,
    label: JudgeLabel,
    *,
    asking: JudgeModelOptions,
    tested: Model | ModelEntry,
    samples: Sequence[Sample],
) -> JudgeSetup:
    """A judge by name; it asks the model under test only if that is allowed."""
    spec = _spec(workspace, label)
    step, own = step_read(spec), asked_model(spec)
    if own is None:
        if label.model:
            raise SpecError(
                f"judge {label}: {label.name} asks no model; name it without /{label.model}"
            )
        judge = _judge(workspace, label, identity=None, samples=samples)
        return JudgeSetup(judge, JudgeEntry(str(label), judge.metric, judge.recipe, step=step))
    asked = label.model or asking.model or own
    model = _judge_model(workspace, asked, spec, judge=label)
    if model.identity == tested.identity and not asking.is_self_allowed:
        raise SpecError(
            f"judge {label} would ask {asked}, the model under test; choose another with "
            "--judge-model, or add --allow-self-judge"
        )
    label = replace(label, model=None if asked == own else asked)
    judge = _judge(workspace, label, identity=model.identity, samples=samples)
    entry = JudgeEntry(
        str(label), judge.metric, judge.recipe, asks=asked, identity=model.identity, step=step
    )
    return JudgeSetup(judge, entry, workspace.desk(model), _key_error(workspace, asked))


def _judge_model(workspace: Workspace, asked: str, spec: JudgeSpec, *, judge: JudgeLabel) -> Model:
    """The model that a judge asks, which must be able to give what the judge wants of it."""
    model_spec = workspace.registry.load("configs/models", asked)
    model = workspace.registry.model(asked, model_spec)
    wanted = Mode.EMBED if isinstance(spec, CosineSpec) else Mode.GENERATE
    if wanted not in model.modes:
        raise SpecError(
            f"judge {judge} asks {asked} to {wanted}, which a model of kind {model.kind} cannot; "
            "choose another in the judge's YAML or with --judge-model (docs/models.md)"
        )
    return resolved(workspace, model, model_spec)


def _key_error(workspace: Workspace, model: str) -> str | None:
    try:
        workspace.registry.check_key(model)
    except ModelError as error:
        return str(error)
    return None


def _spec(workspace: Workspace, label: JudgeLabel) -> JudgeSpec:
    return workspace.registry.load("configs/judges", label.name)


def _judge(
    workspace: Workspace, label: JudgeLabel, *, identity: str | None, samples: Sequence[Sample]
) -> Judge:
    """The judge of a label; one marked as swapped reads each answer under another sample."""
    plain = replace(label, is_swapped=False)
    judge = workspace.registry.judge(str(plain), _spec(workspace, label), identity=identity)
    if not label.is_swapped:
        return judge
    if not (swapped := partners(samples)):
        raise SpecError(
            f"judge {label}: no two of these {len(samples)} samples stand in one cluster with "
            "references of their own; leave it out, or raise --limit"
        )
    return Swapped(judge, swapped)
