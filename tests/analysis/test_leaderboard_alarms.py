"""Runs whose choices do not depend on what is asked are told of, and others are not."""

import re
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from msgspec import structs
from support.choice_cases import choice_run, chosen, lost, sample, shared, task, variants
from support.choice_cases import task as choices
from support.each import each
from support.hate_rows import LABELS, VARIANT, constant, labelled, planted, run_of, text
from support.run_tables import score_rows, scores_of

from harness.analysis.boards.scores import alarms
from harness.specs.tasks import ClassesSpec, TaskSpec
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
    return [one for one in alarms(scores_of(scores)).itertuples() if one.finding == "place"]


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
def test_one_place_of_ten_is_an_alarm(places: list[int | None], share: float | None) -> None:
    found = told(rows(places))
    assert [favourite(alarm) for alarm in found] == ([share] if share else [])


@each(("alike", "share"), [(0, None), (1, None), (2, 0.05), (4, 0.1), (40, 1.0)])
def test_scores_all_alike_one_time_in_twenty_are_told_of(alike: int, share: float | None) -> None:
    found = told(rows([1, 2] * 20, alike=alike))
    assert [alike_in(alarm) for alarm in found] == ([share] if share else [])
    assert [favourite(alarm) for alarm in found] == ([None] if share else [])


@each("seed", range(8))
def test_a_choice_between_two_that_is_made_fairly_is_not(seed: int) -> None:
    draw = Random(seed)
    assert told(rows([draw.choice((1, 2)) for _ in range(20)])) == []


def test_alarms_speak_for_a_pool_or_a_family_of_variants() -> None:
    # What stands first in the one order stands last in the other: one reading, not one place.
    held = [*rows([1] * 20, "order0"), *rows([2] * 20, "order1")]
    assert told(held) == []
    assert [favourite(alarm) for alarm in told(rows([1] * 20, "order0"))] == [1.0]

    held = [*rows([1] * 20, "order0", alike=20), *rows([1] * 20, "order1", alike=20)]
    [alarm] = told(held)
    assert (alarm.variant, favourite(alarm), alike_in(alarm)) == ("all", 1.0, 1.0)

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


def test_alarms_are_by_model_and_of_choices_alone() -> None:
    def by(model: str, held: Sequence[SampleRecord]) -> list[ScoreRow]:
        made = choice_run(TASK, len(held))
        return score_rows(replace(made, model=replace(made.model, name=model)), held)

    found = found_in([*by("stuck", rows([1] * 20)), *by("fair", rows([1, 2] * 10))])
    assert [alarm.model for alarm in found] == ["stuck"]

    from support.sketches import rows as texts
    from support.sketches import run_file

    assert found_in(score_rows(run_file(20), texts([1.0] * 20))) == []


def table(rows: Sequence[SampleRecord]) -> list[ScoreRow]:
    return score_rows(run_of(rows), rows)


def told_constant(rows: Sequence[SampleRecord]) -> list[Any]:
    return constant_in(table(rows))


def constant_in(scores: Sequence[ScoreRow]) -> list[Any]:
    return [one for one in alarms(scores_of(scores)).itertuples() if one.finding != "place"]


def mixed(hateful: int, benign: int, *, hits: int, false: int) -> list[SampleRecord]:
    """So many texts of each kind, so many of them flagged."""
    return [
        *(text(f"h{n}", is_hateful=True, at=n / 99, said=float(n < hits)) for n in range(hateful)),
        *(text(f"b{n}", is_hateful=False, at=n / 99, said=float(n < false)) for n in range(benign)),
    ]


@pytest.mark.parametrize(("said", "finding"), [(1.0, "always"), (0.0, "never")])
def test_a_constant_answer_is_told_of_with_its_rates(said: float, finding: str) -> None:
    [alarm] = told_constant(constant(said))

    assert alarm.finding == finding
    assert f"(TPR {said:.3f}, FPR {said:.3f}, AUC 0.500; " in alarm.words
    assert alarm.words.endswith("constant answer 0.500)")


@pytest.mark.slow
@each(
    ("rows", "finding"),
    [
        (mixed(20, 20, hits=20, false=19), "always"),
        (mixed(20, 20, hits=1, false=0), "never"),
        (mixed(20, 20, hits=20, false=0), None),
        (mixed(20, 20, hits=15, false=5), None),
        (mixed(30, 10, hits=10, false=3), "beaten"),  # 17 of 40, always yes 30
        (mixed(30, 10, hits=20, false=3), None),  # 27 of 40, which 30 does not surely beat
        (mixed(30, 10, hits=22, false=2), None),  # 30 of 40, as always yes
        (mixed(30, 10, hits=29, false=4), None),  # 35 of 40
        (mixed(10, 90, hits=9, false=4), None),  # few are flagged, as few are hateful
        (mixed(40, 0, hits=40, false=0), "one kind"),
        (mixed(0, 40, hits=0, false=3), "one kind"),
        (mixed(9, 40, hits=0, false=0), None),  # of few texts of a kind nothing is said
        (mixed(5, 5, hits=5, false=5), None),
    ],
)
def test_what_is_told_depends_on_both_rates(rows: list[SampleRecord], finding: str | None) -> None:
    assert [alarm.finding for alarm in told_constant(rows)] == ([finding] if finding else [])


def classified(*counts: tuple[int, int, int]) -> list[ScoreRow]:
    """The scores of so many texts of each label (lines) that are given each label (columns)."""
    cells = [
        (gold, chosen)
        for gold, line in zip(LABELS, counts, strict=True)
        for chosen, count in zip(LABELS, line, strict=True)
        for _ in range(count)
    ]
    rows = [labelled(f"s{n}", gold, chosen) for n, (gold, chosen) in enumerate(cells)]
    task = structs.replace(choices({"base": VARIANT}), classes=ClassesSpec())
    return score_rows(choice_run(task, len(rows)), rows)


@each(
    ("counts", "finding"),
    [
        (((60, 0, 0), (30, 0, 0), (10, 0, 0)), "one label"),  # the most common one
        (((0, 0, 60), (0, 0, 30), (0, 0, 10)), "one label"),  # the rarest
        (((20, 20, 20), (10, 10, 10), (4, 3, 3)), "beaten"),  # 33 of 100, always non 60
        (((60, 0, 0), (10, 20, 0), (9, 0, 1)), None),  # 81 of 100
        (((57, 3, 0), (20, 10, 0), (10, 0, 0)), None),  # 67 of 100
        (((60, 0, 0), (0, 0, 0), (0, 0, 0)), "one kind"),
        (((60, 0, 0), (9, 0, 0), (0, 0, 0)), None),  # of few texts of a label nothing is said
    ],
)
def test_of_classes_the_constant_answer_is_the_most_common_label(
    counts: tuple[tuple[int, int, int], ...], finding: str | None
) -> None:
    made = classified(*counts)

    found = constant_in(made)
    assert [alarm.finding for alarm in found] == ([finding] if finding else [])
    assert all("constant answer non " in alarm.words for alarm in found)
    assert not any("TPR" in alarm.words for alarm in found)
    assert found_in(made) == []


def test_a_model_that_reads_its_texts_is_not_told_of() -> None:
    # 93 of 100 answers are no, and that is right.
    assert found_in(table(mixed(10, 90, hits=7, false=0))) == []
    assert told_constant(planted(400)) == []


@pytest.mark.slow
@pytest.mark.parametrize("count", [20, 40, 100])
def test_a_model_better_than_a_constant_is_rarely_called_beaten(count: int) -> None:
    draw, called = Random(count), 0
    for _ in range(100):
        kinds = [draw.random() < 0.5 for _ in range(count)]
        rows = [
            text(f"t{n}", is_hateful=kind, at=0.5, said=float(kind == (draw.random() < 0.6)))
            for n, kind in enumerate(kinds)
        ]
        called += "beaten" in [alarm.finding for alarm in told_constant(rows)]

    assert called <= 5
