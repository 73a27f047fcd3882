"""A gate: a drop that is shown, one that is ruled out, and one that these items cannot tell."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pandas import DataFrame
from support.paired_runs import GOLD, NEAR, chosen, on_disk, sample, stored, words_task

from harness.analysis import gate as gates
from harness.analysis.gate import Decision, gate_words
from harness.errors import SpecError
from harness.storage.frames import Row, records
from harness.storage.runs import JudgeEntry, StoredRun

RATED = JudgeEntry("near", "mean_f1", "near:00|minilm")


def run(line: str, answer: str = "an answer", **changes: object) -> StoredRun:
    """A run of one variant whose answers are all the same; a letter a sample."""
    made = stored(words_task(), {("base", "T0", "near"): line}, **changes)  # type: ignore[arg-type]  # as it takes them
    return StoredRun(made.file, [replace(row, answer=answer) for row in made.rows])


def gate(
    base: StoredRun,
    new: StoredRun,
    judge: str | None = None,
    max_drop: float = 0.02,
    max_missing: float = 0.01,
) -> tuple[DataFrame, list[Row]]:
    with TemporaryDirectory() as folder:
        sides = (on_disk(Path(folder) / side, run) for side, run in (("a", base), ("b", new)))
        found = gates.gate(*sides, max_drop=max_drop, max_missing=max_missing, judge=judge)
    return found, records(found)


def decided(base: str, new: str) -> tuple[DataFrame, list[Row]]:
    return gate(run(base), run(new, "another answer"))


def test_a_drop_is_shown_ruled_out_or_left_open() -> None:
    found, [row] = decided("1" * 90 + "0" * 10, "1" * 50 + "0" * 50)
    assert found.attrs["decision"] is Decision.REGRESSION
    assert row.drop == pytest.approx(0.4)
    assert (row.base, row.new, row.n) == (0.9, 0.5, 100)
    assert row.groups.startswith("even 0.400 (0.2")
    assert row.low is not None
    assert row.low > 0.02

    assert decided("1" * 500, "1" * 500)[0].attrs["decision"] is Decision.PASS
    assert decided("1" * 500, "1" * 499 + "0")[0].attrs["decision"] is Decision.PASS

    _, [row] = decided("1" * 90 + "0" * 10, "1" * 88 + "0" * 12)
    # two items of a hundred: Tango's score interval
    assert row.decision == Decision.INCONCLUSIVE
    assert (row.low, row.high) == pytest.approx((-0.0189, 0.0708), abs=5e-3)
    assert row.seen is not None
    assert row.high is not None
    assert row.high < row.seen < 0.12


def test_equal_verdicts_of_few_items_pass_only_where_no_answer_differs() -> None:
    same, other = run("1" * 20), run("1" * 20, "another answer")

    assert gate(run("1" * 20), other)[0].attrs["decision"] is Decision.INCONCLUSIVE
    _, [row] = gate(run("1" * 20), same)
    assert (row.decision, row.reason) == (Decision.PASS, "every answer is the same, word for word")


def test_missing_verdicts_and_samples_are_never_wrong_answers() -> None:
    _, [row] = decided("1" * 100, "1" * 95 + "." * 5)
    assert (row.decision, row.drop, row.missing) == (Decision.INCOMPLETE, 0.0, 0.05)
    assert row.reason == "5.0% of the verdicts are missing, more than 1.0%"
    assert decided("1" * 100, "0" * 95 + "." * 5)[0].attrs["decision"] is Decision.REGRESSION

    _, [row] = decided("1" * 95 + "." * 5, "1" * 100)
    assert (row.decision, row.reason) == (
        Decision.INCOMPLETE,
        "5.0% of the verdicts are missing from the base run, more than 1.0%",
    )

    found, [row] = gate(run("1" * 100), run("1" * 60))
    assert found.attrs["decision"] is Decision.INCOMPLETE
    assert row.reason == "40.0% of the samples are in one run alone, more than 1.0%"
    assert found.attrs["notes"]
    changed = [sample(n, fields={"topic": f"{n}"}) if n < 60 else sample(n) for n in range(100)]
    _, [row] = gate(run("1" * 100), run("1" * 100, samples=changed))
    assert row.reason == "60.0% of the samples are in one run alone, more than 1.0%"


@pytest.mark.slow
def test_a_variant_or_a_judge_that_the_new_run_lacks_decides_nothing() -> None:
    ways = {(v, "T0", judge): "1" * 9 for v in ("base", "cot0") for judge in ("near", "far")}
    far = replace(NEAR, name="far")
    whole = stored(words_task(), ways, judges=(NEAR, far))
    no_variant = stored(words_task(), dict(list(ways.items())[:2]), judges=(NEAR, far))
    no_judge = stored(words_task(), {w: n for w, n in ways.items() if w[2] == "near"})

    for new, absent in ((no_variant, "variant cot0 (T0)"), (no_judge, "judge far")):
        found, rows = gate(whole, new)
        facts = found.attrs
        assert (facts["decision"], facts["absent"]) == (Decision.INCOMPLETE, [absent])
        assert rows[0].decision == Decision.PASS
        note = f"the new run does not have {absent} of the base run, so it cannot pass"
        assert note in facts["notes"]
        assert gate(new, whole)[0].attrs["decision"] is Decision.PASS
    assert gate(whole, no_judge, judge="near")[0].attrs["decision"] is Decision.PASS


@pytest.mark.slow
def test_items_of_one_cluster_are_not_as_many_as_they_seem() -> None:
    lumped = [sample(place, cluster=f"c{place // 50}") for place in range(500)]
    runs = [
        run(line, words, samples=lumped) for line, words in (("1" * 500, "a"), ("1" * 500, "b"))
    ]

    _, [row] = gate(runs[0], runs[1])
    assert (row.clusters, row.decision) == (10, Decision.INCONCLUSIVE)


@pytest.mark.slow
def test_all_variants_together_decide_and_judges_are_corrected_for() -> None:
    def several(lines: tuple[str, ...]) -> StoredRun:
        readings = dict(zip(("base", "cot0", "cot5"), lines, strict=True))
        made = stored(words_task(), {(v, "T0", "near"): line for v, line in readings.items()})
        return StoredRun(made.file, [replace(r, answer=lines[1][:9]) for r in made.rows])

    base, close = "1" * 100, "1" * 94 + "0" * 6
    alone, _ = gate(run(base), run(close, "b"))
    among, rows = gate(several((base, base, base)), several((close, base, base)))

    assert alone.attrs["decision"] is Decision.REGRESSION
    # 6 of 300 answers differ: neither a drop of .02 nor none
    assert among.attrs["decision"] is Decision.INCONCLUSIVE
    assert [(row.variant, row.decision) for row in rows] == [
        *(("all", Decision.INCONCLUSIVE), ("base", None), ("cot0", None), ("cot5", None))
    ]
    assert (rows[0].n, rows[0].clusters, rows[0].drop) == (300, 100, pytest.approx(0.02))
    assert "independent items would pass (80% power)" in gate_words(rows[0])
    assert "would" not in gate_words(rows[1])

    ways = {("base", "T0", judge): line for judge, line in (("near", close), ("far", base))}
    judges = (NEAR, replace(NEAR, name="far"))
    bases = stored(words_task(), dict.fromkeys(ways, base), judges=judges)
    found, rows = gate(bases, stored(words_task(), ways, judges=judges))
    assert found.attrs["decision"] is Decision.INCONCLUSIVE
    [open_] = [row for row in rows if row.drop]
    assert open_.reason == (
        "the drop is more than 0.02 by the 95% interval, but not by the one that 2 decisions need "
        "(Bonferroni)"
    )
    assert "; 97.5% interval, corrected for all decisions, " in gate_words(open_)


def test_so_many_items_as_a_gate_names_do_decide() -> None:
    def differing(count: int) -> Row:
        """Of each hundred items one is lost and one won."""
        base = ("1" * 99 + "0") * count
        return decided(base, ("0" + "1" * 99) * count)[1][0]

    few = differing(1)
    assert (few.decision, few.drop) == (Decision.INCONCLUSIVE, 0.0)
    enough = differing(-(-int(few.enough) // 100))
    assert enough.decision == Decision.PASS
    # Of two equal runs 1.96 + .84 errors lie within the drop; one item more is taken to differ.
    assert few.enough == pytest.approx((2.8016 / 0.02) ** 2 * (0.02 * 100 / 99 + 0.01), abs=1)


def test_orders_are_one_row_and_a_rating_is_decided_by_students_t() -> None:
    even = chosen([[0.9] * 40, [0.8] * 40])
    _, [row] = gate(even, chosen([[0.1] * 40, [0.2] * 40]))
    assert (row.variant, row.judge, row.drop) == ("all", GOLD.name, 1.0)
    assert row.decision == Decision.REGRESSION

    spec, ways = words_task(), ("1" * 60 + "0" * 40, "1" * 20 + "0" * 80)
    runs = [stored(spec, {("base", "T0", "near"): line}, judges=(RATED,)) for line in ways]
    _, [row] = gate(runs[0], runs[1])
    # 40 of 100 drop by 1: .4 +- 1.984 * sqrt(.24 / 99)
    assert (row.low, row.high) == pytest.approx((0.3023, 0.4977), abs=1e-4)


def test_runs_of_two_tasks_are_refused() -> None:
    with pytest.raises(SpecError, match="are of two tasks"):
        gate(run("111"), run("111", name="other"))


@pytest.mark.parametrize("limits", [(-0.1, 0.0), (float("nan"), 0.0), (0.1, 1.5)])
def test_impossible_limits_are_refused(limits: tuple[float, float]) -> None:
    with pytest.raises(SpecError, match="--max-"):
        gate(run("1"), run("0"), max_drop=limits[0], max_missing=limits[1])
