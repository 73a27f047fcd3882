"""Plan to verdicts: answer what is not stored, then have judges read what is.

Every stage is planned minus stored, and every result is taken from the ledger, so repeating a
stage is how it is resumed. Nothing here knows a back end, a way of judging or a file layout.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.core import Case, Judge, Request, Response, Sample, Verdict
from harness.models.client.cached import CachedClient
from harness.parts import Failure, Message, Option, Reason
from harness.pipeline.plan import Plan, PlannedResponse, check_templates, options, request
from harness.specs.tasks import TaskSpec
from harness.text.parsers import POSTPROCESSORS


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step that was asked, and what came back."""

    step: str
    key: str
    messages: tuple[Message, ...]
    response: Response


@dataclass(frozen=True, slots=True)
class SampleResult:
    """One planned response with the steps taken to it; `decoding` is a label such as T0.3.

    `response` is what judges see: the last step's, cut, or the failure that stands in its way.
    `options` are the choices as they were laid out, `neutral` their scores without the sample.
    """

    sample: Sample
    variant: str
    decoding: str
    taken: tuple[StepResult, ...]
    response: Response
    options: tuple[Option, ...] = ()
    neutral: Response | None = None

    @property
    def answer(self) -> str | None:
        """What the model answered: its text, or the first of the likeliest choices; or null."""
        if self.response.texts:
            return self.response.texts[0]
        scores = [part.logprob for part in self.response.choice_scores or ()]
        is_read = scores and len(scores) == len(self.options)
        return self.options[scores.index(max(scores))].answer.strip() if is_read else None


@dataclass(frozen=True, slots=True)
class JudgedResult:
    """A verdict, and the keys and replies of the judge's questions behind it."""

    verdict: Verdict
    keys: tuple[str, ...] = ()
    replies: tuple[Response, ...] = ()


def answer(plan: Plan, desk: CachedClient) -> list[SampleResult]:
    """Every cell of a plan with its steps taken: all first steps, then all second ones."""
    check_templates(plan)
    cells = plan.cells
    taken: list[list[StepResult]] = [[] for _ in cells]
    for wave in range(max(len(plan.task.variants[name].steps) for name in plan.run.variants)):
        asked: dict[int, Request] = {}
        for index, cell in _by_sample(cells):
            steps = plan.task.variants[cell.variant].steps
            earlier = earlier_texts(taken[index], plan.task, cell.variant)
            if len(taken[index]) == wave < len(steps) and earlier is not None:
                asked[index] = request(plan, cell, step=steps[wave], earlier=earlier)
        found = desk.answer(asked.values(), stage=f"answers, step {wave + 1}")
        for index, asking in asked.items():
            response = found[asking.key]
            taken[index].append(StepResult(asking.step, asking.key, asking.messages, response))
    return [
        trial(
            cell.sample,
            cell.variant,
            decoding=plan.label(cell),
            taken=tuple(parts),
            task=plan.task,
        )
        for cell, parts in zip(cells, taken, strict=True)
    ]


def _by_sample(cells: Sequence[PlannedResponse]) -> list[tuple[int, PlannedResponse]]:
    """Cells with their places, those of a sample together: they share most of their prompts."""
    first: dict[str, int] = {}
    for place, cell in enumerate(cells):
        first.setdefault(cell.sample.id, place)
    return sorted(enumerate(cells), key=lambda pair: (first[pair[1].sample.id], pair[0]))


def trial(
    sample: Sample, variant: str, *, decoding: str, taken: tuple[StepResult, ...], task: TaskSpec
) -> SampleResult:
    """A trial from the steps taken; its response is the last step's, cut as the task says."""
    last, steps = taken[-1], {step.name: step for step in task.variants[variant].steps}
    where = "" if len(taken) == len(steps) else f"step {last.step}: "
    response = last.response
    if response.failure is not None:
        why = response.failure
        response = Response.failed(last.key, why.reason, where + why.message)
    elif response.texts is not None:
        texts = tuple(POSTPROCESSORS[task.cut](text) for text in response.texts)
        response = replace(response, texts=texts)
        if not any(texts):
            response = Response.failed(last.key, Reason.EMPTY, f"{where}the answer is blank")
    neutral = [part.response for part in taken[:-1] if steps[part.step].is_neutral]
    return SampleResult(
        sample,
        variant,
        decoding,
        taken,
        response,
        options=options(task, variant, sample),
        neutral=neutral[0] if neutral else None,
    )


def at_step(part: SampleResult, step: str | None, *, task: TaskSpec) -> SampleResult | None:
    """A trial as a judge of one of its steps sees it; null where its variant has no such step."""
    if step is None:
        return part
    names = [spec.name for spec in task.variants[part.variant].steps]
    if step not in names:
        return None
    taken = part.taken[: names.index(step) + 1]
    return trial(part.sample, part.variant, decoding=part.decoding, taken=taken, task=task)


def ask(
    trials: Sequence[SampleResult], judge: Judge, desk: CachedClient | None
) -> list[JudgedResult]:
    """What a judge makes of each trial; its questions go to its own model's desk."""
    asked = questions(trials, judge)
    wanted = [question for part in asked for question in part]
    replies = desk.answer(wanted, stage=f"judge {judge.name}") if desk else {}
    return read(trials, judge, keys=[tuple(q.key for q in part) for part in asked], replies=replies)


def questions(trials: Sequence[SampleResult], judge: Judge) -> list[tuple[Request, ...]]:
    """What a judge asks about each trial; nothing about one that has no answer."""
    return [
        judge.ask(part.sample, part.response) if part.response.failure is None else ()
        for part in trials
    ]


def read(
    trials: Sequence[SampleResult],
    judge: Judge,
    *,
    keys: Sequence[tuple[str, ...]],
    replies: Mapping[str, Response],
) -> list[JudgedResult]:
    """The verdicts on stored replies: no call is made. `keys` are each trial's questions."""
    heard = [tuple(replies[key] for key in part) for part in keys]
    readable = [i for i, part in enumerate(trials) if part.response.failure is None]
    cases = [_case(trials[i], heard[i]) for i in readable]
    verdicts = dict(zip(readable, judge.read(cases), strict=True)) if cases else {}
    return [
        JudgedResult(verdicts.get(i) or _unanswered(part.response, judge.name), keys[i], heard[i])
        for i, part in enumerate(trials)
    ]


def _case(part: SampleResult, replies: tuple[Response, ...]) -> Case:
    return Case(
        part.sample,
        part.response,
        replies,
        block=f"{part.variant} {part.decoding}",
        variant=part.variant,
        options=part.options,
        neutral=part.neutral,
    )


def _unanswered(response: Response, judge: str) -> Verdict:
    """The verdict where there is nothing to judge: the failure's own reason."""
    why = response.failure or Failure(Reason.UNSUPPORTED, "the judge gave no verdict")
    return Verdict(response.key, judge, None, why.reason, note=why.message)


def earlier_texts(
    taken: Sequence[StepResult], task: TaskSpec, variant: str
) -> dict[str, str] | None:
    """The texts that later steps may use; null where a step has no answer.

    A neutral step may fail: what later steps ask does not rest on it.
    """
    neutral = {step.name for step in task.variants[variant].steps if step.is_neutral}
    needed = [part for part in taken if part.step not in neutral]
    texts = {
        p.step: POSTPROCESSORS[task.cut](p.response.texts[0]) for p in needed if p.response.texts
    }
    is_missing = any(part.response.failure for part in needed) or "" in texts.values()
    return None if is_missing else texts
