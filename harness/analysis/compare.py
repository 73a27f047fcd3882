"""Pairings to the rows of a comparison: tables, differences, tests, intentions with responses."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from harness.analysis.pairings import Kind, Pairing
from harness.lazy import DataFrame, pandas
from harness.parts import digest
from harness.pipeline.score import ALL, chance_level
from harness.pipeline.verdict_frame import named_groups
from harness.stats import comparison
from harness.stats.clustered import clustered_mean, paired_gap
from harness.stats.estimate import Estimate, mean
from harness.stats.missing import difference_bounds
from harness.storage.runs import RunFile

DIFFERENCE, PHI = "difference", "phi"
GIVEN_RIGHT, GIVEN_WRONG = "right_given_right", "right_given_wrong"
_SIDES = ("task", "model", "variant", "decoding", "judge")
_COUNTS = ("both", "only_a", "only_b", "neither", "ties")
COLUMNS: Final = (
    *("comparison", "statistic", "group"),
    *(f"{name}_{side}" for side in "ab" for name in _SIDES),
    *("value", "low", "high", "n", "items", "clusters", "worth", "mean_a", "mean_b"),
    *(*_COUNTS, "missing_a", "missing_b", "p_missing", "least", "most"),
    *("p", "p_holm", "tests", "chance_a", "chance_b"),
    *("above_chance", "above_chance_low", "above_chance_high", "p_above_chance"),
    *("reason", "signature_a", "signature_b"),
)
_WHOLE = (*_COUNTS, "n", "items", "clusters", "missing_a", "missing_b", "tests")
_TEXTS = (*COLUMNS[:13], "reason", "signature_a", "signature_b")
_ROUNDING = 1e-12


def compare(pairings: Iterable[Pairing]) -> DataFrame:
    """Every statistic of every pairing, a row each: over all samples, then by group.

    The columns are COLUMNS, as docs/comparing.md explains them; what is missing is NaN or None.
    """
    rows: list[dict[str, Any]] = []
    for pairing in pairings:
        every, is_written = pairing.items, pairing.kind is Kind.INTENTION
        for name, group in named_groups(every["group"].unique()).items():
            items = every if group is None else every[every["group"] == group]
            facts = {"comparison": pairing.name, "group": name} | _facts(pairing, items)
            found = _relations(items) if is_written else [_difference(pairing, items)]
            rows += [facts | own for own in found]
    frame = pandas.DataFrame(rows, columns=[*COLUMNS])
    kinds = {name: "Int64" if name in _WHOLE else "float64" for name in COLUMNS}
    return _corrected(frame.astype(kinds | dict.fromkeys(_TEXTS, "object")))


def comparison_name(runs: Sequence[RunFile], given: Sequence[str | None]) -> str:
    """The file name of a comparison: the runs' digests, and one of what else was given."""
    names = [run.digest[:16] for run in runs]
    names = names if len(names) <= 2 else [digest(names)[:16]]
    if any(given):
        names.append(digest(given)[:8])
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
        found[f"missing_{side}"] = int(items[f"lost_{side}"].sum())
        found[f"signature_{side}"] = view.signature(label)
    if found["missing_a"] + found["missing_b"]:
        lost = [items[f"lost_{side}"].to_numpy() for side in "ab"]
        clusters = items["cluster"].to_numpy()
        found["p_missing"] = paired_gap(lost[0], lost[1], clusters).p
        sides = items["a"].to_numpy(float), items["b"].to_numpy(float)
        found["least"], found["most"] = difference_bounds(*sides, clusters, pairing.ranges)
    if pairing.is_right_or_wrong:
        table = comparison.fourfold(decided["a"] == 1, decided["b"] == 1)
        found |= dict(zip(_COUNTS, (*table, len(read) - len(decided)), strict=True))
    return found


def _values(found: Estimate) -> dict[str, Any]:
    numbers = {name: getattr(found, name) for name in ("value", "low", "high", "n", "worth")}
    return numbers | {"reason": found.reason or found.why_no_interval}


def _difference(pairing: Pairing, items: DataFrame) -> dict[str, Any]:
    """The difference of the means, its interval, and one test."""
    read = read_items(items)
    first, second, clusters = (read[name].to_numpy() for name in ("a", "b", "cluster"))
    choices = read["sample_choices"].to_numpy()
    chances = [chance_level(view.file, view.judge, choices) for view in pairing.sides]
    found = paired_difference(pairing, read)
    row = {"statistic": DIFFERENCE, "p": found.p, "chance_a": chances[0], "chance_b": chances[1]}
    row |= _values(found)
    at_a, at_b = (level or 0.0 for level in chances)
    if None not in chances and abs(at_a - at_b) > _ROUNDING and max(at_a, at_b) < 1:
        scaled = (first - at_a) / (1 - at_a) - (second - at_b) / (1 - at_b)
        above = clustered_mean(scaled, clusters, limits=pairing.limits(at_a, at_b))
        row |= {"above_chance": above.value, "p_above_chance": above.p}
        row |= {"above_chance_low": above.low, "above_chance_high": above.high}
        if items[["lost_a", "lost_b"]].any(axis=None):
            sides = items["a"].to_numpy(float), items["b"].to_numpy(float)
            every = items["cluster"].to_numpy()
            bounds = difference_bounds(*sides, every, pairing.ranges, (at_a, at_b))
            row |= dict(zip(("least", "most"), bounds, strict=True))
    return row


def paired_difference(pairing: Pairing, read: DataFrame, *, level: float = 0.95) -> Estimate:
    """How much greater the first mean is on items that both sides have, with its test.

    Of what is right or wrong that of `paired_gap`, of ratings that of `clustered_mean`.
    """
    first, second, clusters = (read[name].to_numpy() for name in ("a", "b", "cluster"))
    if pairing.is_right_or_wrong:
        return paired_gap(first, second, clusters, level=level)
    return clustered_mean(first - second, clusters, level=level, limits=pairing.limits())


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
    has_two_levels = (rows["chance_a"] - rows["chance_b"]).abs() > _ROUNDING
    tested = rows["p"].mask(has_two_levels, rows["p_above_chance"])
    main = main_differences(rows).index
    for family in (main, rows.index[is_difference].difference(main)):
        adjusted = comparison.holm([None if np.isnan(p) else p for p in tested[family].tolist()])
        rows.loc[family, "p_holm"] = [np.nan if p is None else p for p in adjusted]
        rows.loc[family, "tests"] = sum(p is not None for p in adjusted)
    return rows
