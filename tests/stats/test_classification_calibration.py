"""The expected calibration error, against a hand calculation and a second program."""

from fractions import Fraction
from math import nextafter
from random import Random

import pytest
from support.each import each

from harness.stats.classification import calibration_error


def test_the_error_is_the_mean_gap_of_the_bins_weighed_by_their_size() -> None:
    # By hand: bin (.9, 1]: |.95 - 1/2| of two; (.5, .6]: |.6 - 1| of one; (.2, .3]: |.25 - 0|.
    error = calibration_error([0.92, 0.98, 0.6, 0.25], [1.0, 0.0, 1.0, 0.0])

    assert error == pytest.approx((2 * 0.45 + 0.4 + 0.25) / 4)


def by_fractions(confidences: list[float], credits: list[float]) -> float:
    """The same in exact fractions, by definition: sum over bins of n/N |credit - confidence|."""
    total = Fraction(0)
    pairs = [(Fraction(p), Fraction(c)) for p, c in zip(confidences, credits, strict=True)]
    for place in range(10):
        low, high = Fraction(place, 10), Fraction(place + 1, 10)
        held = [(p, c) for p, c in pairs if low < p <= high or (place == 0 and p == 0)]
        if held:
            mean = [sum(part) / len(held) for part in zip(*held, strict=True)]
            total += Fraction(len(held), len(pairs)) * abs(mean[0] - mean[1])
    return float(total)


@each("seed", range(8))
def test_a_second_program_finds_the_same(seed: int) -> None:
    draw = Random(seed)
    confidences = [draw.random() for _ in range(200)]
    credits = [draw.choice((0.0, 0.25, 0.5, 1.0)) for _ in range(200)]

    assert calibration_error(confidences, credits) == pytest.approx(
        by_fractions(confidences, credits), abs=1e-12
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_choices_changes_no_digit(seed: int) -> None:
    pairs = [(Random(n).random(), float(n % 3 == 0)) for n in range(100)]
    mixed = Random(seed).sample(pairs, len(pairs))

    errors = [
        calibration_error([p for p, _ in some], [c for _, c in some]) for some in (pairs, mixed)
    ]

    assert errors[0] == errors[1]


@each("tenth", range(1, 10))
def test_a_confidence_on_a_border_belongs_to_the_lower_bin(tenth: int) -> None:
    border = tenth / 10
    below, above = border - 0.05, nextafter(border, 1)

    # In one bin a gap below and a gap above cancel; in two bins they do not.
    assert calibration_error([border, below], [1.0, 2 * border - 1.05]) == pytest.approx(
        0, abs=1e-9
    )
    assert calibration_error([border, above], [1.0, 2 * border - 1.0]) == pytest.approx(1 - border)


@pytest.mark.parametrize(
    ("confidences", "credits", "error"),
    [([1.0], [1.0], 0.0), ([1.0], [0.0], 1.0), ([0.0], [0.0], 0.0), ([0.5, 0.5], [1.0, 0.0], 0.0)],
)
def test_certainty_and_chance_have_their_own_errors(
    confidences: list[float], credits: list[float], error: float
) -> None:
    assert calibration_error(confidences, credits) == error


def test_without_choices_there_is_no_error() -> None:
    assert calibration_error([], []) is None


@pytest.mark.parametrize(
    ("confidences", "credits", "fact"),
    [
        ([0.5], [], "1 confidences for 0 credits"),
        ([1.5], [1.0], "not at 1.5"),
        ([-0.1], [1.0], "not at -0.1"),
        ([float("nan")], [1.0], "not at nan"),
    ],
)
def test_what_is_no_confidence_is_refused(
    confidences: list[float], credits: list[float], fact: str
) -> None:
    with pytest.raises(ValueError, match=fact):
        calibration_error(confidences, credits)
