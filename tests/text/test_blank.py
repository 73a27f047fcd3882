"""What shows nothing is no answer, however many characters it has."""

from support.each import each
from support.sketches import reply, request

from harness.core import Response
from harness.judges.nearness import answers_of
from harness.parts import Reason
from harness.text.cleanup import is_blank
from harness.text.parsers import choice_text, first_digit, option_number, rating, stated_rating

BLANK = [
    *("", " \t\r\n", "\u200b", "\u200b\u200c\u200d\ufeff", "\u2060\u00ad", "\x00\x1b\x07\x9b"),
    *("\u3164\u115f\uffa0", "\u2800\u2800", "\u202e\u202c", "\ufe0f", "\U000e0041\U000e007f"),
    *("\u3000\u00a0\u2028", "\u180e\u034f", " \u200b\n\u200b "),
]
VISIBLE = ["a", ".", "\u200bno\u200b", "\ufffd", "\u2764\ufe0f", "0", "\u05d0", "\u0301", "\u2588"]


@each("text", [*BLANK, *VISIBLE])
def test_what_shows_nothing_and_nothing_else_is_blank(text: str) -> None:
    assert is_blank(text) is (text in BLANK)


@each("text", BLANK)
def test_a_judges_reply_that_shows_nothing_is_empty(text: str) -> None:
    found = [
        *(option_number(text, 2), choice_text(text, ("yes", "no")), rating(text, low=1, high=5)),
        *(stated_rating(text, low=1, high=5), first_digit(text)),
    ]

    assert found == [Reason.EMPTY] * 5


@each("text", BLANK)
def test_an_answer_that_shows_nothing_is_compared_with_nothing(text: str) -> None:
    asked = request()
    assert answers_of(Response(reply(asked).key, texts=(text, "Yes."))) == ("Yes.",)
