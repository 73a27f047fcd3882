"""The gate lets in as many calls as a server bears: it grows, is cut, and forgets nobody."""

import asyncio
from collections.abc import Sequence

import pytest

from harness.gate import FIRST, Gate, Outcome

OK, AWAY, TROUBLE = Outcome.SETTLED, Outcome.TURNED_AWAY, Outcome.TROUBLE


def after(gate: Gate, outcomes: Sequence[Outcome]) -> int:
    """The limit after some calls, one at a time."""

    async def call() -> None:
        for outcome in outcomes:
            await gate.enter()
            gate.leave(outcome)

    asyncio.run(call())
    return gate.limit


def mixed(limit: int, turned_away: int) -> list[Outcome]:
    """A round of outcomes, some of them turned away."""
    return [AWAY] * turned_away + [OK] * (limit - turned_away)


@pytest.mark.parametrize(("most", "expected"), [(200, FIRST), (4, 4), (1, 1)])
def test_a_gate_opens_to_a_few(most: int, expected: int) -> None:
    assert Gate(most).limit == expected


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([OK] * (FIRST - 1), FIRST),  # the round is not over
        ([OK] * FIRST, 64),  # 4 x 16
        ([OK] * (FIRST + 64), 200),  # 4 x 64 is more than there may be
        (mixed(FIRST, 3), 64),  # 1.6 + 1.64 x 1.2 = 3.6 of 16 may be chance
        (mixed(FIRST, 4), 12),  # 16 x (1 - 4/16)
        (mixed(FIRST, 12), 8),  # never by more than half
        ([TROUBLE] * 4 + [OK] * 12, FIRST),  # trouble of the server's own stops growth alone
        ([AWAY] * 100, 1),
    ],
)
def test_a_round_of_calls_sets_the_limit(outcomes: list[Outcome], expected: int) -> None:
    assert after(Gate(200), outcomes) == expected


@pytest.mark.parametrize(
    ("outcomes", "is_calm"),
    [
        ([OK] * (FIRST - 1), False),
        (mixed(FIRST, 3), True),
        (mixed(FIRST, 4), False),
        ([TROUBLE] * 4 + [OK] * 12, False),
        ([TROUBLE] * 3 + [AWAY] * 3 + [OK] * 10, True),
    ],
)
def test_a_round_without_more_trouble_than_chance_is_calm(
    outcomes: list[Outcome], is_calm: bool
) -> None:
    gate = Gate(200)
    after(gate, outcomes)

    assert gate.is_calm is is_calm


def test_after_a_cut_the_limit_grows_slowly() -> None:
    gate = Gate(200)
    after(gate, mixed(FIRST, 8))

    assert [after(gate, [OK] * gate.limit) for _ in range(3)] == [10, 12, 15]


def test_no_more_are_inside_than_the_limit_and_all_come_through() -> None:
    gate, inside, most = Gate(100), 0, 0

    async def call() -> None:
        nonlocal inside, most
        await gate.enter()
        inside, most = inside + 1, max(most, inside + 1)
        assert inside <= gate.limit
        await asyncio.sleep(0)
        inside -= 1
        gate.leave(OK)

    async def all_of_them() -> None:
        await asyncio.gather(*(call() for _ in range(1000)))

    asyncio.run(all_of_them())

    assert (inside, most > FIRST) == (0, True)


def test_one_who_gives_up_waiting_takes_no_place() -> None:
    gate = Gate(1)

    async def scene() -> str:
        await gate.enter()
        impatient = asyncio.create_task(gate.enter())
        patient = asyncio.create_task(gate.enter())
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.sleep(0)
        gate.leave(OK)
        await asyncio.wait_for(patient, 5)
        return "in"

    assert asyncio.run(scene()) == "in"


def test_one_who_is_cancelled_as_he_is_called_in_calls_in_the_next() -> None:
    gate = Gate(1)

    async def scene() -> str:
        await gate.enter()
        called = asyncio.create_task(gate.enter())
        other = asyncio.create_task(gate.enter())
        await asyncio.sleep(0)
        gate.leave(OK)
        called.cancel()
        await asyncio.wait_for(other, 5)
        return "in"

    assert asyncio.run(scene()) == "in"
