"""What is missing of a run is told with what its calls ended in, and with what to do."""

import json

import pytest
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import Lines, Toy


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("500", "2 failed; run the command again to retry these calls\n  2 of 2: http://127.0.0."),
        ("400-filter", "2 filtered; such replies are kept; --retry all retries these calls\n  2"),
        ("refusal", "2 refused; such replies are kept; --retry all retries these calls\n"),
    ],
)
def test_each_reason_is_told_with_its_commonest_message_and_its_remedy(
    toy: Toy, stub: StubServer, capsys: Lines, *, fault: str, told: str
) -> None:
    stub.script = Script(faults={"number 3": (fault,) * 9})
    assert toy.run("--variant", "base", model="alpha") == 1
    assert f"no answer to judge: {told}" in capsys.readouterr().err


def test_failed_replies_of_a_judge_are_told(toy: Toy, stub: StubServer, capsys: Lines) -> None:
    stub.script = Script(replies={"": ("1",)}, faults={"yes 3": ("500",) * 9})
    assert toy.run("--variant", "base", "--judge", "choice") == 1

    err = capsys.readouterr().err
    assert "judge choice: 2 verdicts missing, reply failed; run the command again to re" in err
    assert "answered 500: scripted fault 500; gave up after attempt 1 of 1" in err


def test_json_and_progress_hold_what_is_missing(toy: Toy, stub: StubServer, capsys: Lines) -> None:
    stub.script = Script(faults={"number 3": ("500",) * 9})
    toy.run("--variant", "base", "--json", model="alpha")

    out, err = capsys.readouterr()
    [gap] = json.loads(out)["missing"]
    assert (gap["judge"], gap["reason"], gap["count"]) == ("", "failed", 2)
    assert [said["count"] for said in gap["said"]] == [2]
    assert json.loads((toy.runs()[0] / "run.json").read_text())["missing"] == [gap]
    assert "answers of alpha, step 1: 10 of 12 stored, 2 failed\n" in err


def test_cut_answers_are_told_with_their_limit(toy: Toy, stub: StubServer, capsys: Lines) -> None:
    stub.script = Script(faults={"": ("finish=length",) * 9})
    toy.run("--variant", "base", model="alpha")

    told = (
        "12 of 12 answers reached their limit of tokens and were cut; to raise it, set max_tokens"
    )
    assert f"{told} in tasks/toy.yaml" in capsys.readouterr().out


def test_a_cut_answer_is_the_tasks_to_lengthen(toy: Toy, stub: StubServer, capsys: Lines) -> None:
    stub.script = Script(replies={"": ("the capital of",)}, faults={"": ("finish=length",) * 99})
    told = ("--task", "quiz", "--model", "alpha", "--answers", "written")

    assert toy.main("run", *told, "--variant", "order0") == 1

    err = capsys.readouterr().err
    assert "answer truncated; raise max_tokens in tasks/quiz.yaml\n" in err
    assert "configs/judges" not in err
    assert "reasoning" not in err


def test_cut_reasoning_is_told_its_room_to_reason(
    toy: Toy, stub: StubServer, capsys: Lines
) -> None:
    stub.script = Script(faults={"number 3": ("reasoned-away",) * 9})

    assert toy.run("--variant", "base", model="alpha") == 1

    err = capsys.readouterr().err
    assert "no answer to judge: 2 truncated; raise max_tokens in tasks/toy.yaml\n  2 of 2: " in err
    assert "cut before the first word of an answer after" in err
    assert "12 of reasoning: give it more room (max_tokens of the decoding, or reasoning_" in err


def test_a_server_that_is_down_stops_no_other_model(
    toy: Toy, stub: StubServer, capsys: Lines
) -> None:
    toy.edit("configs/models/beta.yaml", "base_url_env: HARNESS_SERVER_URL", "base_url_env: NONE")
    assert toy.run("--variant", "base", model="alpha,beta,oracle") == 1

    err = capsys.readouterr().err
    assert "[2/3] toy, beta: failed: model beta: no server at http://127.0.0.1:9/v1 " in err
    assert "[3/3] toy, oracle: done" in err
    assert "1 of 3 runs are not done; repeat the command to go on" in err
