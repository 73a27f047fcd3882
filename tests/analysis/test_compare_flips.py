"""Runs of perturbed samples to flips, beside sums done by hand."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.paired_runs import NEAR, on_disk, sample, stored, words_task

from harness.analysis.flips import KEEPING, OTHERS, flip_rates
from harness.core import Sample
from harness.errors import StoreError
from harness.pipeline.transforms import BY, FROM, KEEPS
from harness.storage.frames import Row, records
from harness.storage.runs import JudgeEntry, StoredRun

RATING = JudgeEntry("near", "mean_rating", "near:00|minilm")


def copies(originals: Sequence[Sample], name: str, keeps: str) -> list[Sample]:
    return [
        replace(
            part,
            id=f"{part.id}~{name}",
            references={FROM: (part.id,), BY: (name,), KEEPS: (keeps,)},
        )
        for part in originals
    ]


def run(before: str, adverbs: str, eda: str = "", judge: JudgeEntry = NEAR) -> StoredRun:
    """A run of originals and their copies; each letter a verdict."""
    originals = [sample(at) for at in range(len(before))]
    there = [*originals, *copies(originals, "adverbs", "yes")]
    there += copies(originals, "eda_swap", "no")[: len(eda)]
    readings = {("base", "T0", "near"): before + adverbs + eda}
    return stored(words_task(), readings, samples=there, judges=(judge,))


def rows(found: StoredRun) -> dict[str, Row]:
    with TemporaryDirectory() as folder:
        rates = flip_rates(on_disk(Path(folder), found), found.file.judges)
    return {row.perturbation: row for row in records(rates)}


@pytest.mark.parametrize(
    ("before", "after", "value", "turns"),
    [
        ("1111", "1111", 0.0, (0, 0)),  # as by a constant model
        ("1010", "0101", 1.0, (2, 2)),  # as by a model that each adverb turns
        ("1100", "1000", 0.25, (1, 0)),
        ("1=00", "1110", 0.5, (0, 1)),  # from a tie, and from wrong to right
    ],
)
def test_a_flip_is_another_verdict_than_the_original_s(
    before: str, after: str, value: float, turns: tuple[int, int]
) -> None:
    found = rows(run(before, after))["adverbs"]

    assert (found.value, found.n, found.clusters) == (value, 4, 4)
    assert (found.to_wrong, found.to_right) == turns


def test_no_flip_of_few_is_no_proof_of_none() -> None:
    found = rows(run("1111", "1111"))["adverbs"]

    assert found.low == 0
    assert found.high == pytest.approx(1.96**2 / (4 + 1.96**2), abs=1e-4)  # Wilson


def test_verdicts_that_only_rise_are_no_share() -> None:
    # Differences of 0 and 1 are those of a mean that may be below 0: Student's interval.
    found = rows(run("000000", "000001"))["adverbs"]
    none = rows(run("1111", "1111"))["adverbs"]

    assert found.difference_low is not None
    assert found.difference_low < 0
    assert (none.difference, none.difference_low) == (0, None)


def test_perturbations_that_keep_the_meaning_stand_apart_from_others() -> None:
    found = rows(run("1111", "1110", "0000"))

    assert list(found) == ["adverbs", "eda_swap", KEEPING, OTHERS]
    assert (found[KEEPING].value, found[OTHERS].value) == (0.25, 1.0)
    assert (found[KEEPING].n, found[OTHERS].n) == (4, 4)


def test_copies_of_one_original_are_one_cluster() -> None:
    originals = [replace(sample(at), cluster=f"c{at // 2}") for at in range(4)]
    readings = {("base", "T0", "near"): "11110011"}
    held = stored(
        words_task(), readings, samples=[*originals, *copies(originals, "adverbs", "yes")]
    )

    found = rows(held)["adverbs"]

    assert (found.n, found.clusters, found.value) == (4, 2, 0.5)


def test_a_missing_verdict_is_no_flip() -> None:
    found = rows(run("11.1", "1.11"))["adverbs"]

    assert (found.value, found.n, found.missing) == (0.0, 2, 2)


def test_a_copy_whose_original_was_not_run_is_counted_apart() -> None:
    whole = run("1111", "0000")
    cut = StoredRun(whole.file, whole.rows[2:])

    found = rows(cut)["adverbs"]

    assert (found.n, found.unmatched, found.missing) == (2, 2, 0)


def test_without_any_pair_there_is_a_reason_and_no_number() -> None:
    found = rows(run("..", "11"))["adverbs"]

    assert (found.value, found.difference, found.reason) == (
        None,
        None,
        "no pair with both verdicts",
    )


def test_ratings_have_a_difference_and_no_flips() -> None:
    found = rows(run("1111", "1100", judge=RATING))["adverbs"]

    assert (found.value, found.to_wrong, found.difference) == (None, None, -0.5)
    assert "not right or wrong" in (found.reason or "")


def test_a_run_without_perturbed_samples_is_refused() -> None:
    plain = stored(words_task(), {("base", "T0", "near"): "11"})

    with pytest.raises(StoreError, match="harness perturb --task toy"):
        rows(plain)
