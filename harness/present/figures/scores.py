"""Scores, curves, trainings and people's ratings to figures.

A frame of scores has the columns of leaderboard.csv. One value of a figure is one stored score: if
several would be at one place, the user is asked to choose, and nothing is averaged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import nan
from typing import Any, Final

import numpy as np

from harness.analysis.boards.ranked import CONTROL
from harness.analysis.boards.scores import HEADLINES
from harness.analysis.curves import EQUAL_MASS, NAMES, PUBLISHED
from harness.analysis.findings import who
from harness.analysis.panels import JudgeTable, Panel
from harness.errors import DataError, SpecError, StoreError
from harness.implicitness.evaluate import mean_known, rho, tau
from harness.implicitness.rankings import Judged, by_set
from harness.lazy import DataFrame, pandas
from harness.pipeline import choice_scores
from harness.pipeline.score import ALL
from harness.present.figures import marks
from harness.present.figures.figure import FEWEST, Figure, Subplot, together, values
from harness.stats.correlation import dataset_pearson, document_tau, kendall, pearson, spearman
from harness.stats.estimate import Estimate, Floats, NoValue
from harness.storage.runs import JudgeEntry
from harness.storage.signature import Signature, short_labels

PROPERTIES: Final = (
    *("task", "model", "variant", "judge", "group", "metric"),
    *("data", "limit", "seed", "version", "prompts"),
)
"""What distinguishes scores; any of them may be an axis, the panels or the series."""
RESOLUTION, DETECTION = "intent_resolution", "intent_detection_pairs"
SHARES = (-0.03, 1.03)
_BOUNDS = ["low", "high", "n"]
PAPERS_SCORER: Final = "impscore-published"
_MARKS: Final = {PUBLISHED: "points", EQUAL_MASS: "points", "logistic": "curve"}
_NOTHING = "nothing to draw: no run has such a score; see --judge and --variant"


@dataclass(frozen=True, slots=True)
class ScoreFilter:
    """Which scores are drawn: those of some judges, variants and tasks, of one metric.

    Without names all; without a metric the headline's, such as accuracy.
    """

    judges: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    metric: str = ""

    def select(self, scores: DataFrame, *, by_group: bool = False) -> DataFrame:
        """The scores, over all decodings together; overall ones, or those of groups."""
        metrics = (self.metric,) if self.metric else HEADLINES
        kept = scores[((scores.group != ALL) == by_group) & scores.metric.isin(metrics)]
        wanted = {"judge": self.judges, "variant": self.variants, "task": self.tasks}
        for name, names in wanted.items():
            kept = kept[kept[name].isin(names)] if names else kept
        keys = [*PROPERTIES, "judge_version"]
        joined = kept.assign(joined=kept.decoding.str.count(r"\+"))
        return kept.loc[joined.groupby(keys, sort=False, dropna=False).joined.idxmax()]


def comparison(
    scores: DataFrame, x: str, panel: str = "", series: str = "", title: str = ""
) -> Figure:
    """Some scores by their properties; bars, or lines over variants, which have an order.

    StoreError without a score, SpecError if several would be at one place.
    """
    for option, name in (("x", x), ("panel", panel), ("series", series)):
        if name not in PROPERTIES and (name or option == "x"):
            raise SpecError(f"--{option} {name!r}: give one of {', '.join(PROPERTIES)}")
    used = [name for name in (x, panel, series) if name]
    if len(set(used)) < len(used):
        raise SpecError("--x, --panel and --series: name each property once")
    if scores.empty:
        raise StoreError(_NOTHING)
    _refuse_several(scores, used)
    is_line, places = x == "variant", list(scores[x].unique())
    labels = list(scores[series].unique()) if series else [scores.model.iloc[0]]
    metrics = ", ".join(scores.metric.unique()).replace("_", " ")
    axes: dict[str, Any] = {"xlabel": x, "ylabel": metrics}
    axes |= {"ylim": SHARES if is_line else (0.0, SHARES[1])} if _are_shares(scores) else {}
    placed = scores.assign(place=scores[x].map(places.index).astype(float) + 1)
    placed = placed.sort_values("place", kind="stable")
    panels = []
    for name in scores[panel].unique() if panel else [""]:
        own = placed[placed[panel] == name] if panel else placed
        parts = [own[own[series] == label] if series else own for label in labels]
        count = len(labels)
        rows = [
            _series(one, labels[at], (at + 0.5) / count - 0.5, count, is_line=is_line)
            for at, one in enumerate(parts)
        ]
        chance = _chance(scores[scores[panel] == name] if panel else scores)
        panels.append(Subplot(name, together(rows), axes, chance, x_names=places))
    shared = [
        f"{name} {', '.join(found)}"
        for name in ("task", "variant", "judge", "data", "seed")
        if name not in used and len(found := scores[name].unique()) <= 2
    ]
    return Figure(title, tuple(panels), ("; ".join([*shared, "95% intervals"]),))


def _series(own: DataFrame, label: str, aside: float, count: int, *, is_line: bool) -> DataFrame:
    """The points or bars of one series, `aside` of their place by a share of its width."""
    bounds, y = own[_BOUNDS].to_dict("list"), own.value.to_numpy(float)
    if is_line:
        return values(label, own.place + aside * count * 0.12, y, "curve", **bounds)
    start = own.place + 0.8 * (aside - 0.5 / count)
    return values(label, start, y, "bars", to=start + 0.8 / count, **bounds)


def _are_shares(scores: DataFrame) -> bool:
    ends = scores[["value", "low", "high"]].astype(float).stack()
    return bool(len(ends) and ends.between(0, 1).all())


def _chance(scores: DataFrame, axis: str = "y") -> Callable[..., None] | None:
    """Draws a line at chance if all scores have the same."""
    chances = scores.chance.astype(float)
    is_one = bool(chances.notna().all()) and chances.nunique() == 1
    return partial(marks.reference, value=float(chances.iloc[0]), axis=axis) if is_one else None


def _refuse_several(scores: DataFrame, used: list[str]) -> None:
    """SpecError if two scores have one place; it names in what they differ."""
    again = scores[scores.duplicated(used)]
    if again.empty:
        return
    row = again.iloc[0]
    other = scores[(scores[used] == row[used]).all(axis=1)].iloc[0]
    name = next((name for name in PROPERTIES if row[name] != other[name]), "recipe")
    known = (
        "see `harness leaderboard`" if name == "recipe" else ", ".join(scores[name].unique()[:6])
    )
    is_option = name in ("judge", "variant", "task", "metric")
    choose = f"give --{name}" if is_option else "name the runs to draw"
    fact = f"several scores at one place: the runs differ in {name} ({known})"
    raise SpecError(f"{fact}; {choose}, or put {name} on --x, --panel or --series")


def understanding(scores: DataFrame, choice: ScoreFilter) -> Figure:
    """Intent resolution, figure 2: what models pick out and what they reply, by phenomenon."""
    variants = choice.variants or ("base",)
    spoken = ScoreFilter(choice.judges, variants, (RESOLUTION,)).select(scores, by_group=True)
    picked = ScoreFilter((), (), (DETECTION,)).select(scores, by_group=True)
    is_average = ~picked.variant.str.startswith("order")
    picked = picked[is_average] if is_average.any() else picked
    if spoken.empty or picked.empty:
        raise StoreError(
            f"nothing to draw: give runs of {RESOLUTION} and of {DETECTION}, by the same models"
        )
    both = pandas.concat([spoken, picked])
    kept = both[both.model.isin(spoken.model) & both.model.isin(picked.model)]
    title = "Picking the intention and replying to it, by phenomenon"
    return comparison(both if kept.empty else kept, "group", "model", "task", title)


def levels(scores: DataFrame, choice: ScoreFilter) -> Figure:
    """Intent resolution, figure 3: accuracy by what the prompt reveals, a line a model."""
    chosen = replace(choice, tasks=(RESOLUTION,))
    kept = _of_models(chosen.select(scores)).sort_values("variant", kind="stable")
    panel = "judge" if kept.judge.nunique() > 1 else ""
    return comparison(kept, "variant", panel, "model", "Accuracy by level of the prompt")


def _of_models(scores: DataFrame) -> DataFrame:
    """The scores without those of controls, unless there are no others."""
    own = scores[~scores.version.str.startswith(CONTROL)]
    return own if len(own) else scores


def intentions(scores: DataFrame, choice: ScoreFilter, judges: Mapping[str, JudgeEntry]) -> Figure:
    """Intent resolution, figure 4: the intention spelled out and the reply, over models and levels.

    A panel for each pair of a judge of intentions and a judge of replies.
    """
    kept = _of_models(ScoreFilter((), choice.variants, choice.tasks).select(scores))
    wanted = [name for name in judges if not choice.judges or name in choice.judges]
    steps = [name for name in judges if judges[name].step]
    replies = [name for name in wanted if not judges[name].step and ":" not in name]
    panels = [_related(kept, of, to) for of in steps for to in replies]
    if not (found := tuple(panel for panel in panels if len(panel.rows))):
        raise StoreError(
            "nothing to draw: no run has a judge of the intentions that a model wrote and one of "
            "its replies; have it read: harness judge RUN --judge minilm-inferred-intention"
        )
    title = "Intention spelled out and reply, over models and levels"
    notes = ("each point is a model at a level; r is Pearson's, over points",)
    return Figure(title, found, notes, is_joint=True)


def _related(scores: DataFrame, of: str, to: str) -> Subplot:
    """The scores of two judges of the same runs: a point a model and variant."""
    first, second = (
        scores[scores.judge == name].drop_duplicates(["model", "variant"], keep="last")
        for name in (of, to)
    )
    both = first.merge(second, on=["model", "variant"], suffixes=("", "_to"))
    both = both.assign(n=both[["n", "n_to"]].min(axis=1))
    rows = [
        values(model, own.value, own.value_to, "points", n=own.n, name=own.variant)
        for model, own in both.groupby("model", sort=False)
    ]
    r = pearson(both.value.astype(float).tolist(), both.value_to.astype(float).tolist())
    said = f"r = {r.value:.2f}" if r.value is not None else f"r: {r.reason}"
    axes: dict[str, Any] = {
        "xlabel": f"intention right, by {of}",
        "ylabel": f"reply right, by {to}",
    }
    axes |= {"xlim": SHARES, "ylim": SHARES, "aspect": "equal"}
    note = f"{said}, {r.n} points"
    return Subplot("", together(rows), axes, marks.diagonal, note, shape="square")


def forest(scores: DataFrame, choice: ScoreFilter) -> Figure:
    """A leaderboard with its intervals: a panel a board, its models from best to worst."""
    chosen = choice.select(scores)
    if chosen.empty:
        raise StoreError(_NOTHING)
    boards = [board for _, board in chosen.groupby("recipe", sort=False, observed=True)]
    panels = []
    for title, board in zip(_titles(boards), boards, strict=True):
        ordered = board.sort_values("value", ascending=False, kind="stable", na_position="last")
        bounds, places = ordered[_BOUNDS].to_dict("list"), range(1, len(ordered) + 1)
        rows = values("score", ordered.value.to_numpy(float), places, "forest", **bounds)
        pairs = zip(ordered.itertuples(), ordered["model"].duplicated(keep=False), strict=True)
        names = [f"{row.model}{f' {row.answers}' * twice} (n={row.n:.0f})" for row, twice in pairs]
        axes: dict[str, Any] = {"xlabel": board.metric.iloc[0].replace("_", " ")}
        axes |= {"xlim": SHARES} if _are_shares(board) else {}
        panels.append(
            Subplot(title, rows, axes, _chance(board, "x"), y_names=names, shape="forest")
        )
    return Figure("Leaderboard with 95% intervals", tuple(panels))


def _titles(boards: Sequence[DataFrame]) -> list[str]:
    """The task, variant and judge of each board, and what else differs where two have the same."""
    heads = pandas.DataFrame([board.iloc[0] for board in boards])
    titles = heads[["task", "variant", "judge"]].agg(", ".join, axis=1)
    bare = {"model": "", "kind": "", "version": ""}
    recipes = heads.signature.map(lambda text: str(replace(Signature.parse(text), **bare)))
    for _, alike in recipes.groupby(titles):
        labels = short_labels(dict.fromkeys(alike, "")) if len(alike) > 1 else {}
        for at, recipe in alike.items() if labels else ():
            titles[at] += f" ({labels[recipe].removeprefix(', ')})"
    return list(titles)


def curve_figure(curves: DataFrame, by: str, *, with_curves: bool = True) -> Figure:
    """Hits and false alarms by implicitness, above columns of how many texts each bin has.

    `curves` has the columns of `analysis.curves`, `by` is the scale. Bins are points; with curves,
    also the logistic curve with its band. Each data set has its own panels.
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
    forms += ["lines are logistic with their 95% band"] if with_curves else []
    title = f"{curves.task.iloc[0]}: share flagged, by implicitness"
    return Figure(title, tuple(panels), (where, "; ".join(forms)))


def _rate_panel(curves: DataFrame, rate: str, title: str, *, with_curves: bool) -> Subplot:
    # The paper's bins are of its own scorer: on the scale of another most texts lie in few of them.
    is_papers = not with_curves or curves["data"].str.contains(PAPERS_SCORER, regex=False).all()
    bin_shape = PUBLISHED if is_papers or EQUAL_MASS not in {*curves["shape"]} else EQUAL_MASS
    drawn = curves[curves["shape"].isin([bin_shape, *["logistic"] * with_curves])]
    places = drawn[["at", "to"]].stack().dropna()
    ends = (places.min(), places.max()) if places.nunique() > 1 else (0.0, 2.0)
    own = drawn[drawn.rate == rate]
    labels = short_labels(dict(curves[["signature", "source"]].itertuples(index=False, name=None)))
    order, parts = list(labels), []
    for (name, shape), rows in own.groupby(["signature", "shape"], sort=False):
        # Side by side within their bin, so that none hides another.
        share = (order.index(name) + 1) / (len(order) + 1)
        place = rows["at"].fillna(0.0) + share * (rows["to"] - rows["at"]).fillna(0.0)
        found = {"n": rows.n, "low": rows.low, "high": rows.high}
        parts.append(values(labels[name], place, rows.value, _MARKS[shape], **found))
    bins = own[own["shape"] == bin_shape]
    # The answered texts of each bin: the most that any run has.
    counts = bins.groupby(["at", "to"]).n.max().reset_index().rename(columns={"at": "x"})
    axes = {"xlim": ends, "ylim": SHARES, "xlabel": "implicitness", "ylabel": "share flagged"}
    return Subplot(title, together(parts), axes, bins=counts if len(counts) else None)


SYMBOLS: Final = {"margin": "gamma 1", "pragmatic_margin": "gamma 2", "pragmatic_weight": "alpha"}


def margins(grid: DataFrame, metric: str = "implicitness", alphas: Sequence[float] = ()) -> Figure:
    """ImpScore, figures 4 and 10: accuracy over both margins, a panel an alpha, its best framed.

    `grid` has a row a training, with the columns of grid.csv; `alphas` are drawn if it has any.
    """
    chosen = grid[grid.pragmatic_weight.isin(alphas)]
    grid = grid if chosen.empty else chosen
    keys = ["pragmatic_weight", "margin", "pragmatic_margin"]
    known = grid.dropna(subset=[metric])
    if known.empty:
        raise DataError(f"no training of the grid has a {metric} accuracy; nothing to draw")
    cells = known.groupby(keys, sort=False)[metric].agg(["mean", "size"]).reset_index()
    best = cells.loc[cells["mean"].idxmax()]
    rows, columns = (sorted(grid[name].unique()) for name in keys[1:])
    ends, pairs = (cells["mean"].min(), cells["mean"].max()), int(grid.test_pairs.iloc[0])
    panels = []
    for weight in sorted(grid.pragmatic_weight.unique()):
        own = cells[cells.pragmatic_weight == weight]
        x, y = own.pragmatic_margin.map(columns.index) + 1, own.margin.map(rows.index) + 1
        top = own.loc[own["mean"].idxmax()] if len(own) else best
        framed = (columns.index(top.pragmatic_margin) + 1, rows.index(top.margin) + 1)
        panels.append(
            Subplot(
                f"alpha {weight:g}",
                values(metric, x, y, "", z=own["mean"], n=pairs),
                {"xlabel": SYMBOLS["pragmatic_margin"], "ylabel": SYMBOLS["margin"]},
                partial(marks.cells, ends=ends, best=framed),
                x_names=[f"{value:g}" for value in columns],
                y_names=[f"{value:g}" for value in rows],
                shape="cells",
            )
        )
    said = ", ".join(f"{SYMBOLS[name]} = {best[name]:g}" for name in keys)
    note = f"best: {said}: {best['mean']:.3f}; trainings a cell: {cells['size'].max()}"
    return Figure(
        f"Accuracy of {metric} by both margins", tuple(panels), (f"{note}; test pairs: {pairs}",)
    )


TAU: Final = "Kendall's tau-b"
RHO: Final = "Spearman's rho"


def judges_against_people(panels: Sequence[Panel]) -> Figure:
    """Emphasized-Talk, figure 4: each judge's values against people's, with r and tau.

    r is Pearson's over all cells, tau the mean of Kendall's tau-b within documents.
    """
    found = []
    for panel in panels:
        what = ", ".join(filter(None, (panel.variant, panel.label)))
        what = f" ({what})" if len(panels) > 1 else ""
        found += [_scatter(panel.human, judge, what) for judge in panel.judges]
    if not found:
        raise StoreError("nothing to draw: no judge has read what people rated")
    raters = ", ".join(sorted({f"{len(panel.raters)} raters" for panel in panels}))
    note = f"{raters}; the area of a point grows with the answers that it is of"
    return Figure("Judges against people", tuple(found), (note,))


def _scatter(human: Floats, judge: JudgeTable, what: str) -> Subplot:
    both = ~np.isnan(human) & ~np.isnan(judge.values)
    pairs = {"x": human[both].round(3), "y": judge.values[both].round(3)}
    counts = pandas.DataFrame(pairs).groupby(["x", "y"]).size().rename("z").reset_index()
    r, tau_b = dataset_pearson(human, judge.values), document_tau(human, judge.values)

    rows = values("answers", counts.x, counts.y, "bubbles", z=counts.z)
    note = f"r {_said(r)}, tau {_said(tau_b)}, n {int(both.sum())}"
    axes = {"xlabel": "people's mean rating", "ylabel": "judge's value"}
    return Subplot(who(judge) + what, rows, axes, note=note)


def _said(found: Estimate) -> str:
    return f"{found.value:.2f}" if found.value is not None else str(found.reason)


def rater_agreement(panel: Panel) -> Figure:
    """A matrix of people and judges: how far any two order the same answers alike."""
    raters = {name: panel.ratings[:, :, at].ravel() for at, name in enumerate(panel.raters)}
    raters |= {who(judge): judge.values.ravel() for judge in panel.judges}
    if len(raters) < 2:
        raise StoreError(f"nothing to draw: {len(raters)} raters or judges, and a matrix needs two")
    panels = []
    for name, how in ((RHO, spearman), ("Pearson's r", pearson), (TAU, kendall)):
        cells = {pair: how(*(raters[one] for one in pair)) for pair in combinations(raters, 2)}
        panels.append(_matrix(name, list(raters), cells))
    title = f"Agreement of people and judges: {panel.task}, {panel.variant}"
    note = f"a dash: fewer than {FEWEST} shared, or all alike"
    return Figure(title, tuple(panels), (note,))


def ranking_agreement(judged: Sequence[Judged]) -> Figure:
    """A matrix of people and a scorer: how far any two order the same sets of sentences alike.

    Each cell is the mean over the sets that both have ranked; `n` counts their sentences.
    """
    if len(judged) < 2:
        raise StoreError(f"nothing to draw: {len(judged)} raters, and a matrix needs two")
    panels = []
    for title, how in ((TAU, tau), (RHO, rho)):
        cells = {}
        for a, b in combinations(judged, 2):
            value = mean_known(by_set(a, b, how))
            shared = sum(len(ranks) for name, ranks in a.ranks.items() if name in b.ranks)
            why = NoValue.TOO_FEW if value is None else None
            cells[a.who, b.who] = Estimate(value, shared, reason=why)
        panels.append(_matrix(title, [one.who for one in judged], cells))
    note = "means over sets; a dash: no set shared"
    return Figure("Agreement on the order of sentences", tuple(panels), (note,))


def _matrix(title: str, names: Sequence[str], found: Mapping[tuple[str, str], Estimate]) -> Subplot:
    """Any two of some names, each once: the later a row, the earlier a column."""
    places = [(column, row) for row in range(len(names)) for column in range(row)]
    cells = [found[names[column], names[row]] for column, row in places]
    rows = values(
        "agreement",
        [column + 1 for column, _ in places],
        [row for _, row in places],
        "",
        z=[nan if one.value is None else one.value for one in cells],
        n=[one.n for one in cells],
    )
    draw = partial(marks.cells, ends=(-1.0, 1.0))
    return Subplot(title, rows, also=draw, x_names=names[:-1], y_names=names[1:], shape="cells")
