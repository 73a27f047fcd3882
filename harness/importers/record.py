"""One row, line or entry of a file: what stands in it, and whose answer it says it is.

A column is found by its name or, where content is nested, by a path such as `doc.id`.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core import Sample
from harness.errors import DataError, did_you_mean
from harness.importers.lookup import SampleLookup
from harness.pipeline.plan import applicable
from harness.specs.imports import MapSpec, SampleColumns, VariantColumn

Place = tuple[str, Sample]
"""A variant and a sample: what an answer is to."""


@dataclass(frozen=True, slots=True)
class ImportedRecord:
    """What stands at one place of a file, by column."""

    place: str
    content: Mapping[str, Any]

    def value(self, column: str) -> object:
        """What stands in a column; none of that name is an error that names the nearest."""
        at: object = self.content
        if column in self.content:
            return self.content[column]
        for part in column.split("."):
            if not isinstance(at, Mapping) or part not in at:
                known = _paths(self.content)
                raise DataError(f"{self.place}: no column {column!r}{did_you_mean(column, known)}")
            at = at[part]
        return at

    def text(self, column: str) -> str:
        """The text in a column; whole numbers and truth values as they are written."""
        value = self.value(column)
        if isinstance(value, str):
            return value
        if isinstance(value, float) and value.is_integer():
            return str(int(value))
        if value is None or isinstance(value, int | float):
            return "" if value is None else str(value)
        raise DataError(f"{self.place}: {column} holds {type(value).__name__}, not a text")

    def number(self, column: str) -> float:
        """The number in a column."""
        try:
            return float(self.text(column))
        except ValueError:
            fact = f"{column} says {self.text(column)[:80]!r}, not a number"
            raise DataError(f"{self.place}: {fact}; correct it, or the map") from None

    def has(self, column: str) -> bool:
        """Whether anything stands in a column."""
        value = self.value(column)
        is_nan = isinstance(value, float) and math.isnan(value)
        return not (value is None or is_nan or (isinstance(value, str) and not value.strip()))

    def maybe(self, column: str) -> str | None:
        """The text in a column that need not be there."""
        try:
            return self.text(column) or None
        except DataError:
            return None


def places(
    record: ImportedRecord,
    posed: SampleLookup,
    *,
    spec: MapSpec | None,
    prompts: Sequence[str] = (),
) -> list[Place]:
    """All that a record may be an answer to: one, or those that share its prompt.

    `prompts` are the wordings a log tells of what was asked. Without a map they tell sample and
    variant; where they are not this program's, `id` and `variant` as the log has them do.
    """
    columns = spec.sample if spec else None
    if columns is not None and columns.prompt:
        prompts = (record.text(columns.prompt),)
    found = next((pairs for text in prompts if (pairs := posed.asked(text))), [])
    sample = _sample(record, posed, columns=columns)
    variant = _variant(record, posed, spec=spec)
    if sample is None and not found:
        raise posed.unknown(record.place, "neither its prompt nor its id is of a sample")
    if not found and sample is not None:
        found = [(_known(variant, record, posed, sample=sample), sample)]
    fitting = [pair for pair in found if sample is None or sample.id == pair[1].id]
    named = [pair for pair in fitting if pair[0] == variant]
    is_told = spec is not None and spec.variant is not None
    if not fitting or (is_told and not named):
        asked, other = (fitting or found)[0]
        said = f"{variant or 'a variant'} of sample {(sample or other).id}"
        raise DataError(
            f"{record.place}: said to be {said}, while its prompt is that of {asked} of sample "
            f"{other.id}; correct the file, or the map"
        )
    fitting = named or fitting
    return _refuse_uncovered(record, posed, fitting)


def distinct_sources(found: Sequence[Sequence[Place]]) -> list[Place]:
    """One place each for the records of a file, where a prompt is that of several.

    A variant that all may be of is that of all. Else, and where samples share a prompt, the
    first answer to it is to the first place, the second to the second.
    """
    if not found:
        return []
    shared = [v for v, _ in found[0] if all(v in [name for name, _ in pairs] for pairs in found)]
    seen: Counter[tuple[tuple[str, str], ...]] = Counter()
    chosen = []
    for pairs in found:
        narrowed = [pair for pair in pairs if not shared or pair[0] == shared[0]]
        key = tuple((variant, sample.id) for variant, sample in narrowed)
        chosen.append(narrowed[min(seen[key], len(narrowed) - 1)])
        seen[key] += 1
    return chosen


def _sample(
    record: ImportedRecord, posed: SampleLookup, *, columns: SampleColumns | None
) -> Sample | None:
    """The sample that a record names; null where its prompt has to tell."""
    if columns is None:
        named = (record.maybe(column) or "" for column in ("id", "doc.id", "doc.sample_id"))
        return next((posed.by_id[name] for name in named if name in posed.by_id), None)
    if columns.id:
        name = record.text(columns.id)
        if name not in posed.by_id:
            raise posed.unknown(record.place, f"{columns.id} {name!r}")
        return posed.by_id[name]
    if columns.prompt:
        return None
    texts = {name: record.text(column) for name, column in columns.fields.items()}
    same = posed.having(texts, record.text(columns.group) if columns.group else None)
    if not same:
        known = sorted({field for sample in posed.samples for field in sample.fields})
        for name in (name for name in texts if name not in known):
            raise DataError(
                f"{record.place}: by the map's `fields`, no sample has {name!r}"
                f"{did_you_mean(name, known)}"
            )
        raise posed.unknown(record.place, f"its {' and '.join(texts)}")
    if len(same) > 1:
        raise DataError(
            f"{record.place}: {len(same)} samples have its {' and '.join(texts)}; name more "
            "fields in the map, or the group"
        )
    return same[0]


def _variant(record: ImportedRecord, posed: SampleLookup, *, spec: MapSpec | None) -> str | None:
    """The variant that a map or a log names; null where neither does."""
    if spec is None or spec.variant is None:
        named = (record.maybe(f"{part}.variant") for part in ("doc", "metadata"))
        own = next((name for name in named if name), None)
        return own if own in posed.task.variants else None
    if not isinstance(spec.variant, VariantColumn):
        return posed.variant(spec.variant, place=record.place)
    name = record.text(spec.variant.column)
    if spec.variant.values and name not in spec.variant.values:
        known = did_you_mean(name, list(spec.variant.values))
        raise DataError(f"{record.place}: {name!r} is not among the map's `values`{known}")
    return posed.variant(spec.variant.values.get(name, name), place=record.place)


def _known(
    variant: str | None, record: ImportedRecord, posed: SampleLookup, *, sample: Sample
) -> str:
    """The variant, or the task's only one."""
    if variant is not None:
        return variant
    if len(posed.task.variants) > 1:
        raise DataError(
            f"{record.place}: its prompt is not this program's, and nothing else tells the variant "
            f"of sample {sample.id}; say it in a map (`variant: NAME`, or a column), with --map"
        )
    return next(iter(posed.task.variants))


def _refuse_uncovered(
    record: ImportedRecord, posed: SampleLookup, pairs: list[Place]
) -> list[Place]:
    for variant, sample in pairs:
        if not applicable(posed.task.variants[variant], [sample]):
            raise DataError(
                f"{record.place}: sample {sample.id} is not asked under {variant}; correct the "
                "variant"
            )
    return pairs


def _paths(content: Mapping[str, Any], depth: int = 3) -> list[str]:
    """The columns there are, nested ones by their paths."""
    found = []
    for name, value in content.items():
        found.append(name)
        if isinstance(value, Mapping) and depth > 1:
            found += [f"{name}.{inner}" for inner in _paths(value, depth - 1)]
    return found
