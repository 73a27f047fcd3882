"""How every figure looks: colours that the colour-blind distinguish, and marks that grey keeps.

Text of models and data is shown as it is: nothing in it is mathematics, and control characters are
gone. Lengths are in centimetres, sizes of letters in points.
"""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Final

from harness.text.cleanup import repair_surrogates, without_controls

WIDTH: Final = 16.0
TEXT, SMALL, TITLE = 8.0, 7.0, 9.0
INK, PALE = "#222222", "#dddddd"
LINE_CM: Final = 0.42
"""The height of a line of text, with the space to the next."""


@dataclass(frozen=True, slots=True)
class Look:
    """How one series looks: colour, marker, line and, where areas are filled, hatching."""

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
    "lines.linewidth": 1.3,
    "lines.markersize": 4.0,
    "hatch.linewidth": 0.5,
    "text.parse_math": False,
    "text.usetex": False,
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "pragmatics-harness",
    "pdf.fonttype": 42,
}


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
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        fits = width_cm(text[:middle].rstrip() + "…", size) <= room_cm
        low, high = (middle, high) if fits else (low, middle - 1)
    return text[:low].rstrip() + "…"


def wrapped(text: str, room_cm: float, size: float = TEXT, *, most: int = 3) -> list[str]:
    """The text in at most `most` lines; what has no room ends in an ellipsis."""
    lines, left = list[str](), shown(text)
    while left and len(lines) < most:
        if len(lines) == most - 1 or width_cm(left, size) <= room_cm:
            return [*lines, cut(left, room_cm, size)]
        end = _end_of_line(left, room_cm, size)
        lines.append(left[:end].rstrip())
        left = left[end:].lstrip()
    return lines


def fits(text: str, room_cm: float, size: float = TEXT, *, most: int = 1) -> bool:
    """Whether the text has room in at most `most` lines, none of which ends within a word."""
    text = shown(text)
    places = [0, *breaks(text), len(text)]
    parts = [text[start:end].rstrip() for start, end in pairwise(places)]
    if most == 1 or any(width_cm(part, size) > room_cm for part in parts):
        return width_cm(text, size) <= room_cm
    lines = wrapped(text, room_cm, size, most=most)
    return "".join(lines).replace(" ", "") == text.replace(" ", "")


def breaks(text: str) -> list[int]:
    """The places where a line may end: after a space or a mark that joins words."""
    return [at + 1 for at, char in enumerate(text[:-1]) if char in " -_/|:,+"]


def _end_of_line(text: str, room_cm: float, size: float) -> int:
    fitting = [at for at in breaks(text) if width_cm(text[:at].rstrip(), size) <= room_cm]
    return fitting[-1] if fitting else max(1, len(cut(text, room_cm, size)) - 1)
