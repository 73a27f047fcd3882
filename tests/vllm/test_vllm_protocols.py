"""vLLM's server asked as OpenAI's and as Anthropic's: texts, seeds, forms, tokens."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from in_process import answers, ask, failure_of, model
from served import as_anthropic, as_openai

from harness.core import Model, Request, Response
from harness.models.local.vllm_model import VllmModel
from harness.parts import Message, Reason

pytest_plugins = ["vllm_fixtures"]
pytestmark = pytest.mark.vllm
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "analysis": {"type": "string", "pattern": "^[a-z ]{1,12}$"},
        "score": {"type": "integer", "minimum": 0, "maximum": 5},
    },
    "required": ["analysis", "score"],
    "additionalProperties": False,
}
SHORT = 16  # the least the responses API can be asked for
TERSE = (Message("system", "You are terse."), Message("user", "Does she mean it?"))
TURNS = (*TERSE, Message("assistant", "No."), Message("user", "Why not?"))


@pytest.fixture(params=["chat", "responses", "one by one", "messages"])
def hosted(request: pytest.FixtureRequest, server: str) -> Model:
    if request.param == "messages":
        return as_anthropic(server)
    if request.param == "one by one":
        return as_openai(server, sends_n=False)
    return as_openai(server, api=request.param, choices="none")


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[VllmModel]:
    one = model(folder)
    yield one
    one.close()


def tokens(response: Response) -> tuple[int | None, int | None]:
    return response.usage.prompt_tokens, response.usage.completion_tokens


def posed(*messages: Message, **decoding: Any) -> Request:  # noqa: ANN401 - as of ask
    return replace(ask("", **decoding), messages=messages)


def formed(text: str, **decoding: Any) -> Request:  # noqa: ANN401 - as of ask
    return replace(ask(text, **{"max_tokens": 400, "temperature": 1.0, **decoding}), schema=SCHEMA)


@pytest.mark.parametrize("turns", [TERSE, TURNS])
@pytest.mark.parametrize("length", [20, 200])
def test_system_turns_cuts_and_tokens_are_those_of_the_engine_in_process(
    hosted: Model, engine: VllmModel, turns: tuple[Message, ...], length: int
) -> None:
    request = posed(*turns, max_tokens=length)
    [expected] = engine.answer([request])

    [found] = hosted.answer([request])

    assert (found.texts, tokens(found)) == (expected.texts, tokens(expected))
    assert (found.stop == "length") == (expected.stop == "length")
    assert found.served == "tiny-random"


def test_a_seed_gives_the_same_replies_alone_and_among_others(server: str) -> None:
    requests = [ask(f"{n}?", temperature=1.0, n=2, seed=seed) for n in range(8) for seed in (1, 9)]
    alone = {
        key: each
        for request in requests
        for key, each in answers(as_openai(server), [request]).items()
    }

    together = answers(as_openai(server), requests[::-1])

    assert {key: each.texts for key, each in together.items()} == {
        key: each.texts for key, each in alone.items()
    }
    assert len({text for each in together.values() for text in each.texts or ()}) == 32


@pytest.mark.parametrize("way", ["chat", "responses", "tool", "schema"])
def test_a_reply_in_a_given_form_follows_it(server: str, way: str) -> None:
    model: Model = (
        as_anthropic(server, form=way)
        if way in ("tool", "schema")
        else as_openai(server, api=way, choices="none")
    )

    found = answers(model, [formed(f"{n}?", n=2, seed=n) for n in range(6)])

    replies = [json.loads(text) for each in found.values() for text in each.texts or ()]
    assert len(replies) == 12
    assert {frozenset(reply) for reply in replies} == {frozenset({"analysis", "score"})}
    # A bound is not sent to Anthropic's API as a schema, which knows none.
    assert way == "schema" or {reply["score"] for reply in replies} <= set(range(6))
    assert {type(reply["score"]) for reply in replies} == {int}
    assert len({reply["score"] for reply in replies}) > 1


def test_a_prompt_too_long_is_a_missing_item_and_both_numbers_are_named(hosted: Model) -> None:
    [response] = hosted.answer([ask("no " * 4100)])

    reason, message = failure_of(response)
    assert reason is Reason.FAILED
    assert "4096" in message
