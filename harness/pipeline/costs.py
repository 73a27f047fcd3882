"""Rows of a run to what their calls came to: tokens, and US dollars where they are known.

Each call counts once among those that are added up, and so do those whose place it takes; what
nobody tells is never zero. Nothing here knows a price: a call's cost was stored with its response.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import fsum

from harness.parts import Usage
from harness.storage.runs import Cost, Costs, JudgeEntry, SampleRecord, StepRecord, VerdictRecord

Calls = Mapping[str, Usage]
"""What calls were charged for, by their keys in the ledger."""


def answer_calls(row: SampleRecord, judge: JudgeEntry | None = None) -> dict[str, Usage]:
    """The calls behind a response; behind that of an earlier step, where a judge reads one."""
    return {step.key: step.usage for step in _read(row.steps, judge.step if judge else None)}


def judge_calls(verdict: VerdictRecord) -> dict[str, Usage]:
    """The calls behind a verdict; rows written before they told have unknown ones."""
    usages = verdict.usages or (Usage(),) * len(verdict.keys)
    return dict(zip(verdict.keys, usages, strict=True))


def cost_of(calls: Calls) -> Cost:
    """What some calls came to."""
    used = [part for usage in calls.values() for part in usage.with_superseded]
    prompts = [usage.prompt_tokens for usage in used]
    completions = [usage.completion_tokens for usage in used]
    costs = [usage.cost_usd for usage in used]
    told = Usage(_count(prompts), _count(completions), _sum(costs))
    unanswered = sum(usage.unanswered or 0 for usage in used)
    return Cost(
        calls=len(used),
        prompt_tokens=None if unanswered or None in prompts else told.prompt_tokens,
        completion_tokens=None if unanswered or None in completions else told.completion_tokens,
        cost_usd=None if unanswered or None in costs else told.cost_usd,
        told=told,
        unanswered=unanswered,
    )


def run_costs(rows: Sequence[SampleRecord], judges: Sequence[JudgeEntry]) -> Costs:
    """What the calls of a run came to; of its judges those that ask."""
    answers = merged(answer_calls(row) for row in rows)
    asked = {
        entry.name: merged(
            judge_calls(row.verdicts[entry.name]) for row in rows if entry.name in row.verdicts
        )
        for entry in judges
        if entry.asks is not None
    }
    return Costs(
        total=cost_of(merged([answers, *asked.values()])),
        answers=cost_of(answers),
        judges={name: cost_of(calls) for name, calls in asked.items()},
    )


def merged(parts: Iterable[Calls]) -> dict[str, Usage]:
    """The calls of several parts, one that they share once."""
    return {key: usage for part in parts for key, usage in part.items()}


def _read(steps: Sequence[StepRecord], name: str | None) -> Sequence[StepRecord]:
    """The steps up to one, or all of them."""
    names = [step.step for step in steps]
    return steps[: names.index(name) + 1] if name in names else steps


def _count(counts: Sequence[int | None]) -> int | None:
    """The sum of the counts there are; null where there is none."""
    told = [count for count in counts if count is not None]
    return sum(told) if told else None


def _sum(costs: Sequence[float | None]) -> float | None:
    """The sum of the costs there are, whatever their order; null where there is none."""
    told = [cost for cost in costs if cost is not None]
    return fsum(told) if told else None
