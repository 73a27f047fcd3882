"""What of two runs is compared with what, and what may not be compared."""

from dataclasses import replace
from math import isnan

import pytest
from msgspec import structs
from support import paired_runs
from support.paired_runs import NEAR, SMALL, between, chosen, sample, stored, within, words_task

from harness.analysis.pairings import Pairing, Pairings
from harness.core import Sample
from harness.errors import HarnessError, StoreError
from harness.storage.runs import ModelEntry, StoredRun

LEVELS: paired_runs.Readings = {
    (level, decoding, "near"): "10"
    for level in ("base", "cot0", "cot5")
    for decoding in ("T0.3", "T0.5")
}
WORDS = stored(words_task(), LEVELS)
CHOICES = chosen([[0.9, 0.2], [0.8, 0.1]])
OTHER = ModelEntry("other", "scripted", "o@1", "r2")


def told(found: Pairings) -> list[tuple[str, str, str, tuple[str, str]]]:
    return [(p.name, p.first.variant, p.second.variant, p.decodings) for p in found[0]]


def readings(pairing: Pairing) -> list[tuple[str, float | None, float | None]]:
    items = pairing.items
    values = [[None if isnan(v) else v for v in items[side]] for side in "ab"]
    return list(zip(items["id"], *values, strict=True))


def one_level(letters: str, **changes: object) -> StoredRun:
    """A run of the plain prompt alone, by another model."""
    given = {"model": OTHER} | changes
    return stored(words_task(), {("base", "T0.3", "near"): letters}, **given)  # type: ignore[arg-type]  # as stored takes them


def test_choices_stand_against_every_level_by_decoding_and_together() -> None:
    found = [part for part in told(between(CHOICES, WORDS)) if "know" in part[0]]
    assert found[:3] == [
        ("know_versus_act", "all", "base", ("logprob", "T0.3")),
        ("know_versus_act", "all", "base", ("logprob", "T0.5")),
        ("know_versus_act", "all", "base", ("logprob", "T0.3+0.5")),
    ]
    assert [part[2] for part in found[::3]] == ["base", "cot0", "cot5"]

    *each, pooled = between(CHOICES, WORDS)[0][:3]
    assert readings(each[0]) == [("s000", 1.0, 1.0), ("s001", 0.0, 0.0)]
    assert readings(pooled) == readings(each[0]) + readings(each[1])


def test_the_run_with_choices_is_the_knowing_one_in_whatever_order_they_are_named() -> None:
    forward = between(CHOICES, WORDS, ("gold", "near"))
    backward = between(WORDS, CHOICES, ("near", "gold"))

    assert told(forward) == told(backward)
    assert [readings(p) for p in forward[0]] == [readings(p) for p in backward[0]]


def test_items_are_matched_by_sample_and_others_counted() -> None:
    words = one_level("10", samples=[sample(1), sample(0)], model=SMALL)
    [pairing] = between(CHOICES, words)[0]
    assert readings(pairing) == [("s000", 1.0, 0.0), ("s001", 0.0, 1.0)]

    words = one_level("110", samples=[sample(1), sample(2), sample(3)], model=SMALL)
    found = between(CHOICES, words)
    assert found[0][0].items["id"].tolist() == ["s001"]
    assert found[2] == 3
    assert found[1][0].startswith("1 sample of ")
    assert " and 2 samples of " in found[1][0]


CHANGED = [sample(0, fields={"topic": "rain"}), sample(0, references={"right": ("other",)})]


@pytest.mark.parametrize("changed", CHANGED, ids=["field", "reference"])
def test_samples_of_one_id_that_differ_are_no_common_ones(changed: Sample) -> None:
    plain = [sample(n, references={"right": (f"yes {n}",)}) for n in range(2)]
    first = one_level("10", samples=plain)
    second = one_level("10", samples=[changed, plain[1]], model=SMALL)

    found = between(first, second)

    assert found[0][0].items["id"].tolist() == ["s001"]
    assert (found[2], "1 of them of one id" in found[1][0]) == (2, True)


def test_what_one_sample_has_and_the_other_lacks_makes_no_difference() -> None:
    more = sample(0, fields={"topic": "tea 0", "dialog": "Tea?"}, references={"labels": ("a",)})
    first = one_level("1", samples=[more])
    [pairing] = between(first, one_level("0", model=SMALL))[0]

    assert readings(pairing) == [("s000", 1.0, 0.0)]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (OTHER, "two models, small and other"),
        (replace(SMALL, kind="vllm", identity="v@1"), "small is not the same in both"),
    ],
)
def test_knowing_by_a_model_and_acting_by_another_is_told(model: ModelEntry, message: str) -> None:
    found = between(CHOICES, stored(words_task(), LEVELS, model=model))
    assert message in found[1][0]


def test_a_control_has_an_identity_for_each_task_and_is_one_model_all_the_same() -> None:
    words = stored(words_task(), LEVELS, model=replace(SMALL, identity="m@2"))
    assert between(CHOICES, words)[1] == []


def test_runs_of_one_task_are_compared_by_variant_order_and_pool() -> None:
    second = one_level("01")
    found = between(WORDS, second)
    assert told(found)[0] == ("runs", "base", "base", ("T0.3", "T0.3"))
    assert readings(found[0][0]) == [("s000", 1.0, 0.0), ("s001", 0.0, 1.0)]

    second = chosen([[0.1, 0.2], [0.8, 0.1]], model=OTHER)
    found = between(CHOICES, second)
    assert [part[1] for part in told(found)] == ["order0", "order1", "all"]


def test_other_words_for_one_variant_are_told() -> None:
    second = one_level("01")
    reworded = replace(second.file, variants={"base": "77ab01ce"})
    found = between(WORDS, StoredRun(reworded, second.rows))

    assert "prompts or decoding differ between the runs: base" in found[1]


def test_one_judge_that_was_two_snapshots_is_refused() -> None:
    runs = []
    for name, model in (("gpt-9-0101", SMALL), ("gpt-9-0202", OTHER)):
        run = one_level("10", model=model)
        rows = [
            replace(row, verdicts={n: replace(v, served=name) for n, v in row.verdicts.items()})
            for row in run.rows
        ]
        runs.append(StoredRun(run.file, rows))

    with pytest.raises(StoreError, match=r"two snapshots .*gpt-9-0101, gpt-9-0202.*YAML"):
        between(runs[0], runs[1])


def test_gaps_are_those_of_the_task_for_which_there_are_variants() -> None:
    found = told(within(WORDS))
    assert [part[:3] for part in found[::3]] == [
        ("uptake_gap", "cot5", "base"),
        ("inference_gap", "cot5", "cot0"),
    ]

    run = stored(words_task(), {k: v for k, v in LEVELS.items() if k[0] != "cot0"})
    assert {part[0] for part in told(within(run))} == {"uptake_gap"}

    task = structs.replace(CHOICES.file.task, gaps={"gain": ("all", "order0")})
    run = StoredRun(replace(CHOICES.file, task=task), CHOICES.rows)
    [pairing] = within(run)[0]
    assert told(([pairing], [], 0)) == [("gain", "all", "order0", ("logprob", "logprob"))]

    both = between(WORDS, stored(words_task(), LEVELS, model=OTHER))[0]
    gaps = [part.first.file.model.name for part in both if part.name == "uptake_gap"]
    assert gaps == ["small"] * 3 + ["other"] * 3

    with pytest.raises(ValueError, match="`gaps` names 'cot9'"):
        words_task(gaps={"gain": ("cot9", "base")})


def test_intentions_stand_beside_responses_or_for_the_act() -> None:
    levels = {("cot0", "T0.3", "near"): "10", ("cot0", "T0.3", "near-thought"): "01"}
    run = stored(words_task(gaps={}), levels, judges=(NEAR, paired_runs.THOUGHT))
    [pairing] = within(run)[0]
    assert (pairing.name, pairing.first.judge, pairing.second.judge) == (
        "intention_and_response",
        paired_runs.THOUGHT,
        NEAR,
    )
    assert readings(pairing) == [("s000", 0.0, 1.0), ("s001", 1.0, 0.0)]

    found = between(CHOICES, run, (None, "near-thought"))[0]
    assert [(one.name, one.first.judge) for one in found] == [("know_versus_act", paired_runs.GOLD)]
    assert readings(found[0]) == [("s000", 1.0, 0.0), ("s001", 0.0, 1.0)]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (CHOICES, one_level("1", samples=[sample(7)], model=SMALL), "no sample in common"),
        (
            WORDS,
            stored(words_task(), {("cot0", "T0.7", "near"): "11"}, model=OTHER),
            r"no variant .* one way.*variants base.*variants cot0",
        ),
        (
            WORDS,
            stored(words_task(), LEVELS, name="else"),
            "toy and else: of two tasks one must be answered by choices",
        ),
    ],
    ids=["no sample", "no variant", "no choices"],
)
def test_runs_with_nothing_in_common_fail(
    first: StoredRun, second: StoredRun, message: str
) -> None:
    with pytest.raises(HarnessError, match=message):
        between(first, second)


@pytest.mark.parametrize("run", [CHOICES, one_level("10")], ids=["choices", "no gap"])
def test_a_run_with_nothing_to_compare_within_is_refused(run: StoredRun) -> None:
    with pytest.raises(StoreError, match=r"nothing within it .*name a second run"):
        within(run)
