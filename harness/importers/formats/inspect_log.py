"""Logs of Inspect (.eval and .json) to answers, read with its own library.

What is asked is told by the messages, which must be a prompt of this program, or by the sample's
id; several epochs are several replies.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core import Sample
from harness.errors import DataError, ModelError
from harness.importers.answers import FileAnswers, StatedAnswer, StoredAnswer
from harness.importers.lookup import SampleLookup, wording
from harness.importers.record import ImportedRecord, Place, distinct_sources, places
from harness.parts import Message
from harness.specs.imports import MapSpec

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample

LOOKS_FOR = "a log of Inspect, .eval or .json"
ZIPPED = "PK\x03\x04"
_LETTER = re.compile(r"ANSWER: *([A-Z])")
_ROLES = ("system", "user", "assistant")


def recognises(text: str) -> bool:
    """Whether a file's text, or the beginning of a zipped one, is in this layout."""
    return text.startswith(ZIPPED) or (
        text.lstrip().startswith("{") and '"inspect_ai"' in text and '"eval"' in text
    )


def read(path: Path, text: str, posed: SampleLookup, spec: MapSpec | None = None) -> FileAnswers:
    """The answers of a log; a sample that ended in an error counts as not in it."""
    log = _log(path)
    samples: Sequence[EvalSample] = log.samples or ()
    wanted = [part for part in samples if _is_wanted(_record(part, path), spec)]
    ended = [part for part in wanted if part.error is None and part.output.choices]
    by_id: dict[str, list[EvalSample]] = {}
    for part in sorted(ended, key=lambda part: part.epoch):
        by_id.setdefault(str(part.id), []).append(part)
    found = [_places(parts[0], path, posed=posed, spec=spec) for parts in by_id.values()]
    answers = [
        _answer(parts, path, posed=posed, place=place, model=log.eval.model)
        for parts, place in zip(by_id.values(), distinct_sources(found), strict=True)
    ]
    counts = {
        "not of the map's `only`: left out": len(samples) - len(wanted),
        "ended in an error, without an answer: missing": len(wanted) - len(ended),
    }
    return FileAnswers(
        tuple(answers), tuple(StatedAnswer(path, w, n) for w, n in counts.items() if n)
    )


def _log(path: Path) -> Any:  # noqa: ANN401 - EvalLog, of a library that need not be there
    try:
        from inspect_ai.log import read_eval_log
    except ImportError as error:
        raise ModelError(
            f"{path}: reading a log of Inspect needs its library; install it with "
            'pip install "pragmatics-harness[inspect]"'
        ) from error
    try:
        return read_eval_log(str(path), resolve_attachments=True)
    except Exception as error:  # whatever its reader raises: the file is not what it reads
        raise DataError(
            f"{path}: Inspect cannot read it ({type(error).__name__}: {error}); get the file again"
        ) from error


def _record(part: "EvalSample", path: Path) -> ImportedRecord:
    content = {"id": part.id, "epoch": part.epoch, "metadata": part.metadata}
    written = part.input if isinstance(part.input, str) else ""
    return ImportedRecord(
        f"{path}, sample {part.id}", {**content, "input": written, "target": part.target}
    )


def _is_wanted(record: ImportedRecord, spec: MapSpec | None) -> bool:
    only = spec.only if spec else None
    return only is None or record.text(only.column) == only.value


def _places(
    part: "EvalSample", path: Path, *, posed: SampleLookup, spec: MapSpec | None
) -> list[Place]:
    record = _record(part, path)
    prompts = [wording(_asked(part, place=record.place)), str(record.content["input"])]
    return places(record, posed, spec=spec, prompts=[text for text in prompts if text])


def _asked(part: "EvalSample", *, place: str) -> tuple[Message, ...]:
    """The turns before the model's last one."""
    turns = list(part.messages)
    last = max(
        (at for at, turn in enumerate(turns) if turn.role == "assistant"), default=len(turns)
    )
    if strange := [turn.role for turn in turns[:last] if turn.role not in _ROLES]:
        raise DataError(f"{place}: a turn of role {strange[0]!r}; only plain talk can be imported")
    return tuple(Message(turn.role, turn.text) for turn in turns[:last])


def _answer(
    parts: "Sequence[EvalSample]", path: Path, *, posed: SampleLookup, place: Place, model: str
) -> StoredAnswer:
    variant, sample = place
    where = f"{path}, sample {parts[0].id}"
    asked = [_asked(part, place=where) for part in parts]
    if any(other != asked[0] for other in asked):
        raise DataError(f"{where}: asked differently in its epochs; import them apart")
    texts = [choice.message.text for part in parts for choice in part.output.choices]
    letters = _letters(parts[0], posed, variant=variant, sample=sample)
    return StoredAnswer(
        place=where,
        sample_id=sample.id,
        variant=variant,
        messages=asked[0],
        texts=tuple(_option(text, letters) for text in texts),
        model=model,
    )


def _letters(
    part: "EvalSample", posed: SampleLookup, *, variant: str, sample: Sample
) -> dict[str, str]:
    """What each letter of Inspect's multiple choice stands for, as this variant answers."""
    answers = {sample.choices[o.index]: o.answer.strip() for o in posed.options(variant, sample)}
    choices = part.choices or []
    if not choices or sorted(choices) != sorted(answers):
        return {}
    return {chr(ord("A") + at): answers[choice] for at, choice in enumerate(choices)}


def _option(text: str, letters: dict[str, str]) -> str:
    """The option that a text names by its letter, as Inspect asks for; else the text as it is."""
    found = _LETTER.fullmatch(text.strip().rpartition("\n")[2].strip())
    return letters.get(found[1], text) if found else text
