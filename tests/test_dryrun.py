"""A dry run counts what a run asks, asks nothing and writes nothing."""

import json
from pathlib import Path

import pytest
from stub_script import Script
from stub_server import StubServer
from toy import DECODINGS, SAMPLES, Toy

from harness.cli import main
from harness.dryrun import Asked, dry_run
from harness.jobs import RunOptions, prepare
from harness.parts import Message

EACH = SAMPLES * DECODINGS


def planned(toy: Toy, *judges: str, model: str = "alpha") -> list[Asked]:
    space = toy.space()
    ready = prepare(space, RunOptions("toy", model, judges=judges))
    return dry_run(ready, space.desk(ready.model).ledger)


def test_every_step_of_every_variant_is_counted(toy: Toy) -> None:
    found = {(part.variant, part.step): part.calls for part in planned(toy)}

    steps = [("base", "response"), ("think", "thought"), ("think", "response")]
    assert found == dict.fromkeys(steps, EACH)


def test_a_judge_that_asks_is_counted_in_both_orders(toy: Toy) -> None:
    judging = [part for part in planned(toy, "near", "choice") if part.asker == "choice"]

    assert sum(part.calls for part in judging) == 2 * EACH * 2  # variants, orders


def test_a_judge_has_a_row_for_each_order_and_none_for_a_variant(toy: Toy) -> None:
    judging = [part for part in planned(toy, "choice") if part.asker == "choice"]

    assert [(part.variant, part.step, part.calls) for part in judging] == [
        ("-", "accept-first", 2 * EACH),
        ("-", "reject-first", 2 * EACH),
    ]


def test_a_call_that_two_variants_share_is_counted_once(toy: Toy) -> None:
    toy.edit("tasks/toy.yaml", "template: toy/base}", "template: toy/base, max_tokens: 20}")
    toy.edit("prompts/toy/think.user.j2", "What is meant?", "What is said next?")

    counts = [part.calls for part in planned(toy, "choice")]

    # At temperature 0 the first step of `think` is what `base` asks; drawn ones have own seeds.
    assert counts == [EACH, SAMPLES, EACH, 2 * EACH, 2 * EACH]


def test_the_count_is_what_the_run_then_asks(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    count = sum(part.calls for part in planned(toy, "choice"))
    with StubServer(Script(replies={"Judge": ("1",)})) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        toy.run("--judge", "choice", model="alpha")

        # The controls of a seed aside, greedy and drawn answers to one prompt are two questions,
        # but two equal answers are one question to the judge.
        answers = sum(body["model"] == "alpha" for body in stub.bodies)
        assert answers == count - 2 * EACH * 2
        assert stub.stats()["requests"] <= count


def test_stored_calls_are_counted_where_their_prompts_are_known(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StubServer() as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        toy.run("--limit", "2", "--variant", "base", model="alpha")

    assert [part.stored for part in planned(toy)] == [2 * DECODINGS, 0, None]


def test_sizes_are_those_of_the_prompts_and_of_the_longest_answers(toy: Toy) -> None:
    first = planned(toy)[0]

    assert first.example == (Message("user", "Story number 0. What is said next?"),)
    assert first.prompt_characters == EACH * len("Story number 0. What is said next?")
    assert first.prompt_tokens_estimate == first.prompt_characters // 4
    assert first.max_tokens == EACH * 20


def test_a_later_step_is_sized_by_the_longest_answer_to_the_earlier(toy: Toy) -> None:
    later = planned(toy)[2]

    words = len("Story number 0. Meant:  What is said next?")
    assert later.prompt_characters == EACH * (words + 20 * 4)


def test_nothing_is_asked_and_nothing_written(
    toy: Toy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with StubServer() as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        assert toy.run("--dry-run", "--judge", "choice", model="alpha") == 0

        assert stub.stats()["requests"] == 0
    assert not toy.results.exists()
    assert "84 calls at most" in capsys.readouterr().out  # 12 + 12 + 12 answers, 48 replies


def test_no_server_and_no_key_is_needed_where_the_model_is_named(toy: Toy) -> None:
    assert toy.run("--dry-run", model="alpha") == 0
    assert toy.run("--dry-run", model="gpt-4o") == 0


def test_the_default_variants_of_intent_resolution_are_twelve_calls_a_draw(
    tmp_path: Path, toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", "--task", "intent_resolution", "--model", "gpt-4o", "--limit", "5", "--dry-run"]
    judge = ["--judge", "gpt4-contextual", "--json", "--results", str(tmp_path)]

    assert main([*run, *judge]) == 0

    asked = json.loads(capsys.readouterr().out)
    answers = sum(part["calls"] for part in asked if part["asker"] == "intent_resolution")
    replies = sum(part["calls"] for part in asked if part["asker"] == "gpt4-contextual")
    assert answers == 5 * 2 * (4 * 1 + 4 * 2)  # base, cot1, cot5, cot6; cot0, cot2 to cot4
    assert replies == 5 * 2 * 8 * 2
