"""Ratings meet the verdicts they are of: the right variant, recipe, document and system."""

from dataclasses import replace

import numpy as np
import pytest
from support import rated_runs
from support.rated_runs import ANN, FAR, MODELS, NEAR, Rating, panels_of, ratings, run, runs

from harness.analysis.panels import AgreementQuery, Panel, unmatched_ratings
from harness.core import Sample
from harness.errors import SpecError, StoreError
from harness.storage.find_runs import task_folders
from harness.storage.runs import ModelEntry, StoredRun

BASE = AgreementQuery(variants=("base",))


def only(found: list[Panel]) -> Panel:
    [panel] = found
    return panel


def test_cells_are_samples_by_models_and_none_is_zero() -> None:
    panel = only(panels_of(runs(near=NEAR), ratings(ann=ANN, bob=rated_runs.BOB), BASE))
    assert (panel.documents, panel.systems, panel.raters) == (
        rated_runs.SAMPLES,
        MODELS,
        ("ann", "bob"),
    )
    assert panel.clusters == ("c0", "c0", "c1", "c1")
    assert np.array_equal(panel.judges[0].values, NEAR)
    assert np.array_equal(panel.ratings, np.stack([ANN, rated_runs.BOB], axis=2))

    near = [[None, *NEAR[0][1:]], *NEAR[1:]]
    ann = [[*ANN[0][:2], None], *ANN[1:]]
    panel = only(panels_of(runs(near=near), ratings(ann=ann), BASE))
    assert np.argwhere(np.isnan(panel.judges[0].values)).tolist() == [[0, 0]]
    assert np.argwhere(np.isnan(panel.ratings)).tolist() == [[0, 2, 0]]


def test_the_headline_is_the_mean_over_decodings_that_have_a_value() -> None:
    cool, hot = ([2.0, None, 1.0, None], [4.0, 3.0, 1.0, None])
    first = run("ant", {"near": cool})
    both = StoredRun(first.file, [*first.rows, *run("ant", {"near": hot}, decoding="T0.5").rows])

    panel = only(panels_of([both], ratings(ann=ANN), BASE))

    assert panel.judges[0].values[:, 0].tolist()[:3] == [3.0, 3.0, 1.0]
    assert np.isnan(panel.judges[0].values[3, 0])
    assert panel.decodings == ("T0.3", "T0.5")
    # Two means that are 10/3, one of them with another rounding, are a tie.
    cool, hot = [3.0, 10 / 3, 1.0, 1.0], [11 / 3, 10 / 3, 1.0, 1.0]
    first = run("ant", {"near": cool})
    both = StoredRun(first.file, [*first.rows, *run("ant", {"near": hot}, decoding="T0.5").rows])
    values = only(panels_of([both], ratings(ann=ANN), BASE)).judges[0].values[:, 0]
    assert (3.0 + 11 / 3) / 2 != (10 / 3 + 10 / 3) / 2
    assert values[0] == values[1]


def test_ratings_of_one_decoding_are_compared_with_that_decoding() -> None:
    first = run("ant", {"near": [1.0, 2.0, 3.0, 4.0]})
    both = StoredRun(
        first.file, [*first.rows, *run("ant", {"near": [5.0] * 4}, decoding="T0.5").rows]
    )

    panel = only(panels_of([both], ratings("base@T0.5", ann=ANN), AgreementQuery()))

    assert panel.rows[0] == ("s1", "T0.5")
    assert panel.judges[0].values[:, 0].tolist() == [5.0] * 4


def test_a_scale_goes_with_the_variant_it_names_or_with_every_one_chosen() -> None:
    other = [
        StoredRun(r.file, [*r.rows, *(replace(row, variant="cot3") for row in r.rows)])
        for r in runs(near=NEAR)
    ]

    found = panels_of(other, ratings("fluency", ann=ANN), AgreementQuery(variants=("base", "cot3")))

    assert [(one.variant, one.scale) for one in found] == [("base", "fluency"), ("cot3", "fluency")]
    own = only(panels_of(other, ratings("cot3", ann=ANN), AgreementQuery()))
    assert (own.variant, own.scale) == ("cot3", "cot3")


def test_where_systems_are_groups_each_runs_model_is_a_judge() -> None:
    made = [
        Rating("toy", f"{d}-{s}", "", "ann", 1.0, "base")
        for d in rated_runs.SAMPLES
        for s in MODELS
    ]

    panel = only(panels_of(rated_runs.group_runs(one=NEAR, two=FAR), made, AgreementQuery()))

    assert [(judge.judge, judge.model) for judge in panel.judges] == [
        ("stated", "one"),
        ("stated", "two"),
    ]
    assert (panel.documents, panel.systems) == (rated_runs.SAMPLES, MODELS)
    assert np.array_equal(panel.judges[1].values, FAR)


@pytest.mark.parametrize(
    "change",
    [
        lambda file: replace(file, version="9"),
        lambda file: replace(file, data=replace(file.data, label="other")),
        lambda file: replace(file, run=replace(file.run, seed=1)),
        lambda file: replace(file, variants={**file.variants, "base": "0" * 64}),
    ],
)
def test_runs_of_two_recipes_are_kept_apart(
    change: object, caplog: pytest.LogCaptureFixture
) -> None:
    *same, other = runs(near=NEAR)
    changed = StoredRun(change(other.file), other.rows)  # type: ignore[operator]  # a function

    found = panels_of([*same, changed], ratings(ann=ANN), BASE)

    assert sorted(panel.systems for panel in found) == [("ant", "bee"), ("cat",)]
    assert unmatched_ratings(found) == frozenset()  # each is of one of the two
    assert sorted(panel.label.rpartition(", ")[0] for panel in found) == ["ant, bee", "cat"]
    assert "2 recipes, which are not compared with each other: " in caplog.text


def test_a_judge_of_two_recipes_or_snapshots_is_two_judges() -> None:
    first, *others = runs(near=NEAR)
    rows = [replace(row, verdicts={"near": rated_runs.judged(1.0, "snap-2")}) for row in first.rows]
    panel = only(panels_of([StoredRun(first.file, rows), *others], ratings(ann=ANN), BASE))

    assert [judge.recipe.split("|")[2] for judge in panel.judges] == ["near:00", "near:00@snap-2"]
    assert np.isnan(panel.judges[0].values[:, 0]).all()


def test_of_runs_of_one_model_the_fuller_counts_and_two_versions_are_refused() -> None:
    first, *others = runs(near=NEAR)
    other = StoredRun(replace(first.file, model=ModelEntry("ant", "vllm", "x", None)), first.rows)

    with pytest.raises(StoreError, match="two versions of model ant"):
        panels_of([first, other, *others], ratings(ann=ANN), BASE)
    short = StoredRun(replace(first.file, digest="f" * 64), first.rows[:1])
    panel = only(panels_of([short, first, *others], ratings(ann=ANN), BASE))
    assert np.array_equal(panel.judges[0].values, NEAR)  # of two alike the fuller counts
    with pytest.raises(StoreError, match="no run of task 'toy'"):
        task_folders([], "toy")


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (AgreementQuery(judges=("neer",)), "no run was read by judge 'neer'; did you mean near"),
        (AgreementQuery(variants=("bse",)), "no variant 'bse'; did you mean base"),
        (AgreementQuery(variants=("think",)), "no run of variant think"),
    ],
)
def test_what_is_not_there_is_named(question: AgreementQuery, message: str) -> None:
    with pytest.raises((SpecError, StoreError), match=message):
        panels_of(runs(near=NEAR), ratings(ann=ANN), question)


def test_ratings_of_nothing_that_was_run_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    query = replace(BASE, judges=("far",))
    people = [("s99", "ant", "r.csv:2"), ("s1", "cta", "r.csv:3")]
    strange = [Rating("toy", s, m, "ann", 1.0, "q", place) for s, m, place in people]
    given = ratings("think", ann=ANN) + ratings("q", ann=ANN) + strange

    panel = only(panels_of(runs(near=NEAR, far=FAR), given, query))

    assert [judge.judge for judge in panel.judges] == ["far"]
    assert (len(panel.unmatched), len(panel.offered)) == (2, 14)
    assert caplog.messages == [
        "12 ratings are of variants of toy that no run has",
        "2 of 26 ratings match no response\n"
        "r.csv:2: sample 's99', model ant\n"
        "r.csv:3: sample 's1', model cta; did you mean cat?",
    ]


def test_a_document_may_be_a_cluster_of_samples() -> None:
    [made] = rated_runs.group_runs(one=NEAR)
    rows = [
        replace(row, sample=Sample(row.sample.id, {}, group="g", cluster="c")) for row in made.rows
    ]
    people = [Rating("toy", row.sample.id, "", "ann", 1.0, "base") for row in rows]

    panel = only(panels_of([StoredRun(made.file, rows)], people, AgreementQuery()))

    assert panel.judges[0].values.tolist() == [[pytest.approx(np.mean(NEAR))]]
