"""A repeat of an unchanged run is told again at once; whatever changed is never hidden by it."""

import os
from collections.abc import Callable

import pytest
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import Toy

from harness.storage.runs import RunFolder

MANIFESTS = "manifests/toy/oracle/*.json"


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, list[str]]:
    """What a command printed, and what it told beside, without its progress."""
    out, err = capsys.readouterr()
    return out, [line for line in err.splitlines() if " stored" not in line]


def is_told_again(toy: Toy, capsys: pytest.CaptureFixture[str], *arguments: str) -> bool:
    """Whether a command answers nothing: it then shows no progress."""
    capsys.readouterr()
    assert toy.run(*arguments) == 0
    return "answers of oracle" not in capsys.readouterr().err


def test_a_repeat_says_the_same_and_writes_nothing(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.run()
    first, before = said(capsys), toy.bytes()
    stamps = {path: path.stat().st_mtime_ns for path in toy.runs()[0].iterdir()}

    assert toy.run() == 0

    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == first
    assert toy.bytes() == before
    assert {path: path.stat().st_mtime_ns for path in toy.runs()[0].iterdir()} == stamps


def test_a_repeat_without_some_of_the_judges_is_told_again_too(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.write("configs/judges/far.yaml", (toy.home / "configs/judges/near.yaml").read_text("utf-8"))
    toy.run("--judge", "near,far")

    assert is_told_again(toy, capsys, "--judge", "far")
    assert {judge.name for judge in RunFolder(toy.runs()[0]).read().judges} == {"far", "near"}


def add_sample(toy: Toy) -> None:
    path = toy.home / "tasks/samples/toy.jsonl"
    path.write_text(path.read_text("utf-8").replace("number 5.", "number 55."), "utf-8")


def add_sample_of_one_size_and_time(toy: Toy) -> None:
    path = toy.home / "tasks/samples/toy.jsonl"
    before = path.stat()
    path.write_text(path.read_text("utf-8").replace("number 5.", "number 7."), "utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def change_ledger(toy: Toy) -> None:
    [segment] = (toy.results / "calls/oracle").iterdir()
    (segment.parent / "0-older.jsonl").write_bytes(segment.read_bytes())


CHANGES: dict[str, Callable[[Toy], object]] = {
    "sample": add_sample,
    "sample of one size and time": add_sample_of_one_size_and_time,
    "template": lambda toy: toy.edit("prompts/toy/after.user.j2", "next", "then"),
    "task": lambda toy: toy.edit("tasks/toy.yaml", "max_tokens: 20", "max_tokens: 21"),
    "judge": lambda toy: toy.edit("configs/judges/near.yaml", "right", "wrong"),
    "ledger": change_ledger,
    "samples.jsonl": lambda toy: (toy.runs()[0] / "samples.jsonl").unlink(),
    "items.csv": lambda toy: (toy.runs()[0] / "items.csv").write_text("gone"),
    "scores.csv": lambda toy: (toy.runs()[0] / "scores.csv").write_text("gone"),
    "sums": lambda toy: (toy.runs()[0] / "SHA256SUMS").unlink(),
    "manifest": lambda toy: next(toy.results.glob(MANIFESTS)).write_text("{"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changed_the_run_is_carried_out(
    toy: Toy, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    toy.run()
    before = toy.bytes()
    CHANGES[change](toy)

    assert not is_told_again(toy, capsys)

    assert toy.bytes().keys() >= before.keys(), "what was damaged is there again"
    assert is_told_again(toy, capsys), "from then on it is known"


@pytest.mark.parametrize("more", [("--seed", "1"), ("--limit", "4"), ("--variant", "base")])
def test_other_options_are_another_run(
    toy: Toy, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    toy.run()

    assert not is_told_again(toy, capsys, *more)


def test_a_dry_run_counts_the_calls_of_an_unchanged_run_too(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.run()
    capsys.readouterr()

    assert toy.run("--dry-run") == 0
    assert "response" in capsys.readouterr().out


def test_failed_calls_are_asked_again_by_every_repeat(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(replies={"": ("yes 1",)}, faults={"number 3": ("400-bad",) * 50})
    with StubServer(script) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        first = toy.run("--variant", "base", model="alpha"), stub.stats()["requests"]
        second = toy.run("--variant", "base", model="alpha"), stub.stats()["requests"]

    assert first[0] == second[0] != 0
    assert second[1] > first[1]


def test_calls_that_another_run_adds_to_the_ledger_are_looked_at(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.run("--variant", "base")
    toy.run()  # adds the calls of the other variant

    assert not is_told_again(toy, capsys, "--variant", "base")


def test_two_runs_of_one_command_are_both_told_again(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("run", "--task", "toy,quiz", "--model", "oracle")
    assert toy.main(*command) == 0
    capsys.readouterr()

    assert toy.main(*command) == 0
    assert "answers of oracle" not in capsys.readouterr().err
