"""Choices to verdicts: is the choice a model makes the right one, and how sure is it."""

from collections.abc import Sequence
from math import exp, fsum

from harness.core import Case, Response, Sample, Verdict
from harness.data.choices import LABELS
from harness.judges.custom import ComputedJudge
from harness.parts import ChoiceScore, Option, Reason, digest
from harness.specs.judges import GoldSpec
from harness.text.parsers import choice_text, is_cut_no, is_refusal, option_number

PLACE, LABELLED = "chosen_place_", ("chosen_label_", "prob_label_")
"""How the names of details begin, by the place and by the label of what was chosen."""


class GoldJudge(ComputedJudge):
    """1 where the likeliest choice is the right one, 0 where it is not; ties count their share.

    The details are those of docs/choices.md: PMI is by Holtzman et al. 2021, `brier` (0 to 2) by
    Brier 1950. A written answer has no probabilities, nor has one with choices that are known by a
    bound alone.
    """

    reads_alone = True
    metric = "accuracy"
    _spec: GoldSpec

    @property
    def recipe(self) -> str:
        """Name, digest and normalisation, as signatures show them."""
        return f"{self.name}:{digest(self._spec.normalisation)[:8]}|{self._spec.normalisation}"

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
        if neutral is not None and len(neutral) != len(scores):
            neutral = None
        return self._scored(case, scores, neutral)

    def _scored(
        self, case: Case, scores: Sequence[ChoiceScore], neutral: Sequence[ChoiceScore] | None
    ) -> Verdict:
        sample, options = case.sample, case.options
        gold = [option.index for option in options].index(sample.choices.index(sample.gold or ""))
        is_bound = [score.is_bound for score in scores]
        found = {
            name: _favoured(values, is_bound)
            for name, values in normalised(scores, options, neutral).items()
        }
        chosen = found.pop(self._spec.normalisation)
        if chosen is None:
            return self._unknown(case)
        detail = {f"accuracy_{name}": part[gold] for name, part in found.items() if part}
        detail |= _chosen(sample, options, chosen)
        logprobs = [score.logprob for score in scores]
        detail["identical_scores"] = float(len({*logprobs}) == 1)
        if None not in [score.tokens for score in scores]:
            detail["spans_boundary"] = float(any(score.spanned for score in scores))
        if any(is_bound):
            return Verdict(case.response.key, self.name, chosen[gold], detail=detail)
        most = max(logprobs)
        odds = [exp(logprob - most) for logprob in logprobs]
        total = fsum(odds)
        by_place = [part / total for part in odds]
        detail["prob_right"] = by_place[gold]
        detail["brier"] = fsum((part - (at == gold)) ** 2 for at, part in enumerate(by_place))
        detail |= _by_label(sample, options, by_place, prefix=LABELLED[1])
        shares = [0.0] * len(by_place)
        for option, share in zip(options, by_place, strict=True):
            shares[option.index] = share
        key, value = case.response.key, chosen[gold]
        return Verdict(key, self.name, value, detail=detail, shares=tuple(shares))

    def _written(self, case: Case) -> Verdict:
        answers = [option.answer.strip() for option in case.options]
        place = _written_place(case.response, answers)
        if isinstance(place, Reason):
            return self._missing(case, place, (case.response.texts or ("",))[0][:80])
        chosen = [float(at == place) for at in range(1, len(answers) + 1)]
        value = float(case.sample.choices[case.options[place - 1].index] == case.sample.gold)
        detail = _chosen(case.sample, case.options, chosen)
        return Verdict(case.response.key, self.name, value, detail=detail)

    def _unknown(self, case: Case) -> Verdict:
        if self._spec.normalisation == "pmi" and case.neutral and (why := case.neutral.failure):
            return self._missing(case, why.reason, f"scored without the sample: {why.message}")
        if any(part.is_bound for part in case.response.choice_scores or ()):
            note = "the best of the choices may be one that is known by a bound alone"
            return self._missing(case, Reason.UNSUPPORTED, note)
        return self._missing(case, Reason.UNSUPPORTED, f"no {self._spec.normalisation} scores")

    def _missing(self, case: Case, reason: Reason, note: str) -> Verdict:
        return Verdict(case.response.key, self.name, None, reason, note=note)


def _written_place(response: Response, answers: Sequence[str]) -> int | Reason:
    # A reply that declines, and one cut before it says anything, have reasons of their own.
    text = (response.texts or ("",))[0]
    is_number = list(answers) == [str(place) for place in range(1, len(answers) + 1)]
    place = option_number(text, len(answers)) if is_number else choice_text(text, answers)
    # "No, I cannot help with that" is no answer; a choice that begins "I'm sorry" is one.
    is_answer = not isinstance(place, Reason) and answers[place - 1].casefold() != "no"
    if not is_answer and is_refusal(text):
        return Reason.REFUSED
    is_open = place is Reason.UNPARSED or (not is_answer and is_cut_no(text))
    if is_open and response.stop == "length":
        return Reason.TRUNCATED
    return place


def normalised(
    scores: Sequence[ChoiceScore], options: Sequence[Option], neutral: Sequence[ChoiceScore] | None
) -> dict[str, list[float | None]]:
    """The value of each choice by each normalisation, in nats; None where it is not known."""
    return {
        "raw": [score.logprob for score in scores],
        "per_token": [s.logprob / s.tokens if s.tokens else None for s in scores],
        "per_byte": [s.logprob / s.bytes if s.bytes else None for s in scores],
        "per_character": [
            score.logprob / len(option.answer) if option.answer and score.bytes else None
            for score, option in zip(scores, options, strict=True)
        ],
        "pmi": [
            None if other.is_bound else score.logprob - other.logprob
            for score, other in zip(scores, neutral or (), strict=neutral is not None)
        ]
        or [None],
    }


def _favoured(values: Sequence[float | None], is_bound: Sequence[bool]) -> list[float] | None:
    """The share of each place in the best choice; None where that may be another one."""
    if None in values:
        return None
    most = max(value for value in values if value is not None)
    is_best = [value == most and not bound for value, bound in zip(values, is_bound, strict=True)]
    count = sum(is_best)
    return [part / count for part in is_best] if count else None


def _chosen(sample: Sample, options: Sequence[Option], chosen: Sequence[float]) -> dict[str, float]:
    found = {f"{PLACE}{place}": part for place, part in enumerate(chosen, 1)}
    return found | _by_label(sample, options, chosen, prefix=LABELLED[0])


def _by_label(
    sample: Sample, options: Sequence[Option], parts: Sequence[float], *, prefix: str
) -> dict[str, float]:
    labels = sample.references.get(LABELS, ())
    found: dict[str, list[float]] = {prefix + label: [] for label in labels}
    for option, part in zip(options, parts, strict=True) if labels else ():
        found[prefix + labels[option.index]].append(part)
    return {name: fsum(own) for name, own in found.items()}
