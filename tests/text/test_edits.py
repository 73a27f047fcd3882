"""What the shipped word lists make of texts, and what they leave as it is."""

from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from support.each import each

from harness.registry import shipped_home
from harness.specs import tasks
from harness.specs.schema import load_spec, read_yaml
from harness.specs.tasks import AskedSpec, DegreeSpec, LocalSpec, PerturbationSpec, SwapSpec
from harness.text.edits import edit_text, takes_an

FILES = sorted((shipped_home() / "configs/perturbations").glob("*.yaml"))
SEEDS = range(30)
TEXTS = (
    "The ferry is late and I think the old captain is a big, lazy man.",
    "Mr Adam Brown left London in a very small boat; is it safe?",
    "WE DO NOT LIKE AN IDLE COOK!",
)


def spec_of(path: Path) -> PerturbationSpec:
    spec: PerturbationSpec = load_spec(read_yaml(path), PerturbationSpec, where=str(path))
    return spec


@cache
def named(name: str) -> LocalSpec:
    spec = next(spec_of(path) for path in FILES if path.stem == name)
    assert not isinstance(spec, AskedSpec)
    return spec


def made(text: str, name: str) -> set[str | None]:
    """All that some seeds make of a text."""
    return {edit_text(text, named(name), Random(seed)) for seed in SEEDS}


LOCAL = [path.stem for path in FILES if not isinstance(spec_of(path), AskedSpec)]


@each("name", LOCAL)
@each("text", ["", " ", "!?", "\U0001f600", "\u0645", "\0", "tea " * 2500])
def test_any_text_is_changed_or_left_and_never_crashes(name: str, text: str) -> None:
    found = edit_text(text, named(name), Random(0))
    assert found is None or found != text


@each("name", LOCAL)
def test_the_same_seed_makes_the_same_text(name: str) -> None:
    twice = [edit_text(TEXTS[0], named(name), Random("7")) for _ in range(2)]
    assert twice[0] == twice[1]


@each(
    ("name", "text", "some"),
    [
        ("adverbs", "The ferry is late.", "The ferry is clearly late."),
        ("adverbs", "The ferry sank.", "Obviously, the ferry sank."),
        ("adverbs", "Bessaly sank.", "Bessaly sank, indeed."),
        ("scalar_adverbs", "It is very old.", "It is truly old."),
        ("scalar_adverbs", "He is an old cook.", "He is a very old cook."),
        ("scalar_adverbs", "They almost won.", "They nearly won."),
        ("adjectives", "An idle cook.", "A lazy cook."),
        ("adjectives", "It is BIG.", "It is LARGE."),
        ("in_domain", "I think so.", "I believe so."),
        ("in_domain", "They do not like it.", "They don't like it."),
        ("group_names", "A Talvish man, and the TALVISH.", "An Ondry man, and the ONDRY."),
        ("group_names", "Two Vessans met a Vessan's son.", "Two Tessarians met a Tessarian's son."),
        ("group_names", "He comes from sillow marsh.", "He comes from low orvith."),
        ("group_names", "Two Vessans met a Vessan.", "Two Orvallians met an Orvallian."),
        ("eda_deletion", "one two", "two"),
        ("eda_swap", "one two", "two one"),
        ("eda_synonyms", "a big cup", "a huge cup"),
        ("eda_synonyms", "a big idle", "a big lazy"),
    ],
)
def test_a_perturbation_makes_what_its_list_says(name: str, text: str, some: str) -> None:
    assert some in made(text, name)


@each(
    ("name", "text"),
    [
        ("scalar_adverbs", "I really think so."),  # not "I very think so"
        *(("scalar_adverbs", "The tea is here."), ("adjectives", "They clean the house.")),
        *(("adjectives", "I am sick of it."), ("in_domain", "Is not it late?")),
        ("adjectives", "I just wanted to go to high school, forced or able."),
        *(("group_names", "Nobody is named here."), ("eda_deletion", "tea")),
        ("eda_insertion", "tea with lemon"),
    ],
)
def test_what_a_list_does_not_fit_is_left(name: str, text: str) -> None:
    assert made(text, name) == {None}


@each("name", [n for n in LOCAL if not n.startswith("eda")])
@each("text", TEXTS)
def test_articles_agree_in_all_that_is_made(name: str, text: str) -> None:
    for found in filter(None, made(text, name)):
        words = found.replace(",", "").split()
        pairs = [(a.lower(), b) for a, b in pairwise(words)]
        assert all(takes_an(b) == (a == "an") for a, b in pairs if a in ("a", "an")), found


@pytest.mark.parametrize("text", ["Are people late?", "Why are people late?", "Tea is the best."])
def test_no_question_and_no_article_takes_an_adverb_in_the_middle(text: str) -> None:
    words = text.casefold().rstrip("?.").split()[-3:]
    assert all(" ".join(words) in (found or "").casefold() for found in made(text, "adverbs"))


@each("path", FILES)
def test_a_group_has_several_words_and_no_word_is_twice_there(path: Path) -> None:
    spec = spec_of(path)
    if isinstance(spec, DegreeSpec | SwapSpec | tasks.RandomSpec):
        assert all(len(set(group)) == len(group) > 1 for group in spec.groups)
    if isinstance(spec, DegreeSpec | SwapSpec):
        every = [word for group in spec.groups for word in group]
        assert sorted(every) == sorted(set(every))


def test_a_list_may_name_what_is_put_in_and_is_not_looked_for() -> None:
    spec = SwapSpec(about="", keeps_meaning=False, groups=(("soon", "now"),), into=("hardly",))
    assert edit_text("Come soon.", spec, Random(0)) == "Come hardly."
    assert edit_text("It hardly rains.", spec, Random(0)) is None


@each("path", FILES)
def test_only_what_minds_the_sense_is_said_to_keep_the_meaning(path: Path) -> None:
    is_blind = path.stem.startswith(("eda", "group_names", "scalar_any"))
    assert spec_of(path).keeps_meaning is not is_blind
