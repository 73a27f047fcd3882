"""Records of a run to what is missing of them and what their calls cost; verdicts added to records.

A call that several records share counts once, and so do earlier calls that it replaced. What is
unknown is never zero: a call's cost was stored with its response. Nothing here asks or judges.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

from harness.core import Response, Sample, Verdict
from harness.parts import NO_REPLY, Reason, Usage
from harness.storage.runs import (
    Cost,
    Costs,
    ErrorCount,
    JudgeEntry,
    MissingCount,
    RunFile,
    SampleRecord,
    VerdictRecord,
)
from harness.text.cleanup import without_controls

FAILED_CALLS = frozenset({Reason.FAILED, Reason.FILTERED, Reason.UNSUPPORTED})
"""Reasons whose notes are a server's words or ours, not a model's."""
MOST_ERRORS, LONGEST_ERROR = 3, 240
_NAMES = re.compile(r"\b(?=[\w-]{8})[\w-]*\d[\w-]*|\b\d+\.\d+\b")
"""What may differ between messages of one cause: ids of calls and samples, and seconds."""
UNPAID = frozenset({"scripted", "transformers", "vllm", "sklearn", "classifier"})
"""The kinds of models that nobody pays by the call: controls, and checkpoints on this machine."""
Calls = Mapping[str, Usage]
"""What calls were charged for, by their keys in the ledger."""


def verdict_record(
    verdict: Verdict, keys: tuple[str, ...] = (), replies: Sequence[Response] = ()
) -> VerdictRecord:
    """A verdict with the keys of the judge's questions and the replies to them."""
    return VerdictRecord(
        value=verdict.value,
        reason=verdict.reason,
        note=verdict.note,
        detail=dict(sorted(verdict.detail.items())),
        shares=verdict.shares,
        served=verdict.served,
        keys=keys,
        replies=tuple(reply.texts[0] if reply.texts else None for reply in replies),
        usages=tuple(reply.usage for reply in replies),
    )


def with_verdicts(
    records: Sequence[SampleRecord], judge: str, verdicts: Mapping[int, VerdictRecord]
) -> list[SampleRecord]:
    """The records with a judge's verdicts, which are given by the places of the records."""
    judged = list(records)
    for place, verdict in verdicts.items():
        others = {**records[place].verdicts, judge: verdict}
        judged[place] = replace(records[place], verdicts=dict(sorted(others.items())))
    return judged


def with_earlier_verdicts(
    records: Sequence[SampleRecord], earlier: Sequence[SampleRecord]
) -> list[SampleRecord] | None:
    """The records with the verdicts of earlier ones; None unless all answers are the same."""
    known = {(r.sample.id, r.variant, r.decoding): r for r in earlier}
    judged = []
    for record in records:
        old = known.get((record.sample.id, record.variant, record.decoding))
        if old is None or record.answer != old.answer:
            return None
        if [(s.key, s.reason) for s in record.steps] != [(s.key, s.reason) for s in old.steps]:
            return None
        judged.append(replace(record, verdicts=old.verdicts))
    return judged


def samples_of(records: Sequence[SampleRecord]) -> tuple[Sample, ...]:
    """The samples of some records, each once."""
    return tuple({record.sample.id: record.sample for record in records}.values())


def step_keys(records: Sequence[SampleRecord]) -> list[str]:
    """The ledger keys of every step of some records."""
    return [step.key for record in records for step in record.steps]


@dataclass(frozen=True, slots=True, order=True)
class MissingItem:
    """What is missing and why: an answer, for all judges, or one judge's verdict.

    `judge` is empty where there is no answer. `is_reply` says that the judge asked, and that its
    reply cannot be read.
    """

    judge: str
    is_reply: bool
    reason: Reason


def count_missing(records: Sequence[SampleRecord]) -> Counter[MissingItem]:
    """How often each item is missing; an answer counts once, however many judges lack it."""
    return Counter(item for item, _ in _missing(records))


def missing_summary(records: Sequence[SampleRecord]) -> tuple[MissingCount, ...]:
    """What is missing of some records, in order, with the commonest errors behind it."""
    notes: dict[MissingItem, Counter[str]] = {}
    for item, note in _missing(records):
        line = " ".join(without_controls(note).split())
        is_long = len(line) > LONGEST_ERROR
        notes.setdefault(item, Counter())[f"{line[:LONGEST_ERROR]}..." if is_long else line] += 1
    found = []
    for item, counted in sorted(notes.items()):
        alike: dict[str, list[str]] = {}
        for note in counted:
            alike.setdefault(_NAMES.sub("...", note), []).append(note)
        shown = [
            (same[0] if len(same) == 1 else cause, sum(counted[note] for note in same))
            for cause, same in alike.items()
        ]
        ordered = sorted(shown, key=lambda pair: (-pair[1], pair[0]))[:MOST_ERRORS]
        errors = tuple(ErrorCount(note, count) for note, count in ordered if note)
        known = errors if item.reason in FAILED_CALLS else ()
        found.append(MissingCount(item.judge, item.is_reply, item.reason, counted.total(), known))
    return tuple(found)


def _missing(records: Sequence[SampleRecord]) -> Iterator[tuple[MissingItem, str]]:
    for record in records:
        lacking = [(name, v, v.reason) for name, v in record.verdicts.items() if v.reason]
        if record.answer is None:
            yield from ((MissingItem("", False, why), v.note) for _, v, why in lacking[:1])
        else:
            yield from ((MissingItem(n, bool(v.keys), why), v.note) for n, v, why in lacking)


def count_truncated(records: Sequence[SampleRecord]) -> int:
    """How many answers ended at their token limit; they count as they are."""
    return sum(r.answer is not None and r.steps[-1].stop == "length" for r in records)


def retried(records: Sequence[SampleRecord]) -> int:
    """How many replies without an answer were asked for again."""
    asked = [judge_calls(verdict) for r in records for verdict in r.verdicts.values()]
    calls = merged([*map(answer_calls, records), *asked])
    others = (part for usage in calls.values() for part in usage.superseded or ())
    return sum(part.reason is not None and part.reason not in NO_REPLY for part in others)


def with_costs(file: RunFile, records: Sequence[SampleRecord]) -> RunFile:
    """A run's file with the costs of its records, and with what is missing of them."""
    costs, missing = run_costs(records, file.judges, file.model.identity), missing_summary(records)
    return replace(file, costs=costs, redrawn=retried(records), missing=missing)


def run_costs(
    records: Sequence[SampleRecord], judges: Sequence[JudgeEntry], model: str = ""
) -> Costs:
    """What the calls of a run cost: all, those for answers, and those of each judge that asks.

    `model` is the identity of the model under test.
    """
    answers = merged(answer_calls(record) for record in records)
    asked = {
        entry.name: merged(
            judge_calls(r.verdicts[entry.name]) for r in records if entry.name in r.verdicts
        )
        for entry in judges
        if entry.asks is not None
    }
    unpaid = {
        *(answers if is_unpaid(model) else ()),
        *(key for one in judges if is_unpaid(one.identity) for key in asked.get(one.name, ())),
    }
    return Costs(
        total=cost_of(merged([answers, *asked.values()]), unpaid),
        answers=cost_of(answers, unpaid),
        judges={name: cost_of(calls, unpaid) for name, calls in asked.items()},
    )


def is_unpaid(identity: str | None) -> bool:
    """Whether nobody pays a model of this identity by the call."""
    return re.split("[:@|]", identity or "", maxsplit=1)[0] in UNPAID


def answer_calls(record: SampleRecord, judge: JudgeEntry | None = None) -> dict[str, Usage]:
    """The calls behind a response, or behind the earlier step that a judge reads."""
    names = [step.step for step in record.steps]
    read = judge.step if judge else None
    end = names.index(read) + 1 if read in names else None
    return {step.key: step.usage for step in record.steps[:end]}


def judge_calls(verdict: VerdictRecord) -> dict[str, Usage]:
    """The calls behind a verdict; the usage is unknown where an older record has none."""
    usages = verdict.usages or (Usage(),) * len(verdict.keys)
    return dict(zip(verdict.keys, usages, strict=True))


def merged(parts: Iterable[Calls]) -> dict[str, Usage]:
    """The calls of several parts; one that they share is there once."""
    return {key: usage for part in parts for key, usage in part.items()}


def cost_of(calls: Calls, unpaid: Container[str] = ()) -> Cost:
    """The tokens and US dollars of some calls; a sum is None where a call does not report it.

    The calls of the keys in `unpaid` cost nothing; where all do, the cost is None.
    """
    paid = [part for key, one in calls.items() if key not in unpaid for part in one.with_superseded]
    used = [part for usage in calls.values() for part in usage.with_superseded]
    prompts = [usage.prompt_tokens for usage in used]
    completions = [usage.completion_tokens for usage in used]
    costs = [usage.cost_usd for usage in paid]
    known = Usage(
        sum(filter(None, prompts)) if any(n is not None for n in prompts) else None,
        sum(filter(None, completions)) if any(n is not None for n in completions) else None,
        # The sum of floats is the same in any order.
        fsum(filter(None, costs)) if any(cost is not None for cost in costs) else None,
    )
    unanswered = sum(usage.unanswered or 0 for usage in used)
    lost = sum(usage.unanswered or 0 for usage in paid)
    return Cost(
        calls=len(used),
        prompt_tokens=None if unanswered or None in prompts else known.prompt_tokens,
        completion_tokens=None if unanswered or None in completions else known.completion_tokens,
        cost_usd=None if lost or None in costs else known.cost_usd,
        told=known,
        unanswered=unanswered,
    )
