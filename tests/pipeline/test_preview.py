"""What a run would ask is foreseen as far as stored answers tell, and no call is made."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.sketches import Talker, failure, plan, task

from harness.core import Request, Response
from harness.models.client.cached import CachedClient, CallPolicy, Retry
from harness.parts import Reason
from harness.pipeline.execute import answer
from harness.pipeline.plan import Plan
from harness.pipeline.preview import planned_requests, preview, requests_of
from harness.specs.tasks import StepSpec, VariantSpec

THINK = ("think",)


def calls(made: Plan, desk: CachedClient | None = None) -> list[list[tuple[Request, Request]]]:
    return [*map(requests_of, preview(made, desk, made.cells))]


def after(
    folder: Path, say: Callable[[Request], str | Response], retry: Retry = "failed"
) -> CachedClient:
    """The desk that is left where a model said this to the first step about tea."""
    talker = Talker(say)
    first = planned_requests(made := tea(folder), made.cells[0])[0]
    with talker.desk(folder) as desk:
        desk.answer([first], stage="answers")
    return replace(talker.desk(folder), terms=CallPolicy(retry=retry))


def tea(folder: Path) -> Plan:
    return plan(folder, "tea", variants=THINK)


def test_what_shows_an_answer_to_come_is_open_and_has_two_lengths(tmp_path: Path) -> None:
    [[first, second]] = calls(tea(tmp_path))

    assert first[0] is first[1]
    long, short = (request.messages[-1].content for request in second)
    assert len(long) == len("You thought: \nNow answer about tea.") + 4 * 9  # max_tokens: 9
    assert short.startswith("You thought: (thought ")
    assert len(short) < len(long)


def test_a_stored_answer_takes_the_place_of_what_stands_in_for_it(tmp_path: Path) -> None:
    desk = after(tmp_path, lambda _: "It is cold.\n\nMore.")
    [[_, (longest, shortest)]] = calls(tea(tmp_path), desk)

    assert longest is shortest
    assert longest.messages[-1].content == "You thought: It is cold.\nNow answer about tea."


@pytest.mark.parametrize(
    ("say", "retry", "steps"),
    [
        (lambda _: " ", "failed", 1),
        (lambda asked: failure(asked), "none", 1),
        (lambda asked: failure(asked), "failed", 2),
        (lambda asked: Response.failed(asked.key, Reason.REFUSED, "no"), "failed", 1),
        (lambda asked: Response.failed(asked.key, Reason.REFUSED, "no"), "all", 2),
    ],
)
def test_a_course_ends_where_no_answer_will_come(
    tmp_path: Path, say: Callable[[Request], str | Response], retry: Retry, steps: int
) -> None:
    [found] = calls(tea(tmp_path), after(tmp_path, say, retry))
    assert len(found) == steps


def test_all_is_foreseen_just_as_it_is_then_asked(tmp_path: Path) -> None:
    talker, made = Talker(), plan(tmp_path, "tea", "rain", variants=("plain", "think"))
    with talker.desk(tmp_path) as desk:
        answer(made, desk)

    pairs = [pair for own in calls(made, desk) for pair in own]

    assert {longest.key for longest, _ in pairs} == {request.key for request in talker.heard}
    assert all(longest is shortest for longest, shortest in pairs)


def test_two_cells_never_share_what_stands_in_for_their_answers(tmp_path: Path) -> None:
    found = calls(plan(tmp_path, "tea", "rain", variants=THINK))
    assert len({own[1][0].key for own in found}) == 2


def test_what_is_stored_of_a_later_step_does_not_tell_an_earlier_one(tmp_path: Path) -> None:
    names = {"thought": "think", "aside": "plain", "response": "then"}
    steps = tuple(StepSpec(name=name, template=f"toy/{file}") for name, file in names.items())
    spec = task(variants={"think": VariantSpec(about="", steps=steps)})
    made = plan(tmp_path, "tea", variants=THINK, spec=spec)
    with Talker().desk(tmp_path) as desk:
        desk.answer([planned_requests(made, made.cells[0])[1]], stage="answers")

    [found] = calls(made, desk)

    assert [longest is not shortest for longest, shortest in found] == [False, False, True]
