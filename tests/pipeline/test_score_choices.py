"""Verdicts on choices to the rows of the table: pools, chance, what is missing."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from msgspec import structs
from support.choice_cases import choice_run, chosen, lost, sample, shared, task, variants
from support.each import each
from support.run_tables import score_rows

from harness.core import Sample
from harness.parts import Reason
from harness.pipeline.verdict_frame import averages
from harness.specs.tasks import TaskSpec
from harness.storage.run_tables import SampleRecord, VerdictRecord
from harness.storage.runs import ScoreRow

RIGHT, WRONG = shared(0.6, 0.3, 0.1), shared(0.1, 0.7, 0.2, value=0.0, place=2)
TASK = task()
BOTH = structs.replace(
    TASK,
    variants={
        **variants("order0", "order1"),
        **variants("text:order0", "text:order1", pool="text:all"),
        **variants("alone", pool=None),
    },
)


def table(rows: Sequence[SampleRecord], spec: TaskSpec = TASK, **changes: object) -> list[ScoreRow]:
    return score_rows(choice_run(spec, len(rows), **changes), rows)


def one(found: Sequence[ScoreRow], **wanted: str) -> ScoreRow:
    """The only row whose score has these fields, of all groups and of accuracy unless told."""
    fields = {"group": "all", "metric": "accuracy", **wanted}
    [row] = [r for r in found if all(getattr(r.score, k) == v for k, v in fields.items())]
    return row


def asked(
    *verdicts: VerdictRecord, name: str = "s1", of: Sample | None = None
) -> list[SampleRecord]:
    """One row a verdict, in order0, order1, ..."""
    held = of or sample(name=name)
    return [chosen(verdict, f"order{n}", held) for n, verdict in enumerate(verdicts)]


TWO = [*asked(RIGHT, WRONG), *asked(RIGHT, RIGHT, name="s2")]


def test_a_pool_is_the_mean_over_its_variants_with_samples_for_clusters() -> None:
    found = table(TWO)

    values = {v: one(found, variant=v).score for v in ("order0", "order1", "all")}
    assert {v: (s.value, s.n, s.clusters) for v, s in values.items()} == {
        "order0": (1.0, 2, 2),
        "order1": (0.5, 2, 2),
        "all": (0.75, 4, 2),
    }
    # s1: means .35, .5, .15, so wrong; s2 right. By order three of four are right.
    score = one(found, variant="all", metric="accuracy_permuted").score
    assert (score.value, score.n, score.clusters) == (0.5, 4, 2)
    assert {r.score.variant for r in found if r.score.metric == "accuracy_permuted"} == {"all"}
    for metric in ("calibration_error", "most_frequent_choice"):  # of all rows together
        score = one(found, variant="all", metric=metric).score
        assert (score.low, score.high, score.n, score.clusters) == (None, None, 4, 2)


def test_n_and_missing_make_up_what_was_planned_in_every_row() -> None:
    draw = Random(4)
    kinds = [RIGHT, WRONG, lost(), lost(Reason.UNPARSED), VerdictRecord(1.0, detail={"brier": 0.1})]
    rows = [
        chosen(draw.choice(kinds), variant, replace(sample(name=f"s{n}"), group="ab"[n % 2]))
        for n in range(40)
        for variant in ("order0", "order1")
    ]

    planned = {("all", "all"): 80, ("all", "a"): 40, ("all", "b"): 40}
    for found in table(rows):
        score = found.score
        count = planned.get((score.variant, score.group), 40 if score.group == "all" else 20)
        assert score.n + sum(score.missing.values()) == count, score.metric


@each(
    ("ran", "rows"),
    [
        (("order0", "order1"), ["order0", "order1", "all"]),
        (("order0",), ["order0"]),
        (("order1", "text:order0"), ["order1", "text:order0"]),
        (("text:order0", "text:order1"), ["text:order0", "text:order1", "text:all"]),
        (("alone",), ["alone"]),
    ],
)
def test_a_pool_has_rows_only_where_all_of_it_ran(ran: tuple[str, ...], rows: list[str]) -> None:
    found = table([chosen(RIGHT, variant) for variant in ran], BOTH)
    assert list(dict.fromkeys(r.score.variant for r in found)) == rows


def test_pools_of_one_task_are_never_mixed() -> None:
    rows = [chosen(RIGHT, v) for v in ("order0", "order1")]
    rows += [chosen(WRONG, v) for v in ("text:order0", "text:order1")]

    found = table(rows, BOTH)

    pools = {"all": ("order0", "order1"), "text:all": ("text:order0", "text:order1")}
    assert averages(BOTH) == pools
    assert [one(found, variant=v).score.value for v in ("all", "text:all")] == [1.0, 0.0]
    assert one(found, variant="all").signature != one(found, variant="text:all").signature


def test_a_pools_signature_covers_the_words_of_all_its_variants() -> None:
    words = choice_run(TASK).variants
    changed = {**words, "order1": "9" * 64}

    plain, other = (one(table(TWO, variants=w), variant="all").signature for w in (words, changed))

    assert plain.split("|")[0] != other.split("|")[0]
    assert plain.split("|")[1:] == other.split("|")[1:]
    assert plain.split("|")[2] == "all"
    assert plain.split("|")[4].startswith("logprob,")


@pytest.mark.parametrize(
    ("verdict", "overall"),
    [(shared(0.1, 0.2, 0.3, 0.4), 3 / 8), (lost(), 1 / 2)],  # of what is behind the value alone
)
def test_chance_is_that_of_choices_behind_a_value(verdict: VerdictRecord, overall: float) -> None:
    pair = replace(sample(("a", "b"), name="s1"), group="two")
    four = replace(sample(("a", "b", "c", "d"), name="s2"), group="four")
    rows = [chosen(shared(0.6, 0.4), "order0", pair), chosen(verdict, "order0", four)]

    found = table(rows)

    chances = [one(found, group=group).chance for group in ("two", "four", "all")]
    assert chances == [1 / 2, 1 / 4, overall]


@each(
    ("metric", "has_chance"),
    [
        *(("accuracy", True), ("accuracy_permuted", True), ("accuracy_per_byte", True)),
        *(("brier", False), ("most_frequent_choice", False), ("calibration_error", False)),
    ],
)
def test_chance_stands_beside_accuracies_alone(metric: str, has_chance: bool) -> None:
    verdict = replace(RIGHT, detail={**RIGHT.detail, "brier": 0.1, "accuracy_per_byte": 1.0})
    found = one(table(asked(verdict, verdict)), variant="all", metric=metric)
    assert found.chance == (1 / 3 if has_chance else None)


def test_a_place_that_no_sample_of_a_group_has_has_no_row_there() -> None:
    pair = replace(sample(("a", "b"), name="s1"), group="two")
    three = replace(sample(name="s2"), group="three")
    rows = [chosen(shared(0.6, 0.4), "order0", pair), chosen(RIGHT, "order0", three)]

    found = table(rows)

    third = [r.score for r in found if r.score.metric == "chosen_place_3"]
    assert [(score.group, score.n) for score in third] == [("all", 1), ("three", 1)]


def test_two_snapshots_of_a_model_share_no_average() -> None:
    rows = [
        replace(row, served=served)
        for row, served in zip(asked(RIGHT, WRONG), ("m-1", "m-2"), strict=True)
    ]

    found = table(rows, model=replace(choice_run(TASK).model, revision=None))

    averaged = [r.score for r in found if r.score.metric == "accuracy_permuted"]
    unsupported = [(s.value, s.n, s.missing[Reason.UNSUPPORTED]) for s in averaged]
    assert unsupported == [(None, 0, 2), (None, 0, 2)]
    errors = [r.score for r in found if r.score.metric == "calibration_error"]
    assert {s.n for s in errors if s.variant == "all"} == {1}


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_changes_no_number(seed: int) -> None:
    draw = Random(1)
    rows = []
    for n in range(30):
        parts = [draw.random() for _ in range(3)]
        verdict = shared(*(p / sum(parts) for p in parts), value=draw.choice((0, 1 / 3, 1)))
        rows += [chosen(verdict, v, sample(name=f"s{n}")) for v in ("order0", "order1")]

    mixed = Random(seed).sample(rows, len(rows))

    by_place = {(r.score.variant, r.score.metric): r for r in table(rows)}
    assert {(r.score.variant, r.score.metric): r for r in table(mixed)} == by_place
