"""Charts to pictures: readable, the same each time, and with every text as it is."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from support.packages import needs

from harness.analysis.figures import drawing
from harness.analysis.figures.chart import Chart, Columns, Plot, Series
from harness.analysis.figures.drawing import ENDINGS, pictures
from harness.errors import SpecError

pytestmark = needs("matplotlib")

LONG = "an-uncommonly-long-name-of-a-model-instruct-v0.1-quantised"
ODD = "costs $5 or $x_1^2$ <b> \\frac & \x1b[31m"


def lines(*labels: str) -> tuple[Series, ...]:
    return tuple(
        Series(
            label,
            "line",
            [1, 2, 3],
            [0.2 + 0.1 * n, 0.5, 0.6],
            low=[0.1, 0.4, 0.5],
            high=[0.6, 0.7, 0.8],
            n=[40, 40, 40],
        )
        for n, label in enumerate(labels)
    )


def bars(*labels: str) -> tuple[Series, ...]:
    width = 0.8 / len(labels)
    starts = [[at - 0.4 + width * n for at in (1, 2)] for n in range(len(labels))]
    ends = [[x + width for x in own] for own in starts]
    made = zip(labels, starts, ends, strict=True)
    return tuple(Series(name, "bars", x, [0.4, 0.7], to=to, n=[30, 30]) for name, x, to in made)


def cells(size: int) -> Series:
    places = [(x + 1, y + 1) for y in range(size) for x in range(size)]
    x, y = [float(x) for x, _ in places], [float(y) for _, y in places]
    z, n = [x / len(places) for x in range(len(places))], [50] * len(places)
    return Series("share", "cells", x, y, z=z, n=n)


def violins(*labels: str) -> tuple[Series, ...]:
    draw = np.random.default_rng(0)
    return tuple(
        Series(name, "violin", [at] * 40, draw.normal(at, 1, 40).tolist())
        for at, name in enumerate(labels, 1)
    )


def every_form(name: str = "small") -> Chart:
    """A chart with a panel of each form."""
    levels, draw = ("base", "cot0", "cot1"), np.random.default_rng(1)
    forest = Series(name, "forest", [0.3, 0.6], [1, 2], low=[0.2, 0.5], high=[0.4, 0.7], n=[20, 20])
    dots = Series(name, "points", draw.normal(0, 1, 30).tolist(), draw.normal(0, 1, 30).tolist())
    bubbles = Series("other", "points", [1.0, 2.0], [1.0, 2.0], z=[5.0, 30.0])
    bins = Columns([0, 0.5], [0.5, 1], [40, 12345])
    curve = Series(name, "line", np.linspace(0, 1, 30).tolist(), [0.5] * 30, n=[40] * 30)
    band = Series(name, "dashed", [0.0, 1.0], [0.2, 0.8], n=[40, 40])
    return Chart(
        f"A title of {name}",
        (
            Plot("levels", "level", "accuracy", lines(name, "other"), x_names=levels,
                 y_range=(0, 1), line=(0.5, "chance")),
            Plot("bars", "group", "accuracy", bars(name, "other"), x_names=("irony", "maxims")),
            Plot("violins", "", "implicitness", violins(name, "other"), x_names=(name, "other")),
            Plot("cells", "given", "true", (cells(3),), x_names=levels, y_names=levels,
                 best=(2, 2)),
            Plot("forest", "accuracy", "", (forest,), y_names=(name, LONG), line=(0.5, "chance")),
            Plot("places", "t-SNE 1", "t-SNE 2", (dots,), is_square=True),
            Plot("bubbles", "people", "judge", (bubbles,), note="r 0.50, tau 0.40, n 35"),
            Plot("bins", "implicitness", "share", (curve, band), (0, 1), (0, 1), columns=bins,
                 has_diagonal=True),
        ),
        ("a note",),
    )  # fmt: skip


def drawn_flaws(chart: Chart, width_cm: float = 16.0) -> list[str]:
    from support.drawn import flaws

    with drawing.styled():
        return flaws(drawing.figure(chart, width_cm=width_cm))


def test_every_form_is_drawn_without_flaw_and_names_what_it_shows() -> None:
    chart = every_form(ODD)

    made = pictures(chart, [".svg"])[".svg"]

    said = "\n".join("".join(e.itertext()) for e in ElementTree.fromstring(made).iter())
    for text in ("level", "accuracy", "chance", "irony", "given", "12345", "r 0.50", "a note"):
        assert text in said, text
    assert "costs $5 or $x_1^2$ <b> \\frac & [31m" in said
    assert "\x1b" not in made.decode()
    assert drawn_flaws(chart) == []


def wide_charts() -> Iterator[tuple[str, Chart, float]]:
    names = tuple(f"{LONG}-{n}" for n in range(6))
    many = tuple(f"m{n}" for n in range(24))
    yield "narrow", every_form(), 8.0
    yield "wide", every_form(), 24.0
    yield "long names in the legend", Chart("t", (Plot("", "x", "y", lines(*names)),)), 16.0
    yield "long title", Chart("long " * 60, (Plot("wide " * 40, "x " * 80, "y", lines("a")),)), 9.0
    yield "long places", Chart("t", (Plot("", "x", "y", lines("a"), x_names=names[:3]),)), 16.0
    yield "many series", Chart("t", (Plot("", "x", "y", lines(*many[:9])),)), 16.0
    matrix = Plot("m", "given", "true", (cells(24),), x_names=many, y_names=many)
    yield "a large matrix", Chart("t", (matrix, matrix)), 16.0
    long = Plot("m", "given", "true", (cells(6),), x_names=names, y_names=names)
    yield "a matrix of long names", Chart("t", (long, long)), 16.0
    yield "nothing", Chart("t", (Plot("empty", "x", "y", ()),)), 16.0
    yield "no panel", Chart("t", ()), 16.0
    script = "\u65e5\u672c\u8a9e \u0627\u0644\u0639 \U0001f600"
    yield (
        "letters the font lacks",
        Chart(script, (Plot(script, "x", "y", lines(script, "b")),)),
        9.0,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("what", "chart", "width"), list(wide_charts()))
def test_no_text_leaves_a_figure_or_covers_another(what: str, chart: Chart, width: float) -> None:
    assert drawn_flaws(chart, width) == [], what


@pytest.mark.slow
def test_six_panels_leave_names_whole_rather_than_stand_three_in_a_row() -> None:
    scores = Series("", "forest", [0.3, 0.6], [1, 2], low=[0.2, 0.5], high=[0.4, 0.7], n=[20, 20])
    names = [f"intent_resolution, cot{n}, minilm-cosine-intentions" for n in range(6)]
    models = ("constant-answer (n=112)", "random (n=112)")
    plots = [Plot(name, "accuracy", "", (scores,), y_names=models) for name in names]

    made = pictures(Chart("t", tuple(plots)), [".svg"])[".svg"]

    said = "".join("".join(e.itertext()) for e in ElementTree.fromstring(made).iter())
    assert "\u2026" not in said
    assert "constant-answer (n=112)" in said


@pytest.mark.slow
def test_each_file_has_the_same_bytes_again_and_no_date() -> None:
    first, second = (pictures(every_form(), ENDINGS) for _ in range(2))

    assert first == second
    starts = {ending: data[:5] for ending, data in first.items()}
    assert starts == {".pdf": b"%PDF-", ".svg": b"<?xml", ".png": b"\x89PNG\r"}
    assert b"CreationDate" not in first[".pdf"]
    assert b"dc:date" not in first[".svg"]


@pytest.mark.slow
def test_another_process_with_settings_of_its_own_draws_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("font.size: 30\naxes.facecolor: red\n", "utf-8")
    code = (
        "import sys; sys.path[:0] = ['tests', 'tests/analysis']; import test_drawing as t;"
        "sys.stdout.buffer.write(t.pictures(t.every_form(), ['.svg'])['.svg'])"
    )
    environ = {"MATPLOTLIBRC": str(tmp_path), "PATH": "", "PYTHONPATH": ".", "PYTHONHASHSEED": "7"}

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environ)

    assert done.stdout == pictures(every_form(), [".svg"])[".svg"], done.stderr.decode()


@pytest.mark.parametrize("width", [3.0, float("nan")])
def test_a_width_that_holds_nothing_is_refused(width: float) -> None:
    with pytest.raises(SpecError, match="give 6 or more"):
        pictures(every_form(), [".svg"], width_cm=width)


def test_more_panels_than_can_be_read_are_refused() -> None:
    chart = Chart("t", tuple(Plot(str(n), "x", "y", ()) for n in range(37)))

    with pytest.raises(SpecError, match="37 panels are more than can be read"):
        pictures(chart, [".svg"])
