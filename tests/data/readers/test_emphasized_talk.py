"""The released Emphasized-Talk dialogues to samples, the stress found once and by whole words."""

import json
import logging
from collections import Counter
from math import comb
from pathlib import Path

import pytest
from support.each import each
from support.packages import DATA, needs_data

from harness.core import Sample
from harness.data.readers.emphasized_talk import AMBIGUOUS, REPAIRED, Span, find_span, read
from harness.errors import DataError

RELEASED = Path(DATA or ".", "emphasized_talk", "data.json")
CONTEXT = "0: who has the ladder?<br>1: one of the neighbours."
MEANT = {"rosa": ["the others did not ask."], "promised": ["she owes it.", "it was agreed."]}
TURN = "0: rosa promised to ask, and rosa's word is good."


def dialogues(folder: Path, content: object) -> list[Path]:
    """The only file of the source."""
    path = folder / "data.json"
    path.write_text(json.dumps(content), "utf-8")
    return [path]


def one(folder: Path, emphasis: dict[str, list[str]], *, current: str = TURN) -> list[Sample]:
    """The samples of one dialogue."""
    return read(dialogues(folder, {CONTEXT: {"current": current, "emphasis": emphasis}}), None)


def turn(sample: Sample) -> str:
    """The current turn without any mark."""
    return "".join(sample.fields[name] for name in ("before", "emphasis", "after"))


@each(
    ("turn", "fragment", "found"),
    [
        ("i saw it", "i", "<i> saw it"),
        ("if i'm late, i call", "i", "if <i>'m late, i call"),
        *(("there he is", "he", "there <he> is"), ("there is he", "he", "there is <he>")),
        *(("so i said so", "so i", "<so i> said so"), ("now, really", "now,", "<now,> really")),
        *(("why now?", "now?", "why <now?>"), ("(all) of it", "(all)", "<(all)> of it")),
        ("it costs $5.50 or 5", "5", "it costs $<5>.50 or 5"),
        ("it costs 5.50", "5.50", "it costs <5.50>"),
        ("that's not that", "that's", "<that's> not that"),
        ("the girls' seat", "girls'", "the <girls'> seat"),
        ("a well-known seat", "known", "a well-<known> seat"),
        ("a+b, not a.b", "a.b", "a+b, not <a.b>"),
        ("caf\u00e9 or caf", "caf", "caf\u00e9 or <caf>"),
    ],
)
def test_the_first_occurrence_of_words_is_stressed(turn: str, fragment: str, found: str) -> None:
    span = find_span(turn, fragment)

    assert span is not None
    start, end, flags = span
    assert f"{turn[:start]}<{turn[start:end]}>{turn[end:]}" == found
    assert REPAIRED not in flags


@each(
    ("turn", "fragment", "expected"),
    [
        ("no, no", "no", (0, 2, (AMBIGUOUS,))),
        ("i know that i do", "i", (0, 1, (AMBIGUOUS,))),
        ("no, nobody", "no", (0, 2, ())),
        ("aa aa aa", "aa aa", (0, 5, ())),
        ("an interview", "nterview", (3, 12, (REPAIRED,))),
        ("it's secretive", "secret", (5, 14, (REPAIRED,))),
        ("interviews, interviews", "nterview", (0, 10, (REPAIRED,))),
        ("lightly numbered", "light", (0, 7, (REPAIRED,))),
        *(("an interview", "review", None), ("Rosa", "rosa", None), ("", "rosa", None)),
        *(("rosa has it", "", None), ("rosa has it", " ", None)),
    ],
)
def test_what_had_to_be_decided_is_flagged(turn: str, fragment: str, expected: Span | None) -> None:
    assert find_span(turn, fragment) == expected


def test_each_fragment_of_a_dialogue_becomes_a_sample(tmp_path: Path) -> None:
    rosa, promised = one(tmp_path, MEANT)

    assert rosa.fields == {
        "context": "0: who has the ladder?\n1: one of the neighbours.",
        "speaker": "0",
        "before": "",
        "emphasis": "rosa",
        "after": " promised to ask, and rosa's word is good.",
    }
    assert promised.references == {"implication": ("she owes it.", "it was agreed.")}
    assert (rosa.flags, promised.flags) == ((AMBIGUOUS,), ())
    assert rosa.cluster == promised.cluster != rosa.id != promised.id


def test_an_id_depends_on_what_is_stressed_and_on_no_neighbour(tmp_path: Path) -> None:
    together = {part.id for part in one(tmp_path, MEANT)}
    alone = [one(tmp_path, {name: ["reworded."]})[0].id for name in reversed(MEANT)]

    assert set(alone) == together
    assert one(tmp_path, MEANT, current=TURN.replace("good", "bad"))[0].id not in together


def test_dialogues_without_a_stress_are_counted_in_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = {f"0: {n}": {"current": "1: so what", "emphasis": {}} for n in range(2)}
    content = {**plain, CONTEXT: {"current": TURN, "emphasis": MEANT}}

    with caplog.at_level(logging.WARNING):
        found = read(dialogues(tmp_path, content), None)

    assert len(found) == 2
    assert "dialogues without a stressed fragment, skipped: 2" in caplog.text


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        ([], "not the released layout"),
        ({CONTEXT: {"current": TURN}}, "missing required field `emphasis`"),
        ({CONTEXT: {"current": TURN, "emphasis": {"rosa": "one"}}}, "Expected `array`"),
        ({CONTEXT: {"current": TURN, "emphasis": MEANT, "by": 1}}, "unknown field `by`"),
        ({CONTEXT: {"current": "rosa promised", "emphasis": MEANT}}, "begin with '0: ' or '1: '"),
        ({CONTEXT: {"current": TURN, "emphasis": {"pia": ["she?"]}}}, "'pia' is not in"),
        ({CONTEXT: {"current": TURN, "emphasis": {"rosa": []}}}, "or has no implication"),
    ],
)
def test_a_file_of_another_form_is_told_so(tmp_path: Path, content: object, fact: str) -> None:
    with pytest.raises(DataError) as caught:
        read(dialogues(tmp_path, content), None)

    assert fact in str(caught.value)
    assert "fetch" in str(caught.value)


@pytest.fixture(scope="module")
def released() -> list[Sample]:
    return read([RELEASED], None)


@needs_data
def test_the_released_file_has_the_counts_of_the_dialogues(released: list[Sample]) -> None:
    sizes = Counter(Counter(part.cluster for part in released).values())

    assert len(released) == len({part.id for part in released}) == 2085
    assert sizes == {1: 21, 2: 863, 3: 67, 4: 24, 5: 7, 6: 1}
    assert sum(count for size, count in sizes.items() if size > 1) == 962
    assert sum(count * comb(size, 2) for size, count in sizes.items()) == 1293


@needs_data
def test_what_had_to_be_decided_in_the_released_file_is_counted(released: list[Sample]) -> None:
    flags = Counter(flag for part in released for flag in part.flags)
    assert flags == {AMBIGUOUS: 23, REPAIRED: 3}


@needs_data
def test_no_released_turn_is_altered(released: list[Sample]) -> None:
    content = json.loads(RELEASED.read_text("utf-8"))
    turns = [d["current"] for d in content.values() for _ in d["emphasis"]]
    assert [f"{part.fields['speaker']}: {turn(part)}" for part in released] == turns
