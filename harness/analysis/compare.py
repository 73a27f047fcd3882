"""Pairings to the rows of a comparison: tables, differences, tests, intentions with responses."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from harness.analysis.pairings import Judges, Kind, Pairing
from harness.lazy import DataFrame, pandas
from harness.parts import digest
from harness.pipeline.score import ALL, chance_level
from harness.pipeline.verdict_frame import named_groups
from harness.stats import comparison
from harness.stats.clustered import clustered_mean
from harness.stats.estimate import BootstrapSettings, Estimate, mean
from harness.storage.runs import RunFile

DIFFERENCE, PHI = "difference", "phi"
GIVEN_RIGHT, GIVEN_WRONG = "right_given_right", "right_given_wrong"
_SIDES = ("task", "model", "variant", "decoding", "judge")
_COUNTS = ("both", "only_a", "only_b", "neither", "ties")
COLUMNS: Final = (
    *("comparison", "statistic", "group"),
    *(f"{name}_{side}" for side in "ab" for name in _SIDES),
    *("value", "low", "high", "n", "items", "clusters", "mean_a", "mean_b"),
    *(*_COUNTS, "missing_a", "missing_b"),
    *("p", "p_exact", "p_mid", "p_permutation", "p_holm", "tests", "chance_a", "chance_b"),
    *("above_chance", "above_chance_low", "above_chance_high"),
    *("p_above_chance", "p_above_permutation", "reason", "signature_a", "signature_b"),
)
_WHOLE = (*_COUNTS, "n", "items", "clusters", "missing_a", "missing_b", "tests")
_TEXTS = (*COLUMNS[:13], "reason", "signature_a", "signature_b")
_DRAWS_PER_TEST = 60
_ROUNDING = 1e-12


def compare(pairings: Iterable[Pairing], settings: BootstrapSettings) -> DataFrame:
    """Every statistic of every pairing, a row each: over all samples, then by group.

    The columns are COLUMNS, as docs/comparing.md explains them; what is missing is NaN or None.
    """
    blocks = [
        (pairing, name, items if group is None else items[items["group"] == group])
        for pairing in pairings
        for items in [pairing.items]
        for name, group in named_groups(items["group"].unique()).items()
    ]
    tests = sum(pairing.kind is not Kind.INTENTION for pairing, _, _ in blocks)
    # So many draws that the smallest p is not above .05 after the correction for all tests.
    flips = replace(settings, draws=max(settings.draws, _DRAWS_PER_TEST * tests))
    rows: list[dict[str, Any]] = []
    for pairing, group, items in blocks:
        facts = {"comparison": pairing.name, "group": group} | _facts(pairing, items)
        if pairing.kind is Kind.INTENTION:
            rows += [facts | found for found in _relations(items)]
        else:
            rows.append(facts | _difference(pairing, items, flips))
    frame = pandas.DataFrame(rows, columns=[*COLUMNS])
    kinds = {name: "Int64" if name in _WHOLE else "float64" for name in COLUMNS}
    return _corrected(frame.astype(kinds | dict.fromkeys(_TEXTS, "object")))


def comparison_name(runs: Sequence[RunFile], judges: Judges, settings: BootstrapSettings) -> str:
    """The file name of a comparison: the runs' digests, and one of the judges and settings."""
    names = [run.digest[:16] for run in runs]
    if any(judges) or settings != BootstrapSettings():
        names.append(digest((judges, settings))[:8])
    return f"{'-'.join(names)}.csv"


def read_items(items: DataFrame) -> DataFrame:
    """The items of a pairing that have both verdicts."""
    return items[items["a"].notna() & items["b"].notna()]


def decided_items(items: DataFrame) -> DataFrame:
    """The items of a pairing that are right or wrong in both."""
    return items[items["a"].isin((0, 1)) & items["b"].isin((0, 1))]


def _facts(pairing: Pairing, items: DataFrame) -> dict[str, Any]:
    """What a row says of both sides and of their items."""
    read, decided = read_items(items), decided_items(items)
    found: dict[str, Any] = {"items": len(items), "clusters": read["cluster"].nunique()}
    for side, view, label in zip("ab", pairing.sides, pairing.decodings, strict=True):
        names = (view.file.run.task, view.file.model.name, view.variant, label, view.judge.name)
        found |= dict(zip((f"{name}_{side}" for name in _SIDES), names, strict=True))
        found[f"mean_{side}"] = mean(read[side].tolist())
        found[f"missing_{side}"] = int(items[side].isna().sum())
        found[f"signature_{side}"] = view.signature(label)
    if pairing.is_right_or_wrong:
        table = comparison.fourfold(decided["a"] == 1, decided["b"] == 1)
        found |= dict(zip(_COUNTS, (*table, len(read) - len(decided)), strict=True))
    return found


def _values(found: Estimate) -> dict[str, Any]:
    why = found.reason or found.why_no_interval
    return {"value": found.value, "low": found.low, "high": found.high, "n": found.n, "reason": why}


def _difference(pairing: Pairing, items: DataFrame, settings: BootstrapSettings) -> dict[str, Any]:
    read = read_items(items)
    choices, clusters = read["sample_choices"].to_numpy(), read["cluster"].to_numpy()
    chances = [chance_level(view.file, view.judge, choices) for view in pairing.sides]

    def tested(at_a: float, at_b: float) -> tuple[Estimate, float | None]:
        scaled = ((read["a"] - at_a) / (1 - at_a) - (read["b"] - at_b) / (1 - at_b)).to_numpy()
        found = clustered_mean(scaled, clusters, limits=pairing.limits(at_a, at_b))
        seed, draws = str(settings.seed), settings.draws
        return found, comparison.sign_flip_test(scaled, clusters, seed=seed, draws=draws).p

    found, permuted = tested(0.0, 0.0)
    row = {"statistic": DIFFERENCE} | _values(found) | {"p": found.p, "p_permutation": permuted}
    row |= {"chance_a": chances[0], "chance_b": chances[1]}
    at_a, at_b = (level or 0.0 for level in chances)
    has_two_levels = None not in chances and abs(at_a - at_b) > _ROUNDING
    if has_two_levels and max(at_a, at_b) < 1:
        above, permuted = tested(at_a, at_b)
        row |= {"above_chance": above.value, "p_above_chance": above.p}
        row |= {"above_chance_low": above.low, "above_chance_high": above.high}
        row["p_above_permutation"] = permuted
    decided = decided_items(items)
    reasons = {
        "verdicts are not right or wrong": not pairing.is_right_or_wrong,
        f"chance levels differ ({at_a:.3g}, {at_b:.3g})": has_two_levels,
        "a chance level is not known, and they may differ": (
            pairing.kind is Kind.CHOICE_AND_WORDS and None in chances
        ),
        "decodings of one sample are not independent": pairing.is_pooled,
        "samples of one cluster are not independent": decided["cluster"].duplicated().any(),
        "no sample is right or wrong in both": decided.empty,
    }
    if why := next((words for words, is_so in reasons.items() if is_so), ""):
        return row | {"reason": "; ".join(filter(None, (row["reason"], f"no exact test: {why}")))}
    table = comparison.fourfold(decided["a"] == 1, decided["b"] == 1)
    exact, mid = comparison.mcnemar_exact(table), comparison.mcnemar_mid_p(table)
    return row | {"p_exact": exact.p, "p_mid": mid.p}


def _relations(items: DataFrame) -> Iterator[dict[str, Any]]:
    decided = decided_items(items)
    first, second = (decided["a"] == 1).to_numpy(), (decided["b"] == 1).to_numpy()
    clusters = decided["cluster"].to_numpy()
    for name, given in ((GIVEN_RIGHT, True), (GIVEN_WRONG, False)):
        share = comparison.share_given((first, second), clusters, given=given)
        yield {"statistic": name} | _values(share)
    yield {"statistic": PHI} | _values(comparison.phi(first, second, clusters))


def main_differences(rows: DataFrame) -> DataFrame:
    """The differences over all samples and all decodings together: all others are parts of them."""
    found = rows[(rows["statistic"] == DIFFERENCE) & (rows["group"] == ALL)]
    names = [f"{name}_{side}" for side in "ab" for name in ("model", "variant", "judge")]
    found = found.assign(
        first=found.groupby(["comparison", *names], sort=False).ngroup(),
        pooled=-found["decoding_b"].str.count(r"\+"),
    )
    found = found.sort_values(["first", "pooled"], kind="stable").drop_duplicates("first")
    return found.drop(columns=["first", "pooled"])


def _corrected(rows: DataFrame) -> DataFrame:
    """The rows, one p of each difference corrected for all of its family."""
    is_difference = rows["statistic"] == DIFFERENCE
    has_exact = rows.loc[is_difference & rows["p_permutation"].notna(), "p_exact"].notna().all()
    has_two_levels = (rows["chance_a"] - rows["chance_b"]).abs() > _ROUNDING
    permuted = rows["p_permutation"].mask(has_two_levels, rows["p_above_permutation"])
    tested = rows["p_exact"] if has_exact else permuted
    main = main_differences(rows).index
    for family in (main, rows.index[is_difference].difference(main)):
        adjusted = comparison.holm([None if np.isnan(p) else p for p in tested[family].tolist()])
        rows.loc[family, "p_holm"] = [np.nan if p is None else p for p in adjusted]
        rows.loc[family, "tests"] = sum(p is not None for p in adjusted)
    return rows
