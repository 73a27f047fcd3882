"""What judges by vectors compare: the texts of answers and references, and how near they are.

Blank texts are left out. Nothing here encodes: vectors are looked up by text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core import Case, Response, Sample
from harness.errors import SpecError
from harness.parts import Failure, Reason

DECIMALS = 6  # of a difference: what lies below is float noise of an encoder, and counts as a tie

VectorOf = Mapping[str, NDArray[np.float32]]


def answers_of(response: Response) -> tuple[str, ...]:
    """The texts of a response that are not blank."""
    return tuple(text for text in response.texts or () if text.strip())


def reference_of(sample: Sample, name: str, *, judge: str) -> tuple[str, ...]:
    """The texts of one reference that are not blank; a sample without them is an error."""
    texts = tuple(text for text in sample.references.get(name, ()) if text.strip())
    if not texts:
        has = ", ".join(sorted(sample.references)) or "none"
        fact = "a blank" if name in sample.references else "no"
        raise SpecError(
            f"judge {judge}: sample {sample.id} has {fact} reference {name!r} (it has: {has}); "
            "name other references in the judge's YAML or leave this judge out"
        )
    return texts


@dataclass(frozen=True, slots=True)
class Compared:
    """The answers to a sample that are not blank, and the texts of its reference."""

    answers: tuple[str, ...]
    references: tuple[str, ...]

    @classmethod
    def of(cls, case: Case, reference: str, *, judge: str) -> "Compared":
        """Take the texts of a case; a sample without the reference is an error."""
        return cls(answers_of(case.response), reference_of(case.sample, reference, judge=judge))


def nearest_cosine(text: str, others: Sequence[str], vectors: VectorOf) -> float:
    """The cosine of a text with the nearest of some others, from unit vectors."""
    row = vectors[text].astype(np.float64)
    return max(float(row @ vectors[other].astype(np.float64)) for other in others)


def preferred(margin: float) -> float:
    """A difference as a value: 1 above zero, 0 below, 0.5 where it is a tie."""
    return float(np.sign(round(margin, DECIMALS)) + 1) / 2


def missing_verdict(response: Response) -> Failure | None:
    """Why a response has no text to compare; None where it has one."""
    if response.failure is not None:
        return response.failure
    if response.texts is None:
        return Failure(Reason.UNSUPPORTED, "this judge reads texts only")
    return None if answers_of(response) else Failure(Reason.EMPTY, "the answer is blank")
