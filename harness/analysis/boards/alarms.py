"""Scores to alarms: runs that a constant answer would equal, and judges that are not fit.

A judge is fit that gives right answers, those of the control `oracle`, better verdicts than literal
ones, those of the control `literal`. Each row has its words. Nothing here computes a score.
"""

from collections.abc import Iterable, Sequence
from math import comb, nan, sqrt

import numpy as np

from harness.analysis.boards.scores import headlines
from harness.lazy import DataFrame, pandas
from harness.parts import Reason
from harness.pipeline.choice_scores import AUC, FALSE_ALARMS, FAVOURITE, HITS, PRECISION, RECALL
from harness.pipeline.score import ALL
from harness.stats.clustered import clustered_mean
from harness.storage.frames import Row as Row

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
_OF_RUN = ("signature", "task", "model", "variant")


def alarms(scores: DataFrame) -> DataFrame:
    """The runs whose answers do not depend on what is asked, or are as good as a constant answer.

    `signature`, `task`, `model`, `variant` and `data` of the run, `finding`: "place", or a kind of
    CONSTANT, and the `words` that follow the run's name.
    """
    return pandas.concat([place_alarms(scores), constant_alarms(scores)], ignore_index=True)


def constant_runs(scores: DataFrame) -> frozenset[str]:
    """The signatures of runs that give every text one label, or nearly every one of enough texts.

    They are no merit of a model, whatever their score is: where all texts are of one kind, a
    constant answer is perfect. Precision is known of the labels that were given alone.
    """
    found = constant_alarms(scores)
    constant = set(found.loc[found["finding"].isin(("always", "never", "one label")), "signature"])
    for name, own in _overall(scores, (HITS, FALSE_ALARMS, _PRECISION)).groupby("signature"):
        is_rate = own["metric"].isin((HITS, FALSE_ALARMS))
        is_one = set(own.loc[is_rate, "value"]) in ({0.0}, {1.0})
        if is_one or (not is_rate.any() and own["value"].notna().sum() == 1):
            constant.add(name)
    return frozenset(constant)


def _overall(scores: DataFrame, begins: tuple[str, ...]) -> DataFrame:
    """The overall scores of the metrics that begin so."""
    some = [name for name in scores["metric"].cat.categories if name.startswith(begins)]
    chosen = scores[(scores["group"] == ALL) & scores["metric"].isin(some)]
    return chosen[["signature", "metric", "value", "n", "clusters"]].astype(
        {"signature": "object", "metric": "object"}
    )


def _frame(found: Iterable[tuple[Row, str, str]]) -> DataFrame:
    columns = [*_OF_RUN, "data", "finding", "words"]
    return pandas.DataFrame(
        [
            (*(getattr(head, name) for name in _OF_RUN), f"data:{head.data},{head.limit}", *said)
            for head, *said in found
        ],
        columns=columns,
    )


def place_alarms(scores: DataFrame) -> DataFrame:
    """The runs that nearly always choose one place, or that score all choices the same.

    Of the variants of a run that are of one family - with the same part before the colon - the
    one with most responses represents it: all orders together, where they were asked. Where there
    are rates of hits and false alarms, they show more than places do.
    """
    known = _overall(scores, (FAVOURITE, ALIKE, HITS, FALSE_ALARMS, _RECALL))
    is_place = known["metric"].isin((FAVOURITE, ALIKE))
    shares = known[is_place].pivot(index="signature", columns="metric", values="value")
    shares = shares.reindex(columns=[FAVOURITE, ALIKE]).set_axis(["share", "same"], axis=1)
    heads = headlines(scores).sort_values("n", kind="stable").join(shares, on="signature")
    fields = heads["signature"].astype(object).str.split("|")
    families = [
        (own[0].partition(":")[0], own[1], *own[3:6], name.rpartition(":")[0])
        for own, name in zip(fields, heads["variant"], strict=True)
    ]
    heads["family"] = pandas.Series(families, index=heads.index, dtype=object)
    heads = heads.drop_duplicates("family", keep="last")
    # Of those that have rates or classes, places mean nothing.
    has_rates = heads["signature"].isin(set(known.loc[~is_place, "signature"]))
    is_stuck = ~has_rates & (heads["share"] >= ALARMING)
    is_alike = heads["same"] >= ALARMING_TIES
    found = []
    for row in heads[(is_stuck | is_alike) & (heads["clusters"] >= FEWEST_CLUSTERS)].itertuples():
        facts = []
        if is_stuck[row.Index] and _is_rare(row.share, row.clusters):
            facts.append(f"{row.share:.0%} of its choices are at one position")
        if is_alike[row.Index]:
            facts.append(f"all choices score the same in {row.same:.0%} of its responses")
        words = "its accuracy depends on where the right choices are placed, not on understanding"
        found += [(row, "place", f"{' and '.join(facts)}; {words}")] if facts else []
    return _frame(found)


def _is_rare(share: float, clusters: int) -> bool:
    """Whether the right choices of two places rarely have so large a share at one."""
    tail = sum(comb(clusters, count) for count in range(round(share * clusters), clusters + 1))
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
    known = _overall(scores, (HITS, FALSE_ALARMS, AUC, _RECALL))
    by_run = {name: own.set_index("metric") for name, own in known.groupby("signature")}
    heads = headlines(scores)
    found = []
    for head in heads[heads["signature"].isin(set(by_run))].itertuples():
        if head.kind == "scripted" and head.model.startswith(_ON_PURPOSE):
            continue
        own = by_run[head.signature]
        rates = [metric for metric in (HITS, FALSE_ALARMS) if metric in own.index]
        kinds = own.loc[rates or own.index.str.startswith(_RECALL)]
        kinds = kinds.assign(known=kinds["value"].fillna(0.0))
        if finding := _constant_finding(kinds, head.clusters, is_of_classes=not rates):
            found.append((head, finding, _constant_words(head, finding, kinds, own)))
    return _frame(found)


def _constant_words(head: Row, finding: str, kinds: DataFrame, own: DataFrame) -> str:
    most, total = kinds["n"].idxmax(), kinds["n"].sum()
    constant = kinds["n"].max() / total if total else 0.0
    is_label = most.startswith(_RECALL)
    rates = own["value"].reindex([HITS, FALSE_ALARMS, AUC])
    named = zip(("TPR", "FPR", "AUC"), map(three, rates), strict=True)
    shown = "" if is_label else ", ".join(" ".join(pair) for pair in named) + "; "
    answer = f"constant answer {most.removeprefix(_RECALL)}" if is_label else "constant answer"
    return f"{CONSTANT[finding]} ({shown}accuracy {three(head.value)}, {answer} {three(constant)})"


def _constant_finding(kinds: DataFrame, clusters: int, *, is_of_classes: bool) -> str | None:
    """The constant answer that one run looks like; None for none, or for too few answers.

    `kinds` has its rates, each of the texts of one kind.
    """
    counts = sorted(kinds["clusters"].where(kinds["n"] > 0, 0), reverse=True)
    first, second = [*counts, 0, 0][:2]
    if first < FEWEST or 0 < second < FEWEST:
        return None
    if second == 0:
        return "one kind"
    shares = sorted(kinds.loc[kinds["clusters"] >= FEWEST, "known"])
    if is_of_classes and shares[-1] >= NEARLY_ALL and shares[-2] <= 1 - NEARLY_ALL:
        return "one label"
    if not is_of_classes and shares[0] >= NEARLY_ALL:
        return "always"
    if not is_of_classes and shares[-1] <= 1 - NEARLY_ALL:
        return "never"
    return "beaten" if _is_beaten(kinds, clusters) else None


def _is_beaten(kinds: DataFrame, clusters: int) -> bool:
    """Whether accuracy is surely below that of naming the most common kind.

    On one text the difference of both is 1 where a rarer kind is named rightly, and -1 where the
    most common one is not. Its mean is normal, with no more independent texts than clusters.
    """
    right = kinds["known"].where(kinds.index != FALSE_ALARMS, 1 - kinds["known"])
    most, total = kinds["n"].idxmax(), kinds["n"].sum()
    gained = (kinds["n"] * right).drop(most).sum()
    lost = kinds["n"][most] * (1 - right[most])
    mean = (gained - lost) / total
    error = sqrt(max(0.0, (gained + lost) / total - mean**2) / clusters)
    return bool(mean + 1.96 * error < 0)


def sensitivities(scores: DataFrame) -> DataFrame:
    """Each judge that has read a run both as it is and with its samples swapped.

    `task`, `variant`, `model`, `recipe`, `judge`, its `value`, the value where each answer is
    paired with another sample (`swapped`), and the `difference`: how much the judge heeds what was
    swapped.
    """
    heads = headlines(scores).astype({"judge": "object", "signature": "object"})
    values = heads.set_index("signature")["value"]
    heads = heads[~heads["judge"].str.endswith(":swapped")]
    names = [
        "|".join([*own[:5], own[5].replace(judge, f"{judge}:swapped", 1), *own[6:]])
        for own, judge in zip(heads["signature"].str.split("|"), heads["judge"], strict=True)
    ]
    heads = heads.assign(swapped=values.reindex(names).to_numpy())
    found = heads[pandas.Index(names).isin(values.index)]
    found = found[["task", "variant", "model", "recipe", "judge", "value", "swapped"]]
    return found.assign(difference=found["value"] - found["swapped"])


def judge_fitness(boards: DataFrame, verdicts: DataFrame) -> DataFrame:
    """What the controls oracle and literal show of each judge that has read both.

    `recipe`, `task`, `variant`, `judge`; `finding`: fit, unfit, weak, cannot tell, few or unread;
    the scores `ceiling` and `floor`; `low` and `high`, the 95 % interval of their gap, NaN without
    one; `is_paired`: whether that is of verdicts on the same items; `words`, which follow the
    judge's name.
    """
    controls = boards[~boards["judge"].astype(str).str.endswith(":swapped")]
    sides = [
        controls[controls["model"] == model].drop_duplicates("recipe", keep="last")
        for model in (CEILING, FLOOR)
    ]
    recipes = [one for one in sides[0]["recipe"] if one in set(sides[1]["recipe"])]
    first, second = (
        [*side.set_index("recipe", drop=False).loc[recipes].itertuples()] for side in sides
    )
    paired = _paired_gaps(first, second, verdicts)
    found = []
    for ceiling, floor in zip(first, second, strict=True):
        is_paired = ceiling.recipe in paired
        ends = paired[ceiling.recipe] if is_paired else _unpaired(ceiling, floor)
        finding = _finding(ceiling, floor, *ends)
        words = _fitness_words(finding, ceiling, floor, (*ends, is_paired))
        facts = (ceiling.recipe, ceiling.task, ceiling.variant, ceiling.judge, finding)
        found.append((*facts, ceiling.score, floor.score, *ends, is_paired, words))
    names = ("recipe", "task", "variant", "judge", "finding")
    more = ("ceiling", "floor", "low", "high", "is_paired", "words")
    return pandas.DataFrame(found, columns=[*names, *more])


def _paired_gaps(
    ceilings: Sequence[Row], floors: Sequence[Row], verdicts: DataFrame
) -> dict[str, tuple[float, float]]:
    """The intervals of gaps on the same items, by recipe, of those that have one."""
    key, known = ["sample", "variant", "decoding"], verdicts[verdicts["value"].notna()]
    of = [
        known.assign(recipe=known["signature"].astype(object).map(names)).dropna(subset="recipe")
        for rows in (ceilings, floors)
        for names in [{row.signature: row.recipe for row in rows}]
    ]
    both = of[0].merge(of[1][["recipe", *key, "value"]], on=["recipe", *key])
    both = both.sort_values(["recipe", *key])
    gaps = (both["value_x"] - both["value_y"]).to_numpy()
    clusters, found = both["cluster"].astype("category").cat.codes.to_numpy(), {}
    for recipe, places in both.groupby("recipe").indices.items():
        own = np.unique(clusters[places], return_inverse=True)[1]
        gap = clustered_mean(gaps[places], own)
        if gap.low is not None and gap.high is not None:
            found[str(recipe)] = gap.low, gap.high
    return found


def _unpaired(ceiling: Row, floor: Row) -> tuple[float, float]:
    """The interval from those of two scores (Newcombe 1998, Statistics in Medicine 17:873)."""
    (low, high), (least, most) = _bounds(ceiling), _bounds(floor)
    if np.isnan([low, high, least, most, ceiling.score, floor.score]).any():
        return nan, nan
    gap = ceiling.score - floor.score
    down = sqrt((ceiling.score - low) ** 2 + (most - floor.score) ** 2)
    up = sqrt((high - ceiling.score) ** 2 + (floor.score - least) ** 2)
    return gap - down, gap + up


def _bounds(row: Row) -> tuple[float, float]:
    """The interval of a score; a constant over several clusters is its own interval."""
    if np.isnan(row.score_low) and row.clusters > 1:
        return row.score, row.score
    return row.score_low, row.score_high


def _finding(ceiling: Row, floor: Row, low: float, high: float) -> str:
    chance = ceiling.chance
    if np.isnan(ceiling.score) or np.isnan(floor.score):
        return "unread"
    if min(ceiling.clusters, floor.clusters) < FEWEST_CLUSTERS:
        return "few"
    if np.isnan(low) or np.isnan(high):
        return "cannot tell"
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
    low, high, is_paired = gap
    both = f"oracle ({three(ceiling.score)}) from literal ({three(floor.score)})"
    span = "-" if np.isnan([low, high]).all() else f"{three(low)} to {three(high)}"
    words = f"gap {span}{'' if is_paired else ', unpaired'}"
    samples, least = min(ceiling.clusters, floor.clusters), FEWEST_CLUSTERS
    lost = [f"{row.model} {missing_words(row)}" for row in (ceiling, floor) if not row.n]
    return {
        "unread": f"has given no verdict that could be read: {'; '.join(lost)}",
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
