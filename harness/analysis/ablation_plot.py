"""Trainings of the implicitness metric to a plot: each form, and each setting that was swept."""

from collections.abc import Sequence
from statistics import fmean
from typing import Final

from harness.analysis.plots import Plot, Series, svg
from harness.implicitness.training.ablation import SWEPT, AblationRow

DRAWN: Final = ("implicitness", "pragmatics", "tau")
NAMES: Final = {"margin": "gamma 1", "pragmatic_margin": "gamma 2", "pragmatic_weight": "alpha"}
_SHORT: Final = {"cosine": "cos", "euclidean": "euc"}


def picture(rows: Sequence[AblationRow]) -> str:
    """The forms, then each swept setting, as SVG: a point for each training, and lines of means."""
    values = [value for row in rows for name in DRAWN if (value := _figure(row, name)) is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = 0.05 * (high - low) or 0.05
    plots = [_forms([row for row in rows if row.setting == "form"], (low - room, high + room))]
    for setting in SWEPT:
        mine = [row for row in rows if row.setting == setting]
        series = tuple(part for figure in DRAWN for part in _swept(mine, figure))
        ends = (0.0, max(float(row.value) for row in mine) * 1.05)
        title = f"{NAMES[setting]} ({setting})"
        plots.append(Plot(title, title, "on test pairs", series, ends, plots[0].y_range))
    return svg(
        plots, title="Held-out accuracy (implicitness, pragmatics) and tau, by form and setting"
    )


def _forms(rows: Sequence[AblationRow], y_range: tuple[float, float]) -> Plot:
    forms = list(dict.fromkeys(row.value for row in rows))
    series = []
    for at, figure in enumerate(DRAWN):
        found = [(forms.index(row.value) + 1, _figure(row, figure)) for row in rows]
        places = [place + (at - 1) * 0.22 for place, _ in found]
        values = [float("nan") if value is None else value for _, value in found]
        if any(value is not None for _, value in found):
            series.append(Series(figure, "points", places, values))
    names = tuple(" ".join(_SHORT.get(word, word) for word in form.split()) for form in forms)
    title = "form: direction, distance of implicitness, pragmatic distance"
    ends = (0.4, len(forms) + 0.6)
    return Plot(title, "form", "on test pairs", tuple(series), ends, y_range, names)


def _swept(rows: Sequence[AblationRow], figure: str) -> list[Series]:
    found = [(float(row.value), _figure(row, figure)) for row in rows]
    points = [(x, y) for x, y in found if y is not None]
    if not points:
        return []
    places = sorted({x for x, _ in points})
    means = [fmean(y for x, y in points if x == place) for place in places]
    return [
        Series(figure, "line", places, means),
        Series(figure, "points", [x for x, _ in points], [y for _, y in points]),
    ]


def _figure(row: AblationRow, name: str) -> float | None:
    value: float | None = getattr(row.figures, name)
    return value
