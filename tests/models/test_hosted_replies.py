"""What replies and errors of three APIs come to, against a scripted server on loopback."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from support.each import each
from support.hosted import APIS, KEY, SCHEMA, Api, failure_of, hosted, met, request
from support.stub_script import Script
from support.stub_server import StubServer

from harness.core import Response
from harness.errors import ModelError
from harness.parts import UNCHARGED, Decoding, Failure, Mode, Reason, Usage

FAILED, FILTERED = Reason.FAILED, Reason.FILTERED
REFUSED, TRUNCATED = Reason.REFUSED, Reason.TRUNCATED
Faults = Mapping[str, tuple[Reason | None, str]]
"""By fault: why there is no answer (None: there is one), and a word of the message or the text."""
SHARED: Faults = {
    **{name: (FAILED, name[:3]) for name in ("429", "429-date", "408", "409", "500", "529")},
    "cut": (FAILED, "payload is not completed"),
    "hung-up": (FAILED, "no reply (Server disconnected)"),
    "garbled-head": (FAILED, "no reply (400, message"),
    "long-header": (FAILED, "8190 bytes"),
    **dict.fromkeys(("malformed", "non-utf8", "html"), (FAILED, "not JSON")),
    "error-200": (FAILED, "upstream is busy"),
    **{name: (FAILED, name) for name in ("400", "413", "422")},
    "mislabelled": (None, "The "),
    "surrogate": (None, "emoji: \ufffd"),
}
OWN: Mapping[Api, Faults] = {
    "chat": {
        **dict.fromkeys(("no-choices", "empty-choices"), (FAILED, "no choices")),
        "finish=error": (FAILED, "did not come to its end (finish_reason error)"),
        "finish=abort": (FAILED, "(finish_reason abort)"),
        "finish=cancelled": (FAILED, "(finish_reason cancelled)"),
        "finish=insufficient_system_resource": (FAILED, "insufficient_system_resource"),
        "not-text": (FAILED, "message.content"),
        "400-filter": (FILTERED, "400"),
        "finish=content_filter": (FILTERED, "content filter"),
        "content-filter": (FILTERED, "content filter"),
        "refusal": (REFUSED, "rather not"),
        "reasoned-away": (TRUNCATED, "after 12 tokens, 12 of reasoning: give it more"),
        "length": (None, ""),
        **{f"finish={end}": (None, "The ") for end in ("", "eos", "end_turn", "STOP", "tool_use")},
        "null": (None, ""),
        "huge": (FAILED, "it is left unread"),
    },
    "responses": {
        "null": (FAILED, "sent no output"),
        "failed-server": (FAILED, "server_error: The server had an error."),
        "failed-rate": (FAILED, "rate_limit_exceeded: Slow down."),
        "failed-image": (FAILED, "image_parse_error"),
        "failed-mute": (FAILED, "failed: it does not say why"),
        "queued": (FAILED, "leave background out of extra_body"),
        "cancelled": (FAILED, "did not answer: cancelled"),
        "steered": (FAILED, "did not come to its end (incomplete: steered)"),
        "unfinished": (FAILED, "did not come to its end (incomplete: None)"),
        "not-text": (FAILED, "not a response"),
        "400-filter": (FILTERED, "400"),
        "content-filter": (FILTERED, "content filter"),
        "failed-policy": (FILTERED, "Flagged"),
        **dict.fromkeys(("refusal", "half-refusal"), (REFUSED, "rather not")),
        "reasoned-away": (TRUNCATED, "cut before the first word of an answer after 64 tokens, 64"),
        **dict.fromkeys(("length", "bare", "commentary", "tool"), (None, "The ")),
        **dict.fromkeys(("empty", "thought-only"), (None, "")),
        "parts": (None, "The end."),
        "huge": (FAILED, "10500000 characters"),
    },
    "anthropic": {
        "null": (FAILED, "no content"),
        "not-text": (FAILED, "not well formed (content)"),
        "400-Output blocked by content filtering policy": (FILTERED, "blocked by content"),
        "refusal": (REFUSED, "the model refused (stop_reason refusal)"),
        "thought-away": (TRUNCATED, "after 64 tokens, 64 of reasoning"),
        **dict.fromkeys(("length", "window"), (None, "The ")),
        **dict.fromkeys(("empty", "other-tool"), (None, "")),
        "thinking": (None, "In short: The "),
        "huge": (FAILED, "10500000 characters"),
    },
}
PASSING = [name for name, (reason, _) in SHARED.items() if reason and name[:2] not in ("40", "41")]
PASSING = [name for name in PASSING if name != "422"] + ["408", "409"]
TWO = {"decoding": Decoding(n=2)}


@pytest.fixture(scope="module")
def every() -> dict[Api, dict[str, Response]]:
    """What each fault of each API comes to: all wait at once before they are tried again."""
    with ThreadPoolExecutor() as pool:
        asked = (TWO if api == "chat" else {} for api in APIS)
        found = pool.map(met, APIS, [{**SHARED, **OWN[api]} for api in APIS], asked)
        return dict(zip(APIS, found, strict=True))


@pytest.fixture(params=APIS)
def lasting(
    request: pytest.FixtureRequest, every: dict[Api, dict[str, Response]]
) -> tuple[Api, dict[str, Response]]:
    return request.param, every[request.param]


def test_a_lasting_fault_ends_as_its_reason(lasting: tuple[Api, dict[str, Response]]) -> None:
    api, found = lasting

    wrong = {}
    for fault, (reason, word) in ({**SHARED, **OWN[api]}).items():
        failure, texts = found[fault].failure, found[fault].texts or ("",)
        said = failure.message if failure else texts[0]
        if (failure.reason if failure else None) is not reason or word not in said:
            wrong[fault] = (failure, said[:80])
    assert wrong == {}


TWICE = replace(UNCHARGED, unanswered=2)
CHARGES: Mapping[str, Usage] = {
    **dict.fromkeys(("429", "500", "400"), UNCHARGED),
    **dict.fromkeys(("cut", "hung-up", "garbled-head", "malformed"), TWICE),
}
CHAT_CHARGES = {"empty-choices": Usage(2, 24), "not-text": Usage(1, 12)}  # two replies a call


def test_a_fault_says_what_attempts_charged(lasting: tuple[Api, dict[str, Response]]) -> None:
    """Nothing where they ended in an error status; unknown where a reply broke off."""
    api, found = lasting

    expected = {**CHARGES, **(CHAT_CHARGES if api == "chat" else {})}
    assert {fault: found[fault].usage for fault in expected} == expected


ENDS: Mapping[Api, Mapping[str, str]] = {
    "chat": {"length": "length", "finish=eos": "eos", "mislabelled": "stop"},
    "responses": {"length": "length", "empty": "stop", "bare": "stop"},
    "anthropic": {"length": "length", "window": "length", "thinking": "end_turn"},
}


def test_an_answer_says_how_it_ended(lasting: tuple[Api, dict[str, Response]]) -> None:
    api, found = lasting
    assert {fault: found[fault].stop for fault in ENDS[api]} == ENDS[api]


def test_a_blank_that_was_written_is_an_answer_though_it_was_cut() -> None:
    with StubServer(Script(replies={"": ("\n",)}, faults={"": ("length",)})) as stub:
        [response] = hosted("chat", stub.url).answer([request("x")])
    assert (response.texts, response.stop) == (("\n",), "length")


@pytest.mark.parametrize("api", APIS)
def test_no_answer_in_time_is_a_failure_that_may_have_been_charged(api: Api) -> None:
    found = met(api, ["late"], attempts=1, timeout_s=0.1)["late"]

    assert failure_of(found)[0] is FAILED
    assert "no answer within 0.1 s" in failure_of(found)[1]
    assert found.usage == replace(UNCHARGED, unanswered=1)


@pytest.mark.slow
def test_a_passing_fault_is_outlived() -> None:
    with ThreadPoolExecutor() as pool:
        found = dict(zip(APIS, pool.map(outlived, APIS), strict=True))
    assert found == {api: (set(), 0, 0) for api in APIS}


def outlived(api: Api) -> tuple[set[Failure | None], int, int]:
    """The failures, the calls besides two a request, and how many retries came too early."""
    faults = [*PASSING, *(["failed-server", "failed-rate"] if api == "responses" else [])]
    script = Script(faults={f"<{name}>": (name,) for name in faults})
    with StubServer(script) as server:
        responses = list(hosted(api, server.url).answer(request(f"<{name}>") for name in faults))

    stats = server.stats()
    failures = {response.failure for response in responses} - {None}
    return failures, stats["requests"] - 2 * len(faults), stats["early_retries"]


KEY_ERRORS = [
    ("401", "check the key in STUB_KEY"),
    ("402", "see the account's credit"),
    ("403", "check that the key in STUB_KEY may use model 'stub-model'"),
    ("404", "check that there is a model 'stub-model', or set base_url"),
]
OPENAI_ERRORS = [
    ("429-quota", "account"),
    ("400-response_format", "set is_structured_output: false for 'stub-model'"),
    ("422-response_format", "set is_structured_output: false for 'stub-model'"),
    ("400-unsupported_parameter=seed", "leave seed out by a setting in the YAML of 'stub-model'"),
]
REMEDIES: Mapping[Api, list[tuple[str, str]]] = {
    "chat": [
        *(*KEY_ERRORS, *OPENAI_ERRORS),
        ("500-Only one completion choice is allowed", "set sends_n: false for 'stub-model'"),
        ("400-only supported in v1/responses", "set api: responses for"),
        ("404-only supported in v1/responses", "set api: responses for"),
    ],
    "responses": [
        *(*KEY_ERRORS, *OPENAI_ERRORS),
        ("404", "set base_url, or set api: chat"),
        ("405", "or set api: chat"),
        ("400-text.format", "set is_structured_output: false for"),
        ("400-unsupported_value=reasoning.effort", "leave reasoning.effort out by a setting"),
    ],
    "anthropic": [
        *KEY_ERRORS,
        ("400-credit balance is too low", "see the account's credit"),
        ("400-temperature: not supported", "sends_temperature: false"),
        ("400-tool_choice: not supported", "is_structured_output: false"),
        ("400-Thinking may not force tool use", "is_structured_output: false"),
    ],
}


@each(("api", "fault", "remedy"), [(api, *row) for api, rows in REMEDIES.items() for row in rows])
def test_an_error_no_retry_mends_stops_the_run(api: Api, fault: str, remedy: str) -> None:
    asked = (request(str(n), schema=SCHEMA) for n in range(100))
    with StubServer(Script(faults={"": (fault,)})) as stub:
        with pytest.raises(ModelError, match=remedy):
            list(hosted(api, stub.url, concurrency=1).answer(asked))

        assert stub.stats()["requests"] == 1


@pytest.mark.parametrize(
    ("api", "fault"), [("chat", "400"), ("responses", "400"), ("anthropic", "400-else")]
)
def test_a_refusal_that_names_no_cause_fails_the_item_alone(api: Api, fault: str) -> None:
    [response] = met(api, [fault], {"schema": SCHEMA}).values()
    assert failure_of(response)[0] is FAILED


@each(
    ("api", "fault", "usage"),
    [
        *[("chat", "", Usage(2, 6)), ("chat", "details-odd", Usage(2, 6))],
        ("chat", "reasoned", Usage(2, 6, reasoning_tokens=4)),
        ("responses", "", Usage(2, 9, reasoning_tokens=3)),
        ("responses", "usage-bare", Usage(2, 6)),
        *[("anthropic", "", Usage(2, 6)), ("anthropic", "cached", Usage(432, 6))],
        *[(api, odd, Usage()) for api in APIS[1:] for odd in ("usage-null", "usage-odd")],
    ],
)
def test_tokens_are_counted_where_they_are_reported(api: Api, fault: str, usage: Usage) -> None:
    with StubServer(Script(faults={"": (fault,)})) as stub:
        [response] = hosted(api, stub.url).answer([request("two words")])

    found = replace(response.usage, reasoning_tokens=response.usage.reasoning_tokens or None)
    assert (found, response.served, response.failure) == (usage, "stub-model", None)


@pytest.mark.parametrize(
    ("api", "spec", "usage"),
    [("chat", {"sends_n": False}, (6, 18)), ("responses", {}, (6, 27)), ("anthropic", {}, (6, 18))],
)
def test_several_replies_of_one_a_call_are_as_many_calls_and_all_tokens_count(
    api: Api, spec: dict[str, bool], usage: tuple[int, int]
) -> None:
    said = iter(("one", "two", "three"))
    with StubServer(reply=lambda _: next(said)) as stub:
        asked = request("two words", decoding=Decoding(0.7, n=3, seed=11))
        [response] = hosted(api, stub.url, **spec).answer([asked])

    assert response.texts == ("one", "two", "three")
    assert (response.usage.prompt_tokens, response.usage.completion_tokens) == usage
    seeds = [11, 12, 13] if api == "chat" else [None] * 3
    assert [body.get("seed") for body in stub.bodies] == seeds
    assert not any("n" in body for body in stub.bodies)


def test_a_server_that_ignores_n_stops_the_run_and_what_was_paid_is_reported() -> None:
    asked = [request(str(n), decoding=Decoding(0.7, n=3)) for n in range(100)]
    found = list[Response]()
    with StubServer(Script(faults={"": ("n-ignored",)})) as stub:
        answers = hosted("chat", stub.url, concurrency=1).answer(asked)
        with pytest.raises(ModelError, match=r"3 answers .* and 1 came: .* set sends_n: false"):
            found += iter(answers)

    assert failure_of(found[0])[0] is FAILED
    assert (found[0].usage.completion_tokens, stub.stats()["requests"]) == (6, 20)


@each(
    ("api", "mode", "word"),
    [
        *[("chat", Mode.CHOOSE, "log-probabilities"), ("responses", Mode.CHOOSE, "api: chat")],
        ("responses", Mode.CHOOSE_TOKEN, "api: chat"),
        *(("anthropic", mode, "use kind") for mode in Mode if mode is not Mode.GENERATE),
    ],
)
def test_a_mode_the_api_does_not_have_is_unsupported(api: Api, mode: Mode, word: str) -> None:
    with StubServer() as stub:
        [response] = hosted(api, stub.url).answer([request("x", mode=mode)])

    assert failure_of(response)[0] is Reason.UNSUPPORTED
    assert word in failure_of(response)[1]
    assert stub.stats()["requests"] == 0


@pytest.mark.parametrize(
    ("fault", "count"),
    [("key-told", 2), ("key-stop", 1)],  # text and snapshot; the word for the end
)
def test_a_key_that_a_reply_repeats_is_masked_before_it_is_kept(fault: str, count: int) -> None:
    [response] = met("chat", [fault]).values()
    assert repr(response).count("[STUB_KEY]") == count
    assert KEY not in repr(response)


VECTORS = {
    "nan-vector": "vector of 2 numbers is not finite",
    "zero-vector": "vector of 2 numbers is empty or all zeros",
    "empty-vector": "vector of 0 numbers",
    "text-vector": "not an embedding: Expected `float`",
    "no-data": "sent no data",
    "malformed": "not JSON",
    "500": "500",
}


def test_an_embedding_that_is_none_is_a_failure() -> None:
    met_faults = met("chat", VECTORS, {"mode": Mode.EMBED}, attempts=1)
    failures = {fault: failure_of(found) for fault, found in met_faults.items()}

    assert {reason for reason, _ in failures.values()} == {FAILED}
    assert [fault for fault, (_, said) in failures.items() if VECTORS[fault] not in said] == []
