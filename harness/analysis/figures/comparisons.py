"""Scores of runs to charts: any three of their properties as axis, panels and series.

A value of a chart is one stored score: where several scores would stand at one place, the user is
asked to choose, and nothing is averaged. Last: the pairing of intention and reply, and the forest.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Final

from harness.analysis.figures.chart import Chart, Plot, Series
from harness.analysis.leaderboard import HEADLINE_METRICS, BoardRow
from harness.errors import SpecError, StoreError
from harness.pipeline.score import ALL
from harness.stats.correlation import pearson
from harness.storage.runs import JudgeEntry, RunFolder
from harness.storage.signature import short_labels

Rows = Sequence[BoardRow]
PROPERTIES: Final[Mapping[str, Callable[[BoardRow], str]]] = {
    "task": lambda row: row.task,
    "model": lambda row: row.model,
    "variant": lambda row: row.score.variant,
    "judge": lambda row: row.score.judge,
    "group": lambda row: row.score.group,
    "metric": lambda row: row.score.metric,
    "data": lambda row: row.parsed.data,
    "limit": lambda row: row.parsed.limit,
    "seed": lambda row: row.parsed.seed,
    "version": lambda row: f"{row.parsed.kind}@{row.parsed.version}",
}
"""What distinguishes scores; any of them may be an axis, the panels or the series."""
RESOLUTION, DETECTION = "intent_resolution", "intent_detection_pairs"


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
        given = [name for name in (self.x, self.panel, self.series) if name]
        if len(set(given)) < len(given):
            raise SpecError("--x, --panel and --series: name each property once")


@dataclass(frozen=True, slots=True)
class ScoreFilter:
    """Which scores are drawn: those of some judges, variants and groups, of one metric.

    Without names all; without a metric the headline's, such as accuracy.
    """

    judges: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    metric: str = ""

    def of(self, rows: Rows, *, by_group: bool) -> list[BoardRow]:
        """The scores, over all decodings together; overall ones, or those of groups."""
        wanted = {"judge": self.judges, "variant": self.variants, "task": self.tasks}
        kept = [
            row
            for row in rows
            if (row.score.group != ALL) == by_group
            and all(not names or PROPERTIES[key](row) in names for key, names in wanted.items())
            and row.score.metric in ((self.metric,) if self.metric else HEADLINE_METRICS)
        ]
        return _over_decodings(kept)


def _over_decodings(rows: Rows) -> list[BoardRow]:
    """Of scores that differ in their temperatures alone, the one over most of them."""
    found: dict[tuple[str, ...], BoardRow] = {}
    for row in rows:
        made = row.parsed
        rest = (made.data, made.limit, made.seed, made.model, made.kind, made.version, made.judge)
        key = (*(read(row) for read in PROPERTIES.values()), made.prompts, *rest)
        other = found.get(key)
        if other is None or row.score.decoding.count("+") > other.score.decoding.count("+"):
            found[key] = row
    return list(found.values())


def comparison(rows: Rows, layout: Layout, title: str) -> Chart:
    """The chart of some scores; bars where the axis has no order, else lines.

    StoreError without a score, SpecError where several would stand at one place.
    """
    if not rows:
        raise StoreError("nothing to draw: no run has such a score; see --judge and --variant")
    _refuse_several(rows, layout)
    panels = _values(rows, layout.panel)
    names = _values(rows, layout.x)
    labels = _values(rows, layout.series)
    metrics = ", ".join(_values(rows, "metric"))
    plots = []
    for panel in panels:
        own = [row for row in rows if _value(row, layout.panel) == panel]
        series = [
            _series(
                [row for row in own if _value(row, layout.series) == label], layout, names, part
            )
            for part, label in (
                (_Part(at, len(labels), name), name) for at, name in enumerate(labels)
            )
        ]
        plots.append(
            Plot(
                panel,
                layout.x,
                metrics.replace("_", " "),
                tuple(part for part in series if part.y),
                y_range=_range(rows, layout.x),
                x_names=tuple(names),
                line=_chance(own),
            )
        )
    return Chart(title, tuple(plots), (_recipe(rows, layout),))


@dataclass(frozen=True, slots=True)
class _Part:
    """Which of several series side by side."""

    at: int
    of: int
    label: str


def _series(rows: Rows, layout: Layout, names: Sequence[str], part: _Part) -> Series:
    ordered = sorted(rows, key=lambda row: names.index(_value(row, layout.x)))
    places = [names.index(_value(row, layout.x)) + 1 for row in ordered]
    scores = [row.score for row in ordered]
    is_line = layout.x == "variant"
    # Side by side within their place, so that no interval hides another.
    width = 0.8 / part.of
    start = -0.4 + width * part.at
    shift = (part.at - (part.of - 1) / 2) * 0.12 if is_line else start
    return Series(
        part.label or rows[0].model if rows else part.label,
        "line" if is_line else "bars",
        [place + shift for place in places],
        [_drawn(score.value) for score in scores],
        low=[_drawn(score.low) for score in scores],
        high=[_drawn(score.high) for score in scores],
        to=[] if is_line else [place + start + width for place in places],
        n=[score.n for score in scores],
    )


def _drawn(value: float | None) -> float:
    return nan if value is None else value


def _value(row: BoardRow, name: str) -> str:
    return PROPERTIES[name](row) if name else ""


def _values(rows: Rows, name: str) -> list[str]:
    return list(dict.fromkeys(_value(row, name) for row in rows))


def _range(rows: Rows, x: str = "") -> tuple[float, float] | None:
    """From 0 to 1 for shares, with room for marks at the ends; bars begin at 0."""
    ends = [v for row in rows for v in (row.score.value, row.score.low, row.score.high)]
    known = [end for end in ends if end is not None]
    start = -0.03 if x in ("", "variant") else 0.0
    return (start, 1.03) if known and min(known) >= 0 and max(known) <= 1 else None


def _chance(rows: Rows) -> tuple[float, str] | None:
    levels = {row.chance for row in rows}
    level = levels.pop() if len(levels) == 1 else None
    return None if level is None else (level, "chance")


def _refuse_several(rows: Rows, layout: Layout) -> None:
    """SpecError where two scores have one place, which names in what they differ."""
    used = (layout.x, layout.panel, layout.series)
    seen: dict[tuple[str, ...], BoardRow] = {}
    for row in rows:
        other = seen.setdefault(tuple(_value(row, name) for name in used), row)
        if other is row:
            continue
        differs = [name for name, read in PROPERTIES.items() if read(row) != read(other)]
        name = differs[0] if differs else "recipe"
        known = ", ".join(_values(rows, name)[:6]) if differs else "see `harness leaderboard`"
        options = {"judge", "variant", "task", "metric"}
        choose = f"give --{name}" if name in options else "name the runs to draw"
        raise SpecError(
            f"several scores at one place: the runs differ in {name} ({known}); {choose}, or "
            f"put {name} on --x, --panel or --series"
        )


def _recipe(rows: Rows, layout: Layout) -> str:
    """What all scores share and the axes do not say."""
    shared = [
        f"{name} {', '.join(found)}"
        for name in ("task", "variant", "judge", "data", "seed")
        if name not in (layout.x, layout.panel, layout.series)
        and len(found := _values(rows, name)) <= 2
    ]
    return "; ".join([*shared, "95% intervals"])


def understanding(rows: Rows, choice: ScoreFilter) -> Chart:
    """Intent resolution, figure 2: what models pick out and what they reply, by phenomenon."""
    spoken = ScoreFilter(choice.judges, choice.variants or ("base",), (RESOLUTION,)).of(
        rows, by_group=True
    )
    picked = ScoreFilter((), (), (DETECTION,)).of(rows, by_group=True)
    averaged = {row.score.variant for row in picked if not row.score.variant.startswith("order")}
    picked = [row for row in picked if not averaged or row.score.variant in averaged]
    both = [*spoken, *picked]
    if not spoken or not picked:
        raise StoreError(
            f"nothing to draw: give runs of {RESOLUTION} and of {DETECTION}, by the same models"
        )
    shared = {row.model for row in spoken} & {row.model for row in picked}
    kept = [row for row in both if row.model in shared] or both
    title = "Picking the intention and replying to it, by phenomenon"
    return comparison(kept, Layout("group", "model", "task"), title)


def levels(rows: Rows, choice: ScoreFilter) -> Chart:
    """Intent resolution, figure 3: accuracy by what the prompt reveals, a line a model."""
    chosen = ScoreFilter(choice.judges, choice.variants, (RESOLUTION,), choice.metric)
    kept = sorted(chosen.of(rows, by_group=False), key=lambda row: row.score.variant)
    panel = "judge" if len(_values(kept, "judge")) > 1 else ""
    return comparison(kept, Layout("variant", panel, "model"), "Accuracy by level of the prompt")


def intentions(folders: Iterable[RunFolder], rows: Rows, choice: ScoreFilter) -> Chart:
    """Intent resolution, figure 4: the intention spelled out and the reply, over models and levels.

    A panel for each pair of a judge of intentions and a judge of replies.
    """
    judges: dict[str, JudgeEntry] = {}
    for folder in folders:
        judges |= {entry.name: entry for entry in folder.read().judges}
    kept = ScoreFilter((), choice.variants, choice.tasks).of(rows, by_group=False)
    wanted = [name for name in judges if not choice.judges or name in choice.judges]
    steps = [name for name in judges if judges[name].step]
    replies = [name for name in wanted if not judges[name].step and ":" not in name]
    plots = [_related(kept, of, to) for of in steps for to in replies]
    if not (found := tuple(plot for plot in plots if plot.series)):
        raise StoreError(
            "nothing to draw: no run has a judge of the intentions that a model wrote and one of "
            "its replies; have it read: harness judge RUN --judge minilm-inferred-intention"
        )
    title = "Intention spelled out and reply, over models and levels"
    return Chart(title, found, ("each point is a model at a level; r is Pearson's, over points",))


def _related(rows: Rows, of: str, to: str) -> Plot:
    by: dict[str, dict[tuple[str, str], BoardRow]] = {of: {}, to: {}}
    for row in (row for row in rows if row.score.judge in by):
        by[row.score.judge][row.model, row.score.variant] = row
    shared = [key for key in by[of] if key in by[to]]
    series = []
    for model in dict.fromkeys(model for model, _ in shared):
        own = [key for key in shared if key[0] == model]
        x, y = ([_drawn(by[side][key].score.value) for key in own] for side in (of, to))
        n = [min(by[of][key].score.n, by[to][key].score.n) for key in own]
        series.append(Series(model, "points", x, y, n=n, names=[variant for _, variant in own]))
    x, y = ([_drawn(by[side][key].score.value) for key in shared] for side in (of, to))
    r = pearson(x, y)
    said = f"r = {r.value:.2f}" if r.value is not None else f"r: {r.reason}"
    note = f"{said}, {r.n} points"
    label = f"intention right, by {of}", f"reply right, by {to}"
    ends = (-0.03, 1.03)
    return Plot("", *label, tuple(series), ends, ends, note=note, is_square=True, has_diagonal=True)


def forest(rows: Rows, choice: ScoreFilter) -> Chart:
    """A leaderboard with its intervals: a panel a board, its models from best to worst."""
    boards: dict[str, list[BoardRow]] = {}
    for row in choice.of(rows, by_group=False):
        boards.setdefault(row.recipe, []).append(row)
    if not boards:
        raise StoreError("nothing to draw: no run has such a score; see --judge and --variant")
    plots = list[Plot]()
    titles, shared = _titles([board[0] for board in boards.values()])
    for title, board in zip(titles, boards.values(), strict=True):
        ordered = sorted(board, key=lambda row: (row.score.value is None, -(row.score.value or 0)))
        scores = [row.score for row in ordered]
        first = scores[0]
        series = Series(
            "score",
            "forest",
            [_drawn(score.value) for score in scores],
            [float(at) for at in range(1, len(scores) + 1)],
            low=[_drawn(score.low) for score in scores],
            high=[_drawn(score.high) for score in scores],
            n=[score.n for score in scores],
        )
        plots.append(
            Plot(
                title,
                first.metric.replace("_", " "),
                "",
                (series,),
                x_range=_range(board),
                y_names=tuple(f"{row.model} (n={row.score.n})" for row in ordered),
                line=_chance(board),
            )
        )
    return Chart("Leaderboard with 95% intervals", tuple(plots), (shared,) if shared else ())


def _titles(boards: Rows) -> tuple[list[str], str]:
    """A title for each board, given by one of its scores: what differs; and what all share."""
    named = {
        name: [PROPERTIES[name](row) for row in boards] for name in ("task", "variant", "judge")
    }
    own = [name for name, values in named.items() if len(set(values)) > 1] or list(named)
    titles = [", ".join(parts) for parts in zip(*(named[name] for name in own), strict=True)]
    shared = "; ".join(f"{name} {named[name][0]}" for name in named if name not in own)
    found = []
    for row, title in zip(boards, titles, strict=True):
        alike = [other for other, name in zip(boards, titles, strict=True) if name == title]
        labels = short_labels({_without_model(other): "" for other in alike})
        more = labels[_without_model(row)].removeprefix(", ")
        found.append(f"{title} ({more})" if len(alike) > 1 else title)
    return found, shared


def _without_model(row: BoardRow) -> str:
    return str(replace(row.parsed, model="", kind="", version=""))
