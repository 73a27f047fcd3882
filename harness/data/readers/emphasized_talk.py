"""The released Emphasized-Talk dialogues to samples: one for each stressed fragment."""

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from harness.core import Sample
from harness.data.readers.released import read_json, refuse_overlay
from harness.errors import DataError
from harness.parts import digest
from harness.specs.data import OverlaySpec

_log = logging.getLogger(__name__)
_TURN = re.compile(r"([01]): (.*)", re.DOTALL)
AMBIGUOUS, REPAIRED = "ambiguous", "repaired"
_LAYOUT = "context: current, emphasis"


class _Dialogue(msgspec.Struct, forbid_unknown_fields=True):
    current: str
    emphasis: dict[str, list[str]]


Span = tuple[int, int, tuple[str, ...]]
"""Where the stress begins and ends in the turn, and flags of how it was found."""


def read(files: Sequence[Path], overlay: OverlaySpec | None) -> list[Sample]:
    """A sample for each stressed fragment of each dialogue; the dialogue is its cluster."""
    refuse_overlay("emphasized_talk", overlay)
    found: list[Sample] = []
    for path in files:
        dialogues: Mapping[str, _Dialogue] = read_json(path, dict[str, _Dialogue], _LAYOUT)
        for context, dialogue in dialogues.items():
            found += _samples(path, context, dialogue) if dialogue.emphasis else []
        if skipped := sum(not dialogue.emphasis for dialogue in dialogues.values()):
            _log.warning("%s: dialogues without a stressed fragment, skipped: %d", path, skipped)
    return found


def find_span(turn: str, fragment: str) -> Span | None:
    """The first occurrence of a fragment as whole words; None where the turn has none.

    A fragment that occurs more than once is flagged as ambiguous: the data does not say which one
    is stressed. One that occurs only inside words, an annotation error, is extended to whole words.
    """
    if not fragment.strip():
        return None
    literal = re.escape(fragment)
    whole = [match.span() for match in re.finditer(rf"(?<!\w){literal}(?!\w)", turn)]
    if whole:
        return *whole[0], (AMBIGUOUS,) if len(whole) > 1 else ()
    inside = re.search(rf"\w*{literal}\w*", turn)
    return (*inside.span(), (REPAIRED,)) if inside else None


def _samples(path: Path, context: str, dialogue: _Dialogue) -> list[Sample]:
    turn = _TURN.fullmatch(dialogue.current)
    if turn is None:
        fact = f"the current turn {dialogue.current!r} does not begin with '0: ' or '1: '"
        raise DataError(f"{path}: {fact}; fetch the file again")
    speaker, words = turn.groups()
    lines = "\n".join(part.strip() for part in context.split("<br>"))
    cluster, samples = f"dialogue-{digest(context)[:10]}", []
    for fragment, implications in dialogue.emphasis.items():
        span = find_span(words, fragment)
        if span is None or not implications:
            fact = f"the fragment {fragment!r} is not in {words!r}, or has no implication"
            raise DataError(f"{cluster}: {fact}; fetch the file again")
        start, end, flags = span
        parts = {"before": words[:start], "emphasis": words[start:end], "after": words[end:]}
        sample = Sample(
            id=f"emphasis-{digest((cluster, words, fragment, start))[:10]}",
            fields={"context": lines, "speaker": speaker, **parts},
            references={"implication": tuple(implications)},
            cluster=cluster,
            flags=flags,
        )
        samples.append(sample)
    return samples
