"""A run's scores beyond its headlines to tables: by group, bin and class, and further metrics."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from harness.cli.output import Cell, cell, echo, echo_table, log, p_value

if TYPE_CHECKING:
    from harness.core import Score
    from harness.storage.runs import ScoreRow

CHOSEN, LABELLED = "chosen_", "prob_label_"
RATES = ("precision_", "recall_", "f1_")
MISSED, MACRO = "missed_", "macro_f1"
RATE_HEAD = ("95% interval", "n", "effective n")


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
            _put_classes(head, list(_beside(head, rows)))
        for head in _widest(members, rows):
            _put_labels(head, rows)


def log_alarms(rows: "Sequence[ScoreRow]") -> None:
    """Warn of runs whose answers do not depend on what is asked."""
    from harness.analysis.leaderboard import place_alarms

    names = _run_names(rows)
    for alarm in place_alarms(rows):
        row, facts = alarm.row, []
        if alarm.favourite is not None:
            facts.append(f"{alarm.favourite:.0%} of its choices are at one position")
        if alarm.alike is not None:
            facts.append(f"all choices score the same in {alarm.alike:.0%} of its responses")
        log(
            f"alarm: {names[row.signature]}: {' and '.join(facts)}; its accuracy measures the "
            "position of the right choices, not understanding"
        )
    _log_constants(rows, names)


def _run_names(rows: "Sequence[ScoreRow]") -> dict[str, str]:
    """The name of each signature's run, with its data where two runs differ in it alone."""
    runs: dict[str, tuple[str, str]] = {}
    for row in rows:
        data = row.parsed.fields["data"]
        runs[row.signature] = (f"{row.model} on {row.task}, {row.score.variant}", data)
    shared = Counter(name for name, _ in set(runs.values()))
    return {
        signature: f"{name}, {data}" if shared[name] > 1 else name
        for signature, (name, data) in runs.items()
    }


def _log_constants(rows: "Sequence[ScoreRow]", names: dict[str, str]) -> None:
    """Warn of runs that a constant answer would equal, or that give one."""
    from harness.analysis.leaderboard import ConstantBaseline, constant_alarms, headlines

    facts = {
        ConstantBaseline.ALWAYS: "nearly every text is flagged, whatever its kind",
        ConstantBaseline.NEVER: "nearly no text is flagged, whatever its kind",
        ConstantBaseline.ONE_LABEL: "nearly every text gets one label",
        ConstantBaseline.ONE_KIND: "all texts are of one kind, and a constant answer is always "
        "right",
        ConstantBaseline.BEATEN: "its accuracy is no better than that of the best constant answer",
    }
    for alarm in constant_alarms(rows, headlines(rows)):
        row, rates = alarm.row, (alarm.hits, alarm.false_alarms, alarm.auc)
        named = zip(("TPR", "FPR", "AUC"), map(cell, rates), strict=True)
        shown = "" if alarm.label else ", ".join(" ".join(pair) for pair in named) + "; "
        constant = f"constant answer {alarm.label}" if alarm.label else "constant answer"
        log(
            f"alarm: {names[row.signature]}: {facts[alarm.finding]} "
            f"({shown}accuracy {cell(row.score.value)}, {constant} {cell(alarm.constant)})"
        )


def _put_groups(heads: "Sequence[ScoreRow]", rows: "Sequence[ScoreRow]") -> None:
    """Variants by groups of one judge's headline metric."""
    found = {
        head.signature: {
            row.score.group: row.score.value
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
                (head.score.variant, *(found[head.signature].get(g) for g in groups))
                for head in heads
            ],
        )


def _put_bins(head: "ScoreRow", rows: "Sequence[ScoreRow]") -> None:
    """Hits and false alarms in each bin of implicitness."""
    from harness.pipeline.choice_scores import AUC, EFFECTIVE, FALSE_ALARMS, HITS, IMPLICITNESS

    bins: dict[str, dict[str, Score]] = {}
    for row in _beside(head, rows):
        if row.score.group.startswith(f"{IMPLICITNESS} "):
            bins.setdefault(row.score.group, {})[row.score.metric] = row.score
    lines = []
    for group, scores in bins.items():
        cells: list[Cell] = [group]
        for metric in (HITS, FALSE_ALARMS):
            score, size = scores.get(metric), scores.get(EFFECTIVE.format(metric))
            few = "too few" if size else None
            cells += [few, None] if score is None else [score.value, (score.low, score.high)]
            effective = None if size is None or size.value is None else round(size.value)
            cells += [size.n if size else 0, effective]
        area = scores.get(AUC)
        lines.append((*cells, area.value if area else None))
    if lines:
        title = f"{head.score.judge}, {head.score.variant}, by implicitness"
        echo_table(title, ("bin", "TPR", *RATE_HEAD, "FPR", *RATE_HEAD, "AUC"), lines)


def _put_metrics(heads: "Sequence[ScoreRow]", rows: "Sequence[ScoreRow]") -> None:
    """A line for each further metric of one judge: its overall value under each variant."""
    found: dict[str, list[str]] = {}
    for head in heads:
        for row in _beside(head, rows):
            score = row.score
            is_own = score.group == head.score.group and score.metric != head.score.metric
            in_tables = score.metric.startswith((CHOSEN, LABELLED, MACRO, MISSED, *RATES))
            if is_own and not in_tables:
                value = p_value(score.value) if score.metric.endswith("_p") else cell(score.value)
                interval = f" ({cell((score.low, score.high))})" if score.low is not None else ""
                values = found.setdefault(score.metric, [])
                values.append(f"{score.variant} {value}{interval}")
    for metric, values in found.items():
        echo(f"{heads[0].score.judge}, {metric}: {', '.join(values)}")


def _widest(heads: "Sequence[ScoreRow]", rows: "Sequence[ScoreRow]") -> "list[ScoreRow]":
    """The rows of pools of variants; without a pool, that of the last variant."""
    from harness.pipeline.choice_scores import PERMUTED

    pools = {row.signature for row in rows if row.score.metric == PERMUTED}
    return [head for head in heads if head.signature in pools] or list(heads[-1:])


def _put_labels(head: "ScoreRow", rows: "Sequence[ScoreRow]") -> None:
    """How often each position and kind of choice was chosen, and how probable it was."""
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
                    *(score.value, sure[name].value if name in sure else None, score.n),
                )
                for name, score in chosen.items()
            ],
        )


def _beside(head: "ScoreRow", rows: "Sequence[ScoreRow]") -> "Iterable[ScoreRow]":
    """The rows of one recipe, which differ in group and metric alone."""
    return (row for row in rows if row.signature == head.signature)


def _put_classes(head: "ScoreRow", rows: "Sequence[ScoreRow]") -> None:
    """Print precision, recall and F1 of each class of one run, and the texts it missed."""
    scores = [row.score for row in rows]
    overall = {one.metric: one for one in scores if one.group == head.score.group}
    labels = [metric.removeprefix(RATES[0]) for metric in overall if metric.startswith(RATES[0])]
    if not labels:
        return
    lines: list[tuple[Cell, ...]] = []
    for label in labels:
        rates = [overall[rate + label] for rate in RATES]
        cells = [part for one in rates for part in (one.value, (one.low, one.high))]
        lines.append((label, *cells, rates[1].n))
    macro = overall[MACRO]
    lines.append(("mean", *("",) * 4, macro.value, (macro.low, macro.high), ""))
    names = [part for name in ("precision", "recall", "F1") for part in (name, "95% interval")]
    title = f"{head.score.judge}, {head.score.variant}, by class (-: division by zero)"
    echo_table(title, ("class", *names, "n"), lines)
    missed = [one for one in scores if one.metric.startswith(MISSED)]
    missed.sort(key=lambda s: (s.group != head.score.group, -(s.value or 0)))
    lines = [
        (s.metric.removeprefix(MISSED), s.group, None if s.value is None else f"{s.value:g}", s.n)
        for s in missed
    ]
    if lines:
        title = f"{head.score.judge}, {head.score.variant}, missed"
        echo_table(title, ("class", "of", "missed", "answered"), lines)
