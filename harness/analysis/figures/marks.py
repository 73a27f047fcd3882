"""One function for each form of series: values to the marks of matplotlib on a pair of axes."""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from harness.analysis.figures import style
from harness.analysis.figures.chart import Columns, Plot, Series
from harness.analysis.figures.style import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def count_columns(axes: "Axes", columns: Columns) -> None:
    """Columns with their numbers: how many texts each bin has."""
    x, to = np.array(columns.x), np.array(columns.to)
    axes.bar(x, columns.n, width=to - x, align="edge", color="#bbbbbb", edgecolor="white")
    for start, end, n in zip(columns.x, columns.to, columns.n, strict=True):
        axes.text((start + end) / 2, n, str(n), ha="center", va="bottom", fontsize=6, clip_on=False)
    axes.set_ylim(0, max([*columns.n, 1]) * 1.9)
    axes.set_yticks([])
    axes.set_ylabel("texts", fontsize=style.SMALL)
    axes.spines["left"].set_visible(False)


def _finite(*sides: Sequence[float]) -> list[list[float]]:
    """Sides of equal length, without the places where any of them is no number."""
    rows = [row for row in zip(*sides, strict=True) if all(map(isfinite, row))]
    return [list(side) for side in zip(*rows, strict=True)] if rows else [[] for _ in sides]


def _points(axes: "Axes", part: Series, look: Look, plot: Plot) -> None:
    if part.is_bubbles:
        x, y, z = _finite(part.x, part.y, part.z)
        areas = [min(8 + 9 * (size - 1), 220) for size in z]
        axes.margins(0.1)
        axes.scatter(
            x, y, s=areas, color=look.colour, alpha=0.5, edgecolor=style.INK, linewidth=0.4
        )
        return
    x, y = _finite(part.x, part.y)
    if len(part.low):
        ends_x, ends_y, low, high = _finite(part.x, part.y, part.low, part.high)
        spread = np.abs(np.array([low, high]) - np.array(ends_y))
        axes.errorbar(
            ends_x, ends_y, yerr=spread, fmt="none", ecolor=look.colour, elinewidth=1.0, capsize=2
        )
    total = sum(len(one.y) for one in plot.series if one.form == "points")
    size = 4.0 if total < 200 else 2.6
    marks: dict[str, Any] = {
        "markeredgecolor": style.INK,
        "markeredgewidth": 0.4,
        "alpha": 1.0 if size > 3 else 0.7,
    }
    axes.plot(x, y, look.marker, color=look.colour, markersize=size, **marks)


def _curve(axes: "Axes", part: Series, look: Look, plot: Plot) -> None:
    x, y = _finite(part.x, part.y)
    is_thin, has_marks = part.form == "dashed", len(x) <= 12 and part.form == "line"
    if len(part.low) and has_marks:
        _points(axes, part, look, plot)
    elif len(part.low):
        ends, low, high = _finite(part.x, part.low, part.high)
        axes.fill_between(ends, low, high, color=look.colour, alpha=0.15, linewidth=0)
    marks: dict[str, Any] = {"markeredgecolor": style.INK, "markeredgewidth": 0.4}
    marks["marker"] = look.marker if has_marks else ""
    dash, width = (":", 1.0) if is_thin else (look.dash, 1.4)
    axes.plot(x, y, color=look.colour, linestyle=dash, linewidth=width, **marks)


def _bars(axes: "Axes", part: Series, look: Look, plot: Plot) -> None:
    x, to, y = _finite(part.x, part.to, part.y)
    widths = [end - start for start, end in zip(x, to, strict=True)]
    axes.bar(x, y, width=widths, align="edge", **filled(look))
    if len(part.low):
        starts, ends, tops, low, high = _finite(part.x, part.to, part.y, part.low, part.high)
        spread = np.abs(np.array([low, high]) - np.array(tops))
        middle = [(start + end) / 2 for start, end in zip(starts, ends, strict=True)]
        axes.errorbar(
            middle, tops, yerr=spread, fmt="none", ecolor=style.INK, elinewidth=1.0, capsize=2
        )


def _violin(axes: "Axes", part: Series, look: Look, plot: Plot) -> None:
    (values,) = _finite(part.y)
    place = part.x[0]
    if len(set(values)) > 1:
        drawn: Any = axes.violinplot([values], [place], widths=0.8, showextrema=False)
        body = drawn["bodies"][0]
        body.set(facecolor=look.colour, edgecolor=style.INK, alpha=0.45, linewidth=0.6)
        body.set_hatch(look.hatch)
    box: dict[str, Any] = {"color": style.INK, "linewidth": 0.8}
    axes.boxplot(
        values, positions=[place], widths=0.14, showfliers=False, manage_ticks=False,
        boxprops=box, whiskerprops=box, capprops=box, medianprops={**box, "linewidth": 1.6},
    )  # fmt: skip
    axes.plot([place], [np.mean(values)], look.marker, color="white", markeredgecolor=style.INK)


def _forest(axes: "Axes", part: Series, look: Look, plot: Plot) -> None:
    x, y = _finite(part.x, part.y)
    values, low, high, places = _finite(part.x, part.low, part.high, part.y)
    spread = np.abs(np.array([low, high]) - np.array(values))
    axes.errorbar(
        values, places, xerr=spread, fmt="none", ecolor=style.INK, elinewidth=1, capsize=2
    )
    axes.plot(x, y, look.marker, color=look.colour, markeredgecolor=style.INK, markeredgewidth=0.4)


def _cells(axes: "Axes", part: Series, look: Look, plot: Plot) -> None:
    shape = (len(plot.y_names), len(plot.x_names))
    table, text = np.full(shape, np.nan), dict[tuple[int, int], str]()
    for at, (x, y, z) in enumerate(zip(part.x, part.y, part.z, strict=True)):
        if all(map(isfinite, (x, y, z))):
            place = round(y) - 1, round(x) - 1
            table[place] = z
            text[place] = part.names[at] if part.names else _short(z)
    low, high = plot.z_range if plot.z_range else (np.nanmin(table), np.nanmax(table))
    extent = (0.5, shape[1] + 0.5, shape[0] + 0.5, 0.5)
    shades: dict[str, Any] = {
        "cmap": "cividis",
        "vmin": low,
        "vmax": high if high > low else low + 1,
    }
    axes.imshow(table, aspect="auto", extent=extent, **shades)
    for (row, column), label in text.items():
        is_dark = (table[row, column] - low) / (high - low) < 0.55
        ink, weight = "white" if is_dark else "black", "normal"
        if plot.best == (column + 1, row + 1):
            axes.plot(
                [column + 1], [row + 1], "s", color="none", markeredgecolor=ink, markersize=14
            )
            weight = "bold"
        axes.text(
            column + 1, row + 1, label, ha="center", va="center", color=ink, weight=weight,
            fontsize=6.5,
        )  # fmt: skip
    for side in axes.spines.values():
        side.set_visible(False)


def _short(value: float) -> str:
    """A number in a cell: a whole one as it is, else two decimals without a leading zero."""
    if value == round(value) and abs(value) >= 2:
        return str(round(value))
    return f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"


def filled(look: Look) -> dict[str, Any]:
    """How an area is filled: so pale that the ends of an interval are seen on it."""
    from matplotlib.colors import to_rgba

    pale = to_rgba(look.colour, 0.65)
    return {"facecolor": pale, "edgecolor": style.INK, "hatch": look.hatch, "linewidth": 0.5}


DRAWN: Final[Mapping[str, Callable[["Axes", Series, Look, Plot], None]]] = {
    **{"points": _points, "line": _curve, "dashed": _curve, "bars": _bars},
    **{"violin": _violin, "forest": _forest, "cells": _cells},
}
