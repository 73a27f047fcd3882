"""Charts: the numbers of a figure, before anybody draws them, and as the rows of a CSV file.

Two rules hold for all: what fewer than ten texts stand behind is not drawn, and a panel has at
most six series, else each gets a panel of its own. The rows of the file have everything.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import Final, Literal

from harness.storage.cells import records_csv

FEWEST: Final = 10
MOST_SERIES: Final = 6
Form = Literal["points", "line", "dashed", "bars", "violin", "forest", "cells"]
Range = tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Series:
    """Values `y` at places `x`, with intervals where `low` and `high` are given; NaN is not drawn.

    points: dots, with bars for intervals; `z`, where given, is how many values each stands for.
    line, dashed: a curve, with a band. bars: from `x` to `to`, from 0 to `y`. violin: the
    distribution of `y`, at the first of `x`. forest: the value `x` with its interval from `low` to
    `high`, at the height `y`. cells: the number `z` in column `x` and row `y`. `n` counts the texts
    behind each value; without it each point, and each value of a violin, is one
    text. `names` says what each value is of.
    """

    label: str
    form: Form
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    to: Sequence[float] = ()
    z: Sequence[float] = ()
    n: Sequence[int] = ()
    names: Sequence[str] = ()

    @property
    def is_sparse(self) -> bool:
        """Whether it has values of one text each, and too few of them to be drawn."""
        is_of_texts = not self.n and self.form in ("points", "violin")
        return is_of_texts and 0 < (sum(self.z) if self.is_bubbles else len(self.y)) < FEWEST

    @property
    def is_bubbles(self) -> bool:
        """Whether a point stands for several values."""
        return self.form == "points" and len(self.z) > 0


@dataclass(frozen=True, slots=True)
class Columns:
    """How many texts there are from one place of the x axis to another, drawn below the panel."""

    x: Sequence[float]
    to: Sequence[float]
    n: Sequence[int]


@dataclass(frozen=True, slots=True)
class Plot:
    """One panel. Ranges are those of the values where they are not given.

    `x_names` and `y_names` name the places 1, 2, ... of an axis. `note` stands below the title.
    `line` is a reference: its value and its name, vertical in a forest, else horizontal. `best` is
    the cell that is marked, as column and row.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_range: Range = None
    y_range: Range = None
    z_range: Range = None
    x_names: tuple[str, ...] = ()
    y_names: tuple[str, ...] = ()
    note: str = ""
    columns: Columns | None = None
    line: tuple[float, str] | None = None
    best: tuple[int, int] | None = None
    is_square: bool = False
    has_diagonal: bool = False

    @property
    def labels(self) -> list[str]:
        """The names of its series, each once; cells are named by their row and column."""
        return list(dict.fromkeys(part.label for part in self.series if part.form != "cells"))


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure: panels that share a title and a legend; `notes` stand below all of it."""

    title: str
    plots: tuple[Plot, ...]
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """The names in the legend, in the order of their colours."""
        return list(dict.fromkeys(label for plot in self.plots for label in plot.labels))


@dataclass(frozen=True, slots=True)
class ChartRow:
    """A value of a figure; `x_name` and `y_name` are of places that have names."""

    panel: str
    series: str
    name: str
    x: float | None
    x_name: str
    to: float | None
    y: float | None
    y_name: str
    low: float | None
    high: float | None
    z: float | None
    n: int | None
    note: str


def chart_csv(chart: Chart) -> str:
    """All values of a chart as CSV, also those that are not drawn, with the reason."""
    rows = [row for plot in chart.plots for part in plot.series for row in _rows(plot, part)]
    rows += [row for plot in chart.plots if plot.columns for row in _counts(plot, plot.columns)]
    return records_csv(ChartRow, rows)


def _rows(plot: Plot, part: Series) -> Iterator[ChartRow]:
    for at, (x, y) in enumerate(zip(part.x, part.y, strict=True)):
        low, high, to, z = (_at(side, at) for side in (part.low, part.high, part.to, part.z))
        count = part.n[at] if part.n else None
        is_few = part.is_sparse or (count is not None and count < FEWEST)
        yield ChartRow(
            panel=plot.title,
            series=part.label,
            name=part.names[at] if part.names else "",
            x=_known(x),
            x_name=_name(plot.x_names, x),
            to=to,
            y=_known(y),
            y_name=_name(plot.y_names, y),
            low=low,
            high=high,
            z=z,
            n=count,
            note=f"not drawn: fewer than {FEWEST} texts" if is_few else "",
        )


def _counts(plot: Plot, columns: Columns) -> Iterator[ChartRow]:
    for x, to, n in zip(columns.x, columns.to, columns.n, strict=True):
        name = _name(plot.x_names, x)
        counted = (None, "", None, None, None, n, "texts from x to `to`")
        yield ChartRow(plot.title, "texts", "", x, name, to, *counted)


def _at(side: Sequence[float], place: int) -> float | None:
    return _known(side[place]) if len(side) else None


def _known(value: float) -> float | None:
    return float(value) if isfinite(value) else None


def _name(names: Sequence[str], place: float) -> str:
    """The name of the place that a value stands at, or beside."""
    at = round(place) if isfinite(place) else 0
    return names[at - 1] if 0 < at <= len(names) else ""


def checked(chart: Chart) -> Chart:
    """The chart as it is drawn: without what too few texts stand behind, and in panels that hold.

    What is left out is counted in the notes.
    """
    plots, lost = list[Plot](), 0
    for plot in chart.plots:
        parts = [_enough(part) for part in plot.series]
        lost += sum(count for _, count in parts)
        kept = tuple(part for part, _ in parts if part is not None)
        plots.append(replace(plot, series=kept))
    if len(replace(chart, plots=tuple(plots)).labels) > MOST_SERIES:
        plots = [part for plot in plots for part in _small_multiples(plot)]
    values = "value" if lost == 1 else "values"
    note = (f"{lost} {values} of fewer than {FEWEST} texts not drawn",) if lost else ()
    return replace(chart, plots=tuple(plots), notes=(*chart.notes, *note))


def _enough(part: Series) -> tuple[Series | None, int]:
    """A series without the values of too few texts, and how many these are."""
    if part.is_sparse:
        return None, len(part.y)
    few = {at for at, count in enumerate(part.n) if count < FEWEST}
    if not few:
        return part, 0
    kept = [nan if at in few else y for at, y in enumerate(part.y)]
    is_all = len(few) == len(part.y)
    return (None if is_all else replace(part, y=kept)), len(few)


def _small_multiples(plot: Plot) -> list[Plot]:
    if len(plot.labels) < 2:
        return [plot]
    return [
        replace(plot, title=" | ".join(filter(None, (plot.title, label))), series=own)
        for label in plot.labels
        if (own := tuple(part for part in plot.series if part.label == label))
    ]
