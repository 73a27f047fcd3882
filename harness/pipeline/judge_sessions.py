"""Names of judges to seats: a judge, and the desk of the model it asks, if it asks one.

Finds out what keeps a judge from judging before the model under test is paid for. Nothing here
asks a model anything.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.core import Case, Judge, Model, Request, Response, Sample
from harness.errors import ModelError, SpecError, StoreError, did_you_mean
from harness.judges.label import THROUGH
from harness.judges.swapped import SWAPPED, Swapped, partners
from harness.models.client.cached import CachedClient
from harness.parts import Mode
from harness.pipeline.plan import Plan, request
from harness.specs.judges import CosineSpec, GoldSpec, JudgeSpec, asked_model, step_read
from harness.specs.models import ModelSpec, OpenAISpec
from harness.specs.tasks import TaskSpec
from harness.storage.ledger import Ledger
from harness.storage.runs import JudgeEntry, ModelEntry
from harness.workspace import Workspace

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JudgeSetup:
    """A judge, how it stands in run.json, and the desk its questions go to, if it asks any."""

    judge: Judge
    entry: JudgeEntry
    desk: CachedClient | None


@dataclass(frozen=True, slots=True)
class JudgeModelOptions:
    """Which model asking judges ask, null for their own, and whether it may be the one tested."""

    model: str | None = None
    is_self_allowed: bool = False


def set_up_judges(
    space: Workspace,
    names: Sequence[str],
    *,
    asking: JudgeModelOptions,
    tested: Model | ModelEntry,
    samples: Sequence[Sample],
) -> tuple[JudgeSetup, ...]:
    """A seat for each judge named; `samples` are those of the run."""
    seats = tuple(
        _seat(space, name, asking=asking, tested=tested, samples=samples) for name in names
    )
    if asking.model and not any(part.desk for part in seats):
        raise SpecError(
            f"--judge-model {asking.model}: none of the judges {', '.join(names)} asks a model; "
            "leave it out"
        )
    return seats


def spec_of(space: Workspace, name: str) -> JudgeSpec:
    """The spec of a judge's name, which may name another model and be marked as swapped."""
    return space.registry.judge_spec(_parts(name)[0])


def joined(judges: Sequence[JudgeEntry], new: JudgeEntry) -> tuple[JudgeEntry, ...]:
    """The judges of a run, in the order of their names, with one that has read it now.

    One of its name gives way to it; where that asked another model, as before its YAML was
    changed, a warning says so.
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


def check_judges(space: Workspace, names: Sequence[str], *, task: TaskSpec, name: str) -> None:
    """Refuse a judge that cannot read what a task's answers are, or a step that it has not."""
    for judge in names:
        spec, step = spec_of(space, judge), step_read(spec_of(space, judge))
        if isinstance(spec, GoldSpec) != task.has_choices:
            what = "choices" if task.has_choices else "texts"
            raise SpecError(
                f"judge {judge} cannot read the answers to task {name}, which are {what}; "
                f"the task's own judges can: {', '.join(task.judges)}"
            )
        if isinstance(spec, GoldSpec) and judge.endswith(SWAPPED):
            raise SpecError(
                f"judge {judge}: choices are laid out for one sample, and mean nothing under "
                f"another; name {judge.removesuffix(SWAPPED)} alone"
            )
        steps = {part.name for variant in task.variants.values() for part in variant.steps}
        if step is not None and step not in steps:
            raise SpecError(
                f"judge {judge} reads step {step!r}, which no variant of task {name} has"
                f"{did_you_mean(step, sorted(steps))}"
            )


def judge_of(
    space: Workspace, name: str, *, identity: str | None, samples: Sequence[Sample]
) -> Judge:
    """The judge of a label; one marked as swapped reads each answer under another sample."""
    plain, spec = name.removesuffix(SWAPPED), spec_of(space, name)
    judge = space.registry.judge(plain, spec, identity=identity)
    if plain == name:
        return judge
    if not (found := partners(samples)):
        raise SpecError(
            f"judge {name}: no two of these {len(samples)} samples stand in one cluster with "
            "references of their own; leave it out, or raise --limit"
        )
    return Swapped(judge, found)


@dataclass(frozen=True, slots=True)
class OfflineModel:
    """A model known by its stored calls alone: offline, it is never asked."""

    name: str
    kind: str
    identity: str
    modes: frozenset[Mode]
    revision: str | None = None

    def resolve(self) -> None:
        """Do nothing: the identity is that of the stored calls."""

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Refuse: what is not stored cannot be had offline."""
        raise StoreError(f"model {self.name}: asked for {len(list(requests))} answers offline")


def resolve(space: Workspace, model: Model, spec: ModelSpec) -> Model:
    """Find out which model it is, which takes a server where the spec leaves it to one.

    Offline, with no server to ask, it is the one whose calls are stored, if there is just one.
    """
    try:
        model.resolve()
    except ModelError as error:
        if not (space.is_offline and isinstance(spec, OpenAISpec) and spec.model == "auto"):
            raise ModelError(f"model {model.name}: {error}") from error
        known = sorted(space.desk(model).ledger.identities())
        if len(known) == 1:
            _log.warning("%s; taken for %s, whose answers are stored", error, known[0])
            return OfflineModel(model.name, model.kind, known[0], model.modes)
        raise ModelError(
            f"{error}; or, to work offline, name the model in configs/models/{model.name}.yaml "
            "instead of auto"
        ) from error
    return model


def smoke_test_judges(
    space: Workspace, plan: Plan, *, seats: Sequence[JudgeSetup], ledger: Ledger
) -> None:
    """Have each judge read a made-up answer, and see its key, unless no answer is missing."""
    variants = plan.task.variants
    first = [
        request(plan, cell, step=variants[cell.variant].steps[0], earlier={}) for cell in plan.cells
    ]
    if space.is_offline or len(ledger.find([part.key for part in first])) == len(first):
        return
    for part in seats:
        _try(space, part, _first(plan.samples, part.judge))


def _first(samples: Sequence[Sample], judge: Judge) -> Sample:
    """The first sample a judge can read an answer to."""
    known = judge.partners if isinstance(judge, Swapped) else {part.id for part in samples}
    return next(part for part in samples if part.id in known)


def _try(space: Workspace, seat: JudgeSetup, sample: Sample) -> None:
    response = Response(key="made up", texts=("a made-up answer",))
    seat.judge.ask(sample, response)
    if seat.entry.asks is None:
        seat.judge.read([Case(sample, response)])
        return
    try:
        space.registry.check_key(seat.entry.asks)
    except ModelError as error:
        raise ModelError(
            f"judge {seat.entry.name}: {error}, or have another model judge with --judge-model"
        ) from error


def _seat(
    space: Workspace,
    name: str,
    *,
    asking: JudgeModelOptions,
    tested: Model | ModelEntry,
    samples: Sequence[Sample],
) -> JudgeSetup:
    """A judge by name, with the desk of its judge model; never the model under test unasked."""
    spec, (plain, named, mark) = spec_of(space, name), _parts(name)
    own = asked_model(spec)
    if own is None:
        if named:
            raise SpecError(f"judge {name}: {plain} asks no model; name it without /{named}")
        judge = judge_of(space, name, identity=None, samples=samples)
        entry = JudgeEntry(name, judge.metric, judge.recipe, step=step_read(spec))
        return JudgeSetup(judge, entry, None)
    asked = named or asking.model or own
    model_spec = space.registry.model_spec(asked)
    model = space.registry.model(asked, model_spec)
    wanted = Mode.EMBED if isinstance(spec, CosineSpec) else Mode.GENERATE
    if wanted not in model.modes:
        raise SpecError(
            f"judge {name} asks {asked} to {wanted}, which a model of kind {model.kind} cannot; "
            "choose another in the judge's YAML or with --judge-model (docs/models.md)"
        )
    model = resolve(space, model, model_spec)
    if model.identity == tested.identity and not asking.is_self_allowed:
        raise SpecError(
            f"judge {name} would ask {asked}, the model under test; choose another with "
            "--judge-model, or add --allow-self-judge"
        )
    label = (plain if asked == own else f"{plain}{THROUGH}{asked}") + mark
    judge = judge_of(space, label, identity=model.identity, samples=samples)
    entry = JudgeEntry(
        label,
        judge.metric,
        judge.recipe,
        asks=asked,
        identity=model.identity,
        step=step_read(spec),
    )
    return JudgeSetup(judge, entry, space.desk(model))


def _parts(name: str) -> tuple[str, str | None, str]:
    """What a judge's name says: its YAML, the model asked in place of its own, how it is marked."""
    label = name.removesuffix(SWAPPED)
    plain, _, model = label.partition(THROUGH)
    return plain, model or None, name.removeprefix(label)


def stored_replies(
    space: Workspace, entry: JudgeEntry, keys: Sequence[tuple[str, ...]]
) -> dict[str, Response]:
    """The replies that a judge was given, by key; none to one that asks nothing."""
    wanted = [key for part in keys for key in part]
    if entry.asks is None:
        return {}
    found = Ledger(space.results / "calls" / entry.asks).find(wanted)
    if lost := [key for key in wanted if key not in found]:
        raise StoreError(
            f"{len(lost)} replies to judge {entry.name} are not in the calls ledger (first: "
            f"{lost[0][:12]}); copy its folder back, or have it judge again"
        )
    return found
