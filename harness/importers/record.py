"""One row, line or entry of a file to its values, and to the variant and sample that it answers."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, log
from typing import Any

from harness.core import Run, Sample
from harness.errors import DataError, did_you_mean
from harness.parts import ChoiceScore, Message
from harness.pipeline.plan import Plan, PlannedResponse, applicable, request
from harness.specs.data import MapSpec
from harness.specs.tasks import TaskSpec
from harness.storage.cells import cell_text, filled
from harness.text.prompts import Prompts

LEAST = log(5e-324)
"""The log-probability of a choice whose probability is printed as 0: about -744.44 nats."""
_SLACK = 1e-3  # the most that rounding may add to a probability or a sum of them
Match = tuple[str, Sample]
"""The variant and the sample that an answer belongs to."""


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The texts that answer one prompt, or a score for each of its choices.

    `choices` are the scored strings, in the order in which the variant shows its options. `place`
    is the file and item, as errors name it. No messages means that the prompt is unknown.
    """

    place: str
    sample_id: str
    variant: str
    messages: tuple[Message, ...] = ()
    texts: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    scores: tuple[ChoiceScore, ...] = ()

    @property
    def question(self) -> tuple[object, ...]:
        """The prompt, the number of replies and the choices."""
        return self.messages, len(self.texts), self.choices

    @property
    def answer(self) -> tuple[object, ...]:
        """The texts and scores."""
        return self.texts, self.scores


FileAnswers = tuple[Sequence[StoredAnswer], Mapping[str, int]]
"""The answers that a format reads from a file, and counts of rows that need a word, by it."""


def scores_of_probabilities(
    values: Sequence[float], choices: Sequence[str]
) -> tuple[ChoiceScore, ...]:
    """The scores of choices from their probabilities; raises ValueError for other numbers."""
    if strange := [value for value in values if not 0 <= value <= 1 + _SLACK]:
        raise ValueError(f"{strange[0]} is no probability")
    if values and not any(values):
        raise ValueError("the probability of every choice is 0, which is no answer")
    if sum(values) > 1 + _SLACK:
        raise ValueError(f"the probabilities {list(values)} add up to {sum(values):.4g}")
    return scores_of_logprobs([log(value) if value else LEAST for value in values], choices)


def scores_of_logprobs(values: Sequence[float], choices: Sequence[str]) -> tuple[ChoiceScore, ...]:
    """The scores of choices from log-probabilities in nats; raises ValueError for other numbers."""
    if len(values) != len(choices):
        raise ValueError(f"{len(values)} numbers for {len(choices)} choices")
    if strange := [value for value in values if not value <= _SLACK]:
        raise ValueError(f"{strange[0]} is no log-probability in nats")
    return tuple(
        ChoiceScore(LEAST if value == -inf else value, None, len(choice.encode()))
        for value, choice in zip(values, choices, strict=True)
    )


@dataclass(frozen=True)
class SampleLookup:
    """The samples of a task, and the prompt of each under each variant."""

    name: str
    task: TaskSpec
    samples: Sequence[Sample]
    prompts: Prompts
    data: str
    _by_fields: dict[tuple[str, ...], dict[tuple[str, ...], list[Sample]]] = field(
        default_factory=dict
    )

    @cached_property
    def by_id(self) -> dict[str, Sample]:
        """Each sample by its id."""
        return {sample.id: sample for sample in self.samples}

    def having(self, fields: Mapping[str, str], group: str | None = None) -> list[Sample]:
        """The samples of a group, by default of all, with these texts in these fields."""
        names = tuple(sorted(fields))
        if names not in self._by_fields:
            index = self._by_fields[names] = defaultdict(list)
            for sample in (one for one in self.samples if one.fields.keys() >= {*names}):
                index[tuple(sample.fields[name].strip() for name in names)].append(sample)
        same = self._by_fields[names].get(tuple(fields[name].strip() for name in names), [])
        return [sample for sample in same if group in (None, sample.group)]

    def unknown(self, place: str, what: str) -> DataError:
        """The error for an answer to something that is no sample of the task."""
        return DataError(
            f"{place}: {what}, not among the {len(self.samples)} samples of task {self.name} "
            f"({self.data} data); name the data it belongs to with --data"
        )

    @cached_property
    def prompted(self) -> Mapping[str, list[Match]]:
        """Variants and samples by prompt, without variants of several steps."""
        prompted = defaultdict[str, list[Match]](list)
        run = Run(self.name, (), "", (), seed=0, limit=None, prompts="", data="")
        plan = Plan(run, self.task, self.samples, self.prompts, "")
        for variant, spec in self.task.variants.items():
            steps = [step for step in spec.steps if not step.is_unconditional]
            for sample in applicable(spec, self.samples) if len(steps) == 1 else ():
                cell = PlannedResponse(sample, variant, self.task.decodings[0])
                asked = request(plan, cell, step=steps[0], earlier={})
                prompted[prompt_text(asked.messages)].append((variant, sample))
        return prompted


def prompt_text(messages: Sequence[Message]) -> str:
    """The text of a prompt: its messages joined by line breaks, without outer white space."""
    return "\n".join(message.content for message in messages).strip()


@dataclass(frozen=True)
class ImportedRecord:
    """The values of one row of a file; `place` is its file and line, for errors."""

    place: str
    content: Mapping[str, Any]
    prompts: Sequence[str] = ()

    @cached_property
    def values(self) -> dict[str, Any]:
        """Each value by its column, and by its path where it is nested."""
        return {**dict(_paths(self.content)), **self.content}

    def value(self, column: str) -> Any:  # noqa: ANN401 - any JSON
        """The value in a column; raises DataError where there is no such column."""
        if column not in self.values:
            known = did_you_mean(column, [*self.values])
            raise DataError(f"{self.place}: no column {column!r}{known}")
        return self.values[column]

    def text(self, column: str) -> str:
        """The value in a column as a text: "" for None, "1" for 1.0; a list or object raises."""
        value = self.value(column)
        if value is None or isinstance(value, str | int | float):
            return value if isinstance(value, str) else cell_text(value)
        raise DataError(f"{self.place}: {column} holds {type(value).__name__}, not a text")

    def has(self, column: str) -> bool:
        """Whether a column has a value other than None, NaN and white space."""
        return filled(self.value(column)) is not None

    def is_selected(self, spec: MapSpec | None) -> bool:
        """Whether a map's `where` keeps this record."""
        where = spec.where if spec else {}
        return all(self.text(column) in values for column, values in where.items())


def _paths(content: Mapping[str, Any], start: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        yield f"{start}{name}", value
        if isinstance(value, Mapping):
            yield from _paths(value, f"{start}{name}.")


def matched(
    records: Sequence[ImportedRecord], lookup: SampleLookup, spec: MapSpec | None
) -> list[tuple[ImportedRecord, Match]]:
    """Each record with the variant and sample that it answers."""
    found = [matches(one, lookup, spec) for one in records]
    return list(zip(records, distinct_sources(found), strict=True))


def matches(record: ImportedRecord, lookup: SampleLookup, spec: MapSpec | None) -> list[Match]:
    """All variants and samples that a record may answer: one, or those that share its prompt."""
    prompts = record.prompts
    if spec is not None and spec.sample is not None and spec.sample.prompt:
        prompts = (record.text(spec.sample.prompt),)
    found = (lookup.prompted.get(text.strip(), []) for text in prompts)
    asked: list[Match] = next(filter(None, found), [])
    sample, variant = _sample(record, lookup, spec), _variant(record, lookup, spec)
    if not asked:
        if sample is None:
            raise lookup.unknown(record.place, "neither its prompt nor its id is of a sample")
        if variant is None and len(lookup.task.variants) > 1:
            raise DataError(
                f"{record.place}: its prompt is not this program's, and nothing else names the "
                f"variant of sample {sample.id}; say it in a map (`variant: NAME`, or a column), "
                "with --map"
            )
        asked = [(variant or next(iter(lookup.task.variants)), sample)]
    of_sample = [pair for pair in asked if sample is None or sample.id == pair[1].id]
    kept = [pair for pair in of_sample if pair[0] == variant]
    if not kept and not (spec and (spec.variant or spec.variant_column)):
        kept = of_sample
    if not kept:
        own, other = (of_sample or asked)[0]
        claimed = f"{variant or 'a variant'} of sample {(sample or other).id}"
        raise DataError(
            f"{record.place}: said to be {claimed}, while its prompt is that of {own} of sample "
            f"{other.id}; correct the file, or the map"
        )
    for own, other in kept:
        if not [*applicable(lookup.task.variants[own], [other])]:
            fact = f"{record.place}: sample {other.id} is not asked under {own}"
            raise DataError(f"{fact}; correct the variant")
    return kept


def distinct_sources(found: Sequence[Sequence[Match]]) -> list[Match]:
    """One match a record: a variant that all may answer; else in turn, of those of one prompt."""
    names = [{variant for variant, _ in pairs} for pairs in found]
    shared = [v for v, _ in found[0] if all(v in own for own in names)] if found else []
    seen: Counter[tuple[tuple[str, str], ...]] = Counter()
    chosen = []
    for pairs in found:
        narrowed = [pair for pair in pairs if not shared or pair[0] == shared[0]]
        key = tuple((variant, sample.id) for variant, sample in narrowed)
        chosen.append(narrowed[min(seen[key], len(narrowed) - 1)])
        seen[key] += 1
    return chosen


def _sample(record: ImportedRecord, lookup: SampleLookup, spec: MapSpec | None) -> Sample | None:
    """The sample that a record names; None where its prompt has to decide."""
    columns = spec.sample if spec else None
    if columns is None:
        named = (record.values.get(name) for name in ("id", "doc.id", "doc.sample_id"))
        known = (lookup.by_id.get(cell_text(name)) for name in named)
        return next(filter(None, known), None)
    if columns.id:
        name = record.text(columns.id)
        if name not in lookup.by_id:
            raise lookup.unknown(record.place, f"{columns.id} {name!r}")
        return lookup.by_id[name]
    if columns.prompt:
        return None
    texts = {name: record.text(column).strip() for name, column in columns.fields.items()}
    same = lookup.having(texts, record.text(columns.group) if columns.group else None)
    if len(same) == 1:
        return same[0]
    fields = sorted({field for sample in lookup.samples for field in sample.fields})
    for name in (name for name in texts if name not in fields):
        near = did_you_mean(name, fields)
        raise DataError(f"{record.place}: by the map's `fields`, no sample has {name!r}{near}")
    if not same:
        raise lookup.unknown(record.place, f"its {' and '.join(texts)}")
    fact = f"{record.place}: {len(same)} samples have its {' and '.join(texts)}"
    raise DataError(f"{fact}; name more fields in the map, or the group")


def _variant(record: ImportedRecord, lookup: SampleLookup, spec: MapSpec | None) -> str | None:
    known = lookup.task.variants
    if spec is None or not (spec.variant or spec.variant_column):
        named = [record.values.get(name) for name in ("doc.variant", "metadata.variant")]
        return next((name for name in named if isinstance(name, str) and name in known), None)
    said = spec.variant or record.text(spec.variant_column or "")
    if spec.variants and said not in spec.variants:
        near = did_you_mean(said, [*spec.variants])
        raise DataError(f"{record.place}: {said!r} is not among the map's `variants`{near}")
    name = spec.variants.get(said, said)
    if name not in known:
        near = did_you_mean(name, [*known])
        raise DataError(f"{record.place}: no variant {name!r} in task {lookup.name}{near}")
    return name
