"""Runs by names that people can remember: tags, tasks with models, the last one."""

import json
import sys
from pathlib import Path

import pytest
from support.toy import Lines, Toy, taking

from harness.cli import main
from harness.errors import StoreError
from harness.storage.find_runs import find_run, find_runs
from harness.storage.runs import RunFolder


def two_and_one(toy: Toy) -> None:
    """Two runs of one model, the second tagged; one of another model."""
    assert toy.run("--variant", "base") == 0
    assert toy.run("--variant", "base", "--limit", "2", "--tag", "pilot") == 0
    assert toy.run("--variant", "base", model="literal") == 0


named = taking(two_and_one)


def limit(folder: RunFolder) -> tuple[str, int | None]:
    run = folder.read()
    return run.model.name, run.run.limit


def test_a_run_is_found_by_its_names(named: Toy) -> None:
    two, all_ = ("oracle", 2), ("literal", None)
    wanted = {"@pilot": two, "toy/oracle@pilot": two, "toy/literal": all_, "@last": all_}

    assert {name: limit(find_run(named.results, name)) for name in wanted} == wanted
    for path in named.runs():
        assert find_run(named.results, f"toy/{path.parent.name}@{path.name[:8]}").path == path


def err_of(capsys: Lines) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_an_ambiguous_name_lists_the_candidates_and_what_differs(named: Toy, capsys: Lines) -> None:
    # Of runs that differ in how much they cover the one of most answers is meant.
    assert named.main("show", "toy/oracle") == 0
    assert "the newest run of most answers: 1 others differ in variants or" in err_of(capsys)
    assert limit(find_run(named.results, "toy/oracle")) == ("oracle", None)
    count = len(named.runs())
    assert [on(named, "rm", name, "--yes") for name in ("toy/oracle", "")] == [2, 2]
    assert len(named.runs()) == count, "what is deleted is never chosen"
    capsys.readouterr()

    assert named.run("--variant", "base", "--seed", "1") == 0
    assert named.main("show", "toy/oracle") == 2
    err = capsys.readouterr().err
    assert "'toy/oracle' means 3 runs" in err
    lines = [line for line in err.splitlines() if line.startswith(f"  {named.results}")]
    limits = [("limit all items" in line, "limit 2 items" in line) for line in lines]
    assert sorted(limits) == [(False, True), (True, False), (True, False)]
    assert sum(": @pilot, limit 2" in line for line in lines) == 1


def two_more(toy: Toy) -> None:
    """Two runs besides, of two models that share a tag."""
    toy.take(two_and_one)
    for model in ("oracle", "literal"):
        assert toy.run("--variant", "base", "--limit", "3", "--tag", "both", model=model) == 0


alike = taking(two_more)


def on(toy: Toy, *words: str) -> int:
    return main([*words, "--results", str(toy.results)])


def test_a_tag_of_several_runs_stands_for_all_of_them(alike: Toy, capsys: Lines) -> None:
    capsys.readouterr()

    found = find_runs(alike.results, ["@both", "toy/oracle@both", "@pilot"])

    assert [limit(one) for one in found] == [("literal", 3), ("oracle", 3), ("oracle", 2)]
    assert on(alike, "items", "@both", "--where", "flip", "--json") == 0
    models = {row["model"] for row in json.loads(capsys.readouterr().out)}
    assert models == {"oracle", "literal"}
    assert on(alike, "compare", "@both") == 0
    assert "A (literal)" in capsys.readouterr().out
    assert on(alike, "compare", "toy/oracle@both", "@pilot") in (0, 1)
    assert "A (oracle @both) and B (oracle @pilot)" in capsys.readouterr().out
    assert on(alike, "table", "@both", "--where", "variant=base", "--json") == 0
    assert on(alike, "report", "@both", "-o", str(alike.folder / "both.html")) == 0
    assert "wrote 2 runs" in capsys.readouterr().out
    assert on(alike, "leaderboard", "@both") == 0
    assert {"oracle", "literal"} <= set(capsys.readouterr().out.split())


def test_a_tag_of_several_runs_is_refused_where_one_is_wanted(alike: Toy, capsys: Lines) -> None:
    assert alike.main("show", "@both") == 2
    err = capsys.readouterr().err
    assert "'@both' means 2 runs" in err
    assert all(f"toy/{model}/" in err for model in ("oracle", "literal"))

    assert on(alike, "compare", "@both", "@pilot") == 1
    assert "only on one side, and not compared: toy/literal" in capsys.readouterr().err


def test_a_board_of_named_runs_ranks_these_and_keeps_the_file(alike: Toy, capsys: Lines) -> None:
    assert on(alike, "leaderboard") == 0
    before = (alike.results / "leaderboard.csv").read_bytes()
    capsys.readouterr()

    assert on(alike, "leaderboard", "toy/literal@both", "--json") == 0

    assert {row["model"] for row in json.loads(capsys.readouterr().out)} == {"literal"}
    assert (alike.results / "leaderboard.csv").read_bytes() == before


def test_a_run_is_deleted_when_that_is_sure_and_calls_of_its_model_alone(
    alike: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # closed, as by <&-
    count, calls = len(alike.runs()), alike.results / "calls"
    assert on(alike, "list", "runs", "--size") == 0
    assert f"{calls / 'literal'}  0." in capsys.readouterr().out
    assert on(alike, "rm", "toy/literal@both", "--calls") == 2
    assert "--yes says that you are sure" in capsys.readouterr().err
    assert len(alike.runs()) == count

    assert on(alike, "rm", "@both", "--calls", "--yes") == 0

    assert len(alike.runs()) == count - 2
    assert sorted(path.name for path in calls.iterdir()) == ["literal", "oracle"], "others' calls"
    assert on(alike, "rm", "toy/literal", "--calls", "--yes") == 0
    assert [path.name for path in calls.iterdir()] == ["oracle"]
    assert on(alike, "rm", str(alike.runs()[0]), "--results", str(alike.folder / "x")) == 2


def test_an_ambiguous_name_offers_one_that_is_found_though_a_run_is_damaged(toy: Toy) -> None:
    for limit in ("2", "3"):
        toy.run("--variant", "base", "--limit", limit)
    (toy.runs()[-1] / "run.json").write_text("{", "utf-8")

    with pytest.raises(StoreError, match="'toy/oracle' means 2 runs") as caught:
        find_run(toy.results, "toy/oracle")

    said = str(caught.value)
    assert [f"  {path}" in said for path in toy.runs()] == [True, True]
    assert find_run(toy.results, said.partition("here ")[2].partition(",")[0]).path in toy.runs()


def test_a_name_of_no_run_is_told(named: Toy) -> None:
    for name in ("@nobody", "toy/nobody", "toy/oracle@nobody", "@", "toy/", "/"):
        with pytest.raises(StoreError, match=r"no run '.*harness list runs"):
            find_run(named.results, name)
    with pytest.raises(
        StoreError, match=r"'toy' .*; did you mean toy/literal or toy/oracle or --task toy"
    ):
        find_run(named.results, "toy")


def test_a_tag_changes_no_file_of_a_run_and_stays_when_it_is_run_again(toy: Toy) -> None:
    toy.run("--variant", "base")
    before = toy.bytes()

    assert toy.main("judge", "toy/oracle", "--judge", "near", "--tag", "two.judges") == 0
    toy.run("--variant", "base")
    assert find_run(toy.results, "@two.judges").path == toy.runs()[0]
    toy.run("--variant", "base", "--tag", "pilot")

    after = toy.bytes()
    assert {name: after[name] for name in before} == before
    assert [Path(name).name for name in after.keys() - before.keys()] == ["tag"]


def test_runs_are_listed_with_what_tells_them_apart(named: Toy, capsys: Lines) -> None:
    capsys.readouterr()

    assert named.main("list", "runs") == 0

    title, *rest = capsys.readouterr().out.split("\nrun ")
    assert title.startswith("toy: variants base; judges near;")
    head, *lines = rest[0].rstrip().splitlines()
    assert head.split() == ["tag", "model", "limit", "missing", "age"]
    cells = [" ".join(line.split()[1:4]) for line in lines]
    assert cells == ["- literal all", "pilot oracle 2", "- oracle all"]


def test_what_keeps_two_runs_from_being_compared_is_said_of_both(toy: Toy, capsys: Lines) -> None:
    toy.run("--variant", "base", "--tag", "one")
    toy.run("--variant", "think", "--tag", "two")
    capsys.readouterr()

    assert main(["compare", "@one", "@two", "--results", str(toy.results)]) == 2
    err = capsys.readouterr().err
    assert "no variant was answered in both runs" in err
    assert "has variants base" in err
    assert "has variants think" in err


def test_the_library_names_runs_and_finds_them(toy: Toy) -> None:
    import harness as ph

    space = toy.space()
    run = ph.evaluate("toy", "oracle", ["near"], variants=["base"], tag="mine", workspace=space)

    [found] = ph.load_runs(toy.results, space, name="@mine")
    assert (found.path, found.tag) == (run.path, "mine")
    assert json.loads((run.path / "run.json").read_text("utf-8"))["run"]["limit"] is None


def test_runs_are_listed_by_tag_task_and_model(named: Toy, capsys: Lines) -> None:
    capsys.readouterr()
    wanted = {"@pilot": 1, "toy": 3, "oracle": 2, "toy/oracle @pilot": 2, "literal @pilot": 2}
    for words, count in wanted.items():
        assert on(named, "list", "runs", *words.split(), "--json") == 0
        assert len(json.loads(capsys.readouterr().out)) == count
    assert on(named, "list", "runs", "@pilto") == 2
    assert "no run '@pilto'" in capsys.readouterr().err
    assert on(named, "list", "tasks", "@pilot") == 2
    assert "list tasks: no line has '@pilot'" in capsys.readouterr().err
