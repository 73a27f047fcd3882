"""Pairings to the rows of a comparison, and a run of perturbed samples to flip rates.

A comparison has tables, differences, tests, and intentions with responses. A flip rate is how many
verdicts and answers change: each perturbed sample is compared with its original in the same run,
under the same variant, decoding and judge; perturbations that keep the meaning and others never
share a row. Every statistic is a function of `stats`, where its source is; a missing value,
interval or test has its reason. Nothing here reads or writes a file.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any, Final

import numpy as np

from harness.analysis.pairings import (
    Kind,
    Pairing,
    PairingQuery,
    RunView,
    describe_run,
    views,
)
from harness.errors import StoreError
from harness.parts import digest
from harness.pipeline.columns.score import chance_level
from harness.pipeline.columns.stored import ColumnRun, PairedItems
from harness.pipeline.score import ALL, RIGHT_OR_WRONG, named_groups, value_range
from harness.pipeline.transforms import BY, FROM, KEEPS
from harness.stats.clustered import clustered_mean
from harness.stats.comparison import (
    Fourfold,
    fourfold,
    holm,
    mcnemar_exact,
    mcnemar_mid_p,
    phi,
    share_given,
    sign_flip_test,
)
from harness.stats.estimate import (
    BootstrapSettings,
    Estimate,
    Floats,
    Limits,
    Names,
    mean,
    mean_interval,
)
from harness.storage.runs import JudgeEntry, RunFile, SampleRecord, StoredRun

DIFFERENCE, PHI = "difference", "phi"
_DRAWS_PER_TEST = 60
_ROUNDING = 1e-12
GIVEN_RIGHT, GIVEN_WRONG = "right_given_right", "right_given_wrong"


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One statistic of two sets of verdicts, a and b, on the same items, in one group.

    `difference` is a less b; `right_given_right` and `right_given_wrong` are how often b is right
    where a is right, or wrong. `both` to `neither` count items that are right or wrong in both,
    `ties` those where either is neither; they are None where verdicts are not right or wrong.
    `missing_a` and `missing_b` count items without a verdict. `n` counts the items of `value`,
    `mean_a` and `mean_b` are over all that have both verdicts. `low`, `high` and `p` are Student's
    of the difference: p is below .05 just where the interval leaves out 0. `p_permutation` is of
    the difference too, `p_exact` and `p_mid` are McNemar's, of the table. `p_holm` corrects one p
    a row for all `tests` differences of its family: `main_differences` are one, all others the
    second. That p is the exact one where all rows have it, else that of the permutation test, of
    what is above chance where chance levels differ.
    `chance_a` and `chance_b` are what blind answers get, None where that is not known. Where they
    differ, `above_chance` is the difference of (mean - chance) / (1 - chance), with an interval
    and p as above, and `p_above_permutation` its permutation test.
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
    p: float | None = None
    p_exact: float | None = None
    p_mid: float | None = None
    p_permutation: float | None = None
    p_holm: float | None = None
    tests: int | None = None
    chance_a: float | None = None
    chance_b: float | None = None
    above_chance: float | None = None
    above_chance_low: float | None = None
    above_chance_high: float | None = None
    p_above_chance: float | None = None
    p_above_permutation: float | None = None
    reason: str | None = None
    signature_a: str = ""
    signature_b: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """The items of one group: all, those with both verdicts, and of these the right or wrong."""

    pairing: Pairing
    group: str
    items: PairedItems
    read: PairedItems
    decided: PairedItems

    @property
    def table(self) -> Fourfold:
        return fourfold(self.decided.first == 1, self.decided.second == 1)

    @property
    def chances(self) -> tuple[float | None, float | None]:
        """The chance level of either side, over the items that both have read."""
        choices = self.items.samples.choices[self.read.records]
        first, second = self.pairing.first, self.pairing.second
        levels = [chance_level(view.file, view.judge, choices) for view in (first, second)]
        return levels[0], levels[1]

    def limits(self, chances: tuple[float, float]) -> Limits | None:
        """What a difference can be, of values above chance levels; None where it is not known."""
        found = []
        for view, at in zip((self.pairing.first, self.pairing.second), chances, strict=True):
            ends = value_range(view.judge, view.judge.metric)
            found.append(ends and ((ends[0] - at) / (1 - at), (ends[1] - at) / (1 - at)))
        first, second = found
        return (first[0] - second[1], first[1] - second[0]) if first and second else None

    @property
    def is_right_or_wrong(self) -> bool:
        views = self.pairing.first, self.pairing.second
        return all(view.judge.metric == RIGHT_OR_WRONG for view in views)


def comparison_rows(
    pairings: Iterable[Pairing], settings: BootstrapSettings
) -> list[ComparisonRow]:
    """Every statistic of every pairing: over all samples, then by group."""
    blocks = [
        _group(pairing, name, own)
        for pairing in pairings
        for name, own in named_groups(pairing.items.groups).items()
    ]
    tests = sum(group.pairing.kind is not Kind.INTENTION for group in blocks)
    # So many draws that the smallest p is not above .05 after the correction for all tests.
    flips = replace(settings, draws=max(settings.draws, _DRAWS_PER_TEST * tests))
    rows: list[ComparisonRow] = []
    for group in blocks:
        if group.pairing.kind is Kind.INTENTION:
            rows += _relations(group, settings)
        else:
            rows.append(_difference(group, flips))
    return _corrected(rows)


def comparison_name(
    runs: Sequence[RunFile], query: PairingQuery, settings: BootstrapSettings
) -> str:
    """The file name of a comparison: the runs' digests, and one of the query and the settings."""
    names = [run.digest[:16] for run in runs]
    if (query, settings) != (PairingQuery(), BootstrapSettings()):
        names.append(digest((query, settings))[:8])
    return f"{'-'.join(names)}.csv"


def _group(pairing: Pairing, group: str, own: str | None) -> _Group:
    items = pairing.items if own is None else pairing.items.of_group(own)
    return _Group(pairing, group, items, items.at(items.is_read), items.at(items.is_decided))


def _difference(group: _Group, settings: BootstrapSettings) -> ComparisonRow:
    differences, clusters = group.read.first - group.read.second, group.read.clusters
    found = clustered_mean(differences, clusters, limits=group.limits((0.0, 0.0)))
    chance_a, chance_b = group.chances
    row = _filled(replace(_blank(group), statistic=DIFFERENCE), found)
    row = replace(row, p=found.p, chance_a=chance_a, chance_b=chance_b)
    row = replace(row, p_permutation=_flipped(differences, clusters, settings))
    row = _above_chance(row, group, settings) if _has_two_levels(row) else row
    if why := _why_not_exact(group, row):
        reasons = filter(None, (row.reason, f"no exact test: {why}"))
        return replace(row, reason="; ".join(reasons))
    return replace(row, p_exact=mcnemar_exact(group.table).p, p_mid=mcnemar_mid_p(group.table).p)


def _flipped(differences: Floats, clusters: Names, settings: BootstrapSettings) -> float | None:
    return sign_flip_test(differences, clusters, seed=str(settings.seed), draws=settings.draws).p


def _has_two_levels(row: ComparisonRow) -> bool:
    levels = row.chance_a, row.chance_b
    return None not in levels and abs((levels[0] or 0.0) - (levels[1] or 0.0)) > _ROUNDING


def _above_chance(row: ComparisonRow, group: _Group, settings: BootstrapSettings) -> ComparisonRow:
    """A row with the difference of what either side has above its own chance level."""
    at_a, at_b = row.chance_a or 0.0, row.chance_b or 0.0
    if max(at_a, at_b) >= 1:
        return row
    first, second, clusters = group.read.first, group.read.second, group.read.clusters
    differences = (first - at_a) / (1 - at_a) - (second - at_b) / (1 - at_b)
    found = clustered_mean(differences, clusters, limits=group.limits((at_a, at_b)))
    return replace(
        row,
        above_chance=found.value,
        above_chance_low=found.low,
        above_chance_high=found.high,
        p_above_chance=found.p,
        p_above_permutation=_flipped(differences, clusters, settings),
    )


def _relations(group: _Group, settings: BootstrapSettings) -> Iterator[ComparisonRow]:
    first, second, clusters = (
        group.decided.first == 1,
        group.decided.second == 1,
        group.decided.clusters,
    )
    blank = _blank(group)
    for name, given in ((GIVEN_RIGHT, True), (GIVEN_WRONG, False)):
        share = share_given((first, second), clusters, given=given)
        yield _filled(replace(blank, statistic=name), share)
    result = phi(first, second, clusters)
    yield _filled(replace(blank, statistic=PHI), result)


def _blank(group: _Group) -> ComparisonRow:
    pairing, one, other = group.pairing, group.pairing.first, group.pairing.second
    clusters = len(np.unique(group.read.clusters))
    columns: dict[str, Any] = {"items": len(group.items), "clusters": clusters}
    sides = (
        ("a", one, group.items.first, group.read.first),
        ("b", other, group.items.second, group.read.second),
    )
    for place, (side, view, values, read) in enumerate(sides):
        columns |= {
            f"task_{side}": view.file.run.task,
            f"model_{side}": view.file.model.name,
            f"variant_{side}": view.variant,
            f"decoding_{side}": pairing.decodings[place],
            f"judge_{side}": view.judge.name,
            f"mean_{side}": mean(read.tolist()),
            f"missing_{side}": int(np.isnan(values).sum()),
            f"signature_{side}": view.signature(pairing.decodings[place]),
        }
    row = ComparisonRow(comparison=pairing.name, statistic="", group=group.group, **columns)
    if not group.is_right_or_wrong:
        return row
    table, ties = group.table, len(group.read) - len(group.decided)
    row = replace(row, both=table.both, only_a=table.only_first, only_b=table.only_second)
    return replace(row, neither=table.neither, ties=ties)


def _filled(row: ComparisonRow, found: Estimate) -> ComparisonRow:
    row = replace(row, n=found.n, reason=found.reason or found.why_no_interval)
    return replace(row, value=found.value, low=found.low, high=found.high)


def main_differences(rows: Iterable[ComparisonRow]) -> list[ComparisonRow]:
    """The differences over all samples and all decodings together: all others are parts of them."""
    chosen: dict[tuple[str, ...], ComparisonRow] = {}
    for row in rows:
        if row.statistic == DIFFERENCE and row.group == ALL:
            sides = (row.model_a, row.variant_a, row.judge_a, row.model_b, row.variant_b)
            key = (row.comparison, *sides, row.judge_b)
            if key not in chosen or row.decoding_b.count("+") > chosen[key].decoding_b.count("+"):
                chosen[key] = row
    return list(chosen.values())


def _corrected(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """The rows, one p of each difference corrected for all of its family."""
    differences = [row for row in rows if row.statistic == DIFFERENCE]
    has_exact = all(row.p_exact is not None for row in differences if row.p_permutation is not None)
    main, held = main_differences(differences), dict[int, ComparisonRow]()
    for family in (main, [row for row in differences if row not in main]):
        adjusted = holm([row.p_exact if has_exact else _permuted(row) for row in family])
        tests = sum(p is not None for p in adjusted)
        for row, p in zip(family, adjusted, strict=True):
            held[id(row)] = replace(row, p_holm=p, tests=tests)
    return [held.get(id(row), row) for row in rows]


def _permuted(row: ComparisonRow) -> float | None:
    return row.p_above_permutation if _has_two_levels(row) else row.p_permutation


def _why_not_exact(group: _Group, row: ComparisonRow) -> str | None:
    if not group.is_right_or_wrong:
        return "verdicts are not right or wrong"
    if _has_two_levels(row):
        return f"chance levels differ ({row.chance_a:.3g}, {row.chance_b:.3g})"
    if group.pairing.kind is Kind.CHOICE_AND_WORDS and None in (row.chance_a, row.chance_b):
        return "a chance level is not known, and they may differ"
    if group.pairing.is_pooled:
        return "decodings of one sample are not independent"
    if len(np.unique(group.decided.clusters)) < len(group.decided):
        return "samples of one cluster are not independent"
    return None if len(group.decided) else "no sample is right or wrong in both"


KEEPING: Final = "all that keep the meaning"
OTHERS: Final = "all that may not"


@dataclass(frozen=True, slots=True)
class FlipRate:
    """One perturbation under one variant, decoding and judge, over `n` pairs with both verdicts.

    `value`, 0 to 1, is the share of pairs whose verdicts differ, with its interval over clusters
    of originals; `to_wrong` and `to_right` count the verdicts that were wholly right and are
    wholly wrong, and the reverse. `answers` is the share that choose another answer, None where
    answers are no choices. `difference` is the mean verdict of the perturbed less that of the
    originals. `missing` pairs lack a verdict, `unmatched` samples lack their original. What has
    no value is None, with the `reason`.
    """

    task: str
    model: str
    variant: str
    decoding: str
    judge: str
    perturbation: str
    keeps_meaning: bool
    value: float | None
    low: float | None
    high: float | None
    n: int
    clusters: int
    to_wrong: int | None
    to_right: int | None
    answers: float | None
    answers_low: float | None
    answers_high: float | None
    original: float | None
    perturbed: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    missing: int
    unmatched: int
    reason: str | None
    signature: str


@dataclass(frozen=True, slots=True)
class _Pair:
    """The verdicts of an original and of its perturbed sample, None if missing; the answers."""

    perturbation: str
    keeps_meaning: bool
    cluster: str
    before: float | None
    after: float | None
    answers: tuple[str | None, str | None]
    is_matched: bool


def flip_rows(run: StoredRun, judges: Sequence[JudgeEntry]) -> list[FlipRate]:
    """Every perturbation by every judge, then those that keep the meaning and the others."""
    if not any(BY in row.sample.references for row in run.rows):
        raise StoreError(
            f"{describe_run(run.file)} has no perturbed samples; make some with `harness perturb "
            f"--task {run.file.run.task}`, and run the task that this writes"
        )
    has_choices, columns = run.file.task.has_choices, ColumnRun.of(run.file, run.rows)
    return [
        _row(view, name, pairs, has_choices=has_choices)
        for judge in judges
        for view in views(columns, judge)
        for name, pairs in _parts([*_pairs(view, run.rows)])
    ]


def _pairs(view: RunView, rows: Sequence[SampleRecord]) -> Iterator[_Pair]:
    records = [rows[at] for at in view.records.tolist()]
    values = [None if isnan(value) else value for value in view.values.tolist()]
    known = {row.sample.id: (row, value) for row, value in zip(records, values, strict=True)}
    for row, after in known.values():
        references = row.sample.references
        if BY not in references:
            continue
        original, before = known.get(references[FROM][0], (None, None))
        yield _Pair(
            perturbation=references[BY][0],
            keeps_meaning=references[KEEPS][0] == "yes",
            cluster=row.sample.cluster,
            before=before,
            after=after,
            answers=(None, None)
            if original is None or view.is_pool
            else (original.answer, row.answer),
            is_matched=original is not None,
        )


def _parts(pairs: Sequence[_Pair]) -> Iterator[tuple[str, list[_Pair]]]:
    for name in dict.fromkeys(pair.perturbation for pair in pairs):
        yield name, [pair for pair in pairs if pair.perturbation == name]
    for name, keeps in ((KEEPING, True), (OTHERS, False)):
        members = [pair for pair in pairs if pair.keeps_meaning is keeps]
        if members:
            yield name, members


def _row(view: RunView, name: str, pairs: Sequence[_Pair], *, has_choices: bool) -> FlipRate:
    matched = sum(pair.is_matched for pair in pairs)
    read = [pair for pair in pairs if None not in (pair.before, pair.after)]
    verdicts = [(pair.before or 0.0, pair.after or 0.0) for pair in read]
    clusters = [pair.cluster for pair in read]
    is_decided = view.judge.metric == RIGHT_OR_WRONG
    flips = [(a != b, c) for (a, b), c in zip(verdicts, clusters, strict=True) if is_decided]
    chosen = [pair for pair in read if has_choices and None not in pair.answers]
    changes = [(pair.answers[0] != pair.answers[1], pair.cluster) for pair in chosen]
    flip, change = _share(flips), _share(changes)
    moved = _moved(view, verdicts, clusters)
    reason = None if is_decided else "verdicts are not right or wrong: see the difference"
    reason = reason if verdicts else "no pair with both verdicts"
    return FlipRate(
        task=view.file.run.task,
        model=view.file.model.name,
        variant=view.variant,
        decoding=view.decoding,
        judge=view.judge.name,
        perturbation=name,
        keeps_meaning=pairs[0].keeps_meaning,
        value=flip.value,
        low=flip.low,
        high=flip.high,
        n=len(read),
        clusters=len(set(clusters)),
        to_wrong=verdicts.count((1.0, 0.0)) if is_decided else None,
        to_right=verdicts.count((0.0, 1.0)) if is_decided else None,
        answers=change.value,
        answers_low=change.low,
        answers_high=change.high,
        original=_mean([before for before, _ in verdicts]),
        perturbed=_mean([after for _, after in verdicts]),
        difference=moved.value,
        difference_low=moved.low,
        difference_high=moved.high,
        missing=matched - len(read),
        unmatched=len(pairs) - matched,
        reason=reason,
        signature=view.signature(view.decoding),
    )


def _moved(
    view: RunView, verdicts: Sequence[tuple[float, float]], clusters: Sequence[str]
) -> Estimate:
    ends = value_range(view.judge, view.judge.metric)
    limits = ends and (ends[0] - ends[1], ends[1] - ends[0])
    values = [after - before for before, after in verdicts]
    return mean_interval(values, clusters, is_share=False, limits=limits)


def _share(flags: Sequence[tuple[bool, str]]) -> Estimate:
    return mean_interval([float(is_so) for is_so, _ in flags], [c for _, c in flags], is_share=True)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
