"""Sample logs of lm-evaluation-harness (samples_TASK_*.jsonl) to answers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import DataError
from harness.importers import record as rows
from harness.importers.record import FileAnswers, ImportedRecord, Match, SampleLookup, StoredAnswer
from harness.parts import Message
from harness.pipeline.plan import options
from harness.specs.data import MapSpec
from harness.storage.cells import decode_json
from harness.storage.tables import json_objects

LOOKS_FOR = "JSON lines with doc_id, doc, arguments and resps, as lm-evaluation-harness logs them"
Asked = tuple[tuple[Message, ...], str | None, list[Any]]
"""One request: a context, its continuation (None for generation) and the replies."""


class _Line(msgspec.Struct):
    doc_id: int | str
    doc: Any
    arguments: Any
    resps: list[list[Any]]
    filter: str = "none"


def recognises(text: str) -> bool:
    """Whether a file's text is in this format, damaged or not."""
    line = text.lstrip().partition("\n")[0]
    marks = ('"doc_id"', '"arguments"', '"resps"')
    return line.startswith("{") and all(mark in line for mark in marks)


def read(path: Path, text: str, lookup: SampleLookup, spec: MapSpec | None = None) -> FileAnswers:
    """The answers of a log; of several filters of one reply the first one counts."""
    records, asked = [], {}
    lines = [_line(f"{path}:{n}", one) for n, one in json_objects(str(path), text)]
    for record, line in lines:
        if line.filter == lines[0][1].filter and record.is_selected(spec):
            asked[record.place] = _asked(line, place=record.place)
            prompt = rows.prompt_text(asked[record.place][0][0])
            records.append(replace(record, prompts=(prompt,)))
    return [
        _answer(record.place, asked[record.place], lookup, match)
        for record, match in rows.matched(records, lookup, spec)
    ], {"of another filter, or not of the map's `where`: left out": len(lines) - len(records)}


def _line(place: str, content: dict[str, Any]) -> tuple[ImportedRecord, _Line]:
    try:
        return ImportedRecord(place, content), msgspec.convert(content, _Line)
    except msgspec.ValidationError as error:
        raise DataError(f"{place}: not {LOOKS_FOR} ({error}); get the file again") from error


def _asked(line: _Line, *, place: str) -> list[Asked]:
    """The requests of a line; those without a context are left out where others have one."""
    pairs = line.arguments
    if isinstance(pairs, dict):
        pairs = [[*part.values()] if isinstance(part, dict) else part for part in pairs.values()]
    if not isinstance(pairs, list) or len(pairs) != len(line.resps) or not pairs:
        raise DataError(f"{place}: arguments and resps are not of one length; get the file again")
    requests: list[Asked] = []
    for pair, replies in zip(pairs, line.resps, strict=True):
        match pair:
            case [context, str() | dict() as what, *_]:
                words = what if isinstance(what, str) else None
                requests.append((_messages(context, place=place), words, replies))
            case _:
                raise DataError(
                    f"{place}: requests of a kind that is no answer (rolling log-likelihoods); "
                    "only multiple_choice, loglikelihood and generate_until can be imported"
                )
    # acc_mutual_info scores every continuation once more without the context.
    return [one for one in requests if rows.prompt_text(one[0])] or requests


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


def _answer(place: str, asked: list[Asked], lookup: SampleLookup, match: Match) -> StoredAnswer:
    (variant, sample), (messages, first, replies) = match, asked[0]
    if any(context != messages for context, _, _ in asked):
        raise DataError(f"{place}: its choices have contexts of their own; ask in one context")
    if first is None:
        texts = tuple(map(str, replies))
        return StoredAnswer(place, sample.id, variant, messages, texts=texts)
    scored = {(one[1] or "").strip(): one for one in asked}
    wanted = [option.answer.strip() for option in options(lookup.task, variant, sample)]
    if sorted(scored) != sorted(wanted) or len(asked) != len(wanted):
        raise DataError(
            f"{place}: it scores {', '.join(map(repr, scored))}, while the answers of {variant} of "
            f"sample {sample.id} are {', '.join(map(repr, wanted)) or 'texts, not choices'}; "
            "say the variant in a map, with --map"
        )
    ordered = [scored[answer] for answer in wanted]
    choices = tuple(words or "" for _, words, _ in ordered)
    try:  # each reply is a pair of a log-likelihood and whether it is the greedy answer
        values = [float(one[2][0][0]) for one in ordered if isinstance(one[2][0], list)]
        scores = rows.scores_of_logprobs(values, choices)
    except (ValueError, TypeError, IndexError) as error:
        raise DataError(f"{place}: resps: {error}; get the file again") from error
    return StoredAnswer(place, sample.id, variant, messages, choices=choices, scores=scores)
