"""Both APIs of a real server: vLLM on the CPU, serving the tiny random checkpoint.

Runs in the environment that tests/vllm/install.sh builds: `python -m pytest -m vllm tests/vllm`.
"""

from typing import Any

import pytest
from support.sketches import resolved

from harness.core import Request, Response
from harness.models.openai.model import OpenAIModel
from harness.parts import Decoding, Message
from harness.specs.models import OpenAISpec

pytest_plugins = ["vllm_fixtures"]
pytestmark = pytest.mark.vllm
WORDS = (Message("system", "Be brief."), Message("user", "Say hello."))
DRAWN = Decoding(0.9, max_tokens=20, n=3, seed=4)


def answered(url: str, decoding: Decoding, **spec: Any) -> Response:  # noqa: ANN401 - of OpenAISpec
    settings = OpenAISpec(model="auto", base_url=url, key_env=None, **spec)
    asked = Request("s", "base", "answer", "m", WORDS, decoding)
    [response] = resolved(OpenAIModel("any", settings, {})).answer([asked])
    return response


def test_the_responses_api_gives_the_greedy_words_of_the_chat(server: str) -> None:
    chat = answered(server, Decoding(max_tokens=20))
    by_responses = answered(server, Decoding(max_tokens=20), api="responses")

    assert (by_responses.texts, by_responses.stop) == (chat.texts, "length")
    assert by_responses.usage.completion_tokens == chat.usage.completion_tokens == 20
    assert by_responses.usage.reasoning_tokens == 0


@pytest.mark.parametrize("spec", [{"api": "responses"}, {"sends_n": False}])
def test_several_replies_one_by_one_are_drawn_apart(server: str, spec: dict[str, Any]) -> None:
    response = answered(server, DRAWN, **spec)

    assert len(set(response.texts or ())) == 3
    assert response.usage.completion_tokens == 60


def test_a_schema_holds_by_the_responses_api(server: str) -> None:
    schema: dict[str, object] = {"type": "object", "required": ["score"]}
    schema |= {"properties": {"score": {"type": "integer"}}, "additionalProperties": False}
    asked = Request("s", "base", "answer", "m", WORDS, Decoding(max_tokens=40), schema=schema)
    settings = OpenAISpec(model="auto", base_url=server, key_env=None, api="responses")

    [response] = resolved(OpenAIModel("any", settings, {})).answer([asked])

    assert (response.texts or ("",))[0].lstrip().startswith("{")
