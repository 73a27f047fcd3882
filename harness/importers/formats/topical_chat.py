"""A judge model's replies in the format of the Topical-Chat release to answers: a JSON list.

Each item has the rated reply, the whole prompt and every answer to it. The prompt names the
criterion as "Name (low-high)" or as the form's "- Name:"; a file's name does not matter.
"""

import re
from collections.abc import Collection
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
    numbered = [(f"{path}, item {number}", item) for number, item in enumerate(items, 1)]
    return FileAnswers(
        tuple(_answer(item, lookup, place=place) for place, item in numbered if item.all_responses)
    )


def _answer(item: _Item, lookup: SampleLookup, *, place: str) -> StoredAnswer:
    fields = shown(item.source, item.context, item.system_output)
    if not (samples := lookup.having(fields, item.system_id)):
        raise lookup.unknown(place, f"of {item.system_id!r}")
    return StoredAnswer(
        place=place,
        sample_id=samples[0].id,
        variant=_variant(item.prompt, lookup.task.variants, place=place),
        messages=(Message("user", item.prompt),),
        texts=tuple(item.all_responses),
    )


def _variant(prompt: str, variants: Collection[str], *, place: str) -> str:
    known = {name.casefold(): name for name in variants}
    for criterion in _CRITERION.finditer(prompt):
        if (name := criterion[1].casefold()) in known:
            return known[name]
    raise DataError(
        f"{place}: its prompt names no criterion that is a variant of the task, as in "
        f"'Name (1-3)'; variants: {', '.join(variants)}"
    )
