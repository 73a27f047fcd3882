"""Records of a run to what is missing of them and what their calls cost; verdicts added to them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.core import Response, Sample, Verdict
from harness.parts import NO_CHOICE, NO_WORD, Reason
from harness.pipeline.verdict_frame import Files
from harness.stats.estimate import Bools
from harness.storage.read_tables import arrow_table, opened
from harness.storage.run_tables import SampleRecord, VerdictRecord
from harness.storage.runs import ErrorCount, MissingCount
from harness.text.cleanup import without_controls

FAILED_CALLS = frozenset({Reason.FAILED, Reason.FILTERED, Reason.UNSUPPORTED})
"""Reasons whose notes are a server's words or ours, not a model's."""
MOST_ERRORS, LONGEST_ERROR = 3, 240
_NAMES = re.compile(r"\b(?=[\w-]{8})[\w-]*\d[\w-]*|\b\d+\.\d+\b")
"""What may differ between messages of one cause: ids of calls and samples, and seconds."""


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
        own = dict(sorted({**records[place].verdicts, judge: verdict}.items()))
        judged[place] = replace(records[place], verdicts=own)
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


@dataclass(frozen=True, slots=True)
class SamplesOf(Iterable[Sample]):
    """The samples of some records, each once; each iteration reads them again."""

    records: Iterable[SampleRecord]

    def __iter__(self) -> Iterator[Sample]:
        seen = set[str]()
        for record in self.records:
            if record.sample.id not in seen:
                seen.add(record.sample.id)
                yield record.sample


def step_keys(records: Sequence[SampleRecord]) -> list[str]:
    """The ledger keys of every step of some records."""
    return [step.key for record in records for step in record.steps]


def missing_of(files: Files) -> tuple[MissingCount, ...]:
    """What is missing of a run, in order, with the commonest errors behind it.

    An answer that is missing counts once, for no judge, however many judges have no value for it.
    """
    names = ["row", "judge", "reason", "note"]
    lost = arrow_table(files["verdicts"], [*names, "keys"])
    lost = lost.filter(lost.column("reason").is_valid())
    frame = lost.select(names).to_pandas()
    is_read = _answered(files)[0][frame["row"].to_numpy()]
    frame["is_reply"] = lost.column("keys").is_valid().to_numpy() & is_read
    frame["judge"] = frame["judge"].where(is_read, "")
    counted = frame[is_read | ~frame.duplicated("row")]
    return tuple(
        MissingCount(
            judge, bool(is_reply), Reason(reason), len(own), _errors(own["note"].fillna(""), reason)
        )
        for (judge, is_reply, reason), own in counted.groupby(["judge", "is_reply", "reason"])
    )


def _errors(notes: Iterable[str], reason: str) -> tuple[ErrorCount, ...]:
    """The commonest errors; one that was said in several ways is shown without names."""
    alike: dict[str, Counter[str]] = {}
    ours = [n for n in notes if reason in FAILED_CALLS or NO_WORD in n or NO_CHOICE in n]
    for note, count in Counter(ours).items():
        line = " ".join(without_controls(note).split())
        line = f"{line[:LONGEST_ERROR]}..." if len(line) > LONGEST_ERROR else line
        alike.setdefault(_NAMES.sub("...", line), Counter())[line] += count
    found = [(next(iter(own)) if len(own) == 1 else cause, own) for cause, own in alike.items()]
    shown = sorted((-own.total(), line) for line, own in found)[:MOST_ERRORS]
    return tuple(ErrorCount(line, -count) for count, line in shown if line)


def truncated_of(files: Files) -> int:
    """How many answers of a run were cut at their token limit."""
    has_answer, is_cut = _answered(files)
    return int((has_answer & is_cut).sum())


def _answered(files: Files) -> tuple[Bools, Bools]:
    """Of each planned response whether there is an answer, and whether the reply was cut."""
    found: list[tuple[Bools, Bools]] = [(np.zeros(0, bool), np.zeros(0, bool))]
    with opened(files["answers"]) as file:  # all texts would take more room than everything else
        for place in range(file.num_row_groups):
            rows = file.read_row_group(place, columns=["answer", "stop"])
            ends = np.array(rows.column("stop").to_pylist(), dtype=object)
            found.append((rows.column("answer").is_valid().to_numpy(), ends == "length"))
    return np.concatenate([one for one, _ in found]), np.concatenate([one for _, one in found])
