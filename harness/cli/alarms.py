"""Warnings of scores that mean less than they seem to: constant answers, and unfit judges."""

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.analysis.fitness import ControlFinding, JudgeFitness
from harness.analysis.leaderboard import (
    FEWEST_CLUSTERS,
    ConstantBaseline,
    constant_alarms,
    headlines,
    place_alarms,
)
from harness.cli.output import cell, folded, log
from harness.core import Score
from harness.storage.runs import ScoreRow

CONSTANTS = {
    ConstantBaseline.ALWAYS: "nearly every text is flagged, whatever its kind",
    ConstantBaseline.NEVER: "nearly no text is flagged, whatever its kind",
    ConstantBaseline.ONE_LABEL: "nearly every text gets one label",
    ConstantBaseline.ONE_KIND: "all texts are of one kind, and a constant answer is always right",
    ConstantBaseline.BEATEN: "its accuracy is no better than that of the best constant answer",
}


def log_alarms(rows: Sequence[ScoreRow]) -> None:
    """Warn of runs whose answers do not depend on what is asked, or are as good as a constant."""
    names = _run_names(rows)
    for alarm in place_alarms(rows):
        facts = []
        if alarm.favourite is not None:
            facts.append(f"{alarm.favourite:.0%} of its choices are at one position")
        if alarm.alike is not None:
            facts.append(f"all choices score the same in {alarm.alike:.0%} of its responses")
        log(
            f"alarm: {names[alarm.row.signature]}: {' and '.join(facts)}; its accuracy depends "
            "on where the right choices are placed, not on understanding"
        )
    for constant in constant_alarms(rows, headlines(rows)):
        row, rates = constant.row, (constant.hits, constant.false_alarms, constant.auc)
        named = zip(("TPR", "FPR", "AUC"), map(cell, rates), strict=True)
        shown = "" if constant.label else ", ".join(" ".join(pair) for pair in named) + "; "
        answer = f"constant answer {constant.label or ''}".strip()
        log(
            f"alarm: {names[row.signature]}: {CONSTANTS[constant.finding]} "
            f"({shown}accuracy {cell(row.score.value)}, {answer} {cell(constant.constant)})"
        )


def _run_names(rows: Sequence[ScoreRow]) -> dict[str, str]:
    runs: dict[str, tuple[str, str]] = {}
    for row in rows:
        data = row.parsed.fields["data"]
        runs[row.signature] = (f"{row.model} on {row.task}, {row.score.variant}", data)
    shared = Counter(name for name, _ in set(runs.values()))
    return {
        signature: f"{name}, {data}" if shared[name] > 1 else name
        for signature, (name, data) in runs.items()
    }


def log_unfit(found: Iterable[JudgeFitness]) -> None:
    """Warn of judges that are not fit: the first variant with its numbers, the others by name."""
    alike: dict[tuple[str, str, ControlFinding], list[JudgeFitness]] = {}
    for one in (one for one in found if one.finding is not ControlFinding.FIT):
        key = (one.recipe.partition(":")[0], one.ceiling.judge, one.finding)
        alike.setdefault(key, []).append(one)
    for (task, judge, _), members in alike.items():
        first, *rest = [one.ceiling.variant for one in members]
        others = f"; likewise {folded(list(dict.fromkeys(rest)))}" if rest else ""
        log(f"judge {judge} {_finding(members[0])}: {task}, {first}{others}")


def _finding(found: JudgeFitness) -> str:
    ceiling, floor = found.ceiling, found.floor
    both = f"oracle ({cell(ceiling.value)}) from literal ({cell(floor.value)})"
    gap = f"gap {cell(found.gap)}{'' if found.is_paired else ', unpaired'}"
    match found.finding:
        case ControlFinding.UNHEARD:
            controls = (("oracle", ceiling), ("literal", floor))
            lost = "; ".join(f"{name} {_missing(one)}" for name, one in controls if not one.n)
            return f"has given no verdict that could be read: {lost}"
        case ControlFinding.FEW:
            samples = min(ceiling.clusters, floor.clusters)
            return (
                f"has read too few samples to know whether it is fit ({samples} of "
                f"{FEWEST_CLUSTERS})"
            )
        case ControlFinding.UNSURE:
            return f"may be fit or unfit here, these items cannot tell: {both}, {gap}"
        case ControlFinding.UNFIT:
            return f"is unfit here: it does not distinguish {both}, {gap}"
        case ControlFinding.WEAK:
            return f"is weak here: it distinguishes {both} by less than half of its scale, {gap}"
        case ControlFinding.FIT:
            return f"is fit here: it distinguishes {both}, {gap}"


def _missing(score: Score) -> str:
    return ", ".join(f"{n} {reason}" for reason, n in score.missing.items() if n) or "none"
