"""What makes two hosted models the same model, told without a network."""

from typing import Any

import pytest
from support.each import each
from support.resolved import resolved
from support.stub_server import StubServer

from harness.errors import ModelError
from harness.models.openai.model import OpenAIModel
from harness.specs.models import OpenAISpec


def identity(url: str, **spec: Any) -> str:  # noqa: ANN401 - fields of OpenAISpec
    model = OpenAIModel("any", OpenAISpec(model="m", base_url=url, **spec), {})
    return resolved(model).identity


@each("host", ["localhost:1", "127.0.0.1:2", "[::1]:3", "LOCALHOST", "0.0.0.0"])
def test_this_machine_however_spelled_is_one_identity(host: str) -> None:
    assert identity(f"http://{host}/v1") == "openai|m"


def test_identity_covers_host_and_what_is_sent_with_the_request() -> None:
    urls = ["http://localhost/v1", "https://one.example/v1", "https://two.example/v1"]
    different = {identity(url) for url in urls}
    different |= {identity(urls[0], extra_body={"top_k": k}) for k in (1, 2)}
    different |= {identity(urls[0], sends_temperature=False)}

    assert len(different) == 6
    assert identity(urls[1]) == "openai|m|host=one.example"


@each(
    ("spec", "told"),
    [
        ({"api": "chat"}, "openai|m"),
        ({"api": "responses"}, "openai|m|api=responses"),
        ({"reasoning_effort": "low"}, "openai|m|effort=low"),
        ({"reasoning_max_tokens": 9}, "openai|m|reasoning=9"),
        ({"token_field": "max_completion_tokens"}, "openai|m"),
        ({"sends_n": False}, "openai|m|n=1"),
    ],
)
def test_api_and_reasoning_are_reported_where_they_are_not_the_default(
    spec: dict[str, Any], told: str
) -> None:
    assert identity("http://localhost/v1", **spec) == told


def test_an_address_that_lists_no_models_is_reported_the_path_it_may_lack() -> None:
    with StubServer() as stub:
        url = stub.url.removesuffix("/v1")
        with pytest.raises(
            ModelError, match=f"404.*most such servers answer at {url}/v1; set base"
        ):
            OpenAIModel("any", OpenAISpec(model="auto", base_url=url, key_env=None), {}).resolve()


def test_a_server_without_schemas_is_another_model_and_one_with_them_the_same() -> None:
    url = "http://localhost/v1"

    assert identity(url, is_structured_output=True) == identity(url) == "openai|m"
    assert identity(url, is_structured_output=False) == "openai|m|unstructured"
