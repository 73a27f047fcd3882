"""The limiter lets in as many calls as a server bears: it grows, is cut, and forgets nobody."""

import asyncio
from collections.abc import Sequence

from support.each import each

from harness.models.client.limiter import FIRST, CallOutcome, Limiter

OK, AWAY, TROUBLE = CallOutcome.COMPLETED, CallOutcome.RATE_LIMITED, CallOutcome.SERVER_ERROR


def opened(most: int) -> Limiter:
    """A limiter of the running event loop."""
    limiter = Limiter(most)
    limiter.open()
    return limiter


def end(limiter: Limiter, outcome: CallOutcome, wait_s: float | None = None) -> float | None:
    """The end of a call."""
    pause_s = limiter.record(outcome, wait_s=wait_s)
    limiter.release()
    return pause_s


def after(limiter: Limiter, outcomes: Sequence[CallOutcome]) -> int:
    """The limit after some calls, one at a time."""

    async def call() -> None:
        limiter.open()
        for outcome in outcomes:
            await limiter.acquire()
            end(limiter, outcome)

    asyncio.run(call())
    return limiter.limit


def mixed(limit: int, turned_away: int) -> list[CallOutcome]:
    """A round of outcomes, some of them turned away."""
    return [AWAY] * turned_away + [OK] * (limit - turned_away)


@each(
    ("outcomes", "expected"),
    [
        ([OK] * (FIRST - 1), FIRST),  # the round is not over
        ([OK] * FIRST, 64),  # 4 x 16
        ([OK] * (FIRST + 64), 200),  # 4 x 64 is more than there may be
        (mixed(FIRST, 3), 64),  # 3 of 16 may be chance
        (mixed(FIRST, 4), 12),  # 16 x (1 - 4/16)
        (mixed(FIRST, 12), 8),  # never by more than half
        ([TROUBLE] * 4 + [OK] * 12, FIRST),  # trouble of the server's own stops growth alone
        ([AWAY] * 100, 1),
    ],
)
def test_a_round_of_calls_sets_the_limit(outcomes: list[CallOutcome], expected: int) -> None:
    assert after(Limiter(200), outcomes) == expected


def test_after_a_cut_the_limit_grows_by_the_same_number_each_round() -> None:
    limiter = Limiter(200)
    after(limiter, mixed(FIRST, 8))

    assert [after(limiter, [OK] * limiter.limit) for _ in range(3)] == [
        18,
        28,
        38,
    ]  # by a twentieth of 200


def paused(most: int, waits_s: Sequence[float]) -> list[float | None]:
    """What the limiter says of calls that were asked to wait, rounded to seconds."""

    async def call() -> list[float | None]:
        limiter, told = opened(most), []
        for wait_s in waits_s:
            await limiter.acquire()
            told.append(end(limiter, AWAY, wait_s))
        return [None if pause_s is None else round(pause_s, 1) for pause_s in told]

    return asyncio.run(call())


@each(
    ("most", "waits_s", "expected"),
    [
        (200, [60.0] * 3, [None] * 3),  # 3 of 16 may be chance
        (200, [60.0] * 4, [None, None, None, 60.0]),
        (200, [1.0, 1.0, 1.0, 86400.0], [None, None, None, 1.0]),  # one absurd wait is not all's
        (200, [0.0] * 9, [None] * 9),
        (1, [60.0], [60.0]),
    ],
)
def test_all_are_to_wait_where_clearly_more_than_chance_brings_are_asked_to(
    most: int, waits_s: list[float], expected: list[float | None]
) -> None:
    assert paused(most, waits_s) == expected
