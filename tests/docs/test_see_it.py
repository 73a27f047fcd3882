"""The page `see it`: all that it names is done as written, on a folder with runs of two tasks."""

import re
import shlex
from pathlib import Path

import pytest

import harness as ph
from harness.cli import main

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "see-it.md").read_text("utf-8")


@pytest.fixture
def mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the runs of the page have been made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    for line in re.findall("^harness (run .+)$", PAGE, re.MULTILINE):
        assert main(shlex.split(line)) == 0
    return tmp_path


@pytest.mark.slow  # the encoder reads two tasks
def test_every_command_shows_what_it_says(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    commands = [c for c in re.findall("`harness ([^`]+)`", PAGE) if "--serve" not in c]
    assert len(commands) > 8
    shown = []
    for command in commands:
        capsys.readouterr()
        assert main(shlex.split(command)) == 0, (command, capsys.readouterr().err)
        shown.append(capsys.readouterr().out)

    assert min(map(len, shown)) > 20
    judges = next(one for one in shown if one.startswith("-- 1 of") and "ngram-cosine" in one)
    verdicts = re.findall(r"minilm-cosine +(\w+)\n +ngram-cosine +(\w+)", judges)
    assert verdicts
    assert all(one != other for one, other in verdicts)
    assert any("expected        yes\nrandom          no\n" in one for one in shown)
    assert "ngram-cosine" in (mixed / "table.tex").read_text("utf-8")
    assert (mixed / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert (mixed / "report.html").stat().st_size > 20_000
    missed = (mixed / "missed.csv").read_text("utf-8").splitlines()
    assert len(ph.load_runs(name="hate_speech/random")[0].errors("missed")) == len(missed) - 1


def test_a_new_user_finds_it_from_the_first_pages() -> None:
    first = [DOCS.parent / "README.md", DOCS / "index.md", DOCS / "tutorial.md"]
    assert [path.name for path in first if "see-it.md" not in path.read_text("utf-8")] == []
    assert len(PAGE.splitlines()) <= 70
