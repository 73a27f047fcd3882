"""Verdicts to scores: every planned response is counted once, as a value or under a reason."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from support.each import each
from support.run_tables import score_rows
from support.sketches import JUDGE, lost, right, row, rows, run_file

from harness.parts import Reason
from harness.pipeline.verdict_frame import headline_label
from harness.storage.run_tables import SampleRecord, VerdictRecord
from harness.storage.runs import JudgeEntry, RunFile, ScoreRow

EMPTY, REFUSED = Reason.EMPTY, Reason.REFUSED


def table(judged: Sequence[SampleRecord], **changes: object) -> list[ScoreRow]:
    return score_rows(run_file(len(judged), **changes), judged)


def one(found: Sequence[ScoreRow], **wanted: str) -> ScoreRow:
    [row] = [r for r in found if all(getattr(r.score, k) == v for k, v in wanted.items())]
    return row


def at(decoding: str, values: Sequence[float | Reason], **changes: object) -> list[SampleRecord]:
    return rows(values, decoding=decoding, **changes)


@pytest.mark.parametrize(
    ("values", "value", "n"),
    [
        *(([1.0, 0.0, 1.0, 1.0], 0.75, 4), ([1.0, EMPTY, 0.5], 0.75, 2), ([EMPTY, 0.0], 0.0, 1)),
        ([EMPTY, REFUSED], None, 0),
    ],
)
def test_a_missing_verdict_is_counted_and_is_not_a_zero(
    values: Sequence[float | Reason], value: float | None, n: int
) -> None:
    [found] = table(rows(values))
    assert (found.score.value, found.score.n) == (value, n)


def test_n_and_missing_make_up_what_was_planned_in_every_row() -> None:
    draw = Random(1)
    judged = [
        row(draw.choice([right(1.0, margin=0.2), right(0.0), lost(EMPTY), lost(REFUSED)]), f"s{n}")
        for n in range(60)
    ]
    judged = [
        replace(r, decoding=d, served=s) for r in judged for d, s in (("T0.3", "a"), ("T0.5", "b"))
    ]

    found = table(judged, model=replace(run_file().model, revision=None))

    planned = {"T0.3": 60, "T0.5": 60, "T0.3+0.5": 120}
    counts = [(r.score.n + sum(r.score.missing.values()), r.score.decoding) for r in found]
    assert len(counts) == 12  # two snapshots, three decodings, two metrics
    assert all(count == planned[decoding] for count, decoding in counts)


def test_groups_stand_after_the_overall_row_in_alphabetical_order() -> None:
    found = table([*rows([0.0], group="maxims"), *rows([1.0, 1.0], group="irony")])
    values = [(r.score.group, r.score.value) for r in found]
    assert values == [("all", 2 / 3), ("irony", 1.0), ("maxims", 0.0)]


def test_the_headline_is_the_mean_over_both_temperatures_with_samples_for_clusters() -> None:
    found = table([*at("T0.3", [1.0, 1.0, 0.0]), *at("T0.5", [0.0, 0.0, EMPTY])])

    scores = [r.score for r in found]
    assert [(s.decoding, s.value, s.n, s.clusters) for s in scores] == [
        ("T0.3", 2 / 3, 3, 3),
        ("T0.5", 0.0, 2, 2),
        ("T0.3+0.5", 0.4, 5, 3),
    ]


@pytest.mark.parametrize(
    ("labels", "name"),
    [(["T0.3"], "T0.3"), (["T0.3", "T0.5"], "T0.3+0.5"), (["T0", "T0.5", "T1"], "T0+0.5+1")],
)
def test_decodings_taken_together_are_named_after_all_of_them(labels: list[str], name: str) -> None:
    assert headline_label(labels) == name


def test_every_group_has_the_same_metrics_though_one_has_no_verdicts() -> None:
    judged = [row(right(1.0, margin=0.5), group="irony"), row(lost(EMPTY), "s2", group="maxims")]
    found = one(table(judged), group="maxims", metric="margin").score

    assert (found.value, found.low, found.n, found.clusters) == (None, None, 0, 0)
    assert {k: v for k, v in found.missing.items() if v} == {EMPTY: 1}


def test_chance_stands_beside_the_headline_metric_alone() -> None:
    found = table([row(right(1.0, margin=0.5))])
    assert {r.score.metric: r.chance for r in found} == {"accuracy": 0.5, "margin": None}


def test_each_judge_has_rows_of_its_own() -> None:
    far = JudgeEntry("far", "mean_rating", "far:00|rubric")
    judged = [row(right(1.0), verdicts={"near": right(1.0), "far": right(4.0)})]
    found = table(judged, judges=(JUDGE, far))

    values = [(r.score.judge, r.score.metric, r.score.value) for r in found]
    assert values == [("near", "accuracy", 1.0), ("far", "mean_rating", 4.0)]


def test_a_signature_is_the_recipe_in_one_line() -> None:
    [found] = table(rows([1.0]))

    assert found.signature == (
        "toy:9f31c2ab|data:d1f3,all|base|small:scripted@a1b2c3d|T0.3,n1,s0|near:0011aabb|minilm|v0.1.0"
    )


@each(
    ("changes", "part"),
    [
        ({"run": replace(run_file().run, task="other")}, "other:9f31c2ab"),
        ({"variants": {"base": "77" * 32}}, "toy:77777777"),
        ({"data": replace(run_file().data, label="sample")}, "data:sample,all"),
        ({"run": replace(run_file().run, limit=20)}, "data:d1f3,20"),
        ({"model": replace(run_file().model, name="big")}, "big:scripted@a1b2c3d"),
        ({"model": replace(run_file().model, kind="vllm")}, "small:vllm@a1b2c3d"),
        ({"model": replace(run_file().model, revision="b2")}, "small:scripted@b2"),
        ({"model": replace(run_file().model, revision=None)}, "small:scripted@unknown"),
        ({"run": replace(run_file().run, seed=7)}, "T0.3,n1,s7"),
        ({"judges": (replace(JUDGE, recipe="near:77|minilm"),)}, "near:77"),
        ({"judges": (replace(JUDGE, recipe="near:00|both-orders"),)}, "both-orders"),
        ({"version": "0.2.0"}, "v0.2.0"),
    ],
)
def test_what_changes_a_score_changes_its_signature(changes: dict[str, object], part: str) -> None:
    [plain], [found] = table(rows([1.0])), table(rows([1.0]), **changes)

    fields = found.signature.split("|")
    assert part in fields
    assert part not in plain.signature.split("|")
    assert len(fields) == 8


def test_two_snapshots_of_the_judge_never_share_a_row() -> None:
    verdicts = [VerdictRecord(1.0, served="j-1"), VerdictRecord(0.0, served="j-2"), lost(REFUSED)]

    found = table([row(verdict, f"s{n}") for n, verdict in enumerate(verdicts)])

    assert [(r.score.value, r.score.n) for r in found] == [(1.0, 1), (0.0, 1)]
    assert [r.signature.split("|")[5] for r in found] == ["near:0011aabb@j-1", "near:0011aabb@j-2"]
    for other in found:
        assert other.score.missing[REFUSED] == other.score.missing[Reason.UNSUPPORTED] == 1


@each(
    ("verdicts", "field"),
    [
        ([VerdictRecord(1.0)], "near:0011aabb@judge-m"),
        ([lost(REFUSED)], "near:0011aabb@judge-m"),
        ([VerdictRecord(1.0, served="j-1")], "near:0011aabb@j-1"),
        ([replace(lost(REFUSED), served="j-1")], "near:0011aabb@j-1"),
        (
            [VerdictRecord(1.0, served="j-1"), replace(lost(REFUSED), served="j-2")],
            "near:0011aabb@j-1",
        ),
    ],
)
def test_a_judges_model_stands_in_the_signature_by_its_snapshot_or_else_its_name(
    verdicts: list[VerdictRecord], field: str
) -> None:
    judged = [row(verdict, f"s{n}") for n, verdict in enumerate(verdicts)]
    found = table(judged, judges=(replace(JUDGE, asks="judge-m"),))
    assert {r.signature.split("|")[5] for r in found} == {field}


@pytest.mark.parametrize("revision", [None, "a1b2c3d"])
def test_two_snapshots_of_the_model_never_share_a_row(revision: str | None) -> None:
    judged = [row(right(v), f"s{v}", served=s) for v, s in ((1.0, "m-1"), (0.0, "m-2"))]
    model: RunFile = run_file(model=replace(run_file().model, revision=revision))

    found = score_rows(model, judged)

    assert [(r.score.value, r.score.n) for r in found] == [(1.0, 1), (0.0, 1)]
    assert len({r.signature for r in found}) == 2
    assert len({r.recipe for r in found}) == 1


def test_a_failed_response_does_not_make_a_snapshot_of_its_own() -> None:
    judged = [row(right(1.0), served="m-1"), row(lost(Reason.FAILED), "s2", served=None)]
    [found] = table(judged, model=replace(run_file().model, revision=None))

    assert found.signature.split("|")[3] == "small:scripted@m-1"
    assert (found.score.n, found.score.missing[Reason.FAILED]) == (1, 1)


def test_a_snapshots_name_cannot_add_a_field_to_a_signature() -> None:
    [found] = table([row(VerdictRecord(1.0, served="j|1\n"), served="m|1")])
    assert len(found.signature.split("|")) == 8
    assert "\n" not in found.signature


@each("seed", range(5))
def test_the_order_of_trials_changes_no_number(seed: int) -> None:
    judged = [
        row(right(Random(n).random(), margin=Random(n).random() / 3), f"s{n}", group="ab"[n % 2])
        for n in range(40)
    ]
    shuffled = Random(seed).sample(judged, len(judged))

    assert table(shuffled) == table(judged)


def test_the_seed_of_a_run_changes_no_interval() -> None:
    values = [(n / 40) ** 2 for n in range(40)]
    other = replace(run_file().run, seed=1)
    mean = sum(n * n for n in range(40)) / 40**3

    [first], [second] = table(rows(values)), table(rows(values), run=other)

    assert first.score.value == second.score.value == pytest.approx(mean)
    assert (first.score.low, first.score.high) == (second.score.low, second.score.high)
    assert first.score.low is not None


@pytest.mark.parametrize(("metric", "has_interval"), [("accuracy", True), ("mean_rating", False)])
def test_ratings_that_are_all_1_are_no_share(metric: str, has_interval: bool) -> None:
    # A rating of 1 of 5 in ten answers says nothing about how ratings differ.
    [found] = table(rows([1.0] * 10), judges=(replace(JUDGE, metric=metric),))
    assert found.score.value == 1
    assert (found.score.low is not None) == has_interval


def test_without_a_judge_there_is_no_row() -> None:
    assert table(rows([1.0]), judges=()) == []
