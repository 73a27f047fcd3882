"""What three APIs are sent, and how a server is looked at before; on a scripted server."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from support.each import each
from support.hosted import APIS, SCHEMA, Api, hosted, request
from support.sketches import resolved
from support.stub_script import Script
from support.stub_server import StubServer

from harness.errors import ModelError
from harness.models.openai.model import OpenAIModel
from harness.parts import Decoding, Message, Mode
from harness.specs.models import OpenAISpec

FORM = {"name": "reply", "strict": True, "schema": SCHEMA}
USER = [{"role": "user", "content": "Hello"}]
PLAIN: Mapping[Api, dict[str, Any]] = {
    "chat": {"messages": USER, "max_tokens": 256},
    "responses": {"input": USER, "max_output_tokens": 256, "store": False, "stream": False},
    "anthropic": {"messages": USER, "max_tokens": 256},
}
COLD = {"temperature": 0.0}


@pytest.fixture
def stub() -> Iterator[StubServer]:
    with StubServer() as server:
        yield server


def sent(stub: StubServer, api: Api, words: str = "Hello", **how: Any) -> dict[str, Any]:  # noqa: ANN401 - of a request, or `spec`
    spec = how.pop("spec", {})
    list(hosted(api, stub.url, **spec).answer([request(words, **how)]))
    return stub.bodies[-1]


@pytest.mark.parametrize(
    ("api", "decoding", "expected"),
    [
        ("chat", Decoding(0.5, 70, n=3, seed=11), {"max_tokens": 70, "n": 3, "seed": 11}),
        ("responses", Decoding(0.5, 70, seed=11), {"max_output_tokens": 70, "store": False}),
        ("anthropic", Decoding(0.5, 70, seed=11), {"max_tokens": 70, "system": "Be brief."}),
    ],
)
def test_what_is_sent_is_what_was_asked_for(
    stub: StubServer, api: Api, decoding: Decoding, expected: dict[str, Any]
) -> None:
    turns = ("system", "Be brief."), ("user", "Hello"), ("assistant", "Yes?"), ("user", "Go on")
    words = tuple(Message(role, said) for role, said in turns)  # type: ignore[arg-type]  # roles

    body = sent(stub, api, messages=words, decoding=decoding)

    of_turns = [{"role": role, "content": said} for role, said in turns]
    field = "input" if api == "responses" else "messages"
    expected |= {field: of_turns[1:] if api == "anthropic" else of_turns}
    expected |= {"stream": False} if api == "responses" else {}
    assert body == {"model": "stub-model", "temperature": 0.5, **expected}


LOW = {"sends_temperature": False, "reasoning_effort": "low"}


@pytest.mark.slow
@each(
    ("api", "spec", "changes"),
    [
        *((api, {}, COLD) for api in APIS),
        *((api, {"sends_temperature": False}, {}) for api in APIS),
        *((api, {"extra_body": {"top_k": 4}}, {**COLD, "top_k": 4}) for api in APIS),
        ("chat", LOW, {"reasoning_effort": "low"}),
        ("responses", LOW, {"reasoning": {"effort": "low"}}),
        ("responses", {"extra_body": {"text": {"verbosity": "low"}}},
         {**COLD, "text": {"verbosity": "low"}}),
        ("responses", {"token_field": "max_completion_tokens"}, COLD),
    ],
)  # fmt: skip
def test_a_spec_leaves_out_and_adds_what_its_model_wants(
    stub: StubServer, api: Api, spec: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert sent(stub, api, spec=spec) == {"model": "stub-model"} | PLAIN[api] | changes


def test_a_chat_server_may_want_another_field_and_no_seed(stub: StubServer) -> None:
    spec = {"token_field": "max_completion_tokens", "sends_seed": False}
    body = sent(stub, "chat", spec=spec, decoding=Decoding(seed=3))
    assert set(body) == {"model", "messages", "max_completion_tokens", "temperature"}


@each(
    ("api", "asked", "reasoning", "expected"),
    [
        *[("chat", 40, 1000, 1040), ("anthropic", 40, 1000, 1040), ("responses", 8, 1000, 1008)],
        *[("responses", 1, 0, 16), ("responses", 16, 0, 16), ("responses", 17, 0, 17)],
    ],
)
def test_a_reply_has_room_for_reasoning_and_no_less_than_the_api_takes(
    stub: StubServer, api: Api, asked: int, reasoning: int, expected: int
) -> None:
    spec = {"reasoning_max_tokens": reasoning}
    body = sent(stub, api, spec=spec, decoding=Decoding(max_tokens=asked))
    assert body["max_output_tokens" if api == "responses" else "max_tokens"] == expected


BOUNDED = SCHEMA | {
    "properties": {
        "score": {"type": "integer", "minimum": 0, "maximum": 5},
        "minimum": {"type": "string"},
    }
}
FIELDS = {"score": {"type": "integer"}, "minimum": {"type": "string"}}
UNBOUNDED = {"type": "json_schema", "schema": SCHEMA | {"properties": FIELDS}}


@each(
    ("api", "spec", "schema", "field", "expected"),
    [
        ("chat", {}, SCHEMA, "response_format", {"type": "json_schema", "json_schema": FORM}),
        ("responses", {}, SCHEMA, "text", {"format": {"type": "json_schema", **FORM}}),
        ("responses", {"extra_body": {"text": {"verbosity": "low"}}}, SCHEMA, "text",
         {"verbosity": "low", "format": {"type": "json_schema", **FORM}}),
        ("anthropic", {}, SCHEMA, "tools", [{"name": "reply", "input_schema": SCHEMA}]),
        ("anthropic", {}, SCHEMA, "tool_choice", {"type": "tool", "name": "reply"}),
        ("anthropic", {"form": "schema"}, BOUNDED, "output_config", {"format": UNBOUNDED}),
        ("anthropic", {"form": "schema", "extra_body": {"output_config": {"effort": "low"}}},
         BOUNDED, "output_config", {"effort": "low", "format": UNBOUNDED}),
        ("anthropic", {"form": "schema"}, BOUNDED, "tools", None),
        *((api, {"is_structured_output": False}, SCHEMA, field, None)
          for api, field in zip(APIS, ("response_format", "text", "tools"), strict=True)),
        *((api, {}, None, field, None)
          for api, field in zip(APIS, ("response_format", "text", "tools"), strict=True)),
    ],
)  # fmt: skip
def test_a_reply_is_held_to_a_schema_where_one_is_asked_for_and_known(
    stub: StubServer,
    api: Api,
    spec: dict[str, Any],
    schema: dict[str, Any] | None,
    field: str,
    expected: object,
) -> None:
    assert sent(stub, api, spec=spec, schema=schema).get(field) == expected


TOLD = json.dumps({"analysis": "caf\u00e9 \ud83d", "score": 4})


@each(
    ("fault", "said", "text"),
    [
        ("", TOLD, '{"analysis": "caf\u00e9 \ufffd", "score": 4}'),
        *[
            ("untooled", "4, I think", "4, I think"),
            ("empty", "4, I think", ""),
            ("other-tool", "4, I think", ""),
        ],
    ],
)
def test_a_tool_call_comes_back_as_json_or_leaves_words(fault: str, said: str, text: str) -> None:
    with StubServer(Script(faults={"": (fault,)}, replies={"": (said,)})) as stub:
        [response] = hosted("anthropic", stub.url).answer([request("Rate.", schema=SCHEMA)])
    assert response.texts == (text,)


@pytest.mark.parametrize(
    ("roles", "system"),
    [(["user"], None), (["system", "user"], "0"), (["system", "user", "system"], "0\n\n2")],
)
def test_system_turns_are_sent_apart_and_only_where_there_are_any(
    stub: StubServer, roles: list[Any], system: str | None
) -> None:
    words = tuple(Message(role, str(place)) for place, role in enumerate(roles))
    body = sent(stub, "anthropic", messages=words)
    assert (body.get("system"), [turn["role"] for turn in body["messages"]]) == (system, ["user"])


def test_an_embedding_has_one_vector_its_tokens_and_its_snapshot(stub: StubServer) -> None:
    one = hosted("chat", stub.url, extra_body={"dimensions": 8})
    words = ("two words", "two words", "three")
    asked = [request(text, mode=Mode.EMBED) for text in words]

    first, again, other = sorted(
        one.answer(asked), key=lambda response: -(response.usage.prompt_tokens or 0)
    )

    assert (first.vectors or ())[0] == (again.vectors or ())[0] != (other.vectors or ())[0]
    assert (first.usage.prompt_tokens, first.served) == (2, "stub-model")
    vector = {"model": "stub-model", "encoding_format": "float", "dimensions": 8}
    assert stub.bodies[-1].items() >= vector.items()


@pytest.mark.parametrize("api", APIS)
def test_a_finished_run_needs_neither_key_nor_server(api: Api) -> None:
    assert list(hosted(api, "http://127.0.0.1:9/v1", key_env="NONE").answer([])) == []


@pytest.mark.parametrize("environ", [{}, {"STUB_KEY": "  "}, {"STUB_KEY": "sk-\u2013"}])
def test_a_lost_or_mangled_key_is_told_by_name(stub: StubServer, environ: dict[str, str]) -> None:
    spec = OpenAISpec(model="m", base_url=stub.url, key_env="STUB_KEY")
    with pytest.raises(ModelError, match="STUB_KEY"):
        list(OpenAIModel("m", spec, environ).answer([request("x")]))

    assert stub.stats()["model_lists"] == 0


@pytest.mark.parametrize("status", ["401", "403"])
def test_a_server_that_wants_a_key_where_none_is_named_has_one_named(status: str) -> None:
    script = Script(faults={"": (status,)})
    with StubServer(script) as stub, pytest.raises(ModelError, match=r"name .* null, in .*stub\.y"):
        list(hosted("chat", stub.url, key_env=None).answer([request("x")]))


def test_an_address_that_ends_in_a_version_is_reported_without_it() -> None:
    with StubServer(Script(faults={"": ("404",)})) as stub:
        root = stub.url.removesuffix("/v1")
        with pytest.raises(ModelError, match=f"set base_url to {root}, without /v1"):
            list(hosted("anthropic", f"{stub.url}/v1").answer([request("x")]))


RESTRICTED = "401-You have insufficient permissions. Missing scopes: api.model.read."


@each("status", [403, RESTRICTED, 404, 500, 429])
def test_a_server_that_lists_nothing_may_still_answer(status: int | str) -> None:
    with StubServer(Script(models_status=status)) as stub:
        [response] = hosted("chat", stub.url).answer([request("x")])
    assert response.failure is None


def test_the_server_is_looked_at_once(stub: StubServer) -> None:
    one = hosted("chat", stub.url)
    list(one.answer([request("x")]))
    list(one.answer([request("y")]))

    assert stub.stats()["model_lists"] == 1


def test_auto_takes_the_one_model_there_is() -> None:
    with StubServer(Script(models=({"id": "tiny", "root": "maker/tiny"},))) as stub:
        auto = resolved(hosted("chat", stub.url, model="auto"))
        [response] = auto.answer([request("x")])

    assert auto.identity == "openai|tiny|root=maker/tiny"
    assert response.served == "tiny"
    assert stub.stats()["model_lists"] == 1


@pytest.mark.parametrize(
    ("models", "words"), [((), "has 0: none"), (({"id": "b"}, {"id": "a"}), "has 2: a, b")]
)
def test_auto_needs_exactly_one_model(models: Sequence[Mapping[str, Any]], words: str) -> None:
    with StubServer(Script(models=tuple(models))) as stub, pytest.raises(ModelError, match=words):
        hosted("chat", stub.url, model="auto").resolve()
