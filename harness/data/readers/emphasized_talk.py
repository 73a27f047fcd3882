"""The released Emphasized-Talk dialogues: one JSON object to a sample an emphasised fragment.

The stress is a span of characters in the current turn, found once by whole words; nothing is
marked by replacing text. Words are kept as released.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.core import Sample
from harness.errors import DataError
from harness.parts import digest
from harness.specs.data import OverlaySpec
from harness.storage.tables import read_text

_log = logging.getLogger(__name__)
_TURN = re.compile(r"([01]): (.*)", re.DOTALL)
AMBIGUOUS, REPAIRED = "ambiguous", "repaired"


class _Dialogue(msgspec.Struct, forbid_unknown_fields=True):
    current: str
    emphasis: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Span:
    """Where the stress lies: offsets into the turn, and what had to be decided to find it."""

    start: int
    end: int
    flags: tuple[str, ...] = ()


def read(files: Sequence[Path], overlay: OverlaySpec | None) -> list[Sample]:
    """A sample for each stressed fragment of each dialogue; those of one dialogue cluster."""
    found: list[Sample] = []
    for path in files:
        dialogues = _dialogues(path)
        found += [
            sample
            for context, dialogue in dialogues.items()
            for sample in _samples(path, context, dialogue)
        ]
        if skipped := sum(not dialogue.emphasis for dialogue in dialogues.values()):
            _log.warning("%s: dialogues without a stressed fragment, skipped: %d", path, skipped)
    return found


def find_span(turn: str, fragment: str) -> Span | None:
    """The first occurrence of a fragment as whole words; else inside words, drawn out to them.

    A fragment that stands there more than once as whole words is ambiguous: the data does not
    say which one is stressed. One that stands only inside words is a slip of annotation.
    """
    if not fragment.strip():
        return None
    literal = re.escape(fragment)
    whole = [match.span() for match in re.finditer(rf"(?<!\w){literal}(?!\w)", turn)]
    if whole:
        return Span(*whole[0], (AMBIGUOUS,) if len(whole) > 1 else ())
    inside = re.search(rf"\w*{literal}\w*", turn)
    return Span(*inside.span(), (REPAIRED,)) if inside else None


def _dialogues(path: Path) -> Mapping[str, _Dialogue]:
    try:
        return msgspec.json.decode(read_text(path), type=dict[str, _Dialogue])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise DataError(
            f"{path}: not the released layout (context: current, emphasis): {error}; fetch it again"
        ) from error


def _samples(path: Path, context: str, dialogue: _Dialogue) -> list[Sample]:
    if not dialogue.emphasis:
        return []
    turn = _TURN.fullmatch(dialogue.current)
    if turn is None:
        raise DataError(
            f"{path}: the current turn {dialogue.current!r} does not begin with '0: ' or '1: '; "
            "fetch the file again"
        )
    speaker, words = turn.groups()
    lines = "\n".join(part.strip() for part in context.split("<br>"))
    cluster = f"dialogue-{digest(context)[:10]}"
    return [
        _sample(
            {"context": lines, "speaker": speaker},
            words,
            fragment=fragment,
            implications=tuple(implications),
            cluster=cluster,
        )
        for fragment, implications in dialogue.emphasis.items()
    ]


def _sample(
    shown: Mapping[str, str],
    turn: str,
    *,
    fragment: str,
    implications: tuple[str, ...],
    cluster: str,
) -> Sample:
    span = find_span(turn, fragment)
    if span is None or not implications:
        raise DataError(
            f"{cluster}: the fragment {fragment!r} stands nowhere in {turn!r}, or has no "
            "implication; fetch the file again"
        )
    name = digest((cluster, turn, fragment, span.start))[:10]
    return Sample(
        id=f"emphasis-{name}",
        fields={
            **shown,
            "before": turn[: span.start],
            "emphasis": turn[span.start : span.end],
            "after": turn[span.end :],
        },
        references={"implication": implications},
        cluster=cluster,
        flags=span.flags,
    )
