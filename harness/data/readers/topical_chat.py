"""The rated Topical-Chat replies: one JSON object a conversation and system to one sample.

What people gave a reply on each attribute is a reference, so that no prompt shows it. Words are
kept as released, white space around them left out.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from harness.core import Sample
from harness.errors import DataError, SpecError
from harness.parts import digest
from harness.specs.data import OverlaySpec
from harness.storage.tables import read_text


class _Rated(msgspec.Struct):
    source: str
    system_id: str
    system_output: str
    context: str
    scores: dict[str, float]


def read(files: Sequence[Path], overlay: OverlaySpec | None) -> list[Sample]:
    """A sample for each reply; those to one conversation cluster, the system is the group."""
    if overlay is not None:
        raise SpecError("topical_chat: this data takes no overlay; remove `overlay` from the task")
    return [_sample(part) for path in files for part in _decoded(path)]


def shown(source: str, context: str, reply: str) -> dict[str, str]:
    """The fields of a reply, from the texts that the release names so."""
    return {"conversation": source.strip(), "fact": context.strip(), "reply": reply.strip()}


def _decoded(path: Path) -> list[_Rated]:
    try:
        return msgspec.json.decode(read_text(path), type=list[_Rated])
    except msgspec.DecodeError as error:
        raise DataError(
            f"{path}: not the released layout (a list of source, system_id, system_output, "
            f"context, scores): {error}; fetch it again"
        ) from error


def _sample(part: _Rated) -> Sample:
    fields = shown(part.source, part.context, part.system_output)
    return Sample(
        id=f"reply-{digest((part.system_id, fields))[:10]}",
        fields=fields,
        references={name: (repr(value),) for name, value in part.scores.items()},
        group=part.system_id,
        cluster=f"conversation-{digest(part.source)[:10]}",
    )
