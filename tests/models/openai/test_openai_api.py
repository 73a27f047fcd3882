"""The OpenAI back end against a scripted server on loopback."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.each import each
from support.resolved import resolved
from support.stub_script import Script
from support.stub_server import StubProcess, StubServer

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.openai.model import SETTINGS, OpenAIModel
from harness.parts import UNCHARGED, Decoding, Message, Mode, Reason, Usage
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
    "cut": (Reason.FAILED, "the connection was closed before the reply had ended"),
    "garbled-head": (Reason.FAILED, "Bad status line"),
    "long-header": (Reason.FAILED, "8190 bytes"),
    "late": (Reason.FAILED, "no answer within"),
    "malformed": (Reason.FAILED, "not JSON"),
    "non-utf8": (Reason.FAILED, "not JSON"),
    "html": (Reason.FAILED, "not JSON"),
    "no-choices": (Reason.FAILED, "no choices"),
    "empty-choices": (Reason.FAILED, "no choices"),
    "error-200": (Reason.FAILED, "upstream is busy"),
    "finish=error": (Reason.FAILED, "did not come to its end (finish_reason error)"),
    "finish=abort": (Reason.FAILED, "(finish_reason abort)"),
    "finish=cancelled": (Reason.FAILED, "(finish_reason cancelled)"),
    "finish=insufficient_system_resource": (Reason.FAILED, "insufficient_system_resource"),
    "not-text": (Reason.FAILED, "message.content"),
    "400": (Reason.FAILED, "400"),
    "413": (Reason.FAILED, "413"),
    "422": (Reason.FAILED, "422"),
    "400-filter": (Reason.FILTERED, "400"),
    "finish=content_filter": (Reason.FILTERED, "content filter"),
    "content-filter": (Reason.FILTERED, "content filter"),
    "refusal": (Reason.REFUSED, "rather not"),
    "reasoned-away": (Reason.TRUNCATED, "after 12 tokens, 12 of them of reasoning: give it more"),
    "length": (None, ""),
    **{f"finish={word}": (None, "The ") for word in ("", "eos", "end_turn", "STOP", "tool_calls")},
    "mislabelled": (None, "The "),
    "null": (None, ""),
    "huge": (Reason.FAILED, "it is left unread"),
    "surrogate": (None, "emoji: \ufffd"),
}
PASSING = [
    name for name, (_, word) in FAULTS.items() if word in ("429", "500", "529", "408", "409")
]
PASSING += ["cut", "malformed", "non-utf8", "html", "no-choices", "empty-choices", "error-200"]
PASSING += ["garbled-head", "long-header"]


def request(words: str, **changes: Any) -> Request:  # noqa: ANN401 - fields of Request
    blank = Request("s", "base", "answer", "m", (Message("user", words),), Decoding())
    return replace(blank, **changes)


def model(stub: StubServer | StubProcess, **spec: Any) -> OpenAIModel:  # noqa: ANN401 - its fields
    settings: dict[str, Any] = {
        "model": "stub-model",
        "base_url": stub.url,
        "key_env": "STUB_KEY",
        "attempts": 2,
    }
    return OpenAIModel("stub", OpenAISpec(**(settings | spec)), {"STUB_KEY": KEY})


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
    requests = {name: request(f"<{name}>", decoding=Decoding(n=2)) for name in FAULTS}
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


UNTOLD_TWICE = replace(UNCHARGED, unanswered=2)
CHARGES: dict[str, Usage] = {
    **dict.fromkeys(("429", "500", "400"), UNCHARGED),
    **dict.fromkeys(("cut", "garbled-head", "malformed", "error-200"), UNTOLD_TWICE),
    "late": replace(UNCHARGED, unanswered=1),  # one attempt alone
    "empty-choices": Usage(2, 24),  # two replies a call, of six tokens each
    "not-text": Usage(1, 12),
}


@each("fault", CHARGES)
def test_a_fault_says_what_its_attempts_were_charged(
    fault: str, lasting: Mapping[str, Response]
) -> None:
    """Nothing where they ended in an error status; unknown where a reply broke off."""
    assert lasting[fault].usage == CHARGES[fault]


def test_a_passing_fault_is_outlived() -> None:
    faults = {f"<{name}>": (name,) for name in PASSING}
    requests = [request(f"<{name}>") for name in PASSING]
    with StubServer(Script(faults=faults)) as server:
        responses = list(model(server).answer(requests))

    stats = server.stats()
    assert [r.failure for r in responses] == [None] * len(PASSING)
    assert (stats["requests"], stats["early_retries"]) == (2 * len(PASSING), 0)


def test_what_is_sent_is_what_was_asked_for(stub: StubServer) -> None:
    decoding = Decoding(temperature=0.5, max_tokens=7, n=3, seed=11)
    words = (Message("system", "Be brief."), Message("user", "Hello"))

    [response] = model(stub).answer([request("", messages=words, decoding=decoding)])

    assert response.texts is not None
    assert len(set(response.texts)) == 3
    assert stub.bodies == [
        {
            "model": "stub-model",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hello"},
            ],
            "max_tokens": 7,
            "temperature": 0.5,
            "n": 3,
            "seed": 11,
        }
    ]


def test_a_spec_leaves_out_and_adds_what_its_server_wants(stub: StubServer) -> None:
    spec = {"token_field": "max_completion_tokens", "extra_body": {"top_k": 4}}
    bare = model(stub, sends_temperature=False, sends_seed=False, **spec)

    list(bare.answer([request("Hello", decoding=Decoding(seed=3))]))

    assert set(stub.bodies[0]) == {"model", "messages", "max_completion_tokens", "top_k"}


def test_a_server_of_one_reply_a_call_is_asked_as_often_each_time_with_another_seed() -> None:
    asked = request("two words", decoding=Decoding(0.7, n=3, seed=11))
    with StubServer(Script(faults={"": ("n-ignored",) * 9})) as stub:
        [response] = model(stub, sends_n=False).answer([asked])

    assert (len(response.texts or ()), response.usage.completion_tokens) == (3, 18)
    assert [body["seed"] for body in stub.bodies] == [11, 12, 13]
    assert ["n" in body for body in stub.bodies] == [False] * 3


def test_a_server_that_ignores_n_stops_the_run_and_what_was_paid_is_reported() -> None:
    asked = [request(str(n), decoding=Decoding(0.7, n=3)) for n in range(100)]
    found = list[Response]()
    with StubServer(Script(faults={"": ("n-ignored",)})) as stub:
        answers = model(stub, concurrency=1).answer(asked)
        with pytest.raises(ModelError, match=r"3 answers .* and 1 came: .* set sends_n: false"):
            found += iter(answers)

    assert failure_of(found[0])[0] == Reason.FAILED
    assert (found[0].usage.completion_tokens, stub.stats()["requests"]) == (6, 20)


def test_a_reasoning_model_has_room_with_the_answer_and_is_reported_how_much_to_reason(
    stub: StubServer,
) -> None:
    spec = {"reasoning_effort": "low", "reasoning_max_tokens": 1000, "sends_temperature": False}

    list(model(stub, **spec).answer([request("Hello", decoding=Decoding(max_tokens=40))]))

    assert stub.bodies[0]["max_tokens"] == 1040
    assert stub.bodies[0]["reasoning_effort"] == "low"


@each(("field", "setting"), SETTINGS.items())
def test_a_field_the_model_does_not_take_stops_the_run_with_what_to_set(
    field: str, setting: str
) -> None:
    script = Script(faults={"": (f"400-unsupported_parameter={field}",)})
    with StubServer(script) as stub, pytest.raises(ModelError, match=f"set {setting} for 'stub-m"):
        list(model(stub).answer([request("x")]))


@pytest.mark.parametrize("status", ["400", "404"])
def test_a_model_that_is_asked_by_the_other_api_alone_stops_the_run_with_that(status: str) -> None:
    script = Script(faults={"": (f"{status}-only supported in v1/responses",)})
    with StubServer(script) as stub, pytest.raises(ModelError, match="set api: responses for"):
        list(model(stub).answer([request("x")]))


SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}


def test_a_server_is_asked_to_hold_each_of_several_replies_to_a_schema(stub: StubServer) -> None:
    asked = request("Rate this.", schema=SCHEMA, decoding=Decoding(n=3))

    [response] = model(stub).answer([asked])

    form = {"name": "reply", "strict": True, "schema": SCHEMA}
    assert stub.bodies[0]["response_format"] == {"type": "json_schema", "json_schema": form}
    assert len(response.texts or ()) == 3


@pytest.mark.parametrize("status", ["400", "422"])
def test_a_server_that_refuses_schemas_stops_the_run_with_a_remedy(status: str) -> None:
    script = Script(faults={"": (f"{status}-response_format",)})
    with StubServer(script) as stub, pytest.raises(ModelError, match="is_structured_output: false"):
        list(model(stub).answer([request("x", schema=SCHEMA)]))


@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_a_refusal_that_names_no_cause_fails_the_item_alone(
    schema: Mapping[str, Any] | None,
) -> None:
    with StubServer(Script(faults={"": ("400",)})) as stub:
        [response] = model(stub).answer([request("x", schema=schema)])

    assert failure_of(response)[0] == Reason.FAILED


def test_a_response_says_tokens_snapshot_and_stop(stub: StubServer) -> None:
    [response] = model(stub).answer([request("two words")])

    assert (response.usage.prompt_tokens, response.usage.completion_tokens) == (2, 6)
    assert (response.served, response.stop) == ("stub-model", "stop")


@pytest.mark.parametrize(
    ("fault", "count"), [("reasoned-away", 12), ("reasoned", 4), ("details-odd", None), ("", None)]
)
def test_tokens_of_reasoning_are_counted_among_those_of_the_completion(
    fault: str, count: int | None
) -> None:
    with StubServer(Script(faults={"": (fault,)})) as stub:
        [response] = model(stub).answer([request("two words")])

    usage = response.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens) == (2, 6, count)


def test_a_mode_a_server_does_not_have_is_unsupported(stub: StubServer) -> None:
    [response] = model(stub).answer([request("x", mode=Mode.CHOOSE)])

    assert failure_of(response)[0] == Reason.UNSUPPORTED
    assert stub.stats()["requests"] == 0


def embedding(text: str) -> Request:
    return request(text, mode=Mode.EMBED)


def test_an_embedding_has_one_vector_its_tokens_and_its_snapshot(stub: StubServer) -> None:
    first, again, other = sorted(
        model(stub).answer([embedding("two words"), embedding("two words"), embedding("three")]),
        key=lambda response: response.usage.prompt_tokens or 0,
        reverse=True,
    )

    assert first.vectors is not None
    assert len(first.vectors[0]) == 8
    assert (first.vectors, first.usage.prompt_tokens, first.served) == (
        again.vectors,
        2,
        "stub-model",
    )
    assert other.vectors != first.vectors


def test_an_embedding_is_asked_for_in_numbers_and_with_the_extra_body(stub: StubServer) -> None:
    list(model(stub, extra_body={"dimensions": 8}).answer([embedding("Hello")]))

    assert stub.bodies == [
        {"model": "stub-model", "input": "Hello", "encoding_format": "float", "dimensions": 8}
    ]


def embedded(faults: Sequence[str], *, times: int, **spec: int) -> dict[str, Response]:
    """What each fault, met so many times, makes of an embedding; all are asked at once."""
    asked = {embedding(f"<{fault}>").key: fault for fault in faults}
    with StubServer(Script(faults={f"<{f}>": (f,) * times for f in faults})) as stub:
        found = model(stub, **spec).answer([embedding(f"<{fault}>") for fault in faults])
        return {asked[response.key]: response for response in found}


def test_an_embedding_that_is_none_is_a_failure() -> None:
    words = {
        "nan-vector": "vector of 2 numbers is not finite",
        "zero-vector": "vector of 2 numbers is empty or all zeros",
        "empty-vector": "vector of 0 numbers",
        "text-vector": "not an embedding: Expected `float`",
        "no-data": "sent no data",
        "malformed": "not JSON",
        "500": "500",
        "429": "429",
    }

    failures = {fault: failure_of(found) for fault, found in embedded([*words], times=9).items()}

    assert {fault: reason for fault, (reason, _) in failures.items()} == dict.fromkeys(
        words, Reason.FAILED
    )
    assert [fault for fault, (_, message) in failures.items() if words[fault] not in message] == []


def test_a_finished_run_needs_neither_key_nor_server() -> None:
    nowhere = OpenAISpec(model="m", base_url="http://127.0.0.1:9/v1")

    assert list(OpenAIModel("m", nowhere, {}).answer([])) == []


@pytest.mark.parametrize("environ", [{}, {"STUB_KEY": "  "}, {"STUB_KEY": "sk-\u2013"}])
def test_a_missing_or_mangled_key_is_named_by_its_variable(environ: dict[str, str]) -> None:
    with StubServer() as stub:
        keyless = OpenAIModel(
            "m", OpenAISpec(model="m", base_url=stub.url, key_env="STUB_KEY"), environ
        )

        with pytest.raises(ModelError, match="STUB_KEY"):
            list(keyless.answer([request("x")]))

    assert stub.stats()["model_lists"] == 0


@pytest.mark.parametrize(
    ("fault", "count"),
    [("key-told", 2), ("key-stop", 1)],  # text and snapshot; the word for the end
)
def test_a_key_that_a_reply_repeats_is_masked_before_it_is_kept(fault: str, count: int) -> None:
    with StubServer(Script(faults={"": (fault,)})) as stub:
        [response] = model(stub).answer([request("x")])

    assert repr(response).count("[STUB_KEY]") == count
    assert KEY not in repr(response)


@each(
    ("fault", "remedy"),
    [
        ("401", "check the key in STUB_KEY"),
        ("403", "check that the key in STUB_KEY may use model 'stub-model'"),
        ("404", "check that there is a model 'stub-model', or set base_url"),
        ("429-quota", "account"),
        ("402", "see the account's credit"),
        ("500-Only one completion choice is allowed", "set sends_n: false for 'stub-model'"),
    ],
)
def test_an_error_no_retry_mends_stops_the_run(fault: str, remedy: str) -> None:
    with StubServer(Script(faults={"": (fault,)})) as stub:
        with pytest.raises(ModelError, match=remedy):
            list(model(stub, concurrency=1).answer(request(str(n)) for n in range(100)))

        assert stub.stats()["requests"] == 1


@pytest.mark.parametrize("status", ["401", "403"])
def test_a_server_that_wants_a_key_where_none_is_named_has_one_named(status: str) -> None:
    with StubServer(Script(faults={"": (status,)})) as stub:
        wanting = OpenAIModel("m", OpenAISpec(model="m", base_url=stub.url, key_env=None), {})
        with pytest.raises(ModelError, match=r"name the variable .*, now null, in .*m\.yaml"):
            list(wanting.answer([request("x")]))


RESTRICTED = "401-You have insufficient permissions. Missing scopes: api.model.read."


@each("status", [403, RESTRICTED, 404, 500, 429])
def test_a_server_that_lists_nothing_may_still_answer(status: int | str) -> None:
    with StubServer(Script(models_status=status)) as stub:
        [response] = model(stub).answer([request("x")])

    assert response.failure is None


def test_the_server_is_looked_at_once(stub: StubServer) -> None:
    one = model(stub)

    list(one.answer([request("x")]))
    list(one.answer([request("y")]))

    assert stub.stats()["model_lists"] == 1


def test_auto_takes_the_one_model_there_is() -> None:
    with StubServer(Script(models=({"id": "tiny", "root": "maker/tiny"},))) as stub:
        auto = resolved(model(stub, model="auto"))
        [response] = auto.answer([request("x")])

    assert auto.identity == "openai|tiny|root=maker/tiny"
    assert response.served == "tiny"
    assert stub.stats()["model_lists"] == 1


@pytest.mark.parametrize(
    ("models", "words"), [((), "has 0: none"), (({"id": "b"}, {"id": "a"}), "has 2: a, b")]
)
def test_auto_needs_exactly_one_model(models: Sequence[Mapping[str, Any]], words: str) -> None:
    with StubServer(Script(models=tuple(models))) as stub, pytest.raises(ModelError, match=words):
        model(stub, model="auto").resolve()
