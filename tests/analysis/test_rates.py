"""Stored verdicts to rates by columns, gaps between groups, and operating points."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest
from pandas import DataFrame
from support.each import rest_slow
from support.hate_rows import text, written

from harness.analysis.flags import RateQuery, flags, sample_cells
from harness.analysis.rates import gaps as gaps_of
from harness.analysis.rates import missing_notes
from harness.analysis.rates import rates as rates_of
from harness.core import Sample
from harness.errors import SpecError, StoreError
from harness.parts import Reason
from harness.storage.frames import plain_rows
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import RunFolder


def told(row: SampleRecord, **references: Sequence[str]) -> SampleRecord:
    """A row whose sample has further columns."""
    kept = {name: tuple(texts) for name, texts in references.items()}
    sample: Sample = replace(row.sample, references={**row.sample.references, **kept})
    return replace(row, sample=sample)


def some(
    count: int, flagged: int, *, is_hateful: bool, target: str, source: str = "a"
) -> list[SampleRecord]:
    return [
        told(
            text(
                f"{target}{source}{is_hateful}{n}",
                is_hateful=is_hateful,
                at=n / count,
                said=float(n < flagged),
                sure=(n + 0.5) / count,
            ),
            target=[target],
            source=[source],
        )
        for n in range(count)
    ]


ROWS = [
    *some(40, 30, is_hateful=True, target="left"),
    *some(20, 4, is_hateful=False, target="left"),
    *some(40, 12, is_hateful=True, target="right", source="b"),
    *some(20, 16, is_hateful=False, target="right", source="b"),
]


def table(folder: RunFolder, query: RateQuery) -> tuple[DataFrame, RateQuery, DataFrame]:
    return flags(folder, query), query, sample_cells(folder)


def rates(folder: RunFolder, query: RateQuery) -> dict[tuple[str, str], SimpleNamespace]:
    rows = [SimpleNamespace(**row) for row in plain_rows(rates_of(*table(folder, query)))]
    return {(row.group, row.rate): row for row in rows if row.column == (query.by or ("",))[0]}


def gaps(folder: RunFolder, query: RateQuery) -> list[SimpleNamespace]:
    return [SimpleNamespace(**row) for row in plain_rows(gaps_of([table(folder, query)]))]


def test_rates_by_a_column_are_those_counted_by_hand() -> None:
    found = rates(written(ROWS), RateQuery(by=("target",)))

    values = {of: (row.value, row.n) for of, row in found.items()}
    assert values == {
        ("left", "tpr"): (0.75, 40),
        ("left", "fpr"): (0.2, 20),
        ("left", "precision"): (30 / 34, 34),
        ("right", "tpr"): (0.3, 40),
        ("right", "fpr"): (0.8, 20),
        ("right", "precision"): (12 / 28, 28),
    }
    # Wilson's interval of 30 of 40, by hand.
    assert (found["left", "tpr"].low, found["left", "tpr"].high) == pytest.approx(
        (0.5981, 0.8581), abs=1e-4
    )


def test_a_gap_of_two_groups_stands_once_with_interval_and_holm() -> None:
    found = {gap.rate: gap for gap in gaps(written(ROWS), RateQuery(by=("target",)))}

    assert {rate: (gap.group, gap.against) for rate, gap in found.items()} == dict.fromkeys(
        ("tpr", "fpr", "precision"), ("left", "right")
    )
    assert found["tpr"].gap == pytest.approx(0.45)
    for gap in (found["tpr"], found["fpr"]):
        assert gap.low is not None
        assert gap.high is not None
        assert gap.p is not None
        assert gap.p_holm is not None
        assert (gap.p < 0.05) == (gap.low > 0 or gap.high < 0)
        assert gap.p <= gap.p_holm <= 2 * gap.p
        assert gap.tests == 2


def test_a_gap_of_precision_is_shown_and_not_tested() -> None:
    """A coin flags half of every kind; 80 and 20 of 100 texts of two groups are hateful."""
    rows = [
        told(text(f"{side}{n}", is_hateful=n < many, at=0.5, said=float(n % 2)), target=[side])
        for side, many in (("left", 80), ("right", 20))
        for n in range(100)
    ]

    found = {gap.rate: gap for gap in gaps(written(rows), RateQuery(by=("target",)))}

    assert found["precision"].gap == pytest.approx(0.6)
    assert found["precision"].low is not None
    assert (found["precision"].p, found["precision"].p_holm) == (None, None)
    assert {found[rate].p for rate in ("tpr", "fpr")} == {1.0}


def test_of_three_groups_each_is_compared_with_the_rest() -> None:
    rows = [*ROWS, *some(40, 20, is_hateful=True, target="up")]

    rest = gaps(written(rows), RateQuery(by=("target",)))

    assert [g.group for g in rest if g.rate == "tpr"] == ["left", "right", "up"]
    assert {g.against for g in rest} == {"the rest"}
    [up] = [g for g in rest if (g.rate, g.group) == ("tpr", "up")]
    assert up.gap == pytest.approx(0.5 - 42 / 80)
    assert up.n_against == 80


def test_cells_are_of_no_group_of_several_or_crossed() -> None:
    rows = [*ROWS, text("bare", is_hateful=True, at=0.1, said=1.0)]
    rows.append(told(text("both", is_hateful=True, at=0.1, said=1.0), target=["left", "right"]))
    found = rates(written(rows), RateQuery(by=("target",)))
    assert {group for group, _ in found} == {"left", "right"}
    assert (found["left", "tpr"].n, found["right", "tpr"].n) == (41, 41)

    found = rates(written(ROWS), RateQuery(by=("target+source",)))
    assert {group for group, _ in found} == {"left + a", "right + b"}


def test_a_missing_answer_is_no_unflagged_text() -> None:
    rows = [*ROWS, *[text(f"m{n}", is_hateful=True, at=0.1, said=Reason.REFUSED) for n in range(5)]]
    found = rates(written(rows), RateQuery())

    assert (found["all", "tpr"].n, found["all", "tpr"].missing) == (80, 5)
    assert (found["all", "fpr"].missing, found["all", "precision"].missing) == (0, 5)


def test_missing_answers_are_counted_by_label_with_a_word_where_labels_differ() -> None:
    def lost(every: int) -> list[SampleRecord]:
        """Of the hateful texts each so many-th is refused, of the others each fourth."""
        return [
            text(
                f"{n}",
                is_hateful=n < 60,
                at=0.5,
                said=Reason.REFUSED if n % (every if n < 60 else 4) == 0 else 1.0,
            )
            for n in range(120)
        ]

    tables = [table(written(lost(every)), RateQuery()) for every in (1, 4)]
    assert missing_notes(tables[1:]) == [
        "small, base: 15 texts to detect and 15 others are missing"
    ]
    [note, _] = missing_notes(tables)
    assert note.startswith(
        "small, base: 60 texts to detect and 15 others are missing, unlike shares (p <"
    )
    assert missing_notes([table(written(ROWS), RateQuery())]) == []


def test_a_group_without_answers_of_a_kind_has_no_rate_and_says_why() -> None:
    rows = [*ROWS, *some(12, 3, is_hateful=False, target="new")]
    rows.append(told(text("n", is_hateful=True, at=0.1, said=Reason.FAILED), target=["new"]))

    found = rates(written(rows), RateQuery(by=("target",)))

    assert (found["new", "tpr"].value, found["new", "tpr"].note) == (None, "none answered")
    row = found["new", "precision"]
    assert (row.value, row.note) == (None, "texts of one kind")
    of_new = [g for g in gaps(written(rows), RateQuery(by=("target",))) if g.group == "new"]
    assert {gap.rate for gap in of_new} == {"fpr"}


def test_a_gap_of_few_originals_has_no_test() -> None:
    copies = [replace(r, sample=replace(r.sample, cluster=f"c{n % 4}")) for n, r in enumerate(ROWS)]
    found = gaps(written(copies), RateQuery(by=("target",)))
    assert {(gap.p, gap.low, gap.note) for gap in found} == {(None, None, "too few")}


def test_a_threshold_flags_by_any_score_that_answers_have() -> None:
    query = RateQuery(score="probability", threshold=0.75)
    found = rates(written(ROWS), query)
    assert (found["all", "tpr"].value, found["all", "fpr"].value) == (0.25, 0.25)
    by_implicitness = RateQuery(score="implicitness", threshold=0.5)
    assert rates(written(ROWS), by_implicitness)["all", "tpr"].value == 0.5

    with pytest.raises(SpecError, match=r"no answer of .* has it.*implicitness"):
        flags(written(ROWS), RateQuery(score="sexual", threshold=0.5))

    rows = [
        replace(row, steps=(replace(row.steps[-1], detail={"violence": n / 120}),))
        for n, row in enumerate(ROWS)
    ]
    found = rates(written(rows), RateQuery(score="violence", threshold=0.5))
    assert (found["all", "tpr"].value, found["all", "fpr"].value) == (0.5, 0.5)


def scored(count: int, seed: int) -> list[SampleRecord]:
    draw = np.random.default_rng(seed)
    kinds = [n % 2 == 0 for n in range(count)]
    sure = [1 / (1 + np.exp(-draw.normal(1.5 if kind else -1.5, 1))) for kind in kinds]
    return [
        text(f"{seed}-{n}", is_hateful=kind, at=0.5, said=float(one > 0.5), sure=float(one))
        for n, (kind, one) in enumerate(zip(kinds, sure, strict=True))
    ]


def test_an_operating_point_is_chosen_on_texts_that_are_not_measured() -> None:
    query = RateQuery(fpr=0.1)

    found = {rate: row for (_, rate), row in rates(written(scored(400, 1)), query).items()}

    assert (found["fpr"].n, found["tpr"].n) == (100, 200)
    said = "100 benign texts of 100 originals (half of this run, by seed 0)"
    assert said in found["fpr"].chosen_on
    assert found["fpr"].low is not None
    assert found["fpr"].high is not None
    assert found["fpr"].low <= 0.1 <= found["fpr"].high


def test_models_are_compared_at_thresholds_of_their_own_and_not_across_ways_of_asking() -> None:
    query, runs = RateQuery(fpr=0.1), [scored(200, seed) for seed in (1, 1, 2)]
    worse = [replace(row, verdicts=runs[2][n].verdicts) for n, row in enumerate(runs[1])]
    first, (texts, *rest) = (table(written(own), query) for own in (runs[0], worse))
    signed = {at: texts["signature"].str.replace(*at) for at in (("small", "other"), ("s0", "s1"))}
    tables = [first, (texts.assign(model="other", signature=signed["small", "other"]), *rest)]

    [row] = gaps_of(tables).itertuples()

    assert (row.column, row.rate, row.n, row.tests) == ("(models)", "tpr", 100, 1)
    assert row.against == "other"
    assert row.note == "at an FPR of 0.1 of all benign texts"
    assert row.low <= row.gap <= row.high
    assert 0.05 < row.p <= 1
    assert len(gaps_of(tables[:1])) == 0
    apart = [(own.assign(variant=str(n)), query, cells) for n, (own, _, cells) in enumerate(tables)]
    assert len(gaps_of(apart)) == 0
    unlike = first[0].assign(signature=first[0]["signature"].str.replace("data:", "data:9"))
    assert len(gaps_of([(unlike, *first[1:]), tables[1]])) == 0
    seeds = [first, (texts.assign(signature=signed["s0", "s1"]), *rest)]
    [row] = gaps_of(seeds).itertuples()
    assert (row.group, row.against) == ("small, seed 0", "small, seed 1")
    silent = [(own.assign(flagged=np.nan), query, cells) for own, _, cells in seeds]
    assert [note.partition(":")[0] for note in missing_notes(silent)] == [
        *("small, seed 0", "small, seed 1")
    ]
    others = texts.assign(model="other", signature=signed["small", "other"])
    [row] = gaps_of([first, (others.assign(sample=others["sample"] + "b"), *rest)]).itertuples()
    assert row.note == "at an FPR of 0.1 of all benign texts; no text that both have scored"
    assert np.isnan(row.gap)


@pytest.mark.slow
def test_a_plain_gap_of_models_is_seen_among_the_gaps_of_many_groups() -> None:
    kinds, query = np.arange(400) % 2 == 0, RateQuery(fpr=0.1, by=("target",), least=3)
    tables = []
    for model, high in (("small", 3), ("other", 0)):
        sure = np.random.default_rng(high).normal(high * kinds).tolist()
        rows = [
            told(
                text(f"{n}", is_hateful=n % 2 == 0, at=0.5, said=1.0, sure=1 / (1 + 2.0**-one)),
                target=[f"{n // 2 % 20}"],
            )
            for n, one in enumerate(sure)
        ]
        texts, *rest = table(written(rows), query)
        named = texts["signature"].str.replace("small", model)
        tables.append((texts.assign(model=model, signature=named), *rest))

    found = gaps_of(tables)

    [row] = found[found["column"] == "(models)"].itertuples()
    assert row.tests > 60
    assert row.p_holm < 0.05


def test_where_it_is_chosen_the_rate_is_kept_and_a_lower_threshold_breaks_it() -> None:
    chosen, other = scored(300, 1), scored(300, 2)
    on = written(other, digest="b" * 64)

    texts = flags(written(chosen), RateQuery(fpr=0.07, chosen_on=on))

    benign = sorted(
        (r.verdicts["gold"].detail["prob_label_hateful"] for r in other if r.sample.gold == "no"),
        reverse=True,
    )
    [threshold] = texts["threshold"].unique()
    # A further text is above with a chance of (9 + 1) / 151, at most .07, and 11 / 151 is more.
    assert sum(one >= threshold for one in benign) == 9
    assert sum(one >= benign[9] for one in benign) == 10
    # Ends of a beta distribution of 10 and 141.
    assert "the true FPR lies between 0.032 and 0.111" in texts["chosen_on"].iloc[0]
    assert texts["is_measured"].sum() == 300
    assert "bbbb" in texts["chosen_on"].iloc[0]


def test_a_threshold_is_not_measured_on_the_texts_it_was_chosen_on() -> None:
    run = written(scored(40, 1))
    with pytest.raises(SpecError, match=r"20 texts of run .* are measured too"):
        flags(run, RateQuery(fpr=0.1, chosen_on=run))


@pytest.mark.parametrize("fpr", [0.0, 1.0, -0.1])
def test_an_impossible_false_alarm_rate_is_refused(fpr: float) -> None:
    with pytest.raises(SpecError, match="--fpr"):
        RateQuery(fpr=fpr)


def test_unknown_and_too_fine_columns_are_refused() -> None:
    run = written(ROWS)
    with pytest.raises(SpecError, match=r"no column 'targte'.*did you mean target"):
        gaps(run, RateQuery(by=("targte",)))
    with pytest.raises(SpecError, match="--positive hate: no such label"):
        flags(run, RateQuery(positive=("hate",)))
    with pytest.raises(StoreError, match="judge silver has read none"):
        flags(run, RateQuery(judge="silver"))

    rows = [told(row, name=[row.sample.id]) for row in ROWS]
    with pytest.raises(SpecError, match="has 120 values, and rates are split by 100 at most"):
        rates(written(rows), RateQuery(by=("name",)))


CURVE = NormalDist()


def mixed(hateful: int, benign: int, seed: int) -> list[SampleRecord]:
    """Texts with probabilities of being hateful, those of hateful ones higher on average."""
    draw = np.random.default_rng(seed)
    kinds = [True] * hateful + [False] * benign
    scores = draw.normal([1.0 if is_hateful else 0.0 for is_hateful in kinds])
    return [
        text(f"t{n}", is_hateful=kind, at=0.5, said=0.0, sure=float(1 / (1 + np.exp(-score))))
        for n, (kind, score) in enumerate(zip(kinds, scores, strict=True))
    ]


@pytest.mark.parametrize("runs", rest_slow([12, 60], kept=0))
def test_precision_at_a_wanted_rate_is_that_of_all_texts(runs: int) -> None:
    """Half of the benign texts choose the threshold, so that each of the rest counts for two."""
    wrong, covered = [], 0
    for seed in range(runs):
        run = written(mixed(40, 160, seed))
        query = RateQuery(fpr=0.2, seed=seed)
        chosen = {rate: row for (_, rate), row in rates(run, query).items()}
        same = RateQuery(threshold=chosen["precision"].threshold)
        whole = rates(run, same)["all", "precision"]
        row = chosen["precision"]
        assert row.value is not None
        assert whole.value is not None
        assert row.low is not None
        assert row.high is not None
        wrong.append(row.value - whole.value)
        # Of infinitely many such texts: the share of hateful ones above the threshold.
        sure = row.threshold or 0.5
        cut = float(np.log(sure / (1 - sure)))
        hits, false = (0.2 * (1 - CURVE.cdf(cut - 1)), 0.8 * (1 - CURVE.cdf(cut)))
        covered += row.low <= hits / (hits + false) <= row.high
    assert abs(np.mean(wrong)) < 0.02  # without weights it is .17 too high
    assert covered >= 0.9 * runs


def test_the_weights_of_a_halved_run_are_told_with_both_numbers_of_texts() -> None:
    query = RateQuery(fpr=0.1)
    run = written(mixed(40, 160, 1))

    texts = flags(run, query)

    measured = texts[texts["is_measured"]]
    assert (len(measured), len(texts)) == (120, 200)
    pairs = set(zip(measured["is_positive"], measured["weight"], strict=True))
    assert pairs == {(True, 1.0), (False, 2.0)}
    row = rates(run, query)["all", "tpr"]
    assert (row.texts, row.measured, row.benign_weight) == (200, 120, 2.0)


def test_hateful_texts_of_a_drawn_original_count_as_its_benign_ones_do() -> None:
    """An original that has texts of both kinds is left out whole in half of all draws."""
    rows = [
        row
        for n in range(60)
        for row in (
            text(f"h{n}", is_hateful=True, at=0.5, said=1.0, sure=0.9, cluster=f"c{n}"),
            text(f"b{n}", is_hateful=False, at=0.5, said=0.0, sure=0.1, cluster=f"c{n}"),
            text(f"a{n}", is_hateful=True, at=0.5, said=0.0, sure=0.0),
        )
    ]
    query = RateQuery(fpr=0.1)
    found = rates(written(rows), query)

    assert found["all", "tpr"].value == 0.5
