"""Trainings of the metric ImpScore by both margins to figures."""

from functools import partial
from typing import Final

from harness.errors import DataError
from harness.lazy import DataFrame
from harness.present.figures import marks
from harness.present.figures.figure import Figure, Subplot, values

SYMBOLS: Final = {"margin": "gamma 1", "pragmatic_margin": "gamma 2", "pragmatic_weight": "alpha"}


def margins(grid: DataFrame, metric: str = "implicitness") -> Figure:
    """ImpScore, figures 4 and 10: accuracy over both margins, a panel an alpha, the best framed.

    `grid` has a row a training, with the columns of grid.csv.
    """
    keys = ["pragmatic_weight", "margin", "pragmatic_margin"]
    known = grid.dropna(subset=[metric])
    if known.empty:
        raise DataError(f"no training of the grid has a {metric} accuracy; nothing to draw")
    cells = known.groupby(keys, sort=False)[metric].agg(["mean", "size"]).reset_index()
    best = cells.loc[cells["mean"].idxmax()]
    rows, columns = (sorted(grid[name].unique()) for name in keys[1:])
    ends, pairs = (cells["mean"].min(), cells["mean"].max()), int(grid.test_pairs.iloc[0])
    panels = []
    for weight in sorted(grid.pragmatic_weight.unique()):
        own = cells[cells.pragmatic_weight == weight]
        x, y = own.pragmatic_margin.map(columns.index) + 1, own.margin.map(rows.index) + 1
        mark = (columns.index(best.pragmatic_margin) + 1, rows.index(best.margin) + 1)
        framed = mark if best.pragmatic_weight == weight else None
        panels.append(
            Subplot(
                f"alpha {weight:g}",
                values(metric, x, y, "", z=own["mean"], n=pairs),
                {"xlabel": SYMBOLS["pragmatic_margin"], "ylabel": SYMBOLS["margin"]},
                partial(marks.cells, ends=ends, best=framed),
                x_names=[f"{value:g}" for value in columns],
                y_names=[f"{value:g}" for value in rows],
                shape="cells",
            )
        )
    said = ", ".join(f"{SYMBOLS[name]} = {best[name]:g}" for name in keys)
    note = f"best: {said}: {best['mean']:.3f}; trainings a cell: {cells['size'].max()}"
    return Figure(
        f"Accuracy of {metric} by both margins", tuple(panels), (f"{note}; test pairs: {pairs}",)
    )
