"""Profiles of texts beside plain numpy, and what has no score."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from weakref import ref

import numpy as np
import pytest
from support.each import each
from support.impscore_heads import Telling, random_scorer, telling_scorer

from harness.errors import DataError
from harness.implicitness.profile import ALL, Profile, bins_of, profile
from harness.models.vectors import Vectors
from harness.present.figures.figure import data_csv, drawable
from harness.present.figures.texts import datasets_distribution
from harness.specs.implicitness import Distance, Form
from harness.storage.frames import Row, records

SCORER = random_scorer()
TEXTS = [f"The {word} ferry waits for tea {at}." for at, word in enumerate("abcdefghij")]


def profiled(
    texts: Sequence[object],
    labels: Sequence[object] | None = None,
    *,
    pairs: int = 2000,
    seed: int = 0,
) -> Profile:
    return profile(texts, labels, SCORER, pairs=pairs, seed=seed)


def row(texts: Sequence[object]) -> Row:
    return records(profiled(texts).rows)[0]


def test_numbers_are_those_of_the_scores() -> None:
    values = np.array([one.value for one in SCORER.score(TEXTS)], dtype=float)

    found = row(TEXTS)

    assert found.n == 10
    assert found.mean == pytest.approx(values.mean(), abs=1e-5)
    assert found.sd == pytest.approx(values.std(ddof=1), abs=1e-5)
    assert (found.least, found.most) == pytest.approx((values.min(), values.max()), abs=1e-5)
    assert (found.q25, found.median) == pytest.approx(np.quantile(values, [0.25, 0.5]), abs=1e-5)
    assert bins_of(found) == tuple(np.histogram(values, np.arange(0, 2.1, 0.25))[0])


def test_pairs_are_all_or_drawn_by_the_seed_and_none_is_twice() -> None:
    pairs = [(TEXTS[i], TEXTS[j]) for i in range(10) for j in range(i)]
    apart = [one.value for one in SCORER.distances(pairs)]
    found = row(TEXTS)
    assert found.pairs == 45
    assert found.distance_mean == pytest.approx(np.mean(np.array(apart, float)), abs=1e-5)
    assert found.distance_sd == pytest.approx(np.std(np.array(apart, float), ddof=1), abs=1e-5)

    one, same = profiled(TEXTS, pairs=20, seed=1), profiled(TEXTS[::-1], pairs=20, seed=1)
    other = profiled(TEXTS, pairs=20, seed=2)
    assert one.rows["pairs"][0] == 20
    assert sorted(one.distances[0]) == sorted(same.distances[0])
    assert sorted(one.distances[0]) != sorted(other.distances[0])

    (drawn,) = profiled(TEXTS, pairs=44).distances
    assert len(set(drawn.tolist())) == 44
    assert drawn.min() > 0


@each(
    ("text", "reason"),
    [
        *((None, "absent"), ("", "empty"), (" \u200b", "empty"), ("a\0b", "nul")),
        *((3, "not_text"), (2.5, "not_text")),
    ],
)
def test_a_text_without_a_score_is_counted_and_never_zero(text: object, reason: str) -> None:
    found = row([*TEXTS, text])

    assert (found.texts, found.n) == (11, 10)
    assert getattr(found, f"missing_{reason}") == 1
    assert (sum(bins_of(found)), found.mean) == (10, row(TEXTS).mean)


@pytest.mark.parametrize(("texts", "n"), [([None, ""], 0), (["tea"], 1)])
def test_what_too_few_texts_cannot_tell_is_null(texts: list[object], n: int) -> None:
    found = profiled(texts)

    [first, *_] = records(found.rows)
    assert (first.n, first.sd, first.distance_mean) == (n, None, None)
    assert (first.mean is None) == (n == 0)
    assert drawable(datasets_distribution(found)).labels == []


def test_labels_have_rows_and_texts_are_no_labels() -> None:
    labels = ["b", "a", None, "", 1, "all", *"aaaa"]
    found = records(profiled(TEXTS, labels).rows)
    told = {part.label: part.n for part in found}
    assert told == {ALL: 10, "(no label)": 2, "1": 1, "a": 5, "all (a label)": 1, "b": 1}

    with pytest.raises(DataError, match="30 different values"):
        profiled(["tea"] * 30, [f"label {at}" for at in range(30)])


def test_values_of_euclidean_scorers_beyond_two_are_counted_outside() -> None:
    wide = random_scorer(form=Form(implicitness=Distance.EUCLIDEAN))
    found = profile(TEXTS, None, wide).rows.iloc[0]

    assert found.outside > 0
    assert sum(bins_of(found)) + found.outside == found.n


def test_each_different_text_is_encoded_once() -> None:
    told: list[int] = []
    profile(TEXTS * 3, None, SCORER, progress=lambda _, done, __: told.append(done))
    assert told == [10]


@dataclass(frozen=True)
class Watched(Telling):
    """An encoder that counts, at each call, how many of its arrays somebody still holds."""

    given: list["ref[Vectors]"] = field(default_factory=list)
    held: list[int] = field(default_factory=list)

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.held.append(sum(rows() is not None for rows in self.given))
        rows = super().encode(texts)
        self.given.append(ref(rows))
        return rows


def test_vectors_of_one_part_of_the_texts_are_held_at_a_time() -> None:
    encoder, texts = Watched(), [f"{at / 4096:.6f}" for at in range(4096)]

    found = profile(texts, None, replace(telling_scorer(), encoder=encoder), pairs=50)

    assert encoder.held == [0, 1, 1, 1]
    assert found.rows["mean"][0] == pytest.approx(np.mean([float(one) for one in texts]), abs=1e-5)
    assert found.rows["pairs"][0] == 50


def test_the_figure_names_labels_and_is_the_same_each_time() -> None:
    drawn = [datasets_distribution(profiled(TEXTS, list("<b" * 5))) for _ in range(2)]

    assert data_csv(drawn[0]) == data_csv(drawn[1])
    assert [panel.title for panel in drawn[0].panels] == ["< (n=5)", "b (n=5)"]
    assert drawn[0].notes[0].startswith("by random@")
