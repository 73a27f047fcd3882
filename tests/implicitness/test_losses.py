"""Training recovers what was planted, repeats itself bit for bit, and asks what the paper asks."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs
from support.each import rest_slow
from support.packages import needs

from harness.implicitness.formula import FORMS, Maps, Matrix, distance, features, implicitness
from harness.implicitness.losses import PairExamples, Places, scaled, train
from harness.models.vectors import Vectors
from harness.specs.implicitness import Form, SettingsSpec

pytestmark = needs("torch")

DIM, PAIRS = 24, 160
NO_ORDERS: Places = np.empty((0, 2), np.int64)
QUICK = SettingsSpec(features=8, epochs=20)


def planted(seed: int, *, rows: int = 2 * PAIRS, constant: bool = False) -> Vectors:
    """Unit vectors in twos: an implicit one and an explicit one of the same meaning.

    One column is greater in the implicit ones by far, and hidden by a rotation.
    """
    draw = np.random.default_rng(seed)
    meaning = np.repeat(draw.standard_normal((rows // 2, DIM)), 2, axis=0)
    found = meaning + 0.3 * draw.standard_normal((rows, DIM))
    found[:, 0] = 1 + np.tile([1.0, -1.0], rows // 2)
    found[:, 1] = 3  # as means of hidden states, these have a direction in common
    found @= np.linalg.qr(np.random.default_rng(0).standard_normal((DIM, DIM)))[0]
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    if constant:
        found = np.hstack([found, np.ones((rows, 1))]) / np.sqrt(2)
    return found.astype(np.float32)


def pairs_of(vectors: Vectors, *, seed: int = 0) -> PairExamples:
    """Each two rows a pair, with the explicit row of another."""
    places = np.arange(len(vectors)).reshape(-1, 2)
    others = np.roll(places[:, 1], 1 + seed)
    four = np.column_stack([places, places[:, 0], others])
    return of_pairs(vectors, four)


def of_pairs(vectors: Vectors, four: Places, **more: Places) -> PairExamples:
    """Examples of pairs, and of what else is given."""
    none = {"orders": NO_ORDERS, "steps": NO_ORDERS[:, 0], "plain": NO_ORDERS}
    return PairExamples(vectors, four, **(none | {"second": NO_ORDERS[:, 0]} | more))


def share(vectors: Vectors, maps: Maps[Matrix], form: Form) -> tuple[float, float]:
    """The implicitness and pragmatics accuracies of pairs."""
    found = features(vectors, maps)
    scores = implicitness(found, maps, form)
    four = pairs_of(vectors).pairs
    sides = [features(vectors[side], maps)[1] for side in four.T]
    near, far = (distance(sides[at], sides[at + 1], form.pragmatic) for at in (0, 2))
    return float((scores[0::2] > scores[1::2]).mean()), float((near < far).mean())


@pytest.mark.parametrize("form", rest_slow(FORMS, kept=1), ids=str)
def test_a_planted_direction_is_recovered_in_every_form(form: Form) -> None:
    settings = SettingsSpec(
        direction=form.direction,
        implicitness=form.implicitness,
        pragmatic=form.pragmatic,
        features=8,
        epochs=60,
    )

    maps, _ = train(pairs_of(planted(1)), settings, seed=0)

    ordered, meant = share(planted(2), maps, form)
    assert (ordered > 0.95, meant > 0.85) == (True, True)


@pytest.mark.parametrize("is_scaled", [False, True])
def test_the_same_seed_gives_the_same_bits(is_scaled: bool) -> None:
    known, held = pairs_of(planted(1)), pairs_of(planted(1), seed=3)
    settings = SettingsSpec(features=8, epochs=5, batch=50, noise=0.3, is_scaled=is_scaled)

    first, again = (train(known, settings, seed=4, validation=held) for _ in range(2))

    assert first[1] == again[1]
    for name in ("semantic", "pragmatic", "transfer"):
        bits = [getattr(maps, name).tobytes() for maps, _ in (first, again)]
        assert bits[0] == bits[1]


def test_the_same_bits_whatever_threads_torch_has() -> None:
    import torch

    before, known = torch.get_num_threads(), pairs_of(planted(1))
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(train(known, QUICK, seed=0)[0].semantic.tobytes())
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


def test_levels_are_learned_as_ordered_pairs() -> None:
    vectors = planted(1)
    rows = np.arange(len(vectors)).reshape(-1, 2)
    no_side = np.repeat(rows[:, :1], 4, axis=1)  # pairs that teach nothing
    known = of_pairs(vectors, no_side, orders=rows, steps=np.ones(len(rows), np.int64))

    maps, _ = train(known, SettingsSpec(features=8, epochs=60, pragmatic_weight=0), seed=0)

    assert share(planted(2), maps, FORMS[0])[0] > 0.95


def planted_with_plain() -> PairExamples:
    """Pairs that teach nothing, each with a plain row without what implicit rows have."""
    vectors = planted(1)
    rows = np.arange(len(vectors)).reshape(-1, 2)
    return of_pairs(vectors, np.repeat(rows[:, :1], 4, axis=1), plain=rows)


def test_plain_sentences_are_learned_to_score_below_implicit_ones() -> None:
    quick = SettingsSpec(features=8, epochs=60, pragmatic_weight=0)

    shares = [
        share(planted(2), train(planted_with_plain(), settings, seed=0)[0], FORMS[0])[0]
        for settings in (quick, structs.replace(quick, plain_weight=1))
    ]

    assert shares[0] < 0.8
    assert shares[1] > 0.95


def test_a_ceiling_keeps_explicit_and_plain_sentences_low() -> None:
    quick = SettingsSpec(features=8, epochs=60, pragmatic_weight=0, plain_weight=1)
    held = planted(2)

    means = [
        implicitness(features(held[1::2], maps), maps, FORMS[0]).mean()
        for maps in (
            train(planted_with_plain(), settings, seed=0)[0]
            for settings in (quick, structs.replace(quick, ceiling=0.2, ceiling_weight=4))
        )
    ]

    assert means[1] < means[0] - 0.1


def test_the_best_epoch_by_validation_is_kept() -> None:
    known, held = pairs_of(planted(1)), pairs_of(planted(3))
    both = replace(held, vectors=np.concatenate([known.vectors, held.vectors]))
    held = replace(both, pairs=held.pairs + len(known.vectors))
    known = replace(known, vectors=both.vectors)

    _, kept = train(known, QUICK, seed=0, validation=held)

    shares = []
    for epochs in range(1, QUICK.epochs + 1):
        maps, _ = train(known, structs.replace(QUICK, epochs=epochs), seed=0)
        scores = implicitness(features(held.vectors, maps), maps, FORMS[0])
        shares.append((scores[held.pairs[:, 0]] > scores[held.pairs[:, 1]]).mean())
    assert shares[kept - 1] == pytest.approx(max(shares), abs=0.01)


@pytest.mark.parametrize("constant", [False, True])
def test_matrices_learned_of_scaled_rows_are_matrices_on_rows_themselves(constant: bool) -> None:
    vectors = planted(1, constant=constant)
    rows, back = scaled(vectors, np.arange(len(vectors)))
    draw = np.random.default_rng(0).standard_normal
    maps = Maps(*(draw(s).astype(np.float32) for s in ((vectors.shape[1], 8),) * 2 + ((8, 8),)))

    own = replace(maps, semantic=back(maps.semantic), pragmatic=back(maps.pragmatic))

    for there, here in zip(features(rows, maps), features(vectors, own), strict=True):
        np.testing.assert_allclose(here, there, rtol=0, atol=1e-4)
