"""Stored runs without what statistics do not need: a tenth of the memory, and the same numbers.

Prompts, replies, notes, answers and further numbers of verdicts are left out, and a long text is
the digest that tells it from others. Equal samples of several rows and runs are one and the same.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

from harness.core import Sample
from harness.parts import digest
from harness.storage.runs import RunFile, RunFolder, SampleRecord, StoredRows, StoredRun

_Value = TypeVar("_Value", bound=Hashable)
_NOTHING: Mapping[str, float] = MappingProxyType({})
_LONGEST = 32
"""The letters of a text of which statistics know more than that it is another one."""


@dataclass(frozen=True, slots=True)
class SlimRows:
    """Makes records slim; what it has met before, it does not hold twice."""

    _samples: dict[tuple[str, str, str], Sample] = field(default_factory=dict)
    _known: dict[Any, Any] = field(default_factory=dict)

    def run(self, folder: RunFolder) -> StoredRun:
        """The run of a folder, its records slim."""
        file = folder.read()
        return StoredRun(file, [self.row(file, row) for row in StoredRows(folder)])

    def row(self, file: RunFile, row: SampleRecord) -> SampleRecord:
        """One record of a run."""
        verdicts = {
            name: replace(one, note="", keys=(), replies=(), usages=(), detail=_NOTHING)
            for name, one in row.verdicts.items()
        }
        return replace(
            row,
            sample=self._sample(file, row.sample),
            variant=self._once(row.variant),
            decoding=self._once(row.decoding),
            steps=(),
            answer=None,
            verdicts=verdicts,
        )

    def _sample(self, file: RunFile, sample: Sample) -> Sample:
        references = sample.references.items()
        made = replace(
            sample,
            fields={name: _short(text) for name, text in sample.fields.items()},
            references={n: self._once(tuple(map(_short, texts))) for n, texts in references},
            choices=self._once(sample.choices),
            gold=self._once(sample.gold),
            group=self._once(sample.group),
            cluster=sample.id if sample.cluster == sample.id else sample.cluster,
        )
        known = self._samples.setdefault((file.run.task, file.data.label, sample.id), made)
        return known if known == made else made

    def _once(self, value: _Value) -> _Value:
        first: _Value = self._known.setdefault(value, value)
        return first


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else digest(text)[:_LONGEST]
