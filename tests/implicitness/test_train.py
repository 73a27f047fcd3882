"""Heads from pairs and recipes: figures by hand, cards, ablations, and nothing tested on itself."""

import numpy as np
import pytest
from msgspec import structs
from pandas import DataFrame
from support.impscore_heads import telling_scorer
from support.packages import needs
from support.training_pairs import invented

from harness.errors import DataError
from harness.implicitness import train
from harness.implicitness.formula import FORMS
from harness.implicitness.losses import embed, examples
from harness.implicitness.pairs import TrainingPair
from harness.implicitness.scorer import Head
from harness.implicitness.splits import data_digest, split
from harness.implicitness.train import METRICS, SWEPT, ablation, head_metrics, make_head, trials
from harness.models.encoders.encoders import CharNgrams
from harness.present.figures.scores import margins
from harness.specs.implicitness import CharNgramsSpec, RecipeSpec, SettingsSpec
from harness.text.dedup import fingerprint

pytestmark = needs("torch")

QUICK = SettingsSpec(features=4, epochs=4)
RECIPE = RecipeSpec(about="A test's.", encoder=CharNgramsSpec(), settings=QUICK, members=2)


def made(recipe: RecipeSpec = RECIPE) -> Head:
    return make_head("mine", ("invented", invented()), recipe, encoder=CharNgrams(), progress=print)


def test_a_card_says_what_a_head_was_made_of() -> None:
    head = made()

    assert head.card is not None
    assert (head.card.data, head.card.data_digest) == ("invented", data_digest(invented()))
    assert head.card.seeds == (0, 1)
    assert "52 pairs to learn from, 8 to choose the epoch by, 4 to test on" in head.card.split
    assert head.card.settings["features"] == 4
    assert set(head.card.metrics) == {
        *(f"test {name}" for name in ("implicitness", "pragmatics", "tau", "rho", "words")),
        *("test plain", "test implicit mean", "test explicit mean"),
        *("test pair distance", "test negative distance"),
        *("test pairs", "test graded"),
    }


def test_a_head_has_seen_what_it_learned_of_and_nothing_else() -> None:
    parts = split(invented(), seed=0)
    seen = made().seen

    known = {t for pair in (*parts.train, *parts.validation) for t in pair.sentences}
    assert seen == {fingerprint(text) for text in known}
    assert seen.isdisjoint(fingerprint(text) for pair in parts.test for text in pair.sentences)


@pytest.mark.slow
def test_folds_are_measured() -> None:
    card = made(structs.replace(RECIPE, members=1, split=(1, 0, 0), folds=4)).card

    assert card is not None
    assert card.metrics["folds implicitness"] == 1
    assert card.metrics["folds tau"] is not None
    assert "test tau" not in card.metrics


def test_levels_teach_all_orders_of_two() -> None:
    pair = TrainingPair(implicit="i", explicit="e", levels=("a", "b", "c"), negative=("i", "x"))
    embedded = embed([pair], CharNgrams())

    found = examples([pair], embedded)

    order = {place: text for text, place in embedded.places.items()}
    reported = [
        (order[m], order[n], int(s)) for (m, n), s in zip(found.orders, found.steps, strict=True)
    ]
    assert sorted(reported) == [("b", "a", 1), ("c", "a", 2), ("c", "b", 1)]
    assert [order[place] for place in found.pairs[0]] == ["i", "e", "i", "x"]


def test_figures_are_those_worked_out_by_hand() -> None:
    # A sentence's score is the number it says; of the pragmatic distance more is said below.
    pairs = [
        TrainingPair(implicit="0.9", explicit="0.1", levels=("0.1", "0.3", "0.2", "0.4")),
        TrainingPair(implicit="0.2", explicit="0.5", levels=("0.1", "0.2", "0.3", "0.4")),
        TrainingPair(implicit="0.5", explicit="0.50"),
    ]
    scorer = telling_scorer()

    found = head_metrics(scorer.head, pairs, embed(pairs, scorer.encoder))

    assert found["implicitness"] == pytest.approx(1.5 / 3)
    assert found["tau"] == pytest.approx((4 / 6 + 1) / 2)
    assert found["rho"] == pytest.approx((0.8 + 1) / 2)
    assert (found["pragmatics"], found["words"]) == (None, None)


def test_word_presence_adds_up_the_weight_of_each_word() -> None:
    known = [
        TrainingPair(implicit="one wonders", explicit="I demand"),
        TrainingPair(implicit="one hopes", explicit="one demands"),
    ]

    score = train.word_presence(known)

    assert score("one") == pytest.approx(np.log(3 / 2))
    assert score("Wonders, one!") == pytest.approx(np.log(2 / 1) + np.log(3 / 2))
    assert score("unheard of") == 0


def test_trials_are_each_form_or_each_point_of_a_grid() -> None:
    found = trials(QUICK)
    assert len(found) == 12
    assert {settings.form for _, settings in found} == set(FORMS)
    assert all(structs.replace(one, **structs.asdict(QUICK.form)) == QUICK for _, one in found)

    found = trials(QUICK, is_grid=True)
    assert len(found) == len({tuple(columns.values()) for columns, _ in found}) == 6 * 5 * 4
    for columns, settings in found:
        assert columns == {name: getattr(settings, name) for name in SWEPT}


@pytest.mark.slow
def test_an_ablation_has_a_row_a_training() -> None:
    recipe = structs.replace(RECIPE, settings=structs.replace(QUICK, epochs=1))
    planned = trials(recipe.settings)

    rows, others = (
        ablation(
            ("mine.csv", pairs), ("small", recipe), CharNgrams(), planned, runs=2, progress=print
        )
        for pairs in (invented(), invented(8))
    )

    assert len(rows) == 2 * len(trials(QUICK))
    assert rows.attrs == {"pairs": 4, "graded": 2}
    made_of = [str(rows[name].iat[0]) for name in ("data", "recipe", "encoder")]
    assert [name.partition("@")[0] for name in made_of] == ["mine.csv", "small", "char-ngrams"]
    assert made_of[0] == f"mine.csv@{data_digest(invented())[:8]}" != others["data"].iat[0]
    assert {*rows["seed"]} == {0, 1}
    assert len(rows[[*METRICS]].drop_duplicates()) > 1


def test_the_best_point_of_a_grid_is_named() -> None:
    points = DataFrame([columns for columns, _ in trials(QUICK, is_grid=True)])
    best = (points.margin == 0.7) & (points.pragmatic_margin == 1) & (points.pragmatic_weight == 2)
    figure = margins(points.assign(implicitness=0.5 + 0.4 * best, test_pairs=20))

    assert [panel.title for panel in figure.panels][-1] == "alpha 2"
    assert "alpha = 2, gamma 1 = 0.7, gamma 2 = 1: 0.900" in figure.notes[0]
    (own,) = margins(points.assign(implicitness=0.5, test_pairs=20), alphas=[1]).panels
    assert own.title == "alpha 1"


def test_too_few_groups_are_reported() -> None:
    with pytest.raises(DataError, match="cannot be split"):
        make_head("x", ("x", invented(1)), RECIPE, encoder=CharNgrams(), progress=print)
