"""Figures to pictures: readable, the same each time, and with every text as it is."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from support.packages import needs

from harness.errors import SpecError
from harness.present.figures import figure as figures
from harness.present.figures import marks
from harness.present.figures.figure import Figure, Subplot, draw, pictures, together, values

pytestmark = needs("matplotlib")

LONG = "an-uncommonly-long-name-of-a-model-instruct-v0.1-quantised"
ODD = "costs $5 or $x_1^2$ <b> \\frac & \x1b[31m"


def lines(*labels: str, **more: Any) -> Subplot:  # noqa: ANN401 - settings of a panel
    bounds: dict[str, Any] = {"low": [0.1, 0.4, 0.5], "high": [0.6, 0.7, 0.8], "n": 40}
    parts = [
        values(label, [1, 2, 3], [0.2 + 0.1 * at, 0.5, 0.6], "curve", **bounds)
        for at, label in enumerate(labels)
    ]
    return replace(Subplot("", together(parts), {"xlabel": "x", "ylabel": "y"}), **more)


def matrix(names: tuple[str, ...]) -> Subplot:
    places = [(x + 1, y + 1) for y in range(len(names)) for x in range(len(names))]
    z = [at / len(places) for at in range(len(places))]
    rows = values("share", [x for x, _ in places], [y for _, y in places], "", z=z, n=50)
    shaded = partial(marks.cells, ends=(0.0, 1.0), best=(2, 2))
    axes = {"xlabel": "given", "ylabel": "true"}
    return Subplot("m", rows, axes, shaded, x_names=names, y_names=names, shape="cells")


def every_mark(name: str = "small") -> Figure:
    """A figure with a panel of each mark and shape."""
    import pandas

    levels, random = ("base", "cot0", "cot1"), np.random.default_rng(1)
    starts = {name: np.array([0.6, 1.6]), "other": np.array([1.0, 2.0])}
    bars = [values(n, x, [0.4, 0.7], "bars", to=x + 0.4, n=30) for n, x in starts.items()]
    violins = [
        values(label, [at] * 40, random.normal(at, 1, 40), "violin")
        for at, label in enumerate((name, "other"), 1)
    ]
    forest = values(name, [0.3, 0.6], [1, 2], "forest", low=[0.2, 0.5], high=[0.4, 0.7], n=20)
    grown = values("other", [1.0, 2.0], [1.0, 2.0], "bubbles", z=[5.0, 30.0])
    curves = [
        values(name, np.linspace(0, 1, 30), 0.5, "curve", n=40),
        values(name, [0.0, 1.0], [0.2, 0.8], "curve", n=40),
    ]
    bins = pandas.DataFrame({"x": [0, 0.5], "to": [0.5, 1], "n": [40, 12345]})
    dots = values(name, random.normal(0, 1, 30), random.normal(0, 1, 30), "points")
    chance = partial(marks.reference, value=0.5, axis="x")
    return Figure(
        f"A title of {name}",
        (
            lines(name, "other", title="levels", x_names=levels),
            Subplot("bars", together(bars), x_names=("irony", "maxims")),
            Subplot("violins", together(violins), x_names=(name, "other")),
            matrix(levels),
            Subplot("forest", forest, also=chance, y_names=(name, LONG), shape="forest"),
            Subplot("places", dots, {"xlabel": "x"}, marks.diagonal, shape="square"),
            Subplot("bubbles", grown, {"ylabel": "y"}, note="r 0.50, tau 0.40, n 35"),
            Subplot("bins", together(curves), {"xlabel": "x"}, bins=bins),
        ),
        ("a note",),
    )


def flaws_of(figure: Figure, width_cm: float = 16.0) -> list[str]:
    from support.drawn import flaws

    from harness.present.figures.marks import styled

    with styled():
        return flaws(draw(figure, width_cm=width_cm))


def text_of(svg: bytes) -> str:
    return "\n".join("".join(part.itertext()) for part in ElementTree.fromstring(svg).iter())


@pytest.mark.slow
def test_every_mark_is_drawn_without_flaw_and_names_what_it_shows() -> None:
    figure = every_mark(ODD)

    made = pictures(figure, [".svg"])[".svg"]

    for text in ("chance", "irony", "given", "12345", "r 0.50", "a note"):
        assert text in text_of(made), text
    assert "costs $5 or $x_1^2$ <b> \\frac & [31m" in text_of(made)
    assert "\x1b" not in made.decode()
    assert flaws_of(figure) == []


def wide_figures() -> Iterator[tuple[str, Figure, float]]:
    names = tuple(f"{LONG}-{n}" for n in range(6))
    many = tuple(f"m{n}" for n in range(24))
    script = "\u65e5\u672c\u8a9e \u0627\u0644\u0639 \U0001f600"
    one = {"axes": {"xlabel": "x " * 80}, "title": "wide " * 40}
    yield "narrow", every_mark(), 8.0
    yield "wide", every_mark(), 24.0
    yield "long names in the legend", Figure("t", (lines(*names),)), 16.0
    yield "long title", Figure("long " * 60, (lines("a", **one),)), 9.0
    yield "long places", Figure("t", (lines("a", x_names=names[:3]),)), 16.0
    yield "many series", Figure("t", (lines(*many[:9]),)), 16.0
    yield "a large matrix", Figure("t", (matrix(many), matrix(many))), 16.0
    yield "a matrix of long names", Figure("t", (matrix(names), matrix(names))), 16.0
    yield "nothing", Figure("t", (Subplot("empty", together([])),)), 16.0
    yield "no panel", Figure("t", ()), 16.0
    yield "letters that the font does not have", Figure(script, (lines(script, "b"),)), 9.0


@pytest.mark.slow
@pytest.mark.parametrize(("what", "figure", "width"), list(wide_figures()))
def test_no_text_leaves_a_figure_or_covers_another(what: str, figure: Figure, width: float) -> None:
    assert flaws_of(figure, width) == [], what


@pytest.mark.slow
def test_each_file_has_the_same_bytes_again_and_no_date() -> None:
    first, second = (pictures(every_mark(), figures.ENDINGS) for _ in range(2))

    assert first == second
    starts = {ending: data[:5] for ending, data in first.items()}
    assert starts == {".pdf": b"%PDF-", ".svg": b"<?xml", ".png": b"\x89PNG\r"}
    assert b"CreationDate" not in first[".pdf"]
    assert b"dc:date" not in first[".svg"]


@pytest.mark.slow
def test_another_process_with_settings_of_its_own_draws_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("font.size: 30\naxes.facecolor: red\n", "utf-8")
    code = (
        "import sys; sys.path[:0] = ['tests', 'tests/present']; import test_drawing as t;"
        "sys.stdout.buffer.write(t.pictures(t.every_mark(), ['.svg'])['.svg'])"
    )
    environ = {"MATPLOTLIBRC": str(tmp_path), "PATH": "", "PYTHONPATH": ".", "PYTHONHASHSEED": "7"}

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environ)

    assert done.stdout == pictures(every_mark(), [".svg"])[".svg"], done.stderr.decode()


@pytest.mark.parametrize("width", [3.0, float("nan")])
def test_a_width_that_holds_nothing_is_refused(width: float) -> None:
    with pytest.raises(SpecError, match="give 6 or more"):
        pictures(every_mark(), [".svg"], width_cm=width)


def test_a_point_of_more_answers_is_larger_however_many_there_are(tmp_path: Path) -> None:
    from matplotlib.figure import Figure as Canvas

    axes = Canvas().add_subplot()
    rows = values("a", [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], "bubbles", z=[1.0, 100.0, 400.0])

    marks.bubbles(axes, rows, ("black", "o", "-", ""))

    drawn: Any = axes.collections[0]
    first, second, third = drawn.get_sizes()
    assert first < second < third <= 220
