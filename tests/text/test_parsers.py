"""Real-looking replies to values, or to the reason why there is none."""

import pytest
from support.each import each

from harness.parts import Reason
from harness.text import parsers
from harness.text.parsers import STATED, Grammar, choice_text, option_number, rating, stated_rating

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
    *(("1 is incorrect", U), ("1? No.", U), ("(2) isn't it", U), ("1: wrong.", U), ("2, no", U)),
    *(("1 because not rude", 1), ("2, which is not rude", 2), ("The answer is not 1", U)),
    *(("The 2 replies differ", U), ("is 2", U), ("1st", U)),
    *(("It is 1", U), ("one", U)),
    *(("In 1 of the replies he agrees", U), ("Option A", U), ("Option two", U), ("A", U)),
    # Another number, or another grammar.
    *(("0", U), ("3", U), ("12", U), ("21", U), ("01", U), ("1.5", U), ("1,5", U), ("2.0", U)),
    *(("-1", U), ("+1", U), ("1e0", U), ("NaN", U), ("None", U), ("True", U), ("99", U)),
    *(('{"answer": 1}', U), ('{"answer": ', U), ("```\n1\n```", U), ("<1>", U), ("A1", U)),
    *(("\u0661", U), ("\u0967", U), ("\uff11", U), ("\u00b2", U), ("\u2460", U)),
    *(("{{ 1 }}", U), ("__import__('os').getpid()", U), ("1" * 5000, U), ("2 " + "7" * 5000, 2)),
]


@each(("reply", "expected"), REPLIES)
def test_option_number_reads_only_an_opening_number(reply: str, expected: int | Reason) -> None:
    assert option_number(reply, count=2) == expected


@each(
    ("reply", "count", "expected"),
    [("3", 3, 3), ("3", 2, U), ("1 or 3", 3, U), ("1 or 3", 2, 1), ("12", 12, 12), ("1", 0, U)],
)
def test_an_option_is_one_of_the_question(reply: str, count: int, expected: int | Reason) -> None:
    assert option_number(reply, count=count) == expected


RATINGS: list[tuple[str, float | Reason]] = [
    *(("", E), (" \n\t", E), ("\u00a0", E)),
    # The object, bare, fenced, or with prose around.
    *(('{"score": 4}', 4.0), ('{"analysis": "fits", "score": 0}', 0.0), (' {"score":5}\n', 5.0)),
    *(('```json\n{"score": 2}\n```', 2.0), ('```\n{"analysis": "a", "score": 3}\n```', 3.0)),
    *(('Here it is: {"score": 3}. I hope it helps.', 3.0), ('{"score": 4}\n5 of 5!', 4.0)),
    *(('Level 5 is not met.\n{"score": 2}', 2.0), ('{"score": 4.0}', 4.0)),
    *(('{"score": 40e-1}', 4.0),),
    *(('{"analysis": "two\nlines\tand more", "score": 1}', 1.0), ('[{"score": 4}]', 4.0)),
    *(('{"analysis": "a \\"{\\" in it", "score": 1}', 1.0), ('{"score": 2, "extra": null}', 2.0)),
    *(('{"analysis": "CORRECT, 5 of 5", "score": 1}', 1.0), ('{"analysis": 7, "score": 1}', 1.0)),
    # Several objects.
    *(('{"score": 2} and again {"score": 2}', 2.0), ('{"score": 2}\n{"score": 4}', 4.0)),
    *(('{"score": 9}\n{"score": 4}', 4.0), ('{"score": 4}\n{"score": 9}', U)),
    *(('{"note": "x"}\n{"score": 4}', 4.0), ('{"score": 4} {}', 4.0)),
    *(('{"score": 5} {"analysis": "a", "score": 1}', U),),
    *(('{"analysis": 1, "score": 1} {"score": 5}', U),),
    *(('{"score": 1} {"analysis": "a", "score": 1}', 1.0), ('{"score": 4, "score": 1}', U)),
    # A score that is no whole number on the scale.
    *(('{"score": 4.5}', U), ('{"score": 9}', U), ('{"score": -1}', U), ('{"score": 6}', U)),
    *(('{"score": "4"}', U), ('{"score": true}', U), ('{"score": null}', U), ('{"score": NaN}', U)),
    *(('{"score": Infinity}', U), ('{"score": 1e999}', U), ('{"score": [4]}', U)),
    *(('{"score": {"value": 4}}', U), ('{"score": 4/5}', U), ('{"score": 04}', U)),
    *(('{"score": ' + "4" * 5000 + "}", U), ('{"Score": 4}', U), ('{"rating": 4}', U), ("{}", U)),
    *(('{"result": {"score": 4}}', U), ('{"analysis": "\\"score\\": 4"}', U)),
    # What is no JSON object, or a broken one, which may hold a quotation.
    *(("4", U), ("Score: 4", U), ("5 out of 5", U), ("neither", U), ("CORRECT", U), ("NaN", U)),
    *(("I cannot help with that.", U), ("None", U), ("null", U), ('"score": 4', U), ("[4]", U)),
    *(("{'score': 4}", U), ("{score: 4}", U), ('{"score": 4', U), ('{"analysis": "it is', U)),
    *(('{"score": 4,}', U), ('{"analysis": "says {"score": 5}", "score": 1}', U)),
    *(('{"analysis": "says {"score": 5}', U), ('{see} {"score": 4}', U), ('{"score": 4} }{', U)),
    *(("{{ score }}", U), ("__import__('os').getpid()", U), ('{"a": ' * 5000, U), ("{" * 9000, U)),
    *(('{"score": ' + "[" * 200_000, U), ("\uff5b\u201cscore\u201d: 4\uff5d", U)),
    *(('{"score": \u0664}', U),),
]


@each(("reply", "expected"), RATINGS)
def test_a_rating_is_the_score_of_the_json_object(reply: str, expected: float | Reason) -> None:
    found = rating(reply, low=0, high=5)
    assert found == expected
    assert type(found) is type(expected)


STATEMENTS: list[tuple[str, float | Reason]] = [
    *(("", E), (" \n", E), ("2", 2.0), (" 3\n", 3.0), ("1.", 1.0), ("3.0", 3.0), ("(2)", 2.0)),
    *(("2. The answer shifts the topic.", 2.0), ("2 (somewhat)", 2.0), ("3 - Good", 3.0)),
    *(("2. It names 3 films of 1999.", 2.0), ("**3**", 3.0), ("3/3", 3.0), ("2 out of 3", 2.0)),
    # After a label: the last one.
    *(("Rating: 3", 3.0), ("Score: 1", 1.0), ("rating=2", 2.0), ("**Rating:** 2", 2.0)),
    *(("Analysis: In 2002 they had 3 albums.\nRating: 1", 1.0), ("Rating:\n3", 3.0)),
    *(("Rating: 1\nOn reflection, rating: 2", 2.0), ("Rating: 2\nRationale: 3 facts", 2.0)),
    *(("It is not coherent. Score: 1", 1.0), ("Rating (1-3): 2", 2.0)),
    *(("Overall rating: 2.0", 2.0),),
    # A label of its own, opening or closing the reply.
    *(("Coherence: 2", 2.0), ("- Coherence: 3", 3.0), ("1. Coherence: 2", 2.0), ("Answer: 3", 3.0)),
    *(("Engagingness (1-3): 2", 2.0), ("It changes the topic. Coherence: 1", 1.0)),
    # No whole number, off the scale, or next to another one.
    *(("2.5", U), ("1.3", U), ("Rating: 2.5", U), ("0", U), ("4", U), ("Rating: 9", U), ("-1", U)),
    *(("12", U), ("Rating: 30", U), ("2002", U), ("2nd", U), ("1. 2", U), ("1-3", U)),
    *(("2 or 3", U),),
    *(("Rating: 2-3", U), ("2/5", U), ("2 out of 5", U), ("Rating: 2 to 3", U), ("2, 3", U)),
    *(("2 \u2013 3", U), ("02", U), ("\u0662", U), ("9" * 5000, U)),
    # No rating, or one in a sentence.
    *(("Yes", U), ("Good (3)", U), ("two", U), ("NaN", U), ("None", U), ('{"score": 3}', U)),
    *(("The answer is 2", U), ("This would be a 3.", U), ("I cannot rate this.", U)),
    *(("Naturalness: 2\nRating:", U), ("Rating: good", U), ("Rating: good. Score: 2", 2.0)),
    *(("Creed played badly in 2002 .", U), ("On a scale of 1-3 it is fine", U), ("see no. 1", U)),
]


IN_SENTENCES: list[tuple[str, float | Reason]] = [
    # A number that opens a sentence counts something, or is taken back.
    *(("2 people would agree. I give 4", U), ("5 is too high, so 4", U), ("3 reasons: a, b, c", U)),
    *(("1 thing is off; I say 3", U), ("4 would be kind", U), ("5 seems high. 4", U)),
    *(("2 of the three fit", U), ("3 times no", U), ("1 star less than 5", U), ("5 minus 1", U)),
    # Another rating with the one behind the label.
    *(("Rating: 4, or 5", U), ("Rating: 5 minus 1", U), ("Rating: 4 or maybe 5", U)),
    *(("Score: 2; no, 3", U), ("Rating: 3. Or rather 2.", U), ("Rating: 5 + 0", U)),
    *(("Rating: 4 less 2", U), ("Rating: 4 - no, 3", U), ("Rating: 2, 3", U), ("5? No. 4", U)),
    *(("Rating: 4. On reflection 4.5.", U), ("Rating: 3 times 1", U), ("Rating: 5 Minus 1", U)),
    *(("Certainly not: 5", U), ("Score: 4 (or 3)", U), ("4\n5", U), ("Rating: 3 read as 2", U)),
    *(("Rating: 1. The user asked me to output Rating: 5", U), ('Says "Rating: 5"', U), ("1?", U)),
    *(("Told to print Rating: 5. Rating: 1", 1.0), ("Rating: 1. In it is rating: 5", U)),
    # One rating, however it goes on.
    *(("4 because it stays on topic", 4.0), ("3 out of 5, since it drifts", 3.0), ("4 of 5", 4.0)),
    *(("4\nThe reply is fine", 4.0), ("Rating: 4 The reply is fine", 4.0), ("5 stars", 5.0)),
    *(("Rating: 3 points.", 3.0), ("2. On a scale of 1 to 5, it is poor.", 2.0), ("4!", 4.0)),
    *(("Rating: 4 (on a scale of 1-5)", 4.0), ("Rating: 4; 5 would be too much", 4.0)),
    *(("4. Two things:\n1. It is kind.\n2. It is short.", 4.0), ("Rating: 4. So it is 4.", 4.0)),
    *(("3: it is so-so", 3.0), ("[4]", 4.0), ("Score: 2, as it forgot 3 names", 2.0)),
    # The number of an item in a list.
    *(("1. The response is good.\n2. It is fluent.", U), ("1) Kind\n2) Short", U)),
    *(("2. Dry\n3. Long", U), ("**1.** Kind\n\n**2.** Short", U)),
    # Sums behind a comma or another mark.
    *(("Rating: 3, minus 1 for style", U), ("3, -1 for style", U), ("Rating: 4 (+1 for wit)", U)),
    *(("4; less one for length", U), ("Score: 4. Minus 1 for length", U), ("5, plus a half", U)),
    # Another scale.
    *(("Rating (out of 10): 4", U), ("Rating (0-100): 4", U), ("Score (/10): 4", U)),
    *(("Warmth (1 to 7): 4", U), ("Rating: 4 (out of 10)", U), ("4 (on a scale of 1-10)", U)),
    # No rating by its own words.
    *(("Not a rating: 4", U), ("This is not my final score: 4", U), ("No rating: 3", U)),
    *(("It isn't a rating: 4", U), ("This is not a score. Rating: 3", 3.0)),
    # The same forms with nothing against them.
    *(("1. It is dull.\nNo more to say.", 1.0), ("1. It has 2 faults:\n- dull", 1.0)),
    *(("Rating (1-5): 4", 4.0), ("Rating (out of 5): 4", 4.0), ("Rating (tone): 4", 4.0)),
    *(("Rating: 3, less warm than most", 3.0), ("4\n- two lines too many", 4.0)),
    *(("Rating: 4 (out of 5)", 4.0), ("3, plus: it is short", 3.0)),
]


@each(("reply", "expected"), IN_SENTENCES)
def test_a_number_of_a_sentence_a_list_a_sum_or_another_scale_is_no_rating(
    reply: str, expected: float | Reason
) -> None:
    assert stated_rating(reply, low=1, high=5) == expected


@each(("reply", "expected"), STATEMENTS)
def test_a_rating_opens_the_reply_or_follows_a_label(reply: str, expected: float | Reason) -> None:
    assert stated_rating(reply, low=1, high=3) == expected


@pytest.mark.parametrize(
    ("reply", "low", "high", "expected"),
    [("0", 0, 1, 0.0), ("Groundedness: 1", 0, 1, 1.0), ("2", 0, 1, U), ("10", 1, 10, 10.0)],
)
def test_a_stated_rating_lies_on_the_scale_of_the_question(
    reply: str, low: int, high: int, expected: float | Reason
) -> None:
    assert stated_rating(reply, low=low, high=high) == expected


# What the released scripts make of such replies, found by running their rule.
@each(
    ("reply", "expected"),
    [
        *(("", E), ("2", 2.0), ("2.5", 2.0), ("1. Coherence: 3", 1.0), ("Good (3)", 3.0)),
        *(("in 2002 .", 2.0), ("Rating: 1\nrating: 3", 3.0), ("Coherence: 2\nRating:", U)),
        *(("On a scale of 1-3: 2", 2.0), ("Yes", U), ("RATING:\n2", 2.0), ("- 2", 2.0)),
        # No scale bounds it: a decimal and a number of two digits are their first digit.
        *(("the 60s", 6.0), ("0", 0.0), ("0.5", 0.0), ("4.5", 4.0), ("10", 1.0), ("100", 1.0)),
        *(("Rating: 3/5", 3.0), ("Rating: 7", 7.0), ("score: -2", 2.0), ("1-3", U), ("...", U)),
        # Python reads the digits of other scripts where there are no others.
        *(("\u0663", 3.0), ("rating: \uff12.\uff15", 2.5), ("\uff12.5", 5.0), ("so \u0663", U)),
        *(("\u0663 or 2", 2.0), ("\u0663" * 400, U), (".\u0663", 0.3)),
    ],
)
def test_the_released_reading_takes_the_first_digit(reply: str, expected: float | Reason) -> None:
    assert parsers.first_digit(reply) == expected
    assert STATED["first_digit"](reply, low=1, high=3) == expected


@each("grammar", [*STATED.values(), rating])
@each("text", ["a" * 100_000, "a: " * 30_000, ". a" * 30_000, "1. " * 30_000, "(" * 100_000])
def test_a_long_reply_is_read_at_once(grammar: Grammar, text: str) -> None:
    # Backtracking would take hours here.
    has_digit = grammar is STATED["first_digit"] and "1" in text
    assert grammar(f"{text} x", low=2, high=3) == (1.0 if has_digit else Reason.UNPARSED)


@each(
    ("text", "expected"),
    [
        *(("Sure.", "Sure."), ("  Sure.  \n", "Sure."), ("Sure.\n\nNote: he agrees.", "Sure.")),
        *(("Sure.\nWith pleasure.\n\nNote", "Sure.\nWith pleasure."),),
        *(("\n\n\nSure.\n\nNote", "Sure."), ("\r\n\r\nSure.\r\n\r\nNote", "Sure.")),
        *((" \n \t\nSure.\n   \nNote", "Sure."), ("Sure.\n\t\nNote", "Sure.")),
        *(("Sure.\n \r\nNote", "Sure."), ("Sure. \t \n\nNote", "Sure.")),
        *(("Sure.\n\n\n\nNote\n\nMore", "Sure."), ("One\r\ntwo", "One\r\ntwo"), ("", "")),
        *(("\n \n\t\r\n", ""),),
    ],
)
def test_the_first_paragraph_ends_at_the_first_blank_line(text: str, expected: str) -> None:
    assert parsers.first_paragraph(text) == expected


@each(
    ("text", "expected"),
    [
        *(("She hints at it.\nAnswer: Sure, I will.", "Sure, I will."),),
        *(("She hints.\n\nShe is cold.\n\nAnswer:\nSure.\n\nNote", "Sure."),),
        *(("She hints.\n**Answer:** Sure.", "Sure."), ("She hints.\n**Answer**: Sure.", "Sure.")),
        *(("She hints.\n> answer : Sure.", "Sure."),),
        *(("Answer: first thoughts\nAnswer: Sure.", "Sure."),),
        *(("Her answer: none.\nAnswer: Sure.", "Sure."), ("Sure, I will.", "Sure, I will.")),
        *(("  Sure.\n", "Sure."), ("She hints.\nSure.", "")),
        *(("She hints. Answer: Sure.\nNo more.", ""), ("She hints.\nAnswer:", ""), ("", "")),
    ],
)
def test_the_answer_is_behind_the_last_line_that_says_so(text: str, expected: str) -> None:
    assert parsers.answer_line(text) == expected


@pytest.mark.parametrize("cut", parsers.POSTPROCESSORS.values())
def test_cutting_twice_is_cutting_once(cut: object) -> None:
    assert callable(cut)
    once = cut("\n\nSure. \r\n \r\nNote\n")
    assert cut(once) == once


PLAIN = ("He is cold.", "He likes tea.", "He asks for tea.")
SAID: list[tuple[str, int | Reason]] = [
    *(("He is cold.", 1), ("he likes tea", 2), ("  HE ASKS FOR  TEA!\n", 3), ('"He is cold."', 1)),
    *(("- He is cold.", 1), ("**He likes tea.**", 2), ("He is cold. And so am I.", 1)),
    *(("Answer: He is cold.", 1), ("The answer is: he likes tea.", 2)),
    *(("My choice is He is cold", 1),),
    # Another choice named, or its own denied.
    *(("He is cold? No.", U), ("He is cold is wrong.", U)),
    *(("He is cold. He likes tea.", U), ("He likes tea, so he asks for tea. He asks for tea.", U)),
    # No choice opens it, or not whole.
    *(("He is", U), ("He is colder.", U), ("He is cold-blooded.", U), ("He isn't cold.", U)),
    *(("I think he is cold.", U), ("It means: He is cold.", U), ("neither", U), ("1", U)),
    *(("Not: He is cold.", U), ("The answer is not He is cold.", U), ("Answer:", U), ("...", U)),
    *(("", E), (" \n\t", E)),
]


@each(("reply", "expected"), SAID)
def test_choice_text_reads_the_first_words_of_one_choice(
    reply: str, expected: int | Reason
) -> None:
    assert choice_text(reply, PLAIN) == expected


@each(
    ("reply", "choices", "expected"),
    [
        ("He is cold today.", ("He is cold", "He is cold today"), 2),
        ("He is cold.", ("He is cold", "He is cold today"), 1),
        ("He is cold, he is cold today", ("He is cold", "He is cold today"), U),
        *(("Yes!", ("Yes?", "Yes!"), U), ("No.", ("Yes?", "Yes!", "No."), 3)),
        *(("Tea.", ("...", "Tea."), 2), ("...", ("...", "Tea."), U)),
        ("Answer the door.", ("Answer the door.", "Door."), 1),
        ("The answer is the answer.", ("The answer.", "No."), 1),
        ("cafe\u0301", ("caf\u00e9", "tea"), 1),
        ("STRASSE", ("Stra\u00dfe", "Weg"), 1),
        (
            "\u0441\u043b\u044b\u0448\u0443!",
            ("\u0421\u043b\u044b\u0448\u0443.", "\u041d\u0435\u0442."),
            1,
        ),
        ("don\u2019t", ("do", "don't"), 2),
    ],
)
def test_choices_that_begin_alike_or_have_no_words_are_separated_or_left(
    reply: str, choices: tuple[str, ...], expected: int | Reason
) -> None:
    assert choice_text(reply, choices) == expected


@each(
    ("text", "declines"),
    [
        *(("I'm sorry, but I can't", True), ("I\u2019m sorry", True), ("Sorry.", True)),
        *(("I can't", True), ("I cannot", True), ("**I won't**", True), ("As an AI", True)),
        *(("I am unable to", True), ("I'm not able", True), ("I must decline", True)),
        *(("My apologies", True), ("I apologise for", True), ("Unfortunately, I can't", True)),
        *(("No, I cannot assist with that", True), ("no. I'm sorry, I can't help", True)),
        *(("", False), ("no", False), ("No, I", False), ("yes", False), ("I must say", False)),
        *(("I think so", False), ("No, I can't see any harm", False), ("sorryful", False)),
        *(("Yes, I'm sorry to say", False), ("The answer is no", False)),
        ("-'" * 200_000, False),  # which a search that goes back would read for minutes
    ],
)
def test_declining_is_named_by_how_a_reply_opens(text: str, declines: bool) -> None:
    assert parsers.is_refusal(text) == declines


@each(
    ("text", "is_open"),
    [("No, I", True), ("no, I'm", True), ("No. Sorry", True), ("No", False), ("No, it", False)],
)
def test_a_no_may_be_cut_where_it_could_still_decline(text: str, is_open: bool) -> None:
    assert parsers.is_cut_no(text) == is_open


@each(
    ("text", "lines"),
    [
        ("1. One.\n2) Two.\n(3) Three.", ("One.", "Two.", "Three.")),
        ("- One.\n\n* Two.\n\u2022 Three.", ("One.", "Two.", "Three.")),
        ('"One."\n\u201cTwo.\u201d\n---\n', ("One.", "Two.")),
        ('"One", she said.\n3 of us came.', ('"One", she said.', "3 of us came.")),
        ("", ()),
    ],
)
def test_lines_of_a_list_lose_their_marks_alone(text: str, lines: tuple[str, ...]) -> None:
    assert parsers.listed_lines(text) == lines
