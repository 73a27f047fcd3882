"""The project's own samples of intent_resolution: their form, and that no surface cue solves them.

A balance test picks the true text of each pair by one cue (the shorter one, the one with a
question mark) and wants that to work about half of the time.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean
from typing import Literal

import pytest
from msgspec import Struct, json
from support.each import each

FILE = Path(__file__).parents[2] / "tasks" / "samples" / "intent_resolution.jsonl"
GROUPS = ("indirect_speech", "irony", "maxims", "metaphor")
SLICES = ("all", *GROUPS)
REPLIES = ("turn2_true", "turn2_literal")
PAIRS = (REPLIES, ("turn1_true", "turn1_literal"), ("true_intention", "literal_intention"))
FORMULAS = frozenset(
    ["yes", "no", "sure", "okay", "thanks", "thank", "that", "glad", "oh", "right", "good", "sorry"]
)
DENIAL = re.compile(r"n't\b|\b(?:no|not|never|nobody|nothing|cannot)\b", re.IGNORECASE)


class Fields(Struct, frozen=True, forbid_unknown_fields=True):
    """What a prompt may show."""

    context: str
    prefix: str
    utterance: str
    speaker: str
    listener: str


class References(Struct, frozen=True, forbid_unknown_fields=True):
    """The true and the literal reading, each with one text a step."""

    true_intention: tuple[str]
    literal_intention: tuple[str]
    turn1_true: tuple[str]
    turn1_literal: tuple[str]
    turn2_true: tuple[str]
    turn2_literal: tuple[str]


class Line(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the file."""

    group: Literal["indirect_speech", "irony", "maxims", "metaphor"]
    fields: Fields
    references: References


class Pair(Struct, frozen=True):
    """A true and a literal text for the same utterance."""

    true: str
    literal: str
    speaker: str


Cue = Callable[[str, Pair], bool]
CUES: dict[str, Cue] = {
    "question mark": lambda text, _: "?" in text,
    "exclamation mark": lambda text, _: "!" in text,
    "comma": lambda text, _: "," in text,
    "ends as a question": lambda text, _: text.endswith("?"),
    "more than one sentence": lambda text, _: len(re.findall(r"[.!?](?= |$)", text)) > 1,
    "names the speaker": lambda text, pair: pair.speaker in text,
    "denial": lambda text, _: bool(DENIAL.search(text)),
    "reply formula": lambda text, _: opening(text).partition("'")[0] in FORMULAS,
}


def normal(text: str) -> str:
    """The letters of a text, lower-case, single spaces between words."""
    return " ".join(words(text))


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


def opening(text: str) -> str:
    return words(text)[0]


def texts(references: References) -> list[str]:
    return [getattr(references, name)[0] for name in References.__struct_fields__]


def pairs(lines: Iterable[Line], names: tuple[str, str], group: str) -> list[Pair]:
    """The two named references of each line of a group ("all": of every line)."""
    return [
        Pair(
            true=getattr(line.references, names[0])[0],
            literal=getattr(line.references, names[1])[0],
            speaker=line.fields.speaker,
        )
        for line in lines
        if group in ("all", line.group)
    ]


def leaning(true: int, literal: int, *, least: int) -> float:
    """How often a cue seen in so many true and literal texts points to the true one.

    A cue seen less than `least` times tells nothing: one half.
    """
    return true / (true + literal) if true + literal >= least else 0.5


def word_leanings(
    pairs: list[Pair], pick: Callable[[str], Iterable[str]], *, least: int
) -> dict[str, float]:
    """The leaning of each word that `pick` takes from a text, counted once a text."""
    true = Counter(word for pair in pairs for word in set(pick(pair.true)))
    literal = Counter(word for pair in pairs for word in set(pick(pair.literal)))
    return {word: leaning(true[word], literal[word], least=least) for word in true | literal}


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    return [json.decode(line, type=Line) for line in FILE.read_bytes().splitlines()]


def test_every_line_has_exactly_the_keys_of_its_form() -> None:
    for line in FILE.read_bytes().splitlines():
        decoded = json.decode(line, type=Line)

        assert json.encode(decoded) == json.encode(json.decode(line))


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_has_at_least_twelve_samples(lines: list[Line], group: str) -> None:
    assert sum(line.group == group for line in lines) >= 12


@pytest.mark.parametrize("field", ["context", "utterance"])
def test_no_story_and_no_utterance_occurs_twice(lines: list[Line], field: str) -> None:
    counts = Counter(normal(getattr(line.fields, field)) for line in lines)

    assert [text for text, count in counts.items() if count > 1] == []


def test_speaker_and_listener_are_two_people_whom_the_story_names(lines: list[Line]) -> None:
    for line in lines:
        fields = line.fields
        story = fields.context + " " + fields.prefix

        assert fields.speaker != fields.listener, fields
        for name in (fields.speaker, fields.listener):
            assert re.search(rf"\b{re.escape(name)}\b", story), (name, story)


def test_context_prefix_and_utterance_join_into_one_text(lines: list[Line]) -> None:
    for line in lines:
        fields = line.fields

        assert re.fullmatch(r"[^\"]*[^\" ][.?!]", fields.context), fields.context
        assert re.fullmatch(r"[^\"]*[^\" ] ", fields.prefix), fields.prefix
        assert re.fullmatch(r"\"[^\" ][^\"]*[.?!]\"", fields.utterance), fields.utterance
        assert normal(fields.utterance) not in normal(fields.context), fields.utterance


def test_every_text_is_trimmed_plain_ascii(lines: list[Line]) -> None:
    for line in lines:
        for text in texts(line.references):
            assert text.isascii(), text
            assert text == " ".join(text.split()), text
            assert text.rstrip('"')[-1] in ".?!", text


@pytest.mark.parametrize("names", PAIRS, ids=" ".join)
def test_both_texts_of_a_pair_are_quoted_or_neither(
    lines: list[Line], names: tuple[str, str]
) -> None:
    for pair in pairs(lines, names, "all"):
        assert pair.true.count('"') == pair.literal.count('"'), pair
        assert pair.true.startswith('"') == pair.literal.startswith('"'), pair


def test_no_reference_equals_another_of_its_sample(lines: list[Line]) -> None:
    for line in lines:
        normalised = [normal(text) for text in texts(line.references)]

        assert len(set(normalised)) == len(normalised), normalised


@each("group", SLICES)
@each(("names", "bound"), list(zip(PAIRS, (0.05, 0.08, 0.08), strict=True)))
def test_true_and_literal_texts_are_equally_long_on_average(
    lines: list[Line], names: tuple[str, str], bound: float, group: str
) -> None:
    chosen = pairs(lines, names, group)
    true, literal = mean(len(p.true) for p in chosen), mean(len(p.literal) for p in chosen)

    assert abs(true - literal) <= bound * min(true, literal), (true, literal)


@each("group", SLICES)
@each("names", PAIRS)
def test_picking_the_shorter_text_is_no_better_than_chance(
    lines: list[Line], names: tuple[str, str], group: str
) -> None:
    margin = 0.05 if group == "all" else 0.15
    lengths = [(len(pair.true), len(pair.literal)) for pair in pairs(lines, names, group)]

    right = mean(0.5 if true == literal else float(true < literal) for true, literal in lengths)

    assert abs(right - 0.5) <= margin, right


@each("group", SLICES)
@each("names", PAIRS)
def test_no_opening_word_gives_the_true_text_away(
    lines: list[Line], names: tuple[str, str], group: str
) -> None:
    chosen = pairs(lines, names, group)

    whole = word_leanings(chosen, lambda text: [opening(text)], least=4)
    stems = word_leanings(chosen, lambda text: [opening(text).partition("'")[0]], least=4)

    assert {word: x for word, x in (whole | stems).items() if not 0.35 <= x <= 0.65} == {}


@each("cue", CUES)
@each("group", SLICES)
@each("names", PAIRS)
def test_no_mark_name_or_formula_gives_the_true_text_away(
    lines: list[Line], names: tuple[str, str], group: str, cue: str
) -> None:
    chosen, has = pairs(lines, names, group), CUES[cue]

    true = sum(has(pair.true, pair) for pair in chosen)
    literal = sum(has(pair.literal, pair) for pair in chosen)

    assert 0.35 <= leaning(true, literal, least=4) <= 0.65, (true, literal)


def test_no_frequent_word_gives_the_true_reply_away(lines: list[Line]) -> None:
    leanings = word_leanings(pairs(lines, REPLIES, "all"), words, least=10)

    assert {word: x for word, x in leanings.items() if not 0.35 <= x <= 0.65} == {}
