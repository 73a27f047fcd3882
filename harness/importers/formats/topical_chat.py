"""A judge model's replies in the format of the Topical-Chat release to answers: a JSON list."""

import re
from pathlib import Path

import msgspec

from harness.data.readers.topical_chat import shown
from harness.errors import DataError
from harness.importers.record import FileAnswers, SampleLookup, StoredAnswer
from harness.parts import Message
from harness.specs.data import MapSpec
from harness.storage.cells import decode_json

LOOKS_FOR = "a JSON list of objects with source, system_id, system_output, prompt, all_responses"
_CRITERION = re.compile(r"^(?:- )?([^\W\d]+)(?: ?\([0-9]+ ?- ?[0-9]+\)|:[^\S\n]*$)", re.MULTILINE)


class _Item(msgspec.Struct):
    source: str
    system_id: str
    system_output: str
    context: str
    prompt: str
    all_responses: list[str]


def recognises(text: str) -> bool:
    """Whether a file's text is in this format, damaged or not."""
    return text.lstrip().startswith("[") and '"all_responses"' in text


def read(path: Path, text: str, lookup: SampleLookup, spec: MapSpec | None = None) -> FileAnswers:
    """The answers of a file; an item without any reply counts as missing."""
    try:
        items = decode_json(text, list[_Item])
    except msgspec.DecodeError as error:
        raise DataError(f"{path}: not {LOOKS_FOR}: {error}; get the file again") from error
    known = {name.casefold(): name for name in lookup.task.variants}
    answers = []
    for number, item in enumerate(items, 1):
        if not item.all_responses:
            continue
        place = f"{path}, item {number}"
        fields = shown(item.source, item.context, item.system_output)
        if not (samples := lookup.having(fields, item.system_id)):
            raise lookup.unknown(place, f"of {item.system_id!r}")
        named = (one[1].casefold() for one in _CRITERION.finditer(item.prompt))
        variant = next((known[name] for name in named if name in known), None)
        if variant is None:
            raise DataError(
                f"{place}: its prompt names no criterion that is a variant of the task, as in "
                f"'Name (1-3)'; variants: {', '.join(lookup.task.variants)}"
            )
        messages, texts = (Message("user", item.prompt),), tuple(item.all_responses)
        answers.append(StoredAnswer(place, samples[0].id, variant, messages, texts=texts))
    return answers, {}
