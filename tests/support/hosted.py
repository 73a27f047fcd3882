"""Hosted models of three APIs at a server of a test, and what they are asked."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from harness.core import Request, Response
from harness.models.anthropic.model import AnthropicModel
from harness.models.openai.model import OpenAIModel
from harness.parts import Decoding, Message, Reason
from harness.specs.models import AnthropicSpec, OpenAISpec
from support.stub_script import Script
from support.stub_server import StubServer

Api = Literal["chat", "responses", "anthropic"]
APIS: tuple[Api, ...] = ("chat", "responses", "anthropic")
KEY = "sk-a-key-nobody-may-see"
SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}


def request(words: str, **changes: Any) -> Request:  # noqa: ANN401 - fields of Request
    blank = Request("s", "base", "answer", "m", (Message("user", words),), Decoding())
    return replace(blank, **changes)


def hosted(api: Api, url: str, **spec: Any) -> OpenAIModel | AnthropicModel:  # noqa: ANN401 - fields of its spec
    """A model named `stub-model`, whose key is in STUB_KEY."""
    settings: dict[str, Any] = {"model": "stub-model", "base_url": url, "key_env": "STUB_KEY"}
    settings |= {"attempts": 2} | spec
    if api != "anthropic":
        return OpenAIModel("stub", OpenAISpec(api=api, **settings), {"STUB_KEY": KEY})
    settings["base_url"] = settings["base_url"].removesuffix("/v1")
    return AnthropicModel("stub", AnthropicSpec(**settings), {"STUB_KEY": KEY})


def failure_of(response: Response) -> tuple[Reason | None, str]:
    assert response.failure is not None
    return response.failure.reason, response.failure.message


def met(
    api: Api,
    faults: Iterable[str],
    asked: Mapping[str, Any] | None = None,
    **spec: Any,  # noqa: ANN401
) -> dict[str, Response]:
    """What each fault comes to when both attempts meet it; all are asked at once."""
    requests = {fault: request(f"<{fault}>", **(asked or {})) for fault in faults}
    script = Script(faults={f"<{fault}>": (fault,) * 2 for fault in requests}, late_s=0.4)
    with StubServer(script) as server:
        found = list(hosted(api, server.url, concurrency=40, **spec).answer(requests.values()))
    names = {one.key: fault for fault, one in requests.items()}
    return {names[response.key]: response for response in found}
