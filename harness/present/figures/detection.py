"""Verdicts on labelled texts to figures: curves by bin, confusions, calibration, ROC, precision.

A text without an answer is in no curve and no cell; a note counts it.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from math import nan
from typing import Any, Final

import numpy as np

from harness.analysis.curves import EQUAL_MASS, NAMES, PUBLISHED
from harness.data.choices import LABELS
from harness.errors import StoreError
from harness.judges.gold import LABELLED
from harness.lazy import DataFrame
from harness.pipeline import choice_scores
from harness.present.figures import marks
from harness.present.figures.figure import Figure, Subplot, together, values
from harness.present.figures.scores import SHARES
from harness.stats.classification import BINS, auc
from harness.stats.estimate import Clusters, mean_interval
from harness.storage.frames import load
from harness.storage.runs import RunFile, RunFolder
from harness.storage.signature import short_labels

_MARKS: Final = {PUBLISHED: "points", "logistic": "curve"}
_MOST_LABELS: Final = 12
Part = tuple[str, DataFrame, RunFile]
"""The label of a run under one variant, its verdicts with the true label of each, and its file."""


def curve_figure(curves: DataFrame, by: str, *, with_curves: bool = True) -> Figure:
    """Hits and false alarms by implicitness, above columns of how many texts each bin has.

    `curves` has the columns of `analysis.curves`, `by` is the scale. Bins are points; with curves,
    also the logistic curve with its band and the isotonic one. Each data set has its own panels.
    """
    sources = curves.drop_duplicates("data").set_index("data").source
    is_clear = sources.nunique() == len(sources)
    panels = []
    for data, source in sources.items():
        text = source if is_clear else f"data {data.partition('+')[0]}"
        own = curves[curves.data == data]
        for rate in choice_scores.RATES:
            title = f"{NAMES[rate]}, {text}" if len(sources) > 1 else NAMES[rate]
            panels.append(_rate_panel(own, rate, title, with_curves=with_curves))
    where = sources.index[0] if len(sources) == 1 else f"measured by {by}"
    forms = ["points are bins with 95% intervals"]
    forms += ["lines are logistic with their 95% band, dots isotonic"] if with_curves else []
    title = f"{curves.task.iloc[0]}: share flagged, by implicitness"
    return Figure(title, tuple(panels), (where, "; ".join(forms)))


def _rate_panel(curves: DataFrame, rate: str, title: str, *, with_curves: bool) -> Subplot:
    drawn = curves if with_curves else curves[curves["shape"] == PUBLISHED]
    places = drawn[["at", "to"]].stack().dropna()
    ends = (places.min(), places.max()) if places.nunique() > 1 else (0.0, 2.0)
    own = drawn[(drawn.rate == rate) & ~drawn["shape"].isin(["", EQUAL_MASS])]
    labels = short_labels(dict(curves[["signature", "source"]].itertuples(index=False, name=None)))
    order, parts = list(labels), []
    for (name, shape), rows in own.groupby(["signature", "shape"], sort=False):
        # Side by side within their bin, so that none hides another.
        share = (order.index(name) + 1) / (len(order) + 1)
        place = rows["at"].fillna(0.0) + share * (rows["to"] - rows["at"]).fillna(0.0)
        # One curve's band is enough; two would hide one another.
        bounds = {"low": rows.low, "high": rows.high} if shape in _MARKS else {}
        mark = _MARKS.get(shape, "dotted")
        parts.append(values(labels[name], place, rows.value, mark, n=rows.n, **bounds))
    bins = curves[(curves.rate == rate) & (curves["shape"] == PUBLISHED)]
    # The answered texts of each bin: the most that any run has.
    counts = bins.groupby(["at", "to"]).n.max().reset_index().rename(columns={"at": "x"})
    axes = {"xlim": ends, "ylim": SHARES, "xlabel": "implicitness", "ylabel": "share flagged"}
    return Subplot(title, together(parts), axes, bins=counts if len(counts) else None)


def _parts(folders: Sequence[RunFolder], judge: str, variants: Sequence[str]) -> list[Part]:
    """The verdicts of a judge, run by run and variant by variant, under names that differ."""
    read = {folder: folder.read() for folder in folders}
    able = {f: file for f, file in read.items() if judge in {one.name for one in file.judges}}
    tasks = {file.run.task for file in able.values()}
    found: list[Part] = []
    for folder, file in able.items():
        rows = _labelled(folder, judge)
        known = list(load([folder], "answers", ["variant"]).variant.unique())
        for variant in known:
            own = rows[rows.variant == variant]
            if len(own) and (not variants or variant in variants):
                words = [file.run.task] * (len(tasks) > 1) + [file.model.name]
                found.append((", ".join(words + [variant] * (len(known) > 1)), own, file))
    if not found:
        raise StoreError(f"nothing to draw: no run was read by judge {judge}; see --judge")
    for is_digest in (False, True):
        counts = Counter(label for label, _, _ in found)
        for at, (label, own, file) in enumerate(found):
            data = f"data {file.data.label.partition('+')[0]}"
            more = file.digest[:6] if is_digest else data
            found[at] = f"{label} ({more})" if counts[label] > 1 else label, own, file
    return found


def _labelled(folder: RunFolder, judge: str) -> DataFrame:
    """A run's verdicts by one judge; `true` is the label of the right choice, None without one."""
    verdicts = load([folder], "verdicts")
    samples = load([folder], "samples", ["sample", "references", "choices", "gold"])
    true = {
        row.sample: row.references[LABELS][list(row.choices).index(row.gold or "")]
        for row in samples.itertuples()
        if len(row.references.get(LABELS, ()))
    }
    own = verdicts[verdicts.judge == judge]
    return own.assign(true=own["sample"].astype(object).map(true).astype(object))


def confusion(folders: Sequence[RunFolder], judge: str, variants: Sequence[str] = ()) -> Figure:
    """True labels against given ones: counts, shaded by their share of the true label.

    A tie counts for each of its labels with its share.
    """
    panels, lost = [], 0
    for label, verdicts, _ in _parts(folders, judge, variants):
        rows = verdicts[verdicts.true.notna()]
        shares = rows[[name for name in rows.columns if name.startswith(LABELLED[0])]]
        shares = shares.fillna(0.0).clip(lower=0.0)
        lost += int((shares.sum(axis=1) == 0).sum())
        counts = shares.groupby(rows.true).sum()
        counts.columns = [name.removeprefix(LABELLED[0]) for name in shares]
        if counts.to_numpy().sum():
            panels.append(_confusion(label, counts))
    if not panels:
        raise StoreError("nothing to draw: the choices of these runs have no labels")
    notes = ("numbers are texts, shades their share of the true label",)
    more = (f"{lost} texts without an answer are not counted",) if lost else ()
    return Figure("Given labels by true label", tuple(panels), (*notes, *more))


def _confusion(title: str, counts: DataFrame) -> Subplot:
    """A panel of how often each true label (a row) got each given one (a column)."""
    given = counts.columns[counts.sum() > 0]
    labels = sorted({*counts.index[counts.sum(axis=1) > 0], *given})[:_MOST_LABELS]
    table = counts.reindex(index=labels, columns=labels, fill_value=0.0)
    totals, long = table.sum(axis=1), table.stack()
    y, x = (long.index.get_level_values(level).map(labels.index) + 1 for level in (0, 1))
    of_label = totals.loc[long.index.get_level_values(0)].to_numpy()
    shares = np.divide(long, of_label, out=np.full(len(long), nan), where=of_label > 0)
    names = [f"{n:g}" if n == round(n) else f"{n:.1f}" for n in long]
    rows = values("share", x, y, "", z=shares, n=of_label.round(), name=names)
    heads = [f"{label} (n={totals[label]:g})" for label in labels]
    axes, shaded = {"xlabel": "given label", "ylabel": "true label"}, (0.0, 1.0)
    draw = partial(marks.cells, ends=shaded)
    return Subplot(title, rows, axes, draw, x_names=labels, y_names=heads, shape="cells")


def reliability(folders: Sequence[RunFolder], judge: str, variants: Sequence[str] = ()) -> Figure:
    """How often the likeliest choice is right, by its probability, over ten bins of equal width."""
    parts = _parts(folders, judge, variants)
    rows, bins = [], None
    for label, verdicts, _ in parts:
        known = verdicts[verdicts.probabilities.notna()]
        if known.empty:
            continue
        sure = known.probabilities.map(max).astype(float)
        known = known.assign(sure=sure, credit=known.value.fillna(0.0))
        groups = known.groupby(np.maximum(np.ceil(sure * BINS), 1) - 1)
        rows.append(_calibration(label, [own for _, own in groups]))
        if len(parts) == 1:
            bins = groups.size().rename("n").rename_axis("x").reset_index()
            bins = bins.assign(x=bins.x / BINS, to=(bins.x + 1) / BINS)
    if not rows:
        raise StoreError(
            "nothing to draw: these verdicts have no probabilities of the choices; answer by "
            "--answers logprob"
        )
    axes: dict[str, Any] = {
        "xlabel": "probability of the likeliest choice",
        "ylabel": "share that is right",
    }
    axes |= {"xlim": SHARES, "ylim": SHARES}
    panel = Subplot("", together(rows), axes, marks.diagonal, bins=bins)
    notes = ("ten bins; 95% intervals; dots: perfectly calibrated",)
    return Figure("Reliability", (panel,), notes)


def _calibration(label: str, bins: Sequence[DataFrame]) -> DataFrame:
    """The mean probability and the share right of each bin."""
    found = [
        mean_interval(own.credit.tolist(), own.cluster.tolist(), is_share=True) for own in bins
    ]
    shares = np.array([[one.value, one.low, one.high] for one in found], dtype=float).T
    bounds = {"low": shares[1], "high": shares[2], "n": [len(own) for own in bins]}
    return values(label, [own.sure.mean() for own in bins], shares[0], "curve", **bounds)


def roc(folders: Sequence[RunFolder], judge: str, variants: Sequence[str] = ()) -> Figure:
    """ROC curves and precision by recall, over every threshold of the probability.

    Positive is what the task calls so, or the class whose misses it counts.
    """
    scored = {part[0]: _scored(part) for part in _parts(folders, judge, variants)}
    known = {label: rows for label, rows in scored.items() if rows.is_positive.nunique() == 2}
    if not known:
        raise StoreError(
            "nothing to draw: no run has probabilities of positive and of negative texts; answer "
            "by --answers logprob"
        )
    curves = [_thresholds(label, rows) for label, rows in known.items()]
    first, second = (together(side) for side in zip(*curves, strict=True))
    shares = {rows.is_positive.mean() for rows in known.values()}
    base = partial(marks.reference, value=min(shares), name="share of positive texts")
    axes = {"xlim": SHARES, "ylim": SHARES, "aspect": "equal"}
    rates = axes | {"xlabel": "false alarms (FPR)", "ylabel": "hits (TPR)"}
    axes |= {"xlabel": "recall", "ylabel": "precision"}
    flat = base if len(shares) == 1 else None
    panels = (
        Subplot("ROC", first, rates, marks.diagonal, shape="square"),
        Subplot("Precision and recall", second, axes, flat, shape="square"),
    )
    notes = [_area(label, rows) for label, rows in known.items()] if len(known) <= 6 else []
    return Figure("Every threshold", panels, tuple(notes))


def _area(label: str, rows: DataFrame) -> str:
    clusters = Clusters.named(rows.cluster.tolist())
    found = auc(rows.sure.to_numpy(), rows.is_positive.tolist(), clusters)
    low, high, value = found.low, found.high, found.value
    ends = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
    return f"{label}: AUC {nan if value is None else value:.2f}{ends}, n {len(rows)}"


def _scored(part: Part) -> DataFrame:
    """The texts with a probability of being positive (`sure`), and whether they are."""
    _, verdicts, file = part
    spec, classes = file.task.implicitness, file.task.classes
    positive = spec.positive if spec else classes.missed[:1] if classes else ()
    columns = [LABELLED[1] + label for label in positive]
    sure = verdicts.reindex(columns=columns).sum(axis=1, min_count=1)
    found = verdicts.assign(sure=sure, is_positive=verdicts.true.isin(positive))
    return found[sure.notna() & found.true.notna()]


def _thresholds(label: str, rows: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The points of both curves, one for each different probability, the highest first."""
    order = np.argsort(-rows.sure.to_numpy(), kind="stable")
    truth, sure = rows.is_positive.to_numpy(bool)[order], rows.sure.to_numpy()[order]
    last = np.append(np.nonzero(np.diff(sure))[0], len(sure) - 1)
    hits, alarms = np.cumsum(truth)[last], np.cumsum(~truth)[last]
    tpr, fpr = hits / truth.sum(), alarms / (~truth).sum()
    first = values(label, [0.0, *fpr], [0.0, *tpr], "curve", n=len(sure))
    return first, values(label, tpr, hits / (hits + alarms), "curve", n=len(sure))
