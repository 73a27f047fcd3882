"""What fails in a row is told of, then ends the asking; anything else ends the row."""

import pytest

from harness.core import Response
from harness.models.client.limiter import GIVE_UP_AFTER, WARN_AFTER, CircuitBreaker
from harness.parts import Reason

FAILED = Response.failed("k", Reason.FAILED, "answered 500")


@pytest.mark.parametrize(
    ("concurrency", "most"), [(1, GIVE_UP_AFTER), (GIVE_UP_AFTER, GIVE_UP_AFTER), (64, 64)]
)
def test_as_many_failures_in_a_row_as_are_in_flight_end_the_asking(
    concurrency: int, most: int
) -> None:
    breaker = CircuitBreaker(concurrency)

    found = [breaker.record_result(FAILED) for _ in range(most)]

    assert found[:-1] == [None] * (most - 1)
    assert f"the last {most} requests failed one after the other" in str(found[-1])
    assert "answered 500" in str(found[-1])


@pytest.mark.parametrize("other", [Response("k", ("yes",)), Response.failed("k", Reason.EMPTY, "")])
def test_any_other_response_ends_the_row(other: Response) -> None:
    breaker = CircuitBreaker(1)

    found = [
        breaker.record_result(part) for part in [FAILED] * (GIVE_UP_AFTER - 1) + [other, FAILED]
    ]

    assert not any(found)


def test_calls_without_a_reply_are_told_of_once_a_row(caplog: pytest.LogCaptureFixture) -> None:
    breaker = CircuitBreaker(1)
    for number in range(3 * WARN_AFTER):
        breaker.record_failure(TimeoutError(f"no answer to {number}"))
    told = [record.getMessage() for record in caplog.records]

    assert len(told) == 1
    assert (
        f"{WARN_AFTER} calls in a row got no reply, the last: no answer to {WARN_AFTER - 1};"
        in told[0]
    )
