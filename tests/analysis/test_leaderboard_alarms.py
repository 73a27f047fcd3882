"""Runs whose choices do not depend on what is asked are told of, and others are not."""

import re
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from msgspec import structs
from support.board_frames import scores_of
from support.choice_cases import choice_run, chosen, lost, sample, shared, task, variants
from support.each import each
from support.run_tables import score_rows

from harness.analysis.boards.alarms import place_alarms
from harness.specs.tasks import TaskSpec
from harness.storage.run_tables import SampleRecord, VerdictRecord
from harness.storage.runs import ScoreRow

PAIR = ("yes", "no")
TASK = task()


def rows(
    places: Sequence[int | None],
    variant: str = "order0",
    *,
    of: Sequence[str] = PAIR,
    alike: int = 0,
) -> list[SampleRecord]:
    """One row a place, each of its own sample; the first `alike` score all choices the same."""
    return [
        chosen(_verdict(place, len(of), n < alike), variant, sample(of, name=f"s{n}"))
        for n, place in enumerate(places)
    ]


def _verdict(place: int | None, count: int, is_alike: bool) -> VerdictRecord:
    if place is None:
        return lost()
    return shared(*[1 / count] * count, place=place, identical_scores=float(is_alike))


def told(held: Sequence[SampleRecord], spec: TaskSpec = TASK, **changes: object) -> list[Any]:
    return found_in(score_rows(choice_run(spec, len(held), **changes), held))


def found_in(scores: Sequence[ScoreRow]) -> list[Any]:
    return [*place_alarms(scores_of(scores)).itertuples()]


def favourite(alarm: Any) -> float | None:  # noqa: ANN401 - a row of a frame
    """The share of the favourite place that an alarm names."""
    found = re.match(r"(\d+)% of its choices are at one position", alarm.words)
    return int(found[1]) / 100 if found else None


def alike_in(alarm: Any) -> float | None:  # noqa: ANN401 - a row of a frame
    """The share of responses whose choices score the same that an alarm names."""
    found = re.search(r"all choices score the same in (\d+)% of its responses", alarm.words)
    return int(found[1]) / 100 if found else None


@each(
    ("places", "share"),
    [
        ([1] * 20, 1.0),
        ([2] * 20, 1.0),
        ([1] * 18 + [2] * 2, 0.9),
        ([1] * 9 + [2], None),  # a fair model has so many at one of two places twice in 100 runs
        ([1] * 89 + [2] * 11, None),
        ([1, 2] * 10, None),
        ([1] * 10, 1.0),
        ([1] * 9, None),  # of a few samples the right choices may all stand at one place
        ([1] * 12 + [None] * 8, 1.0),
        ([None] * 20, None),
    ],
)
def test_one_place_chosen_nine_times_in_ten_is_told_of(
    places: list[int | None], share: float | None
) -> None:
    found = told(rows(places))

    assert [favourite(alarm) for alarm in found] == ([share] if share else [])


@each(("alike", "share"), [(0, None), (1, None), (2, 0.05), (4, 0.1), (40, 1.0)])
def test_scores_that_are_all_alike_one_time_in_twenty_are_told_of(
    alike: int, share: float | None
) -> None:
    found = told(rows([1, 2] * 20, alike=alike))

    assert [alike_in(alarm) for alarm in found] == ([share] if share else [])
    assert [favourite(alarm) for alarm in found] == ([None] if share else [])


@each("seed", range(20))
def test_a_choice_between_two_that_is_made_fairly_is_not(seed: int) -> None:
    draw = Random(seed)

    assert told(rows([draw.choice((1, 2)) for _ in range(20)])) == []


def test_all_orders_together_speak_for_a_run_where_they_were_asked() -> None:
    # What stands first in the one order stands last in the other: one reading, not one place.
    held = [*rows([1] * 20, "order0"), *rows([2] * 20, "order1")]

    assert told(held) == []
    assert [favourite(alarm) for alarm in told(rows([1] * 20, "order0"))] == [1.0]


def test_a_run_has_one_alarm_and_it_names_the_pool() -> None:
    held = [*rows([1] * 20, "order0", alike=20), *rows([1] * 20, "order1", alike=20)]

    [alarm] = told(held)

    assert (alarm.variant, favourite(alarm), alike_in(alarm)) == ("all", 1.0, 1.0)


def test_each_family_of_variants_speaks_for_itself() -> None:
    spec = structs.replace(
        TASK,
        variants={
            **variants("order0", "order1"),
            **variants("text:order0", pool="text:all"),
            **variants("bare:order0", pool=None),
        },
    )
    held = [*rows([1, 2] * 10, "order0"), *rows([1] * 20, "text:order0")]
    held += rows([2] * 20, "bare:order0")

    found = {alarm.variant for alarm in told(held, spec)}

    assert found == {"text:order0", "bare:order0"}


def test_models_are_told_of_apart() -> None:
    def by(model: str, held: Sequence[SampleRecord]) -> list[ScoreRow]:
        made = choice_run(TASK, len(held))
        return score_rows(replace(made, model=replace(made.model, name=model)), held)

    found = found_in([*by("stuck", rows([1] * 20)), *by("fair", rows([1, 2] * 10))])

    assert [alarm.model for alarm in found] == ["stuck"]


def test_answers_that_are_no_choices_are_never_told_of() -> None:
    from support.sketches import rows as texts
    from support.sketches import run_file

    assert found_in(score_rows(run_file(20), texts([1.0] * 20))) == []
