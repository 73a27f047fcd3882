"""Sample logs of lm-evaluation-harness (samples_TASK_*.jsonl) to answers.

Log-likelihoods of continuations become scores of choices, generated texts become texts. The
context, if it is a prompt of this program, or the id in `doc` decides what was asked.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.core import Sample
from harness.errors import DataError
from harness.importers.record import (
    FileAnswers,
    ImportedRecord,
    Match,
    SampleLookup,
    StoredAnswer,
    notes_of,
    prompt_text,
    read_answers,
    scores_of_logprobs,
)
from harness.parts import Message
from harness.specs.data import MapSpec
from harness.storage.cells import decode_json, read_json

LOOKS_FOR = "JSON lines with doc_id, doc, arguments and resps, as lm-evaluation-harness logs them"


class _Line(msgspec.Struct):
    doc_id: int | str
    doc: Any
    arguments: Any
    resps: list[list[Any]]
    filter: str = "none"


class _Asked(msgspec.Struct, frozen=True):
    """One request: a context, its continuation (None for generation) and the replies."""

    context: tuple[Message, ...]
    continuation: str | None
    replies: list[Any]


def recognises(text: str) -> bool:
    """Whether a file's text is in this format, damaged or not."""
    line = text.lstrip().partition("\n")[0]
    marks = ('"doc_id"', '"arguments"', '"resps"')
    return line.startswith("{") and all(mark in line for mark in marks)


def read(path: Path, text: str, lookup: SampleLookup, spec: MapSpec | None = None) -> FileAnswers:
    """The answers of a log; of several filters of one reply the first one counts."""
    numbered = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    read = [_line(f"{path}:{number}", line) for number, line in numbered]
    kept = [
        (record, line)
        for record, line in read
        if line.filter == read[0][1].filter and record.is_selected(spec)
    ]
    asked = {record.place: _asked(line, place=record.place) for record, line in kept}
    answers = read_answers(
        [record for record, _ in kept],
        lookup,
        spec=spec,
        prompts=lambda record: (prompt_text(asked[record.place][0].context),),
        answer=lambda record, match: _answer(record.place, asked[record.place], lookup, match),
    )
    left_out = "of another filter, or not of the map's `only`: left out"
    return FileAnswers(answers, notes_of(path, {left_out: len(read) - len(kept)}))


def _line(place: str, line: str) -> tuple[ImportedRecord, _Line]:
    try:
        content = read_json(line)
        return ImportedRecord(place, content), msgspec.convert(content, _Line)
    except (ValueError, msgspec.ValidationError) as error:
        raise DataError(f"{place}: not {LOOKS_FOR} ({error}); get the file again") from error


def _asked(line: _Line, *, place: str) -> list[_Asked]:
    """The requests of a line; those without a context are left out where others have one."""
    pairs = line.arguments
    if isinstance(pairs, dict):
        pairs = [[*part.values()] if isinstance(part, dict) else part for part in pairs.values()]
    if not isinstance(pairs, list) or len(pairs) != len(line.resps) or not pairs:
        raise DataError(f"{place}: arguments and resps are not of one length; get the file again")
    requests = [_request(part, line.resps[at], place=place) for at, part in enumerate(pairs)]
    # acc_mutual_info scores every continuation once more without the context.
    return [part for part in requests if prompt_text(part.context)] or requests


def _request(pair: object, replies: list[Any], *, place: str) -> _Asked:
    match pair:
        case [context, str(continuation), *_]:
            return _Asked(_messages(context, place=place), continuation, replies)
        case [context, dict(), *_]:
            return _Asked(_messages(context, place=place), None, replies)
        case _:
            raise DataError(
                f"{place}: requests of a kind that is no answer (rolling log-likelihoods); only "
                "multiple_choice, loglikelihood and generate_until can be imported"
            )


def _messages(context: object, *, place: str) -> tuple[Message, ...]:
    if isinstance(context, list) and len(context) == 1:
        context = context[0]
    if not isinstance(context, str):
        raise DataError(f"{place}: a context that is no text; log it without images")
    if context.startswith('[{"role"'):
        try:
            return tuple(decode_json(context, list[Message]))
        except msgspec.DecodeError:
            pass  # a text that merely begins so
    return (Message("user", context),)


def _answer(
    place: str, asked: Sequence[_Asked], lookup: SampleLookup, match: Match
) -> StoredAnswer:
    variant, sample = match
    messages = asked[0].context
    if any(part.context != messages for part in asked):
        raise DataError(f"{place}: its choices have contexts of their own; ask in one context")
    if asked[0].continuation is None:
        texts = tuple(str(reply) for reply in asked[0].replies)
        return StoredAnswer(place, sample.id, variant, messages, texts=texts)
    ordered = _in_order(asked, lookup, place=place, variant=variant, sample=sample)
    choices = tuple(part.continuation or "" for part in ordered)
    try:  # each reply is a pair of a log-likelihood and whether it is the greedy answer
        values = [float(p.replies[0][0]) for p in ordered if isinstance(p.replies[0], list)]
        scores = scores_of_logprobs(values, choices)
    except (ValueError, TypeError, IndexError) as error:
        raise DataError(f"{place}: resps: {error}; get the file again") from error
    return StoredAnswer(place, sample.id, variant, messages, choices=choices, scores=scores)


def _in_order(
    asked: Sequence[_Asked], lookup: SampleLookup, *, place: str, variant: str, sample: Sample
) -> list[_Asked]:
    wanted = [option.answer.strip() for option in lookup.options(variant, sample)]
    scored = {(part.continuation or "").strip(): part for part in asked}
    if sorted(scored) != sorted(wanted) or len(asked) != len(wanted):
        raise DataError(
            f"{place}: it scores {', '.join(map(repr, scored))}, while the answers of {variant} of "
            f"sample {sample.id} are {', '.join(map(repr, wanted)) or 'texts, not choices'}; "
            "say the variant in a map, with --map"
        )
    return [scored[answer] for answer in wanted]
