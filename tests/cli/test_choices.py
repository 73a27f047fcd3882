"""Tasks with choices from the command line: how they are answered, what is printed and kept."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.each import rest_slow
from support.stub_server import StubServer
from support.toy import QUIZ_ORDERS, QUIZ_SAMPLES, Toy

from harness.cli import main
from harness.pipeline.score import all_scores
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import RunFolder, ScoreRow, read_table

PLANNED = QUIZ_SAMPLES * QUIZ_ORDERS


def quiz(toy: Toy, *options: str, model: str = "oracle") -> int:
    return toy.main("run", "--task", "quiz", "--model", model, *options)


def scores(toy: Toy) -> list[ScoreRow]:
    """The rows of the only run."""
    [folder] = toy.runs()
    return all_scores(RunFolder(folder))


def value(rows: Sequence[ScoreRow], metric: str, variant: str = "all", group: str = "all") -> float:
    """The only such number."""
    wanted = (metric, variant, group)
    [row] = [r for r in rows if (r.score.metric, r.score.variant, r.score.group) == wanted]
    assert row.score.value is not None
    return row.score.value


def lines(toy: Toy) -> list[SampleRecord]:
    [folder] = toy.runs()
    return RunFolder(folder).read_rows()


@pytest.mark.parametrize(
    ("model", "low", "high"),
    [
        ("oracle", 1.0, 1.0),
        ("undecided", (1 / 2 + 1 / 3) / 2, (1 / 2 + 1 / 3) / 2),
        ("random", 0.2, 0.65),  # chance .417, and 48 draws: three standard deviations
        ("first", 0.2, 0.65),
    ],
)
def test_a_control_gets_what_its_way_of_choosing_earns(
    toy: Toy, model: str, low: float, high: float
) -> None:
    assert quiz(toy, model=model) == 0

    assert low - 1e-12 <= value(scores(toy), "accuracy") <= high + 1e-12


@pytest.mark.parametrize("way", ["logprob", "top_logprobs", "written"])
@pytest.mark.parametrize("variant", ["order0,order1", "text:own", "hinted"])
def test_the_oracle_is_right_however_it_answers(toy: Toy, way: str, variant: str) -> None:
    assert quiz(toy, "--answers", way, "--variant", variant) == 0

    rows = scores(toy)
    assert {r.score.value for r in rows if r.score.metric == "accuracy"} == {1.0}
    assert {r.score.decoding for r in rows} == {way}
    assert {r.signature.split("|")[4] for r in rows} == {f"{way},n1,s0"}


def test_accuracy_over_orders_of_written_answers_has_no_number(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quiz(toy, "--answers", "written", "--variant", "order0,order1", model="first") == 0

    assert re.search(r"accuracy_permuted +- .*unsupported \d+", capsys.readouterr().out)


def test_a_variant_that_needs_a_field_plans_the_samples_that_have_it(toy: Toy) -> None:
    quiz(toy, "--variant", "order0,hinted")

    [folder] = toy.runs()
    assert RunFolder(folder).read().planned == QUIZ_SAMPLES + QUIZ_SAMPLES // 3
    counts = {
        r.score.variant: r.score.n + sum(r.score.missing.values())
        for r in scores(toy)
        if (r.score.metric, r.score.group) == ("accuracy", "all")
    }
    assert counts == {"order0": QUIZ_SAMPLES, "hinted": QUIZ_SAMPLES // 3}


def test_a_line_holds_the_scores_behind_its_verdict(toy: Toy) -> None:
    quiz(toy, model="first")

    row = lines(toy)[1]

    assert [len(step.choice_scores) for step in row.steps] == [3, 3]
    assert [part.logprob for part in row.steps[1].choice_scores] == [0.0, -50.0, -50.0]
    assert row.answer == "1"
    assert sum(row.verdicts["gold"].shares) == pytest.approx(1.0)


def with_a_wrong_one(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of verdicts, the first right one wrong."""
    first = next(n for n, row in enumerate(rows) if row["value"] == 1.0)
    return [row | {"value": 0.0} if n == first else row for n, row in enumerate(rows)]


PER_BYTE = """
    about: By byte.
    kind: gold
    normalisation: per_byte
"""


def test_a_stored_run_is_judged_by_another_normalisation_without_a_call(toy: Toy) -> None:
    toy.write("configs/judges/bytes.yaml", PER_BYTE)
    quiz(toy)

    assert toy.main("judge", str(toy.runs()[0]), "--judge", "bytes", "--offline") == 0

    rows = [row for row in scores(toy) if row.score.judge == "bytes"]
    assert value(rows, "accuracy") == value(rows, "accuracy_raw") == 1.0
    assert "accuracy_per_byte" not in {row.score.metric for row in rows}
    assert {row.signature.split("|")[6] for row in rows} == {"per_byte"}


def boards(toy: Toy, capsys: pytest.CaptureFixture[str]) -> list[ScoreRow]:
    """The headline rows over all orders."""
    capsys.readouterr()
    assert main(["leaderboard", "--results", str(toy.results)]) == 0
    rows = read_table(toy.results / "leaderboard.csv")
    wanted = ("accuracy", "all", "all")
    return [r for r in rows if (r.score.metric, r.score.group, r.score.variant) == wanted]


def test_answers_had_in_different_ways_are_never_ranked_together(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    ways = ("logprob", "top_logprobs", "written")
    for way in ways:
        quiz(toy, "--answers", way, model="oracle,first")

    rows = boards(toy, capsys)

    by_recipe: dict[str, set[str]] = {}
    for row in rows:
        by_recipe.setdefault(row.recipe, set()).add(row.score.decoding)
    assert sorted(by_recipe.values(), key=min) == [{way} for way in ways]
    assert len({row.signature.split("|")[0] for row in rows}) == 3


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["--model", "alpha", "--answers", "logprob"], ["alpha cannot give", "--answers"]),
        (["--answers", "loud"], ["--answers 'loud'", "logprob, top_logprobs or written"]),
        (["--judge", "near"], ["judge near cannot read", "which are choices", "gold"]),
        (["--judge", "gold:swapped"], ["judge gold:swapped", "name gold alone"]),
        (["--task", "toy", "--judge", "gold"], ["judge gold cannot read", "texts", "near"]),
        (
            ["--task", "toy", "--answers", "written"],
            ["--answers written is for tasks with choices"],
        ),
        (
            ["--variant", "hinted", "--limit", "1", "--seed", "1"],
            ["variant hinted: none of the 1 samples", "hint"],
        ),
        (["--model", "literal"], ["control 'literal' is not defined", "known: first, oracle"]),
    ],
)
def test_what_cannot_be_answered_or_judged_is_one_message_with_the_remedy(
    toy: Toy, arguments: list[str], facts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    base = {"--task": "quiz", "--model": "oracle"}
    given = [word for pair in base.items() if pair[0] not in arguments for word in pair]

    assert toy.main("run", *given, *arguments) == 2

    err = capsys.readouterr().err
    assert [fact for fact in facts if fact not in err] == []
    assert not toy.results.exists()


def test_a_model_without_log_probabilities_is_refused_before_any_call(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.edit("configs/models/alpha.yaml", "attempts: 2", "attempts: 2\nchoices: none")
    with StubServer() as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)

        assert quiz(toy, model="alpha") == 2

        assert stub.stats()["requests"] == 0
    assert "--answers written" in capsys.readouterr().err
    assert not toy.results.exists()


def test_the_same_model_may_write_its_choices(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.edit("configs/models/alpha.yaml", "attempts: 2", "attempts: 2\nchoices: none")
    with StubServer() as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)

        assert quiz(toy, "--answers", "written", model="alpha") == 1

        assert stub.stats()["requests"] == PLANNED
    # The stub echoes its prompts, and those are no choices.
    assert f"judge gold: {PLANNED} verdicts missing, answer unparsed" in capsys.readouterr().err


def dry(toy: Toy, capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, object]]:
    """What a dry run says of each kind of call."""
    assert quiz(toy, "--dry-run", "--json", *options) == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def test_a_dry_run_shows_the_very_strings_that_are_scored(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    by_number, by_text = (dry(toy, capsys, "--variant", v)[-1] for v in ("order0", "text:own"))

    assert by_number["choices"] == [" 1", " 2"]
    assert by_text["choices"] == [" It is 0.", " It is 1."]
    quiz(toy, "--dry-run", "--variant", "text:own")
    assert "[choices]\n' It is 0.' ' It is 1.'\n" in capsys.readouterr().out
    assert not toy.results.exists()


def test_a_dry_run_counts_a_neutral_prompt_once_for_a_model_and_not_for_written_answers(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    scored, written = (dry(toy, capsys, "--answers", way) for way in ("logprob", "written"))

    steps = [(part["variant"], part["step"], part["choices"] != []) for part in scored]
    assert steps == [
        (variant, step, True) for variant in ("order0", "order1") for step in ("neutral", "answer")
    ]
    assert [(part["step"], part["choices"]) for part in written] == [("answer", [])] * 2


def test_a_pack_reaches_the_model_byte_for_byte(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "Scenario: {{ story }}.\nOptions:\n1) {{ option_1 }}\n2) {{ option_2 }}\n\nAnswer: "
    pack = toy.folder / "pack"
    (pack / "quiz").mkdir(parents=True)
    (pack / "quiz" / "number.user.j2").write_text(f"{words}\n")

    found = dry(toy, capsys, "--prompts", str(pack), "--variant", "order0")[-1]

    prompt = json.loads(json.dumps(found["example"]))[0]["content"]
    options = lines_of(prompt)
    assert prompt == f"Scenario: Number 0..\nOptions:\n{options[0]}\n{options[1]}\n\nAnswer: "
    assert sorted(part[3:] for part in options) == ["It is 0.", "It is 1."]


def lines_of(prompt: str) -> list[str]:
    return [line for line in prompt.splitlines() if line[:2] in ("1)", "2)")]


def test_what_was_chosen_is_printed_for_each_pool(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    quiz(toy, "--variant", "all", "--metrics", "all", model="first")

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    for name in ("all", "text:all"):
        assert any(line[:2] == [name, "chosen_label_Right"] for line in lines)
        assert any(line[:2] == [name, "accuracy_permuted"] for line in lines)
    assert ["all", "chosen_place_1", "1.000"] in [line[:3] for line in lines]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            "first",
            [
                "alarm: first on quiz, all: 100% of its choices are at one position; its accuracy "
                "depends on where the right choices are placed, not on understanding"
            ],
        ),
        ("undecided", ["alarm: undecided on quiz, all: all choices score the same in 100%"]),
        ("oracle", []),
        ("random", []),
    ],
)
def test_a_run_that_does_not_heed_what_is_asked_is_told_of_once(
    toy: Toy, model: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    quiz(toy, model=model)
    told = [capsys.readouterr().err]
    main(["leaderboard", "--results", str(toy.results)])
    told.append(capsys.readouterr().err)

    for err in told:
        assert err.count("alarm:") == len(words)
        assert [fact for fact in words if fact not in err] == []


SHIPPED = {
    # Chance on our own sample set: of seven groups one has two choices, four have four, two five.
    "intent_detection": (1 / 2 + 4 / 4 + 2 / 5) / 7,
    "intent_detection_pairs": 0.5,
    "emphasis_choice": 0.5,
    "ludwig": 0.5,
}


@pytest.mark.parametrize("task", rest_slow(SHIPPED, kept=1))
def test_a_shipped_task_runs_on_our_samples_from_chance_to_certainty(
    toy: Toy, tmp_path: Path, task: str
) -> None:
    results = ("--results", str(tmp_path / "results"))
    assert main(["run", "--task", task, "--model", "oracle,first,random", *results]) == 0

    folders = {folder.parent.name: read_table(folder / "scores.csv") for folder in toy.runs()}
    means = {model: value(rows, "accuracy") for model, rows in folders.items()}
    [chance] = {
        row.chance
        for row in folders["oracle"]
        if (row.score.metric, row.score.group) == ("accuracy_permuted", "all")
    }
    assert chance == pytest.approx(SHIPPED[task])
    assert means["oracle"] == value(folders["oracle"], "accuracy_permuted") == 1.0
    # Three standard deviations of 56 samples would be .2.
    assert means["random"] == pytest.approx(chance, abs=0.1)
    assert means["first"] == pytest.approx(chance, abs=0.1)
