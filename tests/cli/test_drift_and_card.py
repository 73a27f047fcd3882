"""Drift of two tables or runs, and the card of a moderation model, from the command line."""

import csv
import json
from pathlib import Path

import pytest
from support.toy import Toy

from harness.cli import main

MAP = """
    about: My texts.
    source: mine
    text: body
    label: {column: verdict, classes: {hateful: ["1"], benign: ["0"]}}
    keep: {target: aimed_at}
"""
Lines = pytest.CaptureFixture[str]


def table(path: Path, *, flagged: int, shift: float = 0.0) -> Path:
    """Sixty texts of two topics, of which the first ones were flagged, with their implicitness."""
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(("text", "removed", "topic", "score"))
        for n in range(60):
            said = "yes" if n < flagged else "no"
            out.writerow((f"{path.stem} text {n}", said, "ab"[n % 2], n / 60 + shift))
    return path


@pytest.fixture
def ran(toy: Toy) -> Toy:
    """Runs of two models on a table of the user's own, with a hostile name among its columns."""
    toy.write("configs/tables/mine.yaml", MAP)
    path = toy.folder / "mine.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = [
            (f"Text {n} x{n}.", str(n % 2), ["left", "<b>|right"][n // 2 % 2]) for n in range(80)
        ]
        csv.writer(file).writerows([("body", "verdict", "aimed_at"), *rows])
    options = ("--data", str(path), "--map", "mine", "--scorer", "none")
    for model in ("oracle", "constant-no"):
        assert toy.main("run", "--task", "hate_speech", "--model", model, *options) == 0
    return toy


def test_drift_of_two_tables_is_found_with_one_alarm_for_all_tests(
    tmp_path: Path, capsys: Lines
) -> None:
    old = table(tmp_path / "may.csv", flagged=12)
    new = table(tmp_path / "june.csv", flagged=45, shift=0.4)
    columns = ("--flag", "removed", "--implicitness", "score", "--by", "topic")
    out = tmp_path / "drift.csv"

    assert main(["drift", str(old), str(new), *columns, "--alarm", "-o", str(out)]) == 1

    said = capsys.readouterr().out
    assert "june.csv less may.csv" in said
    assert "drift beyond chance in 4 of 4 tests" in said
    with out.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["what"], row["group"]) for row in rows] == [
        ("implicitness", "all"),
        ("flagged", "all"),
        ("flagged", "a"),
        ("flagged", "b"),
    ]
    assert float(rows[1]["change"]) == pytest.approx(33 / 60)
    assert main(["drift", str(old), str(old), *columns, "--alarm", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["drift"] is False


def test_drift_of_two_runs_compares_hits_and_false_alarms(ran: Toy, capsys: Lines) -> None:
    where = ("--results", str(ran.results), "--home", str(ran.home))
    runs = ("hate_speech/oracle", "hate_speech/constant-no")

    assert main(["drift", *runs, "--by", "target", *where, "--json"]) == 0

    rows = json.loads(capsys.readouterr().out)["rows"]
    found = {(row["what"], row["group"]): row for row in rows}
    assert found["tpr", "all"]["change"] == -1
    assert found["tpr", "left"]["p_holm"] < 0.05
    assert found["fpr", "all"]["change"] == 0


def test_a_card_says_what_was_run_rates_kinds_missed_and_limits(ran: Toy, capsys: Lines) -> None:
    where = ("--results", str(ran.results), "--home", str(ran.home))
    out = ran.folder / "card.md"

    assert main(["card", "hate_speech/constant-no", *where, "-o", str(out)]) == 0

    page = out.read_text("utf-8")
    assert page.startswith("# Moderation card: constant-no on hate\\_speech")
    assert "| all | 0.000 (0.000 to 0.088), n 40 | 0.000 (0.000 to 0.088), n 40 |" in page
    assert "| target: left | 1.000 | 20 |" in page
    assert "## Limits" in page
    assert "50% of the texts are to be detected" in page
    assert "&lt;b>\\|right" in page
    assert "<b>" not in page
    assert "Text 3" not in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("may.csv", "no-such-run"), "are a file and a run"),
        (("may.csv", "may.csv", "--flag", "topic", "--implicitness", "score"), "write 1, yes"),
        (("may.csv", "may.csv", "--implicitness", "topic"), "no number"),
        (("may.csv", "may.csv", "--implicitness", "score", "--by", "topics"), "did you mean topic"),
    ],
)
def test_what_cannot_be_compared_is_said(
    tmp_path: Path,
    words: tuple[str, ...],
    said: str,
    capsys: Lines,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "may.csv", flagged=12)

    assert main(["drift", *words]) == 2
    assert said in capsys.readouterr().err
