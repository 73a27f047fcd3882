"""The command `import`: what it prints, its exit code, and the commands that go on from there."""

import csv
from pathlib import Path

import pytest
from msgspec import json
from support import posed_files
from support.each import rest_slow
from support.packages import DATA, needs_data
from support.posed_files import write
from support.quiz import Quiz
from support.rated_files import Desk, answered
from support.toy import Lines

from harness.cli import main
from harness.registry import Registry, shipped_home
from harness.specs.data import CellSpec

MODELS = ("gpt2", "tk-instruct-3b-def-pos", "flan-t5-base", "flan-t5-xl", "text-ada-001")
EXAMPLE = Path(__file__).parents[2] / "docs/examples/option_probabilities.csv"


@pytest.fixture
def quiz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Quiz:
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return posed_files.build(tmp_path)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


def bring(desk: Desk, *arguments: str) -> int:
    """Import `in.json` here; the exit code."""
    return desk.main("import", "in.json", "--task", "topical_chat", "--model", "m", *arguments)


def test_a_mistake_is_one_message_and_code_2(desk: Desk, capsys: Lines) -> None:
    desk.put("in.json", "{}")
    assert bring(desk) == 2
    assert capsys.readouterr().err.startswith("harness: in.json: of no layout known here")


def test_what_was_found_is_told_and_the_run_stands_on_the_leaderboard(
    desk: Desk, capsys: Lines
) -> None:
    desk.put("in.json", answered())
    assert bring(desk) == 0  # nothing is missing
    assert desk.main("leaderboard") == 0
    assert "m:replay@unknown" in (desk.results / "leaderboard.csv").read_text("utf-8")

    desk.put("in.json", answered()[1:])
    capsys.readouterr()
    assert bring(desk) == 1
    said = capsys.readouterr().out
    assert bring(desk, "--json") == 1

    assert "naturalness: answers to 3 of 4 samples" in said
    assert f"ratings {desk.results / 'ratings' / 'topical_chat.csv'}" in said
    told = json.decode(capsys.readouterr().out)
    assert told["counts"] == [{"variant": "naturalness", "found": 3, "samples": 4}]
    assert Path(told["folder"], "run.json").is_file()
    assert told["ratings"].endswith("topical_chat.csv")


def take(quiz: Quiz, *arguments: str) -> int:
    """Import answers to the task intent_detection here; the exit code."""
    given = ("--task", "intent_detection", "--model", "small", "--map", "hu2022")
    return quiz.main("import", *given, *arguments)


def test_rows_without_an_answer_are_counted_by_file(quiz: Quiz, capsys: Lines) -> None:
    rows = [posed_files.answered(0), posed_files.answered(1) | {"distribution": ""}]
    take(quiz, str(write(quiz.folder / "in.csv", *rows)))
    assert "in.csv: 1 row without an answer: missing" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("level", ["base", "cot2"])
def test_replies_to_a_task_whose_levels_ask_twice_in_one_conversation_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Lines, level: str
) -> None:
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    lines = (shipped_home() / "tasks/samples/intent_resolution.jsonl").read_bytes().splitlines()
    posed = json.decode(lines[0])
    told = {"story": posed["fields"]["context"], "said": "Of course, it is off."}
    with (tmp_path / "in.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, told.keys())
        rows.writeheader()
        rows.writerow(told)
    (tmp_path / "map.yaml").write_text(
        "about: Mine.\nformat: csv\nsample: {fields: {context: story}}\n"
        f"variant: {level}\nanswer: {{kind: text, column: said}}\n",
        "utf-8",
    )
    names = ["--task", "intent_resolution", "--model", "m", "--map", str(tmp_path / "map.yaml")]

    assert main(["import", str(tmp_path / "in.csv"), *names, "--results", str(tmp_path)]) == 1

    assert f"{level}: answers to 1 of 56 samples" in capsys.readouterr().out


def test_the_example_of_a_column_map_is_what_its_file_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Lines
) -> None:
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    names = ["--task", "intent_detection", "--model", "small", "--map", "option_probabilities"]

    assert main(["import", str(EXAMPLE), *names, "--results", str(tmp_path), "--json"]) == 1

    told = json.decode(capsys.readouterr().out)
    assert {part["variant"]: part["found"] for part in told["counts"]} == {
        **{f"order{n}": 0 for n in range(2, 5)},
        **{"order0": 3, "order1": 2},
    }
    assert [part["rows"] for part in told["notes"]] == [1, 1]


def golden(model: str) -> dict[str, CellSpec]:
    """The published accuracies of a model, by group."""
    cells = Registry((shipped_home(),), {}, Path()).load("configs/golden", "hu2022").all_cells
    own = [c for c in cells if c.recompute == f"hu2022_{model}" and "accuracy" in (c.value or "")]
    return {(cell.value or "").removeprefix("accuracy").strip("_") or "all": cell for cell in own}


@needs_data
@pytest.mark.parametrize("model", rest_slow(MODELS, kept=1))
def test_stored_probabilities_give_the_accuracies(
    model: str, tmp_path: Path, capsys: Lines
) -> None:
    released = Path(DATA or "", "hu2022/model_data").glob(f"*_{model}_*.csv")
    files = sorted(str(path) for path in released if "_no-story_" not in path.name)
    end = ["--results", str(tmp_path)]

    named = ["--task", "intent_detection", "--model", model, "--map", "hu2022"]
    assert main(["import", *files, *named, *end]) == 0
    main(["leaderboard", *end])

    with (tmp_path / "leaderboard.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["variant"] == "all"]
    found = {row["group"]: row["value"] for row in rows if row["metric"] == "accuracy"}
    printed = {group: str(cell.published) for group, cell in golden(model).items()}
    digits = {group: len(text.partition(".")[2]) for group, text in printed.items()}
    assert {group: f"{float(found[group]):.{digits[group]}f}" for group in printed} == printed
    assert len(printed) == 8
    is_alarmed = "alarm: " in capsys.readouterr().err
    assert is_alarmed == (model == "gpt2")
