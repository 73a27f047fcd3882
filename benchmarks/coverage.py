"""How often the program's 95% intervals hold the truth, and its tests find what is not there.

    python benchmarks/coverage.py                       # all, as Markdown tables
    python benchmarks/coverage.py share auc slope_p --runs 2000

Each trial draws data whose truth is known, and asks the functions behind the printed numbers. A
cell is the percentage of the trials with an interval that hold the truth, its Monte Carlo standard
error, and the percentage without an interval. Every trial is seeded by its name and number.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from harness.stats.agreement import (
    agreement_stats,
    alpha,
    alpha_ci,
    difference_ci,
    mean_jackknife,
    pearson_moves,
    pearsons_without,
)
from harness.stats.classification import (
    auc,
    classification_metrics,
    logistic_curve,
    one_hot,
    shares_of,
    trend,
)
from harness.stats.clustered import ShareRows, paired_gap, share_gap
from harness.stats.comparison import holm, phi, share_given
from harness.stats.correlation import (
    calibrated_acc_eq,
    cross_fitted_acc_eq,
    dataset_pearson,
    document_accuracies,
    document_tau,
    document_taus,
)
from harness.stats.estimate import Clusters, Estimate, NoValue, Resamples
from harness.stats.intervals import mean_interval
from harness.stats.missing import difference_bounds
from harness.stats.operating import tpr_gap_at

Floats = NDArray[np.float64]
Generator = np.random.Generator


class Ends(Protocol):
    """An interval, None where there is none."""

    @property
    def low(self) -> float | None: ...  # noqa: D102
    @property
    def high(self) -> float | None: ...  # noqa: D102


Found = Iterator[tuple[float, Ends]]
"""Truths and their intervals."""
Trial = Callable[[int, Generator], Found]
"""What is found in one sample of so many clusters."""
SIZES = (10, 20, 50, 200)
SEED, DRAWS, ATOM = "1", 400, 1e-9


@dataclass(frozen=True, slots=True)
class Pair:
    """An interval made here of a band."""

    low: float
    high: float


def names(count: int, each: int = 1) -> list[str]:
    """A cluster's name for each row, `each` rows a cluster."""
    return [f"{place:04}" for place in range(count) for _ in range(each)]


def skewed(count: int, draw: Generator) -> NDArray[np.intp]:
    """The cluster of each row, by size lognormal: median 2, most 80."""
    sizes = np.minimum(np.ceil(draw.lognormal(0.8, 1.2, count)), 80).astype(np.intp)
    return np.repeat(np.arange(count), sizes)


def one_large(count: int, draw: Generator) -> NDArray[np.intp]:
    """The cluster of each row: the first has half of them, all others two."""
    del draw
    return np.repeat(np.arange(count), [2 * (count - 1)] + [2] * (count - 1))


Sizes = Callable[[int, Generator], NDArray[np.intp]]


def share_of(count: int, draw: Generator, *, sizes: Sizes) -> Found:
    """A share of .5 to .95 in clusters of unequal size, with an effect of the cluster."""
    p, places = float(draw.uniform(0.5, 0.95)), sizes(count, draw)
    own = draw.normal(size=count)[places] * 0.75 + draw.normal(size=len(places))
    yield p, mean_interval((own < 1.25 * float(ndtri(p))).astype(float), places, is_share=True)


def rating_of(count: int, draw: Generator, *, sizes: Sizes) -> Found:
    """A normal rating in clusters of unequal size, with an effect of the cluster."""
    places = sizes(count, draw)
    own = draw.normal(size=count)[places] * 0.75 + draw.normal(size=len(places))
    yield 0.0, mean_interval(own, places, is_share=False)


def difference_of(count: int, draw: Generator, *, sizes: Sizes) -> Found:
    """Two equally good sets of verdicts in clusters of unequal size."""
    first, second, places = _two_of(count, draw, sizes=sizes)
    yield 0.0, paired_gap(first, second, places)


def _two_of(
    count: int, draw: Generator, *, sizes: Sizes
) -> tuple[Floats, Floats, NDArray[np.intp]]:
    places, shared = sizes(count, draw), draw.normal(size=count)
    sides = [
        (shared + draw.normal(size=count))[places] + draw.normal(size=len(places)) > -0.8
        for _ in range(2)
    ]
    return sides[0].astype(float), sides[1].astype(float), places


def chances(count: int, p: float, icc: float, draw: Generator) -> Floats:
    """The chance of each cluster, p on average."""
    if icc == 0:
        return np.full(count, p)
    return draw.beta(p * (1 / icc - 1), (1 - p) * (1 / icc - 1), count)


def share(count: int, draw: Generator, *, each: int = 1, icc: float = 0) -> Found:
    """Accuracy, hits, false alarms, flip rates: p is anywhere between .02 and .98."""
    p = float(draw.uniform(0.02, 0.98))
    own = np.repeat(chances(count, p, icc, draw), each)
    values = (draw.random(count * each) < own).astype(float).tolist()
    yield p, mean_interval(values, names(count, each), is_share=True)


def given(count: int, draw: Generator) -> Found:
    """How often the second is right where the first is: of .6 of the items."""
    p = float(draw.uniform(0.05, 0.95))
    first, second = draw.random(count) < 0.6, draw.random(count) < p
    readings = first.tolist(), second.tolist()
    yield p, share_given(readings, names(count), given=True)


def flips(count: int, draw: Generator) -> Found:
    """One flip in ten, three perturbed texts an original."""
    own = np.repeat(chances(count, 0.1, 0.3, draw), 3)
    values = (draw.random(count * 3) < own).astype(float).tolist()
    yield 0.1, mean_interval(values, names(count, 3), is_share=True)


SKEWED = np.array([0.03, 0.07, 0.15, 0.35, 0.40])


def rating(count: int, draw: Generator, *, each: int = 1) -> Found:
    """Ratings 1 to 5, most of them high; rows of a cluster share their rating half the time."""
    own = np.repeat(draw.choice(5, count, p=SKEWED), each)
    is_own = draw.random(count * each) < (0.5 if each > 1 else 0)
    values = 1.0 + np.where(is_own, own, draw.choice(5, count * each, p=SKEWED))
    truth = float(SKEWED @ np.arange(1, 6))
    yield truth, mean_interval(values.tolist(), names(count, each), is_share=False)


def taus(count: int, draw: Generator) -> Found:
    """The mean of Kendall's tau of rankings of four sentences."""
    found = _taus(count, draw).tolist()
    yield _mean_tau(), mean_interval(found, names(count), is_share=False)


def _taus(count: int, draw: Generator) -> Floats:
    levels = np.tile(np.arange(4.0), (count, 1))
    return document_taus(levels, levels + draw.normal(size=(count, 4)) * 2)


@cache
def _mean_tau() -> float:
    return float(_taus(100_000, np.random.default_rng(1)).mean())


def difference(count: int, draw: Generator, *, each: int = 1) -> Found:
    """Two sets of verdicts on the same items, an effect of the cluster in both and in each."""
    first, second = _two(count, draw, each=each, lead=0.3, other=1.0)
    spread = sqrt(3 if each > 1 else 2)
    truth = float(ndtr(0.3 / spread) - ndtr(1.0 / spread))
    yield truth, paired_gap(first, second, names(count, each))


def _two(
    count: int, draw: Generator, *, each: int, lead: float, other: float
) -> tuple[Floats, Floats]:
    shared = np.repeat(draw.normal(size=count), each)
    found = []
    for middle in (lead, other):
        effect = np.repeat(draw.normal(size=count), each) if each > 1 else 0
        found.append((shared + effect + draw.normal(size=count * each) > -middle).astype(float))
    return found[0], found[1]


def gap(count: int, draw: Generator, *, each: int = 1) -> Found:
    """Rates of .9 and .7 in two groups, of a fifth and of four fifths of the clusters."""
    sides = []
    for name, size, rate in (("a", count // 5, 0.9), ("b", count - count // 5, 0.7)):
        effect = np.repeat(draw.normal(size=size), each) if each > 1 else 0.0
        spread, noise = (sqrt(2) if each > 1 else 1.0), draw.normal(size=size * each)
        is_hit = effect + noise < spread * float(ndtri(rate))
        own = [f"{name}{place}" for place in names(size, each)]
        sides.append(ShareRows(is_hit.astype(float).tolist(), [1.0] * len(own), own))
    yield 0.2, share_gap(*sides)


def correlation_of_verdicts(count: int, draw: Generator) -> Found:
    """Phi of two verdicts that agree in seven of ten items, both right in half."""
    first = draw.random(count) < 0.5
    second = np.where(draw.random(count) < 0.7, first, ~first)
    yield 0.4, phi(first.tolist(), second.tolist(), names(count))


def area(count: int, draw: Generator, *, apart: float, each: int = 1) -> Found:
    """Texts of two kinds, half of each, `apart` standard deviations; a cluster has one effect."""
    truth = np.arange(count * each) % 2 == 0
    effect = np.repeat(draw.normal(size=count), each) if each > 1 else 0
    scores = effect + draw.normal(size=count * each) + apart * truth
    # The effect is between texts of two clusters, not between those of one.
    far, near = (float(ndtr(apart / spread)) for spread in (2 if each > 1 else sqrt(2), sqrt(2)))
    clusters = Clusters.named(names(count, each))
    yield far + (near - far) / count, auc(scores, truth.tolist(), clusters)


CONFUSED = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])


def classes(count: int, draw: Generator, *, what: str, each: int = 1) -> Found:
    """Three classes in equal shares; rows of a cluster have the same answer half the time."""
    actual = np.repeat(draw.integers(0, 3, count), each)
    at = draw.random(count * each)
    if each > 1:
        at = np.where(draw.random(count * each) < 0.5, np.repeat(at[::each], each), at)
    chosen = (at[:, None] > CONFUSED.cumsum(axis=1)[actual]).sum(axis=1)
    rows = one_hot(actual.tolist(), 3), one_hot(chosen.tolist(), 3)
    (first, *_), macro = classification_metrics(*rows, Clusters.named(names(count, each)))
    hits, chosen = CONFUSED.diagonal(), CONFUSED.sum(axis=0)
    f1 = 2 * hits / (1 + chosen)
    yield {
        "precision": lambda: (hits[0] / chosen[0], first.precision),
        "recall": lambda: (hits[0], first.recall),
        "f1": lambda: (f1[0], first.f1),
        "macro_f1": lambda: (f1.mean(), macro),
    }[what]()


AT = np.array([0.1, 0.5, 1.0, 1.5, 1.9])


def slope(count: int, draw: Generator, *, what: str) -> Found:
    """A share that rises by 1 in log-odds a unit, independent texts at 0 to 2."""
    x = draw.uniform(0, 2, count)
    y = (draw.random(count) < shares_of(x - 1)).astype(float)
    clusters = Clusters.named(names(count))
    if what == "slope":
        found = trend(x, y, clusters)
        if found.value is not None:
            yield 1.0, found
        return
    curve = logistic_curve(x, y, clusters, AT)
    if not isinstance(curve, NoValue):
        truth = shares_of(AT - 1)
        for one in zip(truth.tolist(), *(ends.tolist() for ends in curve[1:]), strict=True):
            yield one[0], Pair(*one[1:])


LEVELS = np.array([0, 0.3, 0.6, 0.9])


def panel(count: int, draw: Generator) -> tuple[Floats, Floats, Floats]:
    """Means of three raters, a judge, and the ratings: documents x 4 systems (x 3)."""
    truth = draw.normal(size=(count, 1)) * 0.6 + LEVELS + draw.normal(size=(count, 4)) * 0.7
    noise = draw.normal(size=(count, 4, 3)) * 0.8
    raters = np.clip(np.round(3 + truth[:, :, None] + noise), 1, 5)
    own = draw.normal(size=(count, 1)) * 0.4 + draw.normal(size=(count, 4)) * 0.7
    return raters.mean(axis=2), np.clip(np.round(3 + 0.7 * truth + own), 1, 5), raters


@cache
def panel_truths() -> dict[str, float]:
    """The statistics of very many documents."""
    human, judge, raters = panel(40_000, np.random.default_rng(1))
    epsilon = calibrated_acc_eq(human[:6000], judge[:6000])[1][0]
    shares = document_accuracies(human, judge, epsilon=epsilon)
    found = {
        "pearson_dataset": dataset_pearson(human, judge).value,
        "kendall_document": document_tau(human, judge).value,
        "acc_eq": float(np.nanmean(shares)),
        "alpha": alpha(raters[:15_000].reshape(-1, 3), "interval").value,
    }
    return {name: value for name, value in found.items() if value is not None}


def judged(count: int, draw: Generator, *, what: str) -> Found:
    """A judge with three raters of documents x 4 systems."""
    human, judge, raters = panel(count, draw)
    resamples = Resamples.of(names(count), seed=SEED, draws=DRAWS)
    truth = panel_truths()[what]
    if what == "alpha":
        yield truth, alpha_ci(raters, resamples, scale="interval")
    elif what == "acc_eq":
        fit, _, shares = cross_fitted_acc_eq(human, judge, names(count), seed=SEED)
        yield truth, mean_jackknife(shares, fit, resamples, range_="share")
    else:
        yield truth, agreement_stats(human, judge, resamples)[what]


def tpr_at(
    count: int, draw: Generator, *, lead: float, fpr: float, sizes: Sizes | None = None
) -> Found:
    """The gap of two models' TPR at an FPR, half of the texts of each kind; scores correlate."""
    places = np.arange(count) if sizes is None else sizes(count, draw)
    is_positive = draw.random(len(places)) < 0.5
    common = draw.normal(size=count)[places] * sqrt(0.5)
    own = common + draw.normal(size=(2, len(places))) * sqrt(0.5)
    scores = own + np.array([[1.0 + lead], [1.0]]) * is_positive
    truth = float(ndtr(1 + lead + ndtri(fpr)) - ndtr(1 + ndtri(fpr)))
    resamples = Resamples.of([f"{place:04}" for place in places], seed=SEED, draws=DRAWS)
    yield truth, tpr_gap_at((scores[0], scores[1]), is_positive, resamples, fpr)


def refusing(count: int, draw: Generator, refused: float) -> tuple[Floats, Floats]:
    """Verdicts of two models of an accuracy of .7; the second refuses what it is least sure of."""
    hard = draw.normal(size=count)
    sure = sqrt(0.6) * hard + sqrt(0.4) * draw.normal(size=(2, count))
    right = (sure < ndtri(0.7)).astype(float)
    right[1, np.argsort(sure[1])[count - round(refused * count) :]] = np.nan
    return right[0], right[1]


def bounded(count: int, draw: Generator) -> Found:
    """A difference between all wrong and all right of what one model refuses, a fifth."""
    low, high = difference_bounds(*refusing(count, draw, 0.2), np.arange(count), ((0, 1), (0, 1)))
    yield 0.0, Pair(low or 0.0, high or 0.0)


BIAS = np.array([0.25, -0.3, 0.2, 0.1, -0.35, 0.1])
STRENGTH = np.arange(6) * 0.15


def systems(count: int, draw: Generator, *, what: str) -> Found:
    """Six systems; the judge has a bias for each, which more documents do not remove."""
    truth = draw.normal(size=(count, 1)) * 0.6 + STRENGTH + draw.normal(size=(count, 6)) * 0.7
    human = truth + draw.normal(size=(count, 6)) * 0.45
    own = draw.normal(size=(count, 1)) * 0.4 + draw.normal(size=(count, 6)) * 0.7
    resamples = Resamples.of(names(count), seed=SEED, draws=DRAWS)
    found = agreement_stats(human, 0.7 * truth + BIAS + own, resamples)
    means = STRENGTH, 0.7 * STRENGTH + BIAS
    ranked = [np.argsort(np.argsort(one)).astype(float) for one in means]
    value = float(np.corrcoef(*(ranked if what == "spearman" else means))[0, 1])
    yield value, found[f"{what}_system"]


COVERAGE: dict[str, tuple[str, Trial]] = {
    "share": ("share of independent items", share),
    "share_icc0": ("share, clusters of 5, ICC 0", partial(share, each=5)),
    "share_icc3": ("share, clusters of 5, ICC .3", partial(share, each=5, icc=0.3)),
    "share_icc7": ("share, clusters of 5, ICC .7", partial(share, each=5, icc=0.7)),
    "share_skewed": ("share, clusters of 1 to 80", partial(share_of, sizes=skewed)),
    "share_large": ("share, half in one cluster", partial(share_of, sizes=one_large)),
    "rating_skewed": ("mean rating, clusters of 1 to 80", partial(rating_of, sizes=skewed)),
    "rating_large": ("mean rating, half in one cluster", partial(rating_of, sizes=one_large)),
    "difference_skewed": ("difference, clusters of 1 to 80", partial(difference_of, sizes=skewed)),
    "difference_large": (
        "difference, half in one cluster",
        partial(difference_of, sizes=one_large),
    ),
    "flips": ("flip rate .1, clusters of 3, ICC .3", flips),
    "share_given": ("`right_given_right` (.6 of the items)", given),
    "rating": ("mean rating 1-5, skewed", rating),
    "rating_clustered": ("mean rating, clusters of 5", partial(rating, each=5)),
    "tau": ("mean tau or rho of rankings", taus),
    "difference": ("difference of accuracies", difference),
    "difference_clustered": ("difference, clusters of 5", partial(difference, each=5)),
    "gap": ("gap of .9 and .7, a fifth in one group", gap),
    "gap_clustered": ("gap of .9 and .7, clusters of 3", partial(gap, each=3)),
    "phi": ("phi .4", correlation_of_verdicts),
    "auc": ("AUC .64, half of each kind", partial(area, apart=0.5)),
    "auc_high": ("AUC .92, half of each kind", partial(area, apart=2.0)),
    "auc_clustered": ("AUC .84, clusters of 4", partial(area, apart=2.0, each=4)),
    "precision": ("precision .70", partial(classes, what="precision")),
    "recall": ("recall .70", partial(classes, what="recall")),
    "recall_clustered": ("recall, clusters of 5", partial(classes, what="recall", each=5)),
    "f1": ("F1 of a class .70", partial(classes, what="f1")),
    "macro_f1": ("macro F1 .63", partial(classes, what="macro_f1")),
    "macro_f1_clustered": ("macro F1, clusters of 5", partial(classes, what="macro_f1", each=5)),
    "slope": ("logistic slope 1", partial(slope, what="slope")),
    "band": ("logistic curve, five places", partial(slope, what="band")),
    "pearson_dataset": ("`pearson_dataset`", partial(judged, what="pearson_dataset")),
    "kendall_document": ("`kendall_document`", partial(judged, what="kendall_document")),
    "acc_eq": ("`acc_eq`, cross-fitted", partial(judged, what="acc_eq")),
    "alpha": ("alpha, interval level", partial(judged, what="alpha")),
    "pearson_system": ("`pearson_system`, 6 systems", partial(systems, what="pearson")),
    "tpr_at": ("two models' TPR at an FPR of .2, alike", partial(tpr_at, lead=0.0, fpr=0.2)),
    "tpr_at_apart": ("the same, .56 and .75", partial(tpr_at, lead=0.5, fpr=0.2)),
    "bounded": ("difference, a fifth refused, if all were wrong or right", bounded),
    "spearman_system": ("`spearman_system`, 6 systems", partial(systems, what="spearman")),
}
Test = Callable[[Generator], float | None]
"""A p-value of data without any effect; None where there is none."""


def null_pairs(draw: Generator, *, count: int, each: int, what: str) -> float | None:
    """Two equally good sets of verdicts."""
    if each:
        first, second = _two(count, draw, each=each, lead=0.5, other=0.5)
        found = paired_gap(first, second, names(count, each))
    else:
        found = paired_gap(*_two_of(count, draw, sizes=skewed))
    if what == "p":
        return found.p
    is_out = found.low is not None and found.high is not None and not found.low <= 0 <= found.high
    return 0.0 if is_out else 1.0


def null_trend(draw: Generator, *, count: int, each: int, rate: float = 0.65) -> float | None:
    """Shares that do not depend on the number; clusters of several texts have an effect."""
    places = np.repeat(np.arange(count), each) if each else skewed(count, draw)
    x = draw.uniform(0, 2, count)[places] + draw.normal(size=len(places)) * 0.05
    effect = draw.normal(size=count)[places] if each != 1 else 0
    y = (draw.random(len(places)) < shares_of(np.log(rate / (1 - rate)) + effect)).astype(float)
    return trend(x, y, Clusters.named(places)).p


def null_judges(
    draw: Generator, *, count: int, each: int, sd: float, judges: int = 2
) -> float | None:
    """Equally good judges with errors of their own in each dialogue of `each` documents.

    Of several the smallest p of all pairs by Pearson's r, corrected by Holm.
    """

    def effect() -> Floats:
        return np.repeat(draw.normal(size=(count, 1)), each, axis=0) * sd

    truth, of_all = draw.normal(size=(count * each, 4)), effect()
    human = truth + of_all + draw.normal(size=truth.shape) * 0.5
    resamples = Resamples.of(names(count, each), seed=SEED)
    made = [truth + of_all + effect() + draw.normal(size=truth.shape) * 0.6 for _ in range(judges)]
    r = [dataset_pearson(human, one).value or 0.0 for one in made]
    rests = [pearsons_without(human, one, resamples) for one in made]
    moves = [pearson_moves(human, one) for one in made]
    found = [
        difference_ci(
            Estimate(r[a] - r[b], count), rests[a] - rests[b], moves[a] - moves[b], resamples
        ).p
        for a, b in combinations(range(judges), 2)
    ]
    return min(p for p in holm(found) if p is not None)


def null_tpr(
    draw: Generator, *, count: int, fpr: float, sizes: Sizes | None = None
) -> float | None:
    """Two equal models' TPR at an FPR, each at a threshold that is chosen on the same texts."""
    ((_, found),) = tpr_at(count, draw, lead=0.0, fpr=fpr, sizes=sizes)
    return found.p if isinstance(found, Estimate) else None


def null_refusals(draw: Generator, *, count: int, refused: float, what: str) -> float | None:
    """Two equal models, of which one refuses what is hard: the p of what it says without a word.

    "better" is said only where what is missing cannot turn the sign; "answered" is p alone.
    """
    first, second = refusing(count, draw, refused)
    both = ~np.isnan(second)
    found = paired_gap(first[both], second[both], np.arange(count)[both])
    least, most = difference_bounds(first, second, np.arange(count), ((0, 1), (0, 1)))
    worst = least if (found.value or 0) > 0 else most
    is_sure = what == "answered" or (worst or 0) * (found.value or 0) > 0
    return found.p if is_sure else 1.0


def null_gap(draw: Generator, *, count: int, rate: float) -> float | None:
    """One rate in two groups, of a fifth and of four fifths of clusters of unequal size."""
    places = skewed(count, draw)
    effect = draw.normal(size=count)[places] * 0.75 + draw.normal(size=len(places))
    hits, is_few = (effect < 1.25 * float(ndtri(rate))).astype(float), places < count // 5
    sides = [
        ShareRows(hits[own].tolist(), [1.0] * int(own.sum()), [*map(str, places[own])])
        for own in (is_few, ~is_few)
    ]
    return share_gap(*sides).p


def _setting(count: int, each: int, one: str = "items") -> str:
    if not each:
        return f"{count} clusters of unequal size"
    return f"{count} {one}" if each == 1 else f"{count} clusters of {each}"


def _pairs_of(what: str) -> tuple[tuple[str, Test], ...]:
    sizes = ((10, 1), (20, 1), (56, 1), (200, 1), (6, 5), (10, 5), (20, 5), (10, 0), (50, 0))
    return tuple(
        (_setting(*size), partial(null_pairs, count=size[0], each=size[1], what=what))
        for size in sizes
    )


def _trends() -> tuple[tuple[str, Test], ...]:
    plain = ((20, 1), (40, 1), (100, 1), (10, 4), (20, 5), (50, 5), (20, 0), (50, 0))
    rare = ((100, 0.05), (200, 0.05), (400, 0.02), (400, 0.05), (1000, 0.01), (1000, 0.02))
    found = [
        (_setting(*size, "texts"), partial(null_trend, count=size[0], each=size[1]))
        for size in plain
    ]
    found += [
        (f"{count} texts, {rate:g} flagged", partial(null_trend, count=count, each=1, rate=rate))
        for count, rate in rare
    ]
    return tuple(found)


TESTS: dict[str, tuple[str, tuple[tuple[str, Test], ...]]] = {
    "paired": ("difference of right and wrong", _pairs_of("p")),
    "excludes_0": ("interval of a difference leaves out 0", _pairs_of("interval")),
    "gap_p": (
        "gap of two rates",
        tuple(
            (
                f"{count} clusters of unequal size, rate {rate:g}",
                partial(null_gap, count=count, rate=rate),
            )
            for count in (40, 100)
            for rate in (0.05, 0.5, 0.9)
        ),
    ),
    "slope_p": ("slope", _trends()),
    "judges": (
        "difference of two judges, Pearson",
        tuple(
            (
                f"{count} dialogues x {each}, effects {sd}",
                partial(null_judges, count=count, each=each, sd=sd),
            )
            for count, each, sd in ((10, 4, 0.8), (25, 4, 0.8), (25, 4, 0.4), (40, 1, 0.8))
        ),
    ),
    "tpr_p": (
        "two models' TPR at an FPR",
        tuple(
            (
                f"{_setting(count, sizes is None, 'texts')}, FPR {fpr:g}",
                partial(null_tpr, count=count, fpr=fpr, sizes=sizes),
            )
            for count, fpr, sizes in (
                *((100, 0.2, None), (200, 0.1, None), (1000, 0.05, None), (1000, 0.1, None)),
                *((50, 0.1, skewed), (200, 0.05, skewed)),
            )
        ),
    ),
    **{
        f"refusals_{what}": (
            title,
            tuple(
                (
                    f"{count} items, {refused:.0%} refused",
                    partial(null_refusals, count=count, refused=refused, what=what),
                )
                for count, refused in ((200, 0.1), (200, 0.3), (1000, 0.1), (1000, 0.3))
            ),
        )
        for what, title in (
            ("better", "better, where one refuses what is hard"),
            ("answered", "the same on what both answered"),
        )
    },
    "many_judges": (
        "any pair of ten judges, Pearson, Holm",
        (
            (
                "40 dialogues x 4, effects 0.4",
                partial(null_judges, count=40, each=4, sd=0.4, judges=10),
            ),
        ),
    ),
}


def numbers(name: str, place: int, trial: int) -> Generator:
    """The random numbers of one trial."""
    return np.random.default_rng([*name.encode(), place, trial])


def covered(name: str, count: int, runs: int) -> str:
    """One cell: the percentage covered, its error, and the percentage without an interval."""
    held, without = list[bool](), 0
    for trial in range(runs):
        found = list(COVERAGE[name][1](count, numbers(name, count, trial)))
        ends = [(t, e.low, e.high) for t, e in found]
        without += not ends or any(low is None for _, low, _ in ends)
        held += [
            low - ATOM <= truth <= high + ATOM
            for truth, low, high in ends
            if low is not None and high is not None
        ]
    if without > runs / 2:
        return f"none in {100 * without / runs:.0f} %"
    cell = _share(held)
    return cell if without == 0 else f"{cell} ({100 * without / runs:.1f} none)"


def _share(held: Sequence[bool]) -> str:
    part = float(np.mean(held))
    return f"{100 * part:.1f} ±{100 * sqrt(part * (1 - part) / len(held)):.1f}"


def rejected(name: str, place: int, runs: int) -> str:
    """One cell: the percentage of p-values of .05 or less, and its error."""
    test = TESTS[name][1][place][1]
    found = [test(numbers(name, place, trial)) for trial in range(runs)]
    return _share([p is not None and p <= 0.05 for p in found])


def tables(wanted: Sequence[str], runs: int, sizes: Sequence[int] = SIZES) -> Iterator[str]:
    """The lines of both tables, as Markdown."""
    if of := [name for name in COVERAGE if name in wanted]:
        yield f"| interval | {' | '.join(f'{size} clusters' for size in sizes)} |"
        yield f"|---|{'---|' * len(sizes)}"
        for name in of:
            cells = [covered(name, size, runs) for size in sizes]
            yield f"| {COVERAGE[name][0]} | {' | '.join(cells)} |"
        yield ""
    if of := [name for name in TESTS if name in wanted]:
        yield "| test | data without an effect | p <= .05, % |"
        yield "|---|---|---|"
        for name in of:
            title, settings = TESTS[name]
            for place, (setting, _) in enumerate(settings):
                yield f"| {title} | {setting} | {rejected(name, place, runs)} |"


def main() -> None:
    """Print the tables of the quantities named, or of all."""
    known = [*COVERAGE, *TESTS]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--runs", type=int, default=1000, help="trials a cell")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of clusters")
    args = parser.parse_args()
    if unknown := sorted(set(args.names) - set(known)):
        sys.exit(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    sizes = tuple(int(size) for size in args.sizes.split(","))
    for line in tables(args.names or known, args.runs, sizes):
        print(line, flush=True)


if __name__ == "__main__":
    main()
