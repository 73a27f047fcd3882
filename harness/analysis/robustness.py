"""A run of a perturbed sample set to flip rates: how many verdicts and answers change.

Each perturbed sample is compared with its original in the same run, under the same variant,
decoding and judge. Perturbations that keep the meaning and others never share a row.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.analysis.run_views import RIGHT_OR_WRONG, RunView, describe_run, views
from harness.analysis.stored_runs import StoredRun
from harness.errors import StoreError
from harness.pipeline.transforms import BY, FROM, KEEPS
from harness.stats.intervals import Interval, mean_interval
from harness.storage.runs import JudgeEntry

KEEPING: Final = "all that keep the meaning"
OTHERS: Final = "all that may not"
Answers = Mapping[tuple[str, str, str], str | None]


@dataclass(frozen=True, slots=True)
class FlipRate:
    """One perturbation under one variant, decoding and judge, over `n` pairs with both verdicts.

    `value`, 0 to 1, is the share of pairs whose verdicts differ, with its interval over clusters
    of originals; `to_wrong` and `to_right` count the verdicts that were wholly right and are
    wholly wrong, and the reverse. `answers` is the share that choose another answer, None where
    answers are no choices. `difference` is the mean verdict of the perturbed less that of the
    originals. `missing` pairs lack a verdict, `unmatched` samples lack their original. What has
    no value is None, with the `reason`.
    """

    task: str
    model: str
    variant: str
    decoding: str
    judge: str
    perturbation: str
    keeps_meaning: bool
    value: float | None
    low: float | None
    high: float | None
    n: int
    clusters: int
    to_wrong: int | None
    to_right: int | None
    answers: float | None
    answers_low: float | None
    answers_high: float | None
    original: float | None
    perturbed: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    missing: int
    unmatched: int
    reason: str | None
    signature: str


@dataclass(frozen=True, slots=True)
class _Pair:
    """The verdicts of an original and of its perturbed sample, None if missing; the answers."""

    perturbation: str
    keeps_meaning: bool
    cluster: str
    before: float | None
    after: float | None
    answers: tuple[str | None, str | None]
    is_matched: bool


def flip_rows(run: StoredRun, judges: Sequence[JudgeEntry], *, seed: str = "0") -> list[FlipRate]:
    """Every perturbation by every judge, then those that keep the meaning and the others."""
    answers = {(row.variant, row.decoding, row.sample.id): row.answer for row in run.rows}
    if not any(BY in row.sample.references for row in run.rows):
        raise StoreError(
            f"{describe_run(run.file)} has no perturbed samples; make some with `harness perturb "
            f"--task {run.file.run.task}`, and run the task that this writes"
        )
    has_choices = run.file.task.has_choices
    return [
        _row(view, name, pairs, seed=seed, has_choices=has_choices)
        for judge in judges
        for view in views(run, judge)
        for name, pairs in _parts(list(_pairs(view, answers)))
    ]


def _pairs(view: RunView, answers: Answers) -> Iterator[_Pair]:
    for name, score in view.scores.items():
        references = score.sample.references
        if BY not in references:
            continue
        origin = references[FROM][0]
        original = view.scores.get(origin)
        before, after = (answers.get((view.variant, view.decoding, i)) for i in (origin, name))
        yield _Pair(
            perturbation=references[BY][0],
            keeps_meaning=references[KEEPS][0] == "yes",
            cluster=score.sample.cluster,
            before=original.value if original else None,
            after=score.value,
            answers=(before, after),
            is_matched=original is not None,
        )


def _parts(pairs: Sequence[_Pair]) -> Iterator[tuple[str, list[_Pair]]]:
    """The pairs by perturbation, then all that keep the meaning, then all others."""
    for name in dict.fromkeys(pair.perturbation for pair in pairs):
        yield name, [pair for pair in pairs if pair.perturbation == name]
    for name, keeps in ((KEEPING, True), (OTHERS, False)):
        members = [pair for pair in pairs if pair.keeps_meaning is keeps]
        if members:
            yield name, members


def _row(
    view: RunView, name: str, pairs: Sequence[_Pair], *, seed: str, has_choices: bool
) -> FlipRate:
    matched = sum(pair.is_matched for pair in pairs)
    read = [pair for pair in pairs if None not in (pair.before, pair.after)]
    verdicts = [(pair.before or 0.0, pair.after or 0.0) for pair in read]
    clusters = [pair.cluster for pair in read]
    is_decided = view.judge.metric == RIGHT_OR_WRONG
    flips = [(a != b, c) for (a, b), c in zip(verdicts, clusters, strict=True) if is_decided]
    chosen = [pair for pair in read if has_choices and None not in pair.answers]
    changes = [(pair.answers[0] != pair.answers[1], pair.cluster) for pair in chosen]
    flip, change = _share(flips, seed=seed), _share(changes, seed=seed)
    moved = mean_interval([after - before for before, after in verdicts], clusters, seed=seed)
    return FlipRate(
        task=view.file.run.task,
        model=view.file.model.name,
        variant=view.variant,
        decoding=view.decoding,
        judge=view.judge.name,
        perturbation=name,
        keeps_meaning=pairs[0].keeps_meaning,
        value=flip.value,
        low=flip.low,
        high=flip.high,
        n=len(read),
        clusters=len(set(clusters)),
        to_wrong=verdicts.count((1.0, 0.0)) if is_decided else None,
        to_right=verdicts.count((0.0, 1.0)) if is_decided else None,
        answers=change.value,
        answers_low=change.low,
        answers_high=change.high,
        original=_mean([before for before, _ in verdicts]),
        perturbed=_mean([after for _, after in verdicts]),
        difference=moved.value,
        difference_low=moved.low,
        difference_high=moved.high,
        missing=matched - len(read),
        unmatched=len(pairs) - matched,
        reason=_lack(verdicts, is_decided=is_decided),
        signature=view.signature(view.decoding),
    )


def _lack(verdicts: Sequence[tuple[float, float]], *, is_decided: bool) -> str | None:
    if not verdicts:
        return "no pair with both verdicts"
    return None if is_decided else "verdicts are not right or wrong: see the difference"


def _share(flags: Sequence[tuple[bool, str]], *, seed: str) -> Interval:
    """The share of flags that hold, with its interval over their clusters."""
    return mean_interval([float(is_so) for is_so, _ in flags], [c for _, c in flags], seed=seed)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
