"""Runs on disk whose verdicts are letters, for the tests of tables."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir

from harness.pipeline.calls import call_frame
from harness.pipeline.records import summed
from harness.pipeline.score import rows_of
from harness.storage.run_tables import RunTables, SampleRecord
from harness.storage.runs import JudgeEntry, RunFile, RunFolder, ScoreRow
from support.paired_runs import NEAR, SMALL, stored, words_task


def tables_of(rows: Sequence[SampleRecord]) -> RunTables:
    """The tables of some records; their files are gone with them."""
    tables = RunTables(Path(gettempdir()))
    tables.add(list(rows))
    return tables


def with_costs(file: RunFile, rows: Sequence[SampleRecord]) -> RunFile:
    tables = tables_of(rows)
    return summed(file, tables.files, call_frame(tables.files))


def score_rows(
    run: RunFile, rows: Sequence[SampleRecord], *, is_every: bool = True
) -> list[ScoreRow]:
    tables = tables_of(rows)
    return rows_of(run, tables.files, is_every=is_every)


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
