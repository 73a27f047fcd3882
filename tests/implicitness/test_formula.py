"""The formula equals itself spelled out in plain numpy, in every form, in numpy and in torch."""

import numpy as np
import pytest
from support.each import each
from support.impscore_heads import plain_distance, plain_implicitness, random_maps

from harness.implicitness import formula
from harness.implicitness.formula import FORMS, PUBLISHED, Maps, distance, features, implicitness
from harness.specs.implicitness import Form

ROWS = np.random.default_rng(7).standard_normal((5, 12)).astype(np.float32)


def torch_maps(maps: Maps[formula.Matrix]) -> "Maps[torch.Tensor]":  # type: ignore[name-defined]  # noqa: F821 - imported where it is needed
    import torch

    given = (maps.semantic, maps.pragmatic, maps.transfer, maps.transfer_semantic)
    return Maps(*(None if m is None else torch.tensor(m, requires_grad=True) for m in given))


@each("form", FORMS)
def test_numpy_scores_equal_the_formula_spelled_out(form: Form) -> None:
    maps = random_maps(12, form=form)
    found = features(ROWS.astype(np.float64), maps)
    others = features(ROWS[::-1].astype(np.float64), maps)

    scores = implicitness(found, maps, form)
    apart = distance(found[1], others[1], form.pragmatic)

    assert scores == pytest.approx([plain_implicitness(r, maps, form) for r in ROWS], abs=1e-9)
    assert apart == pytest.approx(
        [plain_distance(a, b, maps, form) for a, b in zip(ROWS, ROWS[::-1], strict=True)], abs=1e-9
    )


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_torch_scores_equal_those_of_numpy_to_a_millionth(form: Form) -> None:
    torch = pytest.importorskip("torch")
    maps = random_maps(12, form=form)
    tensors = torch_maps(maps)

    found = implicitness(features(torch.tensor(ROWS), tensors), tensors, form)

    expected = implicitness(features(ROWS.astype(np.float64), maps), maps, form)
    assert found.detach().numpy() == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_gradients_are_finite_even_at_a_distance_of_zero_and_for_no_vector(form: Form) -> None:
    torch = pytest.importorskip("torch")
    maps = torch_maps(random_maps(12, form=form))
    found = features(torch.cat([torch.tensor(ROWS), torch.zeros(1, 12)]), maps)

    apart = distance(found[1], found[1], form.pragmatic)
    (implicitness(found, maps, form) + apart).sum().backward()

    assert all(torch.isfinite(m.grad).all() for m in (maps.semantic, maps.pragmatic))


def test_cosine_implicitness_stays_within_its_bounds() -> None:
    # With Wt the identity (or minus it) and Ws = Wp both features agree (or oppose).
    same = random_maps(12).semantic
    alike, opposed = (Maps(same, same, sign * np.eye(8, dtype=np.float32)) for sign in (1, -1))

    low = implicitness(features(ROWS, alike), alike, PUBLISHED)
    high = implicitness(features(ROWS, opposed), opposed, PUBLISHED)

    assert (low.min() >= 0, high.max() <= 2) == (True, True)
    assert np.concatenate([low, high]) == pytest.approx([0] * 5 + [2] * 5, abs=1e-6)


@pytest.mark.parametrize(
    "shapes",
    [
        *([(12, 8), (12, 8), (8, 7)], [(12, 8), (11, 8), (8, 8)], [(12, 8), (12, 7), (8, 8)]),
        [(12, 8), (12, 8), (8, 8), (7, 7)],
    ],
    ids=str,
)
def test_matrices_that_do_not_belong_together_are_refused(shapes: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match=r"\[dim, k\]"):
        Maps(*(np.zeros(shape) for shape in shapes))
