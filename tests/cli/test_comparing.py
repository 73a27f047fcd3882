"""The command compare, from runs of toy tasks to its table, and on released data."""

import os
import re
from pathlib import Path
from shutil import copytree

import pytest
from support.each import rest_slow
from support.stub_server import StubServer
from support.toy import SAMPLES, Lines, Toy, csv_rows, taking

from harness.cli import main
from harness.storage.find_runs import find_run

DATA = os.environ.get("HARNESS_DATA")
CHOICES = """
    about: A toy with choices.
    data:
      source: toys
      reader: samples_jsonl
      files: [toy.jsonl]
      sample: samples/toy.jsonl
      derive: {kind: references, right: right, wrong: wrong, labels: [good, bad]}
    mode: choose
    decodings: [{temperature: 0, max_tokens: 4}]
    default_variants: [order0, order1]
    variants:
      order0:
        about: one order
        choice: {order: 0}
        averaged_over: all
        steps: [{name: answer, template: toy/choose}]
      order1:
        about: the other
        choice: {order: 1}
        averaged_over: all
        steps: [{name: answer, template: toy/choose}]
    judges: [gold]
    controls:
      oracle: {answer: [gold]}
      literal: {answer: [wrong]}
      first: {answer: [first]}
"""
THOUGHT = """
    about: What was thought, by spelling.
    kind: cosine
    encoder: {kind: char-ngrams}
    step: thought
    options: {accept: right, reject: wrong}
"""


def filled(toy: Toy) -> Toy:
    """The toy home with a task of choices and a judge of thoughts, and some controls' runs."""
    toy.group("even", "odd")
    toy.write("tasks/toy_choices.yaml", CHOICES)
    toy.write("prompts/toy/choose.user.j2", "Story {{ story }} 1 {{ option_1 }} 2 {{ option_2 }}:")
    toy.write("configs/judges/near-thought.yaml", THOUGHT)
    toy.edit("tasks/toy.yaml", "judges: [near]", "judges: [near]\ngaps: {gain: [think, base]}")
    for model in ("oracle", "literal"):
        assert toy.run("--judge", "near,near-thought", "--judge", "near", model=model) == 0
        assert toy.main("run", "--task", "toy_choices", "--model", model) == 0
    return toy


ran = taking(filled)


def run_of(toy: Toy, task: str, model: str) -> str:
    [path] = (toy.results / "runs" / task / model).iterdir()
    return str(path)


def compare(toy: Toy, *arguments: str) -> int:
    given = ("--results", str(toy.results), "--all")
    return main(["compare", *arguments, *given])


def tables(toy: Toy) -> list[Path]:
    return sorted((toy.results / "comparisons").glob("*.csv"))


def know_and_act(toy: Toy, know: str, act: str, *more: str) -> list[dict[str, str]]:
    """The overall rows of choices by one control against responses by another."""
    sides = run_of(toy, "toy_choices", know), run_of(toy, "toy", act)
    assert compare(toy, *sides, *more) == 0
    [table] = tables(toy)
    return [
        row
        for row in csv_rows(table)
        if (row["comparison"], row["group"]) == ("know_versus_act", "all")
    ]


@pytest.mark.parametrize(
    ("know", "act", "place"),
    rest_slow(
        [
            *(("oracle", "literal", "only_a"), ("literal", "literal", "neither")),
            *(("oracle", "oracle", "both"), ("literal", "oracle", "only_b")),
        ],
        kept=1,
    ),
)
def test_controls_fall_where_they_must(ran: Toy, know: str, act: str, place: str) -> None:
    found = know_and_act(ran, know, act)
    assert [row["variant_b"] for row in found] == ["base"] * 3 + ["think"] * 3
    assert [row[place] for row in found] == [f"{SAMPLES}", f"{SAMPLES}", f"{2 * SAMPLES}"] * 2


def test_the_main_finding_is_printed_first_and_the_table_named(ran: Toy, capsys: Lines) -> None:
    capsys.readouterr()
    know_and_act(ran, "oracle", "literal")

    findings, _, rest = capsys.readouterr().out.partition("\n\n")
    said = rest.splitlines()
    [table] = tables(ran)
    assert findings.splitlines()[0] == (
        "base, by gold and near: A (toy_choices) and B (toy) are not significantly different: "
        "the difference lies between 22 and 100 points, on 12 answers of 6 independent items; "
        "p .031; p .094 corrected for 3 differences"
    )
    assert said[0] == "A / B: nothing lost"
    assert said[-1] == f"wrote {len(csv_rows(table))} rows to {table}"


def test_one_run_tells_its_gaps_and_intentions_by_responses(ran: Toy, capsys: Lines) -> None:
    capsys.readouterr()

    assert compare(ran, run_of(ran, "toy", "oracle")) == 0

    said = capsys.readouterr().out
    assert re.search(r" think / base +gain +difference +all ", said)
    assert re.search(r"^near-thought / near .* intention_and_response +phi +all ", said, re.M)
    [table] = tables(ran)
    assert {row["comparison"] for row in csv_rows(table)} == {"gain", "intention_and_response"}


def test_another_question_writes_another_file_and_the_same_one_the_same_bytes(ran: Toy) -> None:
    side = run_of(ran, "toy", "oracle")
    compare(ran, side)
    before = {path: path.read_bytes() for path in tables(ran)}

    compare(ran, side, "--judge-a", "near")
    compare(ran, side)

    assert len(tables(ran)) == 2
    assert all(path.read_bytes() == data for path, data in before.items())


def test_samples_in_one_run_alone_are_told_and_make_the_code_one(ran: Toy, capsys: Lines) -> None:
    before = set((ran.results / "runs/toy/literal").iterdir())
    ran.run("--variant", "base", "--limit", "2", model="literal")
    [part] = set((ran.results / "runs/toy/literal").iterdir()) - before
    assert compare(ran, run_of(ran, "toy", "oracle"), str(part)) == 1

    assert "4 samples of run" in capsys.readouterr().err


def test_lost_verdicts_are_told(ran: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    with StubServer(reply=lambda _: "neither") as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        ran.run("--judge", "choice", model="oracle,literal")

    assert compare(ran, run_of(ran, "toy", "oracle"), "--judge-a", "choice") == 1

    told = capsys.readouterr().err
    assert "verdicts are missing from 6 comparisons, at worst 6 and 6 of 6" in told
    both = run_of(ran, "toy", "oracle"), run_of(ran, "toy", "literal")
    items = ("items", *both, "--where", "lost", "--judge", "choice")
    assert main([*items, "--results", str(ran.results)]) == 0, "nothing is lost without a verdict"
    assert compare(ran, both[0], both[0]) == 2, "a run is not compared with itself"


@pytest.mark.parametrize(
    ("second", "message"), [("", "no run ''"), ("zzz", "no run 'zzz'")], ids=["empty", "unknown"]
)
def test_no_run_is_told_and_none_written(
    ran: Toy, capsys: Lines, second: str, message: str
) -> None:
    assert compare(ran, run_of(ran, "toy", "oracle"), second) == 2
    assert message in capsys.readouterr().err
    assert tables(ran) == []


@pytest.mark.skipif(DATA is None, reason="HARNESS_DATA names no folder")
def test_the_stories_of_both_released_tasks_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Lines
) -> None:
    monkeypatch.chdir(tmp_path)
    levels = ("--variant", "base,cot0", "--judge", "ngram-cosine")
    main(["run", "--task", "intent_detection_pairs", "--model", "oracle"])
    main(["run", "--task", "intent_resolution", "--model", "literal", *levels])
    capsys.readouterr()

    found = sorted(tmp_path.glob("results/runs/*/*/*"))
    assert main(["compare", *map(str, found)]) == 0

    captured = capsys.readouterr()
    [table] = (tmp_path / "results/comparisons").glob("*.csv")
    row = next(r for r in csv_rows(table) if (r["variant_b"], r["group"]) == ("base", "all"))
    assert [row[name] for name in ("both", "only_a", "only_b", "neither", "ties")] == [
        *("0", "84", "0", "0", "0")
    ]
    assert (row["missing_a"], row["missing_b"], float(row["value"])) == ("0", "0", 1.0)
    assert "two models, oracle and literal" in captured.err


def test_a_gate_has_exit_codes_of_its_own(toy: Toy, tmp_path: Path, capsys: Lines) -> None:
    for model in ("oracle", "literal"):
        assert toy.run("--variant", "base", model=model) == 0
    again = tmp_path / "again"
    copytree(toy.results, again)
    [same] = again.glob("runs/toy/oracle/*")
    out = ("--results", str(toy.results))
    capsys.readouterr()

    codes = [
        main(["compare", "--gate", base, new, *out])
        for base, new in (
            ("toy/oracle", str(same)),  # the same recipe, run again elsewhere
            ("toy/oracle", "toy/literal"),
            ("toy/literal", "toy/oracle"),
        )
    ]

    assert codes == [0, 3, 0]
    assert "gate: regression" in capsys.readouterr().out
    assert main(["compare", "--gate", "toy/oracle", "toy/oracle", *out]) == 2
    assert main(["compare", "--gate", "toy/oracle", str(same), *out]) == 0
    assert "base by near: pass: every answer is the same, word for word" in capsys.readouterr().out


def test_a_gate_that_cannot_tell_says_how_many_items_would(toy: Toy, capsys: Lines) -> None:
    for limit in ("6", "4"):
        assert toy.run("--variant", "base", "--limit", limit) == 0
    gate, out = ["compare", "--gate"], ["--results", str(toy.results)]

    assert main([*gate, *(path.name for path in toy.runs()), *out]) == 1
    told = capsys.readouterr().out
    assert "samples are in one run alone" in told
    assert "gate: incomplete" in told

    toy.main("run", "--task", "quiz", "--model", "first,random", "--variant", "hinted")
    pair = ["quiz/first", "quiz/random", *out]
    assert main([*gate, *pair]) == 4
    assert "independent items would pass (80% power)" in capsys.readouterr().out
    assert main([*gate, *pair, "--allow-inconclusive"]) == 0


def test_one_screen_has_the_main(toy: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    toy.main("run", "--task", "quiz", "--model=first,random", "--variant", "order0,order1,hinted")
    capsys.readouterr()

    shown = {}
    for more in ((), ("--all",)):
        main(["compare", *map(str, toy.runs()), "--results", str(toy.results), *more])
        shown[more] = capsys.readouterr().out.splitlines()

    few, every = shown.values()
    assert len(few) <= 24 < len(every)
    assert max(len(line) for line in few if "/" not in line) <= 80
    assert few[0].startswith("all: A (first) and B (random)")
    assert sum(line.startswith("--all prints") for line in few) == 1
    assert not any(line.startswith("--all prints") for line in every)


@pytest.mark.slow
def test_packs_of_prompts_are_compared_by_their_names(toy: Toy, capsys: Lines) -> None:
    """A pack's runs have its folder's name; a variant that no pack changes is in each table."""
    toy.write("configs/models/zen.yaml", "{about: x, kind: scripted, policy: oracle}")
    pack = toy.write("kind/toy/base.user.j2", "Kindly: {{ story }}").parents[1]
    both = ("--variant", "base,think")
    assert toy.run(*both, "--tag", "plain", model="oracle,literal") == 0
    assert toy.run(*both, "--prompts", str(pack), model="oracle,literal") == 0
    assert toy.run("--variant", "think", "--prompts", str(pack), model="zen") == 0
    assert find_run(toy.results, "toy/zen").tag is None, "no prompt of it is of the pack"
    assert toy.run("--variant", "base", "--tag", "calm", model="zen") == 0
    where, figure = ("--results", str(toy.results)), toy.folder / "f"
    capsys.readouterr()

    assert main(["compare", "@plain", "@kind", *where]) == 0
    said = capsys.readouterr().out
    for model in ("oracle", "literal"):
        assert f"A ({model} @plain) and B ({model} @kind)" in said
    assert main(["compare", "@plain", "@calm", *where]) == 2
    assert "two tags whose runs are of the same tasks" in " ".join(capsys.readouterr().err.split())

    rows = ("table", "@plain", "@kind", "--rows", "model", "--columns")
    assert main([*rows, "variant", *where]) == 0
    titled = capsys.readouterr().out.split("Scores; prompts ")[1:]
    assert [part.split(":")[0] for part in titled] == ["kind", "plain"]
    assert all(re.search(r"model +base +think\n", part) for part in titled)
    assert main([*rows, "variant,prompts", *where]) == 0
    assert re.search("base / kind +base / plain +think", capsys.readouterr().out)

    drawn = ("--x", "variant", "--series", "prompts", "--panel", "model", "-o", f"{figure}.svg")
    assert main(["plot", "@plain", "@kind", *drawn, *where]) == 0
    series = {row["series"] for row in csv_rows(Path(f"{figure}.csv"))}
    assert series == {"plain", "kind", "the same"}
