"""How figures look (lengths in cm, letters in points), and what matplotlib draws of a series."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from textwrap import TextWrapper
from typing import Any, Final

import numpy as np

from harness.lazy import Axes, DataFrame
from harness.text.cleanup import repair_surrogates, without_controls

TEXT, SMALL, TITLE = 8.0, 7.0, 9.0
INK, PALE, GREY = "#222222", "#dddddd", "#555555"
MOST_MARKED: Final = 12  # a curve of at most so many places has a marker at each
Look = tuple[str, str, Any, str]
"""How one series looks: colour, marker, line and, for areas, hatching."""
LOOKS: Final[tuple[Look, ...]] = (
    ("#0072B2", "o", "-", ""),
    ("#E69F00", "s", (0, (5, 2)), "////"),
    ("#009E73", "^", (0, (4, 1.5, 1, 1.5)), "...."),
    ("#CC79A7", "D", (0, (1, 1.2)), "xxxx"),
    ("#56B4E9", "v", (0, (7, 1.5)), "----"),
    ("#D55E00", "P", (0, (3, 1, 1, 1, 1, 1)), "++++"),
)
"""The colours of Okabe and Ito (2008), ordered so that neighbours differ in grey, too."""
COLOURS: Final = (
    *(look[0] for look in LOOKS),
    *("#F0E442", "#555555", "#332288", "#44AA99", "#117733", "#999933", "#AA4499", "#661100"),
)
"""Those, and eight more for maps of points (Tol 2021, muted)."""
SIGNS: Final = "\u25cf\u25a0\u25b2\u25c6\u25bc\u271a"  # the markers of LOOKS as letters
FONT = "DejaVu Sans"
_BREAKS: Final = re.compile(r"(\s+)|(?<=[-_/|:,+])")
"""Where a line may end: at a space, or after a mark that joins words."""
SETTINGS: Final[dict[str, Any]] = {
    "font.family": FONT,
    "font.size": TEXT,
    **dict.fromkeys(("axes.titlesize", "axes.labelsize"), TEXT),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), SMALL),
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "text.color"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color", "lines.markeredgecolor"), INK),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.6),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 2.5),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "axes.unicode_minus"), False),
    **dict.fromkeys(("text.parse_math", "text.usetex", "axes.formatter.use_mathtext"), False),
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.0,
    "lines.markeredgewidth": 0.4,
    "hatch.linewidth": 0.5,
    "errorbar.capsize": 2,
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
def width_cm(text: str, size: float = SMALL) -> float:
    """How wide a line of text is."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=FONT, size=size)
    width, _, _ = text_to_path.get_text_width_height_descent(shown(text), font, ismath=False)
    return float(width) / 72 * 2.54


def fitted(text: str, room_cm: float, size: float = SMALL, *, most: int = 1) -> str:
    """The text in at most `most` lines that have room; an ellipsis ends what has none."""
    text = shown(text)
    if (width := width_cm(text, size)) <= room_cm:
        return text
    for count in range(int(len(text) * room_cm / width * 1.2) + 1, 1, -1):
        wrapper = TextWrapper(count, max_lines=most, placeholder="\u2026")
        wrapper.wordsep_re = _BREAKS
        lines = wrapper.wrap(text)
        if all(width_cm(line, size) <= room_cm for line in lines):
            return "\n".join(lines)
    return "\u2026"


def is_whole(text: str, room_cm: float, *, most: int) -> bool:
    """Whether a small text has room in so many lines, of whole words."""
    words = [word for word in _BREAKS.split(shown(text)) if word]
    has_room = all(width_cm(word) <= room_cm for word in words)
    return has_room and "\u2026" not in fitted(text, room_cm, most=most)


def bounds(axes: Axes, rows: DataFrame, colour: str, *, axis: str = "y") -> None:
    """Bars from `low` to `high`; with `axis` x they lie along the x axis."""
    known = rows.dropna(subset=["x", "y", "low", "high"])
    ends = np.abs(known[["low", "high"]].sub(known[axis], axis=0).to_numpy(float).T)
    spread = {f"{axis}err": ends}
    axes.errorbar(known.x, known.y, fmt="none", ecolor=colour, elinewidth=1, capthick=1, **spread)


def points(axes: Axes, rows: DataFrame, look: Look) -> None:
    """Dots, with bars for intervals; small ones if they are many."""
    colour, marker, *_ = look
    bounds(axes, rows, colour)
    style: dict[str, Any] = (
        {"markersize": 4.0} if len(rows) < 60 else {"markersize": 2.6, "alpha": 0.7}
    )
    axes.plot(rows.x, rows.y, marker, color=colour, label=rows.series.iloc[0], **style)


def placed(axes: Axes, rows: DataFrame, look: Look) -> None:
    """Dots, `z` the number of their marker where they have one, with their `name` at them."""
    for kind, own in rows.groupby(rows.z.fillna(0)):
        at = int(kind) - 1
        marked = (look[0], LOOKS[at % len(LOOKS)][1] if kind else look[1], *look[2:])
        points(axes, own, marked)
    for row in rows[rows.name != ""].itertuples():
        style: dict[str, Any] = {"textcoords": "offset points", "fontsize": 5.5, "va": "center"}
        axes.annotate(fitted(row.name, 3.4, 5.5, most=3), (row.x, row.y), (3, 0), **style)


def bubbles(axes: Axes, rows: DataFrame, look: Look) -> None:
    """Dots whose area grows with `z`, how many values each is of."""
    areas = 8 + min(9, 212 / max(rows.z.max() - 1, 1)) * (rows.z - 1)
    axes.margins(0.1)
    style: dict[str, Any] = {"alpha": 0.5, "edgecolor": INK, "linewidth": 0.4}
    axes.scatter(rows.x, rows.y, s=areas, color=look[0], **style)


def curve(axes: Axes, rows: DataFrame, look: Look) -> None:
    """A line with its markers and intervals if its places are few, else with its band."""
    (colour, marker, dash, _), known = look, rows.dropna(subset=["x", "y"])
    if len(known) <= MOST_MARKED:
        bounds(axes, known, colour)
    else:
        marker, band = "", known.dropna(subset=["low", "high"])
        axes.fill_between(band.x, band.low, band.high, color=colour, alpha=0.15, linewidth=0)
    style: dict[str, Any] = {"color": colour, "linestyle": dash, "marker": marker}
    axes.plot(known.x, known.y, label=rows.series.iloc[0], **style)


def bars(axes: Axes, rows: DataFrame, look: Look) -> None:
    """Bars from `x` to `to`, from 0 to `y`, so pale that the ends of an interval are seen."""
    from matplotlib.colors import to_rgba

    axes.bar(
        rows.x, rows.y, width=rows.to - rows.x, align="edge", label=rows.series.iloc[0],
        facecolor=to_rgba(look[0], 0.65), edgecolor=INK, hatch=look[3], linewidth=0.5,
    )  # fmt: skip
    bounds(axes, rows.assign(x=(rows.x + rows.to) / 2), INK)


def violin(axes: Axes, rows: DataFrame, look: Look) -> None:
    """The distribution of `y` at the first `x`: quartiles as a box, the mean as a mark."""
    values, place = rows.y.dropna().to_numpy(), float(rows.x.iloc[0])
    if len(np.unique(values)) > 1:
        drawn: Any = axes.violinplot([values], [place], widths=0.8, showextrema=False)
        style = {"facecolor": look[0], "edgecolor": INK, "alpha": 0.45, "linewidth": 0.6}
        drawn["bodies"][0].set(hatch=look[3], **style)
    box: dict[str, Any] = {"color": INK, "linewidth": 0.8}
    axes.boxplot(
        values, positions=[place], widths=0.14, showfliers=False, manage_ticks=False,
        boxprops=box, whiskerprops=box, capprops=box, medianprops={**box, "linewidth": 1.6},
    )  # fmt: skip
    axes.plot([place], [np.mean(values)], look[1], color="white")


def forest(axes: Axes, rows: DataFrame, look: Look) -> None:
    """Values `x` with their intervals along the x axis, at the heights `y`."""
    bounds(axes, rows, INK, axis="x")
    axes.plot(rows.x, rows.y, look[1], color=look[0])


MARKS = {
    **{"points": points, "placed": placed, "bubbles": bubbles, "curve": curve},
    **{"bars": bars, "violin": violin, "forest": forest},
}
"""What draws the rows of a series, by the name in their column `mark`."""


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
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 6.5}
        style["color"] = "white" if (row.z - low) / (top - low) < 0.55 else "black"
        if best == (row.x, row.y):
            style["bbox"] = {"facecolor": "none", "edgecolor": style["color"], "pad": 3}
        short = f"{row.z:.2f}".replace("0.", ".", 1) if abs(row.z) < 1 else f"{row.z:.2f}"
        axes.text(row.x, row.y, row.name or short, **style)
    axes.spines[:].set_visible(False)


def counts_below(axes: Axes, bins: DataFrame) -> Axes:
    """Columns below the axes with their numbers: the `n` texts from each `x` to `to`."""
    axes.tick_params(labelbottom=False, length=0)
    below = axes.inset_axes((0.0, -0.27, 1.0, 0.22), sharex=axes)
    width = bins.to - bins.x
    drawn = below.bar(bins.x, bins.n, width=width, align="edge", color="#bbbbbb", ec="white")
    below.bar_label(drawn, fontsize=6, padding=1)
    below.set(ylim=(0, max(bins.n.max(), 1) * 1.9), yticks=[])
    below.set_ylabel("texts", fontsize=SMALL)
    below.spines["left"].set_visible(False)
    return below


def reference(axes: Axes, rows: DataFrame, value: float, *, axis: str) -> None:
    """A dashed line at this value of an axis, x or y, which the legend names chance."""
    draw = axes.axvline if axis == "x" else axes.axhline
    draw(value, color=GREY, linewidth=0.8, linestyle=(0, (2, 2)), zorder=0.8, label="chance")


def diagonal(axes: Axes, rows: DataFrame) -> None:
    """A dotted line from 0, 0 to 1, 1."""
    axes.plot([0, 1], [0, 1], color="#777777", linewidth=0.8, linestyle=":", zorder=0.5)
