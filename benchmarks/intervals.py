"""How often 95% intervals hold the truth in settings drawn at random, and in which least often.

    python benchmarks/intervals.py                 # all, as a Markdown table
    python benchmarks/intervals.py share auc --runs 200

`coverage.py` has settings that were chosen; here each trial draws its own, as in `statements.py`.
"""
# ruff: noqa: E402 - of the path that imports need

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import exp, sqrt
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.coverage import ATOM, DRAWS, SEED, Ends, Generator
from benchmarks.settings import Setting
from benchmarks.statements import STRATA, cell
from harness.stats.agreement import jackknife_ci, pearsons_without
from harness.stats.classification import auc
from harness.stats.clustered import ShareRows, paired_gap, share_gap
from harness.stats.correlation import dataset_pearson
from harness.stats.estimate import Clusters, Resamples
from harness.stats.intervals import mean_interval
from harness.stats.operating import tpr_gap_at

LEAST = 80
"""The trials that a stratum has at least."""


def two_rates(one: Setting, draw: Generator) -> tuple[float, float]:
    """The rate of a setting, and another that is up to .4 from it."""
    return one.rate, float(np.clip(one.rate + draw.uniform(-0.4, 0.4), 0.02, 0.98))


def named(one: Setting) -> Resamples:
    """The clusters of a setting, by names in their order."""
    return Resamples.of([f"{place:04}" for place in one.places], seed=SEED, draws=DRAWS)


def share(one: Setting, draw: Generator) -> tuple[float, Ends]:
    """A share of items."""
    hits = (one.latents(draw, 1)[0] < ndtri(one.rate)).astype(float)
    return one.rate, mean_interval(hits, one.places, is_share=True)


def rating(one: Setting, draw: Generator) -> tuple[float, Ends]:
    """A mean of normal numbers, or of lognormal ones."""
    values, is_skewed = one.latents(draw, 1)[0], one.rate < 0.5
    values = np.exp(values / 2) if is_skewed else values
    return exp(1 / 8) if is_skewed else 0.0, mean_interval(values, one.places, is_share=False)


def difference(one: Setting, draw: Generator) -> tuple[float, Ends]:
    """A difference of two shares on the same items."""
    first, second = two_rates(one, draw)
    hits = one.latents(draw, 2) < ndtri([[first], [second]])
    return first - second, paired_gap(hits[0], hits[1], one.places)


def gap(one: Setting, draw: Generator) -> tuple[float, Ends]:
    """A gap of the shares of two groups, whose clusters are whole or not."""
    rates, places = two_rates(one, draw), one.places
    part, is_whole = draw.uniform(0.2, 0.8), draw.random() < 0.5
    is_first = draw.random(one.clusters)[places] < part if is_whole else None
    is_first = draw.random(len(places)) < part if is_first is None else is_first
    hits = one.latents(draw, 1)[0] < ndtri(np.where(is_first, *rates))
    names = np.array([f"{place:04}" for place in places])
    sides = (ShareRows.alike(hits[own] * 1.0, names[own].tolist()) for own in (is_first, ~is_first))
    return rates[0] - rates[1], share_gap(*sides)


def area(one: Setting, draw: Generator) -> tuple[float, Ends]:
    """The AUC of texts whose scores correlate within clusters."""
    places, apart = one.places, 2.5 * one.rate
    truth = draw.random(len(places)) < 0.5
    scores = one.latents(draw, 1)[0] + apart * truth
    own = one.design("own").uniform(0, 0.7, 2)
    alike = one.alike * own[0] + (1 - one.alike) * own[1]
    counts = [np.bincount(places[side], minlength=one.clusters) for side in (truth, ~truth)]
    within = float((counts[0] * counts[1]).sum()) / max(1, counts[0].sum() * counts[1].sum())
    near, far = (float(ndtr(apart / sqrt(2 * left))) for left in (1 - alike, 1.0))
    clusters = Clusters.named(places.astype(np.intp))
    return near * within + far * (1 - within), auc(scores, truth, clusters)


def correlation(one: Setting, draw: Generator) -> tuple[float, Ends]:
    """Pearson's r of two judges' ratings of the same texts."""
    clusters = named(one)
    first, second = (side[:, None] for side in one.latents(draw, 2))
    found, rests = dataset_pearson(first, second), pearsons_without(first, second, clusters)
    return one.alike, jackknife_ci(found, rests, "correlation", clusters)


def operating(one: Setting, draw: Generator) -> tuple[float, Ends]:
    """The gap of two models' TPR at an FPR, each with a threshold of its own."""
    fpr, lead = float(draw.choice([0.05, 0.1, 0.2])), float(draw.uniform(-1, 1))
    is_positive = draw.random(len(one.places)) < draw.uniform(0.3, 0.7)
    shifts = np.array([[1.2 + lead / 2], [1.2 - lead / 2]])
    scores = one.latents(draw, 2) + shifts * is_positive
    truth = float(-np.diff(ndtr(shifts[:, 0] + ndtri(fpr)))[0])
    return truth, tpr_gap_at((scores[0], scores[1]), is_positive, named(one), fpr)


Trial = Callable[[Setting, Generator], tuple[float, Ends]]
TRIALS: Mapping[str, tuple[str, Trial]] = {
    "share": ("share", share),
    "rating": ("mean rating", rating),
    "difference": ("difference of shares", difference),
    "gap": ("gap of two groups", gap),
    "auc": ("AUC", area),
    "pearson": ("`pearson_dataset`", correlation),
    "fpr": ("TPR of two models at an FPR of .05 to .2", operating),
}


def row(name: str, runs: int) -> str:
    """The row of an interval: how often it held the truth, and in which stratum least often."""
    title, trial = TRIALS[name]
    known = list[tuple[Setting, float]]()
    for number in range(runs):
        draw = np.random.default_rng([*name.encode(), number])
        one = Setting.drawn(draw)
        truth, found = trial(one, draw)
        if found.low is not None and found.high is not None:
            known.append((one, float(found.low - ATOM <= truth <= found.high + ATOM)))
    parts = {
        stratum: own
        for stratum, holds in STRATA.items()
        if not stratum.endswith(("models", "missing"))
        and len(own := [held for one, held in known if holds(one)]) >= min(LEAST, runs / 12)
    }
    worst = min(parts, key=lambda stratum: float(np.mean(parts[stratum])))
    of = f"{cell(parts[worst])} | {worst} ({len(parts[worst])})"
    return f"| {title} | {len(known)} | {cell([held for _, held in known])} | {of} |"


def table(wanted: Sequence[str], runs: int) -> Iterator[str]:
    """The lines of the table, as Markdown."""
    yield "| interval | trials | held, % | worst setting, % | which (trials) |"
    yield "|---|---|---|---|---|"
    for name in wanted:
        yield row(name, runs)


def main() -> None:
    """Print the rows named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TRIALS))
    parser.add_argument("--runs", type=int, default=1000, help="trials a row")
    args = parser.parse_args()
    if unknown := sorted(set(args.names) - set(TRIALS)):
        sys.exit(f"unknown: {', '.join(unknown)}; known: {', '.join(TRIALS)}")
    for line in table(args.names or [*TRIALS], args.runs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
