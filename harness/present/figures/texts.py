"""Sentences and the metric ImpScore to figures: violins, data sets side by side, features.

The metric is 0 for a literal sentence; distances are of pragmatic features.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.implicitness.pairs import TrainingPair
from harness.implicitness.profile import ALL, BINS, WIDTH, Profile, bins_of
from harness.implicitness.scorer import Scorer, embedded_texts
from harness.implicitness.splits import with_negatives
from harness.models.encoders.encoders import Encoder
from harness.models.extras import require
from harness.models.vectors import Progress
from harness.present.figures.figure import Figure, Subplot, together, values
from harness.present.figures.marks import SIGNS
from harness.stats.estimate import generator
from harness.storage.frames import records

Numbers = NDArray[np.float64]
MOST_TEXTS: Final = 3000  # that t-SNE places
_TOP = BINS * WIDTH


class Placed(NamedTuple):
    """A text of a map: its label, which is a colour, what its marker is of, and words at it.

    `predicted` is the label that a model gave it, "" without one.
    """

    text: str
    label: str
    marker: str = ""
    words: str = ""
    predicted: str = ""


Labelled = Sequence[Placed]


def pair_violins(pairs: Sequence[TrainingPair], scorer: Scorer, progress: Progress) -> Figure:
    """ImpScore, figure 3: implicitness of both sides of pairs, and distance within and between.

    Pairs without a negative get one from other pairs.
    """
    whole = with_negatives(pairs, seed=0)
    texts = (text for pair in whole for text in pair.sentences)
    embedded = embedded_texts(texts, scorer.encoder, progress)
    score = scorer.head.implicitness(embedded.vectors)
    implicit = [score[embedded.places[pair.implicit]] for pair in whole]
    explicit = [score[embedded.places[pair.explicit]] for pair in whole]
    distances = {
        "one meaning": embedded.apart([(p.implicit, p.explicit) for p in whole], scorer.head),
        "two meanings": embedded.apart([p.negative for p in whole if p.negative], scorer.head),
    }
    right = np.mean(np.array(implicit) > np.array(explicit))
    note = f"implicit side above in {right:.1%} of {len(whole)} pairs" if whole else ""
    others = [score[embedded.places[pair.negative[1]]] for pair in whole if pair.negative]
    sides = {"implicit": implicit, "explicit": explicit, "explicit, two meanings": others}
    panels = (
        _violins("Implicitness", "implicitness", sides, note),
        _violins("Pragmatic distance of pairs", "distance", distances),
    )
    notes = [f"by {scorer.signature}; box: quartiles; mark: mean"]
    notes += _trained_on(scorer.overlap(pair.sentences for pair in whole), len(whole), "pairs")
    return Figure("Implicit and explicit sentences", panels, tuple(notes))


def _violins(
    title: str, label: str, groups: Mapping[str, Sequence[float]], note: str = ""
) -> Subplot:
    parts = [
        values(name, [at] * len(own), own, "violin")
        for at, (name, own) in enumerate(groups.items(), 1)
    ]
    names = [f"{name} (n={len(own)})" for name, own in groups.items()]
    return Subplot(title, together(parts), {"ylabel": label}, note=note, x_names=names)


def _trained_on(count: int | None, total: int, what: str) -> list[str]:
    """A note if a scorer was trained on what it is drawn on."""
    return [f"the scorer was trained on {count} of these {total} {what}"] if count else []


def _by(profile: Profile, more: str = "") -> tuple[str, ...]:
    row = records(profile.rows)[0]
    return (f"by {row.scorer}{more}", *_trained_on(row.trained_on, row.n, "texts"))


def datasets_mean(profile: Profile) -> Figure:
    """ImpScore, figure 5: the mean implicitness of several data sets, with standard deviations."""
    known = [row for row in records(profile.rows) if row.label != ALL and row.mean is not None]
    mean = np.array([row.mean for row in known], dtype=float)
    spread = np.array([row.sd or 0.0 for row in known])
    places, names = np.arange(1, len(known) + 1), [f"{row.label} (n={row.n})" for row in known]
    bounds = {"low": mean - spread, "high": mean + spread, "n": [row.n for row in known]}
    rows = values("mean implicitness", mean, places, "forest", **bounds)
    axes = {"xlabel": "implicitness, mean and standard deviation"}
    panel = Subplot("", rows, axes, y_names=names, shape="forest")
    return Figure("Implicitness of data sets", (panel,), _by(profile))


def datasets_distance(profile: Profile) -> Figure:
    """ImpScore, figure 6: pragmatic distances of random pairs within each of several data sets."""
    found = zip(profile.rows.label, profile.distances, strict=True)
    groups = {label: own.tolist() for label, own in found if label != ALL}
    panel = _violins("", "pragmatic distance of random pairs", groups)
    notes = _by(profile, "; n counts pairs; box: quartiles; mark: mean")
    return Figure("Pragmatic diversity of data sets", (panel,), notes)


def datasets_distribution(profile: Profile) -> Figure:
    """ImpScore, figure 14: the distribution of implicitness in each of several data sets."""
    axes: dict[str, Any] = {"xlim": (0.0, _TOP), "ylim": (0.0, 1.0)}
    axes |= {"xlabel": "implicitness", "ylabel": "share of texts"}
    everything, *labelled = records(profile.rows)
    panels, edges = [], np.linspace(0, _TOP, BINS + 1)
    for row in labelled or [everything]:
        shares = np.array(bins_of(row)) / (row.n or np.nan)
        rows = values("texts", edges[:-1], shares, "bars", to=edges[1:], n=row.n)
        note = f"mean {row.mean:.2f}" if row.mean is not None else ""
        title = f"{row.label} (n={row.n})"
        panels.append(Subplot(title, rows, axes, note=note))
    return Figure("Distribution of implicitness", tuple(panels), _by(profile))


def features_map(texts: Labelled, scorer: Scorer, progress: Progress, *, seed: int = 0) -> Figure:
    """ImpScore, figures 11-13: t-SNE of the pragmatic and of the semantic features of texts."""
    drawn = _some(texts, seed)
    semantic, pragmatic = scorer.head.features(_vectors(drawn, scorer.encoder, progress))
    spaces = {"Pragmatic features": pragmatic, "Semantic features": semantic}
    return _maps("Features of texts", spaces, drawn, scorer.signature, seed)


def embedding_map(
    texts: Labelled, encoder: Encoder, progress: Progress, *, seed: int = 0
) -> Figure:
    """ISHate, figures 1 and 2: t-SNE of the embeddings of texts, by label."""
    drawn = _some(texts, seed)
    spaces = {"": _vectors(drawn, encoder, progress).astype(np.float64)}
    return _maps("Embeddings of texts", spaces, drawn, encoder.name, seed)


def _some(texts: Labelled, seed: int) -> Labelled:
    """At most MOST_TEXTS of them, drawn at random, in their order; equal texts once."""
    first: dict[str, Placed] = {}
    for one in texts:
        first.setdefault(one.text, one)
    known = [*first.values()]
    if len(known) > MOST_TEXTS:
        drawn = generator(f"{seed}:t-SNE").permutation(len(known))[:MOST_TEXTS]
        known = [known[at] for at in sorted(drawn.tolist())]
    return known


def _vectors(texts: Labelled, encoder: Encoder, progress: Progress) -> NDArray[np.float32]:
    embedded = embedded_texts([one.text for one in texts], encoder, progress)
    return embedded.vectors[[embedded.places[one.text] for one in texts]]


def _maps(title: str, spaces: Mapping[str, Numbers], texts: Labelled, by: str, seed: int) -> Figure:
    """A panel a space; two where a model gave labels, too: by these, and by the data's own."""
    kinds = list(dict.fromkeys(one.marker for one in texts if one.marker))
    marker = [kinds.index(one.marker) + 1 if one.marker else np.nan for one in texts]
    ways = {"": [one.label for one in texts]}
    if any(one.predicted for one in texts):
        ways = {"by label": ways[""], "by prediction": [one.predicted for one in texts]}
    panels = []
    for name, vectors in spaces.items():
        places, words = _tsne(vectors, seed), [one.words for one in texts]
        rows = values("", places[:, 0], places[:, 1], "placed", name=words, z=marker)
        for way, labels in ways.items():
            names = np.array(labels, dtype=object)
            # The rarest on top.
            parts = [
                rows[names == label].assign(series=f"{label} (n={count})" if not way else label)
                for label, count in Counter(labels).most_common()
            ]
            axes = {"xlabel": "t-SNE 1", "ylabel": "t-SNE 2", "aspect": "equal"}
            axes |= {"adjustable": "datalim"}
            panels.append(Subplot(name or way, together(parts), axes, shape="square"))
    notes = [f"t-SNE of {len(texts)} texts by {by}; distances between groups mean little"]
    signs = zip(kinds, cycle(SIGNS))
    notes += ["markers: " + ", ".join(f"{sign} {kind}" for kind, sign in signs)] if kinds else []
    return Figure(title, tuple(panels), tuple(notes), is_joint=True)


def _tsne(vectors: Numbers, seed: int) -> Numbers:
    """Places of n vectors on a plane [n, 2] (van der Maaten and Hinton 2008), by scikit-learn."""
    require("sklearn", extra="classic")
    from sklearn.manifold import TSNE

    if len(vectors) < 10:
        raise DataError(f"{len(vectors)} texts are too few for t-SNE; give ten or more")
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    method = TSNE(2, perplexity=perplexity, init="pca", random_state=seed, n_jobs=1)
    return np.asarray(method.fit_transform(vectors), dtype=np.float64)
