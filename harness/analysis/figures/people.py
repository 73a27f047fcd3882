"""Ratings by people beside the verdicts of judges: scatters, and matrices of who agrees with whom.

A cell of a panel of ratings is one answer; its human value is the mean over raters.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from harness.analysis.figures.chart import FEWEST, Chart, Plot, Series
from harness.analysis.panels import JudgeTable, Panel
from harness.analysis.rankings import Judged, Measure, by_set, mean_known, rho
from harness.errors import StoreError
from harness.implicitness.evaluate import tau
from harness.stats.correlation import dataset_pearson, document_tau, kendall, pearson, spearman
from harness.stats.estimate import Estimate, Floats, NoValue, ratio, snapped
from harness.storage.runs import StoredRun

TAU: Final = "Kendall's tau-b"
RHO: Final = "Spearman's rho"
_MOST_NAMES: Final = 24


def judges_against_people(panels: Sequence[Panel]) -> Chart:
    """Emphasized-Talk, figure 4: each judge's values against people's, with r and tau.

    r is Pearson's over all cells, tau the mean of Kendall's tau-b within documents.
    """
    plots = []
    for panel in panels:
        human = _means(panel)
        plots += [_scatter(panel, human, judge, len(panels) > 1) for judge in panel.judges]
    if not plots:
        raise StoreError("nothing to draw: no judge has read what people rated")
    raters = ", ".join(sorted({f"{len(panel.raters)} raters" for panel in panels}))
    note = f"{raters}; the area of a point grows with the answers that it stands for"
    return Chart("Judges against people", tuple(plots), (note,))


def _means(panel: Panel) -> Floats:
    """People's mean of each cell, documents x systems, NaN without a rating."""
    counts = (~np.isnan(panel.ratings)).sum(axis=2)
    return snapped(ratio(np.nansum(panel.ratings, axis=2), counts))


def _scatter(panel: Panel, human: Floats, judge: JudgeTable, has_more: bool) -> Plot:
    both = ~np.isnan(human) & ~np.isnan(judge.values)
    pairs = zip(human[both].round(3).tolist(), judge.values[both].round(3).tolist(), strict=True)
    counts = sorted(Counter(pairs).items())
    places = [place for place, _ in counts]
    series = Series(
        "answers",
        "points",
        [x for x, _ in places],
        [y for _, y in places],
        z=[float(count) for _, count in counts],
    )
    r, tau = dataset_pearson(human, judge.values), document_tau(human, judge.values)
    name = judge.judge if judge.model in ("all", judge.judge) else f"{judge.model}, {judge.judge}"
    return Plot(
        f"{name} ({panel.variant})" if has_more else name,
        "people's mean rating",
        "judge's value",
        (series,),
        note=f"r {_said(r)}, tau {_said(tau)}, n {int(both.sum())}",
    )


def _said(found: Estimate) -> str:
    return f"{found.value:.2f}" if found.value is not None else str(found.reason)


class _Rater(NamedTuple):
    """Somebody who has values of cells; NaN where there is none."""

    name: str
    values: Floats


def rater_agreement(panel: Panel) -> Chart:
    """A matrix of people and judges: how far any two order the same answers alike."""
    raters = [_Rater(name, panel.ratings[:, :, at].ravel()) for at, name in enumerate(panel.raters)]
    raters += [_Rater(judge.judge, judge.values.ravel()) for judge in panel.judges]
    return _matrices(raters, f"Agreement of people and judges: {panel.task}, {panel.variant}")


def judge_agreement(runs: Sequence[StoredRun], judges: Sequence[str] = ()) -> Chart:
    """A matrix of the judges of some runs, over the verdicts that any two of them share."""
    values: dict[str, dict[tuple[str, ...], float]] = {}
    read = ((run.file, row) for run in runs for row in run.rows)
    for file, row in read:
        key = (file.digest, file.model.name, row.sample.id, row.variant, row.decoding)
        for name, verdict in row.verdicts.items():
            if verdict.value is not None and (not judges or name in judges):
                values.setdefault(name, {})[key] = verdict.value
    keys = list(dict.fromkeys(key for own in values.values() for key in own))
    nothing = float("nan")
    raters = [
        _Rater(name, np.array([own.get(key, nothing) for key in keys]))
        for name, own in sorted(values.items())
    ]
    return _matrices(raters, "Agreement of judges")


def _matrices(raters: Sequence[_Rater], title: str) -> Chart:
    if len(raters) < 2:
        raise StoreError(f"nothing to draw: {len(raters)} raters or judges, and a matrix needs two")
    notes: tuple[str, ...] = ()
    if len(raters) > _MOST_NAMES:
        notes = (f"the first {_MOST_NAMES} of {len(raters)} raters and judges",)
    shown = raters[:_MOST_NAMES]
    names = [rater.name for rater in shown]

    def compared(how: Callable[[Floats, Floats], Estimate]) -> Callable[[int, int], Estimate]:
        return lambda a, b: how(shown[a].values, shown[b].values)

    computed = {RHO: spearman, "Pearson's r": pearson, TAU: kendall}
    plots = tuple(_matrix(title, names, compared(how)) for title, how in computed.items())
    return Chart(title, plots, (*notes, f"a dash: fewer than {FEWEST} shared, or all alike"))


def ranking_agreement(judged: Sequence[Judged]) -> Chart:
    """A matrix of people and a scorer: how far any two order the same sets of sentences alike.

    Each cell is the mean over the sets that both have ranked; `n` counts their sentences.
    """
    if len(judged) < 2:
        raise StoreError(f"nothing to draw: {len(judged)} raters, and a matrix needs two")

    def compared(how: Measure) -> Callable[[int, int], Estimate]:
        def one(a: int, b: int) -> Estimate:
            shared = [ranks for name, ranks in judged[a].ranks.items() if name in judged[b].ranks]
            value = mean_known(by_set(judged[a], judged[b], how))
            why = NoValue.TOO_FEW if value is None else None
            return Estimate(value, sum(map(len, shared)), reason=why)

        return one

    names = [one.who for one in judged]
    plots = (_matrix(TAU, names, compared(tau)), _matrix(RHO, names, compared(rho)))
    note = "means over sets; a dash: no set shared"
    return Chart("Agreement on the order of sentences", plots, (note,))


def _matrix(title: str, names: Sequence[str], found: Callable[[int, int], Estimate]) -> Plot:
    places = [(column, row) for row, column in product(range(len(names)), repeat=2) if column < row]
    cells = [found(row, column) for column, row in places]
    series = Series(
        "agreement",
        "cells",
        [column + 1 for column, _ in places],
        [row for _, row in places],
        z=[float("nan") if one.value is None else one.value for one in cells],
        n=[one.n for one in cells],
    )
    return Plot(
        title,
        "",
        "",
        (series,),
        z_range=(-1.0, 1.0),
        x_names=tuple(names[:-1]),
        y_names=tuple(names[1:]),
    )
