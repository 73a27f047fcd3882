"""A stored run to columns: what a comparison with another run needs, and no text.

Whether two samples of one id say the same is told by hashes of their texts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core import Sample
from harness.pipeline.columns.arrays import Codes, Texts, name_text
from harness.pipeline.columns.readings import Readings, Samples, chunks
from harness.pipeline.columns.run import RunColumns
from harness.stats.estimate import Bools, Floats, Indices
from harness.storage.runs import RunFile, RunFolder, SampleRecord, StoredRows

_ABSENT = -1
"""Of a text that is not there: Python hashes nothing to -1."""
_Hashes = NDArray[np.int64]


class SaidColumns:
    """The fields and references of samples, a hash each, which holds in this process alone."""

    def __init__(self) -> None:
        """Hold none yet."""
        self._chunks: dict[tuple[str, str], list[tuple[int, _Hashes]]] = {}
        self._count = 0

    def add(self, records: Sequence[SampleRecord]) -> None:
        """Add the samples of some records."""
        samples = [record.sample for record in records]
        for kind, texts_of in _KINDS.items():
            texts = [texts_of(sample) for sample in samples]
            for name in dict.fromkeys(name for one in texts for name in one):
                told = (hash(one[name]) if name in one else _ABSENT for one in texts)
                column = np.fromiter(told, np.int64, len(texts))
                self._chunks.setdefault((kind, name), []).append((self._count, column))
        self._count += len(samples)

    def columns(self) -> dict[tuple[str, str], _Hashes]:
        """The hashes of what was added, by what they are of."""
        found = {}
        for name, parts in self._chunks.items():
            found[name] = np.full(self._count, _ABSENT, np.int64)
            for start, part in parts:
                found[name][start : start + len(part)] = part
        return found


_KINDS: Mapping[str, Callable[[Sample], Mapping[str, object]]] = {
    "field": lambda sample: sample.fields,
    "reference": lambda sample: sample.references,
}


@dataclass(frozen=True, slots=True, eq=False)
class ColumnRun:
    """What was run, its records as columns, and what each judge made of them.

    `said` has the hashes of what samples say, by what they are of.
    """

    file: RunFile
    samples: Samples
    said: Mapping[tuple[str, str], _Hashes]
    readings: Mapping[str, Readings]

    @classmethod
    def of(cls, file: RunFile, records: Iterable[SampleRecord]) -> "ColumnRun":
        """The columns of a run's records."""
        columns, said = RunColumns(file.task), SaidColumns()
        for chunk in chunks(records):
            columns.add(chunk)
            said.add(chunk)
        return cls.made(file, columns, said)

    @classmethod
    def made(cls, file: RunFile, columns: RunColumns, said: SaidColumns) -> "ColumnRun":
        """The columns of records that were added already, without those of their calls."""
        names = dict.fromkeys(judge.name for judge in file.judges)
        readings = {name: columns.readings(name) for name in names}
        return cls(file, columns.samples, said.columns(), readings)

    @classmethod
    def read(cls, folder: RunFolder) -> "ColumnRun":
        """The run of a folder."""
        return cls.of(folder.read(), StoredRows(folder))

    def __len__(self) -> int:
        """How many records there are."""
        return len(self.samples.ids)

    @property
    def ways(self) -> Iterator[tuple[str, str]]:
        """The variants and decodings of the records, in the order in which they came."""
        return ways(self.samples, np.arange(len(self)))

    def names(self, records: Indices) -> Texts:
        """The ids of the samples of some records, as bytes."""
        return self.samples.id_names.bytes[records]

    def last_of_each(self) -> Indices:
        """The last record of each sample, in the order of the samples' ids."""
        found = np.zeros(int(self.samples.ids.max(initial=-1)) + 1, dtype=np.intp)
        found[self.samples.ids] = np.arange(len(self))
        return found

    def is_said(self, records: Indices, other: "ColumnRun", others: Indices) -> Bools:
        """Whether samples say the same as those of another run, as far as both say anything."""
        found = np.ones(len(records), dtype=bool)
        for name in self.said.keys() & other.said.keys():
            one, two = self.said[name][records], other.said[name][others]
            found &= (one == two) | (one == _ABSENT) | (two == _ABSENT)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class PairedItems:
    """Samples with two verdicts each, NaN where one is missing, as columns.

    `records` are those of the first run, whose `samples` these are.
    """

    samples: Samples
    records: Indices
    first: Floats
    second: Floats

    def __len__(self) -> int:
        """How many there are."""
        return len(self.records)

    def at(self, places: Bools) -> "PairedItems":
        """Those where it is true."""
        columns = (self.records[places], self.first[places], self.second[places])
        return PairedItems(self.samples, *columns)

    @property
    def is_read(self) -> Bools:
        """Which have both verdicts."""
        return np.asarray(~np.isnan(self.first) & ~np.isnan(self.second))

    @property
    def is_decided(self) -> Bools:
        """Which are right or wrong in both."""
        return np.asarray(np.isin(self.first, (0, 1)) & np.isin(self.second, (0, 1)))

    @property
    def clusters(self) -> Codes:
        """The cluster of each, by its number."""
        return self.samples.clusters[self.records]

    @property
    def names(self) -> list[str]:
        """The ids of the samples."""
        return [name_text(name) for name in self.samples.id_names.bytes[self.records].tolist()]

    @property
    def groups(self) -> list[str]:
        """The groups that there are."""
        kinds = self.samples.group.kinds
        return [kinds[at] for at in np.unique(self.samples.group.codes[self.records]).tolist()]

    def of_group(self, group: str) -> "PairedItems":
        """Those of one group."""
        codes = self.samples.group.codes[self.records]
        return self.at(codes == self.samples.group.code(group))

    def joined(self, others: Iterable["PairedItems"]) -> "PairedItems":
        """These and others of the same two runs."""
        parts = [(one.records, one.first, one.second) for one in (self, *others)]
        return PairedItems(self.samples, *map(np.concatenate, zip(*parts, strict=True)))


def ways(samples: Samples, records: Indices) -> Iterator[tuple[str, str]]:
    """The variants and decodings of some records, in the order in which they come."""
    variants, decodings = samples.variant.kinds, samples.decoding.kinds
    size = max(1, len(decodings))
    pair = samples.variant.codes[records] * size + samples.decoding.codes[records]
    found, first = np.unique(pair, return_index=True)
    for code in found[np.argsort(first)].tolist():
        yield variants[code // size], decodings[code % size]


def shared(ours: Texts, theirs: Texts) -> tuple[Indices, Indices]:
    """The places of the names that both have, in the order of the first; no name stands twice."""
    if object in (ours.dtype, theirs.dtype):
        ours, theirs = ours.astype(object), theirs.astype(object)
    if not len(theirs):
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    order = np.argsort(theirs, kind="stable")
    at = np.minimum(np.searchsorted(theirs[order], ours), len(order) - 1)
    found = order[at]
    is_there = np.asarray(theirs[found] == ours, dtype=bool)
    return np.flatnonzero(is_there), found[is_there]
