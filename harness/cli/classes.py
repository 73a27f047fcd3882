"""What a run's scores say of each class: how well it was found, and what was missed of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.cli.output import number, put_table, span

if TYPE_CHECKING:
    from harness.core import Score
    from harness.storage.score_table import ScoreRow

RATES = ("precision_", "recall_", "f1_")
MISSED, MACRO = "missed_", "macro_f1"


def is_of_class(metric: str) -> bool:
    """Whether a metric stands in the tables here."""
    return metric == MACRO or metric.startswith((*RATES, MISSED))


def put_classes(head: "ScoreRow", rows: "Sequence[ScoreRow]") -> None:
    """Print precision, recall and F1 of each class of one run, and what it missed, by property."""
    scores = [row.score for row in rows]
    overall = {one.metric: one for one in scores if one.group == head.score.group}
    labels = [metric.removeprefix(RATES[0]) for metric in overall if metric.startswith(RATES[0])]
    if not labels:
        return
    lines = [(label, *_cells([overall[rate + label] for rate in RATES])) for label in labels]
    macro = overall[MACRO]
    lines.append(("mean", *("",) * 4, number(macro.value), span(macro.low, macro.high), ""))
    names = [part for name in ("precision", "recall", "F1") for part in (name, "95% interval")]
    title = f"{head.score.judge}, {head.score.variant}, by class (- where nothing to divide by)"
    put_table(title, ("class", *names, "n"), lines)
    _put_missed(head, scores)


def _cells(rates: "Sequence[Score]") -> list[str]:
    """Each rate and its interval, and how many texts of the class were answered."""
    cells = [cell for one in rates for cell in (number(one.value), span(one.low, one.high))]
    return [*cells, str(rates[1].n)]


def _put_missed(head: "ScoreRow", scores: "Sequence[Score]") -> None:
    """Print how many texts of a class were missed, by what they were told by."""
    missed = [one for one in scores if one.metric.startswith(MISSED)]
    if not missed:
        return
    lines = [
        (
            one.metric.removeprefix(MISSED),
            one.group,
            "-" if one.value is None else f"{one.value:g}",
            str(one.n),
        )
        for one in sorted(missed, key=lambda s: (s.group != head.score.group, -(s.value or 0)))
    ]
    title = f"{head.score.judge}, {head.score.variant}, missed"
    put_table(title, ("class", "of", "missed", "answered"), lines)
