"""Vectors of texts and their classes to heads, and vectors to a head's scores.

Scikit-learn trains them; their numbers alone are kept, as safetensors, which cannot hold code.
"""

import logging
import warnings
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import ModelError
from harness.models.extras import require
from harness.models.vectors import Vectors
from harness.specs.models import SklearnSpec
from harness.storage.files import write_whole

_log = logging.getLogger(__name__)
Scores = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]
"""The numbers that a head is made of, by name."""
FILE = "head.safetensors"


def scores(head: Arrays, rows: Vectors) -> Scores:
    """Score rows [n, width]: [n, classes], the highest for the class that is chosen.

    They are decision scores or log-odds. Of three classes and more of a radial kernel each pair won
    is a vote, and margins settle ties, as in scikit-learn with `break_ties`.
    """
    known = head["support"] if "support" in head else head["weights"]
    if rows.shape[1] != known.shape[1]:
        raise ModelError("a head of vectors of another width; train the classifier again")
    own = rows.astype(np.float64)
    if "support" not in head:
        return np.asarray(own @ known.T + head["offsets"])
    theirs = known.astype(np.float64)
    squares = (own**2).sum(axis=1)[:, None] + (theirs**2).sum(axis=1) - 2 * own @ theirs.T
    kernel = np.exp(-head["gamma"] * np.maximum(squares, 0.0))
    margins = kernel @ head["pairs"].T + head["offsets"]
    if margins.shape[1] == 1:
        return np.hstack([margins, -margins])
    count = (1 + isqrt(1 + 8 * margins.shape[1])) // 2  # classes of so many pairs
    votes, sure = np.zeros((2, len(rows), count))
    for margin, (first, second) in zip(margins.T, combinations(range(count), 2), strict=True):
        votes[:, first] += margin >= 0
        votes[:, second] += margin < 0
        sure[:, first] += margin
        sure[:, second] -= margin
    return np.asarray(votes + sure / (3 * (np.abs(sure) + 1)))


def fit(rows: Vectors, places: Sequence[int], spec: SklearnSpec, *, seed: int) -> Arrays:
    """Train a head on rows whose classes are `places`, from 0; every class must occur.

    A linear head has weights [classes, width] and offsets [classes]. A support vector machine whose
    kernel is exp(-gamma |x - v|^2), of x and a support vector v, has `support` [vectors, width],
    `gamma` [1], and a machine for each pair of classes, (0, 1), (0, 2), ... (1, 2): `pairs`
    [pairs, vectors] and `offsets` [pairs]; above 0 the first class of the pair wins.
    """
    require("sklearn", extra="classic")
    weight = None if spec.class_weight == "none" else spec.class_weight
    if spec.head == "svm-rbf":
        return _radial(rows, places, spec, weight)
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    kind = LinearSVC if spec.head == "svm" else LogisticRegression
    model = kind(C=spec.c, class_weight=weight, max_iter=spec.max_iter, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(rows, np.asarray(places))
    if any(issubclass(one.category, ConvergenceWarning) for one in caught):
        _log.warning("training stopped at max_iter %d before it converged: raise it", spec.max_iter)
    weights, offsets = np.asarray(model.coef_), np.asarray(model.intercept_)
    if len(weights) > 1:
        return {"weights": weights.astype(np.float64), "offsets": offsets.astype(np.float64)}
    # For two classes there is one row: the first is what the second is not, its log-odds are 0.
    first = -1.0 if spec.head == "svm" else 0.0
    both = {"weights": np.vstack([first * weights, weights])}
    return both | {"offsets": np.append(first * offsets, offsets)}


def _radial(rows: Vectors, places: Sequence[int], spec: SklearnSpec, weight: str | None) -> Arrays:
    from sklearn.svm import SVC

    gamma = "scale" if spec.gamma is None else spec.gamma
    model = SVC(C=spec.c, gamma=gamma, class_weight=weight, cache_size=2000)
    model.fit(rows, np.asarray(places))
    own, count = np.asarray(model.dual_coef_), len(model.n_support_)
    of = np.repeat(np.arange(count), model.n_support_)  # the class of each support vector
    pairs = np.zeros((count * (count - 1) // 2, len(of)))
    for at, (first, second) in enumerate(combinations(range(count), 2)):
        pairs[at, of == first] = own[second - 1, of == first]
        pairs[at, of == second] = own[first, of == second]
    # Of two classes scikit-learn turns the signs: above 0 the second wins.
    sign = -1.0 if count == 2 else 1.0
    return {
        "support": np.asarray(model.support_vectors_, dtype=np.float32),
        "pairs": sign * pairs,
        "offsets": sign * np.asarray(model.intercept_, dtype=np.float64),
        "gamma": np.array([model._gamma]),
    }


def log_shares(scores: Scores) -> Scores:
    """Turn log-odds [n, classes] into log-probabilities, in nats."""
    from scipy.special import log_softmax

    return np.asarray(log_softmax(scores, axis=1))


def load_head(folder: Path, labels: int) -> Arrays:
    """Read a head; ModelError unless its numbers are finite and of that many labels."""
    head = read_arrays(folder / FILE, remedy="train it again")
    shapes = {name: part.shape for name, part in head.items()}
    known, pairs = shapes.get("support") or shapes.get("weights", ()), labels * (labels - 1) // 2
    wanted = {"weights": (labels, *known[1:]), "offsets": (labels,)}
    if "support" in shapes:
        wanted = {
            "support": known,
            "pairs": (pairs, *known[:1]),
            "offsets": (pairs,),
            "gamma": (1,),
        }
    if len(known) != 2 or shapes != wanted:
        raise ModelError(f"{folder / FILE}: no weights of {labels} labels; train it again")
    return head


def write_arrays(path: Path, arrays: Arrays) -> Path:
    """Write arrays as safetensors; equal arrays are equal bytes."""
    require("safetensors", extra="embed")
    from safetensors.numpy import save

    # safetensors writes an array's memory as it lies, and scikit-learn's lies by columns.
    write_whole(path, save({name: np.ascontiguousarray(part) for name, part in arrays.items()}))
    return path


def read_arrays(path: Path, *, remedy: str) -> Arrays:
    """Read arrays that were written so; ModelError unless all their numbers are finite."""
    require("safetensors", extra="embed")
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays = load_file(path)
        if broken := [name for name, part in arrays.items() if not np.isfinite(part).all()]:
            raise SafetensorError(f"numbers of {broken[0]} are not finite")
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path}: damaged ({error}); {remedy}") from error
    return arrays
