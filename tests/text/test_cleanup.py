"""Real-looking answers to what they say; the beginning, the wrapping and the residue alone go."""

import pytest
from support.each import each

from harness.text.cleanup import bare, without_lead_in

SAID = "The seat was hers first."
LED = [
    *(SAID, f"  {SAID}\n", f"Implication: {SAID}", f"implication meaning: {SAID}"),
    *(f"Implication meaning:\n\n{SAID}", f"The implication is: {SAID}", f"Implication(s): {SAID}"),
    *(f"The implication meaning is: {SAID}", f"Implied meaning: {SAID}", f"Answer: {SAID}"),
    f"The implication meaning of this sentence is: {SAID}",
    f"The implication of the current turn sentence is: {SAID}",
    f"The key implication behind the emphasized word is:\n{SAID}",
    f"Specific highlighted information: {SAID}",
    *(f"**Implication:** {SAID}", f"**Implication**: {SAID}", f"*Implication:* {SAID}"),
    *(f"**Implication: {SAID}**", f"### Implication\n{SAID}", f"## Implied meaning:\n\n{SAID}"),
    f"Sure! Here is a short sentence that captures the implication:\n\n{SAID}",
    f"Sure, here's the implication meaning of the current turn: {SAID}",
    f"Here\u2019s the implication of the current sentence: {SAID}",
    f"Sure, I'd be happy to help! Implication meaning: {SAID}",
    *(f"Sure, I understand. {SAID}", f"Sure, I can do that! {SAID}", f"Sure!\n{SAID}"),
    *(f"Certainly! {SAID}", f"Of course! The implication is: {SAID}", f"Sure:\n\n{SAID}"),
    f"I would be glad to assist you with that. Implication: {SAID}",
    *(f'"{SAID}"', f"\u201c{SAID}\u201d", f"'{SAID}'", f"**{SAID}**", f"*{SAID}*", f"_{SAID}_"),
    *(f'Implication: "{SAID}"', f'**"{SAID}"**', f'"Implication: {SAID}"', f"`{SAID}`"),
    *(f"{SAID}</s>", f"<s> {SAID} </s>", f"{SAID}<|eot_id|>", f"{SAID}<|im_end|>\n"),
    *(f"[/INST] {SAID}</s>", f"{SAID}<end_of_turn>", f"<start_of_turn>model\n{SAID}"),
    f"<|start_header_id|>assistant<|end_header_id|>\n\n{SAID}<|eot_id|>",
    f"<|start_header_id|>assistant<|end_header_id|>\n\nImplication: {SAID}",
    f"<|im_start|>assistant\n{SAID}<|im_end|>",
    f"assistant\n\nSure! Here is the implied meaning:\n\n*{SAID}*</s>",
    f"{SAID}<|eot_id|><|end_of_text|></s>",
    f"Implication: Implication: {SAID}",
]
KEPT = [
    *("Surely she booked it, and for sure in March.", "Sure, she booked it; Pia did not."),
    *("Sure. Pia may sit there, but nobody else.", "Make sure that nobody sits there."),
    *("He is not Sure of it.", "Okay means that she only puts up with it."),
    "She means it. Implication: he was wrong. Implication meaning: he lied.",
    "The speaker hints at one implication: that the soup is thin.",
    *("The implication is that Rosa has the ladder.", "The answer he wants is: no."),
    *("Implications are drawn from the price alone.", "Meaning well is not enough for her."),
    "Here is where she draws the line, and nowhere else.",
    *("I understand that two is too many.", '"I" is stressed, so it is not "you".'),
    *("'Two' is too much, and 'water' is odd.", "**Rosa** promised, the others **did not**."),
    *("*Rosa* has the ladder.", "It is the girls' seat, not the boys'."),
    *("She's had it; that's why it's hers.", "Less < more; a | b; x </ y; 2 > 1."),
    "The first line.\n\nThe second line.",
]
ONLY = [
    *("Implication:", "Sure!", "Sure, I'd be happy to help!", '""', "''", "**"),
    "Implication: </s>",
]


@each("answer", LED)
def test_what_leads_up_to_an_answer_or_wraps_it_is_cut(answer: str) -> None:
    assert without_lead_in(answer) == SAID


@each("answer", KEPT)
def test_no_word_within_an_answer_is_cut(answer: str) -> None:
    assert without_lead_in(answer) == answer


@each(
    ("answer", "expected"),
    [
        ("Implication: One. Implication: Two.", "One. Implication: Two."),
        ("Implication: **Rosa** has it.", "**Rosa** has it."),
        ("**Implication:** *Rosa* has it.", "*Rosa* has it."),
        ("Implication meaning: Surely hers.", "Surely hers."),
        ("It was late.<|eot_id|>assistant said so.", "It was late. assistant said so."),
        ('Implication: "I" is stressed, not "you"', '"I" is stressed, not "you"'),
        ("'She's right'", "She's right"),
    ],
)
def test_only_the_beginning_and_the_residue_are_cut(answer: str, expected: str) -> None:
    assert without_lead_in(answer) == expected


@each("answer", ONLY)
def test_a_lead_in_that_leads_to_nothing_is_the_answer(answer: str) -> None:
    assert without_lead_in(answer) == answer.removesuffix(" </s>")


@each("answer", ["", " \n", "</s>", "<|eot_id|> <|im_end|>", "[/INST]\n</s>"])
def test_special_tokens_alone_are_no_answer(answer: str) -> None:
    assert without_lead_in(answer) == ""


@each("answer", [*LED, *KEPT, *ONLY])
def test_cutting_an_answer_twice_is_cutting_it_once(answer: str) -> None:
    once = without_lead_in(answer)
    assert without_lead_in(once) == once


@each(
    "lead_in", ["Sure! ", "Okay!\n", "**Answer:** ", "Of course! Implication: ", "# Meaning:\n\n"]
)
def test_many_lead_ins_are_cut_at_once(lead_in: str) -> None:
    # In a time that grows with the square of the length this would take hours.
    assert without_lead_in(lead_in * (300_000 // len(lead_in)) + SAID) == SAID


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("It is late.", "It is late"), ('"It is late."', "It is late")),
        *((' "It is late". ', "It is late"), ("\u201cIt  is\nlate.\u201d", "It is late")),
        *(("It is late!", "It is late!"), ("Well...", "Well..."), ("Late?", "Late?")),
        *(('"Late?" "Yes."', '"Late?" "Yes."'), ('He said "no".', 'He said "no"')),
        *((".", "."), ("", ""), ('""', '""')),
    ],
)
def test_a_text_is_bared_of_its_own_quotation_marks_and_full_stop(text: str, expected: str) -> None:
    assert bare(text) == expected
    assert bare(bare(text)) == expected
