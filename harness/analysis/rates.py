"""Stored verdicts to rates for moderation: TPR, FPR and precision by columns, and their gaps.

A text is flagged as the model answered, or where a score of it reaches a threshold. Readings
without an answer, or without the score, are missing: they are never taken for unflagged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import floor, inf, isfinite, isnan, nextafter

from harness.analysis.moderation.flags import (
    PRECISION,
    Flagged,
    at_threshold,
    half_of,
    of_mean_one,
    weighted,
)
from harness.data.choices import LABELS
from harness.errors import SpecError, StoreError, did_you_mean
from harness.parts import UNBATCHED, digest
from harness.pipeline.columns import choice_scores
from harness.pipeline.columns.choice_scores import FALSE_ALARMS, HITS, IMPLICITNESS
from harness.pipeline.columns.readings import Read, Readings
from harness.pipeline.columns.run import RunColumns
from harness.pipeline.columns.score import ALL, blocks, by_snapshot, signature
from harness.specs.tasks import TaskSpec
from harness.stats.clustered import ShareRows, share_gap, share_interval
from harness.stats.comparison import holm
from harness.stats.estimate import NoValue
from harness.storage.runs import JudgeEntry, SampleRecord, StoredRun, VerdictRecord
from harness.storage.signature import short_labels

RATES = (HITS, FALSE_ALARMS, PRECISION)
"""Of positive texts those flagged, of negative ones those flagged, of flagged ones the positive.

Precision is told of texts of both kinds alone: of one kind it is 0 or 1 whatever is flagged.
"""
PROBABILITY, GROUP, AND, REST = "probability", "group", "+", "the rest"
NONE_FLAGGED = "nothing flagged"
_Block = tuple[Readings, list[Read]]
MOST_VALUES = 100
"""A column with more values tells texts apart, not groups of them."""
Columns = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Further columns of samples, by the sample's id; the texts of a cell, none where it is empty."""


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """From which score on a text is flagged; None flags as the model answered.

    `score` is probability, implicitness, or a further number of the answer or the verdict. With
    `fpr` the least threshold is chosen under which the FPR is no greater, on `chosen_on`, or on
    one half of the benign originals, drawn by the seed, which is then not measured.
    """

    score: str = PROBABILITY
    threshold: float | None = None
    fpr: float | None = None
    chosen_on: StoredRun | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.threshold is not None and self.fpr is not None:
            raise SpecError("--threshold and --fpr: give one of the two")
        if self.fpr is not None and not 0 < self.fpr < 1:
            raise SpecError(f"--fpr {self.fpr:g}: give a rate between 0 and 1, such as 0.05")
        if self.threshold is not None and not isfinite(self.threshold):
            raise SpecError(f"--threshold {self.threshold}: give a finite score")
        if self.chosen_on is not None and self.fpr is None:
            raise SpecError("--chosen-on: goes with --fpr, whose threshold is chosen there")


@dataclass(frozen=True, slots=True)
class RateQuery:
    """What rates are told by, of which judge and variants, and at which operating point.

    `by` names columns; `one+other` crosses two. `positive` are the labels to detect, by default
    the task's. Without `is_paired` each group is compared with the texts of all other groups.
    `columns` are those that the run did not keep. A gap needs `least` originals on each side.
    """

    by: tuple[str, ...] = ()
    judge: str = "gold"
    variants: tuple[str, ...] = ()
    positive: tuple[str, ...] = ()
    point: OperatingPoint | None = None
    is_paired: bool = False
    least: int = 10
    columns: Columns = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RateRow:
    """One rate, 0 to 1, of the texts with one value in a column; `column` is empty for all texts.

    `n` counts the texts behind it (of precision, the flagged ones), `clusters` their originals,
    `missing` those of the kind without an answer or a score. `value` is None without a text.
    `threshold` is None where texts are flagged as the model answered. Of all `texts` of the run
    `measured` had no part in the choice of the threshold; each text of an original that might have
    had counts `benign_weight` times, so that the rates are those of all.
    """

    task: str
    model: str
    variant: str
    decoding: str
    judge: str
    signature: str
    column: str = ""
    group: str = ALL
    rate: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    clusters: int = 0
    missing: int = 0
    note: str = ""
    score: str = ""
    threshold: float | None = None
    chosen_on: str = ""
    texts: int = 0
    measured: int = 0
    benign_weight: float = 1.0


@dataclass(frozen=True, slots=True)
class RateGap:
    """A rate of one group less that of another, or of the texts of all others, -1 to 1.

    `p_holm` is corrected for the `tests` gaps of the table. A gap of precision has an interval and
    no p: shares of texts to detect differ between groups, and move it whatever the model does.
    Else both p are None with the interval, and `note` says why: "too few" originals on a side, or
    "constant".
    """

    task: str
    model: str
    variant: str
    decoding: str
    judge: str
    signature: str
    column: str
    rate: str
    group: str
    against: str
    gap: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None = None
    tests: int = 0
    n: int = 0
    n_against: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class FlaggedBlock:
    """The readings of one signature, flagged at one operating point; `blank` labels its rows.

    `left_out` are those of originals on which the threshold was chosen; no rate is of them.
    """

    blank: RateRow
    readings: tuple[Flagged, ...]
    left_out: tuple[Flagged, ...] = ()


def flagged_blocks(run: StoredRun, query: RateQuery) -> list[FlaggedBlock]:
    """A run's readings of each variant, decoding and snapshot; StoreError where there are none."""
    positive, labels = query.positive or positive_labels(run), _labels(run)
    if unknown := [name for name in positive if name not in labels]:
        raise SpecError(f"--positive {unknown[0]}: no such label{did_you_mean(unknown[0], labels)}")
    found = [_at_point(blank, block, query, positive) for blank, block in _blocks(run, query)]
    if not found:
        under = f" under variant {', '.join(query.variants)}" if query.variants else ""
        judges = ", ".join(entry.name for entry in run.file.judges) or "none"
        raise StoreError(
            f"run {run.file.digest[:16]}: judge {query.judge} has read none of its answers{under}; "
            f"its judges: {judges}"
        )
    return found


def positive_labels(run: StoredRun) -> tuple[str, ...]:
    """The labels that a task is to detect; SpecError where its YAML names none."""
    task: TaskSpec = run.file.task
    labels = _labels(run)
    if not labels:
        raise SpecError(
            f"task {run.file.run.task}: its samples have no labels, so that there are no hits and "
            "no false alarms; name a run of hate_speech, or of another task of labelled texts"
        )
    named = task.implicitness.positive if task.implicitness else ()
    named = named or (task.classes.missed if task.classes else ())
    if not named:
        raise SpecError(f"--positive: name the labels to detect, of {', '.join(labels)}")
    return named


def rate_rows(blocks: Sequence[FlaggedBlock], query: RateQuery) -> list[RateRow]:
    """TPR, FPR and precision of all texts, then by each column's values."""
    return [
        _rate(replace(block.blank, column=column, group=group), rate, readings)
        for block in blocks
        for column, values in {"": {ALL: [*block.readings]}, **_split(block, query)}.items()
        for group, readings in values.items()
        for rate in RATES
    ]


def rate_gaps(tables: Sequence[tuple[Sequence[FlaggedBlock], RateQuery]]) -> list[RateGap]:
    """The gaps between a column's groups; those of TPR and FPR are tested, corrected by Holm."""
    found = [
        _gap(block.blank, (column, rate), sides, query.least)
        for blocks, query in tables
        for block in blocks
        for column, values in _split(block, query).items()
        for sides in _sides(values, is_paired=query.is_paired)
        for rate in RATES
    ]
    found = [row for row in found if row.gap is not None]
    corrected = holm([row.p for row in found])
    tests = sum(row.p is not None for row in found)
    return [replace(r, p_holm=p, tests=tests) for r, p in zip(found, corrected, strict=True)]


def names(rows: Sequence[RateRow]) -> dict[str, str]:
    """A short label for each signature: the model, and what differs."""
    return short_labels(dict.fromkeys((row.signature for row in rows), ""))


def point_words(row: RateRow) -> str:
    """From which score on the texts of a row are flagged, and of which texts the rates are.

    Of a row with a threshold. One that was chosen is the number next above a score, by which it is
    named, as fewer digits would print both alike.
    """
    threshold = row.threshold or 0.0
    if not row.chosen_on:
        return f"flagged from {row.score} {threshold:.6g} on"
    said = f"flagged above {row.score} {nextafter(threshold, -inf):.6g}, chosen on {row.chosen_on}"
    if row.measured == row.texts:
        return f"{said}; the rates are of texts that had no part in it"
    weight = f"{row.benign_weight:.3g}".removesuffix(".0")
    return (
        f"{said}; the rates are of the {row.measured} of {row.texts} texts that had no part in it, "
        f"and in precision each benign one counts for {weight}"
    )


def known_columns(run: StoredRun) -> list[str]:
    """The columns that the samples of a run keep, by which rates can be told."""
    kept = {name for row in run.rows for name in row.sample.references}
    return [GROUP, *sorted(kept - {LABELS, IMPLICITNESS})]


def lacking(run: StoredRun, by: Sequence[str]) -> list[str]:
    """The columns of `--by` that the samples of a run do not keep."""
    known = known_columns(run)
    wanted = [part for name in by for part in _crossed(name, known)]
    return [name for name in dict.fromkeys(wanted) if name not in known]


def _crossed(name: str, known: Sequence[str]) -> list[str]:
    return [name] if name in known else name.split(AND)


def _labels(run: StoredRun) -> list[str]:
    found = (n for row in run.rows for n in row.sample.references.get(LABELS, ()))
    return list(dict.fromkeys(found))


def _blocks(run: StoredRun, query: RateQuery) -> Iterator[tuple[RateRow, _Block]]:
    entry: JudgeEntry | None = next((e for e in run.file.judges if e.name == query.judge), None)
    columns = RunColumns.of(run.file.task, run.rows if entry else ())
    for snapshots, readings in by_snapshot(columns, entry) if entry else ():
        for block in blocks(readings, run.file.task):
            is_wanted = not query.variants or block.variant in query.variants
            if entry and block.group == ALL and is_wanted and not block.is_average:
                labels = {"variant": block.variant, "decoding": block.decoding}
                made = signature(run.file, entry, **labels, snapshots=snapshots)
                of = (run.file.run.task, run.file.model.name, block.variant, block.decoding)
                pairs = block.readings.pairs(run.rows, entry.name)
                yield RateRow(*of, judge=entry.name, signature=made), (block.readings, pairs)


def _readings(block: _Block, score: str, positive: tuple[str, ...]) -> list[Flagged]:
    readings, pairs = block
    answers = choice_scores.answered(readings, positive)
    numbers = (map(_known, part.tolist()) for part in (answers.flagged, answers.sure, answers.at))
    found = []
    for (record, verdict), is_positive, flagged, sure, at in zip(
        pairs, answers.is_positive.tolist(), *numbers, strict=True
    ):
        known = {**_detail(record, verdict), PROBABILITY: sure, IMPLICITNESS: at}
        found.append(Flagged(record, verdict, is_positive, flagged, known.get(score)))
    return found


def _known(number: float) -> float | None:
    return None if isnan(number) else number


def _detail(record: SampleRecord, verdict: VerdictRecord) -> dict[str, float]:
    """The further numbers of a verdict and of its answer, such as moderation categories."""
    detail = {**verdict.detail, **(record.steps[-1].detail if record.steps else {})}
    return {name: value for name, value in detail.items() if name != UNBATCHED}


def _at_point(
    blank: RateRow,
    block: _Block,
    query: RateQuery,
    positive: tuple[str, ...],
) -> FlaggedBlock:
    point = query.point
    if point is None:
        return FlaggedBlock(blank, tuple(_readings(block, PROBABILITY, positive)))
    readings = _readings(block, point.score, positive)
    if all(one.score is None for one in readings):
        detail = {name for record, verdict in block[1] for name in _detail(record, verdict)}
        known = [PROBABILITY, IMPLICITNESS, *sorted(detail)]
        raise SpecError(
            f"--score {point.score}: no answer of {blank.model} has it"
            f"{did_you_mean(point.score, known)}; answers in writing have no probability"
        )
    if point.fpr is None:
        blank = replace(blank, score=point.score, threshold=point.threshold)
        return FlaggedBlock(blank, tuple(at_threshold(readings, point.threshold or 0.0)))
    return _chosen(replace(blank, score=point.score), readings, query, positive)


def _chosen(
    blank: RateRow, readings: Sequence[Flagged], query: RateQuery, positive: tuple[str, ...]
) -> FlaggedBlock:
    """The readings at the least threshold that keeps the FPR where it is chosen."""
    point, half = query.point or OperatingPoint(), set[str]()
    if point.chosen_on is not None:
        others = _other_readings(blank, point.chosen_on, query, positive)
        whose = f"run {point.chosen_on.file.digest[:16]}"
        tuned = [one for one in others if not one.is_positive and one.score is not None]
        seen = {one.record.sample.id for one in tuned}
        if shared := sum(one.record.sample.id in seen for one in readings):
            raise SpecError(
                f"--chosen-on: {shared} texts of {whose} are measured too; choose the threshold on "
                "other texts, or leave it out to halve this run"
            )
    else:
        half = half_of(readings, point.seed)
        whose = f"half of this run, by seed {point.seed}"
        tuned = [one for one in readings if one.cluster in half and not one.is_positive]
    scores = sorted((one.score for one in tuned if one.score is not None), reverse=True)
    if not scores:
        raise StoreError(f"--fpr: no benign text of {whose} has a score to choose a threshold by")
    most = floor((point.fpr or 0.0) * len(scores) + 1e-9)
    threshold = nextafter(scores[most], inf)
    originals = len({one.cluster for one in tuned if one.score is not None})
    chosen_on = f"{len(scores)} benign texts of {originals} originals ({whose})"
    if most == 0:
        chosen_on += f", too few to tell an FPR of {point.fpr:g} from 0: none of them is flagged"
    blank = replace(blank, threshold=threshold, chosen_on=chosen_on)
    measured, left_out, weight = weighted([*at_threshold(readings, threshold)], half)
    blank = replace(blank, texts=len(readings), measured=len(measured), benign_weight=weight)
    return FlaggedBlock(blank, measured, left_out)


def _other_readings(
    blank: RateRow, run: StoredRun, query: RateQuery, positive: tuple[str, ...]
) -> list[Flagged]:
    for other, block in _blocks(run, query):
        same = (other.task, other.model, other.variant, other.decoding)
        if same == (blank.task, blank.model, blank.variant, blank.decoding):
            return _readings(block, blank.score, positive)
    raise SpecError(
        f"--chosen-on {run.file.digest[:16]}: no answers of {blank.model} to {blank.task}, variant "
        f"{blank.variant}, {blank.decoding}; name a run of the same model and task"
    )


def _split(block: FlaggedBlock, query: RateQuery) -> dict[str, dict[str, list[Flagged]]]:
    """The readings by each column's values; those with an empty cell are of no group."""
    found: dict[str, dict[str, list[Flagged]]] = {}
    kept = {name for one in block.readings for name in one.record.sample.references}
    added = {name for cells in query.columns.values() for name in cells}
    known = [GROUP, *sorted((kept | added) - {LABELS, IMPLICITNESS})]
    for column in query.by:
        parts = _crossed(column, known)
        if unknown := [name for name in parts if name not in known]:
            raise SpecError(
                f"--by {column}: no column {unknown[0]!r} is kept"
                f"{did_you_mean(unknown[0], known)}; this run has {', '.join(known)}"
            )
        groups: dict[str, list[Flagged]] = {}
        for one in block.readings:
            for value in _values(one, parts, query.columns):
                groups.setdefault(value, []).append(one)
        if len(groups) > MOST_VALUES:
            raise SpecError(
                f"--by {column}: it has {len(groups)} values, and rates are split by {MOST_VALUES} "
                "at most; name a column of fewer, such as the target or the source of texts"
            )
        found[column] = dict(sorted(groups.items()))
    return found


def _values(one: Flagged, parts: Sequence[str], columns: Columns) -> list[str]:
    sample, made = one.record.sample, [""]
    cells = {GROUP: (sample.group,), **sample.references, **columns.get(sample.id, {})}
    for part in parts:
        texts = dict.fromkeys(cells.get(part, ()))
        made = [f"{left}{f' {AND} ' if left else ''}{text}" for left in made for text in texts]
    return made


def _rows(readings: Sequence[Flagged], rate: str) -> ShareRows:
    known = [one for one in readings if one.is_of(rate) and one.flagged is not None]
    if rate == PRECISION and len({one.is_positive for one in known}) < 2:
        return ShareRows((), (), ())
    if rate != PRECISION:
        weights = of_mean_one(known)
        flags = [one.flagged or 0.0 for one in known]
        hits = [size * flag for size, flag in zip(weights, flags, strict=True)]
        return ShareRows(hits, weights, [one.cluster for one in known])
    known = [one for one in known if one.flagged]
    weights = of_mean_one(known)
    sizes = [size * (one.flagged or 0.0) for size, one in zip(weights, known, strict=True)]
    hits = [size * one.is_positive for size, one in zip(sizes, known, strict=True)]
    return ShareRows(hits, sizes, [one.cluster for one in known])


def _rate(blank: RateRow, rate: str, readings: Sequence[Flagged]) -> RateRow:
    rows = _rows(readings, rate)
    found = share_interval(rows)
    missing = sum(one.is_of(rate) and one.flagged is None for one in readings)
    nothing = {HITS: "no positive text", FALSE_ALARMS: "no negative text"}
    is_mixed = len({one.is_positive for one in readings if one.flagged is not None}) == 2
    nothing[PRECISION] = NONE_FLAGGED if is_mixed else "texts of one kind"
    is_missing = found.value is None and missing and rate != PRECISION
    note = nothing[rate] if found.value is None else found.why or ""
    return replace(
        blank,
        rate=rate,
        value=found.value,
        low=found.low,
        high=found.high,
        n=found.n,
        clusters=found.clusters,
        missing=missing,
        note="none answered" if is_missing else str(note),
    )


Side = tuple[str, Sequence[Flagged]]


def _sides(
    values: Mapping[str, Sequence[Flagged]], *, is_paired: bool
) -> Iterator[tuple[Side, Side]]:
    """Each pair of groups, or each group and the rest; of two groups the one pair there is."""
    if is_paired or len(values) == 2:
        yield from combinations(values.items(), 2)
        return
    for group, readings in values.items() if len(values) > 2 else ():
        own = {id(one) for one in readings}
        others = {id(one): one for part in values.values() for one in part if id(one) not in own}
        yield (group, readings), (REST, [*others.values()])


def _gap(blank: RateRow, of: tuple[str, str], sides: tuple[Side, Side], least: int) -> RateGap:
    column, rate = of
    (group, readings), (against, others) = sides
    first, second = _rows(readings, rate), _rows(others, rate)
    found = share_gap(first, second)
    is_enough = min(len(set(first.clusters)), len(set(second.clusters))) >= least
    has_ends = is_enough and found.p is not None
    return RateGap(
        *(blank.task, blank.model, blank.variant, blank.decoding, blank.judge, blank.signature),
        *(column, rate, group, against, found.value),
        low=found.low if has_ends else None,
        high=found.high if has_ends else None,
        p=found.p if has_ends and rate != PRECISION else None,
        n=len(first.hits),
        n_against=len(second.hits),
        note=str(found.why or "") if is_enough else str(NoValue.TOO_FEW),
    )


def rates_name(rows: Sequence[RateRow]) -> str:
    """The name of the files of some rows: the task, and a digest of what they are told by."""
    of = sorted({(row.signature, row.column, row.score, repr(row.threshold)) for row in rows})
    return f"{rows[0].task}-{digest(of)[:8]}"
