"""Evaluations: figures checked by hand, missing items counted and never zero."""

import pytest
from support.each import each
from support.impscore_heads import random_head, telling_scorer

from harness.implicitness.evaluate import evaluate
from harness.implicitness.pairs import Item, Items
from harness.implicitness.scorer import Scorer
from harness.models.encoders.encoders import CharNgrams
from harness.storage.frames import Row, records


def ranking(*sentences: object, topic: str = "t", levels: tuple[float, ...] = ()) -> Item:
    graded = levels or tuple(float(n) for n in range(len(sentences)))
    return Item(topic, sentences, graded)


def measured(items: Items, metric: str) -> Row:
    rows = records(evaluate(items, telling_scorer()).measured)
    return next(one for one in rows if one.metric == metric)


@each(
    ("sentences", "tau", "rho", "ordered", "ends"),
    [
        (("0.1", "0.2", "0.3", "0.4"), 1, 1, 1, 1),
        (("0.4", "0.3", "0.2", "0.1"), -1, -1, 0, 0),
        # One swap of neighbours: (5 - 1) / 6; rho = 1 - 6 * 2 / (4 * 15).
        (("0.1", "0.3", "0.2", "0.4"), 4 / 6, 0.8, 5 / 6, 1),
        # 2, 3, 4, 1: concordant 3 of 6; rho = 1 - 6 * 12 / 60.
        (("0.2", "0.3", "0.4", "0.1"), 0, -0.2, 3 / 6, 0),
        # A tie of scores: tau-b = 5 / sqrt(5 * 6); ranks 1.5, 1.5, 3, 4.
        (("0.1", "0.1", "0.3", "0.4"), 5 / 30**0.5, 0.9486832980505138, 5.5 / 6, 1),
    ],
)
def test_figures_of_a_ranking_are_those_worked_out_by_hand(
    sentences: tuple[str, ...], tau: float, rho: float, ordered: float, ends: float
) -> None:
    found = evaluate(Items(rankings=(ranking(*sentences),)), telling_scorer())

    values = {one.metric: one.value for one in records(found.measured)}
    expected = {"tau": tau, "rho": rho, "ordered": ordered, "ends": ends}
    assert values == pytest.approx(expected, abs=1e-9)


def test_means_are_over_items_and_intervals_over_topics() -> None:
    up, down = ranking("0.1", "0.2", topic="a"), ranking("0.2", "0.1", topic="b")
    more = tuple(ranking("0.1", "0.2", topic=topic) for topic in "cde")

    found = measured(Items(rankings=(up, up, down, up)), "tau")
    wider = measured(Items(rankings=(up, up, down, up, *more)), "tau")

    assert (found.value, found.n, found.topics, found.missing) == (0.5, 4, 2, 0)
    assert found.low is None  # two topics are too few
    assert wider.low is not None
    assert -1 <= wider.low < (wider.value or 0) < (wider.high or 0) <= 1


@pytest.mark.parametrize("broken", [("0.1", ""), ("0.1", None), ("0.1", 5), ("0.1", "0\0")])
def test_a_ranking_of_a_flagged_sentence_is_missing_and_no_zero(broken: tuple[object, ...]) -> None:
    items = Items(rankings=(ranking("0.1", "0.2"), ranking(*broken)))
    found = evaluate(items, telling_scorer())

    assert [(one.value, one.n, one.missing) for one in records(found.measured)] == [(1, 1, 1)] * 4
    assert (found.rankings[1]["scores"][1], found.rankings[1]["tau"]) == (None, None)


@pytest.mark.parametrize("metric", ["tau", "rho", "ordered", "ends"])
def test_all_right_is_no_certainty(metric: str) -> None:
    # Eight topics without a fault: a share of 8 / (8 + 1.96^2) or more (Wilson). A mean of
    # correlations that are all 1 is no share, and nothing is known of its error.
    rankings = tuple(ranking("0.1", "0.2", "0.4", topic=f"t{n}") for n in range(8))

    found = measured(Items(rankings=rankings), metric)

    assert found.value == 1
    if metric in ("tau", "rho"):
        assert (found.low, found.high) == (None, None)
    else:
        assert (found.low, found.high) == pytest.approx((8 / (8 + 1.959964**2), 1))


def test_pairs_are_right_where_the_implicit_one_scores_higher() -> None:
    pairs = (Item("a", ("0.9", "0.1")), Item("b", ("0.1", "0.9")), Item("c", ("0.5", "0.5")))
    found = measured(Items(pairs=(*pairs, Item("d", ("0.5", None)))), "pairs")
    assert (found.value, found.n, found.missing, found.chance) == (0.5, 3, 1, 0.5)


def test_choices_are_right_where_the_nearest_in_meaning_is_the_answer() -> None:
    options = ("0.9", "0.2", "1.5")
    choices = (
        Item("a", ("0.1", *options), answer=1),
        Item("b", ("0.1", *options)),
        Item("c", ("0.1", "0.2", "0.2")),
        Item("d", ("0.1", "0.2", "")),
    )

    found = measured(Items(choices=choices), "closest")

    assert (found.value, found.n, found.missing) == ((1 + 0 + 0.5) / 3, 3, 1)
    assert found.chance == pytest.approx((1 / 3 + 1 / 3 + 1 / 2 + 1 / 2) / 4)


@pytest.mark.parametrize(
    ("seen", "count"), [((), None), (["Other."], 0), (["One."], 3), (["one", "Five!"], 4)]
)
def test_items_with_a_sentence_that_the_scorer_was_trained_on_are_counted(
    seen: tuple[str, ...], count: int | None
) -> None:
    items = Items(
        rankings=(ranking("One.", "Two.", None), ranking("Four.", "Five.")),
        pairs=(Item("a", ("Six.", "ONE")),),
        choices=(Item("a", ("Seven.", "Eight.", "One.")),),
    )

    found = evaluate(items, Scorer("random", random_head(seen=seen), CharNgrams()))

    assert (found.trained_on, found.items) == (count, 4)


def test_means_of_both_sides_and_of_distances_are_those_of_the_pairs() -> None:
    pairs = (
        Item("a", ("0.8", "0.2", "0.8", "0.1")),
        Item("b", ("0.6", "0.4", "0.6", "0.5")),
        Item("c", ("0.4", "0.3")),
    )

    found = evaluate(Items(pairs=pairs), telling_scorer())

    means = {one.of: one.mean for one in records(found.means)}
    assert means["implicit"] == pytest.approx(0.6)
    assert means["explicit"] == pytest.approx(0.3)
    assert [*found.means["n"]] == [3, 3, 3, 2]
    (nearer,) = [one for one in records(found.measured) if one.metric == "pragmatics"]
    # The first negative lies further apart than its pair, the second nearer.
    assert (nearer.value, nearer.n, nearer.missing) == (0.5, 2, 0)
