"""Pictures are XML of the right shapes, the same for the same numbers."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from support.each import each

from harness.analysis.plots import HEIGHT, WIDTH, Plot, Series, svg, ticks

NAN = float("nan")
DOTS = Series("one", "points", [0, 1, 2], [0.2, NAN, 0.6], [0.1, NAN, 0.5], [0.3, NAN, 0.7])
LINE = Series("one", "line", [0, 2], [0.2, 0.6], [0.1, 0.5], [0.3, 0.7])
DASHES = Series("<two> & \x00", "dashed", [0, 2], [0.5, 0.5])
BARS = Series("bars", "bars", [0, 1], [3, 4], to=[1, 2])


def plot(*series: Series, y_range: tuple[float, float] | None = (0, 1)) -> Plot:
    return Plot("A title", "across", "up", series, (0, 2), y_range)


def shapes(text: str) -> dict[str, int]:
    """How often each element occurs."""
    found: dict[str, int] = {}
    for element in ElementTree.fromstring(text).iter():
        name = element.tag.rpartition("}")[2]
        found[name] = found.get(name, 0) + 1
    return found


def test_every_value_is_drawn_and_nothing_that_is_none() -> None:
    found = shapes(svg([plot(DOTS, LINE, DASHES)], title="t"))

    assert (found["circle"], found["polyline"], found["polygon"]) == (2, 2, 1)


def test_a_value_stands_where_the_axes_say() -> None:
    root = ElementTree.fromstring(svg([plot(DOTS)], title="t"))

    first, last = (c for c in root.iter() if c.tag.endswith("circle"))
    heights = [float(c.get("cy") or 0) for c in (first, last)]
    # From .2 to .6 is two fifths of the height between the ends of the axis.
    assert heights[0] - heights[1] == pytest.approx(0.4 * (HEIGHT - 34 - 46), abs=0.1)
    assert float(last.get("cx") or 0) == pytest.approx(WIDTH - 14)


def test_bars_stand_on_the_axis() -> None:
    root = ElementTree.fromstring(svg([plot(BARS, y_range=None)], title="t"))

    bars = [r for r in root.iter() if r.tag.endswith("rect") and r.get("opacity")]
    ends = {round(float(r.get("y") or 0) + float(r.get("height") or 0), 1) for r in bars}
    assert (len(bars), ends) == (2, {round(float(HEIGHT - 46), 1)})


def test_names_stand_below_their_places_a_line_a_word() -> None:
    named = Plot("forms", "form", "up", (DOTS,), (0, 3), (0, 1), ("a euc", "b cos"))

    texts = [t for t in ElementTree.fromstring(svg([named], title="t")).iter() if t.get("y")]

    said = {t.text: (float(t.get("x") or 0), float(t.get("y") or 0)) for t in texts if t.text}
    width = WIDTH - 58 - 14
    assert said["a"][0] == said["euc"][0] == pytest.approx(58 + width / 3, abs=0.1)
    assert said["b"][0] == pytest.approx(58 + 2 * width / 3, abs=0.1)
    assert HEIGHT - 46 < said["a"][1] < said["euc"][1] < HEIGHT
    assert "form" not in said


def test_text_of_others_is_escaped_and_control_characters_go() -> None:
    text = svg([plot(DASHES)], title="5 < 6 \x1b[31m")

    assert "&lt;two&gt; &amp;" in text
    assert "5 &lt; 6" in text
    assert not {"\x00", "\x1b"} & set(text)


def test_plots_stand_beside_each_other_with_one_legend() -> None:
    root = ElementTree.fromstring(svg([plot(DOTS), plot(DOTS, DASHES)], title="t"))

    assert root.get("width") == str(2 * WIDTH)
    legend = [r for r in root.iter() if r.tag.endswith("rect") and r.get("width") == "10"]
    assert len(legend) == 2


def test_equal_numbers_are_equal_bytes() -> None:
    assert svg([plot(DOTS, LINE)], title="t") == svg([plot(DOTS, LINE)], title="t")


@each(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0, 2, [0, 0.5, 1.0, 1.5, 2.0]),
        (0.13, 0.61, [0.2, 0.3, 0.4, 0.5, 0.6]),
        (-1, 1, [-1.0, -0.5, 0, 0.5, 1.0]),
        (0, 250, [0, 50, 100, 150, 200, 250]),
    ],
)
def test_ticks_are_round_numbers_within_the_ends(
    low: float, high: float, expected: list[float]
) -> None:
    assert ticks(low, high) == pytest.approx(expected)
    assert len({round(b - a, 9) for a, b in pairwise(ticks(low, high))}) == 1
