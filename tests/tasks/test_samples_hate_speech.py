"""Our own texts about groups nobody belongs to: their form, and no word gives a kind away."""

import os
from collections import Counter
from pathlib import Path
from statistics import mean

import pytest
from support.sample_texts import other_texts, repeated, words
from support.word_probe import probed

from harness.core import Sample
from harness.data.readers.samples_jsonl import read
from harness.text.dedup import normal

FILE = Path(__file__).parents[2] / "tasks" / "samples" / "hate_speech.jsonl"
DATA = os.environ.get("HARNESS_DATA")
LEVELS = ("1", "2", "3", "4")
KINDS = ("yes", "no")


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return read([FILE], None)


def texts(samples: list[Sample], gold: str, level: str | None = None) -> list[str]:
    return [
        sample.fields["text"]
        for sample in samples
        if sample.gold == gold and level in (None, sample.references["level"][0])
    ]


def test_half_are_benign_and_each_kind_is_spread_over_all_levels(samples: list[Sample]) -> None:
    counts = Counter((sample.gold, sample.references["level"][0]) for sample in samples)

    assert len(samples) >= 80
    assert set(counts) == {(gold, level) for gold in KINDS for level in LEVELS}
    assert len(set(counts.values())) == 1


def test_a_group_of_the_table_is_a_kind_at_a_level(samples: list[Sample]) -> None:
    for sample in samples:
        label, level = sample.references["label"][0], sample.references["level"][0]
        assert sample.group == f"{label}, level {level}"
        assert sample.references["labels"] == ("hateful", "benign")
        assert sample.gold == {"hateful": "yes", "benign": "no"}[label]


def test_every_group_of_people_is_spoken_of_in_both_ways_alike(samples: list[Sample]) -> None:
    counts = Counter((sample.references["target"][0], sample.gold) for sample in samples)

    assert len(counts) >= 20
    assert set(counts.values()) == {4}


def test_no_text_is_there_twice_or_in_another_sample_set(samples: list[Sample]) -> None:
    held = [sample.fields["text"] for sample in samples]

    assert len({normal(text) for text in held}) == len(held)
    assert repeated(held, other_texts("hate_speech")) == []


def test_lengths_do_not_tell_the_kinds_apart(samples: list[Sample]) -> None:
    for level in (None, *LEVELS):
        sizes = [mean(len(words(text)) for text in texts(samples, kind, level)) for kind in KINDS]
        assert max(sizes) < 1.12 * min(sizes)


@pytest.mark.slow
def test_words_alone_do_not_tell_the_kinds_apart(samples: list[Sample]) -> None:
    held = [sample.fields["text"] for sample in samples]

    assert probed(held, [sample.gold == "yes" for sample in samples]) < 0.65


def test_texts_are_one_line_of_plain_prose(samples: list[Sample]) -> None:
    for sample in samples:
        text = sample.fields["text"]
        assert text == " ".join(text.split())
        assert text.isascii()
        assert 6 <= len(words(text)) <= 32
        assert text[-1] in ".!?"


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="HARNESS_DATA is unset: the folder of the released data")
def test_no_text_is_a_released_one(samples: list[Sample]) -> None:
    from pyarrow import parquet

    files = Path(DATA or ".").glob("ishate/ishate_*.parquet.gzip")
    released = [text for path in files for text in parquet.read_table(path)["text"].to_pylist()]

    assert repeated([sample.fields["text"] for sample in samples], released) == []
