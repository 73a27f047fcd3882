"""Names of judges to seats: a judge, and the desk of the model it asks, if it asks one.

Finds out what keeps a judge from judging before the model under test is paid for. Nothing here
asks a model anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.core import Case, Judge, Model, Response, Sample
from harness.errors import ModelError, SpecError
from harness.ledger import Ledger
from harness.pipeline import Desk
from harness.planning import Plan, request
from harness.runs import JudgeEntry, ModelEntry
from harness.specs.judges import PreferenceSpec
from harness.specs.models import ModelSpec, OpenAISpec
from harness.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Seat:
    """A judge, how it stands in run.json, and the desk its questions go to, if it asks any."""

    judge: Judge
    entry: JudgeEntry
    desk: Desk | None


@dataclass(frozen=True, slots=True)
class Asking:
    """Which model asking judges ask, null for their own, and whether it may be the one tested."""

    model: str | None = None
    is_self_allowed: bool = False


def seat_judges(
    space: Workspace, names: Sequence[str], *, asking: Asking, tested: Model | ModelEntry
) -> tuple[Seat, ...]:
    """A seat for each judge named."""
    seats = tuple(_seat(space, name, asking=asking, tested=tested) for name in names)
    if asking.model and not any(part.desk for part in seats):
        raise SpecError(
            f"--judge-model {asking.model}: none of the judges {', '.join(names)} asks a model; "
            "leave it out"
        )
    return seats


def resolve(space: Workspace, model: Model, spec: ModelSpec) -> None:
    """Find out which model it is, which takes a server where the spec leaves it to one."""
    try:
        _ = model.identity
    except ModelError as error:
        if not (space.is_offline and isinstance(spec, OpenAISpec) and spec.model == "auto"):
            raise
        raise ModelError(
            f"{error}; or, to work offline, name the model in configs/models/{model.name}.yaml "
            "instead of auto"
        ) from error


def try_judges(space: Workspace, plan: Plan, *, seats: Sequence[Seat], ledger: Ledger) -> None:
    """Have each judge read a made-up answer, and see its key, unless no answer is missing."""
    variants = plan.task.variants
    first = [
        request(plan, cell, step=variants[cell.variant].steps[0], earlier={}) for cell in plan.cells
    ]
    if space.is_offline or len(ledger.find([part.key for part in first])) == len(first):
        return
    for part in seats:
        _try(space, part, plan.samples[0])


def _try(space: Workspace, seat: Seat, sample: Sample) -> None:
    response = Response(key="made up", texts=("a made-up answer",))
    seat.judge.ask(sample, response)
    if seat.entry.asks is None:
        seat.judge.read([Case(sample, response)])
    else:
        space.registry.check_key(seat.entry.asks)


def _seat(space: Workspace, name: str, *, asking: Asking, tested: Model | ModelEntry) -> Seat:
    """A judge by name, with the desk of its judge model; never the model under test unasked."""
    spec = space.registry.judge_spec(name)
    if not isinstance(spec, PreferenceSpec):
        judge = space.registry.judge(name, spec, identity=None)
        return Seat(judge, JudgeEntry(name, judge.metric, judge.recipe), None)
    asked = asking.model or spec.model
    model_spec = space.registry.model_spec(asked)
    model = space.registry.model(asked, model_spec, controls={}, samples=())
    resolve(space, model, model_spec)
    if model.identity == tested.identity and not asking.is_self_allowed:
        raise SpecError(
            f"judge {name} would ask {asked}, the model under test; choose another with "
            "--judge-model, or add --allow-self-judge"
        )
    judge = space.registry.judge(name, spec, identity=model.identity)
    entry = JudgeEntry(name, judge.metric, judge.recipe, asks=asked, identity=model.identity)
    return Seat(judge, entry, space.desk(model))
