"""CSV files, JSON lines and Parquet to answers, by a column map that names what each column is."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from harness.core import Sample
from harness.errors import DataError
from harness.importers.record import (
    FileAnswers,
    ImportedRecord,
    Match,
    SampleLookup,
    StoredAnswer,
    notes_of,
    numbers_by_option,
    read_answers,
    scores_of_logprobs,
    scores_of_probabilities,
)
from harness.parts import Message, Option
from harness.specs.data import (
    AnswerSpec,
    ChosenSpec,
    LogprobsSpec,
    MapSpec,
    ProbabilitiesSpec,
    TextSpec,
)
from harness.storage.cells import read_json
from harness.storage.tables import json_objects, read_columns, read_rows

LOOKS_FOR = "a CSV file, JSON lines or Parquet, with --map"
_Scored = ProbabilitiesSpec | LogprobsSpec


def recognises(text: str) -> bool:
    """True: a column map may describe any file."""
    return True


def read(path: Path, text: str, lookup: SampleLookup, spec: MapSpec | None = None) -> FileAnswers:
    """The answers of a file; a row without one counts as missing."""
    if spec is None or spec.answer is None:
        raise DataError(f"{path}: no map says which column holds the answer; give one with --map")
    answer = spec.answer
    if spec.format == "csv":
        records = [ImportedRecord(row.place, row.cells) for row in read_rows(path, ())]
    elif spec.format == "parquet":
        rows = read_columns(path, (), optional=None)
        records = [ImportedRecord(row.place, row.cells) for row in rows]
    else:
        objects = json_objects(str(path), text)
        records = [ImportedRecord(f"{path}:{number}", content) for number, _, content in objects]
    selected = [record for record in records if record.is_selected(spec)]
    columns: Sequence[str] = (answer.column or "",)
    if isinstance(answer, ProbabilitiesSpec | LogprobsSpec):
        columns = answer.columns or columns
    answered = [r for r in selected if any([r.has(name) for name in columns])]
    counts = {
        "not of the map's `only`: left out": len(records) - len(selected),
        "without an answer: missing": len(selected) - len(answered),
    }

    def prompt(record: ImportedRecord) -> str:
        return record.text(spec.prompt) if spec.prompt else ""

    answers = read_answers(
        answered,
        lookup,
        spec=spec,
        prompts=lambda record: tuple(filter(None, (prompt(record),))),
        answer=lambda record, match: _answer(
            record, lookup, spec=answer, match=match, prompt=prompt(record)
        ),
    )
    return FileAnswers(answers, notes_of(path, counts))


def _answer(
    record: ImportedRecord, lookup: SampleLookup, *, spec: AnswerSpec, match: Match, prompt: str
) -> StoredAnswer:
    variant, sample = match
    options = lookup.options(variant, sample)
    messages = (Message("user", prompt),) if prompt else ()
    answer = partial(StoredAnswer, record.place, sample.id, variant, messages)
    if isinstance(spec, TextSpec):
        value = record.value(spec.column)
        if isinstance(value, list) and value and all(isinstance(text, str) for text in value):
            return answer(texts=tuple(value))
        return answer(texts=(record.text(spec.column),))
    if not options:
        raise DataError(
            f"{record.place}: the samples have no choices under {variant}; map the answer as `text`"
        )
    if isinstance(spec, ChosenSpec):
        return answer(texts=(_chosen(record, spec, options=options, sample=sample),))
    choices = tuple(option.answer for option in options)
    convert = scores_of_probabilities if isinstance(spec, ProbabilitiesSpec) else scores_of_logprobs
    try:
        scores = convert(_values(record, spec, options=options, sample=sample), choices)
    except ValueError as error:
        raise DataError(f"{record.place}: {error}; correct the file, or the map") from error
    return answer(choices=choices, scores=scores)


def _chosen(
    record: ImportedRecord, spec: ChosenSpec, *, options: Sequence[Option], sample: Sample
) -> str:
    chosen = record.text(spec.column).strip()
    by_text = {sample.choices[option.index].strip(): option for option in options}
    if chosen in by_text:
        return by_text[chosen].answer.strip()
    ordered = _ordered(options, spec.order)
    numbers = [str(at) for at in range(spec.counted_from, spec.counted_from + len(ordered))]
    if chosen.removesuffix(".0") not in numbers:
        raise DataError(
            f"{record.place}: {spec.column} says {chosen[:80]!r}, which is neither one of the "
            f"numbers {numbers[0]} to {numbers[-1]} nor the text of a choice; correct the file, or "
            "map the column as `text`"
        )
    return ordered[numbers.index(chosen.removesuffix(".0"))].answer.strip()


def _ordered(options: Sequence[Option], order: str) -> list[Option]:
    return list(options) if order == "shown" else sorted(options, key=lambda o: o.index)


def _values(
    record: ImportedRecord, spec: _Scored, *, options: Sequence[Option], sample: Sample
) -> list[float]:
    """The numbers of the options, in the order they are shown in.

    An object, nested or written as JSON, has the numbers or the texts of the choices as keys.
    """
    content: Any
    if spec.column is None:
        # Samples have more or fewer choices: the last columns may be empty.
        content = [record.number(name) for name in spec.columns if record.has(name)]
    elif isinstance(content := record.value(spec.column), str):
        try:
            content = read_json(content)
        except ValueError:
            content = dict(enumerate(numbers_by_option(content, len(options)), 1))
    if isinstance(content, list):
        if len(content) != len(options):
            raise ValueError(f"{len(content)} numbers for {len(options)} choices")
        content = dict(enumerate(content, spec.counted_from))
    if not isinstance(content, dict):
        raise ValueError(f"{spec.column} holds neither a JSON list nor an object")
    ordered = _ordered(options, spec.order)
    by_number = {str(at): option for at, option in enumerate(ordered, spec.counted_from)}
    by_text = {sample.choices[option.index].strip(): option for option in options}
    given = {str(key).strip(): _number(value) for key, value in content.items()}
    named = by_number if given.keys() == by_number.keys() else by_text
    if given.keys() != named.keys():
        raise ValueError(
            f"the keys {', '.join(map(repr, given))} are neither {', '.join(by_number)} nor the "
            "texts of the choices"
        )
    by_index = {named[key].index: value for key, value in given.items()}
    return [by_index[option.index] for option in options]


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a number")
    return float(value)
