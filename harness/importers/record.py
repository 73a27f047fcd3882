"""One row, line or entry of a file to its values, and to the variant and sample that it answers.

A column is a name or, for nested content, a path such as `doc.id`.
"""

from ast import literal_eval
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
_LONGEST = 10_000
Match = tuple[str, Sample]
"""The variant and the sample that an answer belongs to."""
Prompted = Callable[["ImportedRecord"], Sequence[str]]
Answering = Callable[["ImportedRecord", Match], "StoredAnswer"]


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

    def __post_init__(self) -> None:
        if bool(self.texts) == bool(self.scores) or len(self.choices) != len(self.scores):
            raise ValueError(f"{self.place}: give texts or one score for each of the choices")

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


def numbers_by_option(text: str, count: int) -> list[float]:
    """The numbers of options 1 to `count` in a mapping, in the notation of Python or JSON.

    The keys are the options' numbers, with or without quotes. Raises ValueError for other text.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"{len(text)} characters, more than {_LONGEST}")
    try:
        found = literal_eval(text.strip())  # literals alone: no name is looked up, nothing runs
        numbers = {str(place): float(value) for place, value in found.items()}
    except (ValueError, TypeError, AttributeError, SyntaxError, MemoryError, RecursionError):
        raise ValueError(f"{text[:80]!r} is no mapping of places to numbers") from None
    wanted = [str(place) for place in range(1, count + 1)]
    if numbers.keys() != {*wanted}:
        raise ValueError(f"it has numbers for places {', '.join(numbers)}, not for 1 to {count}")
    return [numbers[place] for place in wanted]


def scores_of_probabilities(
    values: Sequence[float], choices: Sequence[str]
) -> tuple[ChoiceScore, ...]:
    """The scores of choices from their probabilities; raises ValueError for other numbers."""
    for value in values:
        if not 0 <= value <= 1 + _SLACK:
            raise ValueError(f"{value} is no probability")
    if values and not any(values):
        raise ValueError("the probability of every choice is 0, which is no answer")
    if sum(values) > 1 + _SLACK:
        raise ValueError(f"the probabilities {list(values)} add up to {sum(values):.4g}")
    return scores_of_logprobs([log(value) if value else LEAST for value in values], choices)


def scores_of_logprobs(values: Sequence[float], choices: Sequence[str]) -> tuple[ChoiceScore, ...]:
    """The scores of choices from log-probabilities in nats; raises ValueError for other numbers."""
    if len(values) != len(choices):
        raise ValueError(f"{len(values)} numbers for {len(choices)} choices")
    for value in values:
        if not value <= _SLACK:
            raise ValueError(f"{value} is no log-probability in nats")
    return tuple(
        ChoiceScore(LEAST if value == -inf else value, None, len(choice.encode()))
        for value, choice in zip(values, choices, strict=True)
    )


class SampleLookup:
    """The samples of a task, and the prompt of each under each variant."""

    def __init__(
        self, name: str, task: TaskSpec, *, samples: Sequence[Sample], prompts: Prompts, data: str
    ) -> None:
        """Look up the samples of task `name`; errors describe their data as `data`."""
        self.task = task
        self.samples = tuple(samples)
        self.by_id = {sample.id: sample for sample in samples}
        self._name, self._data, self._prompts = name, data, prompts
        self._indices: dict[tuple[str, ...], defaultdict[tuple[str, ...], list[Sample]]] = {}

    def having(self, fields: Mapping[str, str], group: str | None = None) -> list[Sample]:
        """The samples of a group, by default of all, with exactly these texts in these fields."""
        names = tuple(sorted(fields))
        if names not in self._indices:
            index = self._indices[names] = defaultdict(list)
            for sample in (one for one in self.samples if one.fields.keys() >= set(names)):
                index[tuple(sample.fields[name] for name in names)].append(sample)
        same = self._indices[names].get(tuple(fields[name] for name in names), [])
        return [sample for sample in same if group in (None, sample.group)]

    def variant(self, name: str, *, place: str) -> str:
        """The name of a variant; raises DataError where the task has no such variant."""
        if name not in self.task.variants:
            known = did_you_mean(name, list(self.task.variants))
            raise DataError(f"{place}: no variant {name!r} in task {self._name}{known}")
        return name

    def unknown(self, place: str, what: str) -> DataError:
        """The error for an answer to something that is no sample of the task."""
        return DataError(
            f"{place}: {what}, not among the {len(self.samples)} samples of task {self._name} "
            f"({self._data} data); name the data it belongs to with --data"
        )

    def asked(self, text: str) -> list[Match]:
        """The variants and samples with this prompt, ignoring outer white space."""
        return self._prompted.get(text.strip(), [])

    @cached_property
    def _prompted(self) -> Mapping[str, list[Match]]:
        """Variants and samples by prompt, without variants of several steps."""
        prompted: dict[str, list[Match]] = {}
        run = Run(self._name, (), "", (), seed=0, limit=None, prompts="", data="")
        plan = Plan(run, self.task, self.samples, self._prompts, "")
        for variant, spec in self.task.variants.items():
            steps = [step for step in spec.steps if not step.is_unconditional]
            for sample in applicable(spec, self.samples) if len(steps) == 1 else ():
                cell = PlannedResponse(sample, variant, self.task.decodings[0])
                asked = request(plan, cell, step=steps[0], earlier={})
                prompted.setdefault(prompt_text(asked.messages), []).append((variant, sample))
        return prompted


def prompt_text(messages: Sequence[Message]) -> str:
    """The text of a prompt: its messages joined by line breaks, without outer white space."""
    return "\n".join(message.content for message in messages).strip()


@dataclass(frozen=True, slots=True)
class ImportedRecord:
    """The values of one row of a file by column; `place` is its file and line, for errors."""

    place: str
    content: Mapping[str, Any]

    def value(self, column: str) -> object:
        """The value in a column; raises DataError where there is no such column."""
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
        """The value in a column as a text: "" for None, "1" for 1.0; a list or object raises."""
        value = self.value(column)
        if value is None or isinstance(value, str | int | float):
            return value if isinstance(value, str) else cell_text(value)
        raise DataError(f"{self.place}: {column} holds {type(value).__name__}, not a text")

    def has(self, column: str) -> bool:
        """Whether a column has a value other than None, NaN and white space."""
        return filled(self.value(column)) is not None

    def first(self, *columns: str) -> list[str]:
        """The texts of those of some columns that are there and hold one."""
        found = []
        for column in columns:
            try:
                found += [self.text(column)]
            except DataError:
                continue
        return [text for text in found if text]

    def is_selected(self, spec: MapSpec | None) -> bool:
        """Whether a map's `where` keeps this record."""
        where = spec.where if spec else {}
        return all(self.text(column) in values for column, values in where.items())


def read_answers(
    records: Sequence[ImportedRecord],
    lookup: SampleLookup,
    spec: MapSpec | None,
    *,
    prompts: Prompted,
    answer: Answering,
) -> list[StoredAnswer]:
    """The answers of some records, each to the sample and variant that it belongs to.

    `prompts` gives the texts of a record's prompt, `answer` what it answers.
    """
    matched = [matches(one, lookup, spec=spec, prompts=prompts(one)) for one in records]
    pairs = zip(records, distinct_sources(matched), strict=True)
    return [answer(record, match) for record, match in pairs]


def matches(
    record: ImportedRecord,
    lookup: SampleLookup,
    *,
    spec: MapSpec | None,
    prompts: Sequence[str] = (),
) -> list[Match]:
    """All variants and samples that a record may answer: one, or those that share its prompt.

    `prompts` are texts of the prompt in the log. Without a map they decide sample and variant;
    where they are not this program's prompts, the log's `id` and `variant` decide.
    """
    if spec is not None and spec.sample is not None and spec.sample.prompt:
        prompts = (record.text(spec.sample.prompt),)
    asked = next((pairs for text in prompts if (pairs := lookup.asked(text))), [])
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
    of_variant = [pair for pair in of_sample if pair[0] == variant]
    is_variant_mapped = spec is not None and bool(spec.variant or spec.variant_column)
    if not of_sample or (is_variant_mapped and not of_variant):
        own, other = (of_sample or asked)[0]
        claimed = f"{variant or 'a variant'} of sample {(sample or other).id}"
        raise DataError(
            f"{record.place}: said to be {claimed}, while its prompt is that of {own} of sample "
            f"{other.id}; correct the file, or the map"
        )
    for own, other in of_variant or of_sample:
        if not applicable(lookup.task.variants[own], [other]):
            raise DataError(
                f"{record.place}: sample {other.id} is not asked under {own}; correct the variant"
            )
    return of_variant or of_sample


def distinct_sources(found: Sequence[Sequence[Match]]) -> list[Match]:
    """One match for each record of a file, where several variants or samples share a prompt.

    A variant that all records may answer is the variant of all. Otherwise, and where samples share
    a prompt, the first record gets the first match, the second record the second one.
    """
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
        named = record.first("id", "doc.id", "doc.sample_id")
        return next((lookup.by_id[name] for name in named if name in lookup.by_id), None)
    if columns.id:
        name = record.text(columns.id)
        if name not in lookup.by_id:
            raise lookup.unknown(record.place, f"{columns.id} {name!r}")
        return lookup.by_id[name]
    if columns.prompt:
        return None
    texts = {name: record.text(column) for name, column in columns.fields.items()}
    same = lookup.having(texts, record.text(columns.group) if columns.group else None)
    if len(same) == 1:
        return same[0]
    known = sorted({field for sample in lookup.samples for field in sample.fields})
    for name in (name for name in texts if name not in known):
        near = did_you_mean(name, known)
        raise DataError(f"{record.place}: by the map's `fields`, no sample has {name!r}{near}")
    if not same:
        raise lookup.unknown(record.place, f"its {' and '.join(texts)}")
    raise DataError(
        f"{record.place}: {len(same)} samples have its {' and '.join(texts)}; name more fields in "
        "the map, or the group"
    )


def _variant(record: ImportedRecord, lookup: SampleLookup, spec: MapSpec | None) -> str | None:
    if spec is None or not (spec.variant or spec.variant_column):
        own = record.first("doc.variant", "metadata.variant")
        return own[0] if own and own[0] in lookup.task.variants else None
    name = spec.variant or record.text(spec.variant_column or "")
    if spec.variants and name not in spec.variants:
        known = did_you_mean(name, list(spec.variants))
        raise DataError(f"{record.place}: {name!r} is not among the map's `variants`{known}")
    return lookup.variant(spec.variants.get(name, name), place=record.place)


def _paths(content: Mapping[str, Any], depth: int = 3) -> list[str]:
    paths = []
    for name, value in content.items():
        inner = _paths(value, depth - 1) if isinstance(value, Mapping) and depth > 1 else []
        paths += [name, *(f"{name}.{part}" for part in inner)]
    return paths
