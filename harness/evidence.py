"""Trials and verdicts to the rows of a run folder, and stored rows back to trials.

Nothing here asks or judges; the texts of a row come from the ledger.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.core import Response
from harness.costs import answer_calls, judge_calls, merged
from harness.errors import StoreError
from harness.parts import NO_REPLY, Reason
from harness.pipeline import Judged, Taken, Trial, trial
from harness.runs import Row, StepRow, VerdictRow
from harness.specs.tasks import TaskSpec


@dataclass(frozen=True, slots=True, order=True)
class Lost:
    """What is missing and why: an answer, for all judges, or what one judge makes of it.

    `judge` is empty where there is no answer; `is_reply` says that the judge asked and cannot
    read what it was told.
    """

    judge: str
    is_reply: bool
    reason: Reason


def lost(rows: Sequence[Row]) -> Counter[Lost]:
    """How often each thing is missing: an answer once, however many judges lack it."""
    found: Counter[Lost] = Counter()
    for part in rows:
        missing = {name: v for name, v in part.verdicts.items() if v.reason is not None}
        reasons = [verdict.reason for verdict in missing.values() if verdict.reason]
        if part.answer is None:
            found.update(Lost("", False, reason) for reason in reasons[:1])
            continue
        found.update(
            Lost(name, bool(verdict.keys), reason)
            for (name, verdict), reason in zip(missing.items(), reasons, strict=True)
        )
    return found


def cut_answers(rows: Sequence[Row]) -> int:
    """How many answers were cut at their token limit; they count as they are."""
    return sum(part.answer is not None and part.steps[-1].stop == "length" for part in rows)


def redrawn(rows: Sequence[Row]) -> int:
    """How many replies that held no answer were asked for again."""
    asked = [judge_calls(verdict) for part in rows for verdict in part.verdicts.values()]
    calls = merged([*map(answer_calls, rows), *asked])
    others = (part for usage in calls.values() for part in usage.superseded or ())
    return sum(part.reason is not None and part.reason not in NO_REPLY for part in others)


def row(trial: Trial) -> Row:
    """The row of a trial that no judge has read yet."""
    served = {part.response.served for part in trial.taken if part.response.served}
    return Row(
        sample=trial.sample,
        variant=trial.variant,
        decoding=trial.decoding,
        steps=tuple(_step(part) for part in trial.taken),
        answer=trial.answer,
        served="+".join(sorted(served)) or None,
    )


def verdict_row(judged: Judged) -> VerdictRow:
    """A verdict as a row holds it, with the questions and replies behind it."""
    verdict = judged.verdict
    return VerdictRow(
        value=verdict.value,
        reason=verdict.reason,
        note=verdict.note,
        detail=dict(sorted(verdict.detail.items())),
        shares=verdict.shares,
        served=verdict.served,
        keys=judged.keys,
        replies=tuple(reply.texts[0] if reply.texts else None for reply in judged.replies),
        usages=tuple(reply.usage for reply in judged.replies),
    )


def row_keys(rows: Sequence[Row]) -> list[str]:
    """The ledger keys of every step of some rows."""
    return [step.key for row in rows for step in row.steps]


def trials(rows: Sequence[Row], found: Mapping[str, Response], *, task: TaskSpec) -> list[Trial]:
    """The trials behind stored rows, read anew from the ledger and cut as the task now says."""
    if lost := [key for key in row_keys(rows) if key not in found]:
        raise StoreError(
            f"{len(lost)} responses of this run are not in the calls ledger (first: "
            f"{lost[0][:12]}); copy its folder back, or repeat the run"
        )
    if gone := sorted({row.variant for row in rows} - set(task.variants)):
        raise StoreError(
            f"the task no longer has the variants {', '.join(gone)} of this run; put them back "
            "into its YAML"
        )
    return [
        trial(
            row.sample,
            row.variant,
            decoding=row.decoding,
            taken=tuple(
                Taken(step.step, step.key, step.messages, found[step.key]) for step in row.steps
            ),
            task=task,
        )
        for row in rows
    ]


def _step(part: Taken) -> StepRow:
    failure = part.response.failure
    return StepRow(
        step=part.step,
        key=part.key,
        messages=part.messages,
        text=part.response.texts[0] if part.response.texts else None,
        reason=failure.reason if failure else None,
        note=failure.message if failure else "",
        stop=part.response.stop,
        choice_scores=part.response.choice_scores or (),
        usage=part.response.usage,
        detail=dict(sorted(part.response.detail.items())),
    )
