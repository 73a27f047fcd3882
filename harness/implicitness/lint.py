"""Training pairs to measures of what besides meaning distinguishes their sides and levels.

A metric learns the easiest cue. If explicit sentences are shorter, or hedges mark a level, it
learns that, and fails on sentences from elsewhere. Each measure has a limit, and the pairs that
ship keep all of them. Pure.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np

from harness.errors import DataError
from harness.implicitness.pairs import Links, TrainingPair, deal
from harness.implicitness.probe import shared_with_probes
from harness.implicitness.train import accuracy, word_presence
from harness.stats.correlation import document_taus
from harness.text.dedup import normal

_HEDGED: Final = re.compile(
    r"\b(a bit|a little|apparently|could|fairly|hardly|i believe|i guess|i suppose|i think"
    r"|kind of|likely|maybe|might|perhaps|possibly|probably|quite|rather|seems?"
    r"|slightly|somewhat|sort of)\b"
)
_NEGATED: Final = re.compile(r"n't\b|\b(not|no|never|nobody|nothing|none|nor)\b")
_ASKED: Final = re.compile(
    r"(please,? |now,? |well,? |just |then )?(do not|don't|never|let|let's|ask|be|book|bring|buy"
    r"|call|check|choose|clean|close|come|count|cut|drink|drive|eat|enjoy|explain|fetch|fill|find"
    r"|finish|follow|forget|get|give|go|have a|help|hold|hurry|imagine|keep|leave|lend|listen|look"
    r"|make|mind|move|open|order|pass|pay|pick|press|put|read|remember|remove|return|ring|save|say"
    r"|send|show|sign|sit|sleep|smell|speak|stand|start|stay|stop|switch|take|talk|taste|tell|thank"
    r"|think|throw|trust|try|turn|use|wait|wake|walk|wash|watch|wear|wipe|write)\b"
)
MARKS: Final[dict[str, Callable[[str], bool]]] = {
    "question mark": lambda text: "?" in text,
    "exclamation mark": lambda text: "!" in text,
    "comma": lambda text: "," in text,
    "imperative": lambda text: bool(_ASKED.match(text.lower())),
    "digit": lambda text: any(character.isdigit() for character in text),
    "two sentences": lambda text: len(re.findall(r"[.!?]+", text)) > 1,
    "hedge": lambda text: bool(_HEDGED.search(text.lower())),
    "negation": lambda text: bool(_NEGATED.search(text.lower())),
    "I": lambda text: bool(re.search(r"\bI\b", text)),
    "you": lambda text: bool(re.search(r"\byou", text.lower())),
    "please": lambda text: "please" in text.lower(),
    "want, need, must, should": lambda text: bool(
        re.search(r"\b(want|need|must|should)\b", text.lower())
    ),
}
"""What a model can notice in a sentence without its meaning."""
SOFTENED: Final = 0.45
"""How far the share of hedges may differ between levels: the second of four levels often hedges."""


@dataclass(frozen=True, slots=True)
class LintMeasure:
    """A measured value and the limits it must keep; None where there is no such limit.

    A value that cannot be measured is None, and keeps no limit.
    """

    name: str
    value: float | None
    least: float | None = None
    most: float | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the value is within its limits."""
        if self.value is None:
            return False
        above = self.least is None or self.value >= self.least
        return above and (self.most is None or self.value <= self.most)


APART, STEPS = 0.12, 0.25
"""How far the shares of a mark may differ between the two sides, and between any two levels."""
FIRST_WORD = 0.04
"""How far the shares of one first word may differ between the sides."""
LENGTH, LEVEL_LENGTH = 0.05, 0.2
"""How far mean lengths may differ, of the greater one: of the sides, and of levels."""
LONGER = 0.05
"""How far the share of pairs with the longer implicit side may be from a half."""
FORMS, FORM = 0.95, 1.25
"""The least share of meanings that have a pair whose implicit side is longer by the factor FORM,
and a pair whose explicit side is."""
ORDER = 0.1
"""The greatest mean tau of level and length."""
WORDS = 0.86
"""The highest accuracy of word presence on pairs of unseen groups."""


def measures(pairs: Sequence[TrainingPair]) -> list[LintMeasure]:
    """Measure some pairs, with the limit of each measure."""
    graded = [pair.levels for pair in pairs if pair.levels]
    # The ends of a row's own levels may be its two sides: that is no repetition.
    texts = Counter(text for pair in pairs for text in {normal(text) for text in pair.sentences})
    probed = shared_with_probes([text for pair in pairs for text in pair.sentences])
    repeated = sum(count - 1 for count in texts.values())
    return [
        LintMeasure("pairs", len(pairs)),
        LintMeasure("graded", len(graded)),
        LintMeasure("groups", len({pair.group for pair in pairs})),
        LintMeasure("sentences that are there twice", repeated, most=0),
        LintMeasure("sentences of the probes", len(probed), most=0),
        *_sides(pairs),
        *_forms(pairs),
        *_levels(graded),
        LintMeasure("word presence", _accuracy_by_words(pairs), most=WORDS),
    ]


def _sides(pairs: Sequence[TrainingPair]) -> Iterator[LintMeasure]:
    implicit, explicit = [p.implicit for p in pairs], [p.explicit for p in pairs]
    for name, has in MARKS.items():
        apart = _share(implicit, has) - _share(explicit, has)
        yield LintMeasure(f"sides: {name}", apart, -APART, APART)
    first = [Counter(normal(text).split()[0] for text in side) for side in (implicit, explicit)]
    skews = {word: (first[0][word] - first[1][word]) / len(pairs) for word in first[0] | first[1]}
    most = max(skews, key=lambda word: (abs(skews[word]), word))
    name = f"sides: first word {most!r}"
    yield LintMeasure(name, skews[most], -FIRST_WORD, FIRST_WORD)
    lengths = [[len(normal(text).split()) for text in side] for side in (implicit, explicit)]
    means = [fmean(side) for side in lengths]
    apart = (means[0] - means[1]) / max(means)
    yield LintMeasure("sides: length", apart, -LENGTH, LENGTH)
    longer = fmean((a > b) + 0.5 * (a == b) for a, b in zip(*lengths, strict=True))
    name = "pairs whose implicit side is longer"
    yield LintMeasure(name, longer, 0.5 - LONGER, 0.5 + LONGER)


def _forms(pairs: Sequence[TrainingPair]) -> Iterator[LintMeasure]:
    """The share of meanings, where labelled, that occur in a long and in a short form."""
    ratios: dict[str, list[float]] = {}
    for pair in pairs:
        if pair.meaning is not None:
            lengths = [max(1, len(text)) for text in (pair.implicit, pair.explicit)]
            ratios.setdefault(f"{pair.group}: {pair.meaning}", []).append(lengths[0] / lengths[1])
    if ratios:
        both = [max(r) >= FORM and min(r) <= 1 / FORM for r in ratios.values()]
        yield LintMeasure("meanings in both forms", fmean(both), least=FORMS)


def _levels(graded: Sequence[tuple[str, ...]]) -> Iterator[LintMeasure]:
    by_size: dict[int, list[tuple[str, ...]]] = {}
    for levels in graded:
        by_size.setdefault(len(levels), []).append(levels)
    for size, sets in sorted(by_size.items()):
        sides = list(zip(*sets, strict=True))
        for name, has in MARKS.items():
            shares = [_share(side, has) for side in sides]
            most = SOFTENED if name == "hedge" else STEPS
            yield LintMeasure(f"{size} levels: {name}", max(shares) - min(shares), most=most)
        lengths = [[len(normal(text).split()) for text in levels] for levels in sets]
        means = np.mean(lengths, axis=0)
        apart = float((means.max() - means.min()) / means.max())
        yield LintMeasure(f"{size} levels: length", apart, most=LEVEL_LENGTH)
        taus = document_taus([range(size)] * len(sets), lengths)
        order = float(np.nan_to_num(taus).mean())  # of one length: no order
        yield LintMeasure(f"{size} levels: order of length", order, -ORDER, ORDER)


def _accuracy_by_words(pairs: Sequence[TrainingPair]) -> float | None:
    differences: list[float] = []
    try:
        parts = deal(pairs, Links(pairs), seed=0, shares=(1,) * 5)
        for held, test in enumerate(parts):
            rest = (pair for at, part in enumerate(parts) if at != held for pair in part)
            score = word_presence(list(rest))
            differences += [score(pair.implicit) - score(pair.explicit) for pair in test]
    except DataError:
        return None
    return accuracy(differences)


def _share(texts: Sequence[str], has: Callable[[str], bool]) -> float:
    return sum(map(has, texts)) / len(texts)
