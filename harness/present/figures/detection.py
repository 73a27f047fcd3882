"""Curves of hits and false alarms by implicitness to a figure."""

from typing import Final

from harness.analysis.curves import EQUAL_MASS, NAMES, PUBLISHED
from harness.lazy import DataFrame
from harness.pipeline import choice_scores
from harness.present.figures.figure import Figure, Subplot, together, values
from harness.present.figures.scores import SHARES
from harness.storage.signature import short_labels

_MARKS: Final = {PUBLISHED: "points", "logistic": "curve"}


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
