"""Two runs of one task to a decision: passed, dropped by more than allowed, or not known."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from math import isfinite
from typing import Any, NamedTuple

from harness.analysis import pairings
from harness.analysis.compare import paired_difference, read_items
from harness.analysis.findings import NOISE, items_words, signed
from harness.analysis.pairings import ComparedRun, Pairing
from harness.errors import SpecError
from harness.lazy import DataFrame, pandas
from harness.pipeline.verdict_frame import ALL, averages
from harness.stats.clustered import clusters_needed, detectable_difference
from harness.stats.estimate import Estimate, mean
from harness.stats.scales import POWER, SIGNIFICANT
from harness.storage.frames import Row, load
from harness.storage.runs import RunFolder

LEVEL = 1 - SIGNIFICANT
KINDS = {"TPR": True, "1-FPR": False}  # what is decided of texts that are to be detected, or not
SAME = "every answer is the same, word for word"  # the reason of a pass that no interval decides


class Decision(StrEnum):
    """What a gate says, the gravest last."""

    PASS = "pass"  # noqa: S105 - no password
    INCONCLUSIVE = "inconclusive"
    INCOMPLETE = "incomplete"
    REGRESSION = "regression"


_NO_DECISION = {"decision": None, "reason": "", "groups": ""}
_NUMBERS = ("base", "new", "drop", "low", "high", "seen", "low_corrected", "high_corrected")
Missing = dict[str, float]
"""The shares of what is missing, each by the words that say of what."""


def gate(
    base: RunFolder,
    new: RunFolder,
    *,
    max_drop: float,
    max_missing: float,
    judge: str | None = None,
) -> DataFrame:
    """Whether the second of two runs of one task has dropped: by each judge, then by variants.

    docs/comparing.md has the rules. Of a judge the row of all variants together has a `decision`;
    those of single variants, which follow it, are for information. `drop` is of the means over the
    `n` items of both, `low` to `high` its 95 % interval, `low_corrected` to `high_corrected` that
    at the `level` that decides a regression, `seen` the true drop that would be one with a power of
    .8, `enough` how many independent items two equal runs need to pass with that power, None where
    it is not known; `missing` and `missing_base` are shares. `attrs`: the whole `decision`,
    `notes`, and what is `absent`.
    """
    if not (isfinite(max_drop) and max_drop >= 0 and 0 <= max_missing <= 1):
        words = "give a drop of 0 or more, as .02 for two points, and a share from 0 to 1"
        raise SpecError(f"--max-drop {max_drop}, --max-missing {max_missing}: {words}")
    runs = [ComparedRun.read(folder) for folder in (base, new)]
    found, notes, unmatched = pairings.of_one_task(runs[0], runs[1], judge)
    ours, theirs = (run.said.index for run in runs)
    # The share that is not in both: a sample of an id that says two things is one.
    alone = 1 - (len(ours) + len(theirs) - unmatched) / 2 / len(ours.union(theirs))
    columns = ["sample", "variant", "decoding", "answer"]
    answers = [load([folder], "answers", columns)[columns] for folder in (base, new)]
    by_judge, rows = [k for own in _chosen(found) for k in _kinds(own)], list[dict[str, Any]]()
    for pairs in by_judge:
        allowed = Allowed(max_drop, max_missing, alone, len(by_judge))
        same = all(_is_same(pairing, answers) for pairing in pairs)
        rows.append(_row(_pooled(pairs), allowed, is_same=same) | _by_group(pairs))
        if pairs[1:]:
            rows += [_row(one, allowed) | _NO_DECISION for one in pairs]
    said = [row["decision"] for row in rows if row["decision"]]
    if absent := pairings.unpaired(runs[0], found, judge):
        said.append(Decision.INCOMPLETE)
        lost = f"the new run does not have {', '.join(absent)} of the base run, so it cannot pass"
        notes = [*notes, lost]
    frame = pandas.DataFrame(rows).astype(dict.fromkeys(_NUMBERS, "float64"))
    frame.attrs |= {"decision": max(said, key=[*Decision].index), "notes": notes, "absent": absent}
    return frame


class Allowed(NamedTuple):
    """The drop and share missing that are allowed, the samples in one run, decisions."""

    max_drop: float
    max_missing: float
    alone: float
    tests: int

    @property
    def level(self) -> float:
        """That of the interval that decides a regression (Bonferroni)."""
        return 1 - (1 - LEVEL) / self.tests


def _chosen(found: Sequence[Pairing]) -> list[list[Pairing]]:
    """The pairings of each judge: all decodings together, and pools for their members."""
    last = {(one.first.judge.name, one.first.variant): one for one in found}
    pooled = {
        (judge, member)
        for (judge, variant), one in last.items()
        if one.first.is_pool
        for member in averages(one.first.file.task)[variant]
    }
    chosen: dict[str, list[Pairing]] = {}
    for key, one in last.items():
        if key not in pooled:
            chosen.setdefault(key[0], []).append(one)
    return list(chosen.values())


def _kinds(pairs: Sequence[Pairing]) -> Iterator[list[Pairing]]:
    """Some pairings; of texts with labels those of texts to detect, then those of the others."""
    if "positive" not in pairs[0].items:
        yield [*pairs]
        return
    for name, kind in KINDS.items():
        parts = [replace(p, name=name, items=p.items[p.items["positive"] == kind]) for p in pairs]
        yield from [parts] * any(len(part.items) for part in parts)


def _pooled(pairs: Sequence[Pairing]) -> Pairing:
    """The items of all variants of a judge as one pairing, whose sides are of variant `all`."""
    if not pairs[1:]:
        return pairs[0]
    first, second = (replace(side, variant=ALL, is_pool=False) for side in pairs[0].sides)
    items = pandas.concat([one.items for one in pairs], ignore_index=True)
    label = "+".join(dict.fromkeys(one.decodings[0] for one in pairs))
    return replace(pairs[0], first=first, second=second, items=items, decodings=(label, label))


def _by_group(pairs: Sequence[Pairing]) -> dict[str, str]:
    """The three greatest drops of groups of samples in words, with intervals; empty for none."""
    pairing, found = _pooled(pairs), list[tuple[float, str]]()
    read = read_items(pairing.items)
    for name, own in read.groupby("group", sort=True) if read["group"].nunique() > 1 else ():
        drop, ends = own["a"].mean() - own["b"].mean(), paired_difference(pairing, own)
        low, high = ends.low, ends.high
        said = "" if low is None or high is None else f" ({signed(low, 3)} to {signed(high, 3)})"
        found.append((-drop, f"{name} {drop:.3f}{said}"))
    return {"groups": "; ".join(words for less, words in sorted(found)[:3] if less < -NOISE)}


def _row(pairing: Pairing, allowed: Allowed, *, is_same: bool = False) -> dict[str, Any]:
    first, items, max_drop, level = pairing.first, pairing.items, allowed.max_drop, allowed.level
    if max_drop >= 1 and pairing.is_right_or_wrong:
        raise SpecError(f"--max-drop {max_drop:g}: give a share, such as .05 for five points")
    read = read_items(items)
    lost = [float(items[side].isna().mean()) if len(items) else 0.0 for side in "ab"]
    base, new = mean(read["a"].tolist()), mean(read["b"].tolist())
    limits = pairing.limits()
    bounds, sure = (paired_difference(pairing, read, level=at) for at in (LEVEL, level))
    missing = {
        "of the verdicts are missing": lost[1],
        "of the verdicts are missing from the base run": lost[0],
        "of the samples are in one run alone": allowed.alone,
    }
    decision, reason = _decide(allowed, bounds, sure, missing)
    is_open = decision == Decision.INCONCLUSIVE
    if is_open and is_same and len(items) and read["a"].equals(read["b"].rename("a")):
        decision, reason = Decision.PASS, SAME
    seen = enough = None
    if sure.low is not None and sure.high is not None:
        worth = sure.worth or sure.clusters
        found = detectable_difference((sure.high - sure.low) / 2, worth, power=POWER, level=level)
        # No drop is larger than the whole scale.
        seen = None if limits and max_drop + found > limits[1] else max_drop + found
    if max_drop > 0 and len(read):
        enough = clusters_needed(read["a"] - read["b"], read["cluster"], max_drop, power=POWER)
    ends = {"low": bounds.low, "high": bounds.high}
    ends |= {"low_corrected": sure.low, "high_corrected": sure.high, "level": level}
    return {
        **{"task": first.file.run.task, "variant": first.variant, "decoding": pairing.decodings[0]},
        "judge": first.judge.name,
        "metric": pairing.name if pairing.name in KINDS else first.judge.metric,
        **{"decision": decision, "reason": reason, "base": base, "new": new},
        **{"drop": None if base is None or new is None else base - new, **ends, "seen": seen},
        **{"n": len(read), "items": len(items), "enough": enough},
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
    allowed: Allowed, bounds: Estimate, sure: Estimate, missing: Missing
) -> tuple[Decision, str]:
    """The decision by the intervals and what is missing, and its reason."""
    drop, most, low, high = allowed.max_drop, allowed.max_missing, bounds.low, bounds.high
    if sure.low is not None and sure.low > drop:
        return Decision.REGRESSION, f"the drop is more than {drop:g}"
    if lost := [f"{share:.1%} {what}" for what, share in missing.items() if share > most]:
        return Decision.INCOMPLETE, f"{lost[0]}, more than {most:.1%}"
    if high is not None and high <= drop:
        return Decision.PASS, f"a drop of more than {drop:g} is ruled out"
    if high is None:
        return Decision.INCONCLUSIVE, f"no interval: {bounds.why}"
    if low is not None and low > drop:
        words = f"the drop is more than {drop:g} by the {LEVEL:.0%} interval, but not by the one"
        return Decision.INCONCLUSIVE, f"{words} that {allowed.tests} decisions need (Bonferroni)"
    return Decision.INCONCLUSIVE, f"a drop of up to {high:.3f} is not ruled out"


def gate_words(row: Row) -> str:
    """The drop of a row with its intervals, and the one that would have been seen if none was."""
    if row.drop is None:
        return "no item that both runs have a verdict on"
    facts = [f"{row.base:.3f} before, {row.new:.3f} now: a drop of {row.drop:.3f}"]
    if row.low is not None and row.high is not None:
        facts.append(f"95% interval {row.low:.3f} to {row.high:.3f}")
    if row.level > LEVEL and row.low_corrected is not None and row.high_corrected is not None:
        ends = f"{row.low_corrected:.3f} to {row.high_corrected:.3f}"
        facts.append(f"{row.level:.1%} interval, corrected for all decisions, {ends}")
    facts.append(items_words(row))
    if row.seen is not None and row.decision not in (None, Decision.REGRESSION):
        facts.append(f"a drop of {row.seen:.3f} would have been seen (80% power)")
    if row.enough is not None and row.decision == Decision.INCONCLUSIVE:
        facts.append(f"two equal runs of {row.enough:,} independent items would pass (80% power)")
    return "; ".join(facts)
