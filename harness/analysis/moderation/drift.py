"""Two sets of texts, or two runs, to how far implicitness and rates have moved, with one alarm.

The distribution of implicitness and every rate are tested; Holm's method corrects all tests
together, so that data without any drift raises the alarm once in twenty times at most.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from harness.analysis.moderation.flags import Flagged
from harness.analysis.rates import GROUP, MOST_VALUES, Columns
from harness.data.choices import LABELS
from harness.errors import SpecError
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS, IMPLICITNESS
from harness.pipeline.score import ALL
from harness.stats.clustered import ShareRows, share_gap, share_interval
from harness.stats.comparison import holm
from harness.stats.estimate import NoValue
from harness.stats.shift import Numbers, mean_shift, shift_test

FLAGGED: Final = "flagged"
ALARM: Final = 0.05


@dataclass(frozen=True, slots=True)
class DriftText:
    """One text: its implicitness, how far it was flagged, and its values in some columns.

    None where one is not known. `cluster` is shared by texts of the same words. `is_positive` is
    None for texts without a label; their one rate is the share that is flagged.
    """

    cluster: str
    implicitness: float | None = None
    flagged: float | None = None
    is_positive: bool | None = None
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Drift:
    """What has moved: implicitness (its mean), or a rate of a group; 0 to 1 but for implicitness.

    `change` is new less old, with its 95 % interval. `distance` is Kolmogorov and Smirnov's, 0 to
    1, of the two distributions of implicitness, None for rates; p is that of the distribution, or
    of the change of a rate. `p_holm` is corrected for all `tests`. Values are None without texts,
    and p where `note` says why.
    """

    what: str
    column: str
    group: str
    old: float | None
    new: float | None
    change: float | None
    low: float | None
    high: float | None
    distance: float | None
    p: float | None
    n_old: int
    n_new: int
    p_holm: float | None = None
    tests: int = 0
    note: str = ""

    @property
    def is_alarm(self) -> bool:
        """Whether it has moved, beyond chance over all tests."""
        return self.p_holm is not None and self.p_holm < ALARM


def drift_rows(
    old: Sequence[DriftText],
    new: Sequence[DriftText],
    *,
    by: Sequence[str] = (),
    seed: int = 0,
    least: int = 10,
) -> list[Drift]:
    """Implicitness first, then each rate of all texts, then by each column's groups.

    A rate needs `least` clusters on both sides to be tested, and a group texts on both. SpecError
    for a column of more values than groups can have.
    """
    found = [row for row in [_implicitness(old, new, seed)] if row is not None]
    found += _rates("", ALL, old, new, least=least)
    for column in by:
        groups = sorted({name for text in (*old, *new) for name in text.groups.get(column, ())})
        if len(groups) > MOST_VALUES:
            raise SpecError(
                f"--by {column}: it has {len(groups)} values, and drift is split by {MOST_VALUES} "
                "at most; name a column of fewer, such as the target or the source of texts"
            )
        for name in groups:
            sides = [[t for t in side if name in t.groups.get(column, ())] for side in (old, new)]
            found += _rates(column, name, *sides, least=least)
    corrected = holm([row.p for row in found])
    tests = sum(row.p is not None for row in found)
    return [replace(row, p_holm=p, tests=tests) for row, p in zip(found, corrected, strict=True)]


def run_texts(readings: Iterable[Flagged], columns: Columns) -> list[DriftText]:
    """The texts of a run's readings, with what their samples keep and further `columns`."""
    found = []
    for one in readings:
        sample = one.record.sample
        measured = sample.references.get(IMPLICITNESS, ())
        kept = {n: texts for n, texts in sample.references.items() if n != LABELS}
        found.append(
            DriftText(
                sample.cluster,
                float(measured[0]) if measured else None,
                one.flagged,
                one.is_positive,
                {**kept, GROUP: (sample.group,), **columns.get(sample.id, {})},
            )
        )
    return found


def _implicitness(old: Sequence[DriftText], new: Sequence[DriftText], seed: int) -> Drift | None:
    sides = []
    for texts in (old, new):
        known = [text for text in texts if text.implicitness is not None]
        values = [text.implicitness or 0.0 for text in known]
        sides.append(Numbers(values, [text.cluster for text in known]))
    before, after = sides
    if not before.values or not after.values:
        return None
    found, test = mean_shift(before, after), shift_test(before, after, seed=str(seed))
    means = [sum(side.values) / len(side.values) for side in sides]
    return Drift(
        *(IMPLICITNESS, "", ALL, means[0], means[1], found.value),
        low=found.low,
        high=found.high,
        distance=test.statistic,
        p=test.p,
        n_old=len(before.values),
        n_new=len(after.values),
        note=str(found.why or test.reason or ""),
    )


def _rates(
    column: str,
    group: str,
    old: Sequence[DriftText],
    new: Sequence[DriftText],
    *,
    least: int,
) -> list[Drift]:
    has_labels = any(text.is_positive is not None for text in (*old, *new))
    found = []
    for rate in (HITS, FALSE_ALARMS) if has_labels else (FLAGGED,):
        before, after = (_shares(texts, rate) for texts in (old, new))
        if not before.hits or not after.hits:
            continue
        values = [share_interval(rows).value for rows in (before, after)]
        gap = share_gap(after, before)
        is_enough = min(len({*rows.clusters}) for rows in (before, after)) >= least
        has_test = is_enough and gap.p is not None
        note = gap.why if is_enough else NoValue.TOO_FEW
        found.append(
            Drift(
                *(rate, column, group, values[0], values[1], gap.value),
                low=gap.low if has_test else None,
                high=gap.high if has_test else None,
                distance=None,
                p=gap.p if has_test else None,
                n_old=len(before.hits),
                n_new=len(after.hits),
                note=str(note or ""),
            )
        )
    return found


def _shares(texts: Sequence[DriftText], rate: str) -> ShareRows:
    known = [
        text
        for text in texts
        if text.flagged is not None and (rate == FLAGGED or text.is_positive is (rate == HITS))
    ]
    flags = [text.flagged or 0.0 for text in known]
    return ShareRows(flags, [1.0] * len(known), [text.cluster for text in known])
