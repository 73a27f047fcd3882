"""Samples that do not fit into memory, in files without names."""

import pytest

from harness.core import Sample
from harness.parts import digest, digest_with
from harness.storage.stored_samples import StoredSamples

SAMPLES = [
    Sample(
        f"s{number}",
        {"b": f"é {number}\n", "a": ""},
        {"right": ("yes", "sure")},
        choices=("x", "y"),
        gold="x",
        cluster=f"c{number // 2}",
        flags=("odd",) * (number % 2),
    )
    for number in range(4_500)
]


def test_samples_come_back_equal_in_order_and_by_place() -> None:
    stored = StoredSamples(iter(SAMPLES))

    assert (len(stored), list(stored), stored[-1]) == (4_500, SAMPLES, SAMPLES[-1])
    assert stored[7:9000:1000] == tuple(SAMPLES[7:9000:1000])
    assert list(stored.at([4_000, 3, 3])) == [SAMPLES[4_000], SAMPLES[3], SAMPLES[3]]
    assert list(stored[0].fields) == ["b", "a"], "the order of the fields is that of the prompt"


def test_a_sample_is_found_by_its_id() -> None:
    stored = StoredSamples(SAMPLES)

    assert [stored.named(f"s{number}") for number in (0, 4_499)] == [SAMPLES[0], SAMPLES[-1]]
    with pytest.raises(KeyError, match="s4500"):
        stored.named("s4500")


def test_ids_given_twice_are_told() -> None:
    some = [*SAMPLES[:9], SAMPLES[3], SAMPLES[5], SAMPLES[3]]
    assert StoredSamples(some).repeated() == ["s3", "s5"]
    assert StoredSamples(SAMPLES).repeated() == []
    assert (list(StoredSamples([])), StoredSamples([]).repeated()) == ([], [])


def test_the_digest_of_many_is_that_of_their_list() -> None:
    few = SAMPLES[:3]

    assert digest_with(("oracle", {"a": ("b",)}), iter(few)) == digest(
        ("oracle", {"a": ("b",)}, few)
    )
    assert digest_with(("oracle",), ()) == digest(("oracle", []))
