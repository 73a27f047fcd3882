"""The project's own samples of intent_detection: their form, and that no surface cue solves them.

A cue names the choices it favours (the longest, the one that shares most words with the story);
choosing among them must be right about as often as choosing blindly.
"""

import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Literal

import pytest
from msgspec import Struct, json
from support.each import each
from support.sample_texts import normal, other_texts, released_texts, repeated, runs, texts, words

from harness.core import Sample
from harness.data.readers.samples_jsonl import read

FILE = Path(__file__).parents[2] / "tasks" / "samples" / "intent_detection.jsonl"
DATA = os.environ.get("HARNESS_DATA")
TOLD = ("deceits", "indirect_speech", "irony", "maxims", "metaphor")
GROUPS = (*TOLD, "humour", "coherence_inference")
FOURTH = ("IncorrectLexicalOverlap", "IncorrectNonSequitur")
OTHER = ("IncorrectNonLiteral", "IncorrectAssociate")
METAPHOR = ("IncorrectPlausibleLiteral", "IncorrectNonLiteral", "IncorrectNonSequitur")
ENDINGS = (
    *("IncorrectStraightforward", "AssociativeNonSequitur"),
    *("FunnyNonSequitur", "NeutralNonSequitur"),
)
DENIAL = re.compile(r"n't\b|\b(?:no|not|never|nobody|nothing|cannot|hardly)\b", re.IGNORECASE)
FUNCTION_WORDS = set(
    words("the a an of to in on at as by for with and that it her his she he they")
)
FUNCTION_WORDS |= set(words("is was be has have had"))


class Fields(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a prompt may show."""

    scenario: str
    without_story: str | None = None


class References(Struct, frozen=True, forbid_unknown_fields=True):
    """What each choice is, in their order."""

    labels: tuple[str, ...]


class Line(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the file."""

    group: Literal[
        "deceits",
        "indirect_speech",
        "irony",
        "maxims",
        "metaphor",
        "humour",
        "coherence_inference",
    ]
    fields: Fields
    choices: tuple[str, ...]
    gold: str
    references: References


Cue = Callable[[Line, str], float]


def story_words(line: Line, choice: str) -> float:
    """How many words that say something a choice shares with its story."""
    return len(set(words(choice)) & set(words(line.fields.scenario)) - FUNCTION_WORDS)


CUES: dict[str, Cue] = {
    "longest": lambda _, choice: len(choice),
    "shortest": lambda _, choice: -len(choice),
    "most words of the story": story_words,
    "fewest words of the story": lambda line, choice: -story_words(line, choice),
    "denial": lambda _, choice: bool(DENIAL.search(choice)),
    "no denial": lambda _, choice: not DENIAL.search(choice),
    "quoted": lambda _, choice: '"' in choice,
}


def luck(line: Line, cue: Cue) -> float:
    """How often a blind choice among those a cue favours is the right one."""
    worth = [cue(line, choice) for choice in line.choices]
    favoured = [c for c, value in zip(line.choices, worth, strict=True) if value == max(worth)]
    return favoured.count(line.gold) / len(favoured)


def length_rank(line: Line) -> float:
    """The place of the right choice among all by length, from 1; ties share their places."""
    lengths, own = [len(choice) for choice in line.choices], len(line.gold)
    return sum(length < own for length in lengths) + (1 + lengths.count(own)) / 2


def right_label(line: Line) -> str:
    return line.references.labels[line.choices.index(line.gold)]


def wrong_labels(line: Line) -> list[str]:
    pairs = zip(line.choices, line.references.labels, strict=True)
    return [label for choice, label in pairs if choice != line.gold]


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    return [json.decode(line, type=Line) for line in FILE.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return read([FILE], None)


def of(lines: list[Line], group: str) -> list[Line]:
    return [line for line in lines if line.group == group]


def test_every_line_has_exactly_the_keys_of_its_form() -> None:
    for line in FILE.read_bytes().splitlines():
        decoded = json.decode(line, type=Line)

        assert json.encode(decoded) == json.encode(json.decode(line))


def test_the_reader_finds_every_sample_once(samples: list[Sample]) -> None:
    assert len({sample.id for sample in samples}) == 56


@each("group", GROUPS)
def test_every_group_has_eight_samples(lines: list[Line], group: str) -> None:
    assert len(of(lines, group)) == 8


@pytest.mark.parametrize("group", ["deceits", "indirect_speech", "irony", "maxims"])
def test_a_remark_has_its_reading_the_literal_one_and_two_others(
    lines: list[Line], group: str
) -> None:
    for line in of(lines, group):
        wrong = set(wrong_labels(line))

        assert right_label(line) == "CorrectNonLiteral"
        assert len(wrong) == len(line.choices) - 1 == 3
        assert {"IncorrectLiteral"} <= wrong <= {"IncorrectLiteral", *OTHER, *FOURTH}
        assert wrong & set(FOURTH)


@pytest.mark.parametrize(
    ("group", "wrong"), [("metaphor", ("IncorrectLiteral", *METAPHOR)), ("humour", ENDINGS)]
)
def test_a_metaphor_and_a_joke_have_one_choice_of_each_kind(
    lines: list[Line], group: str, wrong: tuple[str, ...]
) -> None:
    for line in of(lines, group):
        assert right_label(line) == "CorrectNonLiteral"
        assert sorted(wrong_labels(line)) == sorted(wrong)


def test_half_of_the_pairs_of_sentences_are_coherent(lines: list[Line]) -> None:
    posed = of(lines, "coherence_inference")

    assert Counter(line.gold for line in posed) == {"Coherent": 4, "Incoherent": 4}
    for line in posed:
        wrong = {"Coherent", "Incoherent"} - {line.gold}
        assert sorted(line.choices) == ["Coherent", "Incoherent"]
        assert right_label(line) == "Correct"
        assert wrong_labels(line) == [f"Incorrect{wrong.pop()}"]


def test_the_right_choice_stands_among_the_choices_once(lines: list[Line]) -> None:
    for line in lines:
        assert line.choices.count(line.gold) == 1
        assert len({normal(choice) for choice in line.choices}) == len(line.choices)
        assert len(line.references.labels) == len(line.choices)


@each("group", GROUPS)
def test_a_remark_alone_is_the_end_of_its_story_and_a_question(
    lines: list[Line], group: str
) -> None:
    for line in of(lines, group):
        alone = line.fields.without_story

        assert (alone is not None) == (group in TOLD)
        if alone is not None:
            assert line.fields.scenario.endswith(f" {alone}")
            assert re.fullmatch(r'[^".?!]+: "[^"]+" (?:What|Why) [^".!]+\?', alone), alone


def test_a_pair_of_sentences_is_two_sentences(lines: list[Line]) -> None:
    for line in of(lines, "coherence_inference"):
        assert re.fullmatch(r"[A-Z][^.?!\"]+\. [A-Z][^.?!\"]+\.", line.fields.scenario)


def test_every_text_is_trimmed_plain_ascii_and_ends_as_a_sentence(lines: list[Line]) -> None:
    for line in lines:
        posed = line.group == "coherence_inference"
        for text in (line.fields.scenario, *(() if posed else line.choices)):
            assert text.isascii(), text
            assert text == " ".join(text.split()), text
            assert text.rstrip('"')[-1] in ".?", text


@each("group", GROUPS)
def test_the_right_choice_stands_at_every_place_equally_often(
    lines: list[Line], group: str
) -> None:
    chosen = of(lines, group)
    places = Counter(line.choices.index(line.gold) for line in chosen)

    counts = [places[place] for place in range(len(chosen[0].choices))]

    assert max(counts) - min(counts) <= 1, counts


def test_coherent_and_incoherent_pairs_are_right_at_both_places(lines: list[Line]) -> None:
    posed = of(lines, "coherence_inference")

    counts = Counter((line.gold, line.choices.index(line.gold)) for line in posed)

    assert list(counts.values()) == [2, 2, 2, 2]


@each("group", GROUPS)
def test_the_right_choice_is_of_middling_length_on_average(lines: list[Line], group: str) -> None:
    chosen = of(lines, group)
    middle = (len(chosen[0].choices) + 1) / 2

    assert abs(mean(map(length_rank, chosen)) - middle) <= 0.3


@each("cue", CUES)
@each("group", [*TOLD, "humour"])
def test_no_surface_cue_finds_the_right_choice(lines: list[Line], group: str, cue: str) -> None:
    chosen = of(lines, group)
    chance = 1 / len(chosen[0].choices)

    assert mean(luck(line, CUES[cue]) for line in chosen) <= chance + 0.15


def test_no_text_occurs_in_two_samples(lines: list[Line]) -> None:
    told = [line for line in lines if line.group != "coherence_inference"]
    counts = Counter(normal(text) for line in told for text in line.choices)
    counts.update(run for line in lines for run in runs(line.fields.scenario))

    assert [text for text, count in counts.items() if count > 1] == []


def test_nothing_is_repeated_from_another_sample_set(samples: list[Sample]) -> None:
    theirs = other_texts("intent_detection")

    assert repeated([text for sample in samples for text in told_texts(sample)], theirs) == []


@pytest.mark.skipif(DATA is None, reason="HARNESS_DATA is unset: the folder of the released data")
def test_nothing_is_repeated_from_released_data(samples: list[Sample]) -> None:
    theirs = released_texts(Path(DATA or "."))

    assert len(theirs) > 1000
    assert repeated([text for sample in samples for text in told_texts(sample)], theirs) == []


def told_texts(sample: Sample) -> list[str]:
    """The texts of a sample but for Coherent and Incoherent, which are no sentences."""
    return [text for text in texts(sample) if len(words(text)) > 1]
