"""Answers to classification metrics: of classes, of bins and curves along a number, and AUC.

Rows are answers: 1 for chosen or flagged, 0 for not, a share for a tie. A quotient without a
divisor has no value and is never 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum, sqrt

import numpy as np

from harness.stats.clustered import ShareRows, share_interval
from harness.stats.estimate import Bools, Clusters, Estimate, Floats, Indices, NoValue, ratio
from harness.stats.intervals import Parts, cluster_interval, satterthwaite
from harness.stats.scales import exact_total, student_p, student_t


@dataclass(frozen=True, slots=True)
class ClassMetrics:
    """Precision, recall and F1 of one class, 0 to 1; `n` counts the rows of the divisor."""

    precision: Estimate
    recall: Estimate
    f1: Estimate


def classification_metrics(
    actual: Floats, chosen: Floats, clusters: Clusters
) -> tuple[tuple[ClassMetrics, ...], Estimate]:
    """The metrics of each class, and the mean F1 of the classes that have one.

    Of rows x classes: the shares `chosen`, and 1 where a class is the right one. F1 is 2 hits /
    (chosen + actual), 0 where precision or recall is 0 or has no value (van Rijsbergen 1979). None:
    "too few" without a divisor. Precision and recall have the interval of a share, F1 and its mean
    that of `cluster_interval`, as each is a quotient of sums over rows.
    """
    hits, either = actual * chosen, chosen + actual
    f1, total = ratio(2 * hits.sum(axis=0), either.sum(axis=0)), either.sum(axis=0)
    known = total > 0
    # How far each row moves each F1, and how much it weighs there.
    moves = (2 * hits - f1 * either)[:, known] / total[known]
    weights = either[:, known] / total[known]
    of_class = dict(
        zip(np.flatnonzero(known).tolist(), zip(moves.T, weights.T, strict=True), strict=True)
    )
    none = np.zeros(len(actual))
    classes = tuple(
        ClassMetrics(
            precision=share_interval(ShareRows(hits[:, at], chosen[:, at], clusters.places)),
            recall=share_interval(ShareRows(hits[:, at], actual[:, at], clusters.places)),
            f1=_score(f1[at], *of_class.get(at, (none, none)), clusters),
        )
        for at in range(actual.shape[1])
    )
    macro = f1[known].mean() if known.any() else np.nan
    moved, weighed = (rows.mean(axis=1) if known.any() else none for rows in (moves, weights))
    return classes, _score(macro, moved, weighed, clusters)


def _score(value: float, moves: Floats, weights: Floats, clusters: Clusters) -> Estimate:
    """A score of some rows: how far each moves it, and its weight."""
    if np.isnan(value):
        return Estimate.missing(NoValue.TOO_FEW, n=len(weights))
    there = weights > 0
    own = Clusters.named(clusters.places[there])
    parts = Parts.of(moves[there] / weights[there], 0.0, own, weights[there])
    return cluster_interval(Estimate(float(value), int(there.sum())), parts, is_share=True)


def one_hot(places: Sequence[int] | Indices, count: int) -> Floats:
    """Rows x classes, 1 at each row's place."""
    rows = np.zeros((len(places), count))
    rows[np.arange(len(places)), np.asarray(places, dtype=np.intp)] = 1.0
    return rows


_BINS = 10


def calibration_error(
    confidences: Sequence[float] | Floats, credits: Sequence[float] | Floats
) -> float | None:
    """The expected calibration error over ten bins of equal width (Guo et al. 2017, eq. 3); 0 to 1.

    A confidence on a border belongs to the lower bin. None without any choice.
    """
    sure = np.asarray(confidences, dtype=np.float64)
    if not len(sure):
        return None
    bins = np.maximum(np.ceil(sure * _BINS), 1)
    gaps = sure - np.asarray(credits, dtype=np.float64)
    # Summed exactly, so that the order of the choices changes no digit.
    return fsum(abs(exact_total(gaps[bins == at])) for at in range(1, _BINS + 1)) / len(sure)


_STEPS, _TOLERANCE, _STEEPEST = 40, 1e-9, 25.0
_LEAST = 3  # rows a line of two numbers is fitted to
_LEFT = 1e-9  # a cluster that leaves less to the others decides alone, and has no residual


def line(x: Floats, y: Floats) -> tuple[float, float] | NoValue:
    """Intercept and slope of a logistic regression; "degenerate" where x separates y."""
    if len(x) < _LEAST:
        return NoValue.TOO_FEW
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return NoValue.CONSTANT
    middle, spread = x.mean(), x.std() or 1.0
    z = (x - middle) / spread
    a = b = 0.0
    for _ in range(_STEPS):
        shares = shares_of(a + b * z)
        excess, weights = y - shares, shares * (1 - shares)
        score_a, score_b = excess.sum(), _product(excess, z)
        aa, ab, bb = weights.sum(), _product(weights, z), _product(weights, z * z)
        if not (area := aa * bb - ab * ab) > 1e-12:
            break
        step_a, step_b = (bb * score_a - ab * score_b) / area, (aa * score_b - ab * score_a) / area
        a, b = a + step_a, b + step_b
        if not (abs(a) < _STEEPEST and abs(b) < _STEEPEST):  # it only grows steeper, without end
            break
        if max(abs(step_a), abs(step_b)) <= _TOLERANCE:
            return float(a - b * middle / spread), float(b / spread)
    return NoValue.DEGENERATE


def _product(one: Floats, other: Floats) -> float:
    # Not `@`: how that rounds hangs on the processor.
    return float(np.einsum("ij,j->i", one[None], other)[0])


def shares_of(odds: Floats) -> Floats:
    """Log-odds to shares, without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(odds / 2)), dtype=np.float64)


LEAST_OF_KIND = 10
"""Clusters with a flagged row, and with one that is not, below which a share has no slope."""


def trend(x: Floats, y: Floats, clusters: Clusters) -> Estimate:
    """The slope of a share against x in log-odds a unit, its interval, and the test of no trend.

    The interval is Wald's with a variance robust to clusters and corrected for few and for large
    ones (CR2: Bell & McCaffrey 2002; Pustejovsky & Tipton 2018), and Student's t of Satterthwaite's
    degrees. The test is that of the line of the share along the midranks of x, as a slope of rare
    flags is far from normal. None: "too few" below `LEAST_OF_KIND`; else as for `line`.
    """
    fitted, n = _enough(x, y, clusters), len(x)
    if isinstance(fitted, NoValue):
        return Estimate.missing(fitted, n, clusters=clusters.clusters)
    shares, slope = shares_of(fitted[0] + fitted[1] * x), np.array([[0.0, 1.0]])
    ((error, degrees),) = _errors(x, y - shares, shares * (1 - shares), clusters, slope)
    estimate, count = Estimate(fitted[1], n), clusters.clusters
    ranks = _twice_below(x, x)
    middle = ranks - ranks.mean()
    steep = _product(middle, y) / _product(middle, middle)
    left = y - y.mean() - steep * middle
    ((other, freedom),) = _errors(ranks, left, np.ones(n), clusters, slope)
    if min(error, other) == 0:
        return estimate.unbounded(NoValue.DEGENERATE, clusters=count)
    reach, t = student_t(degrees) * error, steep / other
    ends = fitted[1] - reach, fitted[1] + reach
    found = estimate.between(*ends, clusters=count, degrees=degrees)
    return replace(found, statistic=t, p=student_p(t, freedom))


def _enough(x: Floats, y: Floats, clusters: Clusters) -> tuple[float, float] | NoValue:
    """The logistic line of a share, "too few" where too few clusters have a row of either kind."""
    kinds = (clusters.places[y > 0], clusters.places[y < 1])
    if min(len(np.unique(places)) for places in kinds) < LEAST_OF_KIND:
        return NoValue.TOO_FEW
    return line(x, y)


def logistic_curve(
    x: Floats, y: Floats, clusters: Clusters, at: Floats
) -> tuple[Floats, Floats, Floats] | NoValue:
    """The logistic curve of a share at some places, and the ends of its 95% band.

    Wald's in log-odds, as of `trend`. None: as for `trend`.
    """
    fitted = _enough(x, y, clusters)
    if isinstance(fitted, NoValue):
        return fitted
    shares, rows = shares_of(fitted[0] + fitted[1] * x), np.column_stack([np.ones(len(at)), at])
    found = _errors(x, y - shares, shares * (1 - shares), clusters, rows)
    reach = np.array([student_t(degrees) * error for error, degrees in found])
    odds = fitted[0] + fitted[1] * at
    return shares_of(odds), shares_of(odds - reach), shares_of(odds + reach)


def _errors(
    x: Floats, residuals: Floats, weights: Floats, clusters: Clusters, wanted: Floats
) -> list[tuple[float, float]]:
    """CR2's error of sums of a line's intercept and slope, and its degrees of freedom.

    `wanted` has how often each sum takes both. Rows correlate within clusters as their residuals
    do. All by forms of 2 x 2, so that no digit hangs on a processor's library.
    """
    middle, count = float(x.mean()), clusters.clusters  # so that no digits are lost far from 0
    rows = np.column_stack([np.ones(len(x)), x - middle])
    information = clusters.totals(weights[:, None, None] * rows[:, :, None] * rows[:, None, :])
    (aa, ab), (_, bb) = information.sum(axis=0)
    # The root of its inverse: root x root' is the inverse.
    low = sqrt(bb - ab * ab / aa)
    root = np.array([[1 / sqrt(aa), -ab / aa / low], [0.0, 1 / low]])
    share = np.einsum("ji,gjk,kl->gil", root, information, root)
    half = _inverse_root(np.eye(2) - share)
    scores = np.einsum("gi,ij->gj", clusters.totals(rows * residuals[:, None]), root)
    sizes = np.bincount(clusters.places, minlength=count).astype(np.float64)
    alike = Parts.of(residuals / np.sqrt(np.maximum(weights, _LEFT)), 0.0, clusters).alike
    spread = share * (1 + (sizes - 1) * alike)[:, None, None]
    total = spread.sum(axis=0)
    kernel = np.block([[total, -np.eye(2)], [-np.eye(2), np.zeros((2, 2))]])
    found = []
    for own, slope in wanted:
        taken = np.einsum("ji,j->i", root, np.array([own, slope - own * middle]))
        moved = np.einsum("gij,j->gi", half, taken)
        error = sqrt(float((np.einsum("gi,gi->g", moved, scores) ** 2).sum()))
        columns = np.einsum("mgij,gj->gmi", np.stack([share, spread]), moved).reshape(count, 4)
        diagonal = np.einsum("gi,gij,gj->g", moved, spread, moved)
        found.append((error, satterthwaite(diagonal, columns, kernel)))
    return found


def _inverse_root(matrices: Floats) -> Floats:
    """The inverse of the root of each symmetric matrix of 2 x 2, without what is lost to rounding.

    A cluster that leaves nothing to the others on an axis decides alone there, and has no residual.
    """
    trace = matrices[:, 0, 0] + matrices[:, 1, 1]
    product = matrices[:, 0, 0] * matrices[:, 1, 1] - matrices[:, 0, 1] ** 2
    root = np.sqrt(np.maximum(product, 0))
    is_whole = root > _LEFT * np.maximum(trace, _LEFT)
    base = np.where(is_whole, root * np.sqrt(trace + 2 * root), 1)
    turned = np.eye(2) * trace[:, None, None] - matrices  # the adjugate
    whole = (turned + np.eye(2) * root[:, None, None]) / base[:, None, None]
    one = matrices / np.where(trace > _LEFT, trace, np.inf)[:, None, None] ** 1.5
    return np.where(is_whole[:, None, None], whole, one)


PUBLISHED_EDGES = tuple(step / 4 for step in range(9))
"""The bins of the ImpScore paper: a quarter wide from 0 to 2, the last one closed."""


def bins_of(values: Floats, edges: Sequence[float]) -> Indices:
    """The bin of each value: closed below, open above, the last closed; -1 outside, and for NaN."""
    above = np.searchsorted(np.asarray(edges, dtype=np.float64), values, side="right")
    is_inside = (values >= edges[0]) & (values <= edges[-1]) if len(edges) else False
    return np.where(is_inside, np.minimum(above, len(edges) - 1) - 1, -1)


def equal_mass_edges(values: Sequence[float] | Floats, count: int) -> tuple[float, ...]:
    """The edges of bins of equally many values; fewer where values are equal, none without two."""
    given = np.asarray(values, dtype=np.float64)
    if not len(given) or given.min() == given.max():
        return ()
    return tuple(np.unique(np.quantile(given, np.linspace(0, 1, count + 1))).tolist())


def auc(scores: Floats, is_positive: Sequence[bool] | Bools, clusters: Clusters) -> Estimate:
    """The chance that a positive scores above a negative, ties counting half, with its interval.

    The area under the ROC curve (Hanley and McNeil 1982), 0 to 1. The error is DeLong's (1988), by
    clusters as Obuchowski's (1997). None: "too few" without rows, "constant" where all are of one
    kind. ValueError for a score that is not finite.
    """
    truth = np.asarray(is_positive, dtype=bool)
    if (reason := _without_area(truth, scores)) is not None:
        return Estimate.missing(reason, n=len(truth))
    value, moved, weights = _area_parts(scores, truth)
    parts = Parts.of(moved, 0.0, clusters, weights)
    return cluster_interval(Estimate(value, len(truth)), parts, is_share=True)


def auc_gap(first: Floats, second: Floats, is_positive: Bools, clusters: Clusters) -> Estimate:
    """How much greater the area of the first scores is than that of others of the same rows.

    -1 to 1, with DeLong's error for correlated areas, by clusters; else as `auc`.
    """
    if (reason := _without_area(is_positive, first, second)) is not None:
        return Estimate.missing(reason, n=len(is_positive))
    one, other = (_area_parts(scores, is_positive) for scores in (first, second))
    parts = Parts.of(one[1] - other[1], 0.0, clusters, one[2])
    return cluster_interval(Estimate(one[0] - other[0], len(is_positive)), parts).within(-1, 1)


def _without_area(truth: Bools, *scores: Floats) -> NoValue | None:
    """Why there is no area, if so; ValueError for a score that is not finite."""
    for own in scores:
        if bad := int((~np.isfinite(own)).sum()):
            fact = f"{bad} of {len(own)} scores are not finite"
            raise ValueError(f"{fact}; leave such rows out before")
    if truth.all() or not truth.any():
        return NoValue.CONSTANT if len(truth) else NoValue.TOO_FEW
    return None


def _area_parts(scores: Floats, truth: Bools) -> tuple[float, Floats, Floats]:
    """An area, how far each row moves it, and the weight of each row."""
    below, above = _twice_below(scores, scores[~truth]), _twice_below(-scores, -scores[truth])
    own, others = np.where(truth, truth.sum(), (~truth).sum()), np.where(truth, below, above)
    pairs = int(truth.sum()) * int((~truth).sum())
    value = float(below[truth].sum() / 2) / pairs
    # A text weighs as much as all others of its kind do, and both kinds are half of all.
    return value, 2 * (others / 2 * own / pairs - value), 1 / (2 * own)


def _twice_below(values: Floats, others: Floats) -> Floats:
    """For each value how many of the others are below it, twice, and how many are equal."""
    ends = [np.searchsorted(np.sort(others), values, side=side) for side in ("left", "right")]
    return np.asarray(ends[0] + ends[1], dtype=np.float64)
