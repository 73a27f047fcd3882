"""Retries, concurrency and endings of calls, against back ends of a few lines."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count, islice
from threading import active_count

import pytest

from harness.calls import Call, Policy, Refused, Transient, answer_all, wait_asked_for
from harness.core import Request, Response
from harness.errors import ModelError
from harness.parts import Decoding, Message, Reason

QUICK = Policy(concurrency=4, attempts=3, timeout_s=5, longest_wait_s=1, first_wait_s=0.002)


def request(number: int) -> Request:
    words = (Message("user", f"question {number}"),)
    return Request(str(number), "base", "answer", "m", words, Decoding())


@dataclass
class Server:
    """A back end that raises `troubles` for each request before it answers."""

    troubles: tuple[Exception, ...] = ()
    delay_s: float = 0.0
    asked: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    in_flight: int = 0
    most: int = 0
    is_open: bool = False

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Call]:
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


def failure_of(response: Response) -> tuple[Reason, str]:
    assert response.failure is not None
    return response.failure.reason, response.failure.message


def test_each_request_is_answered_once() -> None:
    requests = [request(n) for n in range(50)]

    responses = list(answer_all(requests, Server().connect, QUICK))

    assert Counter(r.key for r in responses) == Counter(r.key for r in requests)


def test_no_more_requests_are_in_flight_than_the_policy_allows() -> None:
    server = Server(delay_s=0.002)

    list(answer_all(map(request, range(40)), server.connect, QUICK))

    assert server.most == QUICK.concurrency


def test_without_requests_nothing_is_connected() -> None:
    def connect() -> None:
        pytest.fail("connected")

    assert list(answer_all([], connect, QUICK)) == []  # type: ignore[arg-type]  # never called


def test_requests_are_drawn_as_there_is_room_for_them() -> None:
    drawn: list[int] = []
    endless = (request(n) for n in count() if not drawn.append(n))  # type: ignore[func-returns-value]  # counts

    with_close = answer_all(endless, Server().connect, QUICK)
    taken = list(islice(with_close, 20))
    time.sleep(0.02)
    with_close.close()

    assert len(taken) == 20
    assert len(drawn) <= 20 + 3 * QUICK.concurrency


def test_a_caller_slower_than_the_server_gets_everything() -> None:
    responses = answer_all(map(request, range(30)), Server().connect, QUICK)

    keys = set()
    for response in responses:
        time.sleep(0.001)
        keys.add(response.key)

    assert len(keys) == 30


def test_a_passing_failure_is_asked_again() -> None:
    server = Server(troubles=(Transient("busy"), Transient("busy")))

    [response] = answer_all([request(1)], server.connect, QUICK)

    assert response.texts == ("answer to 1",)


def test_when_attempts_run_out_the_response_is_a_failure() -> None:
    server = Server(troubles=(Transient("busy"),) * 9)

    [response] = answer_all([request(1)], server.connect, QUICK)

    assert failure_of(response) == (Reason.FAILED, "busy; gave up after attempt 3 of 3")
    assert server.asked.total() == 3


def test_a_refusal_is_not_asked_again() -> None:
    server = Server(troubles=(Refused(Reason.FILTERED, "held back"),))

    [response] = answer_all([request(1)], server.connect, QUICK)

    assert failure_of(response) == (Reason.FILTERED, "held back")
    assert server.asked.total() == 1


def test_the_wait_a_server_asks_for_is_a_lower_bound() -> None:
    server = Server(troubles=(Transient("busy", retry_after_s=0.08),))

    list(answer_all([request(1)], server.connect, QUICK))

    assert server.times[1] - server.times[0] >= 0.08


def test_a_wait_longer_than_the_policy_allows_is_not_begun() -> None:
    server = Server(troubles=(Transient("busy", retry_after_s=3600),))

    [response] = answer_all([request(1)], server.connect, QUICK)

    message = "busy; gave up after attempt 1 of 3: waits would sum to more than 1 s"
    assert failure_of(response) == (Reason.FAILED, message)


def test_one_request_that_fails_while_all_others_succeed_waits_no_longer_each_time() -> None:
    """Ten growing waits would sum to more than the policy allows; ten of the first do not."""

    class Unlucky(Server):
        async def _answer(self, request: Request) -> Response:
            if request.sample_id != "0":
                await asyncio.sleep(0.002)
                return Response(request.key, texts=("at once",))
            return await super()._answer(request)

    server = Unlucky(troubles=(Transient("busy"),) * 10)
    policy = Policy(concurrency=16, attempts=11, timeout_s=5, longest_wait_s=0.1, first_wait_s=0.01)

    found = list(answer_all(map(request, range(3000)), server.connect, policy))

    assert sum(response.failure is None for response in found) == 3000


def test_an_answer_after_the_timeout_is_dropped() -> None:
    server = Server(delay_s=30)
    policy = Policy(concurrency=2, attempts=2, timeout_s=0.02, first_wait_s=0)

    responses = list(answer_all([request(1), request(2)], server.connect, policy))

    assert [r.failure.reason for r in responses if r.failure] == [Reason.FAILED] * 2
    assert "no answer within 0.02 s" in failure_of(responses[0])[1]


@pytest.mark.parametrize("trouble", [ModelError("no such model"), ZeroDivisionError("a bug")])
def test_any_other_exception_stops_everything(trouble: Exception) -> None:
    server = Server(troubles=(trouble,))

    with pytest.raises(type(trouble), match=str(trouble)):
        list(answer_all(map(request, range(1000)), server.connect, QUICK))

    assert server.asked.total() <= QUICK.concurrency
    assert not server.is_open


def test_responses_that_were_there_before_an_error_are_handed_on_first() -> None:
    policy = Policy(concurrency=1, attempts=1, timeout_s=5)

    def requests() -> Iterator[Request]:
        yield request(1)
        raise ModelError("unreadable")

    responses = answer_all(requests(), Server().connect, policy)

    assert next(responses).texts == ("answer to 1",)
    with pytest.raises(ModelError, match="unreadable"):
        next(responses)


def test_an_error_while_connecting_is_raised_to_the_caller() -> None:
    @asynccontextmanager
    async def connect() -> AsyncIterator[Call]:
        raise ModelError("no server")
        yield

    with pytest.raises(ModelError, match="no server"):
        list(answer_all([request(1)], connect, QUICK))


@pytest.mark.parametrize("taken", [1, 5])
def test_closing_early_cancels_what_is_in_flight(taken: int) -> None:
    server = Server(delay_s=0.01)
    responses = answer_all(map(request, range(1000)), server.connect, QUICK)

    list(islice(responses, taken))
    responses.close()

    assert (server.in_flight, server.is_open) == (0, False)
    assert server.asked.total() <= taken + 3 * QUICK.concurrency


def test_an_interrupt_in_the_caller_leaves_nothing_behind() -> None:
    server = Server(delay_s=0.005)

    def interrupted() -> None:
        for _ in answer_all(map(request, range(1000)), server.connect, QUICK):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert (server.in_flight, server.is_open) == (0, False)


NOON = datetime(2030, 5, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        ("0.25", 0.25),
        ("-3", 0.0),
        ("nan", None),
        ("soon", None),
        ("Wed, 01 May 2030 12:00:30 GMT", 30.0),
        ("Wed, 01 May 2030 12:00:30 -0000", 30.0),
        ("Wed, 01 May 2030 11:00:00 GMT", 0.0),
    ],
)
def test_a_retry_after_header_is_a_number_or_a_date(
    header: str | None, seconds: float | None
) -> None:
    assert wait_asked_for(header, NOON) == seconds


@pytest.mark.parametrize(
    "wrong", [{"concurrency": 0}, {"attempts": 0}, {"timeout_s": 0}, {"longest_wait_s": -1}]
)
def test_a_policy_that_could_ask_nothing_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="not"):
        Policy(**{"concurrency": 1, "attempts": 1, "timeout_s": 1} | wrong)
