"""How often the 95 % intervals of agreement hold what very many documents give: simulated."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest

from harness.stats.agreement import (
    agreement_stats,
    alpha_ci,
    alpha_with_each,
    jackknife_ci,
    mean_jackknife,
    pearsons_without,
)
from harness.stats.correlation import cross_fitted_acc_eq, dataset_pearson
from harness.stats.estimate import Estimate, Floats, Resamples

Numbers = np.random.Generator
# What people and judges think of the systems: r of the means .9 and less, far from its end.
BY_PEOPLE, BY_JUDGE = np.array([0, 0.3, 0.6, 0.9, 0.4, 0.1]), np.array([0.2, 0.1, 0.9, 0.6, 0.7, 0])
NAMES = (
    *("dataset_pearson", "document_tau", "document_tau_zero", "acc_eq"),
    *("alpha", "alpha_with_each", "difference", "system_pearson", "system_spearman"),
)


def draw(random: Numbers, clusters: int, turns: int) -> tuple[Floats, Floats, Floats]:
    """Ratings 1 to 5 of documents by three people and by two judges, alike within a cluster."""
    rows = clusters * turns

    def of_clusters(spread: float) -> Floats:
        return np.repeat(random.normal(size=(clusters, 1)) * spread, turns, axis=0)

    systems = len(BY_PEOPLE)
    own = of_clusters(0.5) + random.normal(size=(rows, 1)) * 0.6
    own = own + random.normal(size=(rows, systems)) * 0.7
    people = (own + BY_PEOPLE)[:, :, None] + random.normal(size=(rows, systems, 3)) * 0.8
    judges = [
        0.7 * own + BY_JUDGE + of_clusters(0.4) + random.normal(size=(rows, systems)) * spread
        for spread in (0.7, 1.0)
    ]
    first, second = (np.clip(np.round(3 + judge), 1, 5) for judge in judges)
    return np.clip(np.round(3 + people), 1, 5), first, second


def statistics(
    people: Floats, first: Floats, second: Floats, resamples: Resamples
) -> Mapping[str, Estimate]:
    human = people.mean(axis=2)
    stats = agreement_stats(human, first, resamples)
    names = [str(place) for place in resamples.places]
    fit, shares = cross_fitted_acc_eq(human, first, names, seed="0")
    r = [dataset_pearson(human, judge).value or 0 for judge in (first, second)]
    rests = [pearsons_without(human, judge, resamples) for judge in (first, second)]
    return {
        **{name: getattr(stats, name) for name in NAMES if hasattr(stats, name)},
        "acc_eq": mean_jackknife(shares, fit.estimate, resamples, range_="share"),
        "alpha": alpha_ci(people, resamples, scale="interval"),
        "alpha_with_each": alpha_with_each(people, first, resamples, scale="interval").result,
        "difference": jackknife_ci(Estimate(r[0] - r[1], n=1), rests[0] - rests[1], "any"),
    }


def coverage(clusters: int, turns: int, *, runs: int) -> dict[str, float]:
    """The share of runs whose interval holds the value of very many clusters, by statistic."""
    random = np.random.default_rng(10 * clusters + turns)
    size = 60_000 // turns
    many = Resamples.of([str(n // turns) for n in range(60_000)], seed="0", draws=1)
    truth = statistics(*draw(random, size, turns), many)
    held: Counter[str] = Counter()
    for run in range(runs):
        names = [str(n // turns) for n in range(clusters * turns)]
        resamples = Resamples.of(names, seed=str(run), draws=300)
        found = statistics(*draw(random, clusters, turns), resamples)
        for name in NAMES:
            ends, value = found[name], truth[name].value
            assert value is not None
            if ends.low is not None and ends.high is not None:
                held[name] += ends.low <= value <= ends.high
    return {name: held[name] / runs for name in NAMES}


@pytest.mark.slow
@pytest.mark.parametrize("turns", [1, 4])
@pytest.mark.parametrize("clusters", [10, 20, 50, 200])
def test_an_interval_holds_the_truth_as_often_as_it_says(clusters: int, turns: int) -> None:
    found = coverage(clusters, turns, runs=400)

    # Percentiles of few systems' ranks are too wide, which is safe.
    systems = {name: found.pop(name) for name in ("system_pearson", "system_spearman")}
    # Two standard errors of 400 runs are .022.
    assert {name: share for name, share in found.items() if not 0.91 <= share <= 0.99} == {}
    assert all(share >= 0.91 for share in systems.values()) == (clusters >= 20), systems
