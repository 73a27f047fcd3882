"""A plan to the calls it would take, as far as stored answers tell what is asked next.

Makes no call. Where a prompt shows an answer that is not drawn yet, something stands in for it,
once at its longest and once at its shortest.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from harness.core import Request, Response
from harness.models.client.cached import CachedClient
from harness.models.local.token_report import CHARACTERS_A_TOKEN
from harness.pipeline import stages
from harness.pipeline.judge_sessions import JudgeSetup
from harness.pipeline.plan import Plan, PlannedResponse, request
from harness.pipeline.stages import SampleResult, StepResult
from harness.specs.tasks import TaskSpec


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call; both are one request where every word of its prompt is known."""

    longest: Request
    shortest: Request

    @property
    def is_open(self) -> bool:
        """Whether its prompt shows an answer that is not drawn yet."""
        return self.longest is not self.shortest


@dataclass(slots=True)
class CallSequence:
    """The calls of one cell, and what came of them or stands in for it."""

    cell: PlannedResponse
    calls: list[PlannedCall] = field(default_factory=list)
    longest: list[StepResult] = field(default_factory=list)
    shortest: list[StepResult] = field(default_factory=list)
    is_open: bool = False

    def take(self, call: PlannedCall, stored: Response | None) -> None:
        """Go a step on: with the stored response, or with what stands in for it."""
        self.calls.append(call)
        self.is_open = self.is_open or stored is None
        self.longest.append(_taken(call.longest, stored, call.longest.decoding.max_tokens))
        self.shortest.append(_taken(call.shortest, stored, 0))


def preview(plan: Plan, desk: CachedClient | None) -> list[CallSequence]:
    """The course of every cell; without a desk nothing is stored."""
    courses = [CallSequence(cell) for cell in plan.cells]
    for wave in range(max(len(plan.task.variants[name].steps) for name in plan.run.variants)):
        asked = {
            place: call
            for place, course in enumerate(courses)
            if (call := _next(plan, course, wave)) is not None
        }
        known = [call.longest for call in asked.values() if not call.is_open]
        found = desk.stored(known) if desk else {}
        for place, call in asked.items():
            courses[place].take(call, found.get(call.longest.key))
    return courses


def questions(
    plan: Plan, courses: Sequence[CallSequence], seat: JudgeSetup
) -> Iterator[PlannedCall]:
    """What a judge would ask about the answers at the ends of courses."""
    for course in courses:
        longest, shortest = (
            _trial(plan, course, part) for part in (course.longest, course.shortest)
        )
        asked = _asked(plan, longest, seat)
        brief = _asked(plan, shortest, seat) if course.is_open else asked
        yield from (
            # What shows no answer, such as a reference to embed, is the same in both.
            PlannedCall(long, long if long.key == short.key else short)
            for long, short in zip(asked, brief, strict=True)
        )


def charge_stored_calls(plan: Plan, desk: CachedClient, seats: Sequence[JudgeSetup]) -> None:
    """Count all that is stored of a run against the budget before its first new call.

    What judges were told, or later steps, would else count only after new calls of earlier ones.
    """
    if desk.terms.budget is None:
        return
    courses = preview(plan, desk)
    desk.count([call.longest for course in courses for call in course.calls])
    for seat in seats:
        if seat.desk is not None:
            seat.desk.count([call.longest for call in questions(plan, courses, seat)])


def charge_stored_replies(
    trials: Sequence[SampleResult], seats: Sequence[JudgeSetup], *, task: TaskSpec
) -> None:
    """Count what judges were told of stored answers before any of them asks something new."""
    for seat in seats:
        if seat.desk is not None and seat.desk.terms.budget is not None:
            seat.desk.count(asked_of(trials, seat, task=task))


def asked_of(trials: Sequence[SampleResult], seat: JudgeSetup, *, task: TaskSpec) -> list[Request]:
    """What a judge asks about stored answers."""
    viewed = [stages.at_step(part, seat.entry.step, task=task) for part in trials]
    asked = stages.questions([part for part in viewed if part], seat.judge)
    return [question for part in asked for question in part]


def planned(plan: Plan, cell: PlannedResponse) -> tuple[Request, ...]:
    """The request of each step of a cell, earlier answers stood in for."""
    course = CallSequence(cell)
    for wave in range(len(plan.task.variants[cell.variant].steps)):
        if (call := _next(plan, course, wave)) is not None:
            course.take(call, None)
    return tuple(call.longest for call in course.calls)


def _next(plan: Plan, course: CallSequence, wave: int) -> PlannedCall | None:
    """The next call of a course; none behind its last step, or behind one that failed for good."""
    cell, task = course.cell, plan.task
    steps = task.variants[cell.variant].steps
    earlier = stages.earlier_texts(course.longest, task, cell.variant)
    if len(course.calls) != wave or wave >= len(steps) or earlier is None:
        return None
    longest = request(plan, cell, step=steps[wave], earlier=earlier)
    if not course.is_open:
        return PlannedCall(longest, longest)
    brief = stages.earlier_texts(course.shortest, task, cell.variant) or {}
    shortest = request(plan, cell, step=steps[wave], earlier=brief)
    return PlannedCall(longest, longest if longest.key == shortest.key else shortest)


def _trial(plan: Plan, course: CallSequence, taken: Sequence[StepResult]) -> SampleResult:
    cell = course.cell
    return stages.trial(
        cell.sample,
        cell.variant,
        decoding=plan.label(cell),
        taken=tuple(taken),
        task=plan.task,
    )


def _asked(plan: Plan, trial: SampleResult, seat: JudgeSetup) -> tuple[Request, ...]:
    """A judge's questions about a trial, as it sees it."""
    viewed = stages.at_step(trial, seat.entry.step, task=plan.task)
    return stages.questions([viewed], seat.judge)[0] if viewed else ()


def _taken(asked: Request, stored: Response | None, tokens: int) -> StepResult:
    response = stored or Response(asked.key, texts=(_filler(asked, tokens),))
    return StepResult(asked.step, asked.key, asked.messages, response)


def _filler(asked: Request, tokens: int) -> str:
    """A stand-in for an answer not drawn yet: as long as so many tokens, and its own."""
    brief = f"({asked.step} {asked.key[:8]})"
    # The long one is never the short one: where they stand the same, a prompt shows neither.
    return brief.ljust(max(tokens * CHARACTERS_A_TOKEN, len(brief) + 1), ".") if tokens else brief
