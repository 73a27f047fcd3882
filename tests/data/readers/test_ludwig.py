"""Implicatures to samples: yes or no, with people's answers and the type."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.packages import DATA, needs_data
from support.released_layouts import write_csv

from harness.core import Sample
from harness.data.readers.ludwig import PEOPLE, RATERS, SPLITS, TYPES, read
from harness.errors import DataError

TEST, DEV = SPLITS
RAIN = ("Will it rain,\r\n   you think? ", "Take a coat.", "Yes. It will rain.\r\n")
TEA = ("Any tea?", "The tin is empty.", "No.")
ANSWERED = (*RAIN[:2], "Yes", "Yes", "No", "yes.", "Yes", " No ", "What is meant?")
COLUMNS: Mapping[str, tuple[str, ...]] = {
    TEST: ("Context utterance", "Response utterance", "Implicature"),
    DEV: ("Context utterance", "Response utterance", "Implicature"),
    PEOPLE[0]: ("Utterance", "Response", "Ground truth", *RATERS, "Question"),
    TYPES: ("Utterance", "Response", "Implicature", "Type", "Factual knowledge"),
}


def release(folder: Path, rows: Mapping[str, Sequence[Sequence[str]]]) -> list[Path]:
    """The files of a release, by name."""
    for name, cells in rows.items():
        write_csv(folder / name, COLUMNS[name], cells)
    return [folder / name for name in rows]


def test_a_question_and_its_reply_become_a_sample(tmp_path: Path) -> None:
    [sample] = read(release(tmp_path, {TEST: [RAIN]}), None)

    assert sample.fields == {"utterance": "Will it rain, you think?", "response": "Take a coat."}
    assert (sample.choices, sample.gold) == (("yes", "no"), "yes")
    assert sample.references == {"implicature": ("Yes. It will rain.",)}
    assert (sample.group, sample.flags) == ("unlabelled", ())


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        *(("Yes.", "yes"), ("yes I know", "yes"), ("Yes, and more.", "yes")),
        *(("No . It is shut", "no"), ("No.We are not", "no"), (" no\r\n", "no")),
        ("Not now.", "no"),
    ],
)
def test_gold_is_the_first_word_of_what_is_meant(tmp_path: Path, text: str, gold: str) -> None:
    [sample] = read(release(tmp_path, {TEST: [(*TEA[:2], text)]}), None)
    assert sample.gold == gold


@pytest.mark.parametrize("text", ["Maybe.", "It is so, yes.", "Nobody knows.", "Yes1", "-"])
def test_what_begins_with_neither_yes_nor_no_is_refused(tmp_path: Path, text: str) -> None:
    files = release(tmp_path, {TEST: [TEA, (*RAIN[:2], text)]})
    with pytest.raises(DataError, match=re.escape(f"{files[0]}:3: Implicature says '{text}'")):
        read(files, None)


def test_people_and_type_are_found_by_question_and_reply(tmp_path: Path) -> None:
    kind = ("Will it rain, you think?", " Take a coat.", "Yes", "World  knowledge ", "Np")
    files = release(tmp_path, {TYPES: [kind], PEOPLE[0]: [ANSWERED], TEST: [TEA, RAIN]})

    tea, rain = read(files, None)

    assert rain.references["people"] == ("yes", "no", "yes", "yes", "no")
    assert (rain.group, tea.group) == ("world_knowledge", "unlabelled")
    assert "people" not in tea.references


def test_the_dev_split_is_flagged_and_has_ids_of_its_own(tmp_path: Path) -> None:
    test, dev = read(release(tmp_path, {TEST: [TEA], DEV: [TEA]}), None)

    assert (test.flags, dev.flags) == ((), ("dev",))
    assert replace(dev, id=test.id, cluster=test.cluster, flags=()) == test
    assert (dev.id.split("-")[0], test.id.split("-")[0]) == ("dev", "test")


def test_an_id_is_of_the_texts_and_not_of_their_place_or_their_reading(tmp_path: Path) -> None:
    [first] = read(release(tmp_path, {TEST: [TEA]}), None)
    _, second = read(release(tmp_path, {TEST: [RAIN, (" Any  tea?", TEA[1], "Yes")]}), None)
    assert second.id == first.id


def test_a_type_that_is_found_nowhere_is_left_out(tmp_path: Path) -> None:
    kind = ("Any cake?", "Look.", "Yes", "Idiom", "No")
    [sample] = read(release(tmp_path, {TEST: [TEA], TYPES: [kind, kind]}), None)
    assert sample.group == "unlabelled"


@pytest.mark.parametrize(
    ("rows", "fact"),
    [
        ({TEST: [("", *TEA[1:])]}, ":2: nothing in Context utterance"),
        ({TEST: [(TEA[0], " ", TEA[2])]}, ":2: nothing in Response utterance"),
        (
            {TEST: [RAIN], PEOPLE[0]: [(*ANSWERED[:4], "Not", *ANSWERED[5:])]},
            "Annotator 2 says 'Not', not Yes or No",
        ),
        ({TEST: [TEA], TYPES: [(*TEA, " ", "No")]}, "nothing in Type"),
    ],
)
def test_rows_at_odds_are_refused(
    tmp_path: Path, rows: Mapping[str, Sequence[Sequence[str]]], fact: str
) -> None:
    with pytest.raises(DataError, match=re.escape(fact)):
        read(release(tmp_path, rows), None)


@pytest.fixture(scope="module")
def released() -> list[Sample]:
    """All released items."""
    return read([Path(DATA or "", "ludwig", name) for name in (*SPLITS, *PEOPLE, TYPES)], None)


@needs_data
def test_the_release_has_600_and_118_items_none_of_them_twice(released: list[Sample]) -> None:
    texts = Counter((s.fields["utterance"], s.fields["response"]) for s in released)

    assert Counter(s.flags for s in released) == {(): 600, ("dev",): 118}
    assert set(texts.values()) == {1}
    assert Counter(s.group for s in released) == {
        **{"unlabelled": 491, "particularised": 94, "generalised": 49, "idiom": 44},
        **{"world_knowledge": 22, "rhetorical_question": 16, "hyperbole": 2},
    }


@needs_data
def test_people_agree_with_gold_as_counted_from_released_answers(released: list[Sample]) -> None:
    asked = [s for s in released if "people" in s.references]
    hits = [answer == s.gold for s in asked for answer in s.references["people"]]
    sizes = Counter(max(Counter(s.references["people"]).values()) for s in asked)

    assert (len(asked), len(hits), round(sum(hits) / 3000, 4)) == (600, 3000, 0.8623)
    assert sizes == {5: 427, 4: 99, 3: 74}
