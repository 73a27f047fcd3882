"""Choices through the real client library, against a scripted server on loopback."""

import re
from collections.abc import Iterator, Mapping
from math import fsum, log
from typing import Any

import pytest
from support.each import each
from support.hosted import failure_of
from support.stub_script import Script, logprob_of, tokens_of
from support.stub_server import StubServer

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.openai.model import OpenAIModel
from harness.parts import UNCHARGED, ChoiceScore, Decoding, Message, Mode, Reason, Usage
from harness.specs.models import OpenAISpec

STORY = "Ben\u2019s aunt says it is cold.\nAnswer:"
ONE = Decoding(max_tokens=1)


def request(
    *choices: str, mode: Mode = Mode.CHOOSE, words: str = STORY, system: str = ""
) -> Request:
    turns = (*([Message("system", system)] if system else []), Message("user", words))
    return Request("s", "base", "answer", "m", turns, ONE, mode, choices)


def listing(*choices: str, words: str = STORY) -> Request:
    return request(*choices, mode=Mode.CHOOSE_TOKEN, words=words)


def model(stub: StubServer, choices: str = "echo", **spec: Any) -> OpenAIModel:  # noqa: ANN401 - its fields
    settings: dict[str, Any] = {"model": "stub-model", "base_url": stub.url, "key_env": None}
    return OpenAIModel("stub", OpenAISpec(**settings, choices=choices, **spec), {})  # type: ignore[arg-type]  # a Literal


def faulty(fault: str, **script: Any) -> StubServer:  # noqa: ANN401 - fields of Script
    return StubServer(Script(faults={"<x>": (fault,) * 9}, **script))


def scores_of(response: Response) -> tuple[ChoiceScore, ...]:
    assert response.choice_scores is not None, response.failure
    return response.choice_scores


def summed(context: str, choice: str, scored: int) -> float:
    tokens = tokens_of(context + choice)
    ends = range(len(tokens) - scored + 1, len(tokens) + 1)
    return fsum(logprob_of(tokens[:end]) for end in ends)


@pytest.fixture
def stub() -> Iterator[StubServer]:
    with StubServer() as server:
        yield server


@pytest.mark.parametrize(
    ("words", "choices", "tokens", "spanned"),
    [
        (STORY, (" 1", " 2"), (1, 1), 0),
        (STORY, (" He wants tea", " He\u2019d go \u2013 home"), (3, 7), 0),
        (f"{STORY} ", ("1", "2"), (1, 1), 1),
        ("She is un", ("happy", "able now"), (1, 2), 3),
        ("One", (" two", "!"), (1, 1), 0),
    ],
)
def test_a_choice_is_the_sum_of_its_own_tokens(
    stub: StubServer, words: str, choices: tuple[str, ...], tokens: tuple[int, ...], spanned: int
) -> None:
    [response] = model(stub).answer([request(*choices, words=words)])

    scores = scores_of(response)
    wanted = [summed(words, choice, count) for choice, count in zip(choices, tokens, strict=True)]
    assert [score.logprob for score in scores] == pytest.approx(wanted)
    assert tuple(score.tokens for score in scores) == tokens
    assert [score.bytes for score in scores] == [len(choice.encode()) for choice in choices]
    assert {(score.spanned, score.is_bound) for score in scores} == {(spanned, False)}


def test_all_choices_of_a_request_are_one_call_behind_the_plain_text(stub: StubServer) -> None:
    list(model(stub).answer([request(" 1", " 2", system="Read.", words="Go:")]))

    assert stub.bodies[-1] == {
        "model": "stub-model",
        "prompt": ["Read.\nGo: 1", "Read.\nGo: 2"],
        "max_tokens": 1,
        "temperature": 0.0,
        "echo": True,
        "logprobs": 1,
    }
    assert stub.stats()["requests"] == 1


def test_tokens_whose_texts_have_no_space_before_them_are_scored_all_the_same() -> None:
    asked = [request(" 1", " He wants tea", words="Here <x>:")]
    with faulty("trimmed") as server, faulty("") as right:
        found, expected = (list(model(one).answer(asked)) for one in (server, right))

    assert scores_of(found[0]) == scores_of(expected[0])


NUMBERLESS = [
    ("no-logprobs", "no log-probabilities of the prompt"),
    ("no-echo", "no log-probabilities of the prompt"),
    ("cut-logprobs", "log-probabilities for"),
    ("null-logprob", "None for its log-probability"),
    ("nan-logprob", "nan for its log-probability"),
    ("odds", "0.5 for its log-probability"),
    ("n-ignored", "2 prompts were sent in one call and 1 came back"),
    ("no-choices", "sent no choices"),
    ("malformed", "not JSON"),
    ("400", "400"),
]
SPELL = "do not spell the prompt.*kind: vllm or transformers"


@each(
    ("way", "fault", "reason", "fact"),
    [
        *(("echo", fault, Reason.UNSUPPORTED, SPELL) for fault in ("mangled", "cut-tokens")),
        *(("echo", fault, Reason.FAILED, fact) for fault, fact in NUMBERLESS),
        ("top_logprobs", "no-logprobs", Reason.FAILED, "no log-probabilities of next tokens"),
        ("top_logprobs", "content-filter", Reason.FILTERED, "content filter"),
        ("top_logprobs", "refusal", Reason.REFUSED, "rather not"),
        ("top_logprobs", "html", Reason.FAILED, "not JSON"),
    ],
)
def test_a_reply_that_no_choice_can_be_scored_by_has_its_reason_and_nothing_is_guessed(
    way: str, fault: str, reason: Reason, fact: str
) -> None:
    asked = request if way == "echo" else listing
    with faulty(fault) as server:
        [response] = model(server, way, attempts=1).answer([asked(" 1", " 2", words="Here <x>:")])

    assert failure_of(response)[0] == reason
    assert re.search(fact, failure_of(response)[1])


@each(
    ("way", "asked", "fault", "usage"),
    [
        ("echo", request(" 1", " 2", words="<x>:"), "no-logprobs", Usage(9, 2)),
        ("echo", request(" 1", " 2", words="<x>:"), "400", UNCHARGED),
        ("echo", request(" 1", " ", words="<x>:"), "", UNCHARGED),  # never sent
        ("top_logprobs", listing("1", "2", words="<x>"), "no-logprobs", Usage(1, 6)),
        ("top_logprobs", listing("1", "one or two", words="<x>"), "", UNCHARGED),
    ],
)
def test_a_reply_that_no_number_is_read_from_was_charged_all_the_same(
    way: str, asked: Request, fault: str, usage: Usage
) -> None:
    with faulty(fault) as server:
        [response] = model(server, way, attempts=1).answer([asked])

    assert response.failure is not None
    assert response.usage == usage


@pytest.mark.parametrize(
    ("words", "choices", "fact"),
    [("", (" 1", " 2"), "there is nothing before"), (STORY, (" 1", " "), "without a word")],
)
def test_what_nothing_can_score_is_unsupported(
    stub: StubServer, words: str, choices: tuple[str, ...], fact: str
) -> None:
    [response] = model(stub).answer([request(*choices, words=words)])

    reason, message = failure_of(response)
    assert reason == Reason.UNSUPPORTED
    assert fact in message


@pytest.mark.parametrize(
    ("way", "fault", "remedy"),
    [
        ("echo", "no-logprobs", "choices: top_logprobs"),
        ("echo", "404", "base_url"),
        ("top_logprobs", "no-logprobs", "choices: echo"),
    ],
)
def test_a_server_that_scores_no_choice_ends_the_run_soon(
    way: str, fault: str, remedy: str
) -> None:
    asked = request if way == "echo" else listing
    with StubServer(Script(faults={"": (fault,) * 99})) as server:
        with pytest.raises(ModelError, match=remedy):
            list(model(server, way, concurrency=2).answer(asked(f"{n}", "no") for n in range(90)))

        assert server.stats()["requests"] < 30


@pytest.mark.parametrize(
    ("choices", "modes"),
    [("none", set()), ("echo", {Mode.CHOOSE}), ("top_logprobs", {Mode.CHOOSE_TOKEN})],
)
def test_what_a_server_says_is_what_it_can_be_asked(choices: str, modes: set[Mode]) -> None:
    with StubServer() as server:
        one = model(server, choices)
        answers = list(one.answer([request("1", "2"), listing("1", "2")]))

    assert one.modes == {Mode.GENERATE, Mode.EMBED} | modes
    assert sum(answer.choice_scores is not None for answer in answers) == len(modes)


NUMBERS, CITIES = (" 1", " 2", " 3"), (" Paris", " Rome")
NEXTS = {"1": log(0.5), " 1": log(0.25), "2": log(0.1), "Answer": log(0.01)}


def logs(shares: Mapping[str, float]) -> dict[str, float]:
    return {token: log(share) for token, share in shares.items()}


@each(
    ("choices", "nexts", "expected"),
    [
        (NUMBERS, NEXTS, [(log(0.75), False), (log(0.1), False), (log(0.01), True)]),
        (NUMBERS, {"\n": -0.1, " 3": -4.0}, [(-4.0, True), (-4.0, True), (-4.0, False)]),
        (NUMBERS, {"12": -0.1, "1": -0.5}, [(-0.5, False), (-0.5, True), (-0.5, True)]),
        # A choice that a listed token begins may be as likely as that token.
        (
            CITIES,
            logs({" Par": 0.6, " Rome": 0.3, "x": 0.01}),
            [(log(0.6), True), (log(0.3), False)],
        ),
        (
            CITIES,
            logs({" Paris": 0.2, " Par": 0.6, " Rome": 0.3}),
            [(log(0.2), False), (log(0.3), False)],
        ),
        (
            CITIES,
            logs({" Paris": 0.4, " Rome": 0.3, "R": 0.004}),
            [(log(0.4), False), (log(0.3), False)],
        ),
    ],
)
def test_a_choice_of_one_token_counts_with_and_without_its_space(
    choices: tuple[str, ...], nexts: Mapping[str, float], expected: list[tuple[float, bool]]
) -> None:
    with StubServer(Script(nexts=nexts)) as server:
        [response] = model(server, "top_logprobs").answer([listing(*choices)])

    scores = scores_of(response)
    assert [score.is_bound for score in scores] == [is_bound for _, is_bound in expected]
    assert [score.logprob for score in scores] == pytest.approx([value for value, _ in expected])
    sizes = [(1, len(choice), 0) for choice in choices]
    assert [(score.tokens, score.bytes, score.spanned) for score in scores] == sizes


def test_numbers_behind_a_space_of_its_own_are_not_scored_by_those_without_it() -> None:
    # As Gemma's tokenizer has it: " 1" is two tokens, and what follows " " is not listed.
    nexts = {" ": log(0.48), "\n": log(0.26), "1": log(0.015), " A": log(0.003)}
    with StubServer(Script(nexts=nexts)) as server:
        [response] = model(server, "top_logprobs").answer([listing(" 1", " 2")])

    reason, message = failure_of(response)
    assert reason == Reason.UNPARSED
    assert "' '" in message
    assert "--answers written" in message


def test_the_likeliest_tokens_are_asked_for_by_the_chat(stub: StubServer) -> None:
    list(model(stub, "top_logprobs", extra_body={"top_k": 0}).answer([listing(" 1", " 2")]))

    assert stub.bodies[-1] == {
        "model": "stub-model",
        "messages": [{"role": "user", "content": STORY}],
        "max_tokens": 1,
        "temperature": 0.0,
        "logprobs": True,
        "top_logprobs": 20,
        "top_k": 0,
    }


def test_choices_none_of_which_is_reported_are_unparsed_and_tokens_named(stub: StubServer) -> None:
    [response] = model(stub, "top_logprobs").answer([listing(" yes", " no")])

    reason, message = failure_of(response)
    assert reason == Reason.UNPARSED
    assert "likeliest first tokens: '1', ' 2', 'A'" in message


@pytest.mark.parametrize("choice", [" He wants tea", "not so", " ", ""])
def test_choices_of_more_tokens_are_unsupported_unsent(stub: StubServer, choice: str) -> None:
    [response] = model(stub, "top_logprobs").answer([listing(" 1", choice)])
    assert failure_of(response)[0] == Reason.UNSUPPORTED
    assert stub.stats()["requests"] == 0
