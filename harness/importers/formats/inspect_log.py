"""Logs of Inspect (.eval and .json) to answers, read with Inspect's own library."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import DataError, ModelError, install
from harness.importers import record as rows
from harness.importers.record import FileAnswers, ImportedRecord, Match, SampleLookup, StoredAnswer
from harness.parts import Message
from harness.pipeline.plan import options
from harness.specs.data import MapSpec
from harness.storage.files import refuse_swollen

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample

LOOKS_FOR = "a log of Inspect, .eval or .json"
ZIPPED = "PK\x03\x04"
_LETTER = re.compile(r"ANSWER: *([A-Z])")


def recognises(text: str) -> bool:
    """Whether a file's text, or the beginning of a zipped file, is in this format."""
    return text.startswith(ZIPPED) or (
        text.lstrip().startswith("{") and '"packages"' in text and '"eval"' in text
    )


def read(path: Path, text: str, lookup: SampleLookup, spec: MapSpec | None = None) -> FileAnswers:
    """The answers of a log; a sample that ended in an error counts as missing."""
    samples: Sequence[EvalSample] = _log(path).samples or ()
    selected = [sample for sample in samples if _record(sample, path).is_selected(spec)]
    answered = [sample for sample in selected if sample.error is None and sample.output.choices]
    epochs: dict[str, list[EvalSample]] = {}
    for sample in sorted(answered, key=lambda sample: sample.epoch):
        epochs.setdefault(_record(sample, path).place, []).append(sample)
    records = []
    for place, parts in epochs.items():
        record = _record(parts[0], path)
        prompts = rows.prompt_text(_asked(parts[0], place=place)), record.content["input"]
        records.append(replace(record, prompts=tuple(filter(None, prompts))))
    return [
        _answer(epochs[record.place], record.place, lookup, match)
        for record, match in rows.matched(records, lookup, spec)
    ], {
        "not of the map's `where`: left out": len(samples) - len(selected),
        "ended in an error, without an answer: missing": len(selected) - len(answered),
    }


def _log(path: Path) -> Any:  # noqa: ANN401 - EvalLog, of a library that need not be there
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        fact = f"{path}: reading a log of Inspect needs its library"
        raise ModelError(f"{fact}; run: {install('inspect')}") from error
    refuse_swollen(path)
    try:
        return read_eval_log(str(path), resolve_attachments=True)
    except Exception as error:  # whatever its reader raises: the file is not what it reads
        fact = f"{path}: Inspect cannot read it ({type(error).__name__}: {error})"
        raise DataError(f"{fact}; get the file again") from error


def _record(part: "EvalSample", path: Path) -> ImportedRecord:
    content = {"id": part.id, "epoch": part.epoch, "metadata": part.metadata}
    content |= {"input": part.input if isinstance(part.input, str) else "", "target": part.target}
    return ImportedRecord(f"{path}, sample {part.id}", content)


def _asked(part: "EvalSample", *, place: str) -> tuple[Message, ...]:
    turns = list(part.messages)
    last = max((at for at, one in enumerate(turns) if one.role == "assistant"), default=len(turns))
    if strange := [one.role for one in turns[:last] if one.role == "tool"]:
        raise DataError(f"{place}: a turn of role {strange[0]!r}; only plain talk can be imported")
    return tuple(Message(turn.role, turn.text) for turn in turns[:last])


def _answer(
    parts: "Sequence[EvalSample]", place: str, lookup: SampleLookup, match: Match
) -> StoredAnswer:
    variant, sample = match
    asked = [_asked(part, place=place) for part in parts]
    if any(other != asked[0] for other in asked):
        raise DataError(f"{place}: asked differently in its epochs; import them apart")
    known = options(lookup.task, variant, sample)
    answers = {sample.choices[option.index]: option.answer.strip() for option in known}
    choices = parts[0].choices or []
    letters = {}
    if sorted(choices) == sorted(answers):
        letters = {chr(ord("A") + at): answers[choice] for at, choice in enumerate(choices)}
    texts = []
    for text in (choice.message.text for part in parts for choice in part.output.choices):
        # The last line names an option by its letter in Inspect's form; else the whole text counts.
        named = _LETTER.fullmatch(text.strip().rpartition("\n")[2].strip())
        texts.append(letters.get(named[1], text) if named else text)
    return StoredAnswer(place, sample.id, variant, asked[0], texts=tuple(texts))
