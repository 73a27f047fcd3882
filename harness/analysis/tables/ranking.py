"""Scores of one column of a table to ranks and groups, by the paired tests of the boards."""

from collections.abc import Callable, Mapping, Sequence

from harness.analysis.boards.ranked import CONTROL, ranked, unranked
from harness.analysis.boards.scores import HEADLINES, board_scores
from harness.analysis.boards.verdicts import PARTS, board_verdicts
from harness.lazy import DataFrame
from harness.pipeline.choice_scores import F1, MACRO
from harness.pipeline.score import ALL
from harness.storage.runs import RunFolder, ScoreRow

Standing = tuple[int, bool, int | None]
"""A rank; whether a paired test finds a worse model and no better one; the verdicts compared."""
Ranks = Callable[[Sequence[ScoreRow]], Mapping[str, Standing]]
"""The scores of one column to their standings, by signature; those without a rank are not there."""


def ranks_of(tables: Mapping[RunFolder, Sequence[ScoreRow] | None]) -> Ranks:
    """Rank scores by the verdicts of their runs, which are read once, when they are needed.

    `tables` are all scores of these runs. Nothing is ranked by other metrics than means of verdicts
    and F1, nor where there is one model alone, or scores are of several recipes.
    """
    scores = board_scores(tables)
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
    bare = verdicts.drop(columns=names).assign(parts=len(made))
    return bare.assign(**{f"{PARTS}{at}": part for at, part in enumerate(made)})
