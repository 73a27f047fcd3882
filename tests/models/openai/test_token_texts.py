"""Token texts against hand-set places, and against what the tokenizers of each family say."""

from support.each import each
from support.tokenizer_families import EXACT, FAMILIES, built

from harness.models.boundary import choice_starts
from harness.models.local.tokenization import choice_tokens
from harness.models.openai.choices import spans_in, spellings
from harness.parts import Message

PROMPTS = {
    "Answer:": [" 1", " 2"],
    "Answer: ": ["1", "2"],
    "She is un": ["happy", "able"],
    "“He wants tea.” Answer:": [" He\u2019s happy", " She wants tea now"],
    "Answer:\n": ["He is", "\u2019s tea"],
    "He is (é): ": ["é", "“tea”"],
}


def told(family: str, prompt: str) -> tuple[list[str], list[str]]:
    """A prompt's tokens as a server tells their texts, and as its vocabulary writes them."""
    tokenizer = built(family)
    ids: list[int] = tokenizer(prompt)["input_ids"]
    texts = [str(tokenizer.decode([t], clean_up_tokenization_spaces=False)) for t in ids]
    return texts, list(tokenizer.convert_ids_to_tokens(ids))


def starts(spelled: list[list[bytes]], context: str, choices: list[str]) -> object:
    """Where choices start by what their tokens spell, null where one does not spell its prompt."""
    found = [spans_in(t, context + choice) for t, choice in zip(spelled, choices, strict=True)]
    known = [each for each in found if each]
    if len(known) < len(choices):
        return None
    return choice_starts(known, len(context), tokens=spelled)


def by_tokenizer(family: str, context: str, choices: list[str]) -> object:
    tokens = choice_tokens([Message("user", context)], choices, built(family), is_chat=False)
    return tokens.firsts, tokens.spanned


@each("context", PROMPTS)
@each("family", FAMILIES)
def test_texts_give_the_places_of_the_tokenizer_itself_or_none(family: str, context: str) -> None:
    choices = PROMPTS[context]
    texts = [told(family, context + choice)[0] for choice in choices]
    spelled = [[text.encode() for text in part] for part in texts]

    found = starts(spelled, context, choices)
    assert found in (None, by_tokenizer(family, context, choices))


ADDS_NOTHING_BEHIND = [name for name in EXACT if name not in ("t5", "llama2-adds-eos")]


@each("context", PROMPTS)
@each("family", ADDS_NOTHING_BEHIND)
def test_pieces_give_the_places_of_the_tokenizer_itself(family: str, context: str) -> None:
    choices = PROMPTS[context]
    ways = zip(*(spellings(told(family, context + c)[1]) for c in choices), strict=True)

    found = [at for spelled in ways if (at := starts(list(spelled), context, choices))]
    assert found[:1] == [by_tokenizer(family, context, choices)]
