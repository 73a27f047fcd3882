"""Results that version 0.2 wrote: refused or left out, and made again from the stored calls."""

from pathlib import Path
from shutil import copytree

import pytest
from support.each import rest_slow
from support.toy import Lines

import harness as ph
from harness.cli import main
from harness.errors import StoreError
from harness.pipeline.score import all_scores
from harness.storage.find_runs import run_folders

STORED = Path(__file__).parent / "stored_0_2"
RUN = (
    *("run", "--task", "intent_resolution", "--model", "literal", "--judge", "ngram-cosine"),
    *("--variant", "base", "--limit", "2"),
)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return copytree(STORED, tmp_path / "results")


@pytest.mark.parametrize("command", ["read", "items", "compare"])
def test_an_earlier_version_has_its_remedy_told(results: Path, capsys: Lines, command: str) -> None:
    [folder] = run_folders(results)
    assert main([command, str(folder.path), "--results", str(results)]) == 2

    said = " ".join(capsys.readouterr().err.split())
    assert "an earlier version of the program wrote this run; the same command makes it" in said


@pytest.mark.parametrize(
    "command",
    rest_slow(
        ["leaderboard", "table", "report", "plot forest -o OUT-2.svg", "agree --ratings OUT.csv"],
        kept=2,
    ),
)
def test_runs_of_an_earlier_version_are_left_out_after_one_warning(
    results: Path, capsys: Lines, command: str
) -> None:
    [old] = run_folders(results)
    copytree(old.path, old.path.with_name("0" * 16))
    assert main([*RUN, "--model", "oracle", "--results", str(results)]) == 0
    [run] = ph.load_runs(results)
    rated = "".join(f"{run.task},{run.items.sample_id[0]},oracle,{n},1,base\n" for n in range(2))
    (results / "out.csv").write_text(f"task,sample_id,model,rater,value,scale\n{rated}", "utf-8")
    words = command.replace("OUT", str(results / "out")).split()
    capsys.readouterr()

    assert main([*words, "--results", str(results)]) == 1

    err = " ".join(capsys.readouterr().err.split())
    assert err.count("an earlier version of the program wrote this run; the same command") == 1
    assert f"WARNING: 2 of 3 runs are left out, such as {old.path.with_name('0' * 16)}: " in err


def test_the_library_leaves_out_runs_of_an_earlier_version(results: Path, capsys: Lines) -> None:
    with pytest.raises(StoreError, match="an earlier version of the program wrote this run"):
        ph.leaderboard(results=results)
    assert main([*RUN, "--model", "oracle", "--results", str(results)]) == 0

    capsys.readouterr()
    [run] = ph.load_runs(results)

    assert {*ph.items(results=results).model} == {run.model} == {"oracle"}
    assert capsys.readouterr().err.count("1 of 2 runs are left out") == 1


def test_the_same_command_makes_the_run_again_without_a_call(results: Path, capsys: Lines) -> None:
    calls = {path: path.read_bytes() for path in results.rglob("calls/*/*.jsonl")}
    [before] = run_folders(results)
    known = (before.path / "scores.csv").read_text("utf-8")

    assert main([*RUN, "--results", str(results)]) == 0

    [after] = run_folders(results)
    assert after.path == before.path
    assert {path: path.read_bytes() for path in results.rglob("calls/*/*.jsonl")} == calls
    assert not (after.path / "samples.jsonl").exists()
    assert (after.path / "answers.parquet").exists()
    values = [float(line.split(",")[7] or "nan") for line in known.splitlines()[1:]]
    scores = [row.score.value for row in all_scores(after)]
    assert scores == pytest.approx(values, abs=0, nan_ok=True)
