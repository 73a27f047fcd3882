"""A run that answers the same throughout, or no better than that, is told of; others are not."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from msgspec import structs
from support.board_frames import scores_of
from support.choice_cases import choice_run
from support.choice_cases import task as choices
from support.each import each
from support.hate_rows import VARIANT, constant, planted, run_of, text
from support.run_tables import score_rows
from support.sketches import row

from harness.analysis.boards.alarms import constant_alarms, place_alarms
from harness.core import Sample
from harness.specs.tasks import ClassesSpec
from harness.storage.run_tables import SampleRecord, VerdictRecord
from harness.storage.runs import ScoreRow


def table(rows: Sequence[SampleRecord]) -> list[ScoreRow]:
    return score_rows(run_of(rows), rows)


def told(rows: Sequence[SampleRecord]) -> list[Any]:
    return [*constant_alarms(scores_of(table(rows))).itertuples()]


def mixed(hateful: int, benign: int, *, hits: int, false: int) -> list[SampleRecord]:
    """So many texts of each kind, so many of them flagged."""
    return [
        *(text(f"h{n}", is_hateful=True, at=n / 99, said=float(n < hits)) for n in range(hateful)),
        *(text(f"b{n}", is_hateful=False, at=n / 99, said=float(n < false)) for n in range(benign)),
    ]


@pytest.mark.parametrize(("said", "finding"), [(1.0, "always"), (0.0, "never")])
def test_a_constant_answer_is_told_of_with_its_rates(said: float, finding: str) -> None:
    [alarm] = told(constant(said))

    assert alarm.finding == finding
    assert f"(TPR {said:.3f}, FPR {said:.3f}, AUC 0.500; " in alarm.words
    assert alarm.words.endswith("constant answer 0.500)")


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
    assert [alarm.finding for alarm in told(rows)] == ([finding] if finding else [])


LABELS = ("non", "open", "hidden")


def classified(*counts: tuple[int, int, int]) -> list[ScoreRow]:
    """The scores of so many texts of each label (lines) that are given each label (columns)."""
    cells = [
        (gold, chosen)
        for gold, line in zip(LABELS, counts, strict=True)
        for chosen, count in zip(LABELS, line, strict=True)
        for _ in range(count)
    ]
    rows = [_given(f"s{n}", gold, chosen) for n, (gold, chosen) in enumerate(cells)]
    task = structs.replace(choices({"base": VARIANT}), classes=ClassesSpec())
    return score_rows(choice_run(task, len(rows)), rows)


def _given(name: str, gold: str, chosen: str) -> SampleRecord:
    """A text of one label that is given another, or the same."""
    sample = Sample(name, {"text": name}, {"labels": LABELS}, LABELS, gold)
    detail = {f"chosen_label_{label}": float(label == chosen) for label in LABELS}
    detail |= {f"chosen_place_{at}": float(n == chosen) for at, n in enumerate(LABELS, 1)}
    verdict = VerdictRecord(float(gold == chosen), detail=detail)
    return row(verdict, sample=sample, decoding="logprob", verdicts={"gold": verdict})


@each(
    ("counts", "finding"),
    [
        (((60, 0, 0), (30, 0, 0), (10, 0, 0)), "one label"),  # the most common one
        (((0, 0, 60), (0, 0, 30), (0, 0, 10)), "one label"),  # the rarest
        (
            ((20, 20, 20), (10, 10, 10), (4, 3, 3)),
            "beaten",
        ),  # 33 of 100, always non 60
        (((60, 0, 0), (10, 20, 0), (9, 0, 1)), None),  # 81 of 100
        (((57, 3, 0), (20, 10, 0), (10, 0, 0)), None),  # 67 of 100
        (((60, 0, 0), (0, 0, 0), (0, 0, 0)), "one kind"),
        (((60, 0, 0), (9, 0, 0), (0, 0, 0)), None),  # of few texts of a label nothing is said
    ],
)
def test_of_classes_the_constant_answer_is_the_most_common_label(
    counts: tuple[tuple[int, int, int], ...], finding: str | None
) -> None:
    found = classified(*counts)

    told = [*constant_alarms(scores_of(found)).itertuples()]

    assert [alarm.finding for alarm in told] == ([finding] if finding else [])
    assert all("constant answer non " in alarm.words for alarm in told)
    assert not any("TPR" in alarm.words for alarm in told)
    assert place_alarms(scores_of(found)).empty


def test_a_model_that_finds_few_texts_because_few_are_hateful_stands_at_no_place() -> None:
    # 93 of 100 answers are no, and that is right.
    assert place_alarms(scores_of(table(mixed(10, 90, hits=7, false=0)))).empty


def test_a_model_with_a_planted_slope_is_not_told_of() -> None:
    assert told(planted(400)) == []


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
        called += "beaten" in [alarm.finding for alarm in told(rows)]

    assert called <= 5
