"""Runs to one frame of scores, each score once, and the headlines among them.

Nothing here computes a score or ranks.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from harness.analysis.headlines import HEADLINES as HEADLINES
from harness.errors import HarnessError, StoreError
from harness.lazy import DataFrame, pandas
from harness.parts import Reason
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS, MACRO
from harness.pipeline.score import ALL, all_scores, rows_of
from harness.storage.cells import csv_text
from harness.storage.frames import plain_rows
from harness.storage.runs import COLUMNS, SCORES, RunFolder, ScoreRow, cells_of
from harness.storage.signature import Signature

_log = logging.getLogger(__name__)
BOARD_COLUMNS = (
    *COLUMNS,
    *("run", "data", "limit", "seed", "prompts", "version", "judge_version"),
    *("rank", "rank_group", "rank_items"),
)
"""The columns of leaderboard.csv."""
DIGITS = 6
"""The digits of a number in leaderboard.csv; the scores.csv of a run has all, and is read again."""
_FACTS = (
    *("data", "limit", "seed", "prompts", "version", "judge_version"),
    *("kind", "tested", "recipe", "alike"),
)
_PLACE = ("task", "judge", "variant", "decoding", "model", "group", "metric")


def whole_scores(folder: RunFolder, *, is_every: bool = False) -> list[ScoreRow] | None:
    """The headline scores of a run, or every one.

    They are computed from its verdicts if scores.csv has changed. None, after a warning, if the
    verdicts have changed as well.
    """
    changed = [folder.path / name for name in folder.changed() if name != SCORES]
    try:
        rows = all_scores(folder) if is_every else folder.read_scores()
    except StoreError as error:
        fact = str(error).partition(";")[0]
        try:
            rows = rows_of(folder.read(), folder.tables(), is_every=is_every)
        except HarnessError as other:
            _log.warning("%s; %s: the run is left out", fact, other)
            return None
        _log.warning("%s; its scores are computed from its verdicts", fact)
    else:
        for path in changed:
            words = "changed since it was written; its stored scores are shown; repeat the run"
            _log.warning("%s: %s", path, words)
    return rows


def board_scores(tables: Mapping[RunFolder, Sequence[ScoreRow] | None]) -> DataFrame:
    """The scores of some runs as one frame, each score once, in a fixed order.

    The columns of scores.csv, then `run`, and what the signature says: `data`, `limit`, `seed`,
    `prompts`, `version`, `judge_version`, `kind`, `tested` (the model with its version), `recipe`
    (all but the model: rows of one recipe share a board), `alike` (what headlines share), and
    `missing`, the sum over reasons.
    """
    return scores_frame(
        (row, folder.path.name) for folder, own in tables.items() for row in own or ()
    )


def scores_frame(named: Iterable[tuple[ScoreRow, str]]) -> DataFrame:
    """The frame of `board_scores`, of scores with the names of their runs."""
    rows = [[*cells_of(row), run] for row, run in named]
    frame = pandas.DataFrame(rows, columns=[*COLUMNS, "run"])
    names = [name for name in frame if name in _PLACE or name in ("signature", "run")]
    frame = frame.astype(dict.fromkeys(names, "category"))
    numbers = ("value", "low", "high", "chance", "cost_usd")
    frame = frame.astype(dict.fromkeys(numbers, "float64"))
    key = ["signature", "group", "metric"]
    frame["first"] = frame.groupby(key, observed=True, sort=False).ngroup()
    frame = frame.sort_values("n", ascending=False, kind="stable").drop_duplicates("first")
    frame = frame.sort_values("first").drop(columns="first")
    overall = frame["group"].astype(str).where(frame["group"] != ALL, "")
    ordered = frame.assign(group=overall.astype("category")).sort_values([*_PLACE], kind="stable")
    frame = frame.loc[ordered.index].reset_index(drop=True)
    frame["missing"] = frame[[f"missing_{reason}" for reason in Reason]].sum(axis=1)
    return with_facts(frame)


def with_facts(frame: DataFrame) -> DataFrame:
    """A frame of scores with the columns that its signatures say."""
    signatures = frame["signature"].astype("category").cat
    facts = pandas.DataFrame(map(_facts, signatures.categories), columns=[*_FACTS])
    facts = facts.astype("category").take(signatures.codes).set_axis(frame.index)
    return pandas.concat([frame, facts], axis=1)


def _facts(signature: str) -> tuple[str, ...]:
    made = Signature.parse(signature)
    alike = signature.split("|")
    # All of a recipe but the temperatures of the decoding.
    drawn = f",n{made.repeats},s{made.seed}"
    return (
        *(made.data, made.limit, made.seed, made.prompts, f"{made.kind}@{made.version}"),
        *(made.judge.partition(":")[2], made.kind, made.fields["model"], made.without("model")),
        "|".join([*alike[:2], drawn, *alike[5:]]),
    )


def headlines(
    scores: DataFrame, metrics: Collection[str] = HEADLINES, group: str = ALL
) -> DataFrame:
    """The rows of `board_scores` over all decodings together: one a run, variant and judge."""
    chosen = scores[(scores["group"] == group) & scores["metric"].isin(metrics)]
    key = ["task", "tested", "variant", "judge", "alike"]
    chosen = chosen.assign(
        first=chosen.groupby(key, observed=True, sort=False).ngroup(),
        pooled=-chosen["decoding"].astype(str).str.count(r"\+"),
    )
    chosen = chosen.sort_values(["first", "pooled"], kind="stable").drop_duplicates("first")
    return chosen.drop(columns=["first", "pooled"])


def ranked_metrics(scores: DataFrame) -> DataFrame:
    """The scores of the metrics that boards rank by, by variant, decoding and group."""
    return scores[scores["metric"].isin({*HEADLINES, MACRO, HITS, FALSE_ALARMS})]


def board_text(scores: DataFrame) -> str:
    """The leaderboard as CSV, for people: floats to 6 digits, what is missing is empty."""
    return csv_text(
        BOARD_COLUMNS,
        (
            [float(f"{c:.{DIGITS}g}") if isinstance(c, float) else c for c in row.values()]
            for row in records(scores)
        ),
    )


def records(scores: DataFrame) -> list[dict[str, object]]:
    """The rows of a leaderboard, with None for what is missing."""
    return plain_rows(scores[[name for name in BOARD_COLUMNS if name in scores.columns]])
