"""A repeat of an unchanged run is told again at once; whatever changed is never hidden by it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest
from support.each import rest_slow
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import Lines, Toy

import harness
from harness.pipeline.repeats import record, stored_segments
from harness.storage.runs import RunFolder

REPEATS = "repeats/toy/oracle/*.json"


def said(capsys: Lines) -> tuple[str, list[str]]:
    """What a command printed, and what it told beside, without its progress."""
    out, err = capsys.readouterr()
    return out, [line for line in err.splitlines() if " stored" not in line]


def is_shown_again(toy: Toy, capsys: Lines, *arguments: str, model: str = "oracle") -> bool:
    """Whether a command answers nothing: it then shows no progress."""
    capsys.readouterr()
    assert toy.run(*arguments, model=model) == 0
    return f"answers of {model}" not in capsys.readouterr().err


def test_a_repeat_says_the_same_and_is_not_recorded_if_another_process_added_calls(
    toy: Toy, capsys: Lines
) -> None:
    toy.run()
    first, before = said(capsys), toy.bytes()
    stamps = {path: path.stat().st_mtime_ns for path in toy.runs()[0].iterdir()}

    assert toy.run() == 0

    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == first
    assert toy.bytes() == before
    assert {path: path.stat().st_mtime_ns for path in toy.runs()[0].iterdir()} == stamps

    [path], [folder] = toy.results.glob(REPEATS), toy.runs()
    for pid in (os.getpid(), 0):
        segments = stored_segments(toy.results, ["oracle"])
        (toy.results / f"calls/oracle/9-host-{pid}.jsonl").write_text("")
        record(RunFolder(folder), {"": "x"}, segments, retried=(), truncated=0)
        assert path.is_file() == (pid != 0)


def test_a_repeat_without_some_of_the_judges_is_shown_again_too(toy: Toy, capsys: Lines) -> None:
    toy.write("configs/judges/far.yaml", (toy.home / "configs/judges/near.yaml").read_text("utf-8"))
    toy.run("--judge", "near,far")

    assert is_shown_again(toy, capsys, "--judge", "far")
    assert {judge.name for judge in RunFolder(toy.runs()[0]).read().judges} == {"far", "near"}


def add_sample_of_one_size_and_time(toy: Toy) -> None:
    path = toy.home / "tasks/samples/toy.jsonl"
    before = path.stat()
    path.write_text(path.read_text("utf-8").replace("number 5.", "number 7."), "utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def change_ledger(toy: Toy) -> None:
    [segment] = (toy.results / "calls/oracle").iterdir()
    (segment.parent / "0-older.jsonl").write_bytes(segment.read_bytes())


CHANGES: dict[str, Callable[[Toy], object]] = {
    "sample of one size and time": add_sample_of_one_size_and_time,
    "template": lambda toy: toy.edit("prompts/toy/after.user.j2", "next", "then"),
    "task": lambda toy: toy.edit("tasks/toy.yaml", "max_tokens: 20", "max_tokens: 21"),
    "judge": lambda toy: toy.edit("configs/judges/near.yaml", "right", "wrong"),
    "judge's about": lambda toy: toy.edit("configs/judges/near.yaml", "about: ", "about: now "),
    "ledger": change_ledger,
    "answers": lambda toy: (toy.runs()[0] / "answers.parquet").unlink(),
    "verdicts": lambda toy: (toy.runs()[0] / "verdicts.parquet").write_text("gone"),
    "scores.csv": lambda toy: (toy.runs()[0] / "scores.csv").write_text("gone"),
    "sums": lambda toy: (toy.runs()[0] / "SHA256SUMS").unlink(),
    "record": lambda toy: next(toy.results.glob(REPEATS)).write_text("{"),
}


@pytest.mark.parametrize("change", rest_slow(CHANGES, kept=slice(None, None, 4)))
def test_whatever_changed_the_run_is_carried_out(toy: Toy, capsys: Lines, change: str) -> None:
    toy.run()
    before = toy.bytes()
    CHANGES[change](toy)

    assert not is_shown_again(toy, capsys)

    assert toy.bytes().keys() >= before.keys(), "what was damaged is there again"
    assert is_shown_again(toy, capsys), "from then on it is known"


@pytest.mark.parametrize("more", [("--seed", "1"), ("--limit", "4"), ("--variant", "base")])
def test_other_options_are_another_run(toy: Toy, capsys: Lines, more: tuple[str, ...]) -> None:
    toy.run()
    assert not is_shown_again(toy, capsys, *more)


@pytest.mark.parametrize(
    ("words", "failing"), [((), "number 3"), (("--judge", "choice"), "Judge")], ids=str
)
def test_failed_calls_of_models_and_judges_are_asked_again_by_every_repeat(
    toy: Toy, stub: StubServer, words: tuple[str, ...], failing: str
) -> None:
    script = Script(replies={"": ("yes 1",)}, faults={failing: ("400-bad",) * 50})
    stub.script = script

    assert toy.run("--variant", "base", *words, model="alpha") == 1
    before = stub.stats()["requests"]
    assert toy.run("--variant", "base", *words, model="alpha") == 1
    assert stub.stats()["requests"] > before


def test_calls_a_later_run_adds_change_no_run_that_has_all_its_own(toy: Toy, capsys: Lines) -> None:
    toy.run("--variant", "base")
    toy.run()  # adds the calls of the other variant
    assert is_shown_again(toy, capsys, "--variant", "base")


def test_a_run_whose_record_cannot_be_written_is_whole(toy: Toy, capsys: Lines) -> None:
    plan = str(toy.write("p.yaml", "{about: x, models: [oracle], tasks: [{task: toy}]}"))
    (toy.results).mkdir()
    (toy.results / "repeats").write_text("a file")

    assert (toy.run(), toy.main("run", plan)) == (0, 0)

    out, err = capsys.readouterr()
    assert f"run {toy.runs()[0]}" in out
    assert f"{toy.results / 'repeats'}" in err
    assert "the run is whole, and a repeat goes through it again" in err


def test_a_changed_model_is_carried_out_also_where_it_is_called_the_same(
    toy: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StubServer(Script(models=({"id": "one"},))) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        toy.run(model="alpha")
        assert is_shown_again(toy, capsys, model="alpha")

        toy.edit("configs/models/alpha.yaml", "attempts: 1", "attempts: 3")
        assert not is_shown_again(toy, capsys, model="alpha")

        toy.edit("configs/models/alpha.yaml", "model: alpha", "model: auto")
        toy.run(model="alpha")
        assert is_shown_again(toy, capsys, model="alpha")
    with StubServer(Script(models=({"id": "two"},))) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        assert not is_shown_again(toy, capsys, model="alpha"), "the server has another one"


@pytest.mark.slow
def test_other_code_and_other_packages_make_another_digest(tmp_path: Path) -> None:
    code, packages = tmp_path / "code", tmp_path / "packages"
    ignored = ignore_patterns("*.pyc", "heads")
    copytree(Path(harness.__file__).parent, code / "harness", ignore=ignored)
    (packages / "torch-99.0.dist-info").mkdir(parents=True)

    def told(*places: Path) -> str:
        words = "from harness.pipeline.repeats import program_digest; print(program_digest())"
        environ = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, places))}
        command = [sys.executable, "-c", words]
        return subprocess.check_output(command, cwd=tmp_path, env=environ, text=True)

    first, second, with_package = told(code), told(code), told(code, packages)
    (code / "harness/text/added.py").write_text("")

    assert first == second
    assert len({first, with_package, told(code)}) == 3
