"""Specs of models to models of known identity; those that give labels, built with their training.

All other kinds are the registry's to build. Nothing here trains.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core import Model, Request, Response, Sample
from harness.errors import ModelError, StoreError
from harness.models.encoders.encoders import CachedEncoder, Encoder
from harness.models.labels import LabelQuestions
from harness.models.local.classifiers import TrainedClassifier, check_fit, read_trained
from harness.parts import Mode
from harness.specs.models import (
    ClassifierSpec,
    LabellingSpec,
    ModelSpec,
    ModerationSpec,
    OpenAISpec,
    SklearnSpec,
)
from harness.specs.tasks import TaskSpec
from harness.workspace import Workspace

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskContext:
    """A task by its name, all its samples, and those of them that are asked about."""

    name: str
    task: TaskSpec
    samples: Sequence[Sample]
    asked: Sequence[Sample]


@dataclass(frozen=True, slots=True)
class OfflineModel:
    """A model known by its stored calls alone: it is never asked."""

    name: str
    kind: str
    identity: str
    modes: frozenset[Mode]
    revision: str | None = None

    def resolve(self) -> None:
        """Do nothing: the identity is that of the stored calls."""

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Refuse: offline there is only what is stored."""
        raise StoreError(f"model {self.name}: asked for {len(list(requests))} answers offline")


def build_model(workspace: Workspace, name: str, spec: ModelSpec, context: TaskContext) -> Model:
    """The model of a spec, which may be one that gives labels."""
    match spec:
        case SklearnSpec() | ClassifierSpec() | ModerationSpec():
            return _labelling(workspace, name, spec, context)
        case _:
            return workspace.registry.model(name, spec, task=context.task, samples=context.samples)


def resolved(workspace: Workspace, model: Model, spec: ModelSpec) -> Model:
    """The model, its identity found out, which asks a server where the spec leaves it to one.

    Offline, without a server, it is the one whose calls are stored, if there is just one.
    """
    try:
        model.resolve()
    except ModelError as error:
        if not (workspace.is_offline and isinstance(spec, OpenAISpec) and spec.model == "auto"):
            raise ModelError(f"model {model.name}: {error}") from error
        known = sorted(workspace.desk(model).ledger.identities())
        if len(known) == 1:
            _log.warning("%s; taken for %s, whose answers are stored", error, known[0])
            return OfflineModel(model.name, model.kind, known[0], model.modes)
        raise ModelError(
            f"{error}; or, to work offline, name the model in configs/models/{model.name}.yaml "
            "instead of auto"
        ) from error
    return model


def trained_folder(
    results: Path, spec: SklearnSpec | ClassifierSpec, *, name: str, task: str
) -> Path:
    """Where a model's training for a task is kept: the folder its YAML names, or below results."""
    return Path(spec.trained) if spec.trained else results / "trained" / name / task


def vectors_folder(workspace: Workspace) -> Path:
    """Where vectors are kept between commands."""
    return workspace.registry.cache / "vectors"


def recipe(spec: SklearnSpec | ClassifierSpec, encoder: Encoder | None = None) -> str:
    """All in a YAML that changes the result of training, in words."""
    match spec:
        case SklearnSpec():
            on = f"{encoder.name} {encoder.digest[:12]}" if encoder else "no encoder"
            weights = f"class_weight {spec.class_weight}"
            return f"{spec.head}, {weights}, c {spec.c:g}, max_iter {spec.max_iter}, {on}"
        case ClassifierSpec():
            steps = f"epochs {spec.epochs}, learning_rate {spec.learning_rate:g}"
            sizes = f"batch {spec.batch}, max_tokens {spec.max_tokens}"
            return f"{steps}, {sizes}, weight_decay {spec.weight_decay:g}"


def _labelling(workspace: Workspace, name: str, spec: LabellingSpec, context: TaskContext) -> Model:
    questions = LabelQuestions.of(context.task, context.samples, model=name)
    match spec:
        case ModerationSpec():
            from harness.models.openai.moderation import ModerationModel

            return ModerationModel(name, spec, questions, workspace.registry.environ)
        case ClassifierSpec():
            from harness.models.local.classifiers import SequenceClassifier

            trained = None if spec.labels else _trained(workspace, name, spec, context)
            return SequenceClassifier(name, spec, questions, trained)
        case SklearnSpec():
            from harness.models.local.classifiers import SklearnModel

            head = _trained(workspace, name, spec, context)
            encoder = workspace.registry.encoder(spec.encoder)
            encode = CachedEncoder(encoder, vectors_folder(workspace)).encode
            has_odds = spec.head == "logistic"
            return SklearnModel(name, head, questions, encode=encode, has_odds=has_odds)


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
        raise ModelError(
            f"{folder}: trained as {classifier.card.recipe!r}, and the YAML of {name} now says "
            f"{today!r}; train it again, or put the YAML back"
        )
    labels = LabelQuestions.of(context.task, context.samples, model=name).labels
    check_fit(classifier, labels, context.asked)
    return classifier
