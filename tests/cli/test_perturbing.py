"""perturb and perturb report: a task made, run and told of; planted models flip as they should."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import Lines, Toy, build

from harness.cli import main


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HARNESS_DATA", raising=False)
    return build(tmp_path)


def perturb(toy: Toy, *arguments: str) -> int:
    return toy.main("perturb", "--task", "hate_speech", "--limit", "8", *arguments)


def run(toy: Toy, *arguments: str) -> None:
    toy.main("run", "--task", "hate_speech_perturbed", "--scorer", "none", *arguments)


def report(toy: Toy, capsys: Lines) -> tuple[int, dict[str, dict[str, object]]]:
    capsys.readouterr()
    code = main(["perturb", "report", str(toy.runs()[0]), "--results", str(toy.results), "--json"])
    return code, {row["perturbation"]: row for row in json.loads(capsys.readouterr().out)}


def answered(toy: Toy, monkeypatch: pytest.MonkeyPatch, reply: Callable[[str], str]) -> None:
    """Run the perturbed task by a server that replies so."""
    with StubServer(Script(), reply=reply) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        run(toy, "--model", "local-server", "--answers", "written")


def samples(toy: Toy) -> list[dict[str, Any]]:
    path = toy.home / "tasks/samples/hate_speech_perturbed.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("name", ["a b/c", "../c", "", "a b"])
def test_the_name_of_a_task_is_no_path(name: str, toy: Toy, capsys: Lines) -> None:
    assert perturb(toy, "--as", name, "--method", "adverbs") == 2
    assert f"--as {name!r}: use only letters" in capsys.readouterr().err
    assert not [*toy.folder.rglob("c.*")]


def test_a_constant_model_never_flips_and_a_data_folder_for_other_tasks_does_not_matter(
    toy: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert perturb(toy, "--method", "adverbs,eda", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["originals"] == 8
    assert all(m["changed"] + m["unchanged"] == 8 for m in told["perturbations"])
    monkeypatch.setenv("HARNESS_DATA", str(toy.folder))
    run(toy, "--model", "constant-yes")

    code, rows = report(toy, capsys)

    assert (code, rows["adverbs"]["n"]) == (0, 8)
    assert {row[name] for row in rows.values() for name in ("value", "answers")} == {0}


def test_a_model_that_any_new_word_turns_always_flips(
    toy: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    perturb(toy, "--method", "adverbs")
    known = [one["fields"]["text"] for one in samples(toy) if one["group"] == "original"]
    answered(toy, monkeypatch, lambda asked: "yes" if any(t in asked for t in known) else "no")

    _, rows = report(toy, capsys)

    assert (rows["adverbs"]["value"], rows["adverbs"]["n"]) == (1, 8)
    assert rows["adverbs"]["answers"] == 1


def test_a_reply_that_cannot_be_read_is_missing_and_told(
    toy: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    perturb(toy, "--method", "adverbs")
    answered(toy, monkeypatch, lambda _: "that depends")
    code, rows = report(toy, capsys)

    assert (code, rows["adverbs"]["value"], rows["adverbs"]["missing"]) == (1, None, 8)


def test_the_same_command_writes_the_same_bytes(toy: Toy) -> None:
    path, held = toy.home / "tasks/samples/hate_speech_perturbed.jsonl", []
    for _ in range(2):
        perturb(toy, "--seed", "4")
        held.append(path.read_bytes())

    assert held[0] == held[1]


def test_a_model_writes_anew_and_is_asked_once(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("--method", "back_translation", "--model", "local-server")
    with StubServer(Script(), reply=lambda _: "The bees are out.") as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        assert perturb(toy, *arguments) == 0
        asked = stub.stats()["requests"]

        assert perturb(toy, *arguments, "--offline") == 0
        assert stub.stats()["requests"] == asked


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--method", "adverb"), "did you mean adverbs"),
        (("--method", "generation"), "name one with --model"),
        (("--method", "adverbs", "--model", "local-server"), "leave out --model"),
        (("--field", "texts"), "no field 'texts'; did you mean text"),
        (("--as", "toy"), "there is a task 'toy' already"),
        (("--as", "hate_speech"), "there is a task 'hate_speech' already"),
        (("-o", "mine.txt", "--method", "adverbs"), "mine.txt: is a file, and -o names a folder"),
    ],
)
def test_a_mistake_is_told_in_one_message(
    toy: Toy, capsys: Lines, arguments: tuple[str, ...], named: str
) -> None:
    Path("mine.txt").write_text("mine", "utf-8")
    assert perturb(toy, *arguments) == 2
    assert named in capsys.readouterr().err


def test_a_task_in_words_is_perturbed_and_run(toy: Toy, capsys: Lines) -> None:
    assert toy.main("perturb", "--task", "toy", "--method", "adverbs") == 0
    assert toy.main("run", "--task", "toy_perturbed", "--model", "oracle") == 0

    assert main(["perturb", "report", str(toy.runs()[0]), "--results", str(toy.results)]) == 0
    out = capsys.readouterr().out
    assert "oracle on toy_perturbed, think (T0.5), by near" in out
    assert list((toy.results / "flips").glob("*.csv"))


def test_a_group_is_exchanged_in_the_text_and_in_what_is_kept_of_it(toy: Toy) -> None:
    assert perturb(toy, "--method", "group_names") == 0

    held = {one["id"]: one for one in samples(toy)}
    made = [one for one in held.values() if "perturbed_from" in one["references"]]
    assert made
    for one in made:
        original = held[one["references"]["perturbed_from"][0]]
        assert one["references"]["label"] == original["references"]["label"]
        assert one["references"]["target"] != original["references"]["target"]
        names = [word for word in original["references"]["target"][0].split() if word.istitle()]
        assert not any(name in one["fields"]["text"] for name in names)


def test_groups_of_ones_own_list_are_exchanged_for_its_neutral_names(toy: Toy) -> None:
    toy.write(
        "configs/perturbations/mine.yaml",
        """
        about: Mine.
        kind: group_names
        keeps_meaning: false
        groups: {people: [[Lunarians, Lunarian, Lunarian]]}
        found: {people: [[Oruvites, Oruvite, Oruvite]]}
        """,
    )

    assert toy.main("perturb", "--task", "hate_speech", "--method", "mine") == 0

    made = [one for one in samples(toy) if "perturbed_by" in one["references"]]
    assert len(made) == 8  # every text of one target
    assert {one["references"]["target"][0] for one in made} == {"the Lunarians"}
