"""The head that ships is the one its recipe makes of the pairs that ship, and its card says so."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from support.packages import needs

from harness.implicitness.pairs import TrainingPair, read_pairs
from harness.implicitness.scorer import Head, HeadCard, Scorer, load_head
from harness.implicitness.splits import data_digest
from harness.implicitness.train import make_head
from harness.models.encoders.encoders import encoder_of
from harness.registry import Registry, shipped_home
from harness.specs.implicitness import RecipeSpec
from harness.storage.tables import FileFormat, read_table
from harness.text.dedup import fingerprint

pytestmark = needs("torch")

PACKAGE = Path(__file__).parents[2] / "harness/implicitness"
DOCS = Path(__file__).parents[2] / "benchmarks/impscore.md"
NAME, NAMES = "impscore-minilm", ("impscore-minilm", "impscore-mpnet")
SHOWN = ("implicitness", "pragmatics", "tau", "rho", "plain", "words")


@pytest.fixture(scope="module", params=NAMES)
def head(request: pytest.FixtureRequest) -> Head:
    return load_head(PACKAGE / "heads" / str(request.param))


@pytest.fixture(scope="module")
def card(head: Head) -> HeadCard:
    assert head.card is not None
    return head.card


@pytest.fixture(scope="module")
def pairs() -> list[TrainingPair]:
    path = PACKAGE / "data/pairs.jsonl"
    return read_pairs(read_table(path.name, path.read_bytes(), FileFormat.JSONL), where=path.name)


@pytest.fixture(scope="module")
def recipe(head: Head, tmp_path_factory: pytest.TempPathFactory) -> RecipeSpec:
    registry = Registry((shipped_home(),), {}, tmp_path_factory.mktemp("cache"))
    spec: RecipeSpec = registry.load("configs/recipes", head.name)
    return spec


def test_the_pairs_are_many_and_their_sentences_clean(pairs: list[TrainingPair]) -> None:
    texts = [text for pair in pairs for text in pair.sentences]

    assert (len(pairs) > 8000, sum(bool(pair.levels) for pair in pairs) > 2000) == (True, True)
    assert [text for text in texts if text != " ".join(text.split())] == []
    assert [text for text in texts if not text.replace("\u200d", "").isprintable()] == []


def test_its_card_names_the_pairs_that_ship(card: HeadCard, pairs: list[TrainingPair]) -> None:
    assert (card.data, card.data_digest) == ("pairs.jsonl", data_digest(pairs))


def test_its_card_has_its_recipes_settings(head: Head, card: HeadCard, recipe: RecipeSpec) -> None:
    settings = {key: value for key, value in card.settings.items() if key != "kept_epochs"}

    assert settings == msgspec.to_builtins(recipe.settings)
    assert (head.encoder, len(head.members)) == (recipe.encoder, recipe.members)
    assert card.seeds == tuple(recipe.seed + place for place in range(recipe.members))


def test_it_knows_all_sentences_it_was_trained_on(head: Head, pairs: list[TrainingPair]) -> None:
    own = {text for pair in pairs for text in pair.own}
    assert {fingerprint(text) for text in own} == head.seen


def test_its_card_and_the_docs_name_the_same_figures(head: Head, card: HeadCard) -> None:
    [line] = [
        line
        for line in DOCS.read_text("utf-8").splitlines()
        if line.startswith(f"| `{head.name}` | folds ")
    ]

    for name in SHOWN:
        value = card.metrics[f"folds {name}"]
        assert value is not None
        assert f" {value:.3f} " in line


def test_its_card_orders_unseen_topics_and_knows_plain_text(card: HeadCard) -> None:
    accuracy, words, tau = (
        card.metrics[f"folds {name}"] for name in ("implicitness", "words", "tau")
    )
    assert accuracy is not None
    assert words is not None
    assert tau is not None
    assert (accuracy > words + 0.04, tau > 0.6) == (True, True)

    known, high = card.metrics["probe auc"], card.metrics["probe plain above 1"]
    assert known is not None
    assert high is not None
    assert (known > 0.84, high < 0.05) == (True, True)


@pytest.mark.slow
def test_its_recipe_makes_it_again(
    head: Head, pairs: list[TrainingPair], recipe: RecipeSpec
) -> None:
    if head.name != NAME:
        pytest.skip(f"{head.name} is trained over weights that do not come with the packages")
    encoder = encoder_of(recipe.encoder)

    again = make_head(
        NAME,
        ("pairs.jsonl", pairs),
        msgspec.structs.replace(recipe, folds=0, probes=False),
        encoder=encoder,
        progress=lambda *_: None,
    )

    # On another processor sums round in other ways, and training enlarges that.
    texts = [text for pair in pairs[::80] for text in (pair.implicit, pair.explicit)]
    values = [
        np.array([one.value for one in Scorer(NAME, made, encoder).score(texts)], dtype=float)
        for made in (head, again)
    ]
    assert np.corrcoef(values)[0, 1] > 0.99
    assert np.abs(values[0] - values[1]).mean() < 0.05
