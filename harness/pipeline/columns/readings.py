"""Records to columns: what scores need of samples and of each judge's verdicts, and no text.

Records are taken in once, in chunks, and may be forgotten. Computes no score.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from harness.core import Sample
from harness.data.choices import LABELS
from harness.parts import Reason
from harness.pipeline.columns.arrays import Codes, Detail, Grown, Kinds, Lists, Names
from harness.stats.estimate import Bools, Floats, Indices
from harness.storage.runs import SampleRecord, VerdictRecord

Read = tuple[SampleRecord, VerdictRecord]
CHUNK = 10_000
IMPLICITNESS = "implicitness"
REASONS = tuple(Reason)
"""The reasons in the order of their codes, from 1 on; 0 is none."""
_CODES: dict[Reason | None, int] = {None: 0} | {reason: at for at, reason in enumerate(REASONS, 1)}
UNSAID = _CODES[Reason.UNSUPPORTED]
"""The code of what is missing for no reason of its own."""


def chunks(records: Iterable[SampleRecord]) -> Iterable[list[SampleRecord]]:
    """The records, some at a time."""
    left = iter(records)
    while chunk := list(islice(left, CHUNK)):
        yield chunk


@dataclass(frozen=True, slots=True)
class Samples:
    """What is known of the sample behind each record, and how it was asked.

    `ids` and `clusters` are numbers in the alphabetical order of the names. `choices` counts the
    choices, and `gold` is the place of the right one, -1 without one. `labels` are the labels of
    the choices, `parts` the texts of the reference by which missed ones are counted; `at` is how
    implicit the text is, NaN where that was not measured.
    """

    ids: Codes
    clusters: Codes
    id_names: Names
    cluster_names: Names
    variant: Kinds[str]
    decoding: Kinds[str]
    group: Kinds[str]
    served: Kinds[str]
    choices: Codes
    gold: Codes
    labels: Kinds[tuple[str, ...]]
    parts: Kinds[tuple[str, ...]]
    at: Floats


class AskedColumns:
    """The samples of records that are added by and by; `by` names the reference of `parts`."""

    def __init__(self, by: str | None) -> None:
        """Hold none yet."""
        self._by = by
        self._ids = Names()
        self._clusters: Names | None = None
        self._variant, self._decoding, self._group = Kinds[str](), Kinds[str](), Kinds[str]()
        self._served, self._choices, self._gold = Kinds[str](), Grown(np.int32), Grown(np.int32)
        self._labels, self._parts = Kinds[tuple[str, ...]](), Kinds[tuple[str, ...]]()
        self._at, self.count = Detail(), 0

    def add(self, records: Sequence[SampleRecord]) -> None:
        """Add one chunk."""
        samples = [record.sample for record in records]
        self._add_names([s.id for s in samples], [s.cluster for s in samples])
        self._variant.add([record.variant for record in records])
        self._decoding.add([record.decoding for record in records])
        self._group.add([sample.group for sample in samples])
        self._served.add([record.served or "" for record in records])
        self._choices.add((len(s.choices) for s in samples), len(samples))
        self._gold.add(map(_gold, samples), len(samples))
        self._labels.add([s.references.get(LABELS, ()) for s in samples])
        self._parts.add([s.references.get(self._by, ()) if self._by else () for s in samples])
        measured = [s.references.get(IMPLICITNESS) for s in samples]
        if any(measured):
            self._at.add(self.count, np.array([_number(part) for part in measured]))
        self.count += len(samples)

    def _add_names(self, ids: list[str], clusters: list[str]) -> None:
        if self._clusters is None and clusters != ids:
            self._clusters = self._ids.copy()
        if self._clusters is not None:
            self._clusters.add(clusters)
        self._ids.add(ids)

    @property
    def samples(self) -> Samples:
        """What was added."""
        ids = self._ids.ranks
        return Samples(
            ids=ids,
            clusters=ids if self._clusters is None else self._clusters.ranks,
            id_names=self._ids,
            cluster_names=self._clusters or self._ids,
            variant=self._variant,
            decoding=self._decoding,
            group=self._group,
            served=self._served,
            choices=self._choices.array,
            gold=self._gold.array,
            labels=self._labels,
            parts=self._parts,
            at=self._at.at(np.arange(self.count)),
        )


def _gold(sample: Sample) -> int:
    return sample.choices.index(sample.gold) if sample.gold in sample.choices else -1


def _number(texts: Sequence[str] | None) -> float:
    try:
        return float(texts[0]) if texts else np.nan
    except ValueError:
        return np.nan


class VerdictColumns:
    """One judge's verdicts on records that are added by and by."""

    def __init__(self) -> None:
        """Hold none yet."""
        self._rows, self._values, self._reasons = Grown(np.int32), Grown(np.float64), Grown(np.int8)
        self._served, self._details, self._shares = Kinds[str](), dict[str, Detail](), Lists()
        self.count = 0

    def add(self, rows: Sequence[int], verdicts: Sequence[VerdictRecord]) -> None:
        """Add the verdicts on some records, which are given by their numbers."""
        count = len(verdicts)
        self._rows.add(rows, count)
        self._values.add((np.nan if v.value is None else v.value for v in verdicts), count)
        self._reasons.add((_CODES[v.reason] for v in verdicts), count)
        self._served.add([verdict.served or "" for verdict in verdicts])
        self._shares.add([verdict.shares for verdict in verdicts])
        for name in dict.fromkeys(name for verdict in verdicts for name in verdict.detail):
            column = np.array([verdict.detail.get(name, np.nan) for verdict in verdicts])
            self._details.setdefault(name, Detail()).add(self.count, column)
        self.count += count

    def readings(self, samples: Samples) -> "Readings":
        """What was added."""
        return Readings(
            samples=samples,
            rows=self._rows.array,
            values=self._values.array,
            reasons=self._reasons.array,
            served=self._served,
            details=self._details,
            all_shares=self._shares,
            places=np.arange(self.count),
            is_other=np.zeros(self.count, dtype=bool),
        )


@dataclass(frozen=True, slots=True)
class Readings:
    """One judge's verdicts on some records, in the order of the records.

    `places` says which of the judge's verdicts these are; the columns have all of them. Verdicts
    that are `is_other`, of other snapshots than their scores are, count as missing.
    """

    samples: Samples
    rows: Codes
    values: Floats
    reasons: NDArray[np.int8]
    served: Kinds[str]
    details: Mapping[str, Detail]
    all_shares: Lists
    places: Indices
    is_other: Bools

    def __len__(self) -> int:
        """How many there are."""
        return len(self.places)

    def at(self, places: Indices | Bools) -> "Readings":
        """Those at some of these places, or where it is true."""
        return replace(self, places=self.places[places])

    def without(self, is_other: Bools) -> "Readings":
        """The same, of which some of the judge's verdicts are of other snapshots."""
        return replace(self, is_other=is_other)

    @property
    def records(self) -> Indices:
        """The numbers of the records."""
        return np.asarray(self.rows[self.places], dtype=np.intp)

    @property
    def own(self) -> Bools:
        """Which are of the snapshots that the scores are of."""
        return np.asarray(~self.is_other[self.places])

    @property
    def value(self) -> Floats:
        """The value of each, NaN where it is missing."""
        return np.where(self.own, self.values[self.places], np.nan)

    @property
    def reason(self) -> Indices:
        """The code of the reason of each, 0 where there is none."""
        return np.where(self.own, self.reasons[self.places], UNSAID).astype(np.intp)

    def pairs(self, records: Sequence[SampleRecord], judge: str) -> list[Read]:
        """Each of the run's records with the judge's verdict on it; none of other snapshots."""
        found = []
        for at, is_own in zip(self.records.tolist(), self.own.tolist(), strict=True):
            verdict = records[at].verdicts[judge]
            if not is_own:
                lost = Reason.UNSUPPORTED
                verdict = replace(verdict, value=None, reason=lost, detail={}, shares=())
            found.append((records[at], verdict))
        return found

    @property
    def cluster(self) -> Codes:
        """The cluster of each."""
        return self.samples.clusters[self.records]

    def detail(self, name: str) -> Floats:
        """One further number of each, NaN where it has none."""
        if name not in self.details:
            return np.full(len(self), np.nan)
        return np.where(self.own, self.details[name].at(self.places), np.nan)

    @property
    def detail_names(self) -> frozenset[str]:
        """The further numbers that any of these has."""
        return frozenset(n for n in self.details if not np.isnan(self.detail(n)).all())

    @property
    def share_sizes(self) -> Codes:
        """How many choices have a probability, for each; 0 where none is known."""
        return np.where(self.own, self.all_shares.sizes[self.places], 0).astype(np.int32)

    def share(self, place: int) -> list[float]:
        """The probabilities of the one at a place."""
        size = int(self.all_shares.sizes[self.places[place]])
        found: list[float] = self.shares(size, np.array([place]))[0].tolist()
        return found

    def shares(self, size: int, places: Indices) -> Floats:
        """The probabilities of those at some places that have `size` of them: places x size."""
        return self.all_shares.of_size(size, self.places[places])
