"""Numbers that others wrote for choices, turned into scores."""

from math import inf, nan

import pytest
from support.each import each

from harness.importers.record import (
    LEAST,
    scores_of_logprobs,
    scores_of_probabilities,
)


def test_a_probability_printed_as_0_is_the_least_there_is() -> None:
    assert (
        scores_of_probabilities([0.0, 1.0], ("1", "2"))[0].logprob
        == LEAST
        == pytest.approx(-744.44)
    )


@each("values", [[1.2, 0.0], [-0.1, 0.5], [nan, 0.5], [0.6, 0.6], [inf, 0], [0, 0]])
def test_what_are_no_probabilities_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"is no probability|add up to|choice is 0"):
        scores_of_probabilities(values, ("1", "2"))


def test_an_impossible_choice_has_the_least_log_probability() -> None:
    assert [part.logprob for part in scores_of_logprobs([-inf, -1.5], ("a", "b"))] == [LEAST, -1.5]


@pytest.mark.parametrize("value", [0.3, nan, inf])
def test_a_positive_number_is_no_log_probability(value: float) -> None:
    with pytest.raises(ValueError, match="no log-probability in nats"):
        scores_of_logprobs([value, -1.0], ("a", "b"))
