"""A figure: panels of rows, their values as CSV, and the picture as PDF, SVG or PNG.

Two rules hold for all figures: a value of fewer than ten texts is not drawn, and a panel has at
most six series; with more, each has a panel of its own, but in maps of points. The data file has
every value. The same numbers give the same bytes. Nothing here writes a file or computes a number.
"""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil, isfinite, nan
from typing import TYPE_CHECKING, Any, Final, Literal

from harness.errors import SpecError
from harness.lazy import Axes, DataFrame, pandas
from harness.models.extras import require
from harness.present.figures import marks
from harness.present.figures.marks import LOOKS, SMALL, TEXT, TITLE, Look, fitted, width_cm
from harness.storage.frames import frame_csv

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

Ending = Literal[".pdf", ".svg", ".png"]
ENDINGS: Final[tuple[Ending, ...]] = (".pdf", ".svg", ".png")
WIDTH, LEAST_WIDTH = 16.0, 6.0
FEWEST, MOST_SERIES = 10, 6
NUMBERS: Final = ("x", "to", "y", "low", "high", "z", "n")
COLUMNS: Final = (
    *("panel", "series", "name", "x", "x_name", "to", "y", "y_name"),
    *("low", "high", "z", "n", "note"),
)
"""The columns of a data file; docs/tables.md has what each holds."""
_METADATA: Final[Mapping[str, dict[str, None]]] = {
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    ".svg": {"Date": None, "Creator": None},
    ".png": {"Software": None},
}
_CM, _NAMES, _NARROWEST = 1 / 2.54, 0.38, 4.8
"""Inches; the share of a panel that the names of its rows may take; its least width in cm."""


@dataclass(frozen=True, slots=True)
class Subplot:
    """A panel: `rows` as `values` makes them, drawn by what their column `mark` names.

    `axes` is for the `set` of matplotlib's axes; `also` draws on them what no mark does. `x_names`
    and `y_names` name the places 1, 2, ... of an axis. `note` is below the title. `bins` (x, to, n)
    counts texts below the axes.
    """

    title: str
    rows: DataFrame
    axes: Mapping[str, Any] = field(default_factory=dict)
    also: Callable[[Axes, DataFrame], None] | None = None
    note: str = ""
    x_names: Sequence[str] = ()
    y_names: Sequence[str] = ()
    shape: Literal["wide", "square", "forest", "cells"] = "wide"
    bins: DataFrame | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels that share a title and a legend; `notes` are below all of it.

    One `is_joint` keeps its series in one panel, however many: single points, no lines and bars.
    """

    title: str
    panels: tuple[Subplot, ...]
    notes: tuple[str, ...] = ()
    is_joint: bool = False

    @property
    def labels(self) -> list[str]:
        """The names of all series, in the order of their colours."""
        return list(dict.fromkeys(label for panel in self.panels for label in panel.rows.series))


def values(
    series: str, x: object, y: object, mark: str, *, name: object = "", **more: object
) -> DataFrame:
    """The rows of one series: places `x`, values `y`; NaN is not drawn.

    `more` has `low` and `high` of intervals, `to` (the end of a bar), `z` (the number in a cell, or
    how many values a point is of), and `n`: how many texts a value is of; without it a value is of
    one text, and always drawn.
    """
    made = pandas.DataFrame({"x": x, "y": y, **more}).reindex(columns=NUMBERS).astype("float64")
    for column, texts in (("series", series), ("name", name), ("mark", mark)):
        made[column] = pandas.Series(texts, made.index, "object")
    return made


def together(parts: Iterable[DataFrame]) -> DataFrame:
    """The rows of several series."""
    return pandas.concat([values("", [], [], ""), *parts], ignore_index=True)


def data_csv(figure: Figure) -> str:
    """All values of a figure as CSV, also those that are not drawn, with the reason in `note`."""
    few = {True: f"not drawn: fewer than {FEWEST} texts", False: ""}
    parts = [(one, one.rows.assign(note=(one.rows.n < FEWEST).map(few))) for one in figure.panels]
    for panel, bins in ((one, one.bins) for one in figure.panels):
        if bins is not None:
            rows = values("texts", bins.x, nan, "", to=bins.to, n=bins.n)
            parts.append((panel, rows.assign(note="texts from x to `to`")))
    named = [
        rows.assign(
            panel=panel.title,
            x_name=[_name(panel.x_names, place) for place in rows.x],
            y_name=[_name(panel.y_names, place) for place in rows.y],
        )
        for panel, rows in parts
    ]
    return frame_csv(together(named).reindex(columns=[*COLUMNS]).astype({"n": "Int64"}))


def _name(names: Sequence[str], place: float) -> str:
    """The name of the place that a value is nearest to."""
    at = round(place) if isfinite(place) else 0
    return names[at - 1] if 0 < at <= len(names) else ""


def drawable(figure: Figure) -> Figure:
    """The figure without values of too few texts, which a note counts; in panels of six series."""
    panels, lost = list[Subplot](), 0
    for panel in figure.panels:
        few = panel.rows.n < FEWEST
        lost += int(few.sum())
        kept = panel.rows.assign(y=panel.rows.y.mask(few))
        kept = kept[~few.groupby(panel.rows.series).transform("all").astype(bool)]
        panels.append(replace(panel, rows=kept))
    what = "value" if lost == 1 else "values"
    note = (f"{lost} {what} of fewer than {FEWEST} texts not drawn",) if lost else ()
    many = len(replace(figure, panels=tuple(panels)).labels) > MOST_SERIES
    if many and not figure.is_joint:  # a panel for each series
        panels = [
            replace(one, title=f"{one.title} | {label}".removeprefix(" | "), rows=own)
            for one in panels
            for label, own in one.rows.groupby("series", sort=False)
        ]
    return replace(figure, panels=tuple(panels), notes=(*figure.notes, *note))


def pictures(
    figure: Figure, endings: Iterable[Ending], *, width_cm: float = WIDTH
) -> dict[Ending, bytes]:
    """The file of a figure for each ending."""
    drawn = draw(figure, width_cm=width_cm)
    return {ending: _saved(drawn, ending) for ending in endings}


def _saved(drawn: "Drawn", ending: str) -> bytes:
    out, metadata = io.BytesIO(), dict[str, Any](_METADATA[ending])
    with marks.styled():
        drawn.savefig(out, format=ending[1:], dpi=200, metadata=metadata)
    return out.getvalue()


def draw(figure: Figure, *, width_cm: float = WIDTH) -> "Drawn":
    """The figure by matplotlib, which a notebook shows."""
    require("matplotlib", extra="plots", what="figures need")
    if not width_cm >= LEAST_WIDTH:
        raise SpecError(f"a width of {width_cm:g} cm: give {LEAST_WIDTH:g} or more")
    figure = drawable(figure)
    with marks.styled():
        made = _drawn(figure, width_cm)
    # A notebook shows what has this method; a figure that pyplot has not made has none.
    made._repr_png_ = partial(_saved, made, ".png")  # type: ignore[attr-defined]
    return made


def _drawn(figure: Figure, width: float) -> "Drawn":
    """Panels, the title above them, notes and legend below, placed by matplotlib's own layout."""
    from matplotlib.figure import Figure as Drawn
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    panels, labels = figure.panels, figure.labels
    looks = {name: _look(at, figure, len(labels)) for at, name in enumerate(labels)}
    columns = _columns(panels, width)
    bodies = [_body(panel, width / columns) for panel in panels] or [1.0]
    heights = [max(bodies[at : at + columns]) for at in range(0, len(bodies), columns)]
    height = sum(heights) + 3 * len(heights) + 2
    layout = ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06)
    drawn = Drawn(figsize=(width * _CM, height * _CM), layout=layout)
    grid = drawn.add_gridspec(len(heights), columns, height_ratios=heights)
    axes = [drawn.add_subplot(grid[divmod(at, columns)]) for at in range(len(panels))]
    for one, panel in zip(axes, panels, strict=True):
        _draw_panel(one, panel, looks, width / columns)
    # Bold letters are wider than those that are measured.
    title = fitted(figure.title, (width - 0.6) / 1.15, TITLE, most=3)
    drawn.suptitle(title, x=0.3 / width, ha="left", size=TITLE, weight="bold")
    _add_legend(drawn, figure.notes, looks, width - 0.6, is_joint=figure.is_joint)
    # Texts are wrapped to the width of the axes, and the height follows.
    for _ in range(2 if axes else 0):
        layout.execute(drawn)
        for one, panel in zip(axes, panels, strict=True):
            _fit_texts(one, panel)
        layout.execute(drawn)
        found = [one.get_position(original=True).height * height for one in axes[::columns]]
        height = round(height + sum(heights) - sum(found), 2)
        drawn.set_figheight(height * _CM)
    drawn.draw_without_rendering()
    drawn.set_layout_engine("none")
    for one in drawn.axes:  # the solver's last digits differ from time to time
        place = one.get_position(original=True)
        one.set_position(tuple(round(value, 4) for value in place.bounds))
    return drawn


def _look(at: int, figure: Figure, count: int) -> Look:
    """How a series looks; of many in one panel each has a colour of its own."""
    if count <= MOST_SERIES or not figure.is_joint:
        return LOOKS[at if count <= MOST_SERIES else 0]
    look = LOOKS[at % MOST_SERIES]
    return marks.COLOURS[at % len(marks.COLOURS)], look[1], look[2], look[3]


def _names_cm(panel: Subplot) -> float:
    """How wide the names of its rows are."""
    return max(map(width_cm, panel.y_names), default=0.0)


def _columns(panels: Sequence[Subplot], width: float) -> int:
    """As many panels side by side as leave their titles and the names of rows and cells whole."""
    least = _NARROWEST
    for panel in panels:
        names, title = _names_cm(panel), width_cm(panel.title, TEXT) / 2.5
        cells = 0.62 * len(panel.x_names) if panel.shape == "cells" else 0.0
        least = max(least, names / _NAMES, names + 1.5 + max(title, cells))
    count = max(len(panels), 1)
    return ceil(count / ceil(count / max(1, min(count, int(width // least)))))


def _body(panel: Subplot, room: float) -> float:
    """How high the axes are, in cm."""
    square = room - 1.7 - min(_names_cm(panel), _NAMES * room)
    return {
        "forest": 0.45 * len(panel.y_names) + 0.5,
        "cells": max(0.55 * len(panel.y_names), 2.0),
        "square": min(max(square, 3.0), 8.0),
        "wide": min(max(3.4, 0.36 * room), 5.5),
    }[panel.shape]


def _draw_panel(axes: Axes, panel: Subplot, looks: Mapping[str, Look], room: float) -> None:
    """The marks of a panel, and all around them but what `_fit_texts` writes."""
    if panel.rows.y.notna().any():
        for (label, mark), own in panel.rows.groupby(["series", "mark"], sort=False):
            if mark:
                marks.MARKS[mark](axes, own, looks[label])
        if panel.also is not None:
            panel.also(axes, panel.rows)
        axes.set(**panel.axes)
    else:
        axes.text(0.5, 0.5, "too few texts to draw", transform=axes.transAxes, ha="center")
    edge = 0.5 if panel.shape == "cells" else 0.4
    if panel.shape != "cells":
        axis: Literal["x", "y"] = "x" if panel.shape == "forest" else "y"
        axes.grid(axis=axis, color=marks.PALE, linewidth=0.5)
    if panel.x_names:
        axes.set_xticks(range(1, len(panel.x_names) + 1), [""] * len(panel.x_names))
        axes.set_xlim(edge, len(panel.x_names) + 1 - edge)
    if panel.y_names:
        names = [fitted(name, _NAMES * room) for name in panel.y_names]
        axes.set_yticks(range(1, len(names) + 1), names)
        axes.set_ylim(len(names) + 1 - edge, edge)
    if panel.bins is not None:
        marks.counts_below(axes, panel.bins)


def _fit_texts(axes: Axes, panel: Subplot) -> None:
    """Wrap the texts around some axes to the width that these have."""
    room = axes.get_window_extent().width / axes.get_figure(root=True).dpi / _CM  # type: ignore[union-attr]  # it is drawn
    texts = (fitted(panel.title, room, TEXT, most=3), fitted(panel.note, room, TEXT, most=2))
    axes.set_title("\n".join(filter(None, texts)), loc="left")
    axes.set(xlabel="", ylabel=fitted(panel.axes.get("ylabel", ""), 4.5, TEXT, most=2))
    lowest = [axes, *axes.child_axes][-1]
    lowest.set_xlabel(fitted(panel.axes.get("xlabel", ""), 0.95 * room, TEXT, most=2))
    if not panel.x_names:
        return
    each, turned = room / len(panel.x_names), dict[str, Any]()
    names = [fitted(name, each - 0.08, most=3) for name in panel.x_names]
    if not all(marks.is_whole(name, each - 0.08, most=3) for name in panel.x_names):
        turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        turned = {"rotation": 90} if each < 0.5 else turned
        names = [fitted(name, 3.2) for name in panel.x_names]
    axes.set_xticks(range(1, len(names) + 1), names, **turned)


def _add_legend(
    drawn: "Drawn", notes: Sequence[str], looks: Mapping[str, Look], room: float, *, is_joint: bool
) -> None:
    """The notes, and below them the names of the series; one series alone needs no name."""
    found: dict[str, Any] = {}
    for axes in drawn.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    is_named = len(looks) >= 2 and (is_joint or len(looks) <= MOST_SERIES)
    # Series first, in the order of their colours.
    names = [name for name in looks if name in found and is_named] + sorted({*found} - {*looks})
    if not names and not notes:
        return
    # 1.1 cm for the mark of each name and the space to the next.
    widest = max(map(width_cm, names), default=1.0) + 1.1
    legend = drawn.legend(
        [found[name] for name in names], [fitted(name, room - 1.1) for name in names],
        loc="outside lower left", ncols=max(1, min(len(names), int(room // widest))),
        title="\n".join(fitted(note, room, SMALL, most=3) for note in notes),
        title_fontsize=SMALL, alignment="left", frameon=False,
        borderpad=0.1, labelspacing=0.55, handlelength=2.4, columnspacing=1.4,
    )  # fmt: skip
    legend.get_title().set_color("#444444")
