"""A figure: panels with their rows, its data as CSV, and its picture as PDF, SVG or PNG.

Two rules hold for all figures: a value of fewer than ten texts is not drawn, and a panel has at
most six series; with more, each has a panel of its own. The data file has every value. The same
numbers give the same bytes. Nothing here writes a file or computes a number.
"""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, isfinite, nan
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from harness.errors import SpecError, install
from harness.lazy import Axes, DataFrame, pandas
from harness.present.figures import marks
from harness.present.figures.marks import LOOKS, Look
from harness.storage.cells import csv_text

if TYPE_CHECKING:
    import matplotlib.figure

Ending = Literal[".pdf", ".svg", ".png"]
ENDINGS: Final[tuple[Ending, ...]] = (".pdf", ".svg", ".png")
FEWEST: Final = 10
MOST_SERIES: Final = 6
NARROWEST, LEAST_WIDTH, MOST_PANELS = 4.8, 6.0, 36
NUMBERS: Final = ("x", "to", "y", "low", "high", "z", "n")
COLUMNS: Final = (
    *("panel", "series", "name", "x", "x_name", "to", "y", "y_name"),
    *("low", "high", "z", "n", "note"),
)
"""The columns of a data file; docs/tables.md has what each holds."""
Looks = Mapping[str, Look]
Draw = Callable[["Axes", "DataFrame", Looks], None]
_METADATA: Final[Mapping[Ending, dict[str, None]]] = {
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    ".svg": {"Date": None, "Creator": None},
    ".png": {"Software": None},
}
_NAMES, _CM, _DPI = 0.38, 1 / 2.54, 200
"""The share of a panel that the names of its rows may take; units."""


@dataclass(frozen=True, slots=True)
class Subplot:
    """A pair of axes: `rows` as `values` makes them, and the function that draws them.

    `x_names` and `y_names` name the places 1, 2, ... of an axis. `note` is below the title. `bins`
    (x, to, n) counts texts below the axes.
    """

    title: str
    rows: DataFrame
    draw: Draw
    note: str = ""
    x_names: Sequence[str] = ()
    y_names: Sequence[str] = ()
    shape: Literal["wide", "square", "forest", "cells"] = "wide"
    bins: DataFrame | None = None

    @property
    def labels(self) -> list[str]:
        """The names of its series."""
        return list(dict.fromkeys(self.rows.series))


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels that share a title and a legend; `notes` are below all of it."""

    title: str
    panels: tuple[Subplot, ...]
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        """The names of all series, in the order of their colours."""
        return list(dict.fromkeys(label for panel in self.panels for label in panel.labels))


def values(
    series: str, x: object, y: object, *, name: object = "", mark: str = "", **more: object
) -> DataFrame:
    """The rows of one series: places `x`, values `y`; NaN is not drawn.

    `more` has `low` and `high` of intervals, `to` (the end of a bar), `z` (the number in a cell, or
    how many values a point is of), and `n`: how many texts a value is of; without it each value is
    one text. `mark` is for `draw_marked`.
    """
    made = pandas.DataFrame({"x": x, "y": y, **more}).reindex(columns=NUMBERS).astype("float64")
    for column, texts in (("series", series), ("name", name), ("mark", mark)):
        made[column] = pandas.Series(texts, made.index, "object")
    return made


def together(parts: Iterable[DataFrame]) -> DataFrame:
    """The rows of several series."""
    return pandas.concat([values("", [], []), *parts], ignore_index=True)


def each(mark: Callable[[Axes, DataFrame, Look], None]) -> Draw:
    """Draw every series with one kind of mark."""

    def draw(axes: Axes, rows: DataFrame, looks: Looks) -> None:
        for label, own in rows.groupby("series", sort=False):
            mark(axes, own, looks[label])

    return draw


def draw_marked(axes: Axes, rows: DataFrame, looks: Looks) -> None:
    """Draw each series with the marks that the column `mark` names."""
    for (label, mark), own in rows.groupby(["series", "mark"], sort=False):
        marks.MARKS[mark](axes, own, looks[label])


def data_of(figure: Figure) -> DataFrame:
    """All values of a figure, also those that are not drawn, with the reason in `note`."""
    parts = []
    for panel in figure.panels:
        few = _is_few(panel.rows)
        notes = few.map({True: f"not drawn: fewer than {FEWEST} texts", False: ""})
        parts.append((panel, panel.rows.assign(note=notes.astype("object"))))
    for panel in figure.panels:
        if panel.bins is not None:
            bins = values("texts", panel.bins.x, nan, to=panel.bins.to, n=panel.bins.n)
            parts.append((panel, bins.assign(note="texts from x to `to`")))
    named = [
        rows.assign(
            panel=panel.title,
            x_name=[_name(panel.x_names, x) for x in rows.x],
            y_name=[_name(panel.y_names, y) for y in rows.y],
        )
        for panel, rows in parts
    ]
    return pandas.concat(named, ignore_index=True)[[*COLUMNS]] if named else pandas.DataFrame()


def data_csv(figure: Figure) -> str:
    """The data of a figure as CSV."""
    data = data_of(figure)
    data["n"] = data["n"].astype("Int64")
    data = data.astype("object").where(data.notna(), None)
    return csv_text(COLUMNS, data.itertuples(index=False))


def _name(names: Sequence[str], place: float) -> str:
    """The name of the place that a value is nearest to."""
    at = round(place) if isfinite(place) else 0
    return names[at - 1] if 0 < at <= len(names) else ""


def _is_few(rows: DataFrame) -> Any:  # noqa: ANN401 - a pandas series of truth values
    """Which values are of too few texts; those without `n` are counted within their series."""
    is_text = rows.n.isna()
    texts = rows.z.fillna(1.0).where(is_text).groupby(rows.series).transform("sum")
    return (rows.n < FEWEST) | (is_text & (texts < FEWEST))


def drawable(figure: Figure) -> Figure:
    """The figure without values of too few texts, which a note counts; in panels of six series."""
    panels, lost = list[Subplot](), 0
    for panel in figure.panels:
        few = _is_few(panel.rows)
        lost += int(few.sum())
        kept = panel.rows.assign(y=panel.rows.y.mask(few))
        kept = kept[~few.groupby(panel.rows.series).transform("all").astype(bool)]
        panels.append(replace(panel, rows=kept))
    labels = {label for panel in panels for label in panel.labels}
    if len(labels) > MOST_SERIES:
        panels = [part for panel in panels for part in _split(panel)]
    what = "value" if lost == 1 else "values"
    note = (f"{lost} {what} of fewer than {FEWEST} texts not drawn",) if lost else ()
    return replace(figure, panels=tuple(panels), notes=(*figure.notes, *note))


def _split(panel: Subplot) -> list[Subplot]:
    """A panel for each series."""
    if len(panel.labels) < 2:
        return [panel]
    return [
        replace(panel, title=" | ".join(filter(None, (panel.title, str(label)))), rows=own)
        for label, own in panel.rows.groupby("series", sort=False)
    ]


def missing_package() -> str:
    """What to install before anything can be drawn; empty if matplotlib is there."""
    try:
        import matplotlib  # noqa: F401 - only whether it is there
    except ImportError:
        return f"no figure is drawn: matplotlib is not installed; run: {install('plots')}"
    return ""


def pictures(
    figure: Figure, endings: Iterable[Ending], *, width_cm: float = marks.WIDTH
) -> dict[Ending, bytes]:
    """The file of a figure for each ending; SpecError without matplotlib."""
    drawn = draw(figure, width_cm=width_cm)
    return {ending: _saved(drawn, ending) for ending in endings}


def _saved(drawn: "matplotlib.figure.Figure", ending: Ending) -> bytes:
    out = io.BytesIO()
    with marks.styled():
        drawn.savefig(out, format=ending[1:], dpi=_DPI, metadata=cast("Any", _METADATA[ending]))
    return out.getvalue()


def draw(figure: Figure, *, width_cm: float = marks.WIDTH) -> "matplotlib.figure.Figure":
    """The figure by matplotlib, which a notebook shows; SpecError for more than can be read."""
    if why := missing_package():
        raise SpecError(why)
    if not width_cm >= LEAST_WIDTH:
        raise SpecError(f"a width of {width_cm:g} cm: give {LEAST_WIDTH:g} or more")
    figure = drawable(figure)
    if len(figure.panels) > MOST_PANELS:
        raise SpecError(
            f"{len(figure.panels)} panels are more than can be read (at most {MOST_PANELS}); "
            "choose some runs, tasks, variants or judges"
        )
    with marks.styled():
        made = _drawn(figure, width_cm)
    # A notebook shows what has this method; a figure that pyplot has not made has none.
    made._repr_png_ = partial(_saved, made, ".png")  # type: ignore[attr-defined]
    return made


def _drawn(figure: Figure, width: float) -> "matplotlib.figure.Figure":
    """Panels, the title above them, notes and legend below, placed by matplotlib's own layout."""
    from matplotlib.figure import Figure as Drawn

    panels, labels = figure.panels, figure.labels
    is_split = len(labels) > MOST_SERIES
    looks = {name: LOOKS[0 if is_split else at] for at, name in enumerate(labels)}
    columns = _columns(panels, width)
    bodies = [_body(panel, width / columns) for panel in panels] or [1.0]
    heights = [max(bodies[at : at + columns]) for at in range(0, len(bodies), columns)]
    height = sum(heights) + 3 * len(heights) + 2
    drawn = Drawn(figsize=(width * _CM, height * _CM))
    drawn.set_layout_engine("constrained", h_pad=0.06, w_pad=0.06)
    grid = drawn.add_gridspec(len(heights), columns, height_ratios=heights)
    axes = [drawn.add_subplot(grid[divmod(at, columns)]) for at in range(len(panels))]
    room = width / columns
    names = [_draw_panel(*pair, looks, room) for pair in zip(axes, panels, strict=True)]
    # Bold letters are wider than those that are measured.
    title = marks.wrapped(figure.title, (width - 0.6) / 1.15, marks.TITLE)
    drawn.suptitle("\n".join(title), x=0.3 / width, ha="left", size=marks.TITLE, weight="bold")
    _add_legend(drawn, figure, looks, width - 0.6)
    for _ in range(2):  # texts are wrapped to the width of the axes, and the height follows
        drawn.draw_without_rendering()
        for each_axes, panel, name in zip(axes, panels, names, strict=True):
            _fit_texts(each_axes, panel, name)
        drawn.draw_without_rendering()
        firsts = axes[::columns]
        known = [one.get_position(original=True).height * height for one in firsts] or heights
        height = round(height + sum(heights) - sum(known), 2)
        drawn.set_figheight(height * _CM)
    drawn.draw_without_rendering()
    drawn.set_layout_engine("none")
    for one in drawn.axes:  # the solver's last digits differ from time to time
        place = one.get_position(original=True)
        one.set_position(tuple(round(value, 4) for value in place.bounds))
    return drawn


def _columns(panels: Sequence[Subplot], width: float) -> int:
    """As many panels side by side as leave every name whole, if any number does."""
    count = max(len(panels), 1)
    is_wide = any(_is_wide(panel, width) for panel in panels)
    most = 1 if is_wide else max(1, min(count, int(width // NARROWEST)))
    even = [ceil(count / ceil(count / n)) for n in range(most, 0, -1)]
    return next((n for n in even if _are_whole(panels, width / n)), even[0])


def _are_whole(panels: Sequence[Subplot], room: float) -> bool:
    return all(
        marks.fits(panel.title, room - 1.5 - _beside(panel, room), marks.TEXT, most=3)
        and all(marks.fits(name, _NAMES * room, marks.SMALL) for name in panel.y_names)
        for panel in panels
    )


def _body(panel: Subplot, room: float) -> float:
    """How high the axes are, in cm."""
    if panel.shape == "forest":
        return 0.45 * len(panel.y_names) + 0.5
    if panel.shape == "cells":
        return max(0.55 * len(panel.y_names), 2.0)
    if panel.shape == "square":
        return min(max(room - 1.7 - _beside(panel, room), 3.0), 8.0)
    return min(max(3.4, 0.36 * room), 5.5)


def _draw_panel(axes: Axes, panel: Subplot, looks: Looks, room: float) -> str:
    """Draw a panel; its label of the x axis, which is written when its room is known."""
    if panel.rows.y.notna().any():
        panel.draw(axes, panel.rows, looks)
    else:
        axes.text(0.5, 0.5, "too few texts to draw", transform=axes.transAxes, ha="center")
    if panel.shape != "cells":
        marks.rule(axes, "x" if panel.shape == "forest" else "y")
    edge = 0.5 if panel.shape == "cells" else 0.4
    if panel.x_names:
        axes.set_xticks(range(1, len(panel.x_names) + 1), [""] * len(panel.x_names))
        axes.set_xlim(edge, len(panel.x_names) + 1 - edge)
    if panel.y_names:
        names = [marks.cut(name, _NAMES * room, marks.SMALL) for name in panel.y_names]
        axes.set_yticks(range(1, len(names) + 1), names)
        axes.set_ylim(len(names) + 1 - edge, edge)
    if panel.bins is not None:
        marks.counts_below(axes, panel.bins)
    label = axes.get_xlabel()
    axes.set_xlabel("")
    return label


def _add_legend(
    drawn: "matplotlib.figure.Figure", figure: Figure, looks: Looks, room: float
) -> None:
    """The notes, and below them the names of the series; one series alone needs no name."""
    found: dict[str, Any] = {}
    for axes in drawn.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if len(looks) < 2 or len(looks) > MOST_SERIES:
        found = {label: handle for label, handle in found.items() if label not in looks}
    order = [*looks, *sorted(found)]  # series first, in the order of their colours
    names = sorted(found, key=order.index)
    notes = [line for note in figure.notes for line in marks.wrapped(note, room, marks.SMALL)]
    if not names and not notes:
        return
    # 1.1 cm for the mark of each name and the space to the next.
    widest = max((marks.width_cm(marks.shown(name), marks.SMALL) for name in names), default=1)
    legend = drawn.legend(
        [found[name] for name in names], [marks.cut(n, room - 1.1, marks.SMALL) for n in names],
        loc="outside lower left", ncols=max(1, min(len(names), int(room // (widest + 1.1)))),
        title="\n".join(notes), title_fontsize=marks.SMALL, alignment="left", frameon=False,
        borderpad=0.1, labelspacing=0.55, handlelength=2.4, columnspacing=1.4,
    )  # fmt: skip
    legend.get_title().set_color("#444444")


def _beside(panel: Subplot, room: float) -> float:
    """How wide the names of the rows are, in cm."""
    widths = [marks.width_cm(marks.shown(name), marks.SMALL) for name in panel.y_names]
    return min(max(widths, default=0.0), _NAMES * room)


def _is_wide(panel: Subplot, width: float) -> bool:
    """Whether a matrix needs the whole width: one of many columns or of long names."""
    names = max(map(len, panel.y_names), default=0)
    return panel.shape == "cells" and len(panel.x_names) * 0.62 + names * 0.12 + 2 > width / 2


def _fit_texts(axes: Axes, panel: Subplot, x_label: str) -> None:
    """Wrap the texts around some axes to the width that these have."""
    room = axes.get_window_extent().width / axes.get_figure(root=True).dpi / _CM  # type: ignore[union-attr]  # it is drawn
    lines = marks.wrapped(panel.title, room + 0.2, marks.TEXT)
    lines += marks.wrapped(panel.note, room + 0.2, marks.TEXT, most=2)
    axes.set_title("\n".join(lines), loc="left")
    lowest = [axes, *axes.child_axes][-1]
    lowest.set_xlabel("\n".join(marks.wrapped(x_label, 0.95 * room, most=2)))
    axes.set_ylabel("\n".join(marks.wrapped(axes.get_ylabel(), 4.5, most=2)))
    if not panel.x_names:
        return
    each_cm, places = room / len(panel.x_names), range(1, len(panel.x_names) + 1)
    if all(marks.fits(name, each_cm - 0.08, marks.SMALL, most=3) for name in panel.x_names):
        names = [marks.wrapped(name, each_cm - 0.08, marks.SMALL) for name in panel.x_names]
        axes.set_xticks(places, ["\n".join(lines) for lines in names])
        return
    names_cut = [marks.cut(name, 3.2, marks.SMALL) for name in panel.x_names]
    if each_cm < 0.5:
        axes.set_xticks(places, names_cut, rotation=90)
    else:
        axes.set_xticks(places, names_cut, rotation=45, ha="right", rotation_mode="anchor")
