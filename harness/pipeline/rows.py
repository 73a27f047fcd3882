"""Trials and verdicts to the rows of a run folder, and stored rows back to trials.

Nothing here asks or judges; the texts of a row come from the ledger.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.core import Response, Sample
from harness.errors import StoreError
from harness.parts import NO_REPLY, Reason
from harness.pipeline.costs import answer_calls, judge_calls, merged, run_costs
from harness.pipeline.stages import JudgedResult, SampleResult, StepResult, trial
from harness.specs.tasks import TaskSpec
from harness.storage.runs import (
    ErrorCount,
    MissingCount,
    RunFile,
    SampleRecord,
    StepRecord,
    VerdictRecord,
)
from harness.text.controls import without_controls

OF_CALLS = frozenset({Reason.FAILED, Reason.FILTERED, Reason.UNSUPPORTED})
"""Reasons whose notes are a server's words or ours, not a model's."""
MOST_SAID, LONGEST_SAID = 3, 240


@dataclass(frozen=True, slots=True, order=True)
class MissingItem:
    """What is missing and why: an answer, for all judges, or what one judge makes of it.

    `judge` is empty where there is no answer; `is_reply` says that the judge asked and cannot
    read what it was told.
    """

    judge: str
    is_reply: bool
    reason: Reason


def lost(rows: Sequence[SampleRecord]) -> Counter[MissingItem]:
    """How often each thing is missing: an answer once, however many judges lack it."""
    return Counter(gap for gap, _ in _missing(rows))


def missing_summary(rows: Sequence[SampleRecord]) -> tuple[MissingCount, ...]:
    """What is missing of some rows, in order, with what the calls behind it ended in."""
    said: dict[MissingItem, Counter[str]] = {}
    for gap, note in _missing(rows):
        said.setdefault(gap, Counter())[_line(note)] += 1
    return tuple(
        MissingCount(
            gap.judge, gap.is_reply, gap.reason, notes.total(), _commonest(gap.reason, notes)
        )
        for gap, notes in sorted(said.items())
    )


def with_costs(file: RunFile, rows: Sequence[SampleRecord]) -> RunFile:
    """A run's file with what its rows cost, and with what is missing of them."""
    costs = run_costs(rows, file.judges)
    return replace(file, costs=costs, redrawn=retried(rows), missing=missing_summary(rows))


def _missing(rows: Sequence[SampleRecord]) -> Iterator[tuple[MissingItem, str]]:
    """Each thing that is missing, and the note on it."""
    for part in rows:
        held = [(name, v, v.reason) for name, v in part.verdicts.items()]
        found = [(name, v, reason) for name, v, reason in held if reason is not None]
        if part.answer is None:
            yield from ((MissingItem("", False, reason), v.note) for _, v, reason in found[:1])
            continue
        for name, verdict, reason in found:
            yield MissingItem(name, bool(verdict.keys), reason), verdict.note


def _line(note: str) -> str:
    """A note as one short line."""
    line = " ".join(without_controls(note).split())
    return line if len(line) <= LONGEST_SAID else f"{line[:LONGEST_SAID]}..."


def _commonest(reason: Reason, notes: Counter[str]) -> tuple[ErrorCount, ...]:
    """The commonest notes, where it is no model that wrote them."""
    if reason not in OF_CALLS:
        return ()
    ordered = sorted(notes.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(ErrorCount(note, count) for note, count in ordered[:MOST_SAID] if note)


def cut_answers(rows: Sequence[SampleRecord]) -> int:
    """How many answers were cut at their token limit; they count as they are."""
    return sum(part.answer is not None and part.steps[-1].stop == "length" for part in rows)


def retried(rows: Sequence[SampleRecord]) -> int:
    """How many replies that held no answer were asked for again."""
    asked = [judge_calls(verdict) for part in rows for verdict in part.verdicts.values()]
    calls = merged([*map(answer_calls, rows), *asked])
    others = (part for usage in calls.values() for part in usage.superseded or ())
    return sum(part.reason is not None and part.reason not in NO_REPLY for part in others)


def from_trial(trial: SampleResult) -> SampleRecord:
    """The row of a trial that no judge has read yet."""
    served = {part.response.served for part in trial.taken if part.response.served}
    return SampleRecord(
        sample=trial.sample,
        variant=trial.variant,
        decoding=trial.decoding,
        steps=tuple(_step(part) for part in trial.taken),
        answer=trial.answer,
        served="+".join(sorted(served)) or None,
    )


def verdict_row(judged: JudgedResult) -> VerdictRecord:
    """A verdict as a row holds it, with the questions and replies behind it."""
    verdict = judged.verdict
    return VerdictRecord(
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


def with_verdicts(
    rows: Sequence[SampleRecord], judge: str, verdicts: Mapping[int, VerdictRecord]
) -> list[SampleRecord]:
    """The rows, those at the places of a judge's verdicts with them."""
    added = list(rows)
    for place, verdict in verdicts.items():
        others = {**rows[place].verdicts, judge: verdict}
        added[place] = replace(rows[place], verdicts=dict(sorted(others.items())))
    return added


def with_earlier(
    rows: Sequence[SampleRecord], earlier: Sequence[SampleRecord]
) -> list[SampleRecord] | None:
    """The rows with the verdicts of earlier ones; null where not all answers are still the same."""
    known = {(r.sample.id, r.variant, r.decoding): r for r in earlier}
    held = [known.get((r.sample.id, r.variant, r.decoding)) for r in rows]
    pairs = [(row, old) for row, old in zip(rows, held, strict=True) if old is not None]
    if len(pairs) < len(rows) or any(_said(row) != _said(old) for row, old in pairs):
        return None
    return [replace(row, verdicts=old.verdicts) for row, old in pairs]


def samples(rows: Sequence[SampleRecord]) -> tuple[Sample, ...]:
    """The samples of some rows, each once."""
    return tuple({row.sample.id: row.sample for row in rows}.values())


def rebuild(rows: Sequence[SampleRecord], trials: Sequence[SampleResult]) -> list[SampleRecord]:
    """Rows built anew from trials, the verdicts so far kept."""
    pairs = zip(rows, trials, strict=True)
    return [replace(from_trial(trial), verdicts=old.verdicts) for old, trial in pairs]


def row_keys(rows: Sequence[SampleRecord]) -> list[str]:
    """The ledger keys of every step of some rows."""
    return [step.key for row in rows for step in row.steps]


def trials(
    rows: Sequence[SampleRecord], found: Mapping[str, Response], *, task: TaskSpec
) -> list[SampleResult]:
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
                StepResult(step.step, step.key, step.messages, found[step.key])
                for step in row.steps
            ),
            task=task,
        )
        for row in rows
    ]


def _said(row: SampleRecord) -> tuple[object, ...]:
    return row.answer, [step.key for step in row.steps], [step.reason for step in row.steps]


def _step(part: StepResult) -> StepRecord:
    failure = part.response.failure
    return StepRecord(
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
