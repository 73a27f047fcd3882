"""Specs to models of known identity, and judges by name or as objects to judges ready to read.

What keeps a judge from judging is found before the model under test is paid for; none is asked.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from pathlib import Path

from msgspec import UNSET, UnsetType

from harness.core import Case, Judge, Model, Response, Sample
from harness.errors import ModelError, NoServerError, SpecError, did_you_mean, of_model
from harness.judges.custom import JudgeLabel, SourcedJudge
from harness.models.client.cached import CachedClient, CallPolicy, OfflineModel
from harness.models.encoders.encoders import CachedEncoder, Encoder
from harness.models.labels import LabelQuestions
from harness.models.local.classifiers import TrainedClassifier, check_fit, read_trained
from harness.models.spread import placed
from harness.parts import Mode
from harness.pipeline.plan import AnswerMode, Plan
from harness.specs.judges import CosineSpec, JudgeSpec, asked_model, reads_choices, step_read
from harness.specs.models import (
    Backend,
    ClassifierSpec,
    HostedSpec,
    LabellingSpec,
    LocalSpec,
    ModelSpec,
    ModerationSpec,
    OpenAISpec,
    SklearnSpec,
)
from harness.specs.tasks import DecodingSpec, TaskSpec
from harness.storage.ledger import Ledger
from harness.storage.runs import JudgeEntry, ModelEntry
from harness.storage.signature import JudgeRecipe
from harness.workspace import Workspace

_log = logging.getLogger(__name__)
_MADE_UP = Response(key="made up", texts=("a made-up answer",))
VECTORS = "vectors"  # the folder of vectors that are kept between commands, below the cache
JudgeSource = str | Judge
"""A judge by the name of its YAML, or as an object."""


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
    decoding: DecodingSpec | None = None

    @property
    def labels(self) -> list[JudgeLabel]:
        """The judges that are given by name."""
        return [JudgeLabel.parse(one) for one in self.judges if isinstance(one, str)]


@dataclass(frozen=True, slots=True)
class TaskContext:
    """A task by its name, all its samples, and those of them that are asked about."""

    name: str
    task: TaskSpec
    samples: Sequence[Sample]
    asked: Sequence[Sample]


def build_model(workspace: Workspace, name: str, spec: ModelSpec, context: TaskContext) -> Model:
    """The model of a spec, which may be one that gives labels."""
    registry = workspace.registry
    if isinstance(spec, HostedSpec | LocalSpec) and not isinstance(spec, LabellingSpec):
        return shared(workspace, name, spec)
    if not isinstance(spec, LabellingSpec):
        return registry.model(name, spec, task=context.task, samples=context.samples)
    questions = LabelQuestions.of(context.task, context.samples, model=name)
    match spec:
        case ModerationSpec():
            from harness.models.openai.model import ModerationModel

            return ModerationModel(name, spec, questions, registry.environ)
        case ClassifierSpec():
            from harness.models.local.sequence_classifiers import SequenceClassifier

            is_own = not (spec.labels or spec.flags)
            trained = _trained(workspace, name, spec, context) if is_own else None
            build = partial(SequenceClassifier, name, spec, questions, trained)
            return placed(registry.executor, build)
        case SklearnSpec():
            from harness.models.local.classifiers import SklearnModel

            head = _trained(workspace, name, spec, context)
            encode = CachedEncoder(registry.encoder(spec.encoder), registry.cache / VECTORS).encode
            has_odds = spec.head == "logistic"
            return SklearnModel(name, head, questions, encode=encode, has_odds=has_odds)


def shared(workspace: Workspace, name: str, spec: ModelSpec) -> Model:
    """The model of a spec that knows no task: the one that another run has open, if any."""
    opened = workspace.opened
    if opened is None or not isinstance(spec, HostedSpec | LocalSpec):
        return workspace.registry.model(name, spec)
    # Held by its name while it is looked for: nothing else may hold it yet.
    opened[name] = model = opened.get(name) or workspace.registry.model(name, spec)
    return model


def resolved(workspace: Workspace, model: Model, spec: ModelSpec) -> Model:
    """The model, its identity found out, which asks a server where the spec leaves it to one.

    Without a server it is the one whose calls are stored, if there is just one.
    """
    try:
        model.resolve()
        return model
    except ModelError as error:
        why = of_model(model.name, error)
        is_away = workspace.is_offline or isinstance(error, NoServerError)
        known = sorted(Ledger(workspace.results / "calls" / model.name).identities())
        is_auto = isinstance(spec, OpenAISpec) and spec.model == "auto"
        if not (is_auto and is_away and len(known) == 1):
            named = f"; or name the model in configs/models/{model.name}.yaml instead of auto"
            raise type(error)(why + named * (is_auto and workspace.is_offline)) from error
    said = "%s; taken for %s, whose answers are stored"
    _log.warning(said, why, known[0], extra={"is_once": True})
    stored = OfflineModel(model.name, model.kind, known[0], model.modes, why=why)
    if workspace.opened is not None:
        workspace.opened[model.name] = stored
    return stored


def trained_folder(
    results: Path, spec: SklearnSpec | ClassifierSpec, *, name: str, task: str
) -> Path:
    """Where a model's training for a task is kept: the folder its YAML names, or below results."""
    return Path(spec.trained) if spec.trained else results / "trained" / name / task


def recipe(spec: SklearnSpec | ClassifierSpec, encoder: Encoder | None = None) -> str:
    """All in a YAML that changes the result of training, in words."""
    match spec:
        case SklearnSpec():
            on = f"{encoder.name} {encoder.digest[:12]}" if encoder else "no encoder"
            weights = f"class_weight {spec.class_weight}"
            gamma = "scale" if spec.gamma is None else f"{spec.gamma:g}"
            ends = f"gamma {gamma}" if spec.head == "svm-rbf" else f"max_iter {spec.max_iter}"
            return f"{spec.head}, {weights}, c {spec.c:g}, {ends}, {on}"
        case ClassifierSpec():
            steps = f"epochs {spec.epochs}, learning_rate {spec.learning_rate:g}"
            sizes = f"batch {spec.batch}, max_tokens {spec.max_tokens}"
            return f"{steps}, {sizes}, weight_decay {spec.weight_decay:g}"


def _trained(
    workspace: Workspace, name: str, spec: SklearnSpec | ClassifierSpec, context: TaskContext
) -> TrainedClassifier:
    """The classifier trained for a task, as the YAML now says; it must fit the task and its texts.

    A task made of another one is answered by the classifier trained for that.
    """
    task = context.task.origin(context.name)
    folder = trained_folder(workspace.results, spec, name=name, task=task)
    classifier = read_trained(folder, model=name, task=task)
    encoder = workspace.registry.encoder(spec.encoder) if isinstance(spec, SklearnSpec) else None
    if classifier.card.recipe != (today := recipe(spec, encoder)):
        fact = f"trained as {classifier.card.recipe!r}, and the YAML of {name} now says {today!r}"
        raise ModelError(f"{folder}: {fact}; train it again, or put the YAML back")
    labels = LabelQuestions.of(context.task, context.samples, model=name).labels
    check_fit(classifier, labels, context.asked)
    return classifier


@dataclass(frozen=True, slots=True)
class JudgeSetup:
    """A judge, its entry in run.json, and the client of the model it asks; None if it asks none.

    `key_error` is what is wrong with that model's key or its price, None where nothing is.
    """

    judge: Judge
    entry: JudgeEntry
    client: CachedClient | None = None
    key_error: str | None = None


def check_judges(workspace: Workspace, options: RunOptions, task: TaskSpec) -> None:
    """Refuse a judge that cannot read a task's answers, and an object whose name is taken."""
    names = [one if isinstance(one, str) else one.name for one in options.judges]
    taken = workspace.registry.names("configs/judges")
    for own in (one.name for one in options.judges if not isinstance(one, str)):
        if names.count(own) > 1 or own in taken or not re.fullmatch(r"[\w.+-]+", own):
            own_name = "give it a name of letters, digits, `.+-_` that no other judge has"
            raise SpecError(f"judge {own!r} is an object: {own_name}")
    steps = {step.name for variant in task.variants.values() for step in variant.steps}
    for judge in options.labels:
        spec = workspace.registry.load("configs/judges", judge.name)
        if reads_choices(spec) != task.has_choices:
            what = "choices" if task.has_choices else "texts"
            fact = f"cannot read the answers to task {options.task}, which are {what}"
            can = f"the task's own judges can: {', '.join(task.judges)}"
            raise SpecError(f"judge {judge} {fact}; {can}")
        if (step := step_read(spec)) not in (None, *steps):
            fact = f"reads step {step!r}, which no variant of task {options.task} has"
            raise SpecError(f"judge {judge} {fact}{did_you_mean(str(step), sorted(steps))}")


def set_up_judges(
    workspace: Workspace, options: RunOptions, *, tested: Model | ModelEntry
) -> tuple[JudgeSetup, ...]:
    """Build the judges of a run, each with the cached client of its judge model, if any."""
    setups = []
    for judge in options.judges:
        if isinstance(judge, str):
            setup = _set_up(workspace, JudgeLabel.parse(judge), options.judge_model)
            is_self = setup.client and setup.entry.identity == tested.identity
            if is_self and not options.is_self_judge_allowed:
                fact = f"judge {judge} would ask {setup.entry.asks}, the model under test"
                other = "choose another with --judge-model, or add --allow-self-judge"
                raise SpecError(f"{fact}; {other}")
        else:
            JudgeRecipe.parse(judge.recipe)
            facts = (judge.name, judge.metric, judge.recipe)
            setup = JudgeSetup(judge, JudgeEntry(*facts, chance=_chance(judge, None)))
        setups.append(setup)
    if options.judge_model and not any(setup.client for setup in setups):
        names = ", ".join(setup.entry.name for setup in setups)
        fact = f"none of the judges {names} asks a model; leave it out"
        raise SpecError(f"--judge-model {options.judge_model}: {fact}")
    return tuple(setups)


def ready_judges(
    workspace: Workspace,
    options: RunOptions,
    task: TaskSpec,
    *,
    tested: Model | ModelEntry,
    samples: Iterable[Sample],
) -> tuple[JudgeSetup, ...]:
    """The judges of a run; SpecError where a question needs what its samples do not have."""
    setups = set_up_judges(workspace, options, tested=tested)
    for setup in setups if not task.has_choices else ():
        if setup.entry.asks:
            _try(setup, task, options.task, samples)
    return setups


def _set_up(workspace: Workspace, label: JudgeLabel, judge_model: str | None) -> JudgeSetup:
    spec = workspace.registry.load("configs/judges", label.name)
    own = asked_model(spec)
    if own is None and label.model:
        raise SpecError(f"judge {label}: {label.name} asks no model; leave out /{label.model}")
    asked = (label.model or judge_model or own) if own else None
    model = _judge_model(workspace, asked, spec, judge=label) if asked else None
    label = replace(label, model=None if asked == own else asked)
    identity = model.identity if model else None
    judge = workspace.registry.judge(str(label), spec, identity=identity)
    facts = (str(label), judge.metric, judge.recipe, asked, identity, step_read(spec))
    setup = JudgeSetup(judge, JudgeEntry(*facts, chance=_chance(judge, UNSET)))
    if model is None or asked is None:
        return setup
    try:
        workspace.registry.check_key(asked)
        workspace.check_price(asked)
    except (ModelError, SpecError) as error:
        setup = replace(setup, key_error=str(error))
    return replace(setup, client=workspace.desk(model, is_checked=False))


def stored_setup(workspace: Workspace, entry: JudgeEntry) -> JudgeSetup:
    """A judge that has read a run, as its YAML now has it, with the replies it was given then."""
    spec = workspace.registry.load("configs/judges", JudgeLabel.parse(entry.name).name)
    judge = workspace.registry.judge(entry.name, spec, identity=entry.identity)
    if entry.asks is None:
        return JudgeSetup(judge, entry)
    model = OfflineModel(entry.asks, "stored", entry.identity or "", frozenset())
    ledger = Ledger(workspace.results / "calls" / entry.asks)
    policy = CallPolicy(is_offline=True)
    return JudgeSetup(judge, entry, CachedClient(model, ledger, workspace.progress, policy))


def joined(judges: Sequence[JudgeEntry], new: JudgeEntry) -> tuple[JudgeEntry, ...]:
    """The judges of a run by name, with one that has read it now in place of one of its name."""
    known = {entry.name: entry for entry in (*judges, new)}
    return tuple(known[name] for name in sorted(known))


def smoke_test_judges(plan: Plan, judges: Sequence[JudgeSetup]) -> None:
    """Have each judge read a made-up answer, and check its key."""
    for setup in judges:
        if setup.entry.asks is None and not plan.task.has_choices:
            _try(setup, plan.task, plan.run.task, plan.samples)
        if setup.key_error is not None:
            other = "or have another model judge with --judge-model"
            raise ModelError(f"judge {setup.entry.name}: {setup.key_error}, {other}")


def _try(setup: JudgeSetup, task: TaskSpec, name: str, samples: Iterable[Sample]) -> None:
    """Show a judge a made-up answer to a sample; say of a judge of another task which can read."""
    judge, sample = setup.judge, next(iter(samples), None)
    try:
        if sample is not None and setup.entry.asks:
            judge.ask(sample, _MADE_UP)
        elif sample is not None:
            judge.read([Case(sample, _MADE_UP)])
    except SpecError as error:
        if setup.entry.name in task.judges:
            raise
        fact = f"judge {setup.entry.name} cannot read the answers to task {name} ({error})"
        raise SpecError(f"{fact}; the task's own judges can: {', '.join(task.judges)}") from error


def _chance(judge: Judge, default: UnsetType | None) -> float | UnsetType | None:
    """What a judge says a blind answer gets; `default` if it says nothing of it."""
    own, missing = (judge.judge, None) if isinstance(judge, SourcedJudge) else (judge, default)
    chance = getattr(own, "chance", missing)
    if chance is None or chance is UNSET:
        return chance
    if isinstance(chance, bool) or not isinstance(chance, int | float) or not isfinite(chance):
        number = f"give the number that a blind answer gets on {judge.metric}, or leave it out"
        raise SpecError(f"judge {judge.name}: `chance` is {chance!r}; {number}")
    return float(chance)


def _judge_model(workspace: Workspace, asked: str, spec: JudgeSpec, *, judge: JudgeLabel) -> Model:
    model_spec = workspace.registry.load("configs/models", asked)
    model = shared(workspace, asked, model_spec)
    wanted = Mode.EMBED if isinstance(spec, CosineSpec) else Mode.GENERATE
    if wanted not in model.modes:
        fact = f"asks {asked} to {wanted}, which a model of kind {model.kind} cannot"
        raise SpecError(f"judge {judge} {fact}; choose another with --judge-model (docs/models.md)")
    return resolved(workspace, model, model_spec)
