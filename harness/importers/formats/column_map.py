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
    numbers_by_option,
    read_answers,
    scores_of_logprobs,
    scores_of_probabilities,
)
from harness.parts import Message, Option
from harness.pipeline.plan import options as options_of
from harness.specs.data import AnswerSpec, MapSpec
from harness.storage.cells import filled, read_json
from harness.storage.tables import FileFormat, read_table

LOOKS_FOR = "a CSV file, JSON lines or Parquet, with --map"


def recognises(text: str) -> bool:
    """True: a column map may describe any file."""
    return True


def read(path: Path, text: str, lookup: SampleLookup, spec: MapSpec | None = None) -> FileAnswers:
    """The answers of a file; a row without one counts as missing."""
    if spec is None or spec.answer is None:
        raise DataError(f"{path}: no map says which column holds the answer; give one with --map")
    how, records = spec.answer, _records(path, text, FileFormat(spec.format))
    selected = [record for record in records if record.is_selected(spec)]
    columns = how.columns or (how.column or "",)
    answered = [r for r in selected if any([r.has(name) for name in columns])]

    def prompts(record: ImportedRecord) -> list[str]:
        return [text for column in [spec.prompt] if column and (text := record.text(column))]

    def answer(record: ImportedRecord, match: Match) -> StoredAnswer:
        messages = tuple(Message("user", text) for text in prompts(record))
        return _answer(record, lookup, how=how, match=match, messages=messages)

    return read_answers(answered, lookup, spec, prompts=prompts, answer=answer), {
        "not of the map's `where`: left out": len(records) - len(selected),
        "without an answer: missing": len(selected) - len(answered),
    }


def _records(path: Path, text: str, form: FileFormat) -> list[ImportedRecord]:
    data = path.read_bytes() if form is FileFormat.PARQUET else text.encode()
    table = read_table(str(path), data, form)
    names, rows = table.columns, zip(*map(table.cells, range(len(table.columns))), strict=True)
    return [
        ImportedRecord(f"{path}:{line}", dict(zip(names, map(filled, row), strict=True)))
        for line, row in zip(table.lines, rows, strict=True)
    ]


def _answer(
    record: ImportedRecord,
    lookup: SampleLookup,
    *,
    how: AnswerSpec,
    match: Match,
    messages: tuple[Message, ...],
) -> StoredAnswer:
    variant, sample = match
    options = options_of(lookup.task, variant, sample)
    answer = partial(StoredAnswer, record.place, sample.id, variant, messages)
    column = how.column or ""
    if how.kind == "text":
        value = record.value(column)
        if isinstance(value, list) and value and all(isinstance(text, str) for text in value):
            return answer(texts=tuple(value))
        return answer(texts=(record.text(column),))
    if not options:
        raise DataError(
            f"{record.place}: the samples have no choices under {variant}; map the answer as `text`"
        )
    if how.kind == "chosen":
        return answer(texts=(_chosen(record, how, options=options, sample=sample),))
    choices = tuple(option.answer for option in options)
    convert = scores_of_probabilities if how.kind == "probabilities" else scores_of_logprobs
    try:
        scores = convert(_values(record, how, options=options, sample=sample), choices)
    except ValueError as error:
        raise DataError(f"{record.place}: {error}; correct the file, or the map") from error
    return answer(choices=choices, scores=scores)


def _chosen(
    record: ImportedRecord, spec: AnswerSpec, *, options: Sequence[Option], sample: Sample
) -> str:
    chosen = record.text(spec.column or "").strip()
    by_number, by_text = _by_name(spec, options, sample)
    option = by_text.get(chosen) or by_number.get(chosen.removesuffix(".0"))
    if option is None:
        raise DataError(
            f"{record.place}: {spec.column} says {chosen[:80]!r}, which is neither one of the "
            f"numbers {min(by_number)} to {max(by_number)} nor the text of a choice; correct the "
            "file, or map the column as `text`"
        )
    return option.answer.strip()


def _by_name(
    spec: AnswerSpec, options: Sequence[Option], sample: Sample
) -> tuple[dict[str, Option], dict[str, Option]]:
    """The options of a sample by their numbers in a file, and by their texts."""
    ordered = options if spec.order == "shown" else sorted(options, key=lambda o: o.index)
    by_number = {str(at): option for at, option in enumerate(ordered, spec.counted_from)}
    return by_number, {sample.choices[option.index].strip(): option for option in options}


def _values(
    record: ImportedRecord, spec: AnswerSpec, *, options: Sequence[Option], sample: Sample
) -> list[float]:
    """The numbers of the options, in the order they are shown in.

    An object, nested or written as JSON, has the numbers or the texts of the choices as keys.
    """
    content: Any
    if spec.column is None:
        # Samples have more or fewer choices: the last columns may be empty.
        content = [record.value(name) for name in spec.columns if record.has(name)]
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
    by_number, by_text = _by_name(spec, options, sample)
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
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            pass  # said below
    raise ValueError(f"{str(value)[:80]!r} is not a number")
