"""Tasks with choices from the command line: how they are answered, what is printed and kept."""

import json
import re
from collections.abc import Sequence

import pytest
from support.each import rest_slow
from support.stub_server import StubServer
from support.toy import QUIZ_ORDERS, QUIZ_SAMPLES, Lines, Toy

from harness.cli import main
from harness.pipeline.score import all_scores
from harness.storage.runs import RunFolder, ScoreRow

PLANNED = QUIZ_SAMPLES * QUIZ_ORDERS


def quiz(toy: Toy, *options: str, model: str = "oracle") -> int:
    return toy.main("run", "--task", "quiz", "--model", model, *options)


def scores(toy: Toy) -> list[ScoreRow]:
    [folder] = toy.runs()
    return all_scores(RunFolder(folder))


def value(rows: Sequence[ScoreRow], metric: str, variant: str = "all", group: str = "all") -> float:
    wanted = (metric, variant, group)
    [row] = [r for r in rows if (r.score.metric, r.score.variant, r.score.group) == wanted]
    assert row.score.value is not None
    return row.score.value


@pytest.mark.parametrize("way", rest_slow(["logprob", "written", "top_logprobs"], kept=1))
@pytest.mark.parametrize("variant", ["order0,order1", "text:own", "hinted"])
def test_the_oracle_is_right_however_it_answers(toy: Toy, way: str, variant: str) -> None:
    assert quiz(toy, "--answers", way, "--variant", variant) == 0

    rows = scores(toy)
    assert {r.score.value for r in rows if r.score.metric == "accuracy"} == {1.0}
    assert {r.score.decoding for r in rows} == {way}
    assert {r.signature.split("|")[4] for r in rows} == {f"{way},n1,s0"}


def test_accuracy_over_orders_of_written_answers_has_no_number(toy: Toy, capsys: Lines) -> None:
    assert quiz(toy, "--answers", "written", "--variant", "order0,order1", model="first") == 0
    assert re.search(r"accuracy_permuted +- .*unsupported \d+", capsys.readouterr().out)


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


@pytest.mark.slow
def test_what_was_chosen_shares_a_board_and_is_compared_in_whatever_way(
    toy: Toy, capsys: Lines
) -> None:
    runs = []
    for model, way in (("oracle", "logprob"), ("first", "top_logprobs"), ("oracle", "written")):
        quiz(toy, "--answers", way, model=model)
        runs += [str(path) for path in toy.runs() if str(path) not in runs]
    results = ["--results", str(toy.results)]
    capsys.readouterr()

    assert main(["leaderboard", "--variant", "all", *results]) == 0
    shown = capsys.readouterr().out
    assert re.findall(r"(oracle|first) +(\w+) ", shown) == [
        *[("oracle", "logprob"), ("oracle", "written"), ("first", "top_logprobs")]
    ]
    assert "ways (logprob, top_logprobs, written): what was chosen is" in " ".join(shown.split())

    assert main(["compare", *runs[1:], *results]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "answered in different ways (top_logprobs, written): what was chosen" in said
    assert "prompts or decoding differ" not in said


def test_a_model_without_log_probabilities_is_refused_before_any_call_and_may_write_its_choices(
    toy: Toy, stub: StubServer, capsys: Lines
) -> None:
    toy.edit("configs/models/alpha.yaml", "attempts: 1", "attempts: 1\nchoices: none")
    assert quiz(toy, model="alpha") == 2
    assert (stub.stats()["requests"], toy.results.exists()) == (0, False)
    assert "--answers written" in capsys.readouterr().err

    assert quiz(toy, "--answers", "written", model="alpha") == 1

    assert stub.stats()["requests"] == PLANNED
    # The stub echoes its prompts, and those are no choices.
    assert f"judge gold: {PLANNED} verdicts missing, answer unparsed" in capsys.readouterr().err


def dry(toy: Toy, capsys: Lines, *options: str) -> list[dict[str, object]]:
    assert quiz(toy, "--dry-run", "--json", *options) == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def test_a_dry_run_shows_the_very_strings_that_are_scored(toy: Toy, capsys: Lines) -> None:
    by_number, by_text = (dry(toy, capsys, "--variant", v)[-1] for v in ("order0", "text:own"))

    assert by_number["choices"] == [" 1", " 2"]
    assert by_text["choices"] == [" It is 0.", " It is 1."]
    quiz(toy, "--dry-run", "--variant", "text:own")
    assert "[choices]\n' It is 0.' ' It is 1.'\n" in capsys.readouterr().out
    assert not toy.results.exists()


def test_a_dry_run_counts_a_neutral_prompt_once_for_scored_answers(toy: Toy, capsys: Lines) -> None:
    scored, written = (dry(toy, capsys, "--answers", way) for way in ("logprob", "written"))

    steps = [(part["variant"], part["step"], part["choices"] != []) for part in scored]
    assert steps == [
        (variant, step, True) for variant in ("order0", "order1") for step in ("neutral", "answer")
    ]
    assert [(part["step"], part["choices"]) for part in written] == [("answer", [])] * 2


def test_a_pack_reaches_the_model_byte_for_byte(toy: Toy, capsys: Lines) -> None:
    words = "Scenario: {{ story }}.\nOptions:\n1) {{ option_1 }}\n2) {{ option_2 }}\n\nAnswer: "
    pack = toy.folder / "pack"
    (pack / "quiz").mkdir(parents=True)
    (pack / "quiz" / "number.user.j2").write_text(f"{words}\n")

    found = dry(toy, capsys, "--prompts", str(pack), "--variant", "order0")[-1]

    prompt = json.loads(json.dumps(found["example"]))[0]["content"]
    assert prompt in [
        f"Scenario: Number 0..\nOptions:\n1) {first}\n2) {second}\n\nAnswer: "
        for first, second in (("It is 0.", "It is 1."), ("It is 1.", "It is 0."))
    ]


def test_what_was_chosen_is_kept_for_each_pool(toy: Toy) -> None:
    quiz(toy, "--variant", "all", model="first")

    rows = scores(toy)
    known = {(row.score.variant, row.score.metric) for row in rows}
    for name in ("all", "text:all"):
        assert {(name, "chosen_label_Right"), (name, "accuracy_permuted")} <= known
    assert value(rows, "chosen_place_1") == 1.0


@pytest.mark.parametrize(
    ("model", "words"),
    rest_slow(
        [
            ("first", ["alarm: first on quiz, all: 100% of its choices are at one position; its"]),
            ("undecided", ["alarm: undecided on quiz, all: all choices score the same in 100%"]),
            ("random", []),
        ],
        kept=slice(None, None, 2),
    ),
)
def test_a_heedless_run_is_told_once(toy: Toy, model: str, words: list[str], capsys: Lines) -> None:
    run = ["run", "--task", "quiz", "--model", model, "--home", str(toy.home)]
    for command in (run, ["leaderboard"]):
        main([*command, "--results", str(toy.results)])
        err = capsys.readouterr().err
        assert err.count("alarm:") == len(words)
        assert [fact for fact in words if fact not in err] == []
