"""CSV files, JSON lines and Parquet to answers, by a column map that names what each column is."""

from ast import literal_eval
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import DataError
from harness.importers import record as rows
from harness.importers.record import FileAnswers, ImportedRecord, Match, SampleLookup, StoredAnswer
from harness.parts import Message, Option
from harness.pipeline.plan import options as options_of
from harness.specs.data import AnswerSpec, MapSpec
from harness.storage.cells import filled, read_json
from harness.storage.tables import FileFormat, read_table

_LONGEST = 10_000
LOOKS_FOR = "a CSV file, JSON lines or Parquet, with --map"
Named = tuple[dict[str, Option], dict[str, Option]]
"""The options of a sample by their numbers in a file, and by their texts."""


def recognises(text: str) -> bool:
    """True: a column map may describe any file."""
    return True


def read(path: Path, text: str, lookup: SampleLookup, spec: MapSpec | None = None) -> FileAnswers:
    """The answers of a file; a row without one counts as missing."""
    if spec is None or spec.answer is None:
        raise DataError(f"{path}: no map says which column holds the answer; give one with --map")
    how, records = spec.answer, _records(path, text, spec)
    selected = [record for record in records if record.is_selected(spec)]
    columns = how.columns or (how.column or "",)
    answered = [r for r in selected if any([r.has(name) for name in columns])]
    pairs = rows.matched(answered, lookup, spec)
    return [_answer(record, lookup, how, match) for record, match in pairs], {
        "not of the map's `where`: left out": len(records) - len(selected),
        "without an answer: missing": len(selected) - len(answered),
    }


def _records(path: Path, text: str, spec: MapSpec) -> list[ImportedRecord]:
    form = FileFormat(spec.format)
    data = path.read_bytes() if form is FileFormat.PARQUET else text.encode()
    table = read_table(str(path), data, form)
    cells = zip(*map(table.cells, range(len(table.columns))), strict=True)
    found = []
    for line, row in zip(table.lines, cells, strict=True):
        content = dict(zip(table.columns, map(filled, row), strict=True))
        one = ImportedRecord(f"{path}:{line}", content)
        asked = one.text(spec.prompt) if spec.prompt and one.is_selected(spec) else ""
        found.append(ImportedRecord(one.place, content, (asked,) if asked else ()))
    return found


def _answer(
    record: ImportedRecord, lookup: SampleLookup, how: AnswerSpec, match: Match
) -> StoredAnswer:
    variant, sample = match
    options = options_of(lookup.task, variant, sample)
    messages = tuple(Message("user", text) for text in record.prompts)
    answer = partial(StoredAnswer, record.place, sample.id, variant, messages)
    column = how.column or ""
    if how.kind == "text":
        value = record.value(column)
        if isinstance(value, list) and value and all(isinstance(text, str) for text in value):
            return answer(texts=tuple(value))
        return answer(texts=(record.text(column),))
    if not options:
        fact = f"{record.place}: the samples have no choices under {variant}"
        raise DataError(f"{fact}; map the answer as `text`")
    ordered = options if how.order == "shown" else sorted(options, key=lambda o: o.index)
    by_number = {str(at): option for at, option in enumerate(ordered, how.counted_from)}
    named = by_number, {sample.choices[option.index].strip(): option for option in options}
    if how.kind == "chosen":
        return answer(texts=(_chosen(record, column, named),))
    choices = tuple(option.answer for option in options)
    is_share = how.kind == "probabilities"
    convert = rows.scores_of_probabilities if is_share else rows.scores_of_logprobs
    try:
        # Samples have more or fewer choices: the last columns may be empty.
        content = [record.value(name) for name in how.columns if record.has(name)]
        content = record.value(column) if column else content
        numbers = _by_index(content, named, how.counted_from)
        scores = convert([numbers[option.index] for option in options], choices)
    except ValueError as error:
        raise DataError(f"{record.place}: {error}; correct the file, or the map") from error
    return answer(choices=choices, scores=scores)


def _chosen(record: ImportedRecord, column: str, named: Named) -> str:
    chosen, (by_number, by_text) = record.text(column).strip(), named
    option = by_text.get(chosen) or by_number.get(chosen.removesuffix(".0"))
    if option is None:
        raise DataError(
            f"{record.place}: {column} says {chosen[:80]!r}, which is neither one of the "
            f"numbers {min(by_number)} to {max(by_number)} nor the text of a choice; correct the "
            "file, or map the column as `text`"
        )
    return option.answer.strip()


def _by_index(content: Any, named: Named, start: int) -> dict[int, float]:  # noqa: ANN401 - any JSON
    """The number of each option, by the place of its choice in the sample."""
    by_number, by_text = named
    if isinstance(content, str) and len(content) > _LONGEST:
        raise ValueError(f"{len(content)} characters, more than {_LONGEST}")
    for parse in (read_json, literal_eval) if isinstance(content, str) else ():
        # Literals alone: no name is looked up, nothing runs.
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            content = parse(content.strip())
            break
    if isinstance(content, list):
        if len(content) != len(by_number):
            raise ValueError(f"{len(content)} numbers for {len(by_number)} choices")
        content = dict(enumerate(content, start))
    if not isinstance(content, dict):
        raise ValueError(f"{str(content)[:80]!r} is neither a list nor an object")
    given = {str(key).strip(): _number(value) for key, value in content.items()}
    known = by_number if given.keys() == by_number.keys() else by_text
    if given.keys() != known.keys():
        raise ValueError(
            f"the keys {', '.join(map(repr, given))} are neither {', '.join(by_number)} nor the "
            "texts of the choices"
        )
    return {known[key].index: value for key, value in given.items()}


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise ValueError(f"{str(value)[:80]!r} is not a number") from None
