"""Rows of scores to the headlines of a run: one a variant and judge, over all decodings."""

from collections.abc import Iterable
from dataclasses import replace

from harness.pipeline.score import ALL, RIGHT_OR_WRONG
from harness.storage.runs import ScoreRow

HEADLINES = frozenset({RIGHT_OR_WRONG, "mean_rating", "mean_f1"})
"""The metrics that a judge's verdicts may have."""


def headlines(rows: Iterable[ScoreRow]) -> list[ScoreRow]:
    """The overall row of each run, variant and judge over all decodings together."""
    chosen: dict[tuple[str, ...], ScoreRow] = {}
    for row in rows:
        score = row.score
        if score.group != ALL or score.metric not in HEADLINES:
            continue
        # All of a recipe but the temperatures of the decoding.
        rest = replace(row.parsed, decoding="").without("variant", "model")
        key = (row.task, row.parsed.fields["model"], score.variant, score.judge, rest)
        other = chosen.get(key)
        if other is None or score.decoding.count("+") > other.score.decoding.count("+"):
            chosen[key] = row
    return list(chosen.values())
