"""Texts to the distributions of their implicitness and pragmatic distance."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.implicitness.scorer import LIMITS, Flag, Scorer, distinct_texts, text_of
from harness.lazy import DataFrame, pandas
from harness.models.vectors import Progress, reported_chunks
from harness.specs.implicitness import Distance
from harness.stats.estimate import generator
from harness.storage.frames import Row

Numbers = NDArray[np.float64]
ALL: Final = "all"
WIDTH, BINS = 0.25, 8
QUANTILES: Final = {
    **{"least": 0.0, "q05": 0.05, "q25": 0.25, "median": 0.5},
    **{"q75": 0.75, "q95": 0.95, "most": 1.0},
}
MISSING: Final = tuple(flag for flag in Flag if flag not in (*LIMITS, Flag.UNSCORED))
COLUMNS: Final = (
    *("label", "texts", "n", "different", "mean", "sd", *QUANTILES),
    *(f"bin_{place}" for place in range(BINS)),
    *("outside", "pairs", "distance_mean", "distance_sd"),
    *(f"missing_{flag}" for flag in MISSING),
    *("cut", "thin", "trained_on", "scorer", "seed"),
)
MOST_LABELS: Final = 24
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

    The columns of `rows` are those of profile.csv (docs/impscore.md); what is not known is missing.
    DataError where there are too many different labels.
    """
    parts = _parts([text_of(text) for text in texts], labels)
    known = {n: [cell for cell in own if not isinstance(cell, Flag)] for n, own in parts.items()}
    drawn = {name: _pairs(own, pairs, seed=f"{seed}:{name}") for name, own in known.items()}
    in_pairs = {text for own in drawn.values() for pair in own for text in pair}
    different = distinct_texts(known[ALL])
    values, embeddings = _measured(different, in_pairs, scorer, progress)
    limits, head = scorer.limits(different), scorer.head
    rows, distances = [], []
    for name, own in known.items():
        sides = ([embeddings[pair[at]] for pair in drawn[name]] for at in (0, 1))
        first, second = (np.array(side, np.float32).reshape(-1, head.width) for side in sides)
        distances.append(head.pragmatic_distance(first, second))
        flags = [*(c for c in parts[name] if isinstance(c, Flag)), *map(limits.get, own)]
        numbers = np.array([values[text] for text in own], dtype=float)
        rows.append(
            {"label": name, "texts": len(parts[name]), "n": len(own), "different": len(set(own))}
            | {f"missing_{flag}": flags.count(flag) for flag in MISSING}
            | {"cut": flags.count(Flag.CUT), "thin": flags.count(Flag.THIN)}
            | _spread(numbers, distances[-1], head.form.implicitness)
            | {"trained_on": scorer.overlap((text,) for text in own)}
            | {"scorer": scorer.signature, "seed": seed}
        )
    frame = pandas.DataFrame(rows, columns=[*COLUMNS]).astype({"trained_on": "Int64"})
    return Profile(frame, distances)


def bins_of(row: Row) -> tuple[int, ...]:
    """How many texts of a row lie in each bin."""
    return tuple(getattr(row, f"bin_{place}") for place in range(BINS))


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
    cuts = np.quantile(values, [*QUANTILES.values()]).tolist() if len(values) else []
    return found | dict(zip(QUANTILES, cuts, strict=False))


def _parts(cells: list[str | Flag], labels: Sequence[object] | None) -> dict[str, list[str | Flag]]:
    """All cells, then those of each label."""
    parts: dict[str, list[str | Flag]] = {}
    for cell, label in zip(cells if labels is not None else (), labels or (), strict=True):
        name = "(no label)" if label in (None, "") else str(label)
        parts.setdefault(f"{ALL} (a label)" if name == ALL else name, []).append(cell)
    if len(parts) > MOST_LABELS:
        raise DataError(
            f"the column of labels holds {len(parts)} different values, and a profile has at most "
            f"{MOST_LABELS} labels; name another column in --label"
        )
    return {ALL: cells} | {name: parts[name] for name in sorted(parts)}


def _measured(
    texts: Sequence[str], in_pairs: set[str], scorer: Scorer, progress: Progress
) -> tuple[dict[str, float], dict[str, NDArray[np.float32]]]:
    """The implicitness of different texts, and the embeddings of those in a pair."""
    values: dict[str, float] = {}
    embeddings: dict[str, NDArray[np.float32]] = {}
    for some in reported_chunks(texts, _AT_ONCE, progress):
        vectors = scorer.encoder.encode(some)
        values |= zip(some, scorer.head.implicitness(vectors).tolist(), strict=True)
        wanted = [at for at, text in enumerate(some) if text in in_pairs]
        embeddings |= zip((some[at] for at in wanted), vectors[wanted], strict=True)
    return values, embeddings


def _pairs(texts: Sequence[str], wanted: int, *, seed: str) -> list[tuple[str, str]]:
    """`wanted` pairs of different texts, none twice; all where there are fewer."""
    own = distinct_texts(texts)
    if len(own) * (len(own) - 1) // 2 <= wanted:
        return list(combinations(own, 2))
    numbers, pairs = generator(seed), dict[tuple[int, int], None]()
    while len(pairs) < wanted:
        for first, second in numbers.integers(0, len(own), size=(wanted, 2)).tolist():
            if first != second and len(pairs) < wanted:
                pairs[(min(first, second), max(first, second))] = None
    return [(own[first], own[second]) for first, second in pairs]
