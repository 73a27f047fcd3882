"""Token texts against hand-set places, and against what the tokenizers of each family say."""

from support.each import each
from support.tokenizer_families import FAMILIES, built

from harness.models.boundary import choice_starts
from harness.models.local.tokenization import choice_tokens
from harness.models.openai.choices import spans_in
from harness.parts import Message

PROMPTS = {
    "Answer:": [" 1", " 2"],
    "Answer: ": ["1", "2"],
    "She is un": ["happy", "able"],
    "“He wants tea.” Answer:": [" He\u2019s happy", " She wants tea now"],
    "Answer:\n": ["He is", "\u2019s tea"],
    "He is (é): ": ["é", "“tea”"],
}


def texts_of(family: str, prompt: str) -> list[str]:
    tokenizer = built(family)
    ids: list[int] = tokenizer(prompt)["input_ids"]
    return [str(tokenizer.decode([t], clean_up_tokenization_spaces=False)) for t in ids]


def by_tokenizer(family: str, context: str, choices: list[str]) -> object:
    tokens = choice_tokens([Message("user", context)], choices, built(family), is_chat=False)
    return tokens.firsts, tokens.spanned


@each("context", PROMPTS)
@each("family", FAMILIES)
def test_texts_give_the_places_of_the_tokenizer_itself_or_none(family: str, context: str) -> None:
    choices = PROMPTS[context]
    texts = [texts_of(family, context + choice) for choice in choices]
    spans = [spans_in(t, context + choice) for t, choice in zip(texts, choices, strict=True)]

    known = [each for each in spans if each]
    if len(known) == len(choices):
        assert choice_starts(known, len(context), tokens=texts) == by_tokenizer(
            family, context, choices
        )


def test_parts_of_a_character_after_a_space_are_not_that_space() -> None:
    tokens = ["na", "", "\u00ef", "ve", " ca", "f", "", "\u00e9", " ", "", "", "", "\U0001f600"]
    spans = spans_in(tokens, "na\u00efve caf\u00e9 \U0001f600")

    assert spans is not None
    assert spans[7:] == [(9, 10), (10, 11), *[(11, 12)] * 4]
