"""What is shown while calls are made: one live line on a terminal, sparse lines elsewhere."""

import re

import pytest
from support.terminal import on_terminal
from support.toy import Toy

from harness.cli.output import ProgressLine, duration
from harness.models.client.cached import Stage

SHOWN = """
import os
import time
from harness.cli.output import ProgressLine
from harness.models.client.cached import Stage
from harness.cli.output import log
line = ProgressLine()
def run():
    stage = Stage("answers", "alpha", 1, 2)
    line(stage, 100, 896, 0, None)
    time.sleep(0.12)
    line(stage, 131, 896, 2, 0.12)
    log("a message meanwhile")
    line(stage, 896, 896, 2, 0.5)
    yield
    stage = Stage("judge near")
    line(stage, 0, 9, 0)
    yield
list(line.each(["oracle", "alpha"], run()))
os.environ["COLUMNS"] = "20"
line("texts that are too many for a line", 0, 9)
"""


def test_a_live_line_says_which_run_how_far_how_fast_how_long_and_at_what_cost() -> None:
    _, err = on_terminal("-c", SHOWN, columns=100, keeps_escapes=True)

    states = re.split(r"\x1b\[K", "\n".join(err))
    assert states[1] == "[1/2 oracle] step 1/2 answers 100/896"
    found = re.fullmatch(
        r"\[1/2 oracle\] step 1/2 answers 131/896  (\d+)/s  (\d+) s left  0\.12 USD, 2 failed",
        states[2],
    )
    assert found
    assert 31 / 0.4 < int(found[1]) < 31 / 0.11
    assert int(found[2]) == pytest.approx(765 / int(found[1]), abs=2)
    # A message takes the line's place, and the end of a stage leaves nothing of it.
    assert states[3:6] == ["a message meanwhile\n", "", "[2/2 alpha] judge near 0/9  0.50 USD"]
    # A line that is too long is cut: it never takes a second line, which could not be erased.
    assert states[6:] == ["[2/2 alpha] texts t"]


def test_without_a_terminal_a_stage_has_a_plain_line_at_its_ends(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = ProgressLine()
    for done in range(65):
        line(Stage("answers", "oracle", 1, 2), done, 64, 0, 0.1)

    assert capsys.readouterr().err.splitlines() == [
        "answers of oracle, step 1: 0 of 64 stored",
        "answers of oracle, step 1: 64 of 64 stored",
    ]


def test_a_run_on_a_terminal_counts_its_models_and_steps_and_leaves_no_line(toy: Toy) -> None:
    given = ("--home", str(toy.home), "--results", str(toy.results))
    models = ("--task", "toy", "--model", "oracle,literal")

    out, err = on_terminal("-m", "harness", "run", *models, *given, keeps_escapes=True)

    states = re.split(r"\x1b\[K|\n", "\n".join(err))
    assert {
        "[1/2 oracle] step 1/2 answers 0/24",
        "[2/2 literal] step 2/2 answers 0/12",
    } <= {*states}
    assert states[-1] == ""
    assert not any("stored" in line for line in (*out, *err))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 s"),
        (59.1, "1 min"),
        (200, "3 min 20 s"),
        (1500, "25 min"),
        (7500, "2 h 5 min"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text
