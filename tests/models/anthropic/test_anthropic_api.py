"""What is Anthropic's own in calls and replies, against a scripted server on loopback."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from support.each import each
from support.stub_script import Script
from support.stub_server import StubProcess, StubServer

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.anthropic.model import AnthropicModel
from harness.parts import Decoding, Message, Mode, Reason
from harness.specs.models import AnthropicSpec
from harness.text.parsers import rating

KEY = "sk-ant-a-key-nobody-may-see"
# fault: why there is no answer (None: there is one), and a word of the message or of the text
FAULTS: dict[str, tuple[Reason | None, str]] = {
    "429": (Reason.FAILED, "429"),
    "500": (Reason.FAILED, "500"),
    "529": (Reason.FAILED, "529"),
    "malformed": (Reason.FAILED, "not JSON"),
    "null": (Reason.FAILED, "no content"),
    "error-200": (Reason.FAILED, "upstream is busy"),
    "not-text": (Reason.FAILED, "not well formed (content)"),
    "400": (Reason.FAILED, "400"),
    "400-Output blocked by content filtering policy": (Reason.FILTERED, "blocked by content"),
    "refusal": (Reason.REFUSED, "the model refused (stop_reason refusal)"),
    "thought-away": (Reason.TRUNCATED, "after 64 tokens, 64 of them of reasoning"),
    "mislabelled": (None, "The "),
    "length": (None, "The "),
    "window": (None, "The "),
    "empty": (None, ""),
    "thinking": (None, "In short: The "),
    "other-tool": (None, ""),
    "huge": (Reason.FAILED, "10500000 characters"),
    "surrogate": (None, "emoji: \ufffd"),
}
SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}


def request(words: str, **changes: Any) -> Request:  # noqa: ANN401 - fields of Request
    blank = Request("s", "base", "answer", "m", (Message("user", words),), Decoding())
    return replace(blank, **changes)


def url(stub: StubServer | StubProcess) -> str:
    return stub.url.removesuffix("/v1")


def model(stub: StubServer | StubProcess, **spec: Any) -> AnthropicModel:  # noqa: ANN401 - its fields
    settings: dict[str, Any] = {"model": "m", "base_url": url(stub), "key_env": "STUB_KEY"}
    return AnthropicModel("stub", AnthropicSpec(**(settings | {"attempts": 2} | spec)), ENVIRON)


ENVIRON = {"STUB_KEY": KEY}


def failure_of(response: Response) -> tuple[Reason | None, str]:
    assert response.failure is not None
    return response.failure.reason, response.failure.message


@pytest.fixture
def stub() -> Iterator[StubServer]:
    with StubServer() as server:
        yield server


@pytest.fixture(scope="module")
def lasting() -> dict[str, Response]:
    """What each fault comes to when every attempt meets it."""
    requests = {name: request(f"<{name}>") for name in FAULTS}
    with StubServer(Script(faults={f"<{n}>": (n,) * 2 for n in FAULTS})) as server:
        responses = list(model(server).answer(requests.values()))
    names = {asked.key: name for name, asked in requests.items()}
    return {names[response.key]: response for response in responses}


@each("fault", FAULTS)
def test_a_lasting_fault_ends_as_its_reason(fault: str, lasting: Mapping[str, Response]) -> None:
    reason, word = FAULTS[fault]
    response = lasting[fault]

    assert (response.failure.reason if response.failure else None) == reason
    assert word in (response.failure.message if response.failure else (response.texts or ("",))[0])


@pytest.mark.parametrize(
    ("fault", "stop"),
    [("length", "length"), ("window", "length"), ("thinking", "end_turn"), ("empty", "end_turn")],
)
def test_an_answer_cut_at_its_length_still_counts_and_says_so(
    fault: str, stop: str, lasting: Mapping[str, Response]
) -> None:
    assert lasting[fault].stop == stop


def test_what_is_sent_is_what_was_asked_for(stub: StubServer) -> None:
    turns = ("user", "Hello"), ("assistant", "Yes?"), ("user", "Go on")
    words = (Message("system", "Be brief."), *(Message(r, w) for r, w in turns))  # type: ignore[arg-type]  # roles

    list(model(stub).answer([request("", messages=words, decoding=Decoding(0.5, 7, seed=11))]))

    assert stub.bodies == [
        {
            "model": "m",
            "max_tokens": 7,
            "system": "Be brief.",
            "messages": [{"role": role, "content": said} for role, said in turns],
            "temperature": 0.5,
        }
    ]


@pytest.mark.parametrize(
    ("roles", "system"),
    [(["user"], None), (["system", "user"], "0"), (["system", "user", "system"], "0\n\n2")],
)
def test_system_turns_are_sent_apart_and_only_where_there_are_any(
    stub: StubServer, roles: list[Any], system: str | None
) -> None:
    words = tuple(Message(role, str(place)) for place, role in enumerate(roles))

    list(model(stub).answer([request("", messages=words)]))

    assert stub.bodies[0].get("system") == system
    assert [turn["role"] for turn in stub.bodies[0]["messages"]] == ["user"]


@pytest.mark.parametrize(
    ("spec", "sent"),
    [
        ({}, {"temperature": 0.0}),
        ({"sends_temperature": False}, {}),
        ({"extra_body": {"top_k": 4}}, {"temperature": 0.0, "top_k": 4}),
        ({"sends_temperature": False, "extra_body": {"top_k": 4}}, {"top_k": 4}),
    ],
)
def test_a_spec_leaves_out_and_adds_what_its_model_wants(
    stub: StubServer, spec: dict[str, Any], sent: dict[str, Any]
) -> None:
    list(model(stub, **spec).answer([request("Hello")]))

    always = {"model": "m", "max_tokens": 256, "messages": [{"role": "user", "content": "Hello"}]}
    assert stub.bodies == [always | sent]


def filled(**form: object) -> Script:
    return Script(replies={"": (json.dumps(form),)})


def test_a_reply_in_a_form_is_a_forced_tool_call_and_comes_back_as_its_json() -> None:
    with StubServer(filled(analysis="caf\u00e9 \ud83d", score=4)) as stub:
        [response] = model(stub).answer([request("Rate this.", schema=SCHEMA)])

    [body] = stub.bodies
    assert body["tools"] == [{"name": "reply", "input_schema": SCHEMA}]
    assert body["tool_choice"] == {"type": "tool", "name": "reply"}
    assert response.texts == ('{"analysis": "caf\u00e9 \ufffd", "score": 4}',)
    assert rating(response.texts[0], low=0, high=5) == 4


@pytest.mark.parametrize(("schema", "can"), [(None, True), (SCHEMA, False), (None, False)])
def test_no_form_is_sent_where_none_is_asked_for_or_known(
    stub: StubServer, schema: Mapping[str, Any] | None, can: bool
) -> None:
    list(model(stub, is_structured_output=can).answer([request("x", schema=schema)]))

    assert not {"tools", "tool_choice"} & set(stub.bodies[0])


@pytest.mark.parametrize(
    ("fault", "text"), [("untooled", "4, I think"), ("other-tool", ""), ("empty", "")]
)
def test_a_form_that_was_not_filled_in_leaves_the_words(fault: str, text: str) -> None:
    with StubServer(Script(faults={"": (fault,)}, replies={"": ("4, I think",)})) as stub:
        [response] = model(stub).answer([request("Rate this.", schema=SCHEMA)])

    assert response.texts == (text,)


@pytest.mark.parametrize("extra", [{}, {"output_config": {"effort": "low"}}])
def test_a_reply_in_a_form_can_be_asked_for_by_a_schema_without_bounds(
    stub: StubServer, extra: dict[str, Any]
) -> None:
    bounded = {"type": "integer", "minimum": 0, "maximum": 5}
    schema = SCHEMA | {"properties": {"score": bounded, "minimum": {"type": "string"}}}

    list(model(stub, form="schema", extra_body=extra).answer([request("x", schema=schema)]))

    fields = {"score": {"type": "integer"}, "minimum": {"type": "string"}}
    form = {"type": "json_schema", "schema": SCHEMA | {"properties": fields}}
    assert stub.bodies[0]["output_config"] == extra.get("output_config", {}) | {"format": form}
    assert not {"tools", "tool_choice"} & set(stub.bodies[0])


def test_a_model_that_takes_no_temperature_stops_the_run_with_what_to_set() -> None:
    script = Script(faults={"": ("400-temperature: not supported",)})
    with StubServer(script) as stub, pytest.raises(ModelError, match="sends_temperature: false"):
        list(model(stub).answer([request("x")]))


@pytest.mark.parametrize("name", ["tool_choice: not supported", "Thinking may not force tool use"])
def test_a_model_that_cannot_be_made_to_fill_in_a_form_stops_the_run(name: str) -> None:
    script = Script(faults={"": (f"400-{name}",)})
    with StubServer(script) as stub, pytest.raises(ModelError, match="is_structured_output: false"):
        list(model(stub).answer([request("x", schema=SCHEMA)]))


@pytest.mark.parametrize(("schema", "fault"), [(None, "400-tools"), (SCHEMA, "400-else")])
def test_another_invalid_request_fails_its_item_alone(
    schema: Mapping[str, Any] | None, fault: str
) -> None:
    with StubServer(Script(faults={"": (fault,)})) as stub:
        [response] = model(stub).answer([request("x", schema=schema)])

    assert failure_of(response)[0] == Reason.FAILED


def test_several_replies_are_asked_for_one_by_one_and_joined() -> None:
    told = iter(("one", "two", "three"))
    with StubServer(reply=lambda _: next(told)) as stub:
        [response] = model(stub).answer([request("two words", decoding=Decoding(0.7, n=3))])

    assert response.texts == ("one", "two", "three")
    assert (response.usage.prompt_tokens, response.usage.completion_tokens) == (6, 18)
    assert [body["temperature"] for body in stub.bodies] == [0.7] * 3


@pytest.mark.parametrize(
    ("fault", "prompt", "completion"),
    [("", 2, 6), ("cached", 432, 6), ("usage-null", None, None), ("usage-odd", None, None)],
)
def test_tokens_are_counted_with_those_of_a_cached_prompt_where_they_are_reported(
    fault: str, prompt: int | None, completion: int | None
) -> None:
    with StubServer(Script(faults={"": (fault,)})) as stub:
        [response] = model(stub).answer([request("two words")])

    assert (response.usage.prompt_tokens, response.usage.completion_tokens) == (prompt, completion)
    assert (response.served, response.failure) == ("m", None)


@pytest.mark.parametrize("mode", [Mode.CHOOSE, Mode.CHOOSE_TOKEN, Mode.EMBED])
def test_a_mode_the_api_does_not_have_is_unsupported(stub: StubServer, mode: Mode) -> None:
    [response] = model(stub).answer([request("x", mode=mode)])

    assert failure_of(response)[0] == Reason.UNSUPPORTED
    assert stub.stats()["requests"] == 0


@each(
    ("fault", "remedy"),
    [
        ("401", "check the key in STUB_KEY"),
        ("402", "see the account's credit"),
        ("403", "check that the key in STUB_KEY may use model 'm'"),
        ("404", "check that there is a model 'm', or set base_url"),
        ("400-credit balance is too low", "see the account's credit"),
    ],
)
def test_an_error_no_retry_mends_stops_the_run(fault: str, remedy: str) -> None:
    with StubServer(Script(faults={"": (fault,)})) as stub:
        with pytest.raises(ModelError, match=remedy):
            list(model(stub, concurrency=1).answer(request(str(n)) for n in range(100)))

        assert stub.stats()["requests"] == 1


def test_an_address_that_ends_in_a_version_is_reported_without_it() -> None:
    with StubServer(Script(faults={"": ("404",)})) as stub:
        spec = AnthropicSpec(model="m", base_url=f"{url(stub)}/v1", key_env=None)
        with pytest.raises(ModelError, match=f"set base_url to {url(stub)}, without /v1"):
            list(AnthropicModel("m", spec, {}).answer([request("x")]))
