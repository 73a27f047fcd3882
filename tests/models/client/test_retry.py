"""Retries, concurrency and endings of calls, against back ends of a few lines."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count, islice
from threading import active_count

import pytest
from support.hosted import failure_of

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.client import retry
from harness.models.client.retry import FIRST, PermanentError, RetryableError, RetryPolicy, send_all
from harness.parts import UNCHARGED, Decoding, Message, Reason, Usage

QUICK = RetryPolicy(concurrency=4, attempts=3, timeout_s=5, longest_wait_s=1, first_wait_s=0.002)


def request(number: int) -> Request:
    words = (Message("user", f"question {number}"),)
    return Request(str(number), "base", "answer", "m", words, Decoding())


@dataclass
class Server:
    troubles: tuple[Exception, ...] = ()
    delay_s: float = 0.0
    asked: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    in_flight: int = 0
    most: int = 0
    is_open: bool = False

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[retry.Call]:
        self.is_open = True
        try:
            yield self.call
        finally:
            self.is_open = False

    async def call(self, request: Request) -> Response:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            return await self._answer(request)
        finally:
            self.in_flight -= 1

    async def _answer(self, request: Request) -> Response:
        self.asked[request.key] += 1
        self.times.append(time.monotonic())
        await asyncio.sleep(self.delay_s)
        if self.asked[request.key] <= len(self.troubles):
            raise self.troubles[self.asked[request.key] - 1]
        return Response(request.key, texts=(f"answer to {request.sample_id}",))


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = active_count()
    yield
    assert active_count() == before


def test_no_more_requests_are_in_flight_than_the_policy_allows() -> None:
    server = Server(delay_s=0.002)
    list(send_all(map(request, range(40)), server.connect, QUICK))
    assert server.most == QUICK.concurrency


def test_requests_are_drawn_as_there_is_room_for_them() -> None:
    drawn: list[int] = []
    endless = (request(n) for n in count() if not drawn.append(n))  # type: ignore[func-returns-value]  # counts

    with_close = send_all(endless, Server().connect, QUICK)
    taken = list(islice(with_close, 20))
    time.sleep(0.02)
    with_close.close()

    assert len(taken) == 20
    assert len(drawn) <= 20 + 3 * QUICK.concurrency


def test_when_attempts_run_out_the_response_is_a_failure() -> None:
    server = Server(troubles=(RetryableError("busy"),) * 9)
    [response] = send_all([request(1)], server.connect, QUICK)

    assert failure_of(response) == (Reason.FAILED, "busy; gave up after attempt 3 of 3")
    assert server.asked.total() == 3


def test_the_wait_a_server_asks_for_is_a_lower_bound() -> None:
    server = Server(troubles=(RetryableError("busy", retry_after_s=0.08),))
    list(send_all([request(1)], server.connect, QUICK))
    assert server.times[1] - server.times[0] >= 0.08


def test_a_server_that_asks_for_a_longer_wait_than_is_left_ends_that_request_at_once() -> None:
    server = Server(troubles=(RetryableError("busy", retry_after_s=3600),))

    [response] = send_all([request(1)], server.connect, replace(QUICK, total_s=60))

    message = (
        "busy; gave up after attempt 1 of 3: the server asks to wait 3600 s, and another attempt "
        "would take more than 60 s in all; repeat the command later, or raise total_s in the "
        "model's YAML"
    )
    assert failure_of(response) == (Reason.FAILED, message)


def test_a_server_that_never_answers_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    policy = replace(QUICK, timeout_s=0.01)
    list(send_all(map(request, range(4)), Server(delay_s=9).connect, policy))
    assert "8 calls in a row got no reply, the last: no answer within 0.01 s" in caplog.text


@pytest.mark.slow
def test_the_time_in_the_queue_is_no_part_of_the_total() -> None:
    """The second waits 0.6 s for its place, then takes 0.6 s in two attempts."""

    class Slow(Server):
        async def _answer(self, request: Request) -> Response:
            await asyncio.sleep(0.6 if request.sample_id == "0" else 0.3)
            self.troubles = () if request.sample_id == "0" else (RetryableError("busy"),)
            return await super()._answer(request)

    policy = RetryPolicy(concurrency=1, attempts=2, timeout_s=5, first_wait_s=0, total_s=0.85)

    found = list(send_all([request(0), request(1)], Slow().connect, policy))

    assert [response.failure for response in found] == [None, None]


def test_all_attempts_together_take_no_longer_than_the_total() -> None:
    policy = replace(QUICK, attempts=100, total_s=0.1)
    server = Server(troubles=(RetryableError("busy"),) * 100, delay_s=0.02)
    [response] = send_all([request(1)], server.connect, policy)

    assert "another attempt would take more than 0.1 s in all" in failure_of(response)[1]
    assert server.asked.total() < 10


FREE = RetryableError("turned away", usage=UNCHARGED)
TOLD = RetryableError("no text", usage=Usage(3, 4, reasoning_tokens=1))
CUT = RetryableError("cut off")


@pytest.mark.parametrize(
    ("troubles", "expected"),
    [
        ((), Usage(10, 5, reasoning_tokens=2)),
        ((FREE, FREE), Usage(10, 5, reasoning_tokens=2)),
        ((FREE, CUT), Usage(10, 5, reasoning_tokens=2, unanswered=1)),
        ((TOLD, CUT), Usage(13, 9, reasoning_tokens=3, unanswered=1)),
        ((FREE,) * 3, UNCHARGED),
        ((FREE, CUT, CUT), replace(UNCHARGED, unanswered=2)),
        ((CUT, TOLD, FREE), Usage(3, 4, reasoning_tokens=1, unanswered=1)),
        ((CUT, PermanentError(Reason.FILTERED, "no")), Usage(unanswered=1)),
        (
            (CUT, PermanentError(Reason.FAILED, "no", usage=UNCHARGED)),
            replace(UNCHARGED, unanswered=1),
        ),
    ],
)
def test_a_response_says_what_every_attempt_was_charged_or_how_many_do_not_say(
    troubles: tuple[Exception, ...], expected: Usage
) -> None:
    class Charging(Server):
        async def _answer(self, request: Request) -> Response:
            answered = await super()._answer(request)
            return replace(answered, usage=Usage(10, 5, reasoning_tokens=2))

    [response] = send_all([request(1)], Charging(troubles=troubles).connect, QUICK)

    assert response.usage == expected


def test_an_attempt_without_an_answer_in_time_may_have_been_charged() -> None:
    policy = RetryPolicy(concurrency=1, attempts=2, timeout_s=0.02, first_wait_s=0)
    [response] = send_all([request(1)], Server(delay_s=30).connect, policy)
    assert response.usage == replace(UNCHARGED, unanswered=2)


THRICE = replace(request(1), decoding=Decoding(n=3, seed=5))
ONE_BY_ONE = RetryPolicy(1, 3, timeout_s=0.05, first_wait_s=0, is_one_by_one=True)


class Piecewise(Server):
    def __init__(self, *replies: str | Exception | None) -> None:
        super().__init__()
        self.replies, self.seeds = iter(replies), list[int | None]()

    async def _answer(self, request: Request) -> Response:
        self.seeds.append(request.decoding.seed)
        if (reply := next(self.replies)) is None:
            await asyncio.sleep(9)
        if isinstance(reply, Exception):
            raise reply
        return Response(request.key, (str(reply),), usage=Usage(2, 3), stop="stop", served="m-1")


FILTERED = PermanentError(Reason.FILTERED, "no", usage=Usage(1, 1))
GONE = PermanentError(Reason.FAILED, "gone", usage=Usage(1, 1))


@pytest.mark.parametrize(
    ("replies", "texts", "usage", "seeds"),
    [
        (("a", "b", "c"), ("a", "b", "c"), Usage(6, 9), [5, 6, 7]),
        (("a", CUT, "b", "c"), ("a", "b", "c"), Usage(6, 9, unanswered=1), [5, 6, 6, 7]),
        (("a", FILTERED, "b"), ("a", "b"), Usage(5, 7), [5, 6, 7]),
        ((FILTERED,) * 3, None, Usage(3, 3), [5, 6, 7]),
        (("a", GONE), None, Usage(3, 4), [5, 6]),  # all are asked for again
        (("a", None, None, None), None, Usage(2, 3, unanswered=3), [5, 6, 6, 6]),
    ],
)
def test_several_replies_are_as_many_calls_and_none_is_asked_for_twice(
    replies: Sequence[str | Exception | None],
    texts: tuple[str, ...] | None,
    usage: Usage,
    seeds: list[int],
) -> None:
    server = Piecewise(*replies)
    [response] = send_all([THRICE], server.connect, ONE_BY_ONE)

    assert (response.key, response.texts, response.usage) == (THRICE.key, texts, usage)
    assert server.seeds == seeds


def test_the_time_out_holds_for_each_call_of_a_request() -> None:
    server = Server(delay_s=0.1)
    policy = RetryPolicy(1, 1, timeout_s=0.25, is_one_by_one=True)
    [response] = send_all([THRICE], server.connect, policy)

    assert len(response.texts or ()) == 3


@pytest.mark.parametrize("trouble", [ModelError("no such model"), ZeroDivisionError("a bug")])
def test_any_other_exception_stops_everything(trouble: Exception) -> None:
    server = Server(troubles=(trouble,))
    with pytest.raises(type(trouble), match=str(trouble)):
        list(send_all(map(request, range(1000)), server.connect, QUICK))

    assert server.asked.total() <= QUICK.concurrency
    assert not server.is_open


def test_responses_that_were_there_before_an_error_are_handed_on_first() -> None:
    policy = RetryPolicy(concurrency=1, attempts=1, timeout_s=5)

    def requests() -> Iterator[Request]:
        yield request(1)
        raise ModelError("unreadable")

    responses = send_all(requests(), Server().connect, policy)

    assert next(responses).texts == ("answer to 1",)
    with pytest.raises(ModelError, match="unreadable"):
        next(responses)


@pytest.mark.parametrize("taken", [1, 5])
def test_closing_early_cancels_what_is_in_flight(taken: int) -> None:
    server = Server(delay_s=0.01)
    responses = send_all(map(request, range(1000)), server.connect, QUICK)

    list(islice(responses, taken))
    responses.close()

    assert (server.in_flight, server.is_open) == (0, False)
    assert server.asked.total() <= taken + 3 * QUICK.concurrency


OK, TROUBLE = None, RetryableError("500")
AWAY = RetryableError("429", is_rate_limited=True)


def limits_after(most: int, *rounds: Sequence[RetryableError | None]) -> list[int]:
    limiter, limits = retry.Limiter(most), list[int]()

    async def call() -> None:
        for end in (end for ends in rounds for end in ends):
            await limiter.acquire()
            limiter.record(end)
            limiter.release()
            limits.append(limiter.limit)

    asyncio.run(call())
    return limits


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([OK] * (FIRST - 1), FIRST),  # the round is not over
        ([OK] * FIRST, 64),  # 4 x 16
        ([OK] * (FIRST + 64), 200),  # 4 x 64 is more than there may be
        ([AWAY] * 3 + [OK] * 13, 64),  # 3 of 16 may be chance
        ([AWAY] * 4 + [OK] * 12, 12),  # 16 x (1 - 4/16)
        ([AWAY] * 12 + [OK] * 4, 8),  # never by more than half
        ([TROUBLE] * 4 + [OK] * 12, FIRST),  # trouble of the server's own stops growth alone
        ([AWAY] * 100, 1),
    ],
)
def test_a_round_sets_the_limit(ends: Sequence[RetryableError | None], expected: int) -> None:
    assert limits_after(200, ends)[-1] == expected


def test_after_a_cut_the_limit_grows_by_the_same_number_each_round() -> None:
    limits = limits_after(200, [AWAY] * 8 + [OK] * 8, [OK] * (8 + 18 + 28))
    assert list(dict.fromkeys(limits)) == [16, 8, 18, 28, 38]  # by a twentieth of 200


NOON = datetime(2030, 5, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        *((None, None), ("7", 7.0), ("0.25", 0.25), ("-3", 0.0), ("nan", None), ("inf", None)),
        *(("soon", None), ("Wed, 01 May 2030 12:00:30 GMT", 30.0)),
        *(("Wed, 01 May 2030 12:00:30 -0000", 30.0), ("Wed, 01 May 2030 11:00:00 GMT", 0.0)),
    ],
)
def test_retry_after_is_a_number_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry.retry_after_seconds(header, NOON) == seconds
