"""A file's texts to how implicit they are and how far apart in meaning: a table, and a picture.

Every different text is encoded once, some at a time, and of their vectors those of drawn pairs
alone are kept. A text that cannot be scored is counted by reason and has no number; nothing here
reads or writes a file.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.analysis.plots import Plot, Series, svg
from harness.errors import DataError
from harness.implicitness.scorer import Flag, Progress, Scorer, text_of
from harness.models.encoders.encoders import Limited
from harness.parts import digest
from harness.specs.implicitness import Distance

Numbers = NDArray[np.float64]
ALL: Final = "all"
UNLABELLED: Final = "(no label)"
WIDTH, BINS = 0.25, 8
QUANTILES: Final = {
    **{"least": 0.0, "q05": 0.05, "q25": 0.25, "median": 0.5},
    **{"q75": 0.75, "q95": 0.95, "most": 1.0},
}
MOST_LABELS: Final = 24
_AT_ONCE, _DISTANCE_BINS, _TIE = 1024, 20, 1e-6


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """How implicit the texts of one label are, or of `all`, and how far apart they are in meaning.

    `n` texts have a score, the others are counted by reason; `different` counts texts that differ.
    `sd` and `distance_sd` divide by n - 1 and are null below two values, as means are below one.
    `bin_I` counts the texts in [.25 I, .25 (I + 1)), the last bin closed; `outside` those beyond
    [0, 2], where only Euclidean scorers put any. Distances are of `pairs` pairs of different texts,
    no pair twice. `cut` counts texts scored by their beginning, for the encoder reads no more,
    `trained_on` those that the scorer was trained on, null where nobody knows which it was.
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
    trained_on: int | None
    scorer: str
    seed: int

    @property
    def bins(self) -> tuple[int, ...]:
        """How many texts each bin holds."""
        return tuple(getattr(self, f"bin_{place}") for place in range(BINS))

    @property
    def missing(self) -> int:
        """How many texts have no score."""
        return self.texts - self.n


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """The rows, all texts first, then each label; and the distances behind each row."""

    rows: tuple[ProfileRow, ...]
    distances: tuple[Numbers, ...]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many random pairs of texts are laid beside each other, and the seed of the draw."""

    pairs: int = 2000
    seed: int = 0


@dataclass(frozen=True, slots=True)
class _Part:
    """The texts of one label as they were read, and its pairs of texts that differ."""

    label: str
    reads: tuple[str | Flag, ...]
    pairs: tuple[tuple[str, str], ...]

    @property
    def texts(self) -> list[str]:
        """Those that have a score."""
        return [read for read in self.reads if not isinstance(read, Flag)]


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """Texts that differ with their implicitness, and the embeddings of those in a pair."""

    scorer: Scorer
    values: dict[str, float]
    place: dict[str, int]
    embeddings: NDArray[np.float32]
    cut: frozenset[str]


def profile(
    texts: Sequence[object],
    labels: Sequence[object] | None,
    scorer: Scorer,
    *,
    sampling: Sampling,
    progress: Progress | None = None,
) -> Profile:
    """The profile of some texts, and of those of each label where `labels` has one a text."""
    reads = [text_of(text) for text in texts]
    named = _named(labels)
    parts = [_part(ALL, reads, sampling)]
    for name in sorted(set(named)):
        own = [r for r, n in zip(reads, named, strict=True) if n == name]
        parts.append(_part(name, own, sampling))
    measured = _measured(parts, scorer, progress)
    found = [_row(part, measured, sampling) for part in parts]
    return Profile(tuple(row for row, _ in found), tuple(apart for _, apart in found))


def picture(found: Profile, *, title: str) -> str:
    """The shares of texts by bin and of pairs by distance: bars for all, a line a label."""
    top = max((float(part.max()) for part in found.distances if len(part)), default=1.0) or 1.0
    edges = np.linspace(0, top, _DISTANCE_BINS + 1)
    counts = [np.histogram(part, edges)[0] for part in found.distances]
    rows = found.rows
    implicit = _series(rows, [row.bins for row in rows], np.linspace(0, BINS * WIDTH, BINS + 1))
    apart = _series(rows, counts, edges)
    plots = [
        Plot("Implicitness", "implicitness", "share of texts", implicit, (0.0, BINS * WIDTH)),
        Plot("Pragmatic distance", "distance", "share of pairs", apart, (0.0, top)),
    ]
    return svg(plots, title=f"{title}, by {rows[0].scorer}")


def _series(
    rows: Sequence[ProfileRow], counts: Sequence[Sequence[int] | Numbers], edges: Numbers
) -> tuple[Series, ...]:
    """Bars of the shares of all, and a line of those of each label, at the middles of the bins."""
    low, high = edges[:-1].tolist(), edges[1:].tolist()
    middle = ((edges[:-1] + edges[1:]) / 2).tolist()
    found = []
    for row, own in zip(rows, counts, strict=True):
        total = float(np.sum(own))
        shares = [float(count) / total if total else float("nan") for count in own]
        form = ("bars", low) if row.label == ALL else ("line", middle)
        label = f"{row.label} ({row.n})"
        found.append(Series(label, form[0], form[1], shares, to=high))  # type: ignore[arg-type]  # both are forms
    return tuple(found)


def _named(labels: Sequence[object] | None) -> list[str]:
    """The labels as text; too many to be labels are refused."""
    found = [UNLABELLED if label in (None, "") else str(label) for label in labels or ()]
    found = [f"{ALL} (a label)" if label == ALL else label for label in found]
    if len(set(found)) > MOST_LABELS:
        raise DataError(
            f"the column of labels holds {len(set(found))} different values, and a profile tells "
            f"at most {MOST_LABELS} labels apart; name another in --label"
        )
    return found


def _part(label: str, reads: Sequence[str | Flag], sampling: Sampling) -> _Part:
    """One label's texts, its pairs drawn by the seed and the label."""
    different = _in_order({read for read in reads if not isinstance(read, Flag)})
    drawn = _pairs(len(different), sampling.pairs, seed=f"{sampling.seed}:{label}")
    pairs = tuple((different[first], different[second]) for first, second in drawn)
    return _Part(label, tuple(reads), pairs)


def _in_order(texts: Iterable[str]) -> list[str]:
    """The short ones first, as the scorer takes them."""
    return sorted(texts, key=lambda text: (len(text), text))


def _measured(parts: Sequence[_Part], scorer: Scorer, progress: Progress | None) -> _Measured:
    """The different texts, each encoded and scored once."""
    there = _in_order({text for part in parts for text in part.texts})
    wanted = {text for part in parts for pair in part.pairs for text in pair}
    values: dict[str, float] = {}
    kept = [np.empty((0, scorer.head.width), np.float32)]
    for start in range(0, len(there), _AT_ONCE):
        some = there[start : start + _AT_ONCE]
        rows = scorer.encoder.encode(some)
        values |= zip(some, scorer.head.implicitness(rows).tolist(), strict=True)
        kept.append(rows[[text in wanted for text in some]])
        if progress is not None:
            progress(len(values), len(there))
    paired = [text for text in there if text in wanted]
    return _Measured(
        scorer=scorer,
        values=values,
        place={text: at for at, text in enumerate(paired)},
        embeddings=np.concatenate(kept),
        cut=_cut(scorer, there),
    )


def _cut(scorer: Scorer, texts: list[str]) -> frozenset[str]:
    """The texts whose end the encoder does not read, as far as it can tell."""
    if not isinstance(scorer.encoder, Limited):
        return frozenset()
    is_cut = scorer.encoder.cut(texts)
    return frozenset(text for text, it_is in zip(texts, is_cut, strict=True) if it_is)


def _row(part: _Part, measured: _Measured, sampling: Sampling) -> tuple[ProfileRow, Numbers]:
    """The row of one label's texts, and the distances of its pairs."""
    texts, missing = part.texts, Counter(r for r in part.reads if isinstance(r, Flag))
    values = np.array([measured.values[text] for text in texts], dtype=np.float64)
    sides = [[measured.place[pair[side]] for pair in part.pairs] for side in (0, 1)]
    ends = [measured.embeddings[np.array(side, dtype=np.intp)] for side in sides]
    apart = measured.scorer.head.pragmatic_distance(ends[0], ends[1])
    inside = _bins(values, measured.scorer.head.form.implicitness)
    row = ProfileRow(
        label=part.label,
        texts=len(part.reads),
        n=len(texts),
        different=len(set(texts)),
        mean=_mean(values),
        sd=_sd(values),
        **_quantiles(values),  # type: ignore[arg-type]  # its keys are those of floats
        **{f"bin_{place}": count for place, count in enumerate(inside)},
        outside=len(values) - sum(inside),
        pairs=len(part.pairs),
        distance_mean=_mean(apart),
        distance_sd=_sd(apart),
        **{f"missing_{flag}": missing[flag] for flag in Flag if flag is not Flag.CUT},
        cut=sum(text in measured.cut for text in texts),
        trained_on=measured.scorer.overlap((text,) for text in texts),
        scorer=measured.scorer.signature,
        seed=sampling.seed,
    )
    return row, apart


def _pairs(count: int, wanted: int, *, seed: str) -> list[tuple[int, int]]:
    """So many different pairs of so many things, no thing with itself; all where there are few."""
    total = count * (count - 1) // 2
    if total <= wanted:
        return list(combinations(range(count), 2))
    generator = np.random.default_rng(int(digest(seed), 16))
    found: dict[tuple[int, int], None] = {}
    while len(found) < wanted:
        for first, second in generator.integers(0, count, size=(wanted, 2)).tolist():
            if first != second and len(found) < wanted:
                found[(min(first, second), max(first, second))] = None
    return list(found)


def _bins(values: Numbers, kind: Distance) -> list[int]:
    """How many values each bin holds; float noise at the ends of a cosine's range is within it."""
    if kind is Distance.COSINE:
        values = np.clip(values, 0.0, BINS * WIDTH)
    kept = values[(values >= -_TIE) & (values <= BINS * WIDTH + _TIE)]
    places = np.clip(np.floor(kept / WIDTH).astype(int), 0, BINS - 1)
    return [int(count) for count in np.bincount(places, minlength=BINS)]


def _quantiles(values: Numbers) -> dict[str, float | None]:
    """The least value, quantiles (linear between values) and the greatest, by column."""
    found = np.quantile(values, list(QUANTILES.values())).tolist() if len(values) else []
    return {name: found[at] if found else None for at, name in enumerate(QUANTILES)}


def _mean(values: Numbers) -> float | None:
    return float(values.mean()) if len(values) else None


def _sd(values: Numbers) -> float | None:
    return float(values.std(ddof=1)) if len(values) > 1 else None
