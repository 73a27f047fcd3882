"""Trainings of the metric ImpScore to figures: grids of margins, and ablations."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from harness.errors import DataError
from harness.implicitness.train import SWEPT
from harness.lazy import DataFrame
from harness.present.figures import marks
from harness.present.figures.figure import (
    FEWEST,
    Figure,
    Subplot,
    together,
    values,
)

ABLATION_METRICS: Final = ("implicitness", "pragmatics", "tau")
SYMBOLS: Final = {"margin": "gamma 1", "pragmatic_margin": "gamma 2", "pragmatic_weight": "alpha"}
_SHORT: Final = {"cosine": "cos", "euclidean": "euc"}


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


def ablation_figure(table: DataFrame, *, pairs: int, graded: int) -> Figure:
    """The trainings of an ablation: the forms, then each swept setting.

    `table` has a row a training, with the columns of ablation.csv. Each is a point; lines join the
    means of the trainings of one value. `pairs` were tested, `graded` of them with levels, which
    tau is of.
    """
    counts = {"implicitness": pairs, "pragmatics": pairs, "tau": graded}
    drawn = table[[name for name in ABLATION_METRICS if counts[name] >= FEWEST]]
    low, high = (0.0, 1.0)
    if drawn.notna().any(axis=None):
        low, high = drawn.min(axis=None), drawn.max(axis=None)
    room = 0.05 * (high - low) or 0.05
    ends = low - room, high + room
    panels = [_forms(table[table.setting == "form"], ends, counts)]
    panels += [_swept(setting, table[table.setting == setting], ends, counts) for setting in SWEPT]
    return Figure("Accuracy and tau on held-out pairs, by form and setting", tuple(panels))


def _forms(table: DataFrame, ends: tuple[float, float], counts: Mapping[str, int]) -> Subplot:
    forms = list(dict.fromkeys(table.value))
    parts = []
    for at, name in enumerate(ABLATION_METRICS):
        places = [forms.index(value) + 1 + (at - 1) * 0.22 for value in table.value]
        if table[name].notna().any():
            parts.append(values(name, places, table[name], "points", n=counts[name]))
    axes = {"ylim": ends, "ylabel": "on test pairs"}
    axes |= {"xlabel": "form: direction, distance of implicitness, pragmatic distance"}
    names = [" ".join(_SHORT.get(word, word) for word in form.split()) for form in forms]
    return Subplot("", together(parts), axes, x_names=names)


def _swept(
    setting: str, table: DataFrame, ends: tuple[float, float], counts: Mapping[str, int]
) -> Subplot:
    places = table.value.astype(float)
    top = float(places.max()) * 1.05 if len(places) else 1.05
    parts = []
    for name in ABLATION_METRICS:
        known = table[name].notna()
        means = table[known].groupby(places[known])[name].mean()
        if known.any():
            parts += [
                values(name, means.index, means.to_numpy(), "curve", n=counts[name]),
                values(name, places[known], table[name][known], "points", n=counts[name]),
            ]
    axes = {"xlim": (0.0, top), "ylim": ends, "ylabel": "on test pairs"}
    axes |= {"xlabel": f"{SYMBOLS.get(setting, setting)} ({setting})"}
    return Subplot("", together(parts), axes)
