"""Choices to verdicts: is the choice a model makes the right one, and how sure is it.

Reads log-probabilities as they are stored and asks nothing. Every normalisation is derived here
from sums and counts; a written answer is read strictly.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum

from harness.choice_scores import LABELLED, PLACE
from harness.core import Case, Request, Response, Sample, Verdict
from harness.parsers import choice_text, option_number
from harness.parts import ChoiceScore, Option, Reason, digest
from harness.specs.judges import GoldSpec

LABELS = "labels"

Normalised = Callable[[ChoiceScore, str, ChoiceScore | None], float | None]


@dataclass(frozen=True, slots=True)
class _Read:
    """The choices of a case, each at its place, with what it scored there."""

    sample: Sample
    options: tuple[Option, ...]
    scores: tuple[ChoiceScore, ...]
    neutral: tuple[ChoiceScore, ...] | None

    @property
    def gold(self) -> int:
        """The place of the right choice."""
        indices = [option.index for option in self.options]
        return indices.index(self.sample.choices.index(self.sample.gold or ""))


class GoldJudge:
    """1 where the likeliest choice is the right one, 0 where it is not.

    Of choices that are equally likely each counts its share, so that a model to which all are
    alike gets the chance level. `accuracy_per_token`, `_per_byte` and `_per_character` divide a
    sum by the length of the answer, its leading space included; `accuracy_pmi` takes off what the
    answer scores without the sample (Holtzman et al. 2021). `prob_right` is the probability of
    the right choice among the choices, `brier` the sum of squared differences from certainty
    about it (Brier 1950; 0 to 2). `chosen_place_N` and `chosen_label_L` say what was chosen,
    `prob_label_L` how probable a kind of choice is, `identical_scores` and `spans_boundary`
    whether all are alike and whether a token reaches across the boundary. A written answer has
    no probabilities.
    """

    metric = "accuracy"

    def __init__(self, name: str, spec: GoldSpec) -> None:
        """Judge under `name`, by the normalisation that `spec` names."""
        self.name = name
        self._normalisation = spec.normalisation
        self.recipe = f"{name}:{digest(spec.normalisation)[:8]}|{spec.normalisation}"

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        """No question: this judge computes."""
        return ()

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict a case, in the order of the cases."""
        return [self._verdict(case) for case in cases]

    def _verdict(self, case: Case) -> Verdict:
        scores = case.response.choice_scores
        if scores is None:
            return self._written(case)
        if len(scores) != len(case.options):
            note = f"{len(scores)} scores for {len(case.options)} choices"
            return self._missing(case, Reason.UNSUPPORTED, note)
        neutral = case.neutral.choice_scores if case.neutral else None
        return self._scored(case, _Read(case.sample, case.options, scores, neutral))

    def _scored(self, case: Case, read: _Read) -> Verdict:
        found = {name: _credit(read, way) for name, way in NORMALISED.items()}
        value = found.pop(self._normalisation)
        if value is None:
            return self._missing(case, Reason.UNSUPPORTED, f"no {self._normalisation} scores")
        detail = {f"accuracy_{name}": part for name, part in found.items() if part is not None}
        best = max(range(len(read.scores)), key=lambda place: read.scores[place].logprob)
        detail |= _chosen(read.sample, read.options, best)
        detail["identical_scores"] = float(len({part.logprob for part in read.scores}) == 1)
        detail["spans_boundary"] = float(any(part.spanned for part in read.scores))
        if any(part.is_bound for part in read.scores):
            return Verdict(case.response.key, self.name, value, detail=detail)
        by_place = _probabilities(read.scores)
        detail |= _sureness(read, by_place)
        shares = [0.0] * len(by_place)
        for option, share in zip(read.options, by_place, strict=True):
            shares[option.index] = share
        return Verdict(case.response.key, self.name, value, detail=detail, shares=tuple(shares))

    def _written(self, case: Case) -> Verdict:
        text = (case.response.texts or ("",))[0]
        answers = [option.answer.strip() for option in case.options]
        is_number = answers == [str(place) for place in range(1, len(answers) + 1)]
        place = option_number(text, len(answers)) if is_number else choice_text(text, answers)
        if isinstance(place, Reason):
            return self._missing(case, place, text[:80])
        option = case.options[place - 1]
        value = float(case.sample.choices[option.index] == case.sample.gold)
        detail = _chosen(case.sample, case.options, place - 1)
        return Verdict(case.response.key, self.name, value, detail=detail)

    def _missing(self, case: Case, reason: Reason, note: str) -> Verdict:
        return Verdict(case.response.key, self.name, None, reason, note=note)


def _raw(score: ChoiceScore, answer: str, neutral: ChoiceScore | None) -> float:
    return score.logprob


def _per_token(score: ChoiceScore, answer: str, neutral: ChoiceScore | None) -> float | None:
    return score.logprob / score.tokens if score.tokens else None


def _per_byte(score: ChoiceScore, answer: str, neutral: ChoiceScore | None) -> float | None:
    return score.logprob / score.bytes if score.bytes else None


def _per_character(score: ChoiceScore, answer: str, neutral: ChoiceScore | None) -> float | None:
    return score.logprob / len(answer) if answer else None


def _pmi(score: ChoiceScore, answer: str, neutral: ChoiceScore | None) -> float | None:
    return score.logprob - neutral.logprob if neutral else None


NORMALISED: Mapping[str, Normalised] = {
    "raw": _raw,
    "per_token": _per_token,
    "per_byte": _per_byte,
    "per_character": _per_character,
    "pmi": _pmi,
}


def _credit(read: _Read, way: Normalised) -> float | None:
    """What the right choice gets: 1 where it is best, its share of a tie, else 0."""
    neutral = read.neutral or (None,) * len(read.scores)
    values = [
        way(score, option.answer, other)
        for score, option, other in zip(read.scores, read.options, neutral, strict=True)
    ]
    if (own := values[read.gold]) is None or None in values:
        return None
    best = max(value for value in values if value is not None)
    return 1.0 / values.count(best) if own == best else 0.0


def _probabilities(scores: Sequence[ChoiceScore]) -> list[float]:
    """The probability of each choice, given that it is one of them."""
    most = max(score.logprob for score in scores)
    odds = [exp(score.logprob - most) for score in scores]
    return [part / fsum(odds) for part in odds]


def _chosen(sample: Sample, options: Sequence[Option], chosen: int) -> dict[str, float]:
    """Which place and, where choices have labels, which label was chosen."""
    found = {f"{PLACE}{at + 1}": float(at == chosen) for at in range(len(options))}
    if labels := sample.references.get(LABELS):
        own = labels[options[chosen].index]
        found |= {LABELLED[0] + label: float(label == own) for label in labels}
    return found


def _sureness(read: _Read, by_place: Sequence[float]) -> dict[str, float]:
    """The probability of the right choice, of each label, and how far off they are."""
    gold = read.gold
    found = {
        "prob_right": by_place[gold],
        "brier": fsum((part - (at == gold)) ** 2 for at, part in enumerate(by_place)),
    }
    labels = read.sample.references.get(LABELS, ())
    for label in dict.fromkeys(labels):
        held = (
            share
            for option, share in zip(read.options, by_place, strict=True)
            if labels[option.index] == label
        )
        found[LABELLED[1] + label] = fsum(held)
    return found
