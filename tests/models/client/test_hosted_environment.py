"""What of the environment reaches a server: what the YAML asks for, and nothing else."""

from collections.abc import Sequence
from typing import Any

import pytest
from support.batch_bench import request as asked
from support.hostile import Heard, Listener, right
from support.stub_script import Reply

from harness.core import Response
from harness.errors import ModelError
from harness.models.anthropic.model import AnthropicBatches, AnthropicModel
from harness.models.client.batches import BatchExpired
from harness.models.client.retry import RetryableError
from harness.models.openai.model import OpenAIBatches, OpenAIModel
from harness.specs.models import AnthropicSpec, OpenAISpec

SECRET = "hush-2718281828459045"
PLANTED = {
    "OPENAI_CUSTOM_HEADERS": f"Authorization: Bearer {SECRET}\nX-Mine: {SECRET}",
    "OPENAI_ORG_ID": SECRET,
    "OPENAI_PROJECT_ID": SECRET,
    "OPENAI_ADMIN_KEY": SECRET,
    "OPENAI_API_KEY": SECRET,
    "OPENAI_BASE_URL": "http://127.0.0.1:9/elsewhere",
    "ANTHROPIC_CUSTOM_HEADERS": f"x-api-key: {SECRET}\nX-Mine: {SECRET}",
    "ANTHROPIC_AUTH_TOKEN": SECRET,
    "ANTHROPIC_API_KEY": SECRET,
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/elsewhere",
}
KINDS = ["openai", "anthropic"]


def model(kind: str, url: str, environ: dict[str, str], **spec: Any) -> Any:  # noqa: ANN401
    settings = {"model": "m", "key_env": None, "attempts": 1} | spec
    if kind == "openai":
        return OpenAIModel("mine", OpenAISpec(base_url=url, **settings), environ)
    url = url.removesuffix("/v1")
    return AnthropicModel("mine", AnthropicSpec(base_url=url, **settings), environ)


def answers(built: Any, count: int = 1) -> list[Response]:  # noqa: ANN401 - of `model`
    built.resolve()
    return list(built.answer(asked(f"words {at}") for at in range(count)))


def sent(heard: Sequence[Heard]) -> str:
    return "\n".join(f"{one.path} {one.headers} {one.body!r}" for one in heard)


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PLANTED.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key_env", [None, "MY_KEY"])
def test_no_header_or_project_of_the_environment_is_sent(kind: str, key_env: str | None) -> None:
    with Listener(right) as server, Listener(right) as other:
        [response] = answers(model(kind, server.url, {"MY_KEY": "own-key"}, key_env=key_env))
        built = model(kind, other.url, {"MY_KEY": "own-key"}, key_env=key_env)
        built.resolve()
        batches = OpenAIBatches(built) if kind == "openai" else AnthropicBatches(built)
        with pytest.raises((RetryableError, ModelError, BatchExpired)):
            batches.submit([batches.entry(asked("words"), "a")], path="/v1/messages", nonce="n")

    assert response.texts == ("An answer.",)
    for heard in (server.heard, other.heard):
        assert heard
        assert SECRET not in sent(heard)
        assert ("own-key" in sent(heard)) == (key_env is not None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_header_the_yaml_names_is_sent_and_masked_where_the_server_repeats_it(kind: str) -> None:
    def repeat(heard: Heard) -> Reply:
        reply = right(heard)
        told = heard.headers.get("openai-organization", "").encode()
        return Reply(200, reply.body.replace(b"An answer.", told), reply.headers)

    with Listener(repeat) as server:
        environ = {"MY_ORG": "org-314159265"}
        built = model(kind, server.url, environ, headers_env={"OpenAI-Organization": "MY_ORG"})
        [response] = answers(built)

    assert "org-314159265" in sent(server.heard)
    assert response.texts == ("[MY_ORG]",)


def test_a_header_whose_variable_is_not_set_is_a_mistake_that_names_it() -> None:
    built = model("openai", "http://127.0.0.1:9/v1", {}, headers_env={"X-Team": "TEAM"})
    with pytest.raises(ModelError, match=r"headers_env names for X-Team .* is not set"):
        answers(built)


@pytest.mark.parametrize("header", ["Authorization", "x-api-key", "Host", "a b", "", "X\r\nY"])
def test_a_header_that_is_none_or_ours_is_refused(header: str) -> None:
    with pytest.raises(ValueError, match="no header of yours"):
        OpenAISpec(model="m", headers_env={header: "TEAM"})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_on_this_machine_is_not_asked_through_a_proxy(
    kind: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Listener(right) as server, Listener(lambda _: Reply(502, b"")) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        found = answers(
            model(kind, server.url.replace("127.0.0.1", host), {"K": "own-key"}, key_env="K")
        )

    assert [response.texts for response in found] == [("An answer.",)]
    assert proxy.heard == []
