"""A dry run counts what a run asks, asks nothing and writes nothing."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support import jobs
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import DECODINGS, PRICES, SAMPLES, Lines, Toy

from harness.cli import main
from harness.models.client.cached import CallPolicy
from harness.parts import Message
from harness.pipeline.preview import charge_stored, dry_run
from harness.pipeline.resolve import RunOptions, resolve
from harness.storage.frames import Row, records

EACH = SAMPLES * DECODINGS


THINKER = """
    about: By spelling, of what was thought.
    kind: preference
    model: umpire
    template: judges/choice
    options: {accept: right, reject: wrong}
    step: thought
    decoding: {temperature: 0, max_tokens: 4}
"""


@pytest.fixture
def priced(toy: Toy) -> Toy:
    toy.write("configs/prices.yaml", PRICES)
    return toy


def planned(
    toy: Toy, *judges: str, model: str = "alpha", terms: CallPolicy | None = None
) -> list[Row]:
    space = replace(toy.space(), terms=terms or CallPolicy())
    ready = resolve(space, RunOptions("toy", model, judges=judges))
    charge_stored(ready)
    return records(dry_run(ready, set()))


def test_every_step_of_every_variant_and_each_order_of_a_judge_is_counted(toy: Toy) -> None:
    found = planned(toy, "choice")

    steps = [("base", "response"), ("think", "thought"), ("think", "response")]
    orders = [("-", order) for order in ("accept-first", "reject-first")]
    counts = {(part.variant, part.step): part.calls for part in found}
    assert counts == {**dict.fromkeys(steps, EACH), **dict.fromkeys(orders, 2 * EACH)}
    assert [part.asker for part in found[3:]] == ["choice"] * 2


def test_a_call_that_two_variants_share_is_counted_once(toy: Toy) -> None:
    toy.edit("tasks/toy.yaml", "template: toy/base}", "template: toy/base, max_tokens: 20}")
    toy.edit("prompts/toy/think.user.j2", "What is meant?", "What is said next?")
    counts = [part.calls for part in planned(toy, "choice")]

    # At temperature 0 the first step of `think` is what `base` asks; drawn ones have own seeds.
    assert counts == [EACH, SAMPLES, EACH, 2 * EACH, 2 * EACH]


def test_the_count_is_what_the_run_then_asks(toy: Toy, stub: StubServer) -> None:
    count = sum(part.calls for part in planned(toy, "choice"))
    stub.script = Script(replies={"Judge": ("1",)})
    toy.run("--judge", "choice", model="alpha")

    # The controls of a seed aside, greedy and drawn answers to one prompt are two questions,
    # but two equal answers are one question to the judge.
    answers = sum(body["model"] == "alpha" for body in stub.bodies)
    assert answers == count - 2 * EACH * 2
    assert stub.stats()["requests"] <= count


def test_sizes_are_those_of_the_prompts_and_of_the_longest_answers_that_stand_in(toy: Toy) -> None:
    first, _, later = planned(toy)

    said = "Story number 0. What is said next?"
    assert first.example == (Message("user", said),)
    assert first.prompt_characters == EACH * len(said)
    assert first.prompt_tokens == EACH * (len(said) // 4)
    assert first.max_tokens == EACH * 20
    words = len("Story number 0. Meant:  What is said next?")
    assert later.prompt_characters == EACH * (words + 20 * 4)
    [shown] = [part for part in later.example if "Meant:" in part.content]
    assert re.match(r"Story number 0\. Meant: \(thought \w{8}\) What is said", shown.content)


def test_nothing_is_asked_and_nothing_written(toy: Toy, capsys: Lines, stub: StubServer) -> None:
    assert toy.run("--dry-run", "--judge", "choice", model="alpha") == 0

    assert stub.stats()["requests"] == 0
    assert not toy.results.exists()
    assert "84 calls at most" in capsys.readouterr().out  # 12 + 12 + 12 answers, 48 replies


def test_no_server_and_no_key_is_needed_where_the_model_is_named(toy: Toy) -> None:
    assert toy.run("--dry-run", model="alpha") == 0
    assert toy.run("--dry-run", model="gpt-4o") == 0


def test_the_default_variants_of_intent_resolution_are_twelve_calls_a_draw(
    tmp_path: Path, toy: Toy, capsys: Lines
) -> None:
    run = ["run", "--task", "intent_resolution", "--model", "gpt-4o", "--limit", "5", "--dry-run"]
    judge = ["--judge", "gpt4-contextual", "--json", "--results", str(tmp_path)]

    assert main([*run, *judge]) == 0

    asked = json.loads(capsys.readouterr().out)
    answers = sum(part["calls"] for part in asked if part["asker"] == "intent_resolution")
    replies = sum(part["calls"] for part in asked if part["asker"] == "gpt4-contextual")
    assert answers == 5 * 2 * (4 * 1 + 4 * 2)  # base, cot1, cot5, cot6; cot0, cot2 to cot4
    assert replies == 5 * 2 * 8 * 2


def spans(found: list[Row]) -> list[tuple[float | None, float | None]]:
    return [(part.least_usd, part.most_usd) for part in found]


def test_the_price_of_a_prompt_is_its_tokens_and_what_may_be_drawn(priced: Toy) -> None:
    [least, most] = spans(planned(priced))[0]

    # Each of 12 prompts: 34 characters, 8 tokens of them, 2 and 4 USD a million.
    assert least == pytest.approx(EACH * (8 * 2 + 1 * 4) / 1e6)
    assert most == pytest.approx(EACH * ((34 + 16) * 2 + 20 * 4) / 1e6)


def test_what_a_run_then_costs_lies_within_what_was_said(priced: Toy, stub: StubServer) -> None:
    found = planned(priced, "choice")
    priced.run("--judge", "choice", model="alpha")

    told = json.loads((priced.runs()[0] / "run.json").read_text())["costs"]["total"]["cost_usd"]
    assert sum(part.least_usd or 0 for part in found) < told
    assert told < sum(part.most_usd or 0 for part in found)


def test_what_is_stored_is_paid_and_tells_what_is_asked_next(priced: Toy, stub: StubServer) -> None:
    before = planned(priced, "choice")
    priced.run("--judge", "choice", "--variant", "base", model="alpha")

    after = planned(priced, "choice")

    assert [part.stored for part in after] == [EACH, 0, None, EACH, EACH]
    assert spans(after)[0] == (0.0, 0.0)
    assert spans(after)[1:3] == spans(before)[1:3]
    assert [part.calls - (part.stored or 0) for part in after[3:]] == [EACH, EACH]
    assert (after[3].most_usd or 0) < (before[3].most_usd or 0)


@pytest.mark.parametrize("prices", [PRICES, "prices: {}"])
def test_nothing_is_left_to_pay_once_all_is_stored(toy: Toy, stub: StubServer, prices: str) -> None:
    toy.write("configs/prices.yaml", prices)
    toy.run("--judge", "choice", model="alpha")
    found = planned(toy, "choice")

    assert [part.stored for part in found] == [part.calls for part in found]
    assert set(spans(found)) == {(0.0, 0.0)}


def test_a_batch_costs_its_share_and_one_without_a_share_is_not_known(priced: Toy) -> None:
    alone = planned(priced, "choice")
    found = planned(priced, "choice", terms=CallPolicy(is_batch=True))

    assert spans(found)[0] == tuple(0.5 * usd for usd in spans(alone)[0] if usd)
    assert spans(found)[-1] == (None, None)  # the umpire's


@pytest.mark.parametrize(("model", "is_hosted"), [("alpha", True), ("oracle", False)])
def test_without_a_price_there_are_tokens_only(toy: Toy, model: str, is_hosted: bool) -> None:
    first = planned(toy, model=model)[0]
    assert (first.least_usd, first.most_usd, first.is_hosted) == (None, None, is_hosted)
    assert first.prompt_tokens > 0


def test_a_local_models_prompts_are_counted_by_its_own_tokenizer(toy: Toy) -> None:
    first = planned(toy, model="tiny-random")[0]
    jobs.run(toy.space(), RunOptions("toy", "tiny-random", variants=("base",)))

    told = json.loads((toy.runs()[0] / "run.json").read_text())["costs"]["answers"]
    assert not first.is_estimate
    assert first.prompt_tokens == told["prompt_tokens"]
    limits = ("{temperature: 0, max_tokens: 20}", "{temperature: 0, max_tokens: 900}")
    toy.edit("tasks/toy.yaml", *limits)
    later = planned(toy, model="tiny-random")[2]  # sized by the most tokens of what it shows
    assert SAMPLES * 900 < later.prompt_tokens < SAMPLES * (900 + 200)


def test_a_judge_of_an_earlier_step_is_counted_where_there_is_one(toy: Toy) -> None:
    toy.write("configs/judges/thinker.yaml", THINKER)
    judging = [part.calls for part in planned(toy, "thinker") if part.asker == "thinker"]
    assert judging == [EACH, EACH]  # of `think` alone, in both orders
