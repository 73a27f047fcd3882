"""People's ratings and judges' verdicts to figures: scatters, and matrices of agreement.

A cell of a panel of ratings is one answer; its human value is the mean over raters.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import nan
from typing import Final

import numpy as np

from harness.analysis.panels import JudgeTable, Panel
from harness.analysis.rankings import Judged, Measure, by_set
from harness.errors import StoreError
from harness.implicitness.evaluate import mean_known, rho, tau
from harness.lazy import pandas
from harness.present.figures import marks
from harness.present.figures.figure import FEWEST, Figure, Subplot, values
from harness.stats.correlation import dataset_pearson, document_tau, kendall, pearson, spearman
from harness.stats.estimate import Estimate, Floats, NoValue

TAU: Final = "Kendall's tau-b"
RHO: Final = "Spearman's rho"
_MOST_NAMES: Final = 24


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
    return Subplot(_name(judge) + variant, rows, axes, note=note)


def _name(judge: JudgeTable) -> str:
    is_all = judge.model in ("all", judge.judge)
    return judge.judge if is_all else f"{judge.model}, {judge.judge}"


def _said(found: Estimate) -> str:
    return f"{found.value:.2f}" if found.value is not None else str(found.reason)


def rater_agreement(panel: Panel) -> Figure:
    """A matrix of people and judges: how far any two order the same answers alike."""
    raters = {name: panel.ratings[:, :, at].ravel() for at, name in enumerate(panel.raters)}
    raters |= {_name(judge): judge.values.ravel() for judge in panel.judges}
    return _matrices(raters, f"Agreement of people and judges: {panel.task}, {panel.variant}")


def _matrices(raters: Mapping[str, Floats], title: str) -> Figure:
    if len(raters) < 2:
        raise StoreError(f"nothing to draw: {len(raters)} raters or judges, and a matrix needs two")
    notes: tuple[str, ...] = ()
    if len(raters) > _MOST_NAMES:
        notes = (f"the first {_MOST_NAMES} of {len(raters)} raters and judges",)
    names = list(raters)[:_MOST_NAMES]
    measures = {RHO: spearman, "Pearson's r": pearson, TAU: kendall}
    panels = [
        _matrix(title, names, partial(_measured, raters=raters, how=how))
        for title, how in measures.items()
    ]
    note = f"a dash: fewer than {FEWEST} shared, or all alike"
    return Figure(title, tuple(panels), (*notes, note))


def _measured(
    first: str,
    second: str,
    *,
    raters: Mapping[str, Floats],
    how: Callable[[Floats, Floats], Estimate],
) -> Estimate:
    return how(raters[first], raters[second])


def ranking_agreement(judged: Sequence[Judged]) -> Figure:
    """A matrix of people and a scorer: how far any two order the same sets of sentences alike.

    Each cell is the mean over the sets that both have ranked; `n` counts their sentences.
    """
    if len(judged) < 2:
        raise StoreError(f"nothing to draw: {len(judged)} raters, and a matrix needs two")
    by_name = {one.who: one for one in judged}

    def compared(how: Measure) -> Callable[[str, str], Estimate]:
        def one(first: str, second: str) -> Estimate:
            a, b = by_name[first], by_name[second]
            shared = [ranks for name, ranks in a.ranks.items() if name in b.ranks]
            value = mean_known(by_set(a, b, how))
            why = NoValue.TOO_FEW if value is None else None
            return Estimate(value, sum(map(len, shared)), reason=why)

        return one

    panels = tuple(_matrix(n, list(by_name), compared(how)) for n, how in ((TAU, tau), (RHO, rho)))
    note = "means over sets; a dash: no set shared"
    return Figure("Agreement on the order of sentences", panels, (note,))


def _matrix(title: str, names: Sequence[str], found: Callable[[str, str], Estimate]) -> Subplot:
    """Any two of some names, each once: the later a row, the earlier a column."""
    places = [(column, row) for row in range(len(names)) for column in range(row)]
    cells = [found(names[row], names[column]) for column, row in places]
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
