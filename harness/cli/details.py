"""What a run's scores say beyond their headlines: by group, and by a judge's further metrics."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from harness.cli.screen import number, put, put_table

if TYPE_CHECKING:
    from harness.scores import ScoreRow


def put_details(rows: "Sequence[ScoreRow]") -> None:
    """Print the headline metric by group, where there are groups, and every other metric."""
    from harness.leaderboard import headlines

    heads = headlines(rows)
    for judge in dict.fromkeys(row.score.judge for row in heads):
        members = [row for row in heads if row.score.judge == judge]
        _put_groups(members, rows)
        _put_metrics(members, rows)


def _put_groups(heads: "Sequence[ScoreRow]", rows: "Sequence[ScoreRow]") -> None:
    """Variants by groups of one judge's headline metric."""
    found = {
        head.signature: {
            row.score.group: number(row.score.value)
            for row in _beside(head, rows)
            if row.score.metric == head.score.metric and row.score.group != head.score.group
        }
        for head in heads
    }
    groups = sorted({group for members in found.values() for group in members})
    if groups:
        first = heads[0].score
        put_table(
            f"{first.judge}, {first.metric} by group, {first.decoding}",
            ("variant", *groups),
            [
                (head.score.variant, *(found[head.signature].get(g, "-") for g in groups))
                for head in heads
            ],
        )


def _put_metrics(heads: "Sequence[ScoreRow]", rows: "Sequence[ScoreRow]") -> None:
    """A line a further metric of one judge: its overall value under each variant."""
    found: dict[str, list[str]] = {}
    for head in heads:
        for row in _beside(head, rows):
            score = row.score
            if score.group == head.score.group and score.metric != head.score.metric:
                said = f"{score.variant} {number(score.value)}"
                found.setdefault(score.metric, []).append(said)
    for metric, values in found.items():
        put(f"{heads[0].score.judge}, {metric}: {', '.join(values)}")


def _beside(head: "ScoreRow", rows: "Sequence[ScoreRow]") -> "Iterable[ScoreRow]":
    """The rows of one recipe, which differ in group and metric alone."""
    return (row for row in rows if row.signature == head.signature)
