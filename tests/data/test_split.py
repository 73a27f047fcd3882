"""Rows to parts: whole, stratified, the same for a seed, with what belongs together in one part."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas import DataFrame

from harness.data.split import leaks, split_rows
from harness.errors import DataError

SHARES = (70, 15, 15)


def table(texts: Sequence[str], strata: Sequence[str] | None = None) -> DataFrame:
    return DataFrame({"text": texts, "stratum": strata or [""] * len(texts)})


def invented(count: int) -> DataFrame:
    """Rows of words that no two share, nine in ten of kind a, half of source x."""
    strata = [("b" if at % 10 == 0 else "a") + "xy"[at % 2] for at in range(count)]
    return table([f"one{at} two{at} three{at}" for at in range(count)], strata)


def test_each_stratum_is_divided_by_the_shares() -> None:
    rows = invented(400)

    found = split_rows(rows, SHARES, link="near", seed=42)

    for name, size in Counter(rows["stratum"]).items():
        counts = [(found["stratum"][found["part"] == at] == name).sum() for at in range(3)]
        wanted = [size * share / 100 for share in SHARES]
        assert all(abs(n - w) < 1 for n, w in zip(counts, wanted, strict=True)), name
    assert found["part"].value_counts().tolist() == [280, 60, 60]


@given(st.lists(st.sampled_from(["red cat", "Red, cat!", "blue dog", "sun", ""]), min_size=9))
@settings(deadline=None)  # a busy machine is no failure
def test_every_row_is_in_exactly_one_part(texts: list[str]) -> None:
    found = split_rows(table(texts), (2, 1), link="none", seed=1)
    assert found["text"].tolist() == texts
    assert set(found["part"]) == {0, 1}


def test_the_seed_decides_and_the_order_of_the_rows_does_not() -> None:
    rows = invented(60)
    turned = rows.sample(frac=1, random_state=3, ignore_index=True)

    def parts(of: DataFrame, seed: int) -> dict[str, int]:
        found = split_rows(of, SHARES, link="near", seed=seed)
        return dict(zip(found["text"], found["part"], strict=True))

    assert parts(rows, 42) == parts(turned, 42)
    assert parts(rows, 42) != parts(rows, 43)


def test_groups_and_near_duplicates_stay_in_one_part() -> None:
    texts = [f"row{at} is of its own words{at}" for at in range(40)]
    texts[10:12] = ["the old red barn burned down", "The old red barn burned, down at last!"]
    groups = [f"g{at // 4}" if at < 8 else None for at in range(40)]
    rows = table(texts).assign(thread=groups)

    found = split_rows(rows, SHARES, link="near", seed=7)

    part_of = found["part"].tolist()
    assert part_of[10] == part_of[11]
    assert [len({*part_of[span]}) for span in (slice(4), slice(4, 8))] == [1, 1]
    assert found["unit"].value_counts().max() == 4
    assert found["unit"].nunique() == 40 - 3 - 3 - 1


def test_what_parts_share_is_counted_by_rows() -> None:
    train = ["The cat sat on a mat.", "A dog ran.", ""]
    dev = ["the CAT sat on a mat", "the cat sat on a red mat", "Nothing like it.", "A dog ran", ""]
    found = leaks([("train", train), ("dev", dev)])

    assert found.to_numpy().tolist() == [["dev", "train", 5, 2, 3]]


def test_a_part_that_gets_nothing_is_an_error() -> None:
    with pytest.raises(DataError, match="in groups that belong together: 1 "):
        split_rows(table(["same words"] * 9), SHARES, link="same", seed=0)
