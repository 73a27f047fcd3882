"""Sentences and the metric ImpScore to charts: violins, data sets side by side, margins, features.

The metric is 0 for a literal sentence; distances are of pragmatic features. Nothing here encodes
anything but what it is asked to draw.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from statistics import fmean
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.analysis.figures.chart import FEWEST, Chart, Form, Plot, Series
from harness.analysis.profile import ALL, BINS, WIDTH, Profile
from harness.errors import DataError
from harness.implicitness.pairs import TrainingPair, with_negatives
from harness.implicitness.scorer import Embedded, Scorer, embedded_texts
from harness.implicitness.train import SWEPT, AblationRow
from harness.models.encoders.encoders import Encoder
from harness.models.extras import require
from harness.models.vectors import Progress
from harness.stats.estimate import generator

Numbers = NDArray[np.float64]
ABLATION_METRICS: Final = ("implicitness", "pragmatics", "tau")
SYMBOLS: Final = {"margin": "gamma 1", "pragmatic_margin": "gamma 2", "pragmatic_weight": "alpha"}
MOST_TEXTS: Final = 3000
"""How many texts t-SNE places at most, drawn at random."""
_SHORT: Final = {"cosine": "cos", "euclidean": "euc"}
_DISTANCE_BINS: Final = 20


def pair_violins(pairs: Sequence[TrainingPair], scorer: Scorer, progress: Progress) -> Chart:
    """ImpScore, figure 3: implicitness of both sides of pairs, and distance within and between.

    Pairs without a negative get one from other pairs.
    """
    whole = with_negatives(pairs, seed=0)
    embedded = embedded_texts(
        (t for pair in whole for t in pair.sentences), scorer.encoder, progress
    )
    score = scorer.head.implicitness(embedded.vectors)
    sides = {
        "implicit": [score[embedded.places[pair.implicit]] for pair in whole],
        "explicit": [score[embedded.places[pair.explicit]] for pair in whole],
    }
    apart = {
        "one meaning": _apart([(p.implicit, p.explicit) for p in whole], scorer, embedded),
        "two meanings": _apart([p.negative for p in whole if p.negative], scorer, embedded),
    }
    right = np.mean(np.array(sides["implicit"]) > np.array(sides["explicit"]))
    note = f"implicit side above in {right:.1%} of {len(whole)} pairs" if whole else ""
    plots = (
        _violins("Implicitness", "implicitness", sides, note=note),
        _violins("Pragmatic distance of pairs", "distance", apart),
    )
    notes = [f"by {scorer.signature}; box: quartiles; mark: mean"]
    notes += _trained_on(scorer.overlap(pair.sentences for pair in whole), len(whole), "pairs")
    return Chart("Implicit and explicit sentences", plots, tuple(notes))


def _trained_on(count: int | None, total: int, what: str) -> list[str]:
    """A note where a scorer was trained on what it is drawn on."""
    return [f"the scorer was trained on {count} of these {total} {what}"] if count else []


def _by(profile: Profile, more: str = "") -> tuple[str, ...]:
    row = profile.rows[0]
    return (f"by {row.scorer}{more}", *_trained_on(row.trained_on, row.n, "texts"))


def _apart(pairs: Sequence[tuple[str, str]], scorer: Scorer, embedded: Embedded) -> list[float]:
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
) -> Plot:
    series = tuple(
        Series(name, "violin", [at] * len(values), [float(value) for value in values])
        for at, (name, values) in enumerate(groups.items(), 1)
        if len(values)
    )
    names = tuple(f"{name} (n={len(values)})" for name, values in groups.items())
    return Plot(title, "", label, series, x_names=names, note=note)


def profile_chart(profile: Profile, *, title: str) -> Chart:
    """One file: the shares of texts by implicitness and of pairs by distance, a line a label.

    All texts together are bars.
    """
    top = max((float(own.max()) for own in profile.distances if len(own)), default=1.0) or 1.0
    edges = np.linspace(0, top, _DISTANCE_BINS + 1)
    bins = np.linspace(0, BINS * WIDTH, BINS + 1)
    counts = [np.histogram(own, edges)[0].tolist() for own in profile.distances]
    texts = [list(row.bins) for row in profile.rows]
    by_text = _shares(profile, texts, bins, [row.n for row in profile.rows])
    by_pair = _shares(profile, counts, edges, [row.pairs for row in profile.rows])
    plots = (
        Plot("Implicitness", "implicitness", "share of texts", by_text, (0.0, BINS * WIDTH)),
        Plot("Pragmatic distance", "distance", "share of pairs", by_pair, (0.0, top)),
    )
    return Chart(title, plots, _by(profile))


def _shares(
    profile: Profile, counts: Sequence[Sequence[int]], edges: Numbers, totals: Sequence[int]
) -> tuple[Series, ...]:
    low, high = edges[:-1].tolist(), edges[1:].tolist()
    middle = ((edges[:-1] + edges[1:]) / 2).tolist()
    series = []
    for row, own, total in zip(profile.rows, counts, totals, strict=True):
        shares = [count / total if total else nan for count in own]
        form: Form = "bars" if row.label == ALL else "line"
        places, ends = (low, high) if form == "bars" else (middle, [])
        label, n = f"{row.label} (n={row.n})", [total] * len(own)
        series.append(Series(label, form, places, shares, to=ends, n=n))
    return tuple(series)


def datasets_mean(profile: Profile) -> Chart:
    """ImpScore, figure 5: the mean implicitness of several data sets, with standard deviations."""
    rows = [row for row in profile.rows if row.label != ALL and row.mean is not None]
    means = [row.mean or 0.0 for row in rows]
    spread = [row.sd or 0.0 for row in rows]
    series = Series(
        "mean implicitness",
        "forest",
        means,
        [float(at) for at in range(1, len(rows) + 1)],
        low=[mean - sd for mean, sd in zip(means, spread, strict=True)],
        high=[mean + sd for mean, sd in zip(means, spread, strict=True)],
        n=[row.n for row in rows],
    )
    names = tuple(f"{row.label} (n={row.n})" for row in rows)
    plot = Plot("", "implicitness, mean and standard deviation", "", (series,), y_names=names)
    return Chart("Implicitness of data sets", (plot,), _by(profile))


def datasets_distance(profile: Profile) -> Chart:
    """ImpScore, figure 6: pragmatic distances of random pairs within each of several data sets."""
    held = zip(profile.rows, profile.distances, strict=True)
    groups = {row.label: own.tolist() for row, own in held if row.label != ALL}
    plot = _violins("", "pragmatic distance of random pairs", groups)
    notes = _by(profile, "; n counts pairs; box: quartiles; mark: mean")
    return Chart("Pragmatic diversity of data sets", (plot,), notes)


def datasets_distribution(profile: Profile) -> Chart:
    """ImpScore, figure 14: the distribution of implicitness in each of several data sets."""
    edges = np.linspace(0, BINS * WIDTH, BINS + 1)
    plots = tuple(
        Plot(
            f"{row.label} (n={row.n})",
            "implicitness",
            "share of texts",
            (
                Series(
                    "texts",
                    "bars",
                    edges[:-1].tolist(),
                    [count / row.n if row.n else nan for count in row.bins],
                    to=edges[1:].tolist(),
                    n=[row.n] * BINS,
                ),
            ),
            (0.0, BINS * WIDTH),
            (0.0, 1.0),
            note=f"mean {row.mean:.2f}" if row.mean is not None else "",
        )
        for row in profile.rows
        if row.label != ALL
    )
    return Chart("Distribution of implicitness", plots, _by(profile))


@dataclass(frozen=True, slots=True, eq=False)
class TextGroups:
    """Texts with the label of each."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]

    def some(self, seed: int) -> "TextGroups":
        """At most MOST_TEXTS of them, drawn at random, in their order; equal texts once."""
        first = {text: at for at, text in reversed([*enumerate(self.texts)])}
        places = sorted(first.values())
        if len(places) > MOST_TEXTS:
            drawn = generator(f"{seed}:t-SNE").permutation(len(places))[:MOST_TEXTS]
            places = sorted(places[at] for at in drawn.tolist())
        return TextGroups(
            tuple(self.texts[at] for at in places), tuple(self.labels[at] for at in places)
        )


def features_map(held: TextGroups, scorer: Scorer, progress: Progress, *, seed: int = 0) -> Chart:
    """ImpScore, figures 11-13: t-SNE of the pragmatic and of the semantic features of texts."""
    some = held.some(seed)
    vectors = _vectors(some, scorer.encoder, progress)
    found = scorer.head.features(vectors)
    spaces = {"Pragmatic features": found.pragmatic, "Semantic features": found.semantic}
    return _maps("Features of texts", spaces, some, scorer.signature, seed)


def embedding_map(
    held: TextGroups, encoder: Encoder, progress: Progress, *, seed: int = 0
) -> Chart:
    """ISHate, figures 1 and 2: t-SNE of the embeddings of texts, by label."""
    some = held.some(seed)
    vectors = _vectors(some, encoder, progress).astype(np.float64)
    return _maps("Embeddings of texts", {"": vectors}, some, encoder.name, seed)


def _vectors(held: TextGroups, encoder: Encoder, progress: Progress) -> NDArray[np.float32]:
    embedded = embedded_texts(held.texts, encoder, progress)
    return embedded.vectors[[embedded.places[text] for text in held.texts]]


def _maps(title: str, spaces: Mapping[str, Numbers], held: TextGroups, by: str, seed: int) -> Chart:
    plots = []
    for name, vectors in spaces.items():
        places = tsne(vectors, seed)
        series = []
        # The rarest on top.
        for label, _ in Counter(held.labels).most_common():
            own = [at for at, other in enumerate(held.labels) if other == label]
            x, y = places[own, 0].tolist(), places[own, 1].tolist()
            series.append(Series(f"{label} (n={len(own)})", "points", x, y))
        plots.append(Plot(name, "t-SNE 1", "t-SNE 2", tuple(series), is_square=True))
    notes = (f"t-SNE of {len(held.texts)} texts by {by}; distances between groups mean little",)
    return Chart(title, tuple(plots), notes)


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


@dataclass(frozen=True, slots=True)
class GridPoint:
    """What one training of a grid of margins came to; None where nothing was measured."""

    margin: float
    pragmatic_margin: float
    pragmatic_weight: float
    implicitness: float | None
    pragmatics: float | None
    pairs: int


def grid_points(rows: Sequence[AblationRow], pairs: int) -> list[GridPoint]:
    """The trainings of a grid, tested on so many pairs."""
    points = []
    for row in rows:
        (margin, pragmatic_margin, weight), found = row.point, row.figures
        settings = margin, pragmatic_margin, weight
        points.append(GridPoint(*settings, found.implicitness, found.pragmatics, pairs))
    return points


def margins(points: Sequence[GridPoint], metric: str = "implicitness") -> Chart:
    """ImpScore, figures 4 and 10: accuracy over both margins, a panel an alpha, the best marked."""
    weights = sorted({point.pragmatic_weight for point in points})
    rows = sorted({point.margin for point in points})
    columns = sorted({point.pragmatic_margin for point in points})
    held: dict[tuple[float, float, float], list[float]] = {}
    for point in points:
        value = getattr(point, metric)
        if value is not None:
            place = point.pragmatic_weight, point.margin, point.pragmatic_margin
            held.setdefault(place, []).append(value)
    if not held:
        raise DataError(f"no training of the grid has a {metric} accuracy; nothing to draw")
    means = {place: fmean(values) for place, values in held.items()}
    best = max(means, key=lambda place: means[place])
    ends = min(means.values()), max(means.values())
    pairs = points[0].pairs
    plots = []
    for weight in weights:
        own = [(place, mean) for place, mean in means.items() if place[0] == weight]
        x = [columns.index(place[2]) + 1.0 for place, _ in own]
        y = [rows.index(place[1]) + 1.0 for place, _ in own]
        z, n = [mean for _, mean in own], [pairs] * len(own)
        mark = (columns.index(best[2]) + 1, rows.index(best[1]) + 1) if best[0] == weight else None
        plots.append(
            Plot(
                f"alpha {weight:g}",
                SYMBOLS["pragmatic_margin"],
                SYMBOLS["margin"],
                (Series(metric, "cells", x, y, z=z, n=n),),
                z_range=ends,
                x_names=tuple(f"{value:g}" for value in columns),
                y_names=tuple(f"{value:g}" for value in rows),
                best=mark,
            )
        )
    runs = max(map(len, held.values()))
    said = ", ".join(
        f"{symbol} = {value:g}"
        for symbol, value in zip(("alpha", "gamma 1", "gamma 2"), best, strict=True)
    )
    notes = (f"best: {said}: {means[best]:.3f}; trainings a cell: {runs}; test pairs: {pairs}",)
    return Chart(f"Accuracy of {metric} by both margins", tuple(plots), notes)


def ablation_chart(rows: Sequence[AblationRow], *, pairs: int, graded: int) -> Chart:
    """The trainings of an ablation: the forms, then each swept setting.

    Each training is a point; lines join the means of the trainings of one value. `pairs` were
    tested, `graded` of them with levels, which tau is of.
    """
    counts = {"implicitness": pairs, "pragmatics": pairs, "tau": graded}
    drawn = [name for name in ABLATION_METRICS if counts[name] >= FEWEST]
    values = [getattr(row.figures, name) for row in rows for name in drawn]
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    room = 0.05 * (high - low) or 0.05
    ends = low - room, high + room
    plots = [_forms([row for row in rows if row.setting == "form"], ends, counts)]
    for setting in SWEPT:
        own = [row for row in rows if row.setting == setting]
        series = tuple(
            part for name in ABLATION_METRICS for part in _swept(own, name, counts[name])
        )
        top = max((float(row.value) for row in own), default=1.0) * 1.05
        title = f"{SYMBOLS[setting]} ({setting})"
        plots.append(Plot("", title, "on test pairs", series, (0.0, top), ends))
    return Chart("Accuracy and tau on held-out pairs, by form and setting", tuple(plots))


def _forms(
    rows: Sequence[AblationRow], ends: tuple[float, float], counts: Mapping[str, int]
) -> Plot:
    forms, series = list(dict.fromkeys(row.value for row in rows)), []
    for at, metric in enumerate(ABLATION_METRICS):
        places = [forms.index(row.value) + 1 + (at - 1) * 0.22 for row in rows]
        values = [getattr(row.figures, metric) for row in rows]
        if any(value is not None for value in values):
            drawn = [nan if value is None else value for value in values]
            n = [counts[metric]] * len(drawn)
            series.append(Series(metric, "points", places, drawn, n=n))
    names = tuple(" ".join(_SHORT.get(word, word) for word in form.split()) for form in forms)
    about = "direction, distance of implicitness, pragmatic distance"
    return Plot("", f"form: {about}", "on test pairs", tuple(series), y_range=ends, x_names=names)


def _swept(rows: Sequence[AblationRow], metric: str, count: int) -> list[Series]:
    points = [(float(row.value), getattr(row.figures, metric)) for row in rows]
    known: list[tuple[float, float]] = [(x, y) for x, y in points if y is not None]
    if not known:
        return []
    places = sorted({x for x, _ in known})
    means = [fmean(y for x, y in known if x == place) for place in places]
    x, y = [x for x, _ in known], [y for _, y in known]
    return [
        Series(metric, "line", places, means, n=[count] * len(places)),
        Series(metric, "points", x, y, n=[count] * len(known)),
    ]
