"""Boards of the share of hateful texts that is found at a fixed rate of false alarms."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.hate_rows import run_of, text
from support.paired_runs import SMALL

from harness.analysis.boards.operating import operating_boards
from harness.analysis.boards.scores import board_scores, whole_scores
from harness.cli import main
from harness.pipeline.score import score_rows
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import RunFolder

COUNT = 200


def texts(hateful: Sequence[float], benign: Sequence[float]) -> list[SampleRecord]:
    """Texts of both kinds with their probabilities of being hateful, in turn; flagged from .5."""
    return [
        text(f"{kind}{n}", is_hateful=kind == "h", at=0.5, said=float(p >= 0.5), sure=p)
        for kind, own in (("h", hateful), ("b", benign))
        for n, p in enumerate(own[n % len(own)] for n in range(COUNT))
    ]


MODELS = {
    # Flags all from .5, so its FPR is 1 as it answers; but its order is nearly perfect.
    "eager": texts([0.9, 0.95], [0.6, 0.7]),
    # The best as it answers: its TPR is .95, its FPR .1; but its surest are mostly benign.
    "brash": texts([0.8] * 18 + [0.05, 0.999], [0.1] * 9 + [0.99]),
    "constant": texts([0.7], [0.7]),
}


def kept(results: Path, name: str, rows: list[SampleRecord]) -> RunFolder:
    file = run_of(rows)
    run = replace(file.run, variants=tuple(file.task.variants))
    file = replace(file, run=run, model=replace(SMALL, name=name, kind="classifier"))
    folder = RunFolder(results / "runs" / file.run.task / name / f"{name}-{file.digest[:8]}")
    folder.write(file, rows, score_rows(file, rows))
    return folder


def boards(results: Path, fpr: float) -> dict[str, dict[str, Any]]:
    """The rows of the only board, by model."""
    folders = [kept(results, name, rows) for name, rows in MODELS.items()]
    named = {folder.path.name: folder for folder in folders}
    scores = board_scores({folder: whole_scores(folder) for folder in folders})
    made = operating_boards(named, scores, fpr)
    assert made["board"].nunique() == 1
    return {row["model"]: row for row in made.to_dict("records")}


def test_each_model_is_ranked_at_its_own_threshold(tmp_path: Path) -> None:
    made = boards(tmp_path, 0.05)

    assert list(made) == ["eager", "brash", "constant"]
    eager, brash, constant = made.values()
    assert {row["ranked_by"] for row in made.values()} == {"tpr_at_fpr"}
    assert (eager["rank"], brash["rank"], constant["is_constant"]) == (1, 2, True)
    assert math.isnan(constant["rank"])
    assert (eager["value"], eager["tpr"], eager["fpr"]) == (1.0, 1.0, 0.0)
    assert brash["value"] == 0.05  # one benign text in ten is surer than nearly all hateful ones


def test_a_looser_rate_lets_more_be_found(tmp_path: Path) -> None:
    made = boards(tmp_path, 0.2)

    assert (made["brash"]["value"], made["constant"]["value"]) == (0.95, 0.0)


def test_the_command_prints_the_board_with_its_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    boards(tmp_path, 0.05)

    assert main(["leaderboard", "--fpr", "0.05", "--results", str(tmp_path)]) == 0

    out = capsys.readouterr().out
    assert "keep FPR at 0.05" in out
    assert [line.split()[:3] for line in out.splitlines() if line.split()[1:2] == ["eager"]] == [
        ["1", "eager", "1.000"]
    ]
    assert out.index("eager") < out.index("brash") < out.index("constant")
    words = ["leaderboard", "--fpr", "0.05", "--metric", "tpr", "--results", str(tmp_path)]
    assert main(words) == 2
    assert "leave out --metric" in capsys.readouterr().err


def test_runs_without_labels_to_detect_have_no_such_board(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = "run --task ludwig --model oracle --limit 4 --results"
    assert main([*run.split(), str(tmp_path)]) == 0

    assert main(["leaderboard", "--fpr", "0.05", "--results", str(tmp_path)]) == 2
    assert "labels to detect" in capsys.readouterr().err
