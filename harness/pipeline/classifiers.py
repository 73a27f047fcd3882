"""Models that give labels, by their specs: built with a task, its samples and what was trained.

All other models are the registry's to build. Nothing here trains.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.core import Model, Sample
from harness.errors import ModelError
from harness.models.encoders.encoders import Encoder
from harness.models.encoders.factory import CachedEncoder
from harness.models.labels import LabelQuestions
from harness.models.local.trained import TrainedClassifier, check_fit, read_trained
from harness.specs.models import (
    ClassifierSpec,
    LabellingSpec,
    ModelSpec,
    ModerationSpec,
    SklearnSpec,
)
from harness.specs.tasks import TaskSpec
from harness.workspace import Workspace


@dataclass(frozen=True, slots=True)
class TaskContext:
    """A task by its name, all its samples, and those of them that are asked about."""

    name: str
    task: TaskSpec
    samples: Sequence[Sample]
    asked: Sequence[Sample]


def model_of(space: Workspace, name: str, spec: ModelSpec, posed: TaskContext) -> Model:
    """The model of a spec, which may be one that gives labels."""
    match spec:
        case SklearnSpec() | ClassifierSpec() | ModerationSpec():
            return _labelling(space, name, spec, posed)
        case _:
            return space.registry.model(name, spec, task=posed.task, samples=posed.samples)


def trained_folder(
    results: Path, spec: SklearnSpec | ClassifierSpec, *, name: str, task: str
) -> Path:
    """Where a model's training for a task is kept: the folder its YAML names, or below results."""
    return Path(spec.trained) if spec.trained else results / "trained" / name / task


def vectors_folder(space: Workspace) -> Path:
    """Where vectors are kept between commands."""
    return space.registry.cache / "vectors"


def _labelling(space: Workspace, name: str, spec: LabellingSpec, posed: TaskContext) -> Model:
    """The model of a spec of one of the kinds that give labels."""
    questions = LabelQuestions.of(posed.task, posed.samples, model=name)
    match spec:
        case ModerationSpec():
            from harness.models.openai.moderation import ModerationModel

            return ModerationModel(name, spec, questions, space.registry.environ)
        case ClassifierSpec():
            from harness.models.local.sequence_classifier import SequenceClassifier

            trained = None if spec.labels else _fitting(space, name, spec, posed)
            return SequenceClassifier(name, spec, questions, trained)
        case SklearnSpec():
            from harness.models.local.linear_classifier import SklearnModel

            head = _fitting(space, name, spec, posed)
            encoder = space.registry.encoder(spec.encoder)
            encode = CachedEncoder(encoder, vectors_folder(space)).encode
            has_odds = spec.head == "logistic"
            return SklearnModel(name, head, questions, encode=encode, has_odds=has_odds)


def recipe(spec: SklearnSpec | ClassifierSpec, encoder: Encoder | None = None) -> str:
    """All in a YAML that changes what training comes to, in words."""
    match spec:
        case SklearnSpec():
            on = f"{encoder.name} {encoder.digest[:12]}" if encoder else "no encoder"
            weights = f"class_weight {spec.class_weight}"
            return f"{spec.head}, {weights}, c {spec.c:g}, max_iter {spec.max_iter}, {on}"
        case ClassifierSpec():
            steps = f"epochs {spec.epochs}, learning_rate {spec.learning_rate:g}"
            sizes = f"batch {spec.batch}, max_tokens {spec.max_tokens}"
            return f"{steps}, {sizes}, weight_decay {spec.weight_decay:g}"


def _fitting(
    space: Workspace, name: str, spec: SklearnSpec | ClassifierSpec, posed: TaskContext
) -> TrainedClassifier:
    """What was trained for a task, as the YAML says today; it must fit the task and its texts.

    A task that was made of another one is answered by what was trained for that.
    """
    of = posed.task.origin(posed.name)
    folder = trained_folder(space.results, spec, name=name, task=of)
    found = read_trained(folder, model=name, task=of)
    encoder = space.registry.encoder(spec.encoder) if isinstance(spec, SklearnSpec) else None
    if found.card.recipe != (today := recipe(spec, encoder)):
        raise ModelError(
            f"{folder}: trained as {found.card.recipe!r}, and the YAML of {name} now says "
            f"{today!r}; train it again, or put the YAML back"
        )
    labels = LabelQuestions.of(posed.task, posed.samples, model=name).labels
    check_fit(found, labels, posed.asked)
    return found
