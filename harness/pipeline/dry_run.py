"""What runs and judges would ask: prompts, calls, sizes and prices, before anything is asked.

Makes no call of a model. A call that two cells share is counted once, as it is asked; what is
stored already is counted, and not paid for again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

from harness.core import Request
from harness.models.client.cached import CachedClient
from harness.models.labels import ReadsText
from harness.models.local.token_report import (
    CHARACTERS_A_TOKEN,
    MeasuresPrompts,
    characters,
    estimated,
)
from harness.parts import Message
from harness.pipeline.judge_sessions import JudgeSetup
from harness.pipeline.preview import (
    PlannedCall,
    asked_of,
    charge_stored_calls,
    charge_stored_replies,
    preview,
    questions,
)
from harness.pipeline.run import JudgePlan, RunPlan
from harness.workspace import HOSTED, Workspace

ANY = "-"


@dataclass(frozen=True, slots=True)
class CallSummary:
    """One kind of call: how many, how many of them stored, their sizes, and the price of the rest.

    `variant` is - for a judge, which reads all of them. `stored` is null where all prompts show
    answers not drawn yet; in sizes these are as long as they may be. `prompt_tokens` are by the
    model's tokenizer, or estimated from characters. `max_tokens` bounds the tokens of all answers
    together. The price is that of what is not stored, from an answer of one token and earlier
    ones as short, to the most that it can be; null where none is known, as of every model that is
    not hosted. `choices` are those of the example, where there is something to choose. `waiting`
    counts the calls, among those that are not stored, that wait in a batch already handed in;
    `priced_as` is what prices.yaml calls the model, null for one that is not hosted. Of a model
    that reads texts and no prompt the example is a text alone, and there are no tokens.
    """

    asker: str
    variant: str
    step: str
    model: str
    is_hosted: bool
    calls: int
    stored: int | None
    prompt_characters: int
    prompt_tokens: int
    is_estimate: bool
    max_tokens: int
    least_usd: float | None
    most_usd: float | None
    example: tuple[Message, ...]
    choices: tuple[str, ...] = ()
    waiting: int = 0
    priced_as: str | None = None


@dataclass(frozen=True, slots=True)
class _CallGroup:
    """Calls of one kind, those that no kind before has made apart, and where they are put."""

    asker: str
    step: str
    calls: Sequence[PlannedCall]
    new: Sequence[PlannedCall]
    desk: CachedClient


def dry_runs(space: Workspace, each: Sequence[RunPlan]) -> list[list[CallSummary]]:
    """Every kind of call of some runs, one list a run; a call that two share is the first one's.

    What is stored of them is counted against the budget.
    """
    seen: set[str] = set()
    for ready in each:
        charge_stored_calls(ready.plan, space.desk(ready.model), ready.seats)
    return [_dry_run(space, ready, seen) for ready in each]


def dry_judges(space: Workspace, ready: JudgePlan) -> list[CallSummary]:
    """Every kind of call of judges that are to read a stored run; what is stored is counted."""
    seen, task = set[str](), ready.file.task
    charge_stored_replies(ready.trials, ready.seats, task=task)
    return [
        part
        for seat in ready.seats
        for asked in [asked_of(ready.trials, seat, task=task)]
        for part in _judging(space, seat, [PlannedCall(one, one) for one in asked], seen=seen)
    ]


def _dry_run(space: Workspace, ready: RunPlan, seen: set[str]) -> list[CallSummary]:
    """Every kind of call of a run, those of its judges last."""
    plan, desk, found = ready.plan, space.desk(ready.model), list[CallSummary]()
    courses = preview(plan, desk)
    stored = _stored(desk, [call for course in courses for call in course.calls])
    for variant in plan.run.variants:
        members = [course.calls for course in courses if course.cell.variant == variant]
        for place, step in enumerate(plan.task.variants[variant].steps):
            calls = [part[place] for part in members if len(part) > place]
            kind = _CallGroup(plan.run.task, step.name, calls, _new(calls, seen), desk)
            found.append(replace(_asked(space, kind, stored), variant=variant))
    for seat in ready.seats:
        found += _judging(space, seat, list(questions(plan, courses, seat)), seen=seen)
    return found


def _judging(
    space: Workspace, seat: JudgeSetup, asked: Sequence[PlannedCall], *, seen: set[str]
) -> Iterator[CallSummary]:
    """Every kind of question of a judge; none of one that asks nothing."""
    if seat.desk is None:
        return
    stored = _stored(seat.desk, asked)
    for step_name in dict.fromkeys(call.longest.step for call in asked):
        calls = [call for call in asked if call.longest.step == step_name]
        kind = _CallGroup(seat.judge.name, step_name, calls, _new(calls, seen), seat.desk)
        yield _asked(space, kind, stored)


def _stored(desk: CachedClient, calls: Sequence[PlannedCall]) -> frozenset[str]:
    """Which of some calls would not be made, by key."""
    return frozenset(desk.stored([call.longest for call in calls if not call.is_open]))


def _new(calls: Sequence[PlannedCall], seen: set[str]) -> list[PlannedCall]:
    """The calls that no cell before has made, each once; they are then seen."""
    planned = {call.longest.key: call for call in calls}
    new = [call for key, call in planned.items() if key not in seen]
    seen.update(planned)
    return new


def _texts(kind: _CallGroup, reader: ReadsText, stored: frozenset[str]) -> CallSummary:
    """Calls of a model that reads texts alone: they have no tokens, nor a prompt for an example."""
    found = {call.longest.key: reader.text_of(call.longest) for call in kind.new}
    texts = {key: text for key, text in found.items() if text is not None}
    model = kind.desk.model
    return CallSummary(
        asker=kind.asker,
        variant=ANY,
        step=kind.step,
        model=model.name,
        is_hosted=model.kind in HOSTED,
        calls=len(texts),
        stored=len(stored & set(texts)),
        prompt_characters=sum(map(len, texts.values())),
        prompt_tokens=0,
        is_estimate=False,
        max_tokens=0,
        least_usd=None,
        most_usd=None,
        example=tuple(Message("user", text) for text in [*texts.values()][:1]),
    )


def _asked(space: Workspace, kind: _CallGroup, stored: frozenset[str]) -> CallSummary:
    model, new = kind.desk.model, kind.new
    if isinstance(model, ReadsText):
        return _texts(kind, model, stored)
    size = model.prompt_size if isinstance(model, MeasuresPrompts) else estimated
    sizes = {call.shortest.key: size(call.shortest) for call in new}
    left = [call for call in new if call.longest.key not in stored]
    least, most = _price(left, sizes, kind.desk)
    example = kind.calls[0].longest if kind.calls else None
    return CallSummary(
        asker=kind.asker,
        variant=ANY,
        step=kind.step,
        model=model.name,
        is_hosted=model.kind in HOSTED,
        calls=len(new),
        stored=None if new and all(call.is_open for call in new) else len(new) - len(left),
        prompt_characters=sum(characters(call.longest) for call in new),
        prompt_tokens=sum(sizes[call.shortest.key] + _shown(call) for call in new),
        is_estimate=not isinstance(model, MeasuresPrompts),
        max_tokens=sum(_most_drawn(call.longest) for call in new),
        least_usd=least,
        most_usd=most,
        example=example.messages if example else (),
        choices=example.choices if example else (),
        waiting=len(space.waiting(model) & {call.longest.key for call in left}),
        priced_as=space.registry.priced_as(model.name) if model.kind in HOSTED else None,
    )


def _price(
    left: Sequence[PlannedCall], sizes: Mapping[str, int], desk: CachedClient
) -> tuple[float | None, float | None]:
    """What calls that are still to be made cost, at least and at most; null where not known."""
    if desk.model.kind not in HOSTED:
        return None, None
    if not left:
        return 0.0, 0.0
    if (price := desk.price) is None:
        return None, None
    least = fsum(price.least(call.shortest, sizes[call.shortest.key]) for call in left)
    most = fsum(price.most(call.longest) for call in left)
    charged = [price.shared(full, is_batch=desk.is_batch) for full in (least, most)]
    return charged[0], charged[1]


def _shown(call: PlannedCall) -> int:
    """The tokens of answers not drawn yet that a prompt shows: as many as they may have."""
    return (characters(call.longest) - characters(call.shortest)) // CHARACTERS_A_TOKEN


def _most_drawn(asked: Request) -> int:
    return asked.decoding.max_tokens * asked.decoding.n
