"""Two runs of one task to a decision: passed, dropped by more than allowed, or not known."""

from collections.abc import Sequence
from enum import StrEnum
from math import isfinite
from typing import Any

from harness.analysis import pairings
from harness.analysis.compare import paired_difference, read_items
from harness.analysis.findings import items_words
from harness.analysis.pairings import ComparedRun, Pairing
from harness.errors import SpecError
from harness.lazy import DataFrame, pandas
from harness.pipeline.verdict_frame import averages
from harness.stats.clustered import detectable_difference
from harness.stats.estimate import Estimate, mean
from harness.storage.files import refused
from harness.storage.frames import Row, load
from harness.storage.runs import ANSWERS, RunFolder

LEVEL, POWER = 0.95, 0.8
SAME = "every answer is the same, word for word"
"""The reason of a pass that no interval decides."""


class Decision(StrEnum):
    """What a gate says."""

    PASS = "pass"  # noqa: S105 - no password
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


_NUMBERS = ("base", "new", "drop", "low", "high", "seen", "low_corrected", "high_corrected")


def gate(
    base: RunFolder,
    new: RunFolder,
    *,
    max_drop: float,
    max_missing: float,
    judge: str | None = None,
) -> DataFrame:
    """Whether the second of two runs of one task has dropped: a row for each variant and judge.

    docs/comparing.md has the rules. `drop` is of the means over the `n` items of both, `low` to
    `high` its 95 % interval, `low_corrected` to `high_corrected` that at the `level` that decides a
    regression, `seen` the true drop that would be one with a power of .8; `missing` and
    `missing_base` are shares. `attrs`: the whole `decision`, `notes`, and what is `absent`.
    """
    if not (isfinite(max_drop) and max_drop >= 0 and 0 <= max_missing <= 1):
        words = "give a drop of 0 or more, as .02 for two points, and a share from 0 to 1"
        raise SpecError(f"--max-drop {max_drop}, --max-missing {max_missing}: {words}")
    runs = [ComparedRun.read(folder) for folder in (base, new)]
    for folder, run in zip((base, new), runs, strict=True):
        if run.answers != run.file.planned:
            fact = f"{run.answers} of {run.file.planned} planned responses"
            raise refused(f"{folder.path / ANSWERS}: {fact}")
    found, notes, unmatched = pairings.of_one_task(runs[0], runs[1], judge)
    count = len(runs[0].said.index.union(runs[1].said.index))
    columns = ["sample", "variant", "decoding", "answer"]
    answers = [load([folder], "answers", columns)[columns] for folder in (base, new)]
    allowed, chosen = (max_drop, max_missing, unmatched / count), _chosen(found)
    rows = [_row(pairing, answers, allowed, tests=len(chosen)) for pairing in chosen]
    said = [row["decision"] for row in rows]
    if absent := pairings.unpaired(runs[0], found, judge):
        said.append(Decision.INCONCLUSIVE)
        lost = f"the new run does not have {', '.join(absent)} of the base run, so it cannot pass"
        notes = [*notes, lost]
    frame = pandas.DataFrame(rows).astype(dict.fromkeys(_NUMBERS, "float64"))
    worst = next((d for d in (Decision.REGRESSION, Decision.INCONCLUSIVE) if d in said), None)
    frame.attrs |= {"decision": worst or Decision.PASS, "notes": notes, "absent": absent}
    return frame


def _chosen(found: Sequence[Pairing]) -> list[Pairing]:
    """A pairing a variant and judge: all decodings together, and pools for their members."""
    last = {(one.first.judge.name, one.first.variant): one for one in found}
    pooled = {
        (judge, member)
        for (judge, variant), one in last.items()
        if one.first.is_pool
        for member in averages(one.first.file.task)[variant]
    }
    return [one for key, one in last.items() if key not in pooled]


def _row(
    pairing: Pairing,
    answers: Sequence[DataFrame],
    allowed: tuple[float, float, float],
    *,
    tests: int,
) -> dict[str, Any]:
    first, items, (max_drop, max_missing, unmatched) = pairing.first, pairing.items, allowed
    read, level = read_items(items), 1 - (1 - LEVEL) / tests
    lost = [float(items[side].isna().mean()) if len(items) else 0.0 for side in "ab"]
    base, new = mean(read["a"].tolist()), mean(read["b"].tolist())
    limits = pairing.limits()
    bounds, sure = (paired_difference(pairing, read, level=at) for at in (LEVEL, level))
    decision, reason = _decide(allowed, bounds, sure, lost=lost, tests=tests)
    is_whole = decision != Decision.REGRESSION and max(lost[0], unmatched) <= max_missing
    is_same = bool(len(items)) and read["a"].equals(read["b"].rename("a"))
    if is_whole and is_same and _is_same(pairing, answers):
        decision, reason = Decision.PASS, SAME
    seen = None
    if sure.low is not None and sure.high is not None:
        reach = (sure.high - sure.low) / 2
        found = detectable_difference(reach, sure.worth or sure.clusters, power=POWER, level=level)
        # No drop is larger than the whole scale.
        seen = None if limits and max_drop + found > limits[1] else max_drop + found
    ends = {"low": bounds.low, "high": bounds.high}
    ends |= {"low_corrected": sure.low, "high_corrected": sure.high, "level": level}
    return {
        **{"task": first.file.run.task, "variant": first.variant, "decoding": pairing.decodings[0]},
        **{"judge": first.judge.name, "metric": first.judge.metric},
        **{"decision": decision, "reason": reason, "base": base, "new": new},
        **{"drop": None if base is None or new is None else base - new, **ends, "seen": seen},
        **{"n": len(read), "items": len(items)},
        **{"clusters": read["cluster"].nunique(), "worth": bounds.worth},
        **{"missing": lost[1], "missing_base": lost[0]},
    }


def _is_same(pairing: Pairing, answers: Sequence[DataFrame]) -> bool:
    """Whether the two runs have the same words in every answer of a pairing."""
    view = pairing.first
    variants = averages(view.file.task)[view.variant] if view.is_pool else (view.variant,)
    ours, theirs = (
        own[own["variant"].isin(variants) & own["sample"].isin(pairing.items["id"])]
        .astype(object)
        .sort_values(["sample", "variant", "decoding"], ignore_index=True)
        for own in answers
    )
    return bool(len(ours)) and not ours["answer"].isna().any() and ours.equals(theirs)


def _decide(
    allowed: tuple[float, float, float],
    bounds: Estimate,
    sure: Estimate,
    *,
    lost: Sequence[float],
    tests: int,
) -> tuple[Decision, str]:
    """The decision by what is missing, then by the intervals, and its reason."""
    max_drop, max_missing, unmatched = allowed
    low, high = bounds.low, bounds.high
    if lost[1] > max_missing:
        words = f"{lost[1]:.1%} of the verdicts are missing, more than {max_missing:.1%}"
        return Decision.REGRESSION, words
    if sure.low is not None and sure.low > max_drop:
        return Decision.REGRESSION, f"the drop is more than {max_drop:g}"
    if high is not None and high <= max_drop and max(lost[0], unmatched) <= max_missing:
        return Decision.PASS, f"a drop of more than {max_drop:g} is ruled out"
    facts = {
        f"{lost[0]:.1%} of the verdicts are missing from the base run": lost[0] > max_missing,
        f"{unmatched:.1%} of the samples are in one run alone": unmatched > max_missing,
        f"no interval: {bounds.why}": high is None,
        f"the drop is more than {max_drop:g} by the {LEVEL:.0%} interval, but not by the one that "
        f"{tests} rows need (Bonferroni)": low is not None and low > max_drop,
        f"a drop of up to {high or 0.0:.3f} is not ruled out": True,
    }
    return Decision.INCONCLUSIVE, next(words for words, is_so in facts.items() if is_so)


def gate_words(row: Row) -> str:
    """The drop of a row with its intervals, and the one that would have been seen if none was."""
    if row.drop is None:
        return "no item that both runs have a verdict on"
    facts = [f"{row.base:.3f} before, {row.new:.3f} now: a drop of {row.drop:.3f}"]
    if row.low is not None and row.high is not None:
        facts.append(f"95% interval {row.low:.3f} to {row.high:.3f}")
    if row.level > LEVEL and row.low_corrected is not None and row.high_corrected is not None:
        ends = f"{row.low_corrected:.3f} to {row.high_corrected:.3f}"
        facts.append(f"{row.level:.1%} interval, corrected for the number of rows, {ends}")
    facts.append(items_words(row))
    if row.seen is not None and row.decision != Decision.REGRESSION:
        facts.append(f"a drop of {row.seen:.3f} would have been seen (80% power)")
    return "; ".join(facts)
