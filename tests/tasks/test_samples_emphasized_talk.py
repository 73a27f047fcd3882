"""The project's own samples of emphasized_talk: their form, and that each dialogue is a contrast.

The samples of a dialogue share its turns and differ in the stressed fragment alone, so what
tells their implications apart must be the stress.
"""

import re
from collections import Counter
from itertools import combinations, groupby, pairwise
from pathlib import Path
from typing import Literal

import pytest
from msgspec import Struct, json

from harness.data.readers.samples_jsonl import read

FILE = Path(__file__).parents[2] / "tasks" / "samples" / "emphasized_talk.jsonl"
TURN = re.compile(r"[01]: [A-Z][^\n]*[.?!]")
SENTENCE = re.compile(r"[A-Z][^.?!]*\.")


class Fields(Struct, frozen=True, forbid_unknown_fields=True):
    """What a prompt may show."""

    context: str
    speaker: Literal["0", "1"]
    before: str
    emphasis: str
    after: str

    @property
    def turn(self) -> str:
        """The current turn without any mark of the stress."""
        return self.before + self.emphasis + self.after

    @property
    def span(self) -> range:
        """The characters of the turn that are stressed."""
        return range(len(self.before), len(self.before) + len(self.emphasis))


class References(Struct, frozen=True, forbid_unknown_fields=True):
    """One or two wordings of what the stress conveys."""

    implication: tuple[str, ...]


class Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line of the file."""

    group: Literal["all"]
    cluster: str
    flags: tuple[Literal["ambiguous"], ...] = ()
    fields: Fields
    references: References


class Third(Struct, frozen=True):
    """A third of a turn, as shares of its length."""

    start: float
    end: float

    def holds(self, fields: Fields) -> bool:
        """Whether the middle of the fragment lies here."""
        middle = (len(fields.before) + len(fields.emphasis) / 2) / len(fields.turn)
        return self.start <= middle < self.end


THIRDS = {"first": Third(0, 1 / 3), "middle": Third(1 / 3, 2 / 3), "last": Third(2 / 3, 1)}


def normal(text: str) -> str:
    """The words of a text, lower-case, single spaces between them."""
    return " ".join(re.findall(r"[a-z0-9']+", text.lower()))


def occurrences(fragment: str, text: str) -> int:
    """How often the fragment stands in the text as whole words, in any case."""
    return len(re.findall(rf"(?<!\S){re.escape(normal(fragment))}(?!\S)", normal(text)))


def shared_words(one: str, other: str) -> float:
    """The words two texts share, as a share of all their words."""
    first, second = set(normal(one).split()), set(normal(other).split())
    return len(first & second) / len(first | second)


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    return [json.decode(line, type=Line) for line in FILE.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def dialogues(lines: list[Line]) -> list[list[Line]]:
    return [list(run) for _, run in groupby(lines, key=lambda line: line.cluster)]


def test_every_line_has_exactly_the_keys_of_its_form() -> None:
    for line in FILE.read_bytes().splitlines():
        decoded = json.decode(line, type=Line)

        assert json.encode(decoded) == json.encode(json.decode(line))


def test_the_reader_takes_every_line_as_a_sample_of_its_own(lines: list[Line]) -> None:
    samples = read([FILE], None)

    assert len({sample.id for sample in samples}) == len(lines)
    assert [sample.cluster for sample in samples] == [line.cluster for line in lines]


@pytest.mark.parametrize(("fragments", "least"), [(2, 40), (3, 20)])
def test_there_are_enough_dialogues_with_two_and_with_three_fragments(
    dialogues: list[list[Line]], fragments: int, least: int
) -> None:
    assert sum(len(dialogue) == fragments for dialogue in dialogues) >= least


def test_at_least_64_dialogues_stand_together_each_under_a_name_of_its_own(
    dialogues: list[list[Line]],
) -> None:
    names = [dialogue[0].cluster for dialogue in dialogues]

    assert len(names) == len({name.partition("-")[2] for name in names}) >= 64
    for number, name in enumerate(names, start=1):
        assert re.fullmatch(rf"d{number:02}(-[a-z]+)+", name), name


def test_samples_of_a_dialogue_differ_in_the_stress_alone(dialogues: list[list[Line]]) -> None:
    for dialogue in dialogues:
        seen = {(line.fields.context, line.fields.speaker, line.fields.turn) for line in dialogue}

        assert len(seen) == 1, dialogue[0].cluster
        assert len(dialogue) in (2, 3), dialogue[0].cluster


def test_no_two_dialogues_share_a_turn(dialogues: list[list[Line]]) -> None:
    said = [dialogue[0].fields.turn for dialogue in dialogues]
    said += [turn[3:] for dialogue in dialogues for turn in dialogue[0].fields.context.split("\n")]

    assert [text for text, count in Counter(map(normal, said)).items() if count > 1] == []


def test_two_to_four_turns_by_turns_lead_to_the_speaker(lines: list[Line]) -> None:
    for fields in (line.fields for line in lines):
        turns = fields.context.split("\n")
        speakers = [turn[0] for turn in turns] + [fields.speaker]

        assert 2 <= len(turns) <= 4, fields
        assert all(TURN.fullmatch(turn) for turn in turns), fields
        assert all(one != other for one, other in pairwise(speakers)), fields


def test_the_current_turn_is_said_by_each_speaker_equally_often(
    dialogues: list[list[Line]],
) -> None:
    by_zero = sum(dialogue[0].fields.speaker == "0" for dialogue in dialogues)

    assert 0.4 <= by_zero / len(dialogues) <= 0.6


def test_turns_are_plain_ascii_without_quotation_marks(lines: list[Line]) -> None:
    for fields in (line.fields for line in lines):
        for text in (fields.turn, *fields.context.split("\n")):
            assert re.fullmatch(r"[A-Za-z0-9 .,:;?!'-]+", text), text
            assert text == " ".join(text.split()), text
            assert re.search(r"(?<![A-Za-z])'|'(?![A-Za-z])", text) is None, text


def test_a_turn_opens_with_a_capital_and_ends_as_a_sentence(lines: list[Line]) -> None:
    for fields in (line.fields for line in lines):
        assert re.fullmatch(r"[A-Z].*[.?!]", fields.turn), fields.turn


def test_a_fragment_is_one_to_three_whole_words(lines: list[Line]) -> None:
    for fields in (line.fields for line in lines):
        assert re.fullmatch(r"[A-Za-z'-]+( [A-Za-z'-]+){0,2}", fields.emphasis), fields
        assert re.search(r"[\w'-]$", fields.before) is None, fields
        assert re.match(r"[\w'-]", fields.after) is None, fields


def test_fragments_of_a_turn_stand_in_order_and_do_not_overlap(
    dialogues: list[list[Line]],
) -> None:
    for dialogue in dialogues:
        spans = [line.fields.span for line in dialogue]

        assert all(one.stop < other.start for one, other in combinations(spans, 2)), dialogue


def test_a_fragment_is_flagged_ambiguous_exactly_if_its_turn_repeats_it(
    lines: list[Line],
) -> None:
    for line in lines:
        found = occurrences(line.fields.emphasis, line.fields.turn)

        assert found >= 1, line
        assert line.flags == (("ambiguous",) if found > 1 else ()), line


def test_five_fragments_at_most_five_in_a_hundred_are_ambiguous(lines: list[Line]) -> None:
    ambiguous = sum(bool(line.flags) for line in lines)

    assert ambiguous == 5
    assert ambiguous <= 0.05 * len(lines)


@pytest.mark.parametrize("third", THIRDS)
def test_every_third_of_the_turn_has_at_least_a_fifth_of_the_fragments(
    lines: list[Line], third: str
) -> None:
    share = sum(THIRDS[third].holds(line.fields) for line in lines) / len(lines)

    assert share >= 0.2


def test_an_implication_is_one_sentence_of_6_to_20_words(lines: list[Line]) -> None:
    for text in (text for line in lines for text in line.references.implication):
        assert SENTENCE.fullmatch(text), text
        assert re.fullmatch(r"[A-Za-z ,;'.-]+", text), text
        assert text == " ".join(text.split()), text
        assert 6 <= len(text.split()) <= 20, text


def test_about_a_third_of_the_samples_have_a_second_implication(lines: list[Line]) -> None:
    counts = Counter(len(line.references.implication) for line in lines)

    assert set(counts) == {1, 2}
    assert 0.25 <= counts[2] / len(lines) <= 0.4


def test_some_dialogues_have_a_second_implication_for_every_fragment(
    dialogues: list[list[Line]],
) -> None:
    full = [all(len(s.references.implication) == 2 for s in dialogue) for dialogue in dialogues]

    assert sum(full) >= 12


def test_no_implication_occurs_twice(lines: list[Line]) -> None:
    counts = Counter(normal(text) for line in lines for text in line.references.implication)

    assert [text for text, count in counts.items() if count > 1] == []


def test_a_second_implication_is_worded_differently(lines: list[Line]) -> None:
    for texts in (line.references.implication for line in lines):
        for one, other in combinations(texts, 2):
            assert shared_words(one, other) <= 0.5, texts


def test_implications_of_two_fragments_share_few_words(dialogues: list[list[Line]]) -> None:
    for one, other in (pair for dialogue in dialogues for pair in combinations(dialogue, 2)):
        for first in one.references.implication:
            for second in other.references.implication:
                assert shared_words(first, second) <= 0.4, (first, second)


def test_at_most_half_of_the_samples_repeat_the_fragment_in_an_implication(
    lines: list[Line],
) -> None:
    echoes = [
        any(occurrences(line.fields.emphasis, text) for text in line.references.implication)
        for line in lines
    ]

    assert sum(echoes) <= 0.5 * len(lines)


def test_no_implication_repeats_the_current_turn(lines: list[Line]) -> None:
    for line in lines:
        for text in line.references.implication:
            assert shared_words(text, line.fields.turn) <= 0.5, text
