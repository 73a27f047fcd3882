"""The command `import`: what it prints, its exit code, and the commands that go on from there."""

import os
from pathlib import Path

import pytest
from msgspec import json
from rated_files import Desk, answered

DATA = os.environ.get("HARNESS_DATA")
needs_data = pytest.mark.skipif(
    DATA is None, reason="HARNESS_DATA is unset: the folder of the released data"
)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


def bring(desk: Desk, *arguments: str) -> int:
    """Import `in.json` here; the exit code."""
    return desk.main("import", "in.json", "--task", "topical_chat", "--model", "m", *arguments)


@pytest.mark.parametrize(("lost", "code"), [(0, 0), (1, 1)])
def test_the_exit_code_tells_whether_anything_is_missing(desk: Desk, lost: int, code: int) -> None:
    desk.put("in.json", answered()[lost:])

    assert bring(desk) == code


def test_it_prints_what_it_found_and_where_the_ratings_are(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.put("in.json", answered()[1:])

    bring(desk)

    said = capsys.readouterr().out
    assert "naturalness: answers to 3 of 4 samples" in said
    assert f"ratings {desk.results / 'ratings' / 'topical_chat.csv'}" in said


def test_json_holds_folder_counts_and_ratings(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.put("in.json", answered()[1:])

    assert bring(desk, "--json") == 1

    told = json.decode(capsys.readouterr().out)
    assert told["counts"] == [{"variant": "naturalness", "found": 3, "samples": 4}]
    assert Path(told["folder"], "run.json").is_file()
    assert told["ratings"].endswith("topical_chat.csv")


def test_a_mistake_is_one_message_and_code_2(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.put("in.json", "{}")

    assert bring(desk) == 2

    assert capsys.readouterr().err.startswith("harness: in.json: nothing in it")


def test_an_imported_run_is_read_again_without_a_call(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.put("in.json", answered()[1:])
    bring(desk)
    [run] = desk.results.glob("runs/*/*/*")

    assert desk.main("read", run.name) == 0

    assert "0 verdicts changed; no call was made" in capsys.readouterr().out


def test_an_imported_run_stands_on_the_leaderboard(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.put("in.json", answered())
    bring(desk)

    assert desk.main("leaderboard") == 0

    assert "m:replay@unknown" in (desk.results / "leaderboard.csv").read_text("utf-8")
