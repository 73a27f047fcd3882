"""Scores to alarms: runs that a constant answer would equal, and judges that are not fit.

A judge is fit that gives right answers, those of the control `oracle`, better verdicts than literal
ones, those of the control `literal`. Each row has its words. Nothing here computes a score.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import comb, nan, sqrt
from typing import Any

import numpy as np

from harness.analysis.boards.scores import headlines
from harness.judges.custom import JudgeLabel
from harness.lazy import DataFrame, pandas
from harness.parts import Reason
from harness.pipeline.choice_scores import AUC, FALSE_ALARMS, FAVOURITE, HITS, PRECISION, RECALL
from harness.pipeline.score import ALL
from harness.stats.clustered import clustered_mean
from harness.storage.frames import Row as Row
from harness.storage.signature import Signature

FEWEST_CLUSTERS = 10
"""With fewer independent items an interval says little, and there is no alarm of a run or judge."""
# The share of one place among the choices, and of responses without a preference, that is an
# alarm. Of two places the right choices are at one so often, by chance, with less than RARELY.
ALARMING, ALARMING_TIES, RARELY = 0.9, 0.05, 0.01
# Originals of each of two kinds from which on rates are enough for an alarm, and the share of a
# kind that is nearly all of it.
FEWEST, NEARLY_ALL = 10, 0.95
CEILING, FLOOR = "oracle", "literal"
MARGIN = 0.5
"""How far apart the controls are by a fit judge: half of the scale of right and wrong."""
ALIKE = "identical_scores"
CONSTANT = {
    "always": "nearly every text is flagged, whatever its kind",
    "never": "nearly no text is flagged, whatever its kind",
    "one label": "nearly every text gets one label",
    "one kind": "all texts are of one kind, and a constant answer is always right",
    "beaten": "its accuracy is no better than that of the best constant answer",
}
"""The kinds of constant answer that a run may look like, in words."""
_ON_PURPOSE = "constant-"
"""How the names of the controls begin that always answer alike: there it is no news."""
_RECALL, _PRECISION = RECALL.format(""), PRECISION.format("")
_COLUMNS = ("signature", "task", "model", "variant", "data", "finding", "words")
_Own = Mapping[str, Row]


def by_signature(scores: DataFrame, begins: tuple[str, ...]) -> dict[str, dict[str, Row]]:
    """The overall scores of each signature by metric, of metrics that begin so."""
    names = scores["metric"].cat.categories
    some = [name for name in names if name.startswith(begins)]
    chosen = scores[(scores["group"] == ALL) & scores["metric"].isin(some)]
    found: dict[str, dict[str, Row]] = {}
    for row in chosen.itertuples():
        found.setdefault(row.signature, {})[row.metric] = row
    return found


def constant_runs(scores: DataFrame) -> frozenset[str]:
    """The signatures of runs that give every text one label, or nearly every one of enough texts.

    They are no merit of a model, whatever their score is: where all texts are of one kind, a
    constant answer is perfect. Precision is known of the labels that were given alone.
    """
    alarms = constant_alarms(scores)
    found = set(alarms.loc[alarms["finding"].isin(("always", "never", "one label")), "signature"])
    for name, own in by_signature(scores, (HITS, FALSE_ALARMS, _PRECISION)).items():
        rates = {own[metric].value for metric in (HITS, FALSE_ALARMS) if metric in own}
        labels = [row for metric, row in own.items() if metric.startswith(_PRECISION)]
        used = [row for row in labels if not np.isnan(row.value)]
        if rates in ({0.0}, {1.0}) or (labels and not rates and len(used) == 1):
            found.add(name)
    return frozenset(found)


def alarms(scores: DataFrame) -> DataFrame:
    """The runs whose answers do not depend on what is asked, or are as good as a constant answer.

    `signature`, `task`, `model`, `variant` and `data` of the run, `finding`: "place", or a kind of
    CONSTANT, and the `words` that follow the run's name.
    """
    return pandas.concat([place_alarms(scores), constant_alarms(scores)], ignore_index=True)


def _frame(rows: Iterable[tuple[Row, str, str]]) -> DataFrame:
    lines = [
        (row.signature, row.task, row.model, row.variant, f"data:{row.data},{row.limit}", *said)
        for row, *said in rows
    ]
    return pandas.DataFrame(lines, columns=[*_COLUMNS])


def place_alarms(scores: DataFrame) -> DataFrame:
    """The runs that nearly always choose one place, or that score all choices the same.

    Of the variants of a run that are of one family - with the same part before the colon - the
    one with most responses represents it: all orders together, where they were asked. Where there
    are rates of hits and false alarms, they show more than places do.
    """
    known = by_signature(scores, (FAVOURITE, ALIKE, HITS, FALSE_ALARMS, _RECALL))
    widest: dict[tuple[str, ...], Any] = {}
    for row in headlines(scores).sort_values("n", kind="stable").itertuples():
        fields = row.signature.split("|")
        family = (*fields[1:2], *fields[3:6], row.variant.rpartition(":")[0])
        widest[row.task, *family] = row
    found = []
    for row in widest.values():
        own = known.get(row.signature, {})
        # Of those that have rates or classes, places mean nothing.
        has_rates = any(name.startswith((HITS, FALSE_ALARMS, _RECALL)) for name in own)
        share, same = (own[name].value if name in own else nan for name in (FAVOURITE, ALIKE))
        is_stuck = not has_rates and _is_stuck(share, row.clusters)
        is_alike = row.clusters >= FEWEST_CLUSTERS and same >= ALARMING_TIES
        facts = [f"{share:.0%} of its choices are at one position"] * is_stuck
        facts += [f"all choices score the same in {same:.0%} of its responses"] * is_alike
        if facts:
            words = "its accuracy depends on where the right choices are placed"
            found.append((row, "place", f"{' and '.join(facts)}; {words}, not on understanding"))
    return _frame(found)


def _is_stuck(share: float, clusters: int) -> bool:
    """Whether one place has so large a share as the right choices of two places rarely have."""
    if not share >= ALARMING or clusters < FEWEST_CLUSTERS:
        return False
    least = round(share * clusters)
    tail = sum(comb(clusters, count) for count in range(least, clusters + 1))
    return bool(2 * tail / 2**clusters < RARELY)


def constant_alarms(scores: DataFrame) -> DataFrame:
    """The headlines that show no more than a constant answer would: at most one alarm each.

    Rates of hits and of false alarms, or the recall of each class, expose a constant answer
    whatever the shares of the kinds are; accuracy alone does not. Always or never: nearly all
    texts of both kinds are flagged, or nearly none. One label: nearly all texts of one class are
    found, and nearly none of others. One kind: there are no texts of others, and one constant
    answer is always right. Beaten: the run's accuracy less that of the better constant answer is
    surely below zero: the upper end of its interval is.
    """
    by_run = by_signature(scores, (HITS, FALSE_ALARMS, AUC, _RECALL))
    heads = headlines(scores)
    found = []
    for head in heads[heads["signature"].isin(set(by_run))].itertuples():
        if head.kind == "scripted" and head.model.startswith(_ON_PURPOSE):
            continue
        own = by_run[head.signature]
        rates = [own[metric] for metric in (HITS, FALSE_ALARMS) if metric in own]
        kinds = rates or [row for metric, row in own.items() if metric.startswith(_RECALL)]
        if finding := _constant_finding(kinds, head.clusters, is_of_classes=not rates):
            found.append((head, finding, _constant_words(head, finding, kinds, own)))
    return _frame(found)


def _constant_words(head: Row, finding: str, kinds: Sequence[Row], own: _Own) -> str:
    counts, most = [row.n for row in kinds], max(kinds, key=lambda row: row.n)
    constant = max(counts) / sum(counts) if sum(counts) else 0.0
    label = most.metric.removeprefix(_RECALL) if most.metric.startswith(_RECALL) else ""
    rates = (own[m].value if m in own else None for m in (HITS, FALSE_ALARMS, AUC))
    named = zip(("TPR", "FPR", "AUC"), map(three, rates), strict=True)
    shown = "" if label else ", ".join(" ".join(pair) for pair in named) + "; "
    answer = f"constant answer {label}".strip()
    return f"{CONSTANT[finding]} ({shown}accuracy {three(head.value)}, {answer} {three(constant)})"


def _constant_finding(kinds: Sequence[Row], clusters: int, *, is_of_classes: bool) -> str | None:
    """The constant answer that one run looks like; None for none, or for too few answers.

    `kinds` are its rates, each of the texts of one kind.
    """
    counts = sorted((row.clusters if row.n else 0 for row in kinds), reverse=True)
    first, second = [*counts, 0, 0][:2]
    if first < FEWEST or 0 < second < FEWEST:
        return None
    if second == 0:
        return "one kind"
    shares = sorted(_known(row.value) for row in kinds if row.clusters >= FEWEST)
    if is_of_classes and shares[-1] >= NEARLY_ALL and shares[-2] <= 1 - NEARLY_ALL:
        return "one label"
    if not is_of_classes and shares[0] >= NEARLY_ALL:
        return "always"
    if not is_of_classes and shares[-1] <= 1 - NEARLY_ALL:
        return "never"
    return "beaten" if _is_beaten(kinds, clusters) else None


def _known(value: float) -> float:
    return 0.0 if np.isnan(value) else value


def _is_beaten(kinds: Sequence[Row], clusters: int) -> bool:
    """Whether accuracy is surely below that of naming the most common kind.

    On one text the difference of both is 1 where a rarer kind is named rightly, and -1 where the
    most common one is not. Its mean is normal, with no more independent texts than clusters.
    """
    right = [1 - _known(r.value) if r.metric == FALSE_ALARMS else _known(r.value) for r in kinds]
    most = max(range(len(kinds)), key=lambda at: kinds[at].n)
    total = sum(row.n for row in kinds)
    gained = sum(kinds[at].n * right[at] for at in range(len(kinds)) if at != most)
    lost = kinds[most].n * (1 - right[most])
    mean = (gained - lost) / total
    error = sqrt(max(0.0, (gained + lost) / total - mean**2) / clusters)
    return bool(mean + 1.96 * error < 0)


def sensitivities(scores: DataFrame) -> DataFrame:
    """Each judge that has read a run both as it is and with its samples swapped.

    `task`, `variant`, `model`, `recipe`, `judge`, its `value`, the value where each answer is
    paired with another sample (`swapped`), and the `difference`: how much the judge heeds what was
    swapped.
    """
    heads = headlines(scores)
    by_name = {row.signature: row for row in heads.itertuples()}
    is_swapped = {name: JudgeLabel.parse(name).is_swapped for name in heads["judge"].unique()}
    found = []
    for row in by_name.values() if any(is_swapped.values()) else ():
        if is_swapped[row.judge]:
            continue
        made = Signature.parse(row.signature)
        swapped = str(replace(JudgeLabel.parse(row.judge), is_swapped=True))
        recipe = swapped + made.judge.removeprefix(row.judge)
        if (other := by_name.get(str(replace(made, judge=recipe)))) is not None:
            found.append(
                (row.task, row.variant, row.model, row.recipe, row.judge, row.value, other.value)
            )
    names = ("task", "variant", "model", "recipe", "judge", "value", "swapped")
    frame = pandas.DataFrame(found, columns=[*names])
    return frame.assign(difference=frame["value"].astype(float) - frame["swapped"].astype(float))


def judge_fitness(boards: DataFrame, verdicts: DataFrame) -> DataFrame:
    """What the controls oracle and literal show of each judge that has read both.

    `recipe`, `task`, `variant`, `judge`; `finding`: fit, unfit, weak, cannot tell, few or unread;
    the scores `ceiling` and `floor`; `low` and `high`, the 95 % interval of their gap, NaN without
    one; `is_paired`: whether that is of verdicts on the same items; `words`, which follow the
    judge's name.
    """
    found = []
    controls = boards[boards["model"].isin((CEILING, FLOOR))]
    for recipe, own in controls.groupby("recipe", observed=True, sort=False):
        named = {row.model: row for row in own.itertuples()}
        ceiling, floor = named.get(CEILING), named.get(FLOOR)
        if ceiling is None or floor is None or JudgeLabel.parse(ceiling.judge).is_swapped:
            continue
        gap, is_paired = _gap(ceiling, floor, verdicts)
        finding = _finding(ceiling, floor, gap)
        words = _fitness_words(finding, ceiling, floor, (*gap, is_paired))
        facts = (recipe, ceiling.task, ceiling.variant, ceiling.judge, finding)
        found.append((*facts, ceiling.score, floor.score, *gap, is_paired, words))
    names = ("recipe", "task", "variant", "judge", "finding")
    more = ("ceiling", "floor", "low", "high", "is_paired", "words")
    return pandas.DataFrame(found, columns=[*names, *more])


_Ends = tuple[float, float]
_NO_ENDS = (nan, nan)


def _gap(ceiling: Row, floor: Row, verdicts: DataFrame) -> tuple[_Ends, bool]:
    """The interval of the gap: paired where it can be, else of two independent scores."""
    known = verdicts[verdicts["value"].notna()]
    sides = [known[known["signature"] == row.signature] for row in (ceiling, floor)]
    if all((verdicts["signature"] == row.signature).any() for row in (ceiling, floor)):
        key = ["sample", "variant", "decoding"]
        both = sides[0].merge(sides[1][[*key, "value"]], on=key).sort_values(key)
        clusters = np.unique(both["cluster"].cat.codes, return_inverse=True)[1]
        found = clustered_mean((both["value_x"] - both["value_y"]).to_numpy(), clusters)
        if found.low is not None and found.high is not None:
            return (found.low, found.high), True
    return _unpaired(ceiling, floor), False


def _unpaired(ceiling: Row, floor: Row) -> _Ends:
    """The interval from those of two scores (Newcombe 1998, Statistics in Medicine 17:873)."""
    (low, high), (least, most) = _bounds(ceiling), _bounds(floor)
    if np.isnan([low, high, least, most, ceiling.score, floor.score]).any():
        return _NO_ENDS
    gap = ceiling.score - floor.score
    down = sqrt((ceiling.score - low) ** 2 + (most - floor.score) ** 2)
    up = sqrt((high - ceiling.score) ** 2 + (floor.score - least) ** 2)
    return gap - down, gap + up


def _bounds(row: Row) -> _Ends:
    """The interval of a score; a constant over several clusters is its own interval."""
    if np.isnan(row.score_low) and row.clusters > 1:
        return row.score, row.score
    return row.score_low, row.score_high


def _finding(ceiling: Row, floor: Row, gap: _Ends) -> str:
    low, high = gap
    if np.isnan(ceiling.score) or np.isnan(floor.score):
        return "unread"
    if min(ceiling.clusters, floor.clusters) < FEWEST_CLUSTERS:
        return "few"
    if np.isnan(low) or np.isnan(high):
        return "cannot tell"
    chance = ceiling.chance
    if np.isnan(chance):
        unfit = "unfit" if high <= 0 else "cannot tell"
        return "fit" if low > 0 else unfit
    ends = [_bounds(one) for one in (ceiling, floor)]
    sides = [int(own[0] > chance) - int(own[1] < chance) for own in ends]
    is_sure_wrong = sides[0] < 0 or sides[1] > 0
    if high < MARGIN or is_sure_wrong:
        return "weak" if low > 0 and not is_sure_wrong else "unfit"
    return "fit" if low >= MARGIN and sides[0] > 0 > sides[1] else "cannot tell"


def _fitness_words(finding: str, ceiling: Row, floor: Row, gap: tuple[float, float, bool]) -> str:
    both = f"oracle ({three(ceiling.score)}) from literal ({three(floor.score)})"
    low, high, is_paired = gap
    span = "-" if np.isnan([low, high]).all() else f"{three(low)} to {three(high)}"
    words = f"gap {span}{'' if is_paired else ', unpaired'}"
    if finding == "unread":
        lost = [f"{row.model} {missing_words(row)}" for row in (ceiling, floor) if not row.n]
        return f"has given no verdict that could be read: {'; '.join(lost)}"
    samples, least = min(ceiling.clusters, floor.clusters), FEWEST_CLUSTERS
    return {
        "few": f"has read too few samples to know whether it is fit ({samples} of {least})",
        "cannot tell": f"may be fit or unfit here, these items cannot tell: {both}, {words}",
        "unfit": f"is unfit here: it does not distinguish {both}, {words}",
        "weak": f"is weak here: it distinguishes {both} by less than half of its scale, {words}",
        "fit": f"is fit here: it distinguishes {both}, {words}",
    }[finding]


def three(value: float | None) -> str:
    """A number in three decimals, a dash for none."""
    return "-" if value is None or np.isnan(value) else f"{value:.3f}"


def missing_words(row: Row) -> str:
    """How many verdicts are missing for each reason."""
    counts = ((getattr(row, f"missing_{reason}"), reason) for reason in Reason)
    return ", ".join(f"{count} {reason}" for count, reason in counts if count) or "none"
