"""Results that version 0.1 wrote, with their calls, are read, ranked and compared by this one."""

import csv
from pathlib import Path
from shutil import copytree

import pytest

from harness.cli import main

STORED = Path(__file__).parent / "stored_0_1"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return copytree(STORED, tmp_path / "results")


def runs(results: Path) -> list[Path]:
    return sorted(path.parent for path in results.glob("runs/*/*/*/run.json"))


def test_no_verdict_changes_when_the_stored_replies_are_read_again(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run in runs(results):
        assert main(["read", str(run), "--results", str(results)]) == 0

    assert capsys.readouterr().out.count("0 verdicts changed; no model was called") == 4


def test_the_leaderboard_has_their_values_under_their_version(results: Path) -> None:
    assert main(["leaderboard", "--results", str(results)]) == 0

    with (results / "leaderboard.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["group"] == "all"]
    found = {
        (row["task"], row["model"]): float(row["value"])
        for row in rows
        if row["metric"] == "accuracy" and row["decoding"] in ("logprob", "T0.3+0.5")
    }
    assert {model for _, model in found} == {"oracle", "random"}
    assert [value for (_, model), value in found.items() if model == "oracle"] == [1.0, 1.0]
    assert {row["signature"].rpartition("|")[2] for row in rows} == {"v0.1.0"}


def test_two_of_them_are_compared(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = [str(run) for run in runs(results) if "ludwig" in run.parts]

    assert main(["compare", *pair, "--results", str(results)]) == 0

    assert "A (oracle) is better than B (random) by" in " ".join(capsys.readouterr().out.split())
