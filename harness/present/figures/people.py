"""People's ratings and judges' verdicts to figures: scatters, and matrices of agreement.

A cell of a panel of ratings is one answer; its human value is the mean over raters.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from math import nan
from typing import Final

import numpy as np

from harness.analysis.findings import who
from harness.analysis.panels import JudgeTable, Panel
from harness.analysis.rankings import Judged, by_set
from harness.errors import StoreError
from harness.implicitness.evaluate import mean_known, rho, tau
from harness.lazy import pandas
from harness.present.figures import marks
from harness.present.figures.figure import FEWEST, Figure, Subplot, values
from harness.stats.correlation import dataset_pearson, document_tau, kendall, pearson, spearman
from harness.stats.estimate import Estimate, Floats, NoValue

TAU: Final = "Kendall's tau-b"
RHO: Final = "Spearman's rho"


def judges_against_people(panels: Sequence[Panel]) -> Figure:
    """Emphasized-Talk, figure 4: each judge's values against people's, with r and tau.

    r is Pearson's over all cells, tau the mean of Kendall's tau-b within documents.
    """
    found = []
    for panel in panels:
        variant = f" ({panel.variant})" if len(panels) > 1 else ""
        found += [_scatter(panel.human, judge, variant) for judge in panel.judges]
    if not found:
        raise StoreError("nothing to draw: no judge has read what people rated")
    raters = ", ".join(sorted({f"{len(panel.raters)} raters" for panel in panels}))
    note = f"{raters}; the area of a point grows with the answers that it is of"
    return Figure("Judges against people", tuple(found), (note,))


def _scatter(human: Floats, judge: JudgeTable, variant: str) -> Subplot:
    both = ~np.isnan(human) & ~np.isnan(judge.values)
    pairs = {"x": human[both].round(3), "y": judge.values[both].round(3)}
    counts = pandas.DataFrame(pairs).groupby(["x", "y"]).size().rename("z").reset_index()
    r, tau_b = dataset_pearson(human, judge.values), document_tau(human, judge.values)

    rows = values("answers", counts.x, counts.y, "bubbles", z=counts.z)
    note = f"r {_said(r)}, tau {_said(tau_b)}, n {int(both.sum())}"
    axes = {"xlabel": "people's mean rating", "ylabel": "judge's value"}
    return Subplot(who(judge) + variant, rows, axes, note=note)


def _said(found: Estimate) -> str:
    return f"{found.value:.2f}" if found.value is not None else str(found.reason)


def rater_agreement(panel: Panel) -> Figure:
    """A matrix of people and judges: how far any two order the same answers alike."""
    raters = {name: panel.ratings[:, :, at].ravel() for at, name in enumerate(panel.raters)}
    raters |= {who(judge): judge.values.ravel() for judge in panel.judges}
    return _matrices(raters, f"Agreement of people and judges: {panel.task}, {panel.variant}")


def _matrices(raters: Mapping[str, Floats], title: str) -> Figure:
    if len(raters) < 2:
        raise StoreError(f"nothing to draw: {len(raters)} raters or judges, and a matrix needs two")
    panels = []
    for name, how in ((RHO, spearman), ("Pearson's r", pearson), (TAU, kendall)):
        cells = {pair: how(*(raters[one] for one in pair)) for pair in combinations(raters, 2)}
        panels.append(_matrix(name, list(raters), cells))
    note = f"a dash: fewer than {FEWEST} shared, or all alike"
    return Figure(title, tuple(panels), (note,))


def ranking_agreement(judged: Sequence[Judged]) -> Figure:
    """A matrix of people and a scorer: how far any two order the same sets of sentences alike.

    Each cell is the mean over the sets that both have ranked; `n` counts their sentences.
    """
    if len(judged) < 2:
        raise StoreError(f"nothing to draw: {len(judged)} raters, and a matrix needs two")
    panels = []
    for title, how in ((TAU, tau), (RHO, rho)):
        cells = {}
        for a, b in combinations(judged, 2):
            value = mean_known(by_set(a, b, how))
            shared = sum(len(ranks) for name, ranks in a.ranks.items() if name in b.ranks)
            why = NoValue.TOO_FEW if value is None else None
            cells[a.who, b.who] = Estimate(value, shared, reason=why)
        panels.append(_matrix(title, [one.who for one in judged], cells))
    note = "means over sets; a dash: no set shared"
    return Figure("Agreement on the order of sentences", tuple(panels), (note,))


def _matrix(title: str, names: Sequence[str], found: Mapping[tuple[str, str], Estimate]) -> Subplot:
    """Any two of some names, each once: the later a row, the earlier a column."""
    places = [(column, row) for row in range(len(names)) for column in range(row)]
    cells = [found[names[column], names[row]] for column, row in places]
    rows = values(
        "agreement",
        [column + 1 for column, _ in places],
        [row for _, row in places],
        "",
        z=[nan if one.value is None else one.value for one in cells],
        n=[one.n for one in cells],
    )
    draw = partial(marks.cells, ends=(-1.0, 1.0))
    return Subplot(title, rows, also=draw, x_names=names[:-1], y_names=names[1:], shape="cells")
