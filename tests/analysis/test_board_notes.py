"""What a board leaves empty has its reason in words, and what it is of is said in words."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from pandas import DataFrame
from support.hate_rows import constant, run_of, text
from support.paired_runs import SMALL
from support.report_runs import Sketch, write_runs
from support.run_tables import score_rows

from harness.analysis.boards.ranked import standings, verdicts_of
from harness.analysis.boards.scores import board_scores, score_text
from harness.analysis.boards.views import board_notes
from harness.cli import main
from harness.parts import Reason
from harness.present.page.page import page_data
from harness.specs.tasks import DataSpec
from harness.storage.find_runs import run_folders
from harness.storage.run_tables import SampleRecord, StepRecord
from harness.storage.runs import DataEntry, RunFolder

Rows = Sequence[SampleRecord]


def mixed(count: int = 40) -> list[SampleRecord]:
    return [
        text(f"t{n}", is_hateful=n % 2 == 0, at=n / count, said=float(n % 2 == 0 and n % 10 > 0))
        for n in range(count)
    ]


def unread(count: int = 40) -> list[SampleRecord]:
    kinds = [n % 2 == 0 for n in range(count)]
    return [
        text(f"t{n}", is_hateful=kind, at=n / count, said=Reason.TRUNCATED)
        for n, kind in enumerate(kinds)
    ]


def kept(results: Path, **rows: Rows) -> list[RunFolder]:
    folders = []
    for model, own in rows.items():
        kind = "scripted" if model == "oracle" else "vllm"
        file = run_of(own, model=replace(SMALL, name=model, kind=kind))
        file = replace(file, run=replace(file.run, variants=("base",), model=model))
        folder = RunFolder(results / "runs" / file.run.task / model / f"{model}-{file.digest[:8]}")
        folder.write(file, own, score_rows(file, own))
        folders.append(folder)
    return folders


def board(folders: Sequence[RunFolder]) -> DataFrame:
    rows = board_scores({folder.path.name: score_text(folder) for folder in folders})
    return standings(rows, verdicts_of(folders, rows))


def perfect(count: int = 40) -> list[SampleRecord]:
    kinds = [n % 2 == 0 for n in range(count)]
    return [text(f"t{n}", is_hateful=k, at=n / count, said=float(k)) for n, k in enumerate(kinds)]


def test_a_constant_answer_has_no_rank_and_is_called_so(tmp_path: Path) -> None:
    notes = board_notes(board(kept(tmp_path, always=constant(1.0), ant=mixed())))

    assert notes == [
        "No rank for always: a constant answer (all texts, or nearly all, get one label; "
        "TPR 1.000, FPR 1.000).",
        "No interval for always: all answers of a kind are alike, so that nothing shows how far "
        "they may vary.",
    ]


def test_a_model_that_could_not_be_read_has_no_rank_and_its_reason(tmp_path: Path) -> None:
    notes = board_notes(board(kept(tmp_path, ant=mixed(), cut=unread())))

    assert notes == ["No rank for cut: nothing could be read (40 truncated)."]


def test_a_control_needs_no_reason_for_its_rank_and_one_for_its_interval(tmp_path: Path) -> None:
    [note] = board_notes(board(kept(tmp_path, oracle=perfect(), ant=mixed())))

    assert note.startswith("No interval for oracle: all answers of a kind are alike")


def test_the_page_does_not_say_that_only_controls_answered(tmp_path: Path) -> None:
    folders = kept(tmp_path, oracle=perfect(), always=constant(1.0))

    data = page_data(folders, tmp_path)
    [line] = next(one for one in data.sections if one.name == "headline").lines
    assert line == (
        "No model is ranked on toy. No rank for always: a constant answer (all texts, or nearly "
        "all, get one label; TPR 1.000, FPR 1.000)."
    )
    [table] = next(one for one in data.sections if one.name == "leaderboard").tables
    assert [note.partition(":")[0] for note in table.notes] == [
        "No rank for always",
        "No interval for oracle, always",
    ]


def test_the_terminal_names_the_constant_answer_and_the_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path, oracle=perfect(), always=constant(1.0))

    assert main(["leaderboard", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "always (constant answer)" in out
    assert "No rank for always: a constant answer" in out
    assert "No interval for oracle, always: all answers of a kind are alike" in out


@pytest.mark.parametrize(("cut", "is_told"), [(4, False), (5, True)])
def test_answers_cut_at_their_limit_are_an_alarm_above_a_tenth(
    tmp_path: Path, *, cut: int, is_told: bool
) -> None:
    rows = [
        replace(
            one, answer="yes", steps=(StepRecord("answer", one.sample.id, (), "yes", stop=end),)
        )
        for place, one in enumerate(mixed())
        for end in ["length" if place < cut else "stop"]
    ]

    data = page_data(kept(tmp_path, ant=rows), tmp_path)
    alarms = next(one for one in data.sections if one.name == "alarms").lines
    told = "ant on toy: 5 of 40 answers reached their token limit and were cut; they are judged"
    assert [line.startswith(told) for line in alarms] == [True] * is_told


def test_data_sets_of_one_task_are_told_apart_by_file_and_tag(tmp_path: Path) -> None:
    for place, (name, tag) in enumerate((("posts.csv", "may"), ("june.csv", "june"))):
        rows = mixed(30 + place)
        source = DataEntry("posts", "released", f"d{place}+meter@1", {name: "0a1b"})
        file = run_of(rows, model=replace(SMALL, name="ant", kind="vllm"), data=source)
        run = replace(file.run, variants=("base",), model="ant", data=source.label)
        table = DataSpec(
            source="posts",
            reader="labelled_table",
            files=(),
            sample="toy.jsonl",
            map="mine",
            choices={"hateful": "yes", "benign": "no"},
        )
        spec = structs.replace(file.task, data=table)
        file = replace(file, run=run, task=spec)
        folder = RunFolder(tmp_path / "runs" / "toy" / "ant" / file.run.digest[:16])
        folder.write(file, rows, score_rows(file, rows))
        folder.write_tag(tag)

    data = page_data(run_folders(tmp_path), tmp_path)
    sections = {one.name: one for one in data.sections}
    assert {run["label"] for run in data.runs} == {"ant @may", "ant @june"}
    assert {table.pick for table in sections["leaderboard"].tables} == {
        "base, by gold, posts, file posts.csv",
        "base, by gold, posts, file june.csv",
    }
    [asked] = sections["asked"].lines
    assert re.search(r"Dates: @june, \d{4}-\d\d-\d\d, @may, \d{4}-\d\d-\d\d\.", asked)
    shown = repr([(one.title, one.pick) for own in data.sections for one in own.tables])
    assert "|" not in shown  # no signature stands in a title or a choice


def test_the_column_of_values_is_called_by_its_metric(tmp_path: Path) -> None:
    write_runs(tmp_path, Sketch(samples=12))

    data = page_data(run_folders(tmp_path), tmp_path)
    tables = next(one for one in data.sections if one.name == "leaderboard").tables
    names = {column["name"] for table in tables for column in table.columns}
    assert {"accuracy", "mean f1"} <= names
    assert "value" not in names


def test_costs_have_no_column_that_no_run_fills_and_no_price_of_controls(tmp_path: Path) -> None:
    data = page_data(kept(tmp_path, oracle=perfect()), tmp_path)

    [table] = next(one for one in data.sections if one.name == "cost").tables
    assert [column["name"] for column in table.columns] == ["task", "run"]
