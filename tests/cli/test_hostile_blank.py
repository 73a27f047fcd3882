"""Answers that show nothing are missing as empty, whoever judges them."""

import csv

import pytest
from support.stub_server import StubServer
from support.toy import Toy


@pytest.mark.parametrize("answer", ["\u200b\u200d\ufeff", "\x00\x07\x1b", "\u3164 \u2800"])
@pytest.mark.parametrize("judge", ["near", "choice"])
def test_a_run_of_answers_that_show_nothing_has_no_value(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, answer: str, judge: str
) -> None:
    with StubServer(reply=lambda prompt: "1" if "Judge" in prompt else answer) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        code = toy.run("--variant", "base", "--judge", judge, model="alpha")

    with (toy.runs()[0] / "scores.csv").open(encoding="utf-8") as file:
        [row, *_] = csv.DictReader(file)
    assert (code, row["value"], row["n"]) == (1, "", "0")
    assert int(row["missing_empty"]) > 0
