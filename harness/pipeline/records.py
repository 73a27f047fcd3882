"""Records of a run to what is missing of them and what their calls cost; verdicts added to records.

A call that several records share counts once, and so do earlier calls that it replaced. What is
unknown is never zero: a call's cost was stored with its response. Nothing here asks or judges.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

from harness.core import Response, Sample, Verdict
from harness.parts import Reason
from harness.pipeline import calls
from harness.storage.run_tables import RunTables, SampleRecord, VerdictRecord
from harness.storage.runs import ErrorCount, MissingCount, RunFile
from harness.text.cleanup import without_controls

if TYPE_CHECKING:
    from pandas import DataFrame

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


@dataclass(frozen=True, slots=True, order=True)
class MissingItem:
    """What is missing and why: an answer, for all judges, or one judge's verdict.

    `judge` is empty where there is no answer. `is_reply` says that the judge asked, and that its
    reply cannot be read.
    """

    judge: str
    is_reply: bool
    reason: Reason


class Missing:
    """What is missing of records that are added in parts, and how many answers were cut."""

    def __init__(self) -> None:
        """Count none yet."""
        self.counts = Counter[MissingItem]()
        self.truncated = 0
        self._causes: dict[MissingItem, dict[str, _Cause]] = {}

    def add(self, records: Iterable[SampleRecord]) -> None:
        """Add some records; an answer that is missing counts once, however many judges lack it."""
        for record in records:
            for item, note in _missing(record):
                self.counts[item] += 1
                if item.reason in FAILED_CALLS:
                    self._add_note(item, note)
            self.truncated += record.answer is not None and record.steps[-1].stop == "length"

    def _add_note(self, item: MissingItem, note: str) -> None:
        line = " ".join(without_controls(note).split())
        line = f"{line[:LONGEST_ERROR]}..." if len(line) > LONGEST_ERROR else line
        alike = self._causes.setdefault(item, {})
        cause = _NAMES.sub("...", line)
        found = alike.setdefault(cause, _Cause(line))
        found.count += 1
        if line != found.note:
            found.note = cause

    @property
    def summary(self) -> tuple[MissingCount, ...]:
        """What is missing, in order, with the commonest errors behind it."""
        found = []
        for item, count in sorted(self.counts.items()):
            shown = [(cause.note, cause.count) for cause in self._causes.get(item, {}).values()]
            ordered = sorted(shown, key=lambda pair: (-pair[1], pair[0]))[:MOST_ERRORS]
            errors = tuple(ErrorCount(note, times) for note, times in ordered if note)
            found.append(MissingCount(item.judge, item.is_reply, item.reason, count, errors))
        return tuple(found)


@dataclass(slots=True)
class _Cause:
    """An error: as it was said, or without names where it was said in several ways."""

    note: str
    count: int = 0


def _missing(record: SampleRecord) -> Iterator[tuple[MissingItem, str]]:
    absent = [(name, v, v.reason) for name, v in record.verdicts.items() if v.reason]
    if record.answer is None:
        yield from ((MissingItem("", False, why), v.note) for _, v, why in absent[:1])
    else:
        yield from ((MissingItem(n, bool(v.keys), why), v.note) for n, v, why in absent)


def missing_summary(records: Iterable[SampleRecord]) -> tuple[MissingCount, ...]:
    """What is missing of some records, in order, with the commonest errors behind it."""
    return missing_of(records).summary


def missing_of(records: Iterable[SampleRecord]) -> Missing:
    """What is missing of some records."""
    made = Missing()
    made.add(records)
    return made


def summed(file: RunFile, called: "DataFrame", missing: Missing) -> RunFile:
    """A run's file with the costs of its calls, and with what is missing of its answers."""
    return replace(
        file,
        costs=calls.costs(called, file),
        redrawn=calls.redrawn(called),
        missing=missing.summary,
        unbatched_check=calls.unbatched_check(called),
    )


def with_costs(file: RunFile, records: Sequence[SampleRecord]) -> RunFile:
    """A run's file with the costs of its records, and with what is missing of them."""
    tables = RunTables(Path(gettempdir()))
    tables.add(records)
    return summed(file, calls.call_frame(tables.files), missing_of(records))
