"""A scorer of one's own: any class whose `score` gives a number, or None, for each text."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Protocol

from harness.implicitness.scorer import Flag, Scored, text_of
from harness.parts import digest
from harness.specs.implicitness import PythonScorerSpec
from harness.specs.plugins import Extension, foreign_code, spec_digest


class ScoresTexts(Protocol):
    """What the class of a scorer has, beside `build(name, spec, context)`."""

    def score(self, texts: Sequence[str]) -> Sequence[float | None]:
        """Give each text its implicitness, in their order; None for a text without one."""


@dataclass(frozen=True, slots=True)
class OwnScorer:
    """A scorer of other people's code: settings and source make its signature."""

    name: str
    spec: PythonScorerSpec
    scorer: ScoresTexts
    made_by: Extension

    @property
    def signature(self) -> str:
        """Name and digest."""
        return f"{self.name}@{digest((spec_digest(self.spec), self.made_by.source))[:8]}"

    @property
    def seen(self) -> frozenset[str]:
        """Empty: nobody knows what it was made from."""
        return frozenset()

    def score(self, texts: Sequence[object]) -> Sequence[Scored]:
        """One score a text, in their order; what is no text is flagged and not given to it."""
        reads = [text_of(text) for text in texts]
        known = [read for read in reads if not isinstance(read, Flag)]
        with foreign_code(f"scorer {self.name}: score"):
            values = list(self.scorer.score(known))
            if len(values) != len(known):
                raise ValueError(f"{len(values)} values for {len(known)} texts")
            if wrong := [value for value in values if value is not None and not isfinite(value)]:
                raise ValueError(f"{wrong[0]} is not finite; give None where there is no value")
        rest = iter([Scored(one, Flag.UNSCORED if one is None else None) for one in values])
        return [Scored(None, read) if isinstance(read, Flag) else next(rest) for read in reads]
