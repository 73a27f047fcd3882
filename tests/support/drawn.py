"""What can be wrong with the look of a figure, found by measuring the text in it."""

from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text


def texts_of(figure: Figure) -> list[Text]:
    """Every text that is seen, once the figure is laid out."""
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]  # as matplotlib has it
    found = [part for part in figure.findobj(Text) if isinstance(part, Text)]
    return [part for part in found if part.get_text().strip() and part.get_visible()]


def flaws(figure: Figure) -> list[str]:
    """Texts that leave the figure or cover one another, each in words."""
    texts = texts_of(figure)
    page = figure.bbox
    hidden = _out_of_view(figure)
    boxes = [(part, part.get_window_extent()) for part in texts if id(part) not in hidden]
    outside = [
        f"{part.get_text()!r} leaves the figure"
        for part, box in boxes
        if box.x0 < page.x0 - 1 or box.y0 < page.y0 - 1 or box.x1 > page.x1 + 1
        or box.y1 > page.y1 + 1
    ]  # fmt: skip
    straight = [(part, box) for part, box in boxes if part.get_rotation() in (0, 90)]
    covered = [
        f"{one.get_text()!r} covers {other.get_text()!r}"
        for (one, a), (other, b) in combinations(straight, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]
    return outside + covered


def _out_of_view(figure: Figure) -> set[int]:
    """The labels of places that an axis does not show, which are there and never drawn."""
    hidden = set()
    found = [one for axes in figure.axes for one in (axes, *axes.child_axes)]
    for axis in (one for axes in found for one in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not low - 1e-9 <= tick.get_loc() <= high + 1e-9:
                hidden |= {id(tick.label1), id(tick.label2)}
    return hidden
