"""What makes two hosted models the same model, without a network."""

from typing import Any

import pytest
from support.each import each
from support.hosted import Api, hosted
from support.sketches import resolved
from support.stub_server import StubServer

from harness.errors import ModelError

LOCAL = "http://localhost:1/v1"
SAME: dict[Api, str] = {"chat": "openai|m", "anthropic": "anthropic|m"}


def identity(api: Api, url: str = LOCAL, **spec: Any) -> str:  # noqa: ANN401 - fields of its spec
    return resolved(hosted(api, url, model="m", **spec)).identity


@each("host", ["localhost:1", "127.0.0.1:2", "[::1]:3", "LOCALHOST", "0.0.0.0"])
def test_this_machine_however_spelled_is_one_identity(host: str) -> None:
    assert identity("chat", f"http://{host}/v1") == "openai|m"


@each(
    ("api", "spec"),
    [
        *((api, {"concurrency": 2, "timeout_s": 3.0, "key_env": "OTHER"}) for api in SAME),
        *((api, {"is_structured_output": True}) for api in SAME),
        ("chat", {"token_field": "max_completion_tokens"}),
    ],
)
def test_what_changes_no_answer_is_no_part_of_the_identity(api: Api, spec: dict[str, Any]) -> None:
    assert identity(api, **spec) == SAME[api]


@each(
    ("api", "spec", "expected"),
    [
        ("responses", {}, "openai|m|api=responses"),
        ("chat", {"reasoning_effort": "low"}, "openai|m|effort=low"),
        ("chat", {"sends_n": False}, "openai|m|n=1"),
        *((api, {"reasoning_max_tokens": 9}, f"{same}|reasoning=9") for api, same in SAME.items()),
        *(
            (api, {"is_structured_output": False}, f"{same}|unstructured")
            for api, same in SAME.items()
        ),
        ("anthropic", {"form": "schema"}, "anthropic|m|form=schema"),
    ],
)
def test_what_is_not_the_default_is_named(api: Api, spec: dict[str, Any], expected: str) -> None:
    assert identity(api, **spec) == expected


def test_a_model_used_before_it_is_resolved_opens_no_connection() -> None:
    with StubServer() as stub:
        with pytest.raises(RuntimeError, match=r"before its resolve\(\) was called"):
            _ = hosted("chat", stub.url).identity
        assert stub.stats()["requests"] == 0


@pytest.mark.parametrize("api", SAME)
def test_host_and_what_is_sent_with_a_request_are_part_of_it(api: Api) -> None:
    urls = [LOCAL, "https://one.example/v1", "https://two.example/v1"]
    different = {identity(api, url) for url in urls}
    different |= {identity(api, extra_body={"top_k": k}) for k in (1, 2)}
    different |= {identity(api, sends_temperature=False)}

    assert len(different) == 6
    assert identity(api, urls[1]) == f"{SAME[api]}|host=one.example"


def test_an_address_that_lists_no_models_is_reported_with_the_path_it_may_need() -> None:
    with StubServer() as stub:
        url = stub.url.removesuffix("/v1")
        with pytest.raises(ModelError, match=f"404.*such servers answer at {url}/v1; set base"):
            hosted("chat", url, model="auto").resolve()
