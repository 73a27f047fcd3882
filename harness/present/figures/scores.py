"""Scores of runs to figures: any three of their properties as axis, panels and series.

A frame of scores has the columns of leaderboard.csv. One value of a figure is one stored score: if
several would be at one place, the user is asked to choose, and nothing is averaged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from harness.analysis.boards.scores import HEADLINES
from harness.errors import SpecError, StoreError
from harness.lazy import Axes, DataFrame, pandas
from harness.pipeline.score import ALL
from harness.present.figures import marks
from harness.present.figures.figure import Figure, Looks, Subplot, each, together, values
from harness.stats.correlation import pearson
from harness.storage.runs import JudgeEntry
from harness.storage.signature import Signature, short_labels

PROPERTIES: Final = (
    *("task", "model", "variant", "judge", "group", "metric"),
    *("data", "limit", "seed", "version"),
)
"""What distinguishes scores; any of them may be an axis, the panels or the series."""
RESOLUTION, DETECTION = "intent_resolution", "intent_detection_pairs"
_SHARES = (-0.03, 1.03)
_NOTHING = "nothing to draw: no run has such a score; see --judge and --variant"


@dataclass(frozen=True, slots=True)
class Layout:
    """Which properties of a score are the x axis, the panels and the series; empty for none."""

    x: str
    panel: str = ""
    series: str = ""

    def __post_init__(self) -> None:
        for option, name in (("x", self.x), ("panel", self.panel), ("series", self.series)):
            if name not in PROPERTIES and (name or option == "x"):
                raise SpecError(f"--{option} {name!r}: give one of {', '.join(PROPERTIES)}")
        if len(set(self.used)) < len(self.used):
            raise SpecError("--x, --panel and --series: name each property once")

    @property
    def used(self) -> list[str]:
        """The properties that it names."""
        return [name for name in (self.x, self.panel, self.series) if name]


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
        keys = [*PROPERTIES, "prompts", "judge_version"]
        joined = kept.assign(joined=kept.decoding.str.count(r"\+"))
        return kept.loc[joined.groupby(keys, sort=False, dropna=False).joined.idxmax()]


def comparison(scores: DataFrame, layout: Layout, title: str = "") -> Figure:
    """Some scores by their properties; bars, or lines over variants, which have an order.

    StoreError without a score, SpecError if several would be at one place.
    """
    if scores.empty:
        raise StoreError(_NOTHING)
    _refuse_several(scores, layout)
    names = list(scores[layout.x].unique())
    labels = list(scores[layout.series].unique()) if layout.series else [scores.model.iloc[0]]
    panels = []
    for own_title in scores[layout.panel].unique() if layout.panel else [""]:
        own = scores[scores[layout.panel] == own_title] if layout.panel else scores
        rows = []
        for at, label in enumerate(labels):
            one = own[own[layout.series] == label] if layout.series else own
            rows.append(_series(one, label, layout, names, (at, len(labels))))
        look = partial(_draw_scores, layout=layout, scores=scores, own=own)
        panels.append(Subplot(own_title, together(rows), look, x_names=names))
    return Figure(title, tuple(panels), (_shared(scores, layout),))


def _series(
    scores: DataFrame, label: str, layout: Layout, names: Sequence[str], part: tuple[int, int]
) -> DataFrame:
    """The values of one series, its bars or points side by side with those of the others."""
    places = [names.index(name) + 1 for name in scores[layout.x]]
    ordered = scores.assign(place=places).sort_values("place", kind="stable")
    at, count = part
    bounds = {name: ordered[name].to_numpy(float) for name in ("low", "high", "n")}
    place, y = ordered.place.to_numpy(float), ordered.value.to_numpy(float)
    if layout.x == "variant":
        return values(label, place + (at - (count - 1) / 2) * 0.12, y, **bounds)
    start = place - 0.4 + 0.8 / count * at
    return values(label, start, y, to=start + 0.8 / count, **bounds)


def _draw_scores(
    axes: Axes,
    rows: DataFrame,
    looks: Looks,
    *,
    layout: Layout,
    scores: DataFrame,
    own: DataFrame,
) -> None:
    is_line = layout.x == "variant"
    each(marks.curve if is_line else marks.bars)(axes, rows, looks)
    metrics = ", ".join(scores.metric.unique()).replace("_", " ")
    axes.set(xlabel=layout.x, ylabel=metrics)
    if _are_shares(scores):
        axes.set_ylim(_SHARES[0] if is_line else 0.0, _SHARES[1])
    _draw_chance(axes, own)


def _are_shares(scores: DataFrame) -> bool:
    ends = scores[["value", "low", "high"]].astype(float)
    return bool(
        ends.notna().any(axis=None) and ends.min(axis=None) >= 0 and ends.max(axis=None) <= 1
    )


def _draw_chance(axes: Axes, scores: DataFrame, axis: str = "y") -> None:
    """A line at chance if all scores have the same."""
    chances = scores.chance.astype(float).unique()
    if len(chances) == 1 and chances[0] == chances[0]:
        marks.reference(axes, float(chances[0]), "chance", axis=axis)


def _refuse_several(scores: DataFrame, layout: Layout) -> None:
    """SpecError if two scores have one place; it names in what they differ."""
    again = scores[scores.duplicated(layout.used)]
    if again.empty:
        return
    row = again.iloc[0]
    same = (scores[layout.used] == row[layout.used]).all(axis=1)
    other = scores[same].iloc[0]
    differs = [name for name in PROPERTIES if row[name] != other[name]]
    name = differs[0] if differs else "recipe"
    known = ", ".join(scores[name].unique()[:6]) if differs else "see `harness leaderboard`"
    options = {"judge", "variant", "task", "metric"}
    choose = f"give --{name}" if name in options else "name the runs to draw"
    raise SpecError(
        f"several scores at one place: the runs differ in {name} ({known}); {choose}, or "
        f"put {name} on --x, --panel or --series"
    )


def _shared(scores: DataFrame, layout: Layout) -> str:
    """What all scores share and the axes do not say."""
    shared = [
        f"{name} {', '.join(found)}"
        for name in ("task", "variant", "judge", "data", "seed")
        if name not in layout.used and len(found := scores[name].unique()) <= 2
    ]
    return "; ".join([*shared, "95% intervals"])


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
    return comparison(both if kept.empty else kept, Layout("group", "model", "task"), title)


def levels(scores: DataFrame, choice: ScoreFilter) -> Figure:
    """Intent resolution, figure 3: accuracy by what the prompt reveals, a line a model."""
    chosen = ScoreFilter(choice.judges, choice.variants, (RESOLUTION,), choice.metric)
    kept = chosen.select(scores).sort_values("variant", kind="stable")
    panel = "judge" if kept.judge.nunique() > 1 else ""
    return comparison(kept, Layout("variant", panel, "model"), "Accuracy by level of the prompt")


def intentions(judges: dict[str, JudgeEntry], scores: DataFrame, choice: ScoreFilter) -> Figure:
    """Intent resolution, figure 4: the intention spelled out and the reply, over models and levels.

    A panel for each pair of a judge of intentions and a judge of replies.
    """
    kept = ScoreFilter((), choice.variants, choice.tasks).select(scores)
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
    return Figure(title, found, ("each point is a model at a level; r is Pearson's, over points",))


def _related(scores: DataFrame, of: str, to: str) -> Subplot:
    """The scores of two judges of the same runs: a point a model and variant."""
    first, second = (
        scores[scores.judge == name].drop_duplicates(["model", "variant"], keep="last")
        for name in (of, to)
    )
    both = first.merge(second, on=["model", "variant"], suffixes=("", "_to"))
    both = both.assign(n=both[["n", "n_to"]].min(axis=1))
    rows = [
        values(model, own.value, own.value_to, n=own.n, name=own.variant)
        for model, own in both.groupby("model", sort=False)
    ]
    r = pearson(both.value.astype(float).tolist(), both.value_to.astype(float).tolist())
    said = f"r = {r.value:.2f}" if r.value is not None else f"r: {r.reason}"

    def draw(axes: Axes, rows: DataFrame, looks: Looks) -> None:
        each(marks.points)(axes, rows, looks)
        marks.diagonal(axes)
        axes.set(xlim=_SHARES, ylim=_SHARES, xlabel=f"intention right, by {of}")
        axes.set(ylabel=f"reply right, by {to}", aspect="equal")

    return Subplot("", together(rows), draw, f"{said}, {r.n} points", shape="square")


def forest(scores: DataFrame, choice: ScoreFilter) -> Figure:
    """A leaderboard with its intervals: a panel a board, its models from best to worst."""
    chosen = choice.select(scores)
    if chosen.empty:
        raise StoreError(_NOTHING)
    recipes = [Signature.parse(text).without("model") for text in chosen.signature]
    boards = [board for _, board in chosen.assign(recipe=recipes).groupby("recipe", sort=False)]
    titles, shared = _titles(boards)
    panels = []
    for title, board in zip(titles, boards, strict=True):
        ordered = board.sort_values("value", ascending=False, kind="stable", na_position="last")
        places = range(1, len(ordered) + 1)
        bounds = {name: ordered[name].to_numpy(float) for name in ("low", "high", "n")}
        rows = values("score", ordered.value.to_numpy(float), places, **bounds)
        names = [f"{row.model} (n={row.n:.0f})" for row in ordered.itertuples()]
        look = partial(_draw_forest, board=board)
        panels.append(Subplot(title, rows, look, y_names=names, shape="forest"))
    notes = (shared,) if shared else ()
    return Figure("Leaderboard with 95% intervals", tuple(panels), notes)


def _draw_forest(axes: Axes, rows: DataFrame, looks: Looks, *, board: DataFrame) -> None:
    each(marks.forest)(axes, rows, looks)
    axes.set_xlabel(board.metric.iloc[0].replace("_", " "))
    if _are_shares(board):
        axes.set_xlim(_SHARES)
    _draw_chance(axes, board, "x")


def _titles(boards: Sequence[DataFrame]) -> tuple[list[str], str]:
    """A title for each board: what differs; and what all share."""
    firsts = [board.iloc[0] for board in boards]
    named = {name: [row[name] for row in firsts] for name in ("task", "variant", "judge")}
    own = [name for name, found in named.items() if len(set(found)) > 1] or list(named)
    titles = [", ".join(parts) for parts in zip(*(named[name] for name in own), strict=True)]
    shared = "; ".join(f"{name} {named[name][0]}" for name in named if name not in own)
    recipes = [board.signature.map(_without_model).iloc[0] for board in boards]
    found = []
    for title, recipe in zip(titles, recipes, strict=True):
        alike = [one for one, name in zip(recipes, titles, strict=True) if name == title]
        more = short_labels(dict.fromkeys(alike, ""))[recipe].removeprefix(", ")
        found.append(f"{title} ({more})" if len(alike) > 1 else title)
    return found, shared


def _without_model(signature: str) -> str:
    return str(replace(Signature.parse(signature), model="", kind="", version=""))
