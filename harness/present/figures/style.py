"""How every figure looks: colours that the colour-blind distinguish, marks that grey keeps.

Text of models and data is shown as it is: nothing in it is mathematics, and control characters are
removed. Lengths are in centimetres, sizes of letters in points.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Final

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
