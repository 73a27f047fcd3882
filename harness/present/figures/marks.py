"""One series to the marks of matplotlib on a pair of axes; a missing value is not drawn.

Each function takes axes, the rows of one series and its look. The columns that it reads: `x`, `y`,
`low`, `high` and `z`, as `figure` documents them.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from harness.lazy import DataFrame
from harness.present.figures.style import GREY, INK, PALE, SMALL, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_MARKED = 12
"""A curve of at most so many places has a marker at each."""


def bounds(axes: "Axes", rows: DataFrame, colour: str, *, axis: str = "y") -> None:
    """Bars from `low` to `high`; with `axis` x they lie along the x axis."""
    known = rows.dropna(subset=["x", "y", "low", "high"])
    ends = np.abs(known[["low", "high"]].sub(known[axis], axis=0).to_numpy(float).T)
    spread = {f"{axis}err": ends}
    axes.errorbar(known.x, known.y, fmt="none", ecolor=colour, elinewidth=1, capthick=1, **spread)


def points(axes: "Axes", rows: DataFrame, look: Look, *, is_many: bool = False) -> None:
    """Dots, with bars for intervals; small ones when they are many."""
    bounds(axes, rows, look.colour)
    size, alpha = (2.6, 0.7) if is_many else (4.0, 1.0)
    label = rows.series.iloc[0]
    axes.plot(
        rows.x, rows.y, look.marker, color=look.colour, markersize=size, alpha=alpha, label=label
    )


def bubbles(axes: "Axes", rows: DataFrame, look: Look) -> None:
    """Dots whose area grows with `z`, how many values each is of."""
    areas = np.minimum(8 + 9 * (rows.z - 1), 220)
    axes.margins(0.1)
    axes.scatter(
        rows.x, rows.y, s=areas, color=look.colour, alpha=0.5, edgecolor=INK, linewidth=0.4
    )


def curve(axes: "Axes", rows: DataFrame, look: Look) -> None:
    """A line with its markers and intervals if its places are few, else with its band."""
    known = rows.dropna(subset=["x", "y"])
    marker = ""
    if len(known) <= MOST_MARKED:
        marker = look.marker
        bounds(axes, known, look.colour)
    else:
        band = known.dropna(subset=["low", "high"])
        axes.fill_between(band.x, band.low, band.high, color=look.colour, alpha=0.15, linewidth=0)
    axes.plot(
        known.x, known.y, color=look.colour, linestyle=look.dash, marker=marker,
        label=rows.series.iloc[0],
    )  # fmt: skip


def dotted(axes: "Axes", rows: DataFrame, look: Look) -> None:
    """A thin dotted line."""
    axes.plot(rows.x, rows.y, color=look.colour, linestyle=":", linewidth=1.0)


def bars(axes: "Axes", rows: DataFrame, look: Look) -> None:
    """Bars from `x` to `to`, from 0 to `y`, so pale that the ends of an interval are seen."""
    from matplotlib.colors import to_rgba

    axes.bar(
        rows.x, rows.y, width=rows.to - rows.x, align="edge", label=rows.series.iloc[0],
        facecolor=to_rgba(look.colour, 0.65), edgecolor=INK, hatch=look.hatch, linewidth=0.5,
    )  # fmt: skip
    bounds(axes, rows.assign(x=(rows.x + rows.to) / 2), INK)


MARKS = {"points": points, "curve": curve, "dotted": dotted, "bars": bars}


def violin(axes: "Axes", rows: DataFrame, look: Look) -> None:
    """The distribution of `y` at the first `x`: quartiles as a box, the mean as a mark."""
    values, place = rows.y.dropna().to_numpy(), float(rows.x.iloc[0])
    if len(np.unique(values)) > 1:
        drawn: Any = axes.violinplot([values], [place], widths=0.8, showextrema=False)
        body = drawn["bodies"][0]
        body.set(facecolor=look.colour, edgecolor=INK, alpha=0.45, linewidth=0.6)
        body.set_hatch(look.hatch)
    box: dict[str, Any] = {"color": INK, "linewidth": 0.8}
    axes.boxplot(
        values, positions=[place], widths=0.14, showfliers=False, manage_ticks=False,
        boxprops=box, whiskerprops=box, capprops=box, medianprops={**box, "linewidth": 1.6},
    )  # fmt: skip
    axes.plot([place], [np.mean(values)], look.marker, color="white")


def forest(axes: "Axes", rows: DataFrame, look: Look) -> None:
    """Values `x` with their intervals along the x axis, at the heights `y`."""
    bounds(axes, rows, INK, axis="x")
    axes.plot(rows.x, rows.y, look.marker, color=look.colour)


def cells(
    axes: "Axes", rows: DataFrame, ends: tuple[float, float], best: tuple[int, int] | None = None
) -> None:
    """A matrix of `z` in column `x` and row `y`, shaded from one end to the other.

    A cell shows its `name`, or its number without one; `best`, a column and a row, has a frame.
    """
    low, high = ends
    known = rows.dropna(subset=["x", "y", "z"])
    table = np.full((int(rows.y.max()), int(rows.x.max())), np.nan)
    table[known.y.astype(int) - 1, known.x.astype(int) - 1] = known.z
    extent = (0.5, table.shape[1] + 0.5, table.shape[0] + 0.5, 0.5)
    top = high if high > low else low + 1
    axes.imshow(table, aspect="auto", extent=extent, cmap="cividis", vmin=low, vmax=top)
    for row in known.itertuples():
        ink = "white" if (row.z - low) / (top - low) < 0.55 else "black"
        weight = "bold" if best == (row.x, row.y) else "normal"
        if best == (row.x, row.y):
            axes.plot([row.x], [row.y], "s", color="none", mec=ink, mew=1, markersize=14)
        text = row.name or _short(row.z)
        axes.text(
            row.x, row.y, text, ha="center", va="center", color=ink, weight=weight, fontsize=6.5
        )
    axes.spines[:].set_visible(False)


def _short(value: float) -> str:
    """A number in a cell: a whole one as it is, else two decimals without a leading zero."""
    if value == round(value) and abs(value) >= 2:
        return str(round(value))
    return f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"


def counts_below(axes: "Axes", bins: DataFrame) -> None:
    """Columns below the axes with their numbers: the `n` texts from each `x` to `to`."""
    axes.tick_params(labelbottom=False, length=0)
    below = axes.inset_axes((0.0, -0.27, 1.0, 0.22), sharex=axes)
    below.bar(bins.x, bins.n, width=bins.to - bins.x, align="edge", color="#bbbbbb", ec="white")
    for bar in bins.itertuples():
        middle = (bar.x + bar.to) / 2
        below.text(middle, bar.n, str(bar.n), ha="center", va="bottom", fontsize=6, clip_on=False)
    below.set(ylim=(0, max(bins.n.max(), 1) * 1.9), yticks=[])
    below.set_ylabel("texts", fontsize=SMALL)
    below.spines["left"].set_visible(False)


def reference(axes: "Axes", value: float, name: str, *, axis: str = "y") -> None:
    """A dashed line at a value, which the legend names."""
    draw = axes.axvline if axis == "x" else axes.axhline
    draw(value, color=GREY, linewidth=0.8, linestyle=(0, (2, 2)), zorder=0.8, label=name)


def diagonal(axes: "Axes") -> None:
    """A dotted line from 0, 0 to 1, 1."""
    axes.plot([0, 1], [0, 1], color="#777777", linewidth=0.8, linestyle=":", zorder=0.5)


def rule(axes: "Axes", axis: str = "y") -> None:
    """Pale lines across the axes at the ticks of one axis."""
    axes.grid(axis=axis, color=PALE, linewidth=0.5)  # type: ignore[arg-type]  # x or y
