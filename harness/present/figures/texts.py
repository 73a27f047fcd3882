"""Sentences and the metric ImpScore to figures: violins, data sets side by side, features.

The metric is 0 for a literal sentence; distances are of pragmatic features. Nothing here encodes
anything but what it is asked to draw.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.analysis.profile import ALL, BINS, WIDTH, Profile, bins_of
from harness.errors import DataError
from harness.implicitness.pairs import TrainingPair
from harness.implicitness.scorer import Embedded, Scorer, embedded_texts
from harness.implicitness.splits import with_negatives
from harness.lazy import Axes, DataFrame
from harness.models.encoders.encoders import Encoder
from harness.models.extras import require
from harness.models.vectors import Progress
from harness.present.figures import marks
from harness.present.figures.figure import (
    Figure,
    Looks,
    Subplot,
    draw_marked,
    each,
    together,
    values,
)
from harness.stats.estimate import generator
from harness.storage.frames import Row, records

Numbers = NDArray[np.float64]
MOST_TEXTS: Final = 3000
"""How many texts t-SNE places at most, drawn at random."""
_EDGES: Final = np.linspace(0, BINS * WIDTH, BINS + 1)
_DISTANCE_BINS: Final = 20


def pair_violins(pairs: Sequence[TrainingPair], scorer: Scorer, progress: Progress) -> Figure:
    """ImpScore, figure 3: implicitness of both sides of pairs, and distance within and between.

    Pairs without a negative get one from other pairs.
    """
    whole = with_negatives(pairs, seed=0)
    texts = (text for pair in whole for text in pair.sentences)
    embedded = embedded_texts(texts, scorer.encoder, progress)
    score = scorer.head.implicitness(embedded.vectors)
    sides = {
        "implicit": [score[embedded.places[pair.implicit]] for pair in whole],
        "explicit": [score[embedded.places[pair.explicit]] for pair in whole],
    }
    distances = {
        "one meaning": _distances([(p.implicit, p.explicit) for p in whole], scorer, embedded),
        "two meanings": _distances([p.negative for p in whole if p.negative], scorer, embedded),
    }
    right = np.mean(np.array(sides["implicit"]) > np.array(sides["explicit"]))
    note = f"implicit side above in {right:.1%} of {len(whole)} pairs" if whole else ""
    panels = (
        _violins("Implicitness", "implicitness", sides, note=note),
        _violins("Pragmatic distance of pairs", "distance", distances),
    )
    notes = [f"by {scorer.signature}; box: quartiles; mark: mean"]
    notes += _trained_on(scorer.overlap(pair.sentences for pair in whole), len(whole), "pairs")
    return Figure("Implicit and explicit sentences", panels, tuple(notes))


def _distances(pairs: Sequence[tuple[str, str]], scorer: Scorer, embedded: Embedded) -> list[float]:
    if not pairs:
        return []
    first, second = (
        embedded.vectors[[embedded.places[text] for text in side]]
        for side in zip(*pairs, strict=True)
    )
    found: list[float] = scorer.head.pragmatic_distance(first, second).tolist()
    return found


def _violins(
    title: str, label: str, groups: Mapping[str, Sequence[float]], *, note: str = ""
) -> Subplot:
    parts = [values(name, [at] * len(own), own) for at, (name, own) in enumerate(groups.items(), 1)]

    def draw(axes: Axes, rows: DataFrame, looks: Looks) -> None:
        each(marks.violin)(axes, rows, looks)
        axes.set_ylabel(label)

    names = [f"{name} (n={len(own)})" for name, own in groups.items()]
    return Subplot(title, together(parts), draw, note, x_names=names)


def _trained_on(count: int | None, total: int, what: str) -> list[str]:
    """A note if a scorer was trained on what it is drawn on."""
    return [f"the scorer was trained on {count} of these {total} {what}"] if count else []


def _by(profile: Profile, more: str = "") -> tuple[str, ...]:
    row = records(profile.rows)[0]
    return (f"by {row.scorer}{more}", *_trained_on(row.trained_on, row.n, "texts"))


def _draw_shares(axes: Axes, rows: DataFrame, looks: Looks, *, what: str, top: float) -> None:
    draw_marked(axes, rows, looks)
    label = "implicitness" if what == "texts" else "distance"
    axes.set(xlim=(0.0, top), xlabel=label, ylabel=f"share of {what}")


def profile_figure(profile: Profile, *, title: str) -> Figure:
    """One file: the shares of texts by implicitness and of pairs by distance, a line a label.

    All texts together are bars.
    """
    rows = records(profile.rows)
    top = max((float(own.max()) for own in profile.distances if len(own)), default=1.0) or 1.0
    edges = np.linspace(0, top, _DISTANCE_BINS + 1)
    texts = [np.array(bins_of(row)) for row in rows]
    pairs = [np.histogram(own, edges)[0] for own in profile.distances]
    panels = []
    for name, what, counts, bins in (
        ("Implicitness", "texts", texts, _EDGES),
        ("Pragmatic distance", "pairs", pairs, edges),
    ):
        parts = [_shares(row, own, bins, what) for row, own in zip(rows, counts, strict=True)]
        draw = partial(_draw_shares, what=what, top=float(bins[-1]))
        panels.append(Subplot(name, together(parts), draw))
    return Figure(title, tuple(panels), _by(profile))


def _shares(row: Row, counts: Numbers, edges: Numbers, what: str) -> DataFrame:
    total = row.n if what == "texts" else row.pairs
    shares = counts / total if total else np.full(len(counts), np.nan)
    label, low, high = f"{row.label} (n={row.n})", edges[:-1], edges[1:]
    if row.label == ALL:
        return values(label, low, shares, to=high, n=total, mark="bars")
    return values(label, (low + high) / 2, shares, n=total, mark="curve")


def datasets_mean(profile: Profile) -> Figure:
    """ImpScore, figure 5: the mean implicitness of several data sets, with standard deviations."""
    known = [row for row in records(profile.rows) if row.label != ALL and row.mean is not None]
    mean = np.array([row.mean for row in known], dtype=float)
    spread = np.array([row.sd or 0.0 for row in known])
    places = np.arange(1, len(known) + 1)
    bounds = {"low": mean - spread, "high": mean + spread, "n": [row.n for row in known]}
    rows = values("mean implicitness", mean, places, **bounds)

    def draw(axes: Axes, rows: DataFrame, looks: Looks) -> None:
        each(marks.forest)(axes, rows, looks)
        axes.set_xlabel("implicitness, mean and standard deviation")

    names = [f"{row.label} (n={row.n})" for row in known]
    panel = Subplot("", rows, draw, y_names=names, shape="forest")
    return Figure("Implicitness of data sets", (panel,), _by(profile))


def datasets_distance(profile: Profile) -> Figure:
    """ImpScore, figure 6: pragmatic distances of random pairs within each of several data sets."""
    found = zip(records(profile.rows), profile.distances, strict=True)
    groups = {row.label: own.tolist() for row, own in found if row.label != ALL}
    panel = _violins("", "pragmatic distance of random pairs", groups)
    notes = _by(profile, "; n counts pairs; box: quartiles; mark: mean")
    return Figure("Pragmatic diversity of data sets", (panel,), notes)


def datasets_distribution(profile: Profile) -> Figure:
    """ImpScore, figure 14: the distribution of implicitness in each of several data sets."""
    panels = []
    for row in (row for row in records(profile.rows) if row.label != ALL):
        shares = np.array(bins_of(row)) / row.n if row.n else np.full(BINS, np.nan)
        rows = values("texts", _EDGES[:-1], shares, to=_EDGES[1:], n=row.n, mark="bars")
        note = f"mean {row.mean:.2f}" if row.mean is not None else ""
        panels.append(Subplot(f"{row.label} (n={row.n})", rows, _draw_distribution, note))
    return Figure("Distribution of implicitness", tuple(panels), _by(profile))


def _draw_distribution(axes: Axes, rows: DataFrame, looks: Looks) -> None:
    _draw_shares(axes, rows, looks, what="texts", top=BINS * WIDTH)
    axes.set_ylim(0.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class TextGroups:
    """Texts with the label of each."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]

    def sample(self, seed: int) -> "TextGroups":
        """At most MOST_TEXTS of them, drawn at random, in their order; equal texts once."""
        first = {text: at for at, text in reversed([*enumerate(self.texts)])}
        places = sorted(first.values())
        if len(places) > MOST_TEXTS:
            drawn = generator(f"{seed}:t-SNE").permutation(len(places))[:MOST_TEXTS]
            places = sorted(places[at] for at in drawn.tolist())
        return TextGroups(
            tuple(self.texts[at] for at in places), tuple(self.labels[at] for at in places)
        )


def features_map(
    groups: TextGroups, scorer: Scorer, progress: Progress, *, seed: int = 0
) -> Figure:
    """ImpScore, figures 11-13: t-SNE of the pragmatic and of the semantic features of texts."""
    drawn = groups.sample(seed)
    semantic, pragmatic = scorer.head.features(_vectors(drawn, scorer.encoder, progress))
    spaces = {"Pragmatic features": pragmatic, "Semantic features": semantic}
    return _maps("Features of texts", spaces, drawn, scorer.signature, seed)


def embedding_map(
    groups: TextGroups, encoder: Encoder, progress: Progress, *, seed: int = 0
) -> Figure:
    """ISHate, figures 1 and 2: t-SNE of the embeddings of texts, by label."""
    drawn = groups.sample(seed)
    vectors = _vectors(drawn, encoder, progress).astype(np.float64)
    return _maps("Embeddings of texts", {"": vectors}, drawn, encoder.name, seed)


def _vectors(groups: TextGroups, encoder: Encoder, progress: Progress) -> NDArray[np.float32]:
    embedded = embedded_texts(groups.texts, encoder, progress)
    return embedded.vectors[[embedded.places[text] for text in groups.texts]]


def _maps(
    title: str, spaces: Mapping[str, Numbers], groups: TextGroups, by: str, seed: int
) -> Figure:
    panels = []
    for name, vectors in spaces.items():
        places, labels = tsne(vectors, seed), np.array(groups.labels, dtype=object)
        # The rarest on top.
        parts = [
            values(f"{label} (n={count})", *places[labels == label].T)
            for label, count in Counter(groups.labels).most_common()
        ]
        panels.append(Subplot(name, together(parts), _draw_map, shape="square"))
    notes = (f"t-SNE of {len(groups.texts)} texts by {by}; distances between groups mean little",)
    return Figure(title, tuple(panels), notes)


def _draw_map(axes: Axes, rows: DataFrame, looks: Looks) -> None:
    each(partial(marks.points, is_many=len(rows) >= 200))(axes, rows, looks)
    axes.set(xlabel="t-SNE 1", ylabel="t-SNE 2")
    axes.set_aspect("equal", adjustable="datalim")


def tsne(vectors: Numbers, seed: int = 0) -> Numbers:
    """Places of n vectors on a plane [n, 2] (van der Maaten and Hinton 2008), by scikit-learn.

    DataError for fewer than ten vectors.
    """
    require("sklearn", extra="classic")
    from sklearn.manifold import TSNE

    if len(vectors) < 10:
        raise DataError(f"{len(vectors)} texts are too few for t-SNE; give ten or more")
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    method = TSNE(2, perplexity=perplexity, init="pca", random_state=seed, n_jobs=1)
    return np.asarray(method.fit_transform(vectors), dtype=np.float64)
