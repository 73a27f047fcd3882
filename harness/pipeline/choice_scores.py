"""Frames of verdicts on choices to the numbers that only many together show.

A verdict without an answer is never a no, and counts as missing wherever it would have counted.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, permutations
from math import fsum
from typing import NamedTuple

import numpy as np

from harness.judges.gold import LABELLED, PLACE
from harness.lazy import DataFrame, pandas
from harness.pipeline.verdict_frame import IMPLICITNESS as IMPLICITNESS
from harness.pipeline.verdict_frame import detail, probabilities
from harness.specs.tasks import ClassesSpec, ImplicitnessSpec
from harness.stats import classification as stats
from harness.stats.estimate import Bools, Clusters, Estimate, Floats, Indices
from harness.stats.intervals import effective_n
from harness.stats.scales import exact_total

PERMUTED, CALIBRATION, FAVOURITE = "accuracy_permuted", "calibration_error", "most_frequent_choice"
HITS, FALSE_ALARMS = "tpr", "fpr"
"""The share of positive texts that are found, and of negative ones that are taken for positive."""
AUC, SLOPE, SLOPE_P, EFFECTIVE = "auc", "slope_{}", "slope_{}_p", "effective_n_{}"
RATES = (HITS, FALSE_ALARMS)
PRECISION, RECALL, F1, MACRO = "precision_{}", "recall_{}", "f1_{}", "macro_f1"
MISSED = "missed_{}"
TWO = "two_{}_{}"  # a rate of a label, then the one other label that counts: `two_f1_implicit_non`
BY = "{} {}"  # the group of verdicts by one text of a reference: `properties inference`


class Number(NamedTuple):
    """A number of several verdicts.

    `planned` has the places of the verdicts it is planned for, `counted` which of these it counts.
    """

    metric: str
    value: float | None
    planned: Indices
    counted: Bools
    low: float | None = None
    high: float | None = None
    group: str | None = None


def permuted(verdicts: DataFrame) -> Floats:
    """For each verdict, whether the choice that is likeliest over all orders is right; ties share.

    NaN for a sample if any of its verdicts has no probabilities: a preference for a place cancels
    out over all orders alone.
    """
    ids, sizes = verdicts["sample"].to_numpy(), verdicts["probabilities"].to_numpy()
    gold, found = verdicts["sample_gold"].to_numpy(), np.full(len(verdicts), np.nan)
    shares = probabilities(verdicts, int(sizes.max(initial=0)))
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    for orders in np.split(order, starts[1:]) if len(order) else ():
        if (sizes[orders] > 0).all():
            rows = [shares[at, : sizes[at]].tolist() for at in orders.tolist()]
            totals = [fsum(part) for part in zip(*rows, strict=True)]
            is_right = totals[gold[orders[-1]]] == max(totals)
            found[orders] = 1 / totals.count(max(totals)) if is_right else 0.0
    return found


def over_all(verdicts: DataFrame) -> Iterator[Number]:
    """The calibration error, by the likeliest choice, and the share of the favourite place."""
    places = np.arange(len(verdicts))
    sizes, gold = verdicts["probabilities"].to_numpy(), verdicts["sample_gold"].to_numpy()
    confidences, credits = [np.zeros(0)], [np.zeros(0)]
    for size in np.unique(sizes[sizes > 0]).tolist():
        own = np.flatnonzero(sizes == size)
        shares = probabilities(verdicts, size)[own]
        best = shares.max(axis=1)
        is_right = shares[np.arange(len(own)), gold[own]] == best
        confidences.append(best)
        credits.append(np.where(is_right, 1 / (shares == best[:, None]).sum(axis=1), 0.0))
    error = stats.calibration_error(np.concatenate(confidences), np.concatenate(credits))
    yield Number(CALIBRATION, error, places, sizes > 0)
    chosen = [detail(verdicts, name) for name in verdicts if name.startswith(PLACE)]
    has_choice = np.zeros(len(verdicts), dtype=bool)
    has_choice |= np.any([~np.isnan(share) for share in chosen], axis=0)
    counts = [exact_total(np.nan_to_num(share)) for share in chosen]
    favourite = max(counts) / int(has_choice.sum()) if has_choice.any() else None
    yield Number(FAVOURITE, favourite, places, has_choice)


def chance(choices: Indices) -> float:
    """What a blind choice gets on average: one over the number of choices, of each sample."""
    sizes, counts = np.unique(choices, return_counts=True)
    pairs = zip(sizes.tolist(), counts.tolist(), strict=True)
    # Exactly, and rounded once, as the sum of all of them would be.
    return float(sum(count * Fraction(1 / size) for size, count in pairs)) / len(choices)


def flags(verdicts: DataFrame, positive: Sequence[str]) -> DataFrame:
    """Verdicts on texts as flags, a row each; `positive` are the labels to find.

    `is_positive`; `at`, how implicit the text is; `flagged`, 1, 0 or a tie's share; `sure`, the
    probability of being flagged; `cluster`. NaN is not known.
    """
    columns = {
        "is_positive": are_positive(verdicts, positive),
        "at": verdicts[f"sample_{IMPLICITNESS}"].to_numpy(),
        "flagged": _summed(verdicts, LABELLED[0], positive),
        "sure": _summed(verdicts, LABELLED[1], positive),
        "cluster": verdicts["cluster"].to_numpy(),
    }
    return pandas.DataFrame(columns)


def are_positive(verdicts: DataFrame, positive: Sequence[str]) -> Bools:
    """Whether the right label of each text is one of `positive`."""
    labels = labels_of(verdicts)
    wanted = [at for at, label in enumerate(labels) if label in positive]
    return np.isin(gold_labels(verdicts, labels), wanted)


def _summed(verdicts: DataFrame, prefix: str, positive: Sequence[str]) -> Floats:
    """The sum of what was given to the positive labels of each text; NaN if one has no number."""
    column = verdicts["sample_labels"].cat
    total, has_any = np.zeros(len(verdicts)), np.zeros(len(verdicts), dtype=bool)
    for label in positive:
        has = np.array([label in labels for labels in column.categories], dtype=bool)[column.codes]
        total += np.where(has, detail(verdicts, prefix + label), 0.0)
        has_any |= has
    return np.where(has_any, total, np.nan)


def labels_of(verdicts: DataFrame) -> list[str]:
    """The labels of the choices, in the order of their first appearance."""
    found = verdicts["sample_labels"].unique()
    return list(dict.fromkeys(label for labels in found for label in labels))


def gold_labels(verdicts: DataFrame, labels: Sequence[str]) -> Indices:
    """The place of each right label among `labels`; -1 where choices have no labels."""
    column, gold = verdicts["sample_labels"].cat, verdicts["sample_gold"].to_numpy()
    codes = column.codes.to_numpy()
    places = {label: at for at, label in enumerate(labels)}
    found = np.full(len(verdicts), -1, dtype=np.intp)
    for code in np.unique(codes).tolist():
        own = (codes == code) & (gold >= 0)
        if kinds := column.categories[code]:
            found[own] = np.array([places.get(label, -1) for label in kinds])[gold[own]]
    return found


def given_labels(verdicts: DataFrame, labels: Sequence[str]) -> Floats:
    """How far each label was given, 0 to 1: rows x labels."""
    given = [np.nan_to_num(detail(verdicts, LABELLED[0] + label)) for label in labels]
    return np.stack(given, axis=1) if given else np.zeros((len(verdicts), 0))


class Part(NamedTuple):
    """The flags of one bin; `low` and `high` are its edges, None for all of them."""

    group: str
    flags: DataFrame
    low: float | None = None
    high: float | None = None
    is_equal_mass: bool = False


def parts(flags: DataFrame, spec: ImplicitnessSpec, *, everything: str) -> list[Part]:
    """All flags, the published bins and the bins of equal size, empty ones left out."""
    values = flags["at"].to_numpy()
    found = [Part(everything, flags)]
    equal = stats.equal_mass_edges(values[~np.isnan(values)], spec.equal_mass)
    for is_equal_mass, edges in ((False, stats.PUBLISHED_EDGES), (True, equal)):
        bins = stats.bins_of(values, edges)
        for place, (low, high) in enumerate(pairwise(edges)):
            digits, end = 3 if is_equal_mass else 2, "]" if high == edges[-1] else ")"
            rank = f" {place + 1} of {len(edges) - 1}" if is_equal_mass else ""
            name = f"{IMPLICITNESS}{rank} [{low:.{digits}f},{high:.{digits}f}{end}"
            found.append(Part(name, flags[bins == place], low, high, is_equal_mass))
    return [part for part in found if len(part.flags)]


def of_rate(part: Part, rate: str) -> DataFrame:
    """The flags of a part's positive texts, for hits, or of negative ones, for false alarms."""
    return part.flags[part.flags["is_positive"] == (rate == HITS)]


def answered(flags: DataFrame, *also: str) -> DataFrame:
    """Those flags that have an answer, and a number in some other columns."""
    return flags.dropna(subset=["flagged", *also])


def originals(flags: DataFrame) -> Clusters:
    """The originals behind some flags."""
    return Clusters.named(flags["cluster"].to_numpy())


def is_enough(part: Part, flags: DataFrame, least: int) -> bool:
    """Whether some texts of a part have a rate: all together, or enough answered originals."""
    if part.low is None or flags.empty:
        return not flags.empty
    return originals(answered(flags)).clusters >= least


def detection_numbers(part: Part, spec: ImplicitnessSpec) -> Iterator[Number]:
    """The numbers of a part that are no mean: effective n, AUC and, of all flags, the slopes."""
    of_rates = {rate: of_rate(part, rate) for rate in RATES}
    for rate, planned in of_rates.items():
        places, is_known = planned.index.to_numpy(), planned["flagged"].notna().to_numpy()
        known = planned[is_known]
        size = effective_n(known["flagged"].to_numpy(), known["cluster"].to_numpy())
        if len(planned):
            yield Number(EFFECTIVE.format(rate), size, places, is_known)
        is_at = is_known & planned["at"].notna().to_numpy() & (part.low is None)
        if is_at.any():
            found = planned[is_at]
            slope = stats.trend(
                found["at"].to_numpy(), found["flagged"].to_numpy(), originals(found)
            )
            yield _number(SLOPE.format(rate), slope, places, is_at)
            yield Number(SLOPE_P.format(rate), slope.p, places, is_at & (slope.p is not None))
    if all(is_enough(part, flags, spec.least) for flags in of_rates.values()):
        known = answered(part.flags)
        scores = known["flagged" if known["sure"].isna().any() else "sure"].to_numpy()
        area = stats.auc(scores, known["is_positive"].to_numpy(), originals(known))
        is_known = part.flags["flagged"].notna().to_numpy()
        yield _number(AUC, area, part.flags.index.to_numpy(), is_known)


def _number(metric: str, found: Estimate, planned: Indices, counted: Bools) -> Number:
    is_there = found.value is not None
    return Number(metric, found.value, planned, counted & is_there, found.low, found.high)


def class_numbers(verdicts: DataFrame, spec: ClassesSpec) -> Iterator[Number]:
    """Precision, recall and F1 of each label, their mean F1, and counts of what was missed.

    The counts also by each text of the reference `by`, as a group. A tie is a share.
    """
    labels = labels_of(verdicts)
    gold, chosen = gold_labels(verdicts, labels), given_labels(verdicts, labels)
    is_known = np.asarray((chosen > 0).any(axis=1), dtype=bool)
    if labels:
        yield from _class_rates(labels, gold, chosen, verdicts["cluster"].to_numpy())
        yield from _of_two(labels, gold, chosen, verdicts["cluster"].to_numpy())
    codes, kinds = verdicts["sample_parts"].cat.codes, verdicts["sample_parts"].cat.categories
    for at, label in enumerate(labels):
        places = np.flatnonzero(gold == at)
        if label not in spec.missed or not len(places):
            continue
        texts = [kinds[code] for code in codes.iloc[places]]
        for part in (None, *sorted({text for some in texts for text in some})):
            inside = np.array([part is None or part in some for some in texts], dtype=bool)
            own = places[inside]
            missed = 1 - chosen[own, at][is_known[own]]
            value = exact_total(missed) if len(missed) else None
            found = Number(MISSED.format(label), value, own, is_known[own])
            yield found if part is None else found._replace(group=BY.format(spec.by, part))


def _of_two(
    labels: Sequence[str], gold: Indices, chosen: Floats, clusters: Indices
) -> Iterator[Number]:
    """The rates of each two labels of three or more, as if there were no others.

    Of texts whose label and whose answer are of the two (ISHate, section 5.2: only so do the F1 of
    .670 and .850 follow from its Table 3).
    """
    for pair in permutations(range(len(labels)), 2) if len(labels) > 2 else ():
        own = chosen[:, pair]
        is_of_two = np.isin(gold, pair) & (own.sum(axis=1) == chosen.sum(axis=1))
        rows = np.flatnonzero(is_of_two)
        names = [labels[at] for at in pair]
        places = np.where(gold[rows] == pair[0], 0, 1)
        for found in _class_rates(names, places, own[rows], clusters[rows]):
            if found.metric.endswith(f"_{names[0]}"):
                metric = TWO.format(found.metric, names[1])
                yield found._replace(metric=metric, planned=rows[found.planned])


def _class_rates(
    labels: Sequence[str], gold: Indices, chosen: Floats, clusters: Indices
) -> Iterator[Number]:
    is_planned, is_known = gold >= 0, np.asarray((chosen > 0).any(axis=1), dtype=bool)
    counted = np.flatnonzero(is_planned & is_known)
    actual = stats.one_hot(gold[counted], len(labels))
    own = Clusters.named(clusters[counted])
    classes, macro = stats.classification_metrics(actual, chosen[counted], own)
    is_lost = is_planned & ~is_known
    for place, (label, figures) in enumerate(zip(labels, classes, strict=True)):
        of_label = gold == place
        is_chosen = is_planned & is_known & (chosen[:, place] > 0)
        for metric, figure, some in (
            (PRECISION, figures.precision, is_chosen | is_lost),
            (RECALL, figures.recall, of_label),
            (F1, figures.f1, is_chosen | of_label | is_lost),
        ):
            places = np.flatnonzero(some)
            yield _number(metric.format(label), figure, places, is_known[places])
    places = np.flatnonzero(is_planned)
    yield _number(MACRO, macro, places, is_known[places])
