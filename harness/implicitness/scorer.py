"""Texts to implicitness, pairs of texts to pragmatic distance, by one head and its encoder.

Each distinct text is encoded once, the short ones first. A text that cannot be scored has a flag
and no number; nothing here reads or writes a file.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import compress
from typing import Final

import numpy as np

from harness.errors import ModelError
from harness.implicitness.head import Head
from harness.models.encoders.encoders import Encoder, Limited
from harness.models.vectors import Progress, chunks, reported_chunks
from harness.text.dedup import fingerprint

AT_ONCE: Final = 1024  # texts between two reports of progress
UNSEEN: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})  # categories that leave no mark


class Flag(StrEnum):
    """Why a text has no score, or (CUT) what its score leaves out."""

    ABSENT = "absent"
    NOT_TEXT = "not_text"
    EMPTY = "empty"
    NUL = "nul"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class Scored:
    """A text's implicitness or a pair's pragmatic distance; None with the reason in `flag`.

    With the flag CUT the value is of a text whose end the encoder does not read.
    """

    value: float | None
    flag: Flag | None = None

    def __post_init__(self) -> None:
        if (self.value is None) != (self.flag not in (None, Flag.CUT)):
            raise ValueError(f"give a value, or the reason for none: {self!r}")


@dataclass(frozen=True, slots=True)
class Scorer:
    """A head with the encoder it was trained on, under the user's name for it."""

    name: str
    head: Head
    encoder: Encoder

    def __post_init__(self) -> None:
        if self.encoder.digest != self.head.encoder_digest:
            raise ModelError(
                f"scorer {self.name}: its head was trained on the encoder of digest "
                f"{self.head.encoder_digest[:12]}, and {self.encoder.name} has "
                f"{self.encoder.digest[:12]}; name that encoder, or train a head on this one"
            )

    @property
    def digest(self) -> str:
        """Digest of all that changes its scores: encoder, form and matrices."""
        return self.head.digest

    @property
    def signature(self) -> str:
        """Name and digest, as they stand in signatures: scales of scorers differ."""
        return f"{self.name}@{self.digest[:8]}"

    @property
    def seen(self) -> frozenset[str]:
        """The fingerprints of the texts its head was trained on; empty if not known."""
        return self.head.seen

    def overlap(self, groups: Iterable[Iterable[object]]) -> int | None:
        """Count the groups with a text its head was trained on; None if not known."""
        if not self.seen:
            return None
        return sum(any(is_known(text, self.seen) for text in group) for group in groups)

    def score(self, texts: Sequence[object], progress: Progress | None = None) -> list[Scored]:
        """Score the implicitness of each text, in their order; in [0, 2] where the form is cosine.

        Values that are no text, and texts without a visible character or with a NUL, are flagged.
        A value depends on its text alone, but for float noise below 1e-5.
        """
        reads = [text_of(text) for text in texts]
        distinct = _distinct(read for read in reads if not isinstance(read, Flag))
        values: dict[str, float] = {}
        for batch in reported_chunks(distinct, AT_ONCE, progress):
            scores = self.head.implicitness(self.encoder.encode(batch))
            values.update(zip(batch, scores.tolist(), strict=True))
        cut = self._cut(distinct)
        return [
            Scored(None, read)
            if isinstance(read, Flag)
            else Scored(values[read], Flag.CUT if read in cut else None)
            for read in reads
        ]

    def distances(
        self, pairs: Sequence[tuple[object, object]], progress: Progress | None = None
    ) -> list[Scored]:
        """Measure the pragmatic distance of the two texts of each pair, in the order of the pairs.

        0 or more; at most 2 where the form measures it by cosine. A pair has the flag of the
        first of its texts that has one.
        """
        reads = [_pair_of(pair) for pair in pairs]
        wanted = dict.fromkeys(read for read in reads if not isinstance(read, Flag))
        distinct = _distinct(text for pair in wanted for text in pair)
        batches = reported_chunks(distinct, AT_ONCE, progress)
        parts = [self.encoder.encode(batch) for batch in batches]
        rows = np.concatenate(parts) if parts else np.empty((0, self.head.width), np.float32)
        place = {text: at for at, text in enumerate(distinct)}
        values: dict[tuple[str, str], float] = {}
        for some in chunks(wanted, AT_ONCE):
            first, second = ([place[text] for text in side] for side in zip(*some, strict=True))
            found = self.head.pragmatic_distance(rows[first], rows[second])
            values.update(zip(some, found.tolist(), strict=True))
        cut = self._cut(distinct)
        return [
            Scored(None, read)
            if isinstance(read, Flag)
            else Scored(values[read], None if cut.isdisjoint(read) else Flag.CUT)
            for read in reads
        ]

    def _cut(self, texts: list[str]) -> set[str]:
        if not isinstance(self.encoder, Limited):
            return set()
        return set(compress(texts, self.encoder.cut(texts)))


def is_known(text: object, seen: frozenset[str]) -> bool:
    """Whether a text has one of some fingerprints; a value that is no text has none."""
    return isinstance(text, str) and bool(seen) and fingerprint(text) in seen


def overlap_message(signature: str, overlap: int | None, total: int, *, what: str = "texts") -> str:
    """Describe how many texts a scorer was trained on (None: not known); empty if none."""
    if overlap is None:
        return (
            f"nobody knows which texts scorer {signature} was trained on, and these may be among "
            "them; of published weights, `trained_on:` in the scorer's YAML names them"
        )
    message = f"scorer {signature} was trained on {overlap} of the {total} {what}"
    return f"{message}: it has not measured them unseen" if overlap else ""


def text_of(value: object) -> str | Flag:
    """Return the value as a text, or the flag that says why it cannot be scored."""
    if value is None:
        return Flag.ABSENT
    if not isinstance(value, str):
        return Flag.NOT_TEXT
    if "\0" in value:
        return Flag.NUL
    is_empty = all(unicodedata.category(character) in UNSEEN for character in value)
    return Flag.EMPTY if is_empty else value


def _pair_of(values: tuple[object, object]) -> tuple[str, str] | Flag:
    first, second = text_of(values[0]), text_of(values[1])
    if isinstance(first, Flag):
        return first
    return second if isinstance(second, Flag) else (first, second)


def _distinct(texts: Iterable[str]) -> list[str]:
    """The distinct texts, the short ones first, in an order independent of theirs."""
    return sorted(set(texts), key=lambda text: (len(text), text))
