"""Runs on disk whose verdicts are letters, for the tests of tables."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir

import pandas
from pandas import DataFrame

from harness.analysis.boards.ranked import sorted_names
from harness.analysis.boards.scores import board_scores
from harness.pipeline.score import derived, rows_of
from harness.storage.run_tables import RunTables, SampleRecord
from harness.storage.runs import JudgeEntry, RunFile, RunFolder, ScoreRow, table_text
from support.paired_runs import NEAR, SMALL, stored, words_task


def tables_of(rows: Sequence[SampleRecord]) -> RunTables:
    """The tables of some records; their files are gone with them."""
    tables = RunTables(Path(gettempdir()))
    tables.add(list(rows))
    return tables


def with_costs(file: RunFile, rows: Sequence[SampleRecord]) -> RunFile:
    tables = tables_of(rows)
    return derived(file, tables.files)[0]


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


NAMES = ("signature", "sample", "variant", "decoding", "cluster")


def scores_of(rows: Sequence[ScoreRow]) -> DataFrame:
    return board_scores({"run": table_text(rows)})


def verdicts_on(values: Mapping[str, Sequence[float]]) -> DataFrame:
    """Verdicts on the same items, each a cluster, by the signatures of their scores."""
    rows = [
        (name, f"{at:04}", "base", "T0.3", f"{at:04}", value, value, 1.0)
        for name, own in values.items()
        for at, value in enumerate(own)
    ]
    found = pandas.DataFrame(rows, columns=[*NAMES, "value", "part_0", "part_1"])
    return found.assign(**{name: sorted_names(found[name]) for name in NAMES})
