"""OpenAI's responses API, with the real client library against a scripted server on loopback."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from support.each import each
from support.stub_script import Script
from support.stub_server import StubProcess, StubServer

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.openai.model import OpenAIModel
from harness.parts import Decoding, Message, Mode, Reason, Usage
from harness.specs.models import OpenAISpec

KEY = "sk-a-key-nobody-may-see"
# fault: why there is no answer (None: there is one), and a word of the message or of the text
FAULTS: dict[str, tuple[Reason | None, str]] = {
    "429": (Reason.FAILED, "429"),
    "429-date": (Reason.FAILED, "429"),
    "408": (Reason.FAILED, "408"),
    "409": (Reason.FAILED, "409"),
    "500": (Reason.FAILED, "500"),
    "529": (Reason.FAILED, "529"),
    "cut": (Reason.FAILED, "the connection was closed"),
    "garbled-head": (Reason.FAILED, "Bad status line"),
    "long-header": (Reason.FAILED, "8190 bytes"),
    "late": (Reason.FAILED, "no answer within"),
    "malformed": (Reason.FAILED, "not JSON"),
    "non-utf8": (Reason.FAILED, "not JSON"),
    "html": (Reason.FAILED, "not JSON"),
    "null": (Reason.FAILED, "sent no output"),
    "error-200": (Reason.FAILED, "upstream is busy"),
    "failed-server": (Reason.FAILED, "server_error: The server had an error."),
    "failed-rate": (Reason.FAILED, "rate_limit_exceeded: Slow down."),
    "failed-image": (Reason.FAILED, "image_parse_error"),
    "failed-mute": (Reason.FAILED, "failed: it does not say why"),
    "queued": (Reason.FAILED, "leave background out of extra_body"),
    "cancelled": (Reason.FAILED, "did not answer: cancelled"),
    "steered": (Reason.FAILED, "did not come to its end (incomplete: steered)"),
    "unfinished": (Reason.FAILED, "did not come to its end (incomplete: None)"),
    "not-text": (Reason.FAILED, "not a response"),
    "400": (Reason.FAILED, "400"),
    "413": (Reason.FAILED, "413"),
    "422": (Reason.FAILED, "422"),
    "400-filter": (Reason.FILTERED, "400"),
    "content-filter": (Reason.FILTERED, "content filter"),
    "failed-policy": (Reason.FILTERED, "Flagged"),
    "refusal": (Reason.REFUSED, "rather not"),
    "half-refusal": (Reason.REFUSED, "rather not"),
    "reasoned-away": (Reason.TRUNCATED, "after 64 tokens, 64 of them of reasoning"),
    "length": (None, "The "),
    "mislabelled": (None, "The "),
    "empty": (None, ""),
    "thought-only": (None, ""),
    "bare": (None, "The "),
    "commentary": (None, "The "),
    "tool": (None, "The "),
    "parts": (None, "The end."),
    "huge": (Reason.FAILED, "10500000 characters"),
    "surrogate": (None, "emoji: \ufffd"),
}
PASSING = ["429", "408", "409", "500", "529", "cut", "malformed", "non-utf8", "html", "null"]
PASSING += ["error-200", "failed-server", "failed-rate", "garbled-head", "long-header"]
SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}


def request(words: str, **changes: Any) -> Request:  # noqa: ANN401 - fields of Request
    blank = Request("s", "base", "answer", "m", (Message("user", words),), Decoding())
    return replace(blank, **changes)


def model(stub: StubServer | StubProcess, **spec: Any) -> OpenAIModel:  # noqa: ANN401 - its fields
    settings: dict[str, Any] = {"model": "m", "base_url": stub.url, "key_env": "STUB_KEY"}
    settings |= {"api": "responses", "attempts": 2} | spec
    return OpenAIModel("stub", OpenAISpec(**settings), {"STUB_KEY": KEY})


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
    late = requests.pop("late")
    with StubServer(Script(faults={f"<{n}>": (n,) * 2 for n in FAULTS}, late_s=0.4)) as server:
        responses = list(model(server, concurrency=40).answer(requests.values()))
        responses += model(server, attempts=1, timeout_s=0.1).answer([late])
    names = {asked.key: name for name, asked in (requests | {"late": late}).items()}
    return {names[response.key]: response for response in responses}


@each("fault", FAULTS)
def test_a_lasting_fault_ends_as_its_reason(fault: str, lasting: Mapping[str, Response]) -> None:
    reason, word = FAULTS[fault]
    response = lasting[fault]

    assert (response.failure.reason if response.failure else None) == reason
    assert word in (response.failure.message if response.failure else (response.texts or ("",))[0])


@pytest.mark.parametrize(
    ("fault", "stop"),
    [("length", "length"), ("empty", "stop"), ("bare", "stop")],
)
def test_an_answer_says_how_it_ended(
    fault: str, stop: str, lasting: Mapping[str, Response]
) -> None:
    assert lasting[fault].stop == stop


@pytest.mark.parametrize("fault", ["length", "commentary", "tool"])
def test_thoughts_and_remarks_are_no_part_of_an_answer(
    fault: str, lasting: Mapping[str, Response]
) -> None:
    assert (lasting[fault].texts or ("",))[0].startswith("The ")


def test_a_budget_that_went_into_reasoning_is_reported_with_what_to_do(
    lasting: Mapping[str, Response],
) -> None:
    message = failure_of(lasting["reasoned-away"])[1]

    assert message.startswith("cut before the first word of an answer")
    assert "max_tokens" in message
    assert "reasoning_max_tokens" in message


def test_what_is_sent_is_what_was_asked_for_and_kept_by_nobody(stub: StubServer) -> None:
    turns = ("system", "Be brief."), ("user", "Hello"), ("assistant", "Yes?"), ("user", "Go on")
    words = tuple(Message(role, said) for role, said in turns)  # type: ignore[arg-type]  # roles

    list(model(stub).answer([request("", messages=words, decoding=Decoding(0.5, 70, seed=11))]))

    assert stub.bodies == [
        {
            "model": "m",
            "input": [{"role": role, "content": said} for role, said in turns],
            "max_output_tokens": 70,
            "store": False,
            "stream": False,
            "temperature": 0.5,
        }
    ]


@pytest.mark.parametrize(
    ("spec", "sent"),
    [
        ({"sends_temperature": False}, {}),
        ({"sends_temperature": False, "reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}),
        ({"extra_body": {"top_p": 0.9}}, {"temperature": 0.0, "top_p": 0.9}),
        (
            {"extra_body": {"text": {"verbosity": "low"}}},
            {"temperature": 0.0, "text": {"verbosity": "low"}},
        ),
        ({"token_field": "max_completion_tokens"}, {"temperature": 0.0}),
    ],
)
def test_a_spec_leaves_out_and_adds_what_its_model_wants(
    stub: StubServer, spec: dict[str, Any], sent: dict[str, Any]
) -> None:
    list(model(stub, **spec).answer([request("Hello")]))

    always = {"model": "m", "input": [{"role": "user", "content": "Hello"}], "store": False}
    assert stub.bodies == [always | {"max_output_tokens": 256, "stream": False} | sent]


@pytest.mark.parametrize(
    ("asked", "beside", "sent"), [(1, 0, 16), (16, 0, 16), (17, 0, 17), (8, 1000, 1008)]
)
def test_a_reply_has_room_for_reasoning_and_no_less_than_the_api_takes(
    stub: StubServer, asked: int, beside: int, sent: int
) -> None:
    one = model(stub, reasoning_max_tokens=beside)

    list(one.answer([request("x", decoding=Decoding(max_tokens=asked))]))

    assert stub.bodies[0]["max_output_tokens"] == sent


def test_a_reply_is_held_to_a_schema_by_its_text_format(stub: StubServer) -> None:
    list(model(stub).answer([request("Rate this.", schema=SCHEMA)]))

    form = {"type": "json_schema", "name": "reply", "strict": True, "schema": SCHEMA}
    assert stub.bodies[0]["text"] == {"format": form}


def test_a_form_leaves_what_else_is_said_of_the_text(stub: StubServer) -> None:
    body = {"text": {"verbosity": "low"}, "top_p": 0.9}
    list(model(stub, extra_body=body).answer([request("Rate this.", schema=SCHEMA)]))

    assert stub.bodies[0]["text"].keys() == {"verbosity", "format"}
    assert stub.bodies[0]["top_p"] == 0.9


def test_several_replies_are_as_many_calls_and_all_their_tokens_count() -> None:
    told = iter(("one", "two", "three"))
    with StubServer(reply=lambda _: next(told)) as stub:
        [response] = model(stub).answer([request("two words", decoding=Decoding(0.7, n=3))])

    assert response.texts == ("one", "two", "three")
    assert response.usage == Usage(6, 27, reasoning_tokens=9)
    assert ["n" in body for body in stub.bodies] == [False] * 3


@pytest.mark.parametrize(
    ("fault", "usage"),
    [
        ("", Usage(2, 9, reasoning_tokens=3)),
        ("usage-bare", Usage(2, 6)),
        ("usage-null", Usage()),
        ("usage-odd", Usage()),
    ],
)
def test_tokens_are_counted_where_they_are_reported(fault: str, usage: Usage) -> None:
    with StubServer(Script(faults={"": (fault,)})) as stub:
        [response] = model(stub).answer([request("two words")])

    assert (response.usage, response.failure) == (usage, None)


@pytest.mark.parametrize("mode", [Mode.CHOOSE, Mode.CHOOSE_TOKEN])
def test_choices_are_not_asked_for_and_the_remedy_is_the_other_api(
    stub: StubServer, mode: Mode
) -> None:
    [response] = model(stub).answer([request("x", mode=mode)])

    assert failure_of(response)[0] == Reason.UNSUPPORTED
    assert "api: chat" in failure_of(response)[1]
    assert stub.stats()["requests"] == 0


@each(
    ("fault", "remedy"),
    [
        ("401", "check the key in STUB_KEY"),
        ("404", "check that there is a model 'm', or set base_url, or set api: chat"),
        ("405", "or set api: chat"),
        ("400-text.format", "set is_structured_output: false for 'm'"),
        ("400-unsupported_parameter=text.format", "set is_structured_output: false for 'm'"),
        ("400-unsupported_parameter=temperature", "set sends_temperature: false for 'm'"),
        ("400-unsupported_value=reasoning.effort", "set another reasoning_effort, or none"),
        ("429-quota", "account"),
    ],
)
def test_an_error_no_retry_mends_stops_the_run(fault: str, remedy: str) -> None:
    asked = (request(str(n), schema=SCHEMA) for n in range(100))
    with StubServer(Script(faults={"": (fault,)})) as stub:
        with pytest.raises(ModelError, match=remedy):
            list(model(stub, concurrency=1).answer(asked))

        assert stub.stats()["requests"] == 1
