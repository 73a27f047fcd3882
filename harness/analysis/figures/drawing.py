"""Charts to pictures: PDF, SVG and PNG by matplotlib, the same bytes for the same numbers.

Heights follow from the contents: title, panels, legend and notes have their own strips, so that
none covers another. Nothing here writes a file or computes a number.
"""

import io
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from harness.analysis.figures import style
from harness.analysis.figures.chart import Chart, Plot, checked
from harness.analysis.figures.marks import DRAWN, count_columns, filled
from harness.analysis.figures.style import LOOKS, Look
from harness.errors import SpecError, install

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Ending = Literal[".pdf", ".svg", ".png"]
ENDINGS: Final[tuple[Ending, ...]] = (".pdf", ".svg", ".png")
_METADATA: Final[Mapping[Ending, dict[str, None]]] = {
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    ".svg": {"Date": None, "Creator": None},
    ".png": {"Software": None},
}
NARROWEST, LEAST_WIDTH, MOST_PLOTS = 4.8, 6.0, 36
_NAMES: Final = 0.38
"""The share of a panel's width that the names of its rows may take."""
_CM: Final = 1 / 2.54
_DPI: Final = 200


def lacking() -> str:
    """What to install before anything can be drawn; empty where nothing is lacking."""
    try:
        import matplotlib  # noqa: F401 - only whether it is there
    except ImportError:
        return f"no figure is drawn: matplotlib is not installed; run: {install('plots')}"
    return ""


def pictures(
    chart: Chart, endings: Iterable[Ending], *, width_cm: float = style.WIDTH
) -> dict[Ending, bytes]:
    """The file of a chart for each ending; SpecError without matplotlib."""
    if why := lacking():
        raise SpecError(why)
    with styled():
        drawn = figure(chart, width_cm=width_cm)
        return {ending: _saved(drawn, ending) for ending in endings}


def drawn(chart: Chart, *, width_cm: float = style.WIDTH) -> "Figure":
    """The figure of a chart, which a notebook shows as it is; SpecError without matplotlib."""
    if why := lacking():
        raise SpecError(why)
    with styled():
        made = figure(chart, width_cm=width_cm)
    # A notebook shows what has this method; a figure that pyplot has not made has none.
    made._repr_png_ = partial(_png, made)  # type: ignore[attr-defined]
    return made


def _png(made: "Figure") -> bytes:
    with styled():
        return _saved(made, ".png")


def svg(chart: Chart) -> str:
    """A chart as SVG."""
    return pictures(chart, [".svg"])[".svg"].decode("utf-8")


@contextmanager
def styled() -> Iterator[None]:
    """Our settings alone, whatever the user's own file of settings says."""
    import matplotlib.style

    with matplotlib.style.context(["default", style.SETTINGS]), warnings.catch_warnings():
        # A letter that the font lacks is drawn as a box; the data beside the figure has it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _saved(figure: "Figure", ending: Ending) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format=ending[1:], dpi=_DPI, metadata=cast("Any", _METADATA[ending]))
    return out.getvalue()


@dataclass(frozen=True, slots=True)
class _Room:
    """How wide a panel is with what stands beside it, and its axes alone, in cm."""

    whole: float
    axes: float


@dataclass(frozen=True, slots=True)
class _Strips:
    """The text above and below the panels, and how high each strip and row is.

    `bodies` are the heights of the rows without the text around their axes.
    """

    title: list[str]
    legend: list[list[str]]
    notes: list[str]
    columns: int
    rows: tuple[float, ...]
    bodies: tuple[float, ...]
    room: "_Room"

    @property
    def top(self) -> float:
        return style.LINE_CM * len(self.title) + 0.3

    @property
    def bottom(self) -> float:
        lines = len(self.legend) + 0.85 * len(self.notes)
        return style.LINE_CM * lines + (0.4 if lines else 0.1)

    @property
    def height(self) -> float:
        return self.top + sum(self.rows) + self.bottom


def figure(chart: Chart, *, width_cm: float = style.WIDTH) -> "Figure":
    """The figure of a chart; the style must be in force. SpecError for more than can be read."""
    from matplotlib.figure import Figure

    if not width_cm >= LEAST_WIDTH:
        raise SpecError(f"a width of {width_cm:g} cm: give {LEAST_WIDTH:g} or more")
    chart = checked(chart)
    if len(chart.plots) > MOST_PLOTS:
        raise SpecError(
            f"{len(chart.plots)} panels are more than can be read (at most {MOST_PLOTS}); choose "
            "some runs, tasks, variants or judges"
        )
    looks = _looks(chart)
    strips = _strips(chart, looks, width_cm)
    drawn = Figure(figsize=(width_cm * _CM, strips.height * _CM))
    inner = (
        *(0.0, strips.bottom / strips.height, 1.0),
        (strips.height - strips.top - strips.bottom) / strips.height,
    )
    drawn.set_layout_engine("constrained", rect=inner, h_pad=0.06, w_pad=0.06)
    grid = drawn.add_gridspec(len(strips.rows), strips.columns, height_ratios=strips.bodies)
    for at, plot in enumerate(chart.plots):
        _panel(drawn, grid[divmod(at, strips.columns)], plot, looks, strips.room)
    _write_strips(drawn, chart, looks, strips)
    _settle(drawn)
    return drawn


def _settle(drawn: "Figure") -> None:
    """Lay the panels out once and for all.

    The solver's last digits differ from one time to the next; these are rounded away.
    """
    drawn.draw_without_rendering()
    drawn.set_layout_engine("none")
    for axes in drawn.axes:
        place = axes.get_position(original=True)
        axes.set_position(tuple(round(value, 4) for value in place.bounds))


def _looks(chart: Chart) -> dict[str, Look]:
    labels = chart.labels
    has_own = len(labels) <= len(LOOKS)
    return {label: LOOKS[at if has_own else 0] for at, label in enumerate(labels)}


def _strips(chart: Chart, looks: Mapping[str, Look], width: float) -> _Strips:
    count = max(len(chart.plots), 1)
    most = 1 if any(_is_wide(plot, width) for plot in chart.plots) else int(width // NARROWEST)
    even = (ceil(count / ceil(count / n)) for n in range(max(1, min(count, most)), 0, -1))
    tried = [(columns, _room(chart, width / columns)) for columns in even]
    # As many as leave every name whole, if any number does.
    columns, inner = next((one for one in tried if _are_whole(chart, one[1])), tried[0])
    heights = [_height(plot, inner) for plot in chart.plots] or [(0.5, 1.5)]
    parts = [heights[at : at + columns] for at in range(0, len(heights), columns)]
    rows = [max(text for text, _ in row) + max(body for _, body in row) for row in parts]
    room = width - 0.6
    notes = [line for note in chart.notes for line in style.wrapped(note, room, style.SMALL)]
    names = _legend_names(chart, looks)
    # 1.1 cm for the mark of each name and the space to the next.
    widest = max([style.width_cm(style.shown(name), style.SMALL) + 1.1 for name in names] or [1.0])
    across = max(1, min(len(names) or 1, int(room // widest)))
    legend = [names[at : at + across] for at in range(0, len(names), across)]
    # Bold letters are wider than those that are measured.
    title = style.wrapped(chart.title, room / 1.15, style.TITLE)
    bodies = tuple(max(body for _, body in row) for row in parts)
    return _Strips(title, legend, notes, columns, tuple(rows), bodies, inner)


def _room(chart: Chart, whole: float) -> _Room:
    beside = max([_beside(plot, whole) for plot in chart.plots] or [0.0])
    return _Room(whole, whole - 1.7 - beside)


def _are_whole(chart: Chart, room: _Room) -> bool:
    """Whether no title and no name of a row is cut, nor a word broken."""
    return all(
        style.fits(plot.title, room.axes + 0.2, style.TEXT, most=3)
        and all(style.fits(name, _NAMES * room.whole, style.SMALL) for name in plot.y_names)
        for plot in chart.plots
    )


def _beside(plot: Plot, room: float) -> float:
    """How wide the names of rows are."""
    names = [style.width_cm(style.shown(name), style.SMALL) for name in plot.y_names]
    return min(max(names or [0.0]), _NAMES * room)


def _legend_names(chart: Chart, looks: Mapping[str, Look]) -> list[str]:
    """Nothing, where one series is all there is, or panels are named for their series."""
    is_split = len(looks) > len(LOOKS)
    # A violin has its name below it.
    forms = {part.form for plot in chart.plots for part in plot.series}
    is_plain = len(looks) < 2 or is_split or forms <= {"violin"}
    lines = {plot.line[1] for plot in chart.plots if plot.line is not None}
    return [*([] if is_plain else looks), *sorted(lines)]


def _is_wide(plot: Plot, width: float) -> bool:
    """Whether a panel needs the whole width: a matrix of many columns or of long names."""
    names = max([len(name) for name in plot.y_names] or [0])
    return len(plot.x_names) * 0.62 + names * 0.12 + 2 > width / 2 and _has(plot, "cells")


def _has(plot: Plot, form: str) -> bool:
    return any(part.form == form for part in plot.series)


def _height(plot: Plot, room: _Room) -> tuple[float, float]:
    """How high the text of a panel is, and how high its axes are."""
    text = style.LINE_CM * (len(_title(plot, room)) + 2) + _tick_height(plot, room)
    if _has(plot, "forest"):
        return text, 0.45 * len(plot.y_names) + 0.5
    if _has(plot, "cells"):
        return text, max(0.55 * len(plot.y_names), 2.0)
    if plot.is_square:
        return text, min(max(room.axes, 3.0), 8.0)
    body = min(max(3.4, 0.36 * room.whole), 5.5)
    # Two axes one above the other have their text within their part of the grid.
    return (0.0, text + body + 1.0) if plot.columns else (text, body)


def _title(plot: Plot, room: _Room) -> list[str]:
    lines = style.wrapped(plot.title, room.axes + 0.2, style.TEXT)
    return [*lines, *style.wrapped(plot.note, room.axes + 0.2, style.TEXT, most=2)]


@dataclass(frozen=True, slots=True)
class _Ticks:
    """The labels of named places, and how far they are turned."""

    labels: tuple[str, ...]
    angle: int


def _ticks(plot: Plot, room: _Room) -> _Ticks:
    names = plot.x_names
    each = room.axes / max(len(names), 1)
    lines = [style.wrapped(name, each - 0.08, style.SMALL) for name in names]
    is_whole = all(
        "".join(own).replace(" ", "") == style.shown(name).replace(" ", "")
        and len(own) <= 1 + len(style.breaks(style.shown(name)))
        for own, name in zip(lines, names, strict=True)
    )
    if is_whole:
        return _Ticks(tuple("\n".join(own) for own in lines), 0)
    return _Ticks(
        tuple(style.cut(name, 3.2, style.SMALL) for name in names), 90 if each < 0.5 else 45
    )


def _tick_height(plot: Plot, room: _Room) -> float:
    if not plot.x_names:
        return 0.0
    found = _ticks(plot, room)
    if found.angle == 0:
        return 0.3 * (max(label.count("\n") for label in found.labels))
    longest = max(style.width_cm(label, style.SMALL) for label in found.labels)
    return longest * (1.0 if found.angle == 90 else sqrt(0.5))


def _panel(
    drawn: "Figure",
    spec: Any,  # noqa: ANN401 - a part of the grid
    plot: Plot,
    looks: Mapping[str, Look],
    room: _Room,
) -> None:
    if plot.columns is None:
        axes = below = drawn.add_subplot(spec)
    else:
        inner = spec.subgridspec(2, 1, height_ratios=(4, 1), hspace=0.04)
        axes = drawn.add_subplot(inner[0])
        below = drawn.add_subplot(inner[1], sharex=axes)
        axes.tick_params(labelbottom=False, length=0)
        count_columns(below, plot.columns)
    axes.set_title("\n".join(_title(plot, room)), loc="left")
    if not any(len(part.y) for part in plot.series):
        axes.text(0.5, 0.5, "too few texts to draw", transform=axes.transAxes, ha="center")
    for part in plot.series:
        DRAWN[part.form](axes, part, looks.get(part.label, LOOKS[0]), plot)
    _axes(axes, below, plot, room)


def _axes(axes: "Axes", below: "Axes", plot: Plot, room: _Room) -> None:
    below.set_xlabel("\n".join(style.wrapped(plot.x_label, room.axes, most=2)))
    axes.set_ylabel("\n".join(style.wrapped(plot.y_label, 4.5, most=2)))
    edge = 0.5 if _has(plot, "cells") else 0.4
    if plot.x_names:
        found = _ticks(plot, room)
        turned: dict[str, Any] = (
            {"ha": "right", "rotation_mode": "anchor"} if found.angle == 45 else {}
        )
        below.set_xticks(
            range(1, len(plot.x_names) + 1), found.labels, rotation=found.angle, **turned
        )
        axes.set_xlim(edge, len(plot.x_names) + 1 - edge)
    if plot.y_names:
        names = [style.cut(name, _NAMES * room.whole, style.SMALL) for name in plot.y_names]
        axes.set_yticks(range(1, len(names) + 1), names)
        axes.set_ylim(len(names) + 1 - edge, edge)
    if plot.x_range:
        axes.set_xlim(*plot.x_range)
    if plot.y_range:
        axes.set_ylim(*plot.y_range)
    if plot.is_square:
        axes.set_aspect("equal", adjustable="box" if plot.x_range else "datalim")
    if plot.has_diagonal:
        axes.plot([0, 1], [0, 1], color="#777777", linewidth=0.8, linestyle=":", zorder=0.5)
    if plot.line is not None:
        draw = axes.axvline if _has(plot, "forest") else axes.axhline
        draw(plot.line[0], color="#555555", linewidth=0.8, linestyle=(0, (2, 2)), zorder=0.8)
    if not _has(plot, "cells"):
        axes.grid(axis="x" if _has(plot, "forest") else "y", color=style.PALE, linewidth=0.5)


def _write_strips(
    drawn: "Figure", chart: Chart, looks: Mapping[str, Look], strips: _Strips
) -> None:
    """The title above, and the legend and the notes below the panels."""
    height, left = strips.height, 0.3 / (drawn.get_figwidth() / _CM)
    for at, line in enumerate(strips.title):
        y = 1 - (0.15 + style.LINE_CM * at) / height
        drawn.text(left, y, line, va="top", size=style.TITLE, weight="bold")
    for at, line in enumerate(reversed(strips.notes)):
        y = (0.1 + 0.85 * style.LINE_CM * at) / height
        drawn.text(left, y, line, va="bottom", size=style.SMALL, color="#444444")
    names = [name for row in strips.legend for name in row]
    if not names:
        return
    handles = [_handle(chart, name, looks.get(name)) for name in names]
    bottom = (0.08 + 0.85 * style.LINE_CM * len(strips.notes)) / height
    room = drawn.get_figwidth() / _CM - 1.7
    legend = drawn.legend(
        handles, [style.cut(name, room, style.SMALL) for name in names], frameon=False,
        loc="lower center", bbox_to_anchor=(0.5, bottom), ncols=len(strips.legend[0]),
        borderpad=0.1, labelspacing=0.55, handlelength=2.4, columnspacing=1.4,
    )  # fmt: skip
    legend.set_in_layout(False)


def _handle(chart: Chart, name: str, look: Look | None) -> Any:  # noqa: ANN401 - an artist
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if look is None:
        return Line2D([], [], color="#555555", linewidth=0.8, linestyle=(0, (2, 2)))
    parts = [part for plot in chart.plots for part in plot.series if part.label == name]
    forms = {part.form for part in parts}
    if forms & {"bars", "violin"}:
        return Patch(**filled(look))
    marks: dict[str, Any] = {
        "markeredgecolor": style.INK,
        "markeredgewidth": 0.4,
        "marker": look.marker,
    }
    return Line2D(
        [], [], color=look.colour, linestyle=look.dash if "line" in forms else "", **marks
    )
