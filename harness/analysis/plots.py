"""Points, lines, bands and bars to a picture: SVG text, the same bytes for the same numbers.

Plots are side by side and share one legend; text in a picture is escaped. Last: the plots of an
ablation of the implicitness metric, which draw each form and each setting that was swept. Nothing
here writes a file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import floor, isfinite, log10, nan
from statistics import fmean
from typing import Final, Literal

from harness.implicitness.train import SWEPT, AblationRow

COLOURS = ("#1f5fa8", "#c2571a", "#2e7d4f", "#8a3b8f", "#8c6d1f", "#4a4a4a")
"""Dark enough for white paper; a seventh series begins again with the first."""
WIDTH, HEIGHT = 460, 320
LEFT, RIGHT, TOP, BOTTOM, LEGEND = 58, 14, 34, 46, 18
Form = Literal["points", "line", "dashed", "bars"]


@dataclass(frozen=True, slots=True)
class Series:
    """Values at places, with intervals where `low` and `high` are given; NaN is not drawn.

    Points have bars for their intervals, lines a band. Bars of a histogram reach from `x` to the
    same place in `to`. Series of one `label` have one colour and one line in the legend.
    """

    label: str
    form: Form
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    to: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Plot:
    """One pair of axes; `y_range` is given, or taken from the values and 0.

    `x_names` are the names of the places 1, 2, ... on the x axis, a line a word; they take the
    place of its numbers and of `x_label`.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_range: tuple[float, float]
    y_range: tuple[float, float] | None = None
    x_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Axes:
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    left: float

    def x(self, value: float) -> float:
        low, high = self.x_range
        width = WIDTH - LEFT - RIGHT
        return self.left + LEFT + width * (value - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = self.y_range
        height = HEIGHT - TOP - BOTTOM
        return TOP + height * (1 - (value - low) / (high - low))


def svg(plots: Sequence[Plot], *, title: str) -> str:
    """The picture of some plots side by side, its title and legend below them."""
    labels = list(dict.fromkeys(part.label for plot in plots for part in plot.series))
    colours = {label: COLOURS[at % len(COLOURS)] for at, label in enumerate(labels)}
    width, height = WIDTH * len(plots), HEIGHT + LEGEND * (len(labels) + 1)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f"<title>{_escaped(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for at, plot in enumerate(plots):
        axes = _Axes(plot.x_range, plot.y_range or _range(plot.series), at * WIDTH)
        lines.append(_text(axes.left + LEFT, TOP - 14, plot.title, more=' font-size="13"'))
        lines += _frame(axes, plot)
        for part in plot.series:
            lines += _DRAWN[part.form](part, axes, colours[part.label])
    for at, label in enumerate(labels):
        y = HEIGHT + LEGEND * at
        lines.append(f'<rect x="{LEFT}" y="{y}" width="10" height="10" fill="{colours[label]}"/>')
        lines.append(_text(LEFT + 16, y + 10, label))
    lines.append(_text(LEFT, HEIGHT + LEGEND * len(labels) + 10, title))
    return "\n".join([*lines, "</svg>"]) + "\n"


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between two ends: four to ten of them."""
    rough = (high - low) / 5
    unit = 10.0 ** floor(log10(rough))
    step = next(unit * part for part in (1, 2, 2.5, 5, 10) if unit * part >= rough * 0.999)
    first = floor(low / step + 0.999999)
    ticks = [round(step * at, 10) for at in range(first, first + 12)]
    return [value for value in ticks if value <= high + step * 1e-6]


def _range(series: Sequence[Series]) -> tuple[float, float]:
    values = [v for part in series for v in (*part.y, *part.low, *part.high) if isfinite(v)]
    low, high = min([0.0, *values]), max([0.0, *values])
    return low, high + 0.05 * (high - low) if high > low else low + 1.0


def _frame(axes: _Axes, plot: Plot) -> list[str]:
    (x_low, x_high), (y_low, y_high) = axes.x_range, axes.y_range
    bottom, start = axes.y(y_low), axes.x(x_low)
    lines = _places(axes, plot, bottom)
    for value in ticks(y_low, y_high):
        y = axes.y(value)
        lines.append(_line(start, y, axes.x(x_high), y, "#e4e4e4"))
        lines.append(_text(start - 6, y + 4, f"{value:g}", anchor="end"))
    lines.append(_line(start, bottom, axes.x(x_high), bottom, "#333333"))
    lines.append(_line(start, bottom, start, axes.y(y_high), "#333333"))
    x, y = axes.left + 14, (bottom + axes.y(y_high)) / 2
    turned = f' transform="rotate(-90 {x:.1f} {y:.1f})"'
    lines.append(_text(x, y, plot.y_label, anchor="middle", more=turned))
    return lines


def _places(axes: _Axes, plot: Plot, bottom: float) -> list[str]:
    lines = []
    names = dict(enumerate(plot.x_names, 1))
    for value in names or ticks(*axes.x_range):
        x, words = axes.x(value), names[int(value)].split() if names else [f"{value:g}"]
        lines.append(_line(x, bottom, x, bottom + 4, "#333333"))
        for place, word in enumerate(words):
            lines.append(_text(x, bottom + 16 + 12 * place, word, anchor="middle"))
    if not names:
        middle = (axes.x(axes.x_range[0]) + axes.x(axes.x_range[1])) / 2
        lines.append(_text(middle, bottom + 34, plot.x_label, anchor="middle"))
    return lines


def _points(part: Series, axes: _Axes, colour: str) -> list[str]:
    lines = []
    for at, (x, y) in enumerate(zip(part.x, part.y, strict=True)):
        if not isfinite(y):
            continue
        ends = [side[at] for side in (part.low, part.high) if len(side)]
        if len(ends) == 2 and all(map(isfinite, ends)):
            place = axes.x(x)
            lines.append(_line(place, axes.y(ends[0]), place, axes.y(ends[1]), colour))
        lines.append(f'<circle cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="3" fill="{colour}"/>')
    return lines


def _curve(part: Series, axes: _Axes, colour: str) -> list[str]:
    places = [at for at, y in enumerate(part.y) if isfinite(y)]
    banded = [
        at for at in places if len(part.low) and isfinite(part.low[at]) and isfinite(part.high[at])
    ]
    lines = []
    if len(banded) > 1:
        edge = [(part.x[at], part.high[at]) for at in banded]
        edge += [(part.x[at], part.low[at]) for at in reversed(banded)]
        lines.append(f'<polygon points="{_path(edge, axes)}" fill="{colour}" opacity="0.15"/>')
    dash = ' stroke-dasharray="5 4"' if part.form == "dashed" else ""
    path = _path([(part.x[at], part.y[at]) for at in places], axes)
    lines.append(
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>'
    )
    return lines


def _bars(part: Series, axes: _Axes, colour: str) -> list[str]:
    lines = []
    for x, end, y in zip(part.x, part.to, part.y, strict=True):
        if isfinite(y):
            left, right, top = axes.x(x), axes.x(end), axes.y(y)
            lines.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
                f'height="{axes.y(axes.y_range[0]) - top:.1f}" fill="{colour}" opacity="0.45"/>'
            )
    return lines


_DRAWN = {"points": _points, "line": _curve, "dashed": _curve, "bars": _bars}


def _path(points: Sequence[tuple[float, float]], axes: _Axes) -> str:
    return " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in points)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", more: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text {place}{more}>{_escaped(text)}</text>"


def _escaped(text: str) -> str:
    return escape("".join(char for char in text if char.isprintable() or char == " "))


ABLATION_METRICS: Final = ("implicitness", "pragmatics", "tau")
_SYMBOLS: Final = {"margin": "gamma 1", "pragmatic_margin": "gamma 2", "pragmatic_weight": "alpha"}
_SHORT: Final = {"cosine": "cos", "euclidean": "euc"}


def ablation_picture(rows: Sequence[AblationRow]) -> str:
    """The trainings of an ablation as SVG: the forms, then each swept setting.

    Each training is a point; lines join the means of the trainings of one value.
    """
    values = [getattr(row.figures, name) for row in rows for name in ABLATION_METRICS]
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    room = 0.05 * (high - low) or 0.05
    plots = [_forms([row for row in rows if row.setting == "form"], (low - room, high + room))]
    for setting in SWEPT:
        own = [row for row in rows if row.setting == setting]
        series = tuple(part for metric in ABLATION_METRICS for part in _swept(own, metric))
        ends = (0.0, max(float(row.value) for row in own) * 1.05)
        title = f"{_SYMBOLS[setting]} ({setting})"
        plots.append(Plot(title, title, "on test pairs", series, ends, plots[0].y_range))
    return svg(
        plots, title="Held-out accuracy (implicitness, pragmatics) and tau, by form and setting"
    )


def _forms(rows: Sequence[AblationRow], y_range: tuple[float, float]) -> Plot:
    forms, series = list(dict.fromkeys(row.value for row in rows)), []
    for at, metric in enumerate(ABLATION_METRICS):
        places = [forms.index(row.value) + 1 + (at - 1) * 0.22 for row in rows]
        values = [getattr(row.figures, metric) for row in rows]
        if any(value is not None for value in values):
            drawn = [nan if value is None else value for value in values]
            series.append(Series(metric, "points", places, drawn))
    names = tuple(" ".join(_SHORT.get(word, word) for word in form.split()) for form in forms)
    title = "form: direction, distance of implicitness, pragmatic distance"
    ends = (0.4, len(forms) + 0.6)
    return Plot(title, "form", "on test pairs", tuple(series), ends, y_range, names)


def _swept(rows: Sequence[AblationRow], metric: str) -> list[Series]:
    points = [(float(row.value), getattr(row.figures, metric)) for row in rows]
    known: list[tuple[float, float]] = [(x, y) for x, y in points if y is not None]
    if not known:
        return []
    places = sorted({x for x, _ in known})
    means = [fmean(y for x, y in known if x == place) for place in places]
    return [
        Series(metric, "line", places, means),
        Series(metric, "points", [x for x, _ in known], [y for _, y in known]),
    ]
