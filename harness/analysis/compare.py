"""Pairings to the rows of a comparison: tables, differences, tests, intentions with responses.

Every statistic is one of `stats`; what has no value, no interval or no test says why. Nothing
here reads or writes a file.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from math import fsum
from typing import TypeVar

from harness.analysis.pairings import Kind, PairedItem, Pairing, PairingQuery
from harness.analysis.run_views import RIGHT_OR_WRONG
from harness.parts import digest
from harness.pipeline.score import ALL
from harness.stats.comparison import holm
from harness.stats.paired import (
    Fourfold,
    fourfold,
    mcnemar_exact,
    mcnemar_mid_p,
    mean_difference,
    phi,
    share_given,
    sign_flip_test,
)
from harness.stats.resampling import EstimateCI, Resamples
from harness.storage.csv import csv_line
from harness.storage.runs import RunFile

_V = TypeVar("_V", bool, float)

DIFFERENCE, PHI = "difference", "phi"
GIVEN_RIGHT, GIVEN_WRONG = "right_given_right", "right_given_wrong"


@dataclass(frozen=True, slots=True)
class BootstrapSettings:
    """How intervals and permutation tests are computed: seed, and number of draws."""

    seed: int = 0
    draws: int = 2000


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One statistic of two readings a and b of the same items, in one group.

    `difference` is a less b; `right_given_right` and `right_given_wrong` are how often b is right
    where a is right, or wrong. `both` to `neither` count items that are right or wrong in both
    readings, `ties` those where either is neither, `missing_a` and `missing_b` those without it;
    null where readings are not right or wrong. `n` counts what `value` is of, `mean_a` and
    `mean_b` are over all that both have read. `p_exact` and `p_mid` are McNemar's, of the table;
    `p_permutation` is of the difference; `p_holm` corrects the former, or without it the latter,
    for the number of groups.
    """

    comparison: str
    statistic: str
    group: str
    task_a: str
    model_a: str
    variant_a: str
    decoding_a: str
    judge_a: str
    task_b: str
    model_b: str
    variant_b: str
    decoding_b: str
    judge_b: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    items: int = 0
    clusters: int = 0
    mean_a: float | None = None
    mean_b: float | None = None
    both: int | None = None
    only_a: int | None = None
    only_b: int | None = None
    neither: int | None = None
    ties: int | None = None
    missing_a: int = 0
    missing_b: int = 0
    p_exact: float | None = None
    p_mid: float | None = None
    p_permutation: float | None = None
    p_holm: float | None = None
    reason: str | None = None
    signature_a: str = ""
    signature_b: str = ""


@dataclass(frozen=True, slots=True)
class _Part:
    """The items of one group: those that both readings have, and of these the decided ones."""

    items: tuple[PairedItem, ...]
    read: tuple[tuple[float, float, str], ...]
    decided: tuple[tuple[bool, bool, str], ...]

    @property
    def table(self) -> Fourfold:
        """Where the decided items fall."""
        first, second, _ = _columns(self.decided)
        return fourfold(first, second)

    @property
    def is_clustered(self) -> bool:
        """Whether two of the decided items share a cluster."""
        return len({cluster for _, _, cluster in self.decided}) < len(self.decided)


def comparison_rows(pairings: Iterable[Pairing], method: BootstrapSettings) -> list[ComparisonRow]:
    """Every statistic of every pairing: over all samples, then by group."""
    rows: list[ComparisonRow] = []
    for pairing in pairings:
        groups = sorted({item.sample.group for item in pairing.items} - {ALL})
        parts = [(group, _part(pairing, group)) for group in (ALL, *groups)]
        if pairing.kind is Kind.INTENTION:
            rows += [row for name, part in parts for row in _relations(pairing, name, part, method)]
        else:
            rows += _corrected([_difference(pairing, name, part, method) for name, part in parts])
    return rows


def comparison_text(rows: Iterable[ComparisonRow]) -> str:
    """Rows as CSV."""
    head = [field.name for field in fields(ComparisonRow)]
    return "".join(map(csv_line, [head, *map(astuple, rows)]))


def comparison_name(
    runs: Sequence[RunFile], question: PairingQuery, method: BootstrapSettings
) -> str:
    """The file name of a comparison: the runs' digests, and one of what else was asked for."""
    names = [run.digest[:16] for run in runs]
    if (question, method) != (PairingQuery(), BootstrapSettings()):
        names.append(digest((question, method))[:8])
    return f"{'-'.join(names)}.csv"


def _part(pairing: Pairing, group: str) -> _Part:
    items = tuple(item for item in pairing.items if group in (ALL, item.sample.group))
    read = tuple(
        (item.first, item.second, item.sample.cluster)
        for item in items
        if item.first is not None and item.second is not None
    )
    decided = tuple((a == 1, b == 1, c) for a, b, c in read if {a, b} <= {0.0, 1.0})
    return _Part(items, read, decided)


def _difference(
    pairing: Pairing, group: str, part: _Part, method: BootstrapSettings
) -> ComparisonRow:
    """The difference of two means with its interval and tests."""
    first, second, clusters = _columns(part.read)
    resamples = Resamples.of(clusters, seed=f"{method.seed}", draws=method.draws)
    differences = [a - b for a, b in zip(first, second, strict=True)]
    flipped = sign_flip_test(differences, clusters, seed=f"{method.seed}", draws=method.draws)
    row = replace(_blank(pairing, group, part), statistic=DIFFERENCE, p_permutation=flipped.p)
    row = _filled(row, mean_difference(first, second, resamples))
    if why := _why_not_exact(pairing, part):
        return replace(row, reason=_joined(row.reason, f"no exact test: {why}"))
    return replace(row, p_exact=mcnemar_exact(part.table).p, p_mid=mcnemar_mid_p(part.table).p)


def _relations(
    pairing: Pairing, group: str, part: _Part, method: BootstrapSettings
) -> Iterator[ComparisonRow]:
    """How often the second reading is right, given the first, and how the two go together."""
    first, second, clusters = _columns(part.decided)
    seed, draws = f"{method.seed}", method.draws
    resamples = Resamples.of(clusters, seed=seed, draws=draws)
    blank = _blank(pairing, group, part)
    for name, given in ((GIVEN_RIGHT, True), (GIVEN_WRONG, False)):
        found = share_given((first, second), clusters, given=given, seed=seed, draws=draws)
        yield _filled(replace(blank, statistic=name), found)
    yield _filled(replace(blank, statistic=PHI), phi(first, second, resamples))


def _blank(pairing: Pairing, group: str, part: _Part) -> ComparisonRow:
    """A row without its statistic."""
    one, other = pairing.first, pairing.second
    row = ComparisonRow(
        comparison=pairing.name,
        statistic="",
        group=group,
        task_a=one.file.run.task,
        model_a=one.file.model.name,
        variant_a=one.variant,
        decoding_a=pairing.decodings[0],
        judge_a=one.judge.name,
        task_b=other.file.run.task,
        model_b=other.file.model.name,
        variant_b=other.variant,
        decoding_b=pairing.decodings[1],
        judge_b=other.judge.name,
        items=len(part.items),
        clusters=len({cluster for _, _, cluster in part.read}),
        mean_a=_mean([value for value, _, _ in part.read]),
        mean_b=_mean([value for _, value, _ in part.read]),
        missing_a=sum(item.first is None for item in part.items),
        missing_b=sum(item.second is None for item in part.items),
        signature_a=one.signature(pairing.decodings[0]),
        signature_b=other.signature(pairing.decodings[1]),
    )
    if not _is_right_or_wrong(pairing):
        return row
    return replace(
        row,
        both=part.table.both,
        only_a=part.table.only_first,
        only_b=part.table.only_second,
        neither=part.table.neither,
        ties=len(part.read) - len(part.decided),
    )


def _filled(row: ComparisonRow, figure: EstimateCI) -> ComparisonRow:
    """A row with a figure, its interval, and the reason for what it lacks."""
    estimate, ends = figure.estimate, figure.bounds
    reason: str | None = estimate.reason
    if estimate.value is not None and ends.low is None:
        reason = f"no interval: {ends.reason}"
    return replace(
        row, value=estimate.value, low=ends.low, high=ends.high, n=estimate.n, reason=reason
    )


def _corrected(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """The rows of one pairing, p corrected over its groups; all samples together are one test."""
    groups = [row for row in rows if row.group != ALL]
    has_exact = any(row.p_exact is not None for row in groups)
    adjusted = holm([row.p_exact if has_exact else row.p_permutation for row in groups])
    found = [replace(row, p_holm=p) for row, p in zip(groups, adjusted, strict=True)]
    return [row for row in rows if row.group == ALL] + found


def _why_not_exact(pairing: Pairing, part: _Part) -> str | None:
    """Why McNemar's test does not hold; null where it does."""
    if not _is_right_or_wrong(pairing):
        return "verdicts are not right or wrong"
    if pairing.is_pooled:
        return "decodings of one sample are not independent"
    if part.is_clustered:
        return "samples of one cluster are not independent"
    return None if part.decided else "no sample is right or wrong in both"


def _is_right_or_wrong(pairing: Pairing) -> bool:
    return pairing.first.judge.metric == pairing.second.judge.metric == RIGHT_OR_WRONG


def _columns(rows: Sequence[tuple[_V, _V, str]]) -> tuple[list[_V], list[_V], list[str]]:
    return [a for a, _, _ in rows], [b for _, b, _ in rows], [c for _, _, c in rows]


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _joined(*parts: str | None) -> str:
    return "; ".join(part for part in parts if part)
