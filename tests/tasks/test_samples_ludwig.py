"""The project's own implicatures: their form, and that no word gives the answer away."""

import os
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Literal

import pytest
from msgspec import Struct, json
from support.each import each
from support.sample_texts import normal, other_texts, released_texts, repeated, texts
from support.word_probe import probed

from harness.core import Sample
from harness.data.readers.samples_jsonl import read

FILE = Path(__file__).parents[2] / "tasks" / "samples" / "ludwig.jsonl"
DATA = os.environ.get("HARNESS_DATA")
GOLDS = ("yes", "no")
DENIAL = re.compile(
    r"n't\b|\b(?:no|not|never|nobody|nothing|none|nor|neither|without|cannot|hardly)\b",
    re.IGNORECASE,
)
ANSWER = re.compile(
    r"\b(?:yes|yeah|yep|no|nope|nah|sure|certainly|definitely|absolutely|indeed|of course"
    r"|afraid|sorry|unfortunately)\b",
    re.IGNORECASE,
)


class Fields(Struct, frozen=True, forbid_unknown_fields=True):
    """What a prompt may show."""

    utterance: str
    response: str


class References(Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing: there are no people's answers to our own samples."""


class Line(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the file."""

    group: Literal["particularised", "generalised"]
    fields: Fields
    choices: tuple[Literal["yes"], Literal["no"]]
    gold: Literal["yes", "no"]
    references: References


View = Callable[[Line], str]
VIEWS: dict[str, View] = {
    "response": lambda line: line.fields.response,
    "utterance": lambda line: line.fields.utterance,
    "both": lambda line: f"{line.fields.utterance} {line.fields.response}",
}
CUES: dict[str, re.Pattern[str]] = {
    "denial": DENIAL,
    "question mark": re.compile(r"\?"),
    "comma": re.compile(","),
    "first person": re.compile(r"\b(?:i|my|me|we|us)\b", re.IGNORECASE),
    "number": re.compile(
        r"\b(?:half|two|three|third|four|fourth|five|six|seven|eleven|fourteen)\b|\d", re.IGNORECASE
    ),
}


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    return [json.decode(line, type=Line) for line in FILE.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return read([FILE], None)


def replies(lines: list[Line], gold: str) -> list[str]:
    return [line.fields.response for line in lines if line.gold == gold]


def test_every_line_has_exactly_the_keys_of_its_form() -> None:
    for line in FILE.read_bytes().splitlines():
        decoded = json.decode(line, type=Line)

        assert json.encode(decoded) == json.encode(json.decode(line))


def test_the_reader_finds_every_sample_once(samples: list[Sample]) -> None:
    assert len({sample.id for sample in samples}) == 60


@pytest.mark.parametrize(("group", "each"), [("particularised", 20), ("generalised", 10)])
def test_each_group_means_yes_and_no_equally_often(
    lines: list[Line], group: str, each: int
) -> None:
    counts = Counter(line.gold for line in lines if line.group == group)

    assert counts == {"yes": each, "no": each}


def test_no_answer_follows_from_the_one_before(lines: list[Line]) -> None:
    golds = [line.gold for line in lines]

    same = mean(one == two for one, two in pairwise(golds))

    assert 0.35 <= same <= 0.65


def test_every_utterance_asks_or_proposes(lines: list[Line]) -> None:
    for line in lines:
        assert re.fullmatch(r"[A-Z][^.?!]*\?|Let's [^.?!]*\.", line.fields.utterance)


def test_every_text_is_trimmed_plain_ascii(samples: list[Sample]) -> None:
    for sample in samples:
        for text in sample.fields.values():
            assert text.isascii(), text
            assert text == " ".join(text.split()), text
            assert text[-1] in ".?", text


def test_no_text_occurs_twice(samples: list[Sample]) -> None:
    counts = Counter(normal(text) for sample in samples for text in sample.fields.values())

    assert [text for text, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("gold", GOLDS)
def test_no_reply_says_its_answer(lines: list[Line], gold: str) -> None:
    assert [reply for reply in replies(lines, gold) if ANSWER.search(reply)] == []


@each("cue", CUES)
def test_marks_and_kinds_of_words_are_as_frequent_in_both_halves(
    lines: list[Line], cue: str
) -> None:
    yes, no = (
        sum(bool(CUES[cue].search(reply)) for reply in replies(lines, gold)) for gold in GOLDS
    )

    assert abs(yes - no) <= 2, (yes, no)


@pytest.mark.parametrize("field", ["utterance", "response"])
def test_both_halves_are_equally_long_on_average(lines: list[Line], field: str) -> None:
    yes, no = (
        mean(len(getattr(line.fields, field)) for line in lines if line.gold == gold)
        for gold in GOLDS
    )

    assert abs(yes - no) <= 0.1 * min(yes, no), (yes, no)


def test_the_longer_replies_mean_yes_as_often_as_the_shorter(lines: list[Line]) -> None:
    middle = median(len(line.fields.response) for line in lines)

    right = mean((len(line.fields.response) > middle) == (line.gold == "yes") for line in lines)

    assert 0.4 <= right <= 0.6


@pytest.mark.parametrize("view", VIEWS)
def test_words_alone_do_not_tell_the_answer(lines: list[Line], view: str) -> None:
    shown = [VIEWS[view](line) for line in lines]

    assert probed(shown, [line.gold == "yes" for line in lines]) < 0.65


def test_the_probe_finds_a_word_that_gives_the_answer_away(lines: list[Line]) -> None:
    shown = [f"{VIEWS['both'](line)} {'oh' if line.gold == 'no' else ''}" for line in lines]

    assert probed(shown, [line.gold == "yes" for line in lines]) > 0.9


def test_nothing_is_repeated_from_another_sample_set(samples: list[Sample]) -> None:
    theirs = other_texts("ludwig")

    assert repeated([text for s in samples for text in s.fields.values()], theirs) == []


@pytest.mark.skipif(DATA is None, reason="HARNESS_DATA is unset: the folder of the released data")
def test_nothing_is_repeated_from_released_data(samples: list[Sample]) -> None:
    theirs = released_texts(Path(DATA or "."))

    assert len(theirs) > 1000
    assert repeated([text for s in samples for text in texts(s)[:2]], theirs) == []
