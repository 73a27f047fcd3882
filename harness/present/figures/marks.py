"""How every figure looks, and one series to the marks of matplotlib on a pair of axes.

The colour-blind distinguish the colours, and grey keeps the marks. Text of models is shown as
it is: nothing in it is mathematics, and control characters are removed. Lengths are in centimetres,
sizes of letters in points. A missing value is not drawn.

Each function takes axes, the rows of one series and its look. The columns that it reads: `x`, `y`,
`low`, `high` and `z`, as `figure` documents them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Final

import numpy as np

from harness.lazy import Axes, DataFrame
from harness.text.cleanup import repair_surrogates, without_controls

WIDTH: Final = 16.0
TEXT, SMALL, TITLE = 8.0, 7.0, 9.0
INK, PALE, GREY = "#222222", "#dddddd", "#555555"


@dataclass(frozen=True, slots=True)
class Look:
    """How one series looks: colour, marker, line and, for areas, hatching."""

    colour: str
    marker: str
    dash: Any
    hatch: str


LOOKS: Final = (
    Look("#0072B2", "o", "-", ""),
    Look("#E69F00", "s", (0, (5, 2)), "////"),
    Look("#009E73", "^", (0, (4, 1.5, 1, 1.5)), "...."),
    Look("#CC79A7", "D", (0, (1, 1.2)), "xxxx"),
    Look("#56B4E9", "v", (0, (7, 1.5)), "----"),
    Look("#D55E00", "P", (0, (3, 1, 1, 1, 1, 1)), "++++"),
)
"""The colours of Okabe and Ito (2008), ordered so that neighbours differ in grey, too."""

SETTINGS: Final[dict[str, Any]] = {
    "font.family": "DejaVu Sans",
    "font.size": TEXT,
    "axes.titlesize": TEXT,
    "axes.labelsize": TEXT,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.0,
    "lines.markeredgecolor": INK,
    "lines.markeredgewidth": 0.4,
    "hatch.linewidth": 0.5,
    "errorbar.capsize": 2,
    "text.parse_math": False,
    "text.usetex": False,
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "pragmatics-harness",
    "pdf.fonttype": 42,
}


@contextmanager
def styled() -> Iterator[None]:
    """Our settings alone, whatever the user's own file of settings says."""
    import warnings

    import matplotlib.style

    with matplotlib.style.context(["default", SETTINGS]), warnings.catch_warnings():
        # A letter that the font does not have is drawn as a box; the data file has it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def shown(text: str) -> str:
    """Text of a model or of data, on one line, as a figure may show it."""
    return " ".join(repair_surrogates(without_controls(text)).split())


@cache
def width_cm(text: str, size: float) -> float:
    """How wide a line of text is."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=SETTINGS["font.family"], size=size)
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72 * 2.54


def cut(text: str, room_cm: float, size: float = TEXT) -> str:
    """The text, or as much of it as there is room for, and an ellipsis."""
    text = shown(text)
    if width_cm(text, size) <= room_cm:
        return text
    end = len(text) - 1
    while end > 0 and width_cm(text[:end].rstrip() + "…", size) > room_cm:
        end = min(end - 1, int(end * 0.97))
    return text[:end].rstrip() + "…"


def wrapped(text: str, room_cm: float, size: float = TEXT, *, most: int = 3) -> list[str]:
    """The text in at most `most` lines; what has no room ends in an ellipsis."""
    lines, left = list[str](), shown(text)
    while left and len(lines) < most - 1 and width_cm(left, size) > room_cm:
        ends = [at for at in _breaks(left) if width_cm(left[:at].rstrip(), size) <= room_cm]
        end = ends[-1] if ends else max(1, len(cut(left, room_cm, size)) - 1)
        lines.append(left[:end].rstrip())
        left = left[end:].lstrip()
    return [*lines, cut(left, room_cm, size)] if left else lines


def fits(text: str, room_cm: float, size: float = TEXT, *, most: int = 1) -> bool:
    """Whether the text has room in at most `most` lines, and no line ends within a word."""
    text = shown(text)
    places = [0, *_breaks(text), len(text)]
    parts = [text[start:end].rstrip() for start, end in pairwise(places)]
    lines = wrapped(text, room_cm, size, most=most)
    is_whole = "".join(lines).replace(" ", "") == text.replace(" ", "")
    return is_whole and (most == 1 or all(width_cm(part, size) <= room_cm for part in parts))


def _breaks(text: str) -> list[int]:
    """The places where a line may end: after a space or a mark that joins words."""
    return [at + 1 for at, char in enumerate(text[:-1]) if char in " -_/|:,+"]


MOST_MARKED = 12
"""A curve of at most so many places has a marker at each."""


def bounds(axes: Axes, rows: DataFrame, colour: str, *, axis: str = "y") -> None:
    """Bars from `low` to `high`; with `axis` x they lie along the x axis."""
    known = rows.dropna(subset=["x", "y", "low", "high"])
    ends = np.abs(known[["low", "high"]].sub(known[axis], axis=0).to_numpy(float).T)
    spread = {f"{axis}err": ends}
    axes.errorbar(known.x, known.y, fmt="none", ecolor=colour, elinewidth=1, capthick=1, **spread)


def points(axes: Axes, rows: DataFrame, look: Look, *, is_many: bool = False) -> None:
    """Dots, with bars for intervals; small ones when they are many."""
    bounds(axes, rows, look.colour)
    size, alpha = (2.6, 0.7) if is_many else (4.0, 1.0)
    label = rows.series.iloc[0]
    axes.plot(
        rows.x, rows.y, look.marker, color=look.colour, markersize=size, alpha=alpha, label=label
    )


def bubbles(axes: Axes, rows: DataFrame, look: Look) -> None:
    """Dots whose area grows with `z`, how many values each is of."""
    areas = np.minimum(8 + 9 * (rows.z - 1), 220)
    axes.margins(0.1)
    axes.scatter(
        rows.x, rows.y, s=areas, color=look.colour, alpha=0.5, edgecolor=INK, linewidth=0.4
    )


def curve(axes: Axes, rows: DataFrame, look: Look) -> None:
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


def dotted(axes: Axes, rows: DataFrame, look: Look) -> None:
    """A thin dotted line."""
    axes.plot(rows.x, rows.y, color=look.colour, linestyle=":", linewidth=1.0)


def bars(axes: Axes, rows: DataFrame, look: Look) -> None:
    """Bars from `x` to `to`, from 0 to `y`, so pale that the ends of an interval are seen."""
    from matplotlib.colors import to_rgba

    axes.bar(
        rows.x, rows.y, width=rows.to - rows.x, align="edge", label=rows.series.iloc[0],
        facecolor=to_rgba(look.colour, 0.65), edgecolor=INK, hatch=look.hatch, linewidth=0.5,
    )  # fmt: skip
    bounds(axes, rows.assign(x=(rows.x + rows.to) / 2), INK)


MARKS = {"points": points, "curve": curve, "dotted": dotted, "bars": bars}


def violin(axes: Axes, rows: DataFrame, look: Look) -> None:
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


def forest(axes: Axes, rows: DataFrame, look: Look) -> None:
    """Values `x` with their intervals along the x axis, at the heights `y`."""
    bounds(axes, rows, INK, axis="x")
    axes.plot(rows.x, rows.y, look.marker, color=look.colour)


def cells(
    axes: Axes, rows: DataFrame, ends: tuple[float, float], best: tuple[int, int] | None = None
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


def counts_below(axes: Axes, bins: DataFrame) -> None:
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


def reference(axes: Axes, value: float, name: str, *, axis: str = "y") -> None:
    """A dashed line at a value, which the legend names."""
    draw = axes.axvline if axis == "x" else axes.axhline
    draw(value, color=GREY, linewidth=0.8, linestyle=(0, (2, 2)), zorder=0.8, label=name)


def diagonal(axes: Axes) -> None:
    """A dotted line from 0, 0 to 1, 1."""
    axes.plot([0, 1], [0, 1], color="#777777", linewidth=0.8, linestyle=":", zorder=0.5)


def rule(axes: Axes, axis: str = "y") -> None:
    """Pale lines across the axes at the ticks of one axis."""
    axes.grid(axis=axis, color=PALE, linewidth=0.5)  # type: ignore[arg-type]  # x or y
