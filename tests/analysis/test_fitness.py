"""A judge is fit, or unfit, or the controls cannot tell, by the interval of the controls' gap."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.run_tables import scores_of, verdicts_on

from harness.analysis.boards.alarms import judge_fitness
from harness.analysis.boards.ranked import standings
from harness.core import Score
from harness.parts import Reason
from harness.stats.estimate import mean_interval
from harness.storage.runs import ScoreRow

SIGNATURE = "toy:9f31|data:d1f3,all|base|{}:scripted@a1|T0.3,n1,s0|near:00|minilm|v0.1.0"
Ends = tuple[float | None, float | None, float | None]
FIT, UNSURE, UNFIT, WEAK, UNREAD = "fit", "cannot tell", "unfit", "weak", "unread"


def control(model: str, ends: Ends, *, clusters: int = 40, judge: str = "near") -> ScoreRow:
    n = 0 if ends[0] is None else clusters
    missing = dict.fromkeys(Reason, 0)
    score = Score(judge, "base", "T0.3", "all", "accuracy", *ends, n, n, missing)
    return ScoreRow("toy", model, score, 0.5, None, SIGNATURE.format(model))


def fitness(
    rows: list[ScoreRow], verdicts: Mapping[str, Sequence[float]] | None = None
) -> list[Any]:
    held = verdicts_on(verdicts or {})
    return [*judge_fitness(standings(scores_of(rows), held), held).itertuples()]


@each(
    ("oracle", "literal", "chance", "finding"),
    [
        ((0.9, 0.8, 1.0), (0.1, 0.0, 0.2), 0.5, FIT),
        ((0.75, 0.7, 0.8), (0.25, 0.2, 0.3), 0.5, UNSURE),  # exactly half of the scale
        ((0.7, 0.6, 0.8), (0.3, 0.2, 0.4), 0.5, UNSURE),
        ((0.65, 0.6, 0.7), (0.35, 0.3, 0.4), 0.5, WEAK),
        ((0.9, 0.8, 1.0), (0.45, 0.3, 0.6), 0.5, UNSURE),  # literal may be below chance
        ((1.0, 0.9, 1.0), (0.6, 0.55, 0.65), 0.5, UNFIT),  # literal is above it
        ((0.52, 0.48, 0.56), (0.5, 0.46, 0.54), 0.5, UNFIT),
        ((0.6, 0.3, 0.9), (0.4, 0.1, 0.7), 0.5, UNSURE),
        ((0.55, 0.45, 0.6), (0.1, 0.0, 0.2), None, FIT),
        ((0.6, 0.4, 0.8), (0.4, 0.2, 0.6), None, UNSURE),
        ((0.1, 0.0, 0.2), (0.9, 0.8, 1.0), 0.5, UNFIT),
        ((0.1, 0.0, 0.2), (0.9, 0.8, 1.0), None, UNFIT),
        ((None, None, None), (0.1, 0.0, 0.2), 0.5, UNREAD),
        ((0.9, 0.8, 1.0), (None, None, None), None, UNREAD),
        ((5.0, None, None), (1.0, None, None), None, FIT),
        ((3.0, None, None), (3.0, None, None), None, UNFIT),
    ],
)
def test_without_their_verdicts_the_controls_scores_decide(
    oracle: Ends, literal: Ends, chance: float | None, finding: str
) -> None:
    rows = [control("oracle", oracle), control("literal", literal), control("other", (0.5, 0, 1))]

    [found] = fitness([replace(row, chance=chance) for row in rows])

    assert (found.finding, found.is_paired) == (finding, False)
    known = [None if np.isnan(one) else one for one in (found.ceiling, found.floor)]
    assert known == [oracle[0], literal[0]]


@pytest.mark.parametrize(("clusters", "finding"), [(1, "few"), (9, "few"), (10, FIT)])
def test_fewer_than_ten_items_are_too_few_to_tell(clusters: int, finding: str) -> None:
    rows = [
        control("oracle", (1.0, 0.7, 1.0), clusters=clusters),
        control("literal", (0.0, 0.0, 0.3)),
    ]

    assert [part.finding for part in fitness(rows)] == [finding]


def test_a_swapped_judge_is_not_asked_to_be_fit() -> None:
    rows = [control(name, (0.5, 0.4, 0.6), judge="near:swapped") for name in ("oracle", "literal")]

    assert fitness(rows) == []


@pytest.mark.parametrize("missing", ["oracle", "literal"])
def test_a_judge_without_both_controls_is_not_called_unfit(missing: str) -> None:
    names = [name for name in ("oracle", "literal", "other") if name != missing]

    assert fitness([control(name, (0.5, 0.4, 0.6)) for name in names]) == []


def test_controls_of_another_recipe_say_nothing_of_a_judge() -> None:
    other = control("literal", (0.5, 0.4, 0.6))
    other = replace(other, signature=other.signature.replace("|base|", "|cot3|"))

    assert fitness([control("oracle", (0.5, 0.4, 0.6)), other]) == []


def read(oracle: np.ndarray, literal: np.ndarray) -> Any:  # noqa: ANN401 - a row of a frame
    """What verdicts on the same items show, each item a cluster."""
    rows, verdicts = [], {}
    for model, values in (("oracle", oracle), ("literal", literal)):
        found = mean_interval(values.tolist(), [*map(str, range(len(values)))], is_share=True)
        rows.append(control(model, (found.value, found.low, found.high), clusters=len(values)))
        verdicts[rows[-1].signature] = values.tolist()
    [one] = fitness(rows, verdicts)
    return one


def test_verdicts_on_the_same_items_narrow_the_gap() -> None:
    # The judge misses the same hard stories for both: 12 of 40 by .5 and the others by 1.
    oracle = np.array([0.5] * 12 + [1.0] * 28)
    literal = np.array([0.0] * 40)
    literal[12:20] = 0.5

    found = read(oracle, literal)

    assert found.is_paired
    assert found.low > 0.5
    assert found.finding == FIT


def test_controls_that_are_told_apart_on_every_item_make_a_fit_judge() -> None:
    found = read(np.ones(10), np.zeros(10))

    assert (found.finding, found.is_paired) == (FIT, False)  # no spread, no paired interval


def shares(finding: str, right: float, *, count: int) -> float:
    """How often a judge that is right so often about both controls has a finding."""
    draw = np.random.default_rng(count)
    pairs = [
        ((draw.random(count) < right) * 1.0, (draw.random(count) >= right) * 1.0)
        for _ in range(200)
    ]
    return float(np.mean([read(*pair).finding == finding for pair in pairs]))


@pytest.mark.slow
@pytest.mark.parametrize("count", [10, 20, 56])
@pytest.mark.parametrize("right", [0.8, 0.9])
def test_a_judge_that_tells_the_controls_apart_is_not_called_unfit(
    right: float, count: int
) -> None:
    assert shares(UNFIT, right, count=count) + shares(WEAK, right, count=count) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("count", [10, 20, 56])
def test_a_judge_that_flips_a_coin_is_never_called_fit(count: int) -> None:
    assert shares(FIT, 0.5, count=count) == 0


@pytest.mark.slow
def test_a_judge_that_flips_a_coin_is_called_unfit_where_the_items_suffice() -> None:
    assert shares(UNFIT, 0.5, count=56) >= 0.9
