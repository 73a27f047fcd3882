"""Scores of runs to facts: one number each, with the names that rows and columns are made of.

Nothing here knows where in a table a fact will stand.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from harness.analysis.boards.ranked import CONTROL, ranked, unranked
from harness.analysis.boards.scores import HEADLINES, board_scores
from harness.analysis.boards.verdicts import PARTS, board_verdicts
from harness.errors import SpecError, StoreError, did_you_mean
from harness.judges.custom import JudgeLabel
from harness.lazy import DataFrame
from harness.pipeline.choice_scores import F1, MACRO
from harness.pipeline.score import ALL
from harness.specs.layouts import RunsLayout, TableLayout
from harness.storage.runs import RunFolder, ScoreRow, table_text

VISIBLE: Final = ("task", "judge", "metric", "variant", "level", "decoding", "group", "model")
"""What scores of runs differ in, and tables may be made of."""
TOTAL: Final = "total"
"""What all values of a name together are called."""
RECIPE: Final[Mapping[str, tuple[str, ...]]] = {
    "data": ("task",),
    "limit": (),
    "prompts": ("task", "variant", "level"),
    "repeats": (),
    "seed": (),
    "judge version": ("task", "judge"),
    "program": (),
}
"""The rest of a recipe, each part with the names that it may differ with in one table."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A number with its names; without a value it has a `reason`.

    `missing` counts, by reason, what the value is without. `sd` is that of numbers
    that were averaged. `n` is None where nothing is counted. `row`
    is the score that it is, if it is one. Facts of a later `block` stand below a rule.
    """

    dims: Mapping[str, str]
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    missing: Mapping[str, int] | None = None
    sd: float | None = None
    reason: str = ""
    row: ScoreRow | None = None
    block: int = 0

    @property
    def is_control(self) -> bool:
        """Whether it is a control's score."""
        return self.row is not None and self.row.parsed.kind == CONTROL


def run_facts(tables: Iterable[Sequence[ScoreRow] | None]) -> list[Fact]:
    """A fact for each score of some runs, in a fixed order; of equal recipes that of most items."""
    best: dict[tuple[str, ...], ScoreRow] = {}
    for row in (row for rows in tables for row in rows or ()):
        key = (row.signature, row.score.group, row.score.metric)
        if key not in best or row.score.n > best[key].score.n:
            best[key] = row
    return [_fact(row) for row in sorted(best.values(), key=_place)]


def _place(row: ScoreRow) -> tuple[str, ...]:
    score = row.score
    overall = "" if score.group == ALL else score.group
    way = (row.task, score.judge, score.variant, score.decoding)
    return (*way, row.model, overall, score.metric)


def _fact(row: ScoreRow) -> Fact:
    score, made = row.score, row.parsed
    dims = {
        **dict(zip(VISIBLE[:4], (row.task, score.judge, score.metric, score.variant), strict=True)),
        "level": level_of(score.variant),
        "decoding": score.decoding,
        "group": score.group,
        "model": row.model,
        "data": made.data,
        "limit": "all samples" if made.limit == "all" else f"{made.limit} samples",
        "prompts": made.prompts,
        "repeats": made.repeats,
        "seed": made.seed,
        "judge version": f"{made.judge.partition(':')[2]}, {made.way}",
        "program": made.harness,
        "signature": row.signature,
    }
    missing = {str(reason): count for reason, count in score.missing.items() if count}
    reason = "" if score.value is not None else _why(missing)
    ends = (score.low, score.high, score.n)
    block = int(made.kind == CONTROL)
    return Fact(dims, score.value, *ends, missing, reason=reason, row=row, block=block)


def level_of(variant: str) -> str:
    """The number at the end of a variant's name; the name where there is none."""
    found = re.search(r"\d+$", variant)
    return found[0] if found else variant


def _why(missing: Mapping[str, int]) -> str:
    counts = ", ".join(f"{count} {reason}" for reason, count in missing.items())
    return f"all missing: {counts}" if counts else "nothing to count"


def chosen(facts: Sequence[Fact], layout: TableLayout) -> list[Fact]:
    """The facts that a layout asks for; errors name what no fact has."""
    known = {name for fact in facts for name in fact.dims}
    for name in (*layout.axes, *layout.where):
        if facts and name not in known:
            raise SpecError(f"no number has a {name!r}{did_you_mean(name, sorted(known))}")
    for name, patterns in layout.where.items():
        facts = _matching(facts, name, patterns)
    if isinstance(layout, RunsLayout):
        facts = _main(facts, {*layout.axes, *layout.where})
        facts = [fact for fact in facts if layout.controls or not fact.is_control]
    if not facts:
        raise StoreError(
            "no number is left for the table; see `where` of the layout, or name other runs"
        )
    return list(facts)


def _matching(facts: Sequence[Fact], name: str, patterns: Sequence[str]) -> Sequence[Fact]:
    values = sorted({fact.dims[name] for fact in facts if name in fact.dims})
    kept = {v for v in values if v == TOTAL or matches(v, patterns)}
    if values and not kept:
        raise SpecError(
            f"no number has {name} {', '.join(patterns)}{did_you_mean(patterns[0], values)}"
        )
    return [fact for fact in facts if fact.dims.get(name) in kept]


def matches(value: str, patterns: Sequence[str]) -> bool:
    """Whether a value fits one of some patterns such as `cot*`; upper and lower case differ."""
    return any(fnmatchcase(value, pattern) for pattern in patterns)


def _main(facts: Sequence[Fact], named: set[str]) -> Sequence[Fact]:
    """The overall facts of main metrics, over all decodings, where a layout does not name these."""
    if "group" not in named:
        facts = [fact for fact in facts if fact.dims.get("group", ALL) == ALL]
    if "metric" not in named:
        # A group of a class task may have no main metric; then nothing is left out.
        main = [fact for fact in facts if fact.dims.get("metric") in HEADLINES]
        facts = main or facts
    if "judge" not in named:
        facts = [f for f in facts if not JudgeLabel.parse(f.dims.get("judge", "")).is_swapped]
    return facts if "decoding" in named else _widest(facts)


def _widest(facts: Iterable[Fact]) -> list[Fact]:
    found: dict[tuple[str, ...], Fact] = {}
    apart = [name for name in (*VISIBLE, *RECIPE) if name != "decoding"]
    for fact in facts:
        key = tuple(fact.dims.get(name, "") for name in apart)
        other = found.get(key)
        if other is None or fact.dims["decoding"].count("+") > other.dims["decoding"].count("+"):
            found[key] = fact
    return list(found.values())


Standing = tuple[int, bool, int | None]
"""A rank; whether a paired test finds a worse model and no better one; the verdicts compared."""
Ranks = Callable[[Sequence[ScoreRow]], Mapping[str, Standing]]
"""The scores of one column to their standings, by signature; those without a rank are not there."""


def ranks_of(tables: Mapping[RunFolder, Sequence[ScoreRow] | None]) -> Ranks:
    """Rank scores by the verdicts of their runs, which are read once, when they are needed.

    `tables` are all scores of these runs. Nothing is ranked by other metrics than means of verdicts
    and F1, nor where there is one model alone, or scores are of several recipes.
    """
    texts = {f.path.name: None if own is None else table_text(own) for f, own in tables.items()}
    scores = board_scores(texts)
    read: dict[str, DataFrame] = {}

    def ranks(rows: Sequence[ScoreRow]) -> Mapping[str, Standing]:
        able = [row for row in rows if row.parsed.kind != CONTROL and row.score.value is not None]
        if len(able) < 2 or len({row.score.metric for row in able}) > 1:
            return {}
        score, values = able[0].score, {row.signature: row.score.value for row in able}
        if (parts := _parts(scores, able[0])) is None:
            return {}
        heads = scores[(scores["group"] == ALL) & scores["metric"].isin(HEADLINES)]
        heads = heads[heads["decoding"] == score.decoding]
        own = heads[heads["signature"].isin([*values])].drop_duplicates("signature")
        if len(own) < len(values) or own["recipe"].nunique() > 1:
            return {}
        if score.decoding not in read:
            read[score.decoding] = board_verdicts([*tables], heads)
        verdicts = read[score.decoding]
        kept = verdicts["signature"].isin([*values]) & verdicts["value"].notna()
        if score.group != ALL:
            kept &= verdicts["group"] == score.group
        own = unranked(own.assign(value=own["signature"].astype(object).map(values)), ())
        ranked_by = "mean" if score.metric in HEADLINES else MACRO
        found = ranked(own.assign(ranked_by=ranked_by), _with_parts(verdicts[kept], parts))
        found = found[found["rank"].notna()]
        last = found["rank_group"].max()
        return {
            row.signature: (
                int(row.rank),
                bool(row.rank_group == 1 < last),
                None if row.rank_items != row.rank_items else int(row.rank_items),
            )
            for row in found.itertuples()
        }

    return ranks


def _parts(scores: DataFrame, row: ScoreRow) -> list[int] | None:
    """The parts of each verdict that a score is made of: none for its value; None for no ranks."""
    metric, prefix = row.score.metric, F1.format("")
    if metric in HEADLINES:
        return []
    names = scores.loc[scores["signature"] == row.signature, "metric"].unique()
    labels = sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))
    if metric == MACRO:
        return [*range(2 * len(labels))]
    if not metric.startswith(prefix):
        return None
    place = labels.index(metric.removeprefix(prefix))
    # A mean F1 over one class is that class's F1.
    return [place, place + len(labels)]


def _with_parts(verdicts: DataFrame, parts: Sequence[int]) -> DataFrame:
    """Verdicts with some of their parts; what a board of classes adds up is no mean of values."""
    names = [name for name in verdicts if name.startswith(PARTS)]
    made = [verdicts[f"{PARTS}{at}"] for at in parts] or [verdicts["value"], 1.0]
    bare = verdicts.drop(columns=names)
    return bare.assign(**{f"{PARTS}{at}": part for at, part in enumerate(made)})
