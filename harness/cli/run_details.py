"""What a run's scores say beyond their headlines: by group, and by a judge's further metrics."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from harness.cli.output import echo, echo_table, log, number, p_value, span

if TYPE_CHECKING:
    from harness.core import Score
    from harness.storage.score_table import ScoreRow

if TYPE_CHECKING:
    from harness.core import Score
    from harness.storage.score_table import ScoreRow


CHOSEN, LABELLED = "chosen_", "prob_label_"


def put_details(rows: "Sequence[ScoreRow]") -> None:
    """Print the headline metric by group, where there are groups, and every other metric."""
    from harness.analysis.leaderboard import headlines

    heads = headlines(rows)
    for judge in dict.fromkeys(row.score.judge for row in heads):
        members = [row for row in heads if row.score.judge == judge]
        _put_groups(members, rows)
        _put_metrics(members, rows)
        for head in members:
            _put_bins(head, rows)
            put_classes(head, list(_beside(head, rows)))
        for head in _widest(members, rows):
            _put_labels(head, rows)


def say_alarms(rows: "Sequence[ScoreRow]") -> None:
    """Tell of runs whose choices do not depend on what is asked."""
    from harness.analysis.leaderboard import alarms

    named = _runs_told(rows)
    for alarm in alarms(rows):
        row, facts = alarm.row, []
        if alarm.favourite is not None:
            facts.append(f"{alarm.favourite:.0%} of its choices stand at one place of the options")
        if alarm.alike is not None:
            facts.append(f"all choices score the same in {alarm.alike:.0%} of its responses")
        log(
            f"alarm: {named[row.signature]}: {' and '.join(facts)}; "
            "its accuracy says where the right choices stand, not what it understands"
        )
    _say_constants(rows)


def _runs_told(rows: "Sequence[ScoreRow]") -> dict[str, str]:
    """What each signature's run is called: by its data too, where such runs are of several."""
    runs: dict[str, tuple[str, str]] = {}
    for row in rows:
        data = row.parsed.fields["data"]
        runs[row.signature] = (f"{row.model} on {row.task}, {row.score.variant}", data)
    shared = Counter(name for name, _ in set(runs.values()))
    return {
        signature: f"{name}, {data}" if shared[name] > 1 else name
        for signature, (name, data) in runs.items()
    }


def _say_constants(rows: "Sequence[ScoreRow]") -> None:
    """Tell of runs that a constant answer would equal, or that give one."""
    from harness.analysis.constant_baselines import ConstantBaseline, constant_alarms
    from harness.analysis.leaderboard import headlines

    facts = {
        ConstantBaseline.ALWAYS: "nearly every text is flagged, of either kind",
        ConstantBaseline.NEVER: "nearly no text is flagged, of either kind",
        ConstantBaseline.ONE_LABEL: "nearly every text is given one label",
        ConstantBaseline.ONE_KIND: "all texts are of one kind, and one constant answer is always "
        "right",
        ConstantBaseline.BEATEN: "its accuracy is no better than that of the best constant answer",
    }
    runs = _runs_told(rows)
    for alarm in constant_alarms(rows, headlines(rows)):
        row, rates = alarm.row, (alarm.hits, alarm.false_alarms, alarm.auc)
        named = zip(("TPR", "FPR", "AUC"), map(number, rates), strict=True)
        told = "" if alarm.label else ", ".join(" ".join(pair) for pair in named) + "; "
        constant = f"constant answer {alarm.label}" if alarm.label else "constant answer"
        log(
            f"alarm: {runs[row.signature]}: {facts[alarm.finding]} "
            f"({told}accuracy {number(row.score.value)}, {constant} {number(alarm.constant)})"
        )


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
        echo_table(
            f"{first.judge}, {first.metric} by group, {first.decoding}",
            ("variant", *groups),
            [
                (head.score.variant, *(found[head.signature].get(g, "-") for g in groups))
                for head in heads
            ],
        )


def _put_bins(head: "ScoreRow", rows: "Sequence[ScoreRow]") -> None:
    """Hits and false alarms in each bin of implicitness that is told of."""
    from harness.pipeline.detection_scores import AUC, EFFECTIVE, FALSE_ALARMS, HITS, IMPLICITNESS

    found: dict[str, dict[str, Score]] = {}
    for row in _beside(head, rows):
        if row.score.group.startswith(f"{IMPLICITNESS} "):
            found.setdefault(row.score.group, {})[row.score.metric] = row.score
    if not found:
        return
    lines = []
    for group, scores in found.items():
        cells = [group]
        for metric in (HITS, FALSE_ALARMS):
            score, size = scores.get(metric), scores.get(EFFECTIVE.format(metric))
            cells += ["too few" if size else "-"] if score is None else [number(score.value)]
            cells += [span(score.low, score.high) if score else "-"]
            cells += [str(size.n) if size else "0"]
            cells += ["-" if size is None or size.value is None else f"{size.value:.0f}"]
        area = scores.get(AUC)
        lines.append((*cells, number(area.value if area else None)))
    rates = [part for name in ("TPR", "FPR") for part in (name, "95% interval", "n", "effective n")]
    title = f"{head.score.judge}, {head.score.variant}, by implicitness"
    echo_table(title, ("bin", *rates, "AUC"), lines)


def _put_metrics(heads: "Sequence[ScoreRow]", rows: "Sequence[ScoreRow]") -> None:
    """A line a further metric of one judge: overall, under each variant, with its interval."""
    found: dict[str, list[str]] = {}
    for head in heads:
        for row in _beside(head, rows):
            score = row.score
            is_own = score.group == head.score.group and score.metric != head.score.metric
            is_shown = score.metric.startswith((CHOSEN, LABELLED)) or is_of_class(score.metric)
            if is_own and not is_shown:
                told = p_value if score.metric.endswith("_p") else number
                said = f"{score.variant} {told(score.value)}"
                said += f" ({span(score.low, score.high)})" if score.low is not None else ""
                found.setdefault(score.metric, []).append(said)
    for metric, values in found.items():
        echo(f"{heads[0].score.judge}, {metric}: {', '.join(values)}")


def _widest(heads: "Sequence[ScoreRow]", rows: "Sequence[ScoreRow]") -> "list[ScoreRow]":
    """The pools of variants, or the last variant where none was asked whole."""
    from harness.pipeline.choice_scores import PERMUTED

    pools = {row.signature for row in rows if row.score.metric == PERMUTED}
    return [head for head in heads if head.signature in pools] or list(heads[-1:])


def _put_labels(head: "ScoreRow", rows: "Sequence[ScoreRow]") -> None:
    """How often each place and kind of choice was chosen, and how probable it was."""
    overall = [row.score for row in _beside(head, rows) if row.score.group == head.score.group]
    chosen = {s.metric.removeprefix(CHOSEN): s for s in overall if s.metric.startswith(CHOSEN)}
    sure = {s.metric.removeprefix("prob_"): s for s in overall if s.metric.startswith(LABELLED)}
    if chosen:
        echo_table(
            f"{head.score.judge}, what was chosen, {head.score.variant}",
            ("choice", "chosen", "probability", "n"),
            [
                (
                    name.removeprefix("label_").replace("place_", "shown at "),
                    number(score.value),
                    number(sure[name].value if name in sure else None),
                    str(score.n),
                )
                for name, score in chosen.items()
            ],
        )


def _beside(head: "ScoreRow", rows: "Sequence[ScoreRow]") -> "Iterable[ScoreRow]":
    """The rows of one recipe, which differ in group and metric alone."""
    return (row for row in rows if row.signature == head.signature)


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
    echo_table(title, ("class", *names, "n"), lines)
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
    echo_table(title, ("class", "of", "missed", "answered"), lines)
