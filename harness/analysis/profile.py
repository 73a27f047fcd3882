"""Texts to the distributions of their implicitness and pragmatic distance.

Every different text is encoded once, some at a time; only the vectors of drawn pairs are kept. A
text that cannot be scored is counted by reason. Nothing here reads or writes a file.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.implicitness.scorer import LIMITS, Flag, Scorer, text_of
from harness.lazy import DataFrame, pandas
from harness.models.vectors import Progress
from harness.specs.implicitness import Distance
from harness.stats.estimate import generator
from harness.storage.frames import Row

Numbers = NDArray[np.float64]
ALL: Final = "all"
UNLABELLED: Final = "(no label)"
WIDTH, BINS = 0.25, 8
QUANTILES: Final = {
    **{"least": 0.0, "q05": 0.05, "q25": 0.25, "median": 0.5},
    **{"q75": 0.75, "q95": 0.95, "most": 1.0},
}
COLUMNS: Final = (
    *("label", "texts", "n", "different", "mean", "sd", *QUANTILES),
    *(f"bin_{place}" for place in range(BINS)),
    *("outside", "pairs", "distance_mean", "distance_sd"),
    *("missing_absent", "missing_not_text", "missing_empty", "missing_nul"),
    *("cut", "thin", "trained_on", "scorer", "seed"),
)
MOST_LABELS: Final = 24
NEVER: Final = (*LIMITS, Flag.UNSCORED)  # flags that a missing value has not here
_AT_ONCE, _TIE = 1024, 1e-6


class Profile(NamedTuple):
    """The rows, all texts first, then each label; of each row the distances of its pairs."""

    rows: DataFrame
    distances: list[Numbers]


def profile(
    texts: Sequence[object],
    labels: Sequence[object] | None,
    scorer: Scorer,
    *,
    pairs: int = 2000,
    seed: int = 0,
    progress: Progress = lambda *_: None,
) -> Profile:
    """The profile of some texts, and of those of each label where `labels` has one a text.

    Columns of `rows`, one a `label`, or `all`; what is not known is missing:

    - `texts`; of these `n` have a score, `missing_` counts the others by reason; `different`
      counts texts that differ; `mean`, `sd` (n - 1), quantiles from `least` to `most`;
    - `bin_I`: texts in [.25 I, .25 (I + 1)), the last bin closed; `outside`: those beyond [0, 2],
      where only Euclidean scorers put any;
    - `distance_mean` and `distance_sd` of `pairs` random pairs of different texts, no pair twice;
    - `cut`: texts that the encoder reads only the beginning of; `thin`: those of one word or of
      letters that it does not know; `trained_on`: those that the scorer was trained on.

    DataError where there are too many different labels.
    """
    parts = _parts([text_of(text) for text in texts], labels)
    different = {name: _different(own) for name, own in parts.items()}
    drawn = {
        name: [(own[i], own[j]) for i, j in _pairs(len(own), pairs, seed=f"{seed}:{name}")]
        for name, own in different.items()
    }
    in_pairs = {text for own in drawn.values() for pair in own for text in pair}
    values, embeddings = _measured(different[ALL], in_pairs, scorer, progress)
    limits, head = scorer.limits(different[ALL]), scorer.head
    rows, distances = [], []
    for name, own in parts.items():
        sides = ([embeddings[pair[at]] for pair in drawn[name]] for at in (0, 1))
        first, second = (np.array(side, np.float32).reshape(-1, head.width) for side in sides)
        distances.append(head.pragmatic_distance(first, second))
        scored = [cell for cell in own if not isinstance(cell, Flag)]
        implicit = np.array([values[text] for text in scored], dtype=np.float64)
        spread = _spread(implicit, distances[-1], head.form.implicitness)
        row = _counts(own, scored, limits) | spread | {"label": name, "seed": seed}
        row["trained_on"] = scorer.overlap((text,) for text in scored)
        rows.append(row | {"scorer": scorer.signature})
    frame = pandas.DataFrame(rows, columns=[*COLUMNS]).astype({"trained_on": "Int64"})
    return Profile(frame, distances)


def bins_of(row: Row) -> tuple[int, ...]:
    """The number of texts in each bin."""
    return tuple(getattr(row, f"bin_{place}") for place in range(BINS))


def _different(cells: Sequence[str | Flag]) -> list[str]:
    """The texts, each once: the short ones first, as the scorer takes them."""
    texts = {cell for cell in cells if not isinstance(cell, Flag)}
    return sorted(texts, key=lambda text: (len(text), text))


def _counts(
    cells: Sequence[str | Flag], texts: Sequence[str], limits: Mapping[str, Flag]
) -> dict[str, Any]:
    """How many of some cells are texts, differ, are read in part, or are missing, and why."""
    flags = [limits.get(text) for text in texts]
    found = {"texts": len(cells), "n": len(texts), "different": len(set(texts))}
    found |= {f"missing_{flag}": cells.count(flag) for flag in Flag if flag not in NEVER}
    return found | {"cut": flags.count(Flag.CUT), "thin": flags.count(Flag.THIN)}


def _spread(values: Numbers, apart: Numbers, kind: Distance) -> dict[str, Any]:
    # Float noise at the ends of a cosine's range is within it.
    top = BINS * WIDTH
    inside = np.clip(values, 0.0, top) if kind is Distance.COSINE else values
    inside = inside[(inside >= -_TIE) & (inside <= top + _TIE)]
    places = np.clip(np.floor(inside / WIDTH).astype(int), 0, BINS - 1)
    counts = enumerate(np.bincount(places, minlength=BINS).tolist())
    found: dict[str, Any] = {f"bin_{place}": count for place, count in counts}
    found |= {"outside": len(values) - len(inside), "pairs": len(apart)}
    for name, some in (("", values), ("distance_", apart)):
        found[f"{name}mean"] = float(some.mean()) if len(some) else None
        found[f"{name}sd"] = float(some.std(ddof=1)) if len(some) > 1 else None
    # Linear between values.
    cuts = np.quantile(values, [*QUANTILES.values()]).tolist() if len(values) else []
    return found | dict(zip(QUANTILES, cuts, strict=False))


def _parts(cells: list[str | Flag], labels: Sequence[object] | None) -> dict[str, list[str | Flag]]:
    """All cells, then those of each label."""
    names = [UNLABELLED if label in (None, "") else str(label) for label in labels or ()]
    names = [f"{ALL} (a label)" if name == ALL else name for name in names]
    known = sorted(set(names))
    if len(known) > MOST_LABELS:
        raise DataError(
            f"the column of labels holds {len(known)} different values, and a profile has at most "
            f"{MOST_LABELS} labels; name another column in --label"
        )
    of_label = (
        [cell for cell, own in zip(cells, names, strict=True) if own == label] for label in known
    )
    return {ALL: cells} | dict(zip(known, of_label, strict=True))


def _measured(
    texts: Sequence[str], in_pairs: set[str], scorer: Scorer, progress: Progress
) -> tuple[dict[str, float], dict[str, NDArray[np.float32]]]:
    """The implicitness of different texts, and the embeddings of those in a pair."""
    values: dict[str, float] = {}
    embeddings: dict[str, NDArray[np.float32]] = {}
    for start in range(0, len(texts), _AT_ONCE):
        some = texts[start : start + _AT_ONCE]
        vectors = scorer.encoder.encode(some)
        values |= zip(some, scorer.head.implicitness(vectors).tolist(), strict=True)
        wanted = [at for at, text in enumerate(some) if text in in_pairs]
        embeddings |= zip((some[at] for at in wanted), vectors[wanted], strict=True)
        progress("texts", len(values), len(texts))
    return values, embeddings


def _pairs(count: int, wanted: int, *, seed: str) -> list[tuple[int, int]]:
    """`wanted` different pairs of `count` things, none with itself; all where there are fewer."""
    total = count * (count - 1) // 2
    if total <= wanted:
        return list(combinations(range(count), 2))
    numbers, pairs = generator(seed), dict[tuple[int, int], None]()
    while len(pairs) < wanted:
        for first, second in numbers.integers(0, count, size=(wanted, 2)).tolist():
            if first != second and len(pairs) < wanted:
                pairs[(min(first, second), max(first, second))] = None
    return list(pairs)
