"""The rows of a comparison: tables, differences and tests beside sums done by hand."""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from scipy import stats
from support import paired_runs
from support.each import each
from support.paired_runs import GOLD, NEAR, between, chosen, sample, stored, within, words_task
from support.run_tables import score_rows

from harness.analysis import pairings
from harness.analysis.compare import compare, comparison_name
from harness.analysis.flips import KEEPING, OTHERS, flip_rates
from harness.analysis.pairings import Judges, Pairings
from harness.core import Sample
from harness.errors import SpecError, StoreError
from harness.pipeline.transforms import BY, FROM, KEEPS
from harness.stats.comparison import holm
from harness.storage.frames import Row, records
from harness.storage.runs import JudgeEntry, StoredRun

# Of eight items: know right in 0-5, and a tie at 7; act right in 0-1, a tie at 5, missing at 6.
KNOW, ACT = [0.9] * 6 + [0.1, 0.5], "110000.1"


def rows_of(found: Pairings) -> list[Row]:
    return records(compare(found[0]))


def know_and_act(act: str = ACT, *more: str) -> list[Row]:
    """The rows of eight choices against as many responses at one or more temperatures."""
    levels = {("base", f"T0.{n}", "near"): line for n, line in enumerate((act, *more), 3)}
    words = stored(words_task(), levels)
    return rows_of(between(chosen([KNOW, KNOW]), words))


def counts(row: Row) -> tuple[int | None, ...]:
    return row.both, row.only_a, row.only_b, row.neither, row.ties


def within_rows(
    gaps: bool = True, judges: Sequence[JudgeEntry] = (NEAR,), **levels: str
) -> list[Row]:
    """The rows within a run at one temperature; a level's judge stands behind two underscores."""
    found = {
        (name.split("__")[0], "T0.3", name.partition("__")[2].replace("_", "-") or "near"): line
        for name, line in levels.items()
    }
    run = stored(words_task() if gaps else words_task(gaps={}), found, judges=judges)
    return rows_of(within(run))


def test_ties_and_missing_are_of_the_fourfold_table_and_p_is_mcnemars() -> None:
    row = know_and_act("11000=.1")[0]
    assert counts(row) == (2, 3, 0, 0, 2)
    assert (row.items, row.n, row.missing_a, row.missing_b) == (8, 7, 0, 1)

    row = know_and_act("11000000")[0]
    assert counts(row) == (2, 4, 0, 1, 1)
    # Four items and a half of a tie are right in the first alone, and none in the second.
    assert row.p == pytest.approx(2 * stats.t.sf(4.5 / sqrt(4.5), 7))


def test_a_missing_order_counts_as_wrong_by_itself() -> None:
    sides = chosen([[None, 0.9] * 6, [0.9] * 12]), chosen([[0.9] * 12] * 2)
    runs = [replace(paired_runs.compared(run), is_wrong=True) for run in sides]

    row = next(r for r in rows_of(pairings.between(runs[0], runs[1])) if r.variant_a == "all")

    assert (row.mean_a, row.mean_b, row.n, row.missing_a, row.missing_b) == (0.75, 1, 12, 6, 0)
    assert (row.least, row.most) == (row.low, row.high)


def test_a_judge_without_a_least_value_is_left_out_where_missing_verdicts_are_wrong() -> None:
    own = JudgeEntry("own", "warmth", "own:00|mine")
    readings = {("base", "T0.3", name): "10.1" for name in ("near", "own")}
    run, lone = (stored(words_task(gaps={}), readings, judges=j) for j in ((NEAR, own), (own,)))
    several, alone = between(run, run)[0], between(lone, lone)[0]

    kept, notes = pairings.of_known_least(several)

    assert [pair.first.judge.name for pair in kept] == ["near"]
    assert notes == ["--missing wrong: of warmth by own no least value is known: left out"]
    with pytest.raises(SpecError, match="name another judge"):
        pairings.of_known_least(alone)


MODEL = stored(words_task(), {("base", "T0.3", "near"): "1"}).file.model


def test_means_are_the_accuracies_of_the_scores_where_nothing_is_missing() -> None:
    levels = {("base", "T0.3", "near"): "1=0011", ("cot5", "T0.3", "near"): "111=01"}
    run = stored(words_task(), levels)
    scores = {
        row.score.variant: row.score.value
        for row in score_rows(run.file, run.rows)
        if (row.score.group, row.score.metric) == ("all", "accuracy")
    }

    row = rows_of(within(run))[0]
    assert (row.mean_a, row.mean_b) == (scores["cot5"], scores["base"])
    assert row.value == pytest.approx((scores["cot5"] or 0) - (scores["base"] or 0))


def test_decodings_or_samples_of_one_cluster_count_together() -> None:
    *_, row = [row for row in know_and_act("11000000", "11100000") if row.group == "all"]
    assert row.decoding_b == "T0.3+0.4"
    assert (row.items, row.clusters) == (16, 8)
    assert row.p > stats.binomtest(0, 8).pvalue

    samples = [sample(n, cluster=f"c{n // 2}") for n in range(6)]
    levels = {("base", "T0.3", "near"): "110000", ("cot5", "T0.3", "near"): "111111"}
    run = stored(words_task(), levels, samples=samples)
    row = rows_of(within(run))[0]
    # Two of three clusters are right in the second alone, as a whole.
    assert (row.clusters, row.p) == (3, 0.5)


def test_holm_corrects_overall_differences_and_others_as_two_families() -> None:
    rows = within_rows(base="0000000010101010", cot0="0101010111111111", cot5="1111111110101111")
    assert [row.group for row in rows] == ["all", "even", "odd"] * 2
    main = [row for row in rows if row.group == "all"]
    side = [row for row in rows if row.group != "all"]
    for family in (main, side):
        assert [row.p_holm for row in family] == list(holm([row.p for row in family]))
        assert {row.tests for row in family} == {len(family)}

    rows = know_and_act("11000000", "11100000")
    [main] = [row for row in rows if row.group == "all" and "+" in row.decoding_b]
    assert (main.p_holm, main.tests) == (main.p, 1)
    side = [row for row in rows if row is not main]
    assert [row.p_holm for row in side] == list(holm([row.p for row in side]))
    assert len(rows) == 9


def test_a_plain_difference_is_not_hidden_by_the_groups_and_decodings_that_are_its_parts() -> None:
    """15 of 16 items are right in one variant alone: the exact p is 2 * 17 / 2^16."""
    rows = within_rows(base="1" + "0" * 15, cot5="0" + "1" * 15)

    assert (rows[0].group, rows[0].tests) == ("all", 1)
    assert rows[0].p_holm == pytest.approx(2 * 17 / 2**16)


def test_rows_without_an_item_are_no_tests() -> None:
    rows = within_rows(base="1.1.1.1.", cot5="0.0.0.0.")

    assert [(row.group, row.p_holm is None, row.tests) for row in rows] == [
        ("all", False, 1),
        ("even", False, 1),
        ("odd", True, 1),
    ]
    assert rows[0].p_holm == rows[0].p


def guesses(count: int, *, options: int, seed: int, lost: int = 0) -> list[Row]:
    draw = np.random.default_rng(seed)
    names = ("right", *(f"wrong{n}" for n in range(1, options)))
    samples = [sample(n, choices=names, gold="right") for n in range(count)]
    known, acted = (draw.random(count) < 1 / options), draw.random(count) < 0.5
    letters = ["".join("01"[int(one)] for one in line[lost:]) for line in (known, acted)]
    letters = ["." * lost + line for line in letters]
    know = stored(
        paired_runs.choice_task(),
        {(f"order{n}", "logprob", "gold"): letters[0] for n in range(2)},
        judges=(GOLD,),
        samples=samples,
        name="toy_choices",
    )
    act = stored(words_task(gaps={}), {("base", "T0.3", "near"): letters[1]})
    return rows_of(between(know, act))


def test_where_chance_differs_the_difference_above_it_is_tested() -> None:
    row = guesses(40, options=5, seed=1)[0]
    assert row.chance_a == pytest.approx(0.2)
    assert row.chance_b == 0.5
    assert row.p_holm == row.p_above_chance != row.p
    above = ((row.mean_a or 0) - 0.2) / 0.8 - ((row.mean_b or 0) - 0.5) / 0.5
    assert row.above_chance == pytest.approx(above)
    assert (row.above_chance_low or 0) < above < (row.above_chance_high or 0)

    own = replace(NEAR, chance=None)
    words = stored(words_task(), {("base", "T0.3", "near"): ACT}, judges=(own,))
    row = rows_of(between(chosen([KNOW, KNOW]), words))[0]
    assert (row.chance_a, row.chance_b, row.above_chance) == (0.5, None, None)


def test_what_missing_verdicts_could_do_is_counted_above_chance_where_levels_differ() -> None:
    row = guesses(40, options=5, seed=1, lost=4)[0]
    worst, best = (row.mean_a or 0) * 0.9, (row.mean_b or 0) * 0.9 + 0.1
    assert (row.least or 0) < (worst - 0.2) / 0.8 - (best - 0.5) / 0.5 < (row.above_chance or 0)


@pytest.mark.slow
def test_a_model_that_guesses_both_knows_no_more_than_it_does() -> None:
    rows = [guesses(56, options=5, seed=seed)[0] for seed in range(300)]
    assert np.mean([(row.p or 1) < 0.05 for row in rows]) > 0.5  # accuracy alone differs
    assert np.mean([(row.p_above_chance or 1) < 0.05 for row in rows]) <= 0.08


def test_verdicts_that_are_no_right_or_wrong_have_a_difference_and_no_table() -> None:
    f1 = replace(NEAR, metric="mean_f1")
    runs = []
    for name, shift in (("ant", 0.0), ("bee", 0.25)):
        levels = {("base", "T0.3", "near"): "10=1"}
        run = stored(words_task(gaps={}), levels, judges=(f1,), model=replace(MODEL, name=name))
        rows = [
            replace(
                row,
                verdicts={
                    n: replace(v, value=(v.value or 0) + shift) for n, v in row.verdicts.items()
                },
            )
            for row in run.rows
        ]
        runs.append(StoredRun(run.file, rows))

    row = rows_of(between(runs[0], runs[1]))[0]
    assert (row.value, row.n, row.p) == (-0.25, 4, None)
    assert counts(row) == (None,) * 5
    assert row.reason == "no interval: constant"


def test_nothing_read_by_both_is_missing_and_not_zero() -> None:
    row = within_rows(base="11..", cot5="..00")[0]

    assert (row.value, row.low, row.p, row.mean_a) == (None,) * 4
    assert (row.n, row.items, row.missing_a, row.missing_b) == (0, 4, 2, 2)
    assert row.reason == "too few"


def relations(intentions: str, responses: str) -> dict[str, Row]:
    rows = within_rows(
        gaps=False,
        judges=(NEAR, paired_runs.THOUGHT),
        cot0__near_thought=intentions,
        cot0=responses,
    )
    return {row.statistic: row for row in rows if row.group == "all"}


def test_responses_are_told_by_whether_the_intention_was_right() -> None:
    found = relations("1111000000=.", "111010000011")
    values = {name: row.value for name, row in found.items()}
    assert values["right_given_right"] == 3 / 4
    assert values["right_given_wrong"] == 1 / 6
    assert values["phi"] == pytest.approx((3 * 5 - 1 * 1) / (4 * 6 * 4 * 6) ** 0.5)
    assert counts(found["phi"]) == (3, 1, 1, 5, 1)
    sizes = {name: row.n for name, row in found.items()}
    assert sizes == {"right_given_right": 4, "right_given_wrong": 6, "phi": 10}
    assert (found["phi"].missing_a, found["phi"].items) == (1, 12)

    found = relations("1111", "1100")
    assert found["right_given_right"].value == 0.5
    assert [found[name].value for name in ("right_given_wrong", "phi")] == [None, None]
    assert found["phi"].reason == "constant"


@each("judges", [(None, "near"), ("near", None)])
def test_another_question_about_the_same_runs_has_a_file_of_its_own(judges: Judges) -> None:
    first = chosen([[0.9], [0.8]]).file
    files = [first, stored(words_task(), {("base", "T0.3", "near"): "1"}).file]
    plain = comparison_name(files, (None, None))

    assert plain == f"{files[0].digest[:16]}-{files[1].digest[:16]}.csv"
    names = [comparison_name(own, judges) for own in (files, files[:1])]
    assert len({plain, *names}) == 3


RATED = JudgeEntry("near", "mean_rating", "near:00|minilm")


def copies(originals: Sequence[Sample], name: str, keeps: str) -> list[Sample]:
    return [
        replace(
            part,
            id=f"{part.id}~{name}",
            references={FROM: (part.id,), BY: (name,), KEEPS: (keeps,)},
        )
        for part in originals
    ]


def perturbed(before: str, adverbs: str, eda: str = "", judge: JudgeEntry = NEAR) -> StoredRun:
    """A perturbed of originals and their copies; each letter a verdict."""
    originals = [sample(at) for at in range(len(before))]
    there = [*originals, *copies(originals, "adverbs", "yes")]
    there += copies(originals, "eda_swap", "no")[: len(eda)]
    readings = {("base", "T0", "near"): before + adverbs + eda}
    return stored(words_task(), readings, samples=there, judges=(judge,))


def flips(found: StoredRun) -> dict[str, Row]:
    with TemporaryDirectory() as folder:
        rates = flip_rates(paired_runs.on_disk(Path(folder), found), found.file.judges)
    return {row.perturbation: row for row in records(rates)}


@pytest.mark.parametrize(
    ("before", "after", "value", "turns"),
    [
        ("1111", "1111", 0.0, (0, 0)),  # as by a constant model
        ("1010", "0101", 1.0, (2, 2)),  # as by a model that each adverb turns
        ("1100", "1000", 0.25, (1, 0)),
        ("1=00", "1110", 0.5, (0, 1)),  # from a tie, and from wrong to right
    ],
)
def test_a_flip_is_another_verdict_than_the_original_s(
    before: str, after: str, value: float, turns: tuple[int, int]
) -> None:
    found = flips(perturbed(before, after))["adverbs"]
    assert (found.value, found.n, found.clusters) == (value, 4, 4)
    assert (found.to_wrong, found.to_right) == turns


def test_few_flips_prove_nothing_and_verdicts_that_only_rise_are_no_share() -> None:
    found = flips(perturbed("1111", "1111"))["adverbs"]
    assert found.low == 0
    assert found.high == pytest.approx(1.96**2 / (4 + 1.96**2), abs=1e-4)  # Wilson

    # Differences of 0 and 1 are those of a mean that may be below 0: Student's interval.
    found = flips(perturbed("000000", "000001"))["adverbs"]
    none = flips(perturbed("1111", "1111"))["adverbs"]
    assert found.difference_low is not None
    assert found.difference_low < 0
    assert (none.difference, none.difference_low) == (0, None)


def test_perturbations_that_keep_the_meaning_stand_apart_from_others() -> None:
    found = flips(perturbed("1111", "1110", "0000"))

    assert list(found) == ["adverbs", "eda_swap", KEEPING, OTHERS]
    assert (found[KEEPING].value, found[OTHERS].value) == (0.25, 1.0)
    assert (found[KEEPING].n, found[OTHERS].n) == (4, 4)


def test_copies_are_clusters_of_their_original_or_counted_apart() -> None:
    originals = [replace(sample(at), cluster=f"c{at // 2}") for at in range(4)]
    readings = {("base", "T0", "near"): "11110011"}
    held = stored(
        words_task(), readings, samples=[*originals, *copies(originals, "adverbs", "yes")]
    )
    found = flips(held)["adverbs"]
    assert (found.n, found.clusters, found.value) == (4, 2, 0.5)

    whole = perturbed("1111", "0000")
    cut = StoredRun(whole.file, whole.rows[2:])
    found = flips(cut)["adverbs"]
    assert (found.n, found.unmatched, found.missing) == (2, 2, 0)


def test_missing_verdicts_and_ratings_are_no_flips() -> None:
    found = flips(perturbed("11.1", "1.11"))["adverbs"]
    assert (found.value, found.n, found.missing) == (0.0, 2, 2)

    found = flips(perturbed("..", "11"))["adverbs"]
    assert (found.value, found.difference) == (None, None)
    assert found.reason == "no pair with both verdicts"

    found = flips(perturbed("1111", "1100", judge=RATED))["adverbs"]
    assert (found.value, found.to_wrong, found.difference) == (None, None, -0.5)
    assert "not right or wrong" in (found.reason or "")

    plain = stored(words_task(), {("base", "T0", "near"): "11"})
    with pytest.raises(StoreError, match="harness perturb --task toy"):
        flips(plain)
