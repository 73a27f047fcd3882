"""A plan to the calls it would take, as far as stored answers show what is asked next.

Makes no call. Where a prompt shows an answer that is not there yet, a stand-in takes its place,
once at its longest and once at its shortest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.core import Request, Response
from harness.models.client.cached import CachedClient
from harness.models.local.tokenization import CHARACTERS_A_TOKEN
from harness.pipeline.judge_setup import JudgeSetup
from harness.pipeline.plan import Plan, PlannedResponse, request
from harness.pipeline.resolve import JudgePlan
from harness.pipeline.walk import Call, case_of, cases_of, questions, sample_record, walk
from harness.specs.tasks import StepSpec
from harness.storage.runs import SampleRecord


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call; both are one request where every word of its prompt is known."""

    longest: Request
    shortest: Request

    @property
    def is_open(self) -> bool:
        """Whether its prompt shows an answer that is not there yet."""
        return self.longest is not self.shortest


@dataclass(frozen=True, slots=True)
class CallSequence:
    """The calls of a planned response, and its records by the longest and shortest stand-ins.

    `is_open` says whether a call is not stored, so that there are stand-ins.
    """

    cell: PlannedResponse
    calls: tuple[PlannedCall, ...]
    longest: SampleRecord
    shortest: SampleRecord
    is_open: bool


def preview(plan: Plan, client: CachedClient | None) -> list[CallSequence]:
    """The calls of every planned response; without a client none counts as stored."""
    return _preview(plan, plan.cells, client)


def planned_requests(plan: Plan, cell: PlannedResponse) -> tuple[Request, ...]:
    """The request of each step of a planned response, stand-ins for the earlier answers."""
    [sequence] = _preview(plan, [cell], None)
    return tuple(call.longest for call in sequence.calls)


def _preview(
    plan: Plan, planned: Sequence[PlannedResponse], client: CachedClient | None
) -> list[CallSequence]:
    known: dict[str, Response] = {}
    made: dict[tuple[object, ...], Request] = {}

    def ask(cell: PlannedResponse, step: StepSpec, earlier: Mapping[str, str]) -> Request:
        place = (cell.sample.id, cell.variant, cell.decoding, step.name, *earlier.items())
        if place not in made:  # prompts are rendered once, though there are two walks
            made[place] = request(plan, cell, step=step, earlier=earlier)
        return made[place]

    def longest(asked: Sequence[Request], wave: int) -> dict[str, Response]:
        known.update(client.stored(asked) if client else {})
        return {r.key: known.get(r.key) or _stand_in(r, r.decoding.max_tokens) for r in asked}

    def shortest(asked: Sequence[Request], wave: int) -> dict[str, Response]:
        return {r.key: known.get(r.key) or _stand_in(r, 0) for r in asked}

    long = walk(plan.task, planned, ask=ask, answer=longest)
    is_open = [any(asked.key not in known for asked, _ in calls) for calls in long]
    left = [cell for cell, part in zip(planned, is_open, strict=True) if part]
    others = iter(walk(plan.task, left, ask=ask, answer=shortest))
    return [
        _sequence(plan, cell, calls, next(others) if part else None)
        for cell, calls, part in zip(planned, long, is_open, strict=True)
    ]


def _sequence(
    plan: Plan, cell: PlannedResponse, long: Sequence[Call], short: Sequence[Call] | None
) -> CallSequence:
    """The calls of a planned response; `short` are those by the shortest stand-ins, if any."""
    pairs = zip(long, long if short is None else short, strict=True)
    calls = tuple(_planned_call(one, other) for (one, _), (other, _) in pairs)
    longest = sample_record(cell, long, plan.task)
    shortest = longest if short is None else sample_record(cell, short, plan.task)
    return CallSequence(cell, calls, longest, shortest, is_open=short is not None)


def _planned_call(longest: Request, shortest: Request) -> PlannedCall:
    # What shows no answer, such as a reference to embed, is the same in both.
    return PlannedCall(longest, longest if longest.key == shortest.key else shortest)


def judge_calls(
    plan: Plan, sequences: Sequence[CallSequence], setup: JudgeSetup
) -> Iterator[PlannedCall]:
    """The questions a judge would ask about planned responses."""
    for sequence in sequences:
        longest = _questions(plan, sequence.longest, setup)
        shortest = _questions(plan, sequence.shortest, setup) if sequence.is_open else longest
        yield from map(_planned_call, longest, shortest)


def _questions(plan: Plan, record: SampleRecord, setup: JudgeSetup) -> tuple[Request, ...]:
    case = case_of(record, plan.task, step=setup.entry.step)
    return questions(case, setup.judge) if case else ()


def stored_questions(plan: JudgePlan, setup: JudgeSetup) -> list[Request]:
    """The questions a judge asks about stored answers."""
    cases = cases_of(plan.records, plan.task, step=setup.entry.step, responses=plan.responses)
    return [question for case in cases.values() for question in questions(case, setup.judge)]


def charge_stored_calls(plan: Plan, client: CachedClient, judges: Sequence[JudgeSetup]) -> None:
    """Count all that is stored of a run against the budget before its first new call.

    Replies to judges, or to later steps, would else count only after new calls of earlier ones.
    """
    if client.terms.budget is None:
        return
    sequences = preview(plan, client)
    client.count([call.longest for sequence in sequences for call in sequence.calls])
    for setup in judges:
        if setup.client is not None:
            setup.client.count([call.longest for call in judge_calls(plan, sequences, setup)])


def charge_stored_replies(plan: JudgePlan) -> None:
    """Count stored replies to the judges of a plan before any of them asks something new."""
    for setup in plan.judges:
        if setup.client is not None and setup.client.terms.budget is not None:
            setup.client.count(stored_questions(plan, setup))


def _stand_in(asked: Request, tokens: int) -> Response:
    """A stand-in for an answer that is not there yet: as long as so many tokens, and its own."""
    shortest = f"({asked.step} {asked.key[:8]})"
    # The longest is never the shortest: where both are alike, a prompt shows neither.
    length = max(tokens * CHARACTERS_A_TOKEN, len(shortest) + 1)
    return Response(asked.key, texts=(shortest.ljust(length, ".") if tokens else shortest,))
