"""The screen and the page say the same of the same runs: an alarm, a judge, a difference."""

import re
from pathlib import Path

import pytest

from harness.cli import main
from harness.present.page.page import page_data
from harness.storage.find_runs import run_folders


def on_page(results: Path, name: str) -> list[str]:
    data = page_data(run_folders(results), results)
    return [line for part in data.sections if part.name == name for line in part.lines]


def on_screen(text: str) -> str:
    return " ".join(text.split())


def test_alarms_and_judges_have_the_words_of_the_leaderboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs/models").mkdir(parents=True)
    never = "{about: a, kind: scripted, policy: constant-no}"
    (tmp_path / "configs/models/never.yaml").write_text(never, "utf-8")
    for task, models, more in (
        ("hate_speech", "never", "--limit 30"),
        ("intent_detection", "first", "--limit 21"),
        ("intent_resolution", "oracle,literal", "--judge ngram-cosine --variant base --limit 4"),
    ):
        words = ["run", "--task", task, "--model", models, *more.split()]
        assert main(words) == 0
    capsys.readouterr()
    assert main(["leaderboard"]) == 0
    screen = on_screen(capsys.readouterr().err)

    said = on_page(Path("results"), "alarms")

    facts = [re.split(r": |ngram-cosine ", line, maxsplit=1)[1].rstrip(".") for line in said]
    # The page adds the recipe of the boards that a judge is unfit on.
    facts = [fact.partition(": intent_resolution:")[0] for fact in facts]
    assert len(facts) == 3
    assert [fact for fact in facts if fact not in screen] == []
    assert any("nearly no text is flagged" in fact for fact in facts)
    assert any("too few samples" in fact for fact in facts)
