"""What many choices show together: several orders of a sample, confidence, favourites."""

from collections.abc import Sequence
from math import isnan

import pytest
from support.choice_cases import chosen, frame_of, lost, sample, shared
from support.each import each

from harness.core import Sample
from harness.parts import Reason
from harness.pipeline.choice_scores import CALIBRATION, FAVOURITE, over_all, permuted
from harness.stats.classification import calibration_error
from harness.storage.run_tables import SampleRecord, VerdictRecord


def reads(
    *parts: tuple[VerdictRecord, str] | tuple[VerdictRecord, str, Sample],
) -> list[SampleRecord]:
    return [chosen(*part) for part in parts]


def averaged(rows: Sequence[SampleRecord]) -> list[float | None]:
    """Whether each sample comes out right over all of its rows; None where nobody knows."""
    return [None if isnan(value) else value for value in permuted(frame_of(rows)).tolist()]


def whole(rows: Sequence[SampleRecord], metric: str) -> tuple[float | None, list[bool]]:
    """What is no mean of rows, and of which rows it is made."""
    [found] = [one for one in over_all(frame_of(rows)) if one.metric == metric]
    return found.value, found.counted.tolist()


def orders(*shares: tuple[float, ...], of: Sample | None = None) -> list[SampleRecord]:
    """One row an order, with these probabilities of the sample's choices."""
    held = of or sample()
    return reads(*((shared(*part), f"order{n}", held) for n, part in enumerate(shares)))


@each(
    ("shares", "credit"),
    [
        # Means .4, .35 and .25: right, though one order of the two is wrong.
        ([(0.6, 0.3, 0.1), (0.2, 0.4, 0.4)], 1.0),
        # Means .367, .4 and .233: wrong, though two orders of three are right.
        ([(0.5, 0.3, 0.2), (0.5, 0.2, 0.3), (0.1, 0.7, 0.2)], 0.0),
        # A model that goes by the place alone, .7 to .3: each choice has .5.
        *(([(0.7, 0.3), (0.3, 0.7)], 0.5), ([(1 / 3, 1 / 3, 1 / 3)], 1 / 3)),
        *(([(0.4, 0.4, 0.2), (0.4, 0.4, 0.2)], 0.5), ([(0.2, 0.4, 0.4)], 0.0)),
    ],
)
def test_orders_are_averaged_by_the_choice(shares: list[tuple[float, ...]], credit: float) -> None:
    of = sample(("a", "b", "c")[: len(shares[0])])
    assert averaged(orders(*shares, of=of)) == [credit] * len(shares)


def test_a_sample_that_lacks_an_order_has_no_average_and_others_keep_theirs() -> None:
    other = sample(name="s2", gold=1)
    found = reads(
        (shared(0.2, 0.8, 0.0), "order0"),
        (lost(), "order1"),
        (VerdictRecord(1.0, detail={"chosen_place_1": 1.0}), "order2"),
        (shared(0.9, 0.1, 0.0), "order3"),
    )
    other_rows = reads((shared(0.2, 0.8, 0.0), "order0", other))

    assert averaged([*found, *other_rows]) == [None, None, None, None, 1.0]


def test_samples_are_averaged_apart() -> None:
    other = sample(name="s2", gold=1)
    found = reads(
        (shared(0.6, 0.4, 0.0), "order0"),
        (shared(0.6, 0.4, 0.0), "order0", other),
        (shared(0.3, 0.7, 0.0), "order1"),
        (shared(0.7, 0.3, 0.0), "order1", other),
    )

    # s1: .45 to .55 and its first is right; s2: .65 to .35 and its second is right.
    assert averaged(found) == [0.0, 0.0, 0.0, 0.0]


def test_confidence_is_that_of_the_likeliest_choice_and_its_own_credit() -> None:
    found = reads(
        (shared(0.9, 0.1, 0.0), "order0"),  # right
        (shared(0.2, 0.8, 0.0), "order1"),  # wrong
        (shared(0.5, 0.5, 0.0), "order2"),  # half right
        (lost(), "order3"),
    )

    error, counted = whole(found, CALIBRATION)

    assert error == calibration_error([0.9, 0.8, 0.5], [1.0, 0.0, 0.5])
    assert error == pytest.approx((0.1 + 0.8 + 0.0) / 3)
    assert counted == [True, True, True, False]


def test_confidence_does_not_borrow_the_credit_of_another_normalisation() -> None:
    # By its headline this response is wrong, while the probabilities make the right one likeliest.
    [read] = reads((shared(0.9, 0.1, 0.0, value=0.0), "order0"))
    assert whole([read], CALIBRATION)[0] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("places", "share"),
    [((1, 1, 1, 1), 1.0), ((1, 1, 2, 3), 0.5), ((3, 3, 3, 1), 0.75), ((1, 2, 3), 1 / 3)],
)
def test_the_favourite_is_the_place_chosen_most(places: tuple[int, ...], share: float) -> None:
    found = reads(*((shared(0.5, 0.3, 0.2, place=p), f"order{n}") for n, p in enumerate(places)))
    assert whole(found, FAVOURITE) == (share, [True] * len(places))


def test_a_tie_favours_no_place() -> None:
    thirds = {f"chosen_place_{place}": 1 / 3 for place in (1, 2, 3)}
    found = reads(*((VerdictRecord(1 / 3, detail=thirds), f"order{n}") for n in range(4)))
    assert whole(found, FAVOURITE)[0] == pytest.approx(1 / 3)


def test_a_missing_choice_favours_nothing_and_is_not_counted() -> None:
    some = reads((shared(0.5, 0.3, 0.2, place=2), "order0"), (lost(Reason.UNPARSED), "order1"))
    none = reads((lost(), "order0"), (lost(), "order1"))

    assert whole(some, FAVOURITE) == (1.0, [True, False])
    assert whole(none, CALIBRATION) == whole(none, FAVOURITE) == (None, [False] * 2)
    assert averaged(none) == [None, None]
