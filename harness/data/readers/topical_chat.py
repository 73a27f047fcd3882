"""The rated Topical-Chat replies to samples, with people's scores as references."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from harness.core import Sample
from harness.data.readers.released import read_json, refuse_overlay
from harness.parts import digest
from harness.specs.data import OverlaySpec

_LAYOUT = "a list of source, system_id, system_output, context, scores"


class _Rated(msgspec.Struct):
    source: str
    system_id: str
    system_output: str
    context: str
    scores: dict[str, float]


def read(files: Sequence[Path], overlay: OverlaySpec | None) -> list[Sample]:
    """A sample for each reply; the conversation is its cluster, the system its group."""
    refuse_overlay("topical_chat", overlay)
    return [_sample(part) for path in files for part in read_json(path, list[_Rated], _LAYOUT)]


def shown(source: str, context: str, reply: str) -> dict[str, str]:
    """The fields of a reply, from the texts under their names in the release."""
    return {"conversation": source.strip(), "fact": context.strip(), "reply": reply.strip()}


def _sample(part: _Rated) -> Sample:
    fields = shown(part.source, part.context, part.system_output)
    return Sample(
        id=f"reply-{digest((part.system_id, fields))[:10]}",
        fields=fields,
        references={name: (repr(value),) for name, value in part.scores.items()},
        group=part.system_id,
        cluster=f"conversation-{digest(part.source)[:10]}",
    )
