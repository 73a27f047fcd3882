"""Real-looking replies to values, or to the reason why there is none."""

import pytest

from harness.parsers import CUTS, first_paragraph, option_number, whole
from harness.parts import Reason

U, E = Reason.UNPARSED, Reason.EMPTY
REPLIES: list[tuple[str, int | Reason]] = [
    *(("", E), (" ", E), (" \n\t\r\n", E), ("\u00a0\u2003", E)),
    *(("1", 1), ("2", 2), (" 2\n", 2), ("1.", 1), ("2)", 2), ("(1)", 1), ("[2]", 2), ("#1", 1)),
    *(("(2) because it agrees.", 2), ("1: it agrees.", 1), ("1 - both decline", 1)),
    *(("Option 2.", 2), ("option 1", 1), ("OPTION 2", 2), ("Option: 1", 1), ("Option (2)", 2)),
    *(("**1**", 1), ("`2`", 2), ('"1"', 1), ("'2'", 2), ("_1_", 1), ("**2** is closer", 2)),
    *(("Answer: 2", 2), ("answer 1", 1), ("Answer: Option 2", 2), ("Answer: (1)", 1)),
    *(("The answer is 2", 2), ("The answer is: 1.", 1), ("the option is 2", 2), ("Choice 1", 1)),
    *(("1\nOption 1 agrees to help.", 1), ("2\n2", 2), ("1, in 12 words", 1), ("2 (0.95)", 2)),
    # Two options named.
    *(("1 or 2", U), ("1/2", U), ("1, 2", U), ("1-2", U), ("1\n2", U), ("1 2", U), ("1. 2.", U)),
    *(("Option 1 is closer than Option 2", U), ("1 (not 2)", U), ("2, as option 1 is rude", U)),
    # No option opens it.
    *(("neither", U), ("Neither 1 nor 2", U), ("both", U), ("none of the two", U)),
    *(("I cannot help with that.", U), ("I'm sorry, but I can't compare these 2 replies.", U)),
    *(("I would choose option 1 because option 2 is literal.", U), ("I pick 2", U)),
    *(
        ("The answer is not 1", U),
        ("The 2 replies differ", U),
        ("is 2", U),
        ("1st", U),
        ("It is 1", U),
        ("one", U),
    ),
    *(("In 1 of the replies he agrees", U), ("Option A", U), ("Option two", U), ("A", U)),
    # Another number, or another grammar.
    *(("0", U), ("3", U), ("12", U), ("21", U), ("01", U), ("1.5", U), ("1,5", U), ("2.0", U)),
    *(("-1", U), ("+1", U), ("1e0", U), ("NaN", U), ("None", U), ("True", U), ("99", U)),
    *(('{"answer": 1}', U), ('{"answer": ', U), ("```\n1\n```", U), ("<1>", U), ("A1", U)),
    *(("\u0661", U), ("\u0967", U), ("\uff11", U), ("\u00b2", U), ("\u2460", U)),
    *(("{{ 1 }}", U), ("__import__('os').getpid()", U), ("1" * 5000, U), ("2 " + "7" * 5000, 2)),
]


@pytest.mark.parametrize(("reply", "expected"), REPLIES, ids=lambda value: repr(value)[:40])
def test_option_number_reads_only_an_opening_number(reply: str, expected: int | Reason) -> None:
    assert option_number(reply, count=2) == expected


@pytest.mark.parametrize(
    ("reply", "count", "expected"),
    [("3", 3, 3), ("3", 2, U), ("1 or 3", 3, U), ("1 or 3", 2, 1), ("12", 12, 12), ("1", 0, U)],
)
def test_an_option_lies_in_the_range_of_the_question(
    reply: str, count: int, expected: int | Reason
) -> None:
    assert option_number(reply, count=count) == expected


@pytest.mark.parametrize("filling", [" ", "\n", "\t \r\n"])
def test_a_long_blank_reply_is_read_at_once(filling: str) -> None:
    # Backtracking over the blanks would take hours here.
    assert option_number(filling * 100_000 + "neither", count=2) == Reason.UNPARSED
    assert option_number("option" + filling * 100_000 + "2", count=2) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sure.", "Sure."),
        ("  Sure.  \n", "Sure."),
        ("Sure.\n\nNote: he agrees.", "Sure."),
        ("Sure.\nWith pleasure.\n\nNote", "Sure.\nWith pleasure."),
        ("\n\n\nSure.\n\nNote", "Sure."),
        ("\r\n\r\nSure.\r\n\r\nNote", "Sure."),
        (" \n \t\nSure.\n   \nNote", "Sure."),
        ("Sure.\n\t\nNote", "Sure."),
        ("Sure.\n \r\nNote", "Sure."),
        ("Sure. \t \n\nNote", "Sure."),
        ("Sure.\n\n\n\nNote\n\nMore", "Sure."),
        ("One\r\ntwo", "One\r\ntwo"),
        ("", ""),
        ("\n \n\t\r\n", ""),
    ],
)
def test_the_first_paragraph_ends_at_the_first_blank_line(text: str, expected: str) -> None:
    assert first_paragraph(text) == expected


def test_the_whole_answer_keeps_its_blank_lines() -> None:
    assert whole("\n Sure.\n\nNote \n") == "Sure.\n\nNote"


@pytest.mark.parametrize("cut", CUTS.values())
def test_cutting_twice_is_cutting_once(cut: object) -> None:
    assert callable(cut)
    once = cut("\n\nSure. \r\n \r\nNote\n")

    assert cut(once) == once
