"""Heads: they score as scikit-learn does, for two classes and more; once saved too."""

from pathlib import Path

import numpy as np
import pytest
from support.packages import needs

from harness.models.local import heads
from harness.models.local.heads import FILE, Arrays, fit, load_head, log_shares, scores
from harness.models.vectors import Vectors
from harness.specs.implicitness import CharNgramsSpec
from harness.specs.models import SklearnSpec

pytestmark = needs("sklearn")


def rows() -> Vectors:
    return np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)


def fitted(head: str, count: int, **more: object) -> Arrays:
    spec = SklearnSpec(head=head, encoder=CharNgramsSpec(), **more)  # type: ignore[arg-type]  # literals
    return fit(rows(), [at % count for at in range(60)], spec, seed=0)


@pytest.mark.parametrize("count", [2, 3])
def test_log_shares_are_the_probabilities_of_scikit_learn(count: int) -> None:
    from sklearn import linear_model

    theirs = linear_model.LogisticRegression(max_iter=1000)
    theirs.fit(rows(), [at % count for at in range(60)])

    found = np.exp(log_shares(scores(fitted("logistic", count), rows())))

    assert found == pytest.approx(theirs.predict_proba(rows()), abs=1e-6)


@pytest.mark.parametrize("count", [2, 3])
def test_the_best_score_is_the_class_that_scikit_learn_predicts(count: int) -> None:
    from sklearn import svm

    theirs = svm.LinearSVC(random_state=0)
    theirs.fit(rows(), [at % count for at in range(60)])

    found = scores(fitted("svm", count), rows()).argmax(axis=1)

    assert found.tolist() == theirs.predict(rows()).tolist()


@pytest.mark.parametrize("weight", ["none", "balanced"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_radial_kernel_decides_as_that_of_scikit_learn(count: int, weight: str) -> None:
    from sklearn import svm

    seen, fresh = rows(), np.random.default_rng(1).normal(size=(200, 5)).astype(np.float32)
    theirs = svm.SVC(class_weight=None if weight == "none" else weight, break_ties=count > 2)
    theirs.fit(seen, [at % count for at in range(60)])

    found = scores(fitted("svm-rbf", count, class_weight=weight), fresh)

    told = theirs.decision_function(fresh)
    expected = np.column_stack([-told, told]) if count == 2 else told
    assert found == pytest.approx(expected, abs=1e-6)
    assert found.argmax(axis=1).tolist() == theirs.predict(fresh).tolist()


def test_gamma_is_of_a_radial_kernel_alone() -> None:
    with pytest.raises(ValueError, match="head: svm-rbf"):
        SklearnSpec(head="svm", encoder=CharNgramsSpec(), gamma=1.0)


@pytest.mark.parametrize("head", ["svm", "svm-rbf", "logistic"])
def test_a_saved_head_scores_as_before(tmp_path: Path, head: str) -> None:
    before = fitted(head, 3)
    heads.write_arrays(tmp_path / FILE, before)
    assert (scores(load_head(tmp_path, 3), rows()) == scores(before, rows())).all()
