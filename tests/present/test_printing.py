"""How tables, messages and progress fit a terminal, and what is printed elsewhere."""

import os
import re
import subprocess
import sys

import pandas as pd
import pytest
from support.terminal import on_terminal
from support.toy import Toy

from harness.present.screen import ProgressLine, cell, show, show_rows

PROGRESS = """
import time
from harness.present.screen import ProgressLine, warn
line = ProgressLine()
def run():
    stage = "answers of alpha, step 1"
    line(stage, 100, 896, 0, None)
    for done in range(110, 160, 10):
        time.sleep(0.1)
        line(stage, done, 896, 2, 0.12)
    warn("a message meanwhile")
    time.sleep(0.15)
    line(stage, 896, 896, 2, 0.12)
    yield
list(line.each(["oracle"], run()))
"""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "-"), ((None, None), "-"), ((0.25, 1.0), "0.250 to 1.000"), (0.5, "0.500")),
        *((3, "3"), (True, "yes"), ("word", "word")),
    ],
)
def test_a_cell_shows_a_value_as_every_table_does(value: object, text: str) -> None:
    assert cell(value) == text  # type: ignore[arg-type]  # each is a Cell


def test_a_table_in_a_pipe_has_a_line_for_each_row_whatever_its_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    show_rows("a title", ["name", "text"], [["[red]a[/red]", "word " * 90], ["b", None]])

    lines = [line.split() for line in capsys.readouterr().out.strip().splitlines()]
    assert lines == [["a", "title"], ["name", "text"], ["[red]a[/red]", *["word"] * 90], ["b", "-"]]


def test_a_frame_has_its_notes_and_dashes_for_the_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    frame = pd.DataFrame({"model_name": ["a", "b"], "value": [0.25, None], "n": [3, 4]})

    show(frame, "a title", notes=["a note"], n=lambda value: f"{value} items")

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:4] == [
        ["model", "name", "value", "n"],
        ["a", "0.250", "3", "items"],
        ["b", "-", "4", "items"],
    ]
    assert lines[-1] == ["a", "note"]


def test_a_wide_table_keeps_every_cell_whole_and_repeats_its_key_columns() -> None:
    title = "|".join(["a-task:8edc918c", *(f"field-{i}:0123456" for i in range(7)), "v1-2"])
    code = (
        "from harness.present.screen import show_rows\n"
        f"show_rows({title!r}, ['model', *(f'column-{{i}}' for i in range(12))],"
        " [['oracle', *(i * 1111 for i in range(12))]])"
    )
    lines, _ = on_terminal("-c", code)

    assert max(map(len, lines)) <= 80
    words = [line.split() for line in lines]
    assert [sum(f"column-{i}" in line for line in words) for i in range(12)] == [1] * 12
    assert sum("oracle" in line for line in words) == 2
    assert lines[0] + lines[1].strip() == title


def test_a_long_text_is_wrapped_in_its_column() -> None:
    text = "a sentence of many words " * 6
    code = (
        "from harness.present.screen import show_rows\n"
        f"show_rows('', ['model', 'said'], [['oracle', {text.strip()!r}]])"
    )
    lines, _ = on_terminal("-c", code)

    assert max(map(len, lines)) <= 80
    assert " ".join(line[8:].strip() for line in lines[1:]).strip() == text.strip()


def test_a_long_message_is_broken_between_words_on_a_terminal_alone() -> None:
    said = "alarm: " + "the accuracy of a-long-name depends on places " * 5
    code = f"from harness.present.screen import warn; warn({said!r})"

    _, lines = on_terminal("-c", code)
    environ = dict(os.environ)  # without the COLUMNS that readline sets beneath Python
    piped = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environ
    )

    assert len(lines) > 2
    assert max(map(len, lines)) <= 80
    assert " ".join(line.strip() for line in lines) == said.strip()
    assert piped.stderr == f"{said}\n"


@pytest.mark.parametrize(
    ("environ", "is_coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
    ids=str,
)
def test_an_alarm_is_coloured_if_wanted(environ: dict[str, str], is_coloured: bool) -> None:
    code = "from harness.present.screen import warn; warn('alarm: all alike')"
    _, err = on_terminal("-c", code, keeps_escapes=True, environ=environ)

    assert ("\x1b[33malarm" in err[0]) is is_coloured
    assert err[0].endswith(": all alike")


@pytest.mark.slow
def test_a_live_line_says_which_run_how_far_how_long_and_at_what_cost() -> None:
    _, err = on_terminal("-c", PROGRESS, columns=100)

    text = "\n".join(err)
    assert re.search(
        r"\[1/1 oracle\] answers of alpha, step 1 1\d0/896 0:00:\d\d 0\.12 USD, 2 failed", text
    )
    assert "a message meanwhile" in text
    assert "896/896" not in text


def test_without_a_terminal_a_stage_has_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    line = ProgressLine()
    for done in range(65):
        line("answers of oracle, step 1", done, 64, 0, 0.1)

    assert capsys.readouterr().err.splitlines() == [
        "answers of oracle, step 1: 0 of 64 stored",
        "answers of oracle, step 1: 64 of 64 stored",
    ]


@pytest.mark.slow
def test_a_run_on_a_terminal_names_its_models_and_steps_and_leaves_no_line(toy: Toy) -> None:
    given = ("--home", str(toy.home), "--results", str(toy.results))
    models = ("--task", "toy", "--model", "oracle,literal")

    out, err = on_terminal("-m", "harness", "run", *models, *given, keeps_escapes=True)

    text = "\n".join(err)
    assert "[1/2 toy, oracle] answers of oracle, step 1 0/24" in text
    assert "[2/2 toy, literal] answers of literal, step 2 0/12" in text
    assert "step" not in text.rpartition("\x1b[2K")[2]
    assert not any("stored" in line for line in (*out, *err))
