"""Runs on disk whose verdicts are letters, for the tests of tables."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from harness.pipeline.score import score_rows
from harness.storage.runs import JudgeEntry, RunFolder
from support.paired_runs import NEAR, SMALL, stored, words_task

FAR = JudgeEntry("far", "accuracy", "far:00|minilm")


def run_on_disk(
    results: Path,
    model: str,
    letters: Mapping[str, str] | str,
    *,
    variant: str = "base",
    limit: int | None = None,
) -> RunFolder:
    """A run of a model, its verdicts by each judge as letters; oracle and literal are controls."""
    by_judge = {"near": letters} if isinstance(letters, str) else letters
    judges = [one for one in (NEAR, FAR) if one.name in by_judge]
    readings = {(variant, "T0.3", judge): line for judge, line in by_judge.items()}
    one = stored(words_task(gaps={}), readings, judges=judges)
    kind = "scripted" if model in ("oracle", "literal") else "vllm"
    run = replace(one.file.run, limit=limit)
    file = replace(one.file, run=run, model=replace(SMALL, name=model, kind=kind))
    name = f"{model}-{variant}-{limit}".replace("/", "_").replace("<", "_")
    folder = RunFolder(results / "runs" / "toy" / name / name)
    folder.write(file, one.rows, score_rows(file, one.rows))
    return folder
