"""What ships is balanced, and the linter sees what would give a side or a level away."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.each import each
from support.training_pairs import invented

from harness.implicitness.lint import LintMeasure, measures
from harness.implicitness.pairs import TrainingPair, read_pairs
from harness.storage.tables import FileFormat, read_table
from harness.text.dedup import normal

SHIPPED = Path(__file__).parents[2] / "harness/implicitness/data/pairs.jsonl"
KEYS = ["topic", "intention", "strategy", "register", "writer", "form"]
KEYS += ["implicit", "explicit", "plain", "levels"]
ROWS = [json.loads(line) for line in SHIPPED.read_text("utf-8").splitlines()]


def shipped() -> list[TrainingPair]:
    table = read_table(SHIPPED.name, SHIPPED.read_bytes(), FileFormat.JSONL)
    return read_pairs(table, where=SHIPPED.name)


def measured(pairs: list[TrainingPair], name: str) -> LintMeasure:
    return next(one for one in measures(pairs) if one.name.startswith(name))


@pytest.mark.slow
def test_the_shipped_pairs_are_many_and_keep_every_limit() -> None:
    found = {one.name: one for one in measures(shipped())}

    sizes = [found[name].value or 0 for name in ("pairs", "graded", "groups")]
    assert [one >= least for one, least in zip(sizes, (8000, 2000, 800), strict=True)] == [True] * 3
    assert [one for one in found.values() if not one.is_kept] == []


@pytest.mark.parametrize("name", ["pairs", "graded", "groups"])
def test_a_small_file_is_not_broken_for_its_size(name: str) -> None:
    assert measured(invented(), name).is_kept


def test_the_shipped_sentences_have_no_blanks_at_their_ends_and_no_control_characters() -> None:
    texts = [
        text
        for row in ROWS
        for text in (row["implicit"], row["explicit"], row["plain"], *(row["levels"] or ()))
        if text is not None
    ]

    assert [text for text in texts if text != " ".join(text.split())] == []
    assert [text for text in texts if not text.replace("\u200d", "").isprintable()] == []


def changed(change: Callable[[TrainingPair], TrainingPair]) -> list[TrainingPair]:
    return [change(pair) for pair in invented(each=8)]


def longest(pair: TrainingPair) -> tuple[str, ...]:
    return tuple(f"{text} {'very ' * place}" for place, text in enumerate(pair.levels))


@each(
    ("name", "change", "value"),
    [
        ("sides: question", lambda p: replace(p, implicit=p.implicit + "?"), 1),
        ("sides: question", lambda p: replace(p, explicit=p.explicit + "?"), -1),
        ("sides: exclamation", lambda p: replace(p, explicit=p.explicit + "!"), -1),
        ("sides: hedge", lambda p: replace(p, implicit="perhaps " + p.implicit), 1),
        ("sides: negation", lambda p: replace(p, explicit="don't " + p.explicit), -1),
        ("sides: you", lambda p: replace(p, explicit="You " + p.explicit), -1),
        ("sides: please", lambda p: replace(p, explicit="please " + p.explicit), -1),
        ("sides: imperative", lambda p: replace(p, explicit="Please, bring " + p.explicit), -1),
        ("sides: two", lambda p: replace(p, implicit="Well. " + p.implicit + "."), 1),
        ("pairs whose implicit", lambda p: replace(p, implicit=p.implicit + " and so on"), 1),
        ("4 levels: ", lambda p: p, None),
        ("3 levels: order of length", lambda p: replace(p, levels=longest(p)), 1),
        ("sentences", lambda p: replace(p, implicit="The same."), 127),
    ],
)
def test_what_gives_a_side_or_a_level_away_is_measured(
    name: str, change: Callable[[TrainingPair], TrainingPair], value: float | None
) -> None:
    pairs = changed(change)

    if value is None:
        assert not [one for one in measures(pairs) if one.name.startswith(name)]
    else:
        found = measured(pairs, name)
        assert found.value == pytest.approx(value, abs=0.1)
        assert not found.is_kept


def test_hedged_levels_are_measured() -> None:
    hedged = changed(
        lambda pair: (
            replace(pair, levels=(pair.levels[0], f"maybe {pair.levels[1]}", pair.levels[2]))
            if pair.levels
            else pair
        )
    )

    assert measured(hedged, "3 levels: hedge").value == 1


@pytest.mark.parametrize(("more", "both"), [(" and so on and on", 1.0), ("", 0.0)])
def test_meanings_in_a_long_and_a_short_form_are_counted(more: str, both: float) -> None:
    pairs = [
        form
        for n in range(3)
        for form in (
            TrainingPair(implicit="Cold here.", explicit="Shut it now, please.", meaning=f"m{n}"),
            TrainingPair(implicit="Is it June" + more, explicit="Shut it now.", meaning=f"m{n}"),
        )
    ]

    assert measured(pairs, "meanings").value == both


def test_word_presence_names_sides_that_have_words_of_their_own() -> None:
    assert measured(invented(), "word presence").value == 1


def test_a_repeated_sentence_is_one_but_for_case_and_marks() -> None:
    pairs = invented()
    again = replace(pairs[0], implicit=normal(pairs[1].explicit).upper() + "!")

    assert measured([again, *pairs[1:]], "sentences").value == 1
