"""Texts to the distributions of their implicitness and pragmatic distance.

Every different text is encoded once, some at a time; only the vectors of drawn pairs are kept. A
text that cannot be scored is counted by reason. Nothing here reads or writes a file.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.implicitness.scorer import LIMITS, Flag, Scorer, text_of
from harness.models.vectors import Progress
from harness.specs.implicitness import Distance
from harness.stats.estimate import generator

Numbers = NDArray[np.float64]
ALL: Final = "all"
UNLABELLED: Final = "(no label)"
WIDTH, BINS = 0.25, 8
QUANTILES: Final = {
    **{"least": 0.0, "q05": 0.05, "q25": 0.25, "median": 0.5},
    **{"q75": 0.75, "q95": 0.95, "most": 1.0},
}
MOST_LABELS: Final = 24
NEVER: Final = (*LIMITS, Flag.UNSCORED)  # flags that a missing value has not here
_AT_ONCE, _TIE = 1024, 1e-6


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """The implicitness and the pragmatic distances of the texts of one label, or of `all`.

    `n` texts have a score, the others are counted by reason; `different` counts texts that differ.
    `sd` and `distance_sd` divide by n - 1 and are None below two values, as means are below one.
    `bin_I` counts the texts in [.25 I, .25 (I + 1)), the last bin closed; `outside` those beyond
    [0, 2], where only Euclidean scorers put any. Distances are of `pairs` pairs of different texts,
    no pair twice. `cut` counts texts that the encoder reads only the beginning of, `thin` those of
    one word or of letters that it does not know, `trained_on` those that the scorer was trained on,
    None where these are unknown.
    """

    label: str
    texts: int
    n: int
    different: int
    mean: float | None
    sd: float | None
    least: float | None
    q05: float | None
    q25: float | None
    median: float | None
    q75: float | None
    q95: float | None
    most: float | None
    bin_0: int
    bin_1: int
    bin_2: int
    bin_3: int
    bin_4: int
    bin_5: int
    bin_6: int
    bin_7: int
    outside: int
    pairs: int
    distance_mean: float | None
    distance_sd: float | None
    missing_absent: int
    missing_not_text: int
    missing_empty: int
    missing_nul: int
    cut: int
    thin: int
    trained_on: int | None
    scorer: str
    seed: int

    @property
    def bins(self) -> tuple[int, ...]:
        """The number of texts in each bin."""
        return tuple(getattr(self, f"bin_{place}") for place in range(BINS))

    @property
    def missing(self) -> int:
        """The number of texts without a score."""
        return self.texts - self.n


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """The rows, all texts first, then each label; the distances of the pairs of each row, and
    the implicitness of its texts."""

    rows: tuple[ProfileRow, ...]
    distances: tuple[Numbers, ...]
    values: tuple[Numbers, ...]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many random pairs of texts are compared, and the seed of the draw."""

    pairs: int = 2000
    seed: int = 0


@dataclass(frozen=True, slots=True)
class _Group:
    """The texts of one label, why others have no score, and its pairs of texts that differ."""

    label: str
    texts: list[str]
    missing: Counter[Flag]
    pairs: list[tuple[str, str]]


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """Texts that differ with their implicitness, and the embeddings of those in a pair."""

    scorer: Scorer
    values: dict[str, float]
    place: dict[str, int]
    embeddings: NDArray[np.float32]
    limits: Mapping[str, Flag]


def profile(
    texts: Sequence[object],
    labels: Sequence[object] | None,
    scorer: Scorer,
    *,
    sampling: Sampling,
    progress: Progress | None = None,
) -> Profile:
    """The profile of some texts, and of those of each label where `labels` has one a text.

    DataError where there are too many different labels.
    """
    cells = [text_of(text) for text in texts]
    names = _names(labels)
    groups = [_group(ALL, cells, sampling)]
    for name in sorted(set(names)):
        own = [cell for cell, label in zip(cells, names, strict=True) if label == name]
        groups.append(_group(name, own, sampling))
    measured = _measured(groups, scorer, progress)
    rows, distances = zip(*(_row(group, measured, sampling) for group in groups), strict=True)
    values = (np.array([measured.values[text] for text in group.texts]) for group in groups)
    return Profile(rows, distances, tuple(values))


def _names(labels: Sequence[object] | None) -> list[str]:
    names = [UNLABELLED if label in (None, "") else str(label) for label in labels or ()]
    names = [f"{ALL} (a label)" if name == ALL else name for name in names]
    if (count := len(set(names))) > MOST_LABELS:
        raise DataError(
            f"the column of labels holds {count} different values, and a profile has at most "
            f"{MOST_LABELS} labels; name another column in --label"
        )
    return names


def _group(label: str, cells: Sequence[str | Flag], sampling: Sampling) -> _Group:
    texts = [cell for cell in cells if not isinstance(cell, Flag)]
    different = _in_order(set(texts))
    drawn = _pairs(len(different), sampling.pairs, seed=f"{sampling.seed}:{label}")
    pairs = [(different[first], different[second]) for first, second in drawn]
    missing = Counter(cell for cell in cells if isinstance(cell, Flag))
    return _Group(label, texts, missing, pairs)


def _in_order(texts: Iterable[str]) -> list[str]:
    """The short ones first, as the scorer takes them."""
    return sorted(texts, key=lambda text: (len(text), text))


def _measured(groups: Sequence[_Group], scorer: Scorer, progress: Progress | None) -> _Measured:
    texts = _in_order({text for group in groups for text in group.texts})
    in_pairs = {text for group in groups for pair in group.pairs for text in pair}
    values: dict[str, float] = {}
    kept = [np.empty((0, scorer.head.width), np.float32)]
    for start in range(0, len(texts), _AT_ONCE):
        some = texts[start : start + _AT_ONCE]
        vectors = scorer.encoder.encode(some)
        values |= zip(some, scorer.head.implicitness(vectors).tolist(), strict=True)
        kept.append(vectors[[text in in_pairs for text in some]])
        if progress is not None:
            progress("texts", len(values), len(texts))
    place = {text: at for at, text in enumerate(text for text in texts if text in in_pairs)}
    return _Measured(scorer, values, place, np.concatenate(kept), scorer.limits(texts))


def _row(group: _Group, measured: _Measured, sampling: Sampling) -> tuple[ProfileRow, Numbers]:
    texts, missing = group.texts, group.missing
    values = np.array([measured.values[text] for text in texts], dtype=np.float64)
    sides = [[measured.place[pair[side]] for pair in group.pairs] for side in (0, 1)]
    ends = [measured.embeddings[np.array(side, dtype=np.intp)] for side in sides]
    apart = measured.scorer.head.pragmatic_distance(ends[0], ends[1])
    limits = [measured.limits.get(text) for text in texts]
    inside = _bins(values, measured.scorer.head.form.implicitness)
    (mean, sd), (distance_mean, distance_sd) = _moments(values), _moments(apart)
    # Linear between values.
    cuts = np.quantile(values, [*QUANTILES.values()]).tolist() if len(values) else None
    quantiles = dict(zip(QUANTILES, cuts, strict=True)) if cuts else dict.fromkeys(QUANTILES)
    row = ProfileRow(
        label=group.label,
        texts=len(texts) + missing.total(),
        n=len(texts),
        different=len(set(texts)),
        mean=mean,
        sd=sd,
        **quantiles,
        **{f"bin_{place}": count for place, count in enumerate(inside)},
        outside=len(values) - sum(inside),
        pairs=len(group.pairs),
        distance_mean=distance_mean,
        distance_sd=distance_sd,
        **{f"missing_{flag}": missing[flag] for flag in Flag if flag not in NEVER},
        cut=limits.count(Flag.CUT),
        thin=limits.count(Flag.THIN),
        trained_on=measured.scorer.overlap((text,) for text in texts),
        scorer=measured.scorer.signature,
        seed=sampling.seed,
    )
    return row, apart


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


def _bins(values: Numbers, kind: Distance) -> list[int]:
    """The number of values in each bin; float noise at the ends of a cosine's range is within."""
    if kind is Distance.COSINE:
        values = np.clip(values, 0.0, BINS * WIDTH)
    kept = values[(values >= -_TIE) & (values <= BINS * WIDTH + _TIE)]
    places = np.clip(np.floor(kept / WIDTH).astype(int), 0, BINS - 1)
    counts: list[int] = np.bincount(places, minlength=BINS).tolist()
    return counts


def _moments(values: Numbers) -> tuple[float | None, float | None]:
    """The mean and the standard deviation of a sample (n - 1)."""
    mean = float(values.mean()) if len(values) else None
    return mean, float(values.std(ddof=1)) if len(values) > 1 else None
