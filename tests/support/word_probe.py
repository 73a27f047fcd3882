"""How much of an answer words alone give away: a linear probe with one text left out."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

import numpy
from numpy.typing import NDArray

from support.sample_texts import words


def presence(shown: Sequence[str]) -> NDArray[Any]:
    """A row a text: which words it has, and a one for the bias."""
    known = sorted({word for text in shown for word in words(text)})
    rows = [[word in words(text) for word in known] + [True] for text in shown]
    return numpy.array(rows, dtype=float)


def fitted(seen: NDArray[Any], is_yes: NDArray[Any]) -> NDArray[Any]:
    """The weights of a logistic regression with a ridge of one, by descent."""
    weights = numpy.zeros(seen.shape[1])
    for _ in range(200):
        excess = 1 / (1 + numpy.exp(-seen @ weights)) - is_yes
        weights -= 0.1 * (seen.T @ excess + weights)
    return weights


def probed(shown: Sequence[str], is_yes: Sequence[bool]) -> float:
    """How often words alone tell the answer of a text that was left out of the fit."""
    seen, truth = presence(shown), numpy.array(is_yes, dtype=float)
    others = [numpy.arange(len(truth)) != left_out for left_out in range(len(truth))]
    said = [seen[i] @ fitted(seen[kept], truth[kept]) > 0 for i, kept in enumerate(others)]
    return mean(float(one == two) for one, two in zip(said, is_yes, strict=True))
