"""Choices behind contexts, over the families of tokenizers that language models use."""

from collections.abc import Sequence

import pytest
from jinja2 import TemplateError
from support.each import each
from support.tokenizer_families import EXACT, FAMILIES, NO_BOS, built, with_marker
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from harness.errors import DataError, ModelError
from harness.models.local.tokenization import ChoiceTokens, choice_tokens, prompt_tokens
from harness.parts import Message

TURNS = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
PROMPT = "{% if add_generation_prompt %}[assistant]{% endif %}"
TEMPLATES = {
    "turns": TURNS + PROMPT,
    "own-bos": "{{ bos_token }}" + TURNS + PROMPT,
    "no-system": (
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
        "{% for m in messages %}{% if m.role == 'user' %}[user] {{ m.content }} [/user]"
        "{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
    ),
    "marker": (
        "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{{ eos_token }}\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    ),
}
SITUATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "number": ("Tea or now? Answer:", (" 1", " 2")),
    "number-behind-a-space": ("Tea or now? Answer: ", ("1", "2")),
    "numbers-of-several-digits": ("Answer: 12", ("34", "3", "4567")),
    "words": ("Answer:", (" He wants tea", " She is unhappy")),
    "one-opens-another": ("So:", (" He wants tea", " He wants tea now", " He wants")),
    "mid-word": ("She is un", ("happy", "able", "1")),
    "mid-word-and-not": ("She is un", ("happy", " wants tea")),
    "quotation-marks": ("He said:", (" \u201ctea\u201d", " \u2019tis", " \u201dno")),
    "apostrophe-behind-a-letter": ("It", ("\u2019s tea", "\u2019ll do", "'s")),
    "emoji-split-in-bytes": ("Tea \U0001f375", ("\U0001f375", "\u2615", " \U0001f375\u200d1")),
    "accents-put-together": ("cafe", ("s", "\u0301s")),
    "line-break-before": ("Answer:\n", ("1", "He wants tea")),
    "line-break-within": ("Answer:", ("\n1", "\n\nHe wants tea")),
    "indented": ("Answer:\n", ("   1", "   He")),
    "blanks-at-the-end": ("Answer:  \n\n  ", ("1", " 2", "\n3")),
    "other-scripts": ("\u7b54\u3048:", (" \u306f\u3044", "\u3044\u3044\u3048")),
    "no-context": ("", (" 1", " He wants tea")),
    "characters-that-grow-and-shrink": ("o\ufb01ce \u2026 \u00bd cafe\u0301:", (" 1", " He")),
    "very-long": ("So:", (" 1", " He wants tea now" * 500)),
}


def read(
    context: str,
    choices: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    *,
    is_chat: bool = False,
) -> ChoiceTokens:
    return choice_tokens([Message("user", context)], choices, tokenizer, is_chat=is_chat)


def pieces(read: ChoiceTokens, tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The scored tokens of each choice, spaces between them."""
    rows = zip(read.rows, read.firsts, strict=True)
    return [" ".join(tokenizer.convert_ids_to_tokens(list(row[first:]))) for row, first in rows]


def text(tokens: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> str:
    """What tokens say; some decoders drop the blank a text begins with, so none is kept."""
    options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    return str(tokenizer.decode(list(tokens), **options)).lstrip()


@each("situation", SITUATIONS)
@each("family", FAMILIES)
def test_all_choices_are_scored_given_the_same_tokens(family: str, situation: str) -> None:
    found = read(*SITUATIONS[situation], built(family))

    [first] = set(found.firsts)
    assert len({row[:first] for row in found.rows}) == 1
    assert all(len(row) > first for row in found.rows)


@each("situation", SITUATIONS)
@each("family", EXACT)
def test_scored_tokens_say_the_choice_and_what_they_span(family: str, situation: str) -> None:
    tokenizer, (context, choices) = built(family), SITUATIONS[situation]
    found = read(context, choices, tokenizer)

    before = text(found.rows[0][: found.firsts[0]], tokenizer)
    assert before == context[: len(context) - found.spanned]
    wholes = [text(row, tokenizer) for row in found.rows]
    assert wholes == [(context + choice).lstrip() for choice in choices]


@each("situation", SITUATIONS)
@each("family", FAMILIES)
def test_rows_are_the_tokenizers_behind_one_bos_without_an_eos(family: str, situation: str) -> None:
    tokenizer, (context, choices) = built(family), SITUATIONS[situation]
    found = read(context, choices, tokenizer)

    bos = [] if family in NO_BOS else [tokenizer.bos_token_id]
    own = tokenizer([context + choice for choice in choices], add_special_tokens=False)
    assert [list(row) for row in found.rows] == [[*bos, *ids] for ids in own["input_ids"]]
    assert all(tokenizer.eos_token_id not in row[len(bos) :] for row in found.rows)


@each(
    ("family", "scored", "behind_a_space", "spanned"),
    [
        ("gpt2", "Ġ1", "Ġ1", 1),
        ("gpt2-untrimmed", "Ġ1", "Ġ1", 1),
        ("gpt2-prefix", "Ġ1", "Ġ1", 1),
        ("llama3", "Ġ 1", "1", 0),
        ("metaspace-always", "▁1", "▁1", 1),
        ("metaspace-first", "▁1", "▁1", 1),
        ("metaspace-never", "▁1", "▁1", 1),
        ("llama2", "▁ 1", "1", 0),
        ("gemma", "▁1", "▁1", 1),
        ("t5", "▁1", "▁1", 1),
        ("unigram-nfkc", "▁1", "▁1", 1),
        ("bert", "1", "1", 1),
    ],
)
def test_the_space_before_a_number_is_scored_unless_it_is_a_token_of_the_context(
    family: str, scored: str, behind_a_space: str, spanned: int
) -> None:
    tokenizer = built(family)
    found, behind = read("Answer:", [" 1"], tokenizer), read("Answer: ", ["1"], tokenizer)

    assert (pieces(found, tokenizer), found.spanned) == ([scored], 0)
    assert (pieces(behind, tokenizer), behind.spanned) == ([behind_a_space], spanned)
    assert found.rows == behind.rows


@each(
    ("family", "situation", "expected", "spanned"),
    [
        ("gpt2", "mid-word", ["Ġunhappy", "Ġun able", "Ġun 1"], 3),
        ("llama2", "mid-word", ["▁unhappy", "▁un able", "▁un 1"], 3),
        ("bert", "mid-word", ["unhappy", "un ##able", "un ##1"], 3),
        ("gpt2", "one-opens-another", ["ĠHe Ġwants Ġtea", "ĠHe Ġwants Ġtea Ġnow", "ĠHe Ġwants"], 0),
        ("llama3", "line-break-within", [":Ċ 1", ": ĊĊ He Ġwants Ġtea"], 1),
        ("gpt2", "indented", ["ĊĠĠ Ġ1", "ĊĠĠ ĠHe"], 1),
        ("unigram-nfkc", "accents-put-together", ["e s", "é s"], 1),
        ("unigram-nfkc", "characters-that-grow-and-shrink", ["▁1", "▁He"], 0),
        ("bert", "characters-that-grow-and-shrink", ["1", "he"], 0),
        ("llama2", "characters-that-grow-and-shrink", ["▁ 1", "▁He"], 0),
        ("gemma", "line-break-before", ["1", "He ▁wants ▁tea"], 0),
    ],
)
def test_a_token_across_the_boundary_in_one_choice_moves_it_back_for_all(
    family: str, situation: str, expected: list[str], spanned: int
) -> None:
    tokenizer = built(family)
    found = read(*SITUATIONS[situation], tokenizer)
    assert (pieces(found, tokenizer), found.spanned) == (expected, spanned)


@each("template", TEMPLATES)
@each("family", FAMILIES)
def test_in_chat_form_choices_are_behind_the_prompt_of_answers(family: str, template: str) -> None:
    tokenizer = built(family, TEMPLATES[template])
    turns = [Message("system", "Be brief."), Message("user", "Tea?")]
    found = choice_tokens(turns, [" 1", " He wants tea"], tokenizer, is_chat=True)

    prompt = prompt_tokens(turns, tokenizer)
    assert all(list(row[: len(prompt)]) == prompt for row in found.rows)
    assert (set(found.firsts), found.spanned) == ({len(prompt)}, 0)


@pytest.mark.parametrize(
    ("template", "opens"),
    [("turns", "1"), ("own-bos", "1"), ("no-system", "▁ 1"), ("marker", "<0x0A> 1")],
)
def test_a_choice_opens_the_models_turn_as_the_template_has_it(template: str, opens: str) -> None:
    tokenizer = built("llama2", TEMPLATES[template])
    found = read("Tea?", [" 1"], tokenizer, is_chat=True)
    assert pieces(found, tokenizer) == [opens]


REFUSES = "{{ raise_exception('no') }}"


@each("said", ["<think></think>{{ m.content }}", "{{ m.content | upper }}", "", REFUSES])
def test_what_a_template_makes_of_an_answer_beside_blanks_is_no_part_of_a_choice(said: str) -> None:
    turn = "{% if m.role == 'user' %}[user]{{ m.content }}[model]{% else %}" + said + "{% endif %}"
    tokenizer = built("gpt2", "{% for m in messages %}" + turn + "{% endfor %}")
    assert pieces(read("Tea?", [" 1"], tokenizer, is_chat=True), tokenizer) == ["1"]


def test_turns_that_a_template_refuses_are_refused() -> None:
    tokenizer = built("gpt2", "{{ raise_exception('no turns at all') }}")
    with pytest.raises(TemplateError, match="no turns at all"):
        read("Tea?", [" 1"], tokenizer, is_chat=True)


def test_a_marker_that_swallows_the_blanks_of_a_choice_is_scored_with_it() -> None:
    tokenizer = built("llama3", TURNS + "<|answer|>")
    with_marker(tokenizer, "<|answer|>")
    plain = read("Tea?<|answer|>", ["\n1", "2"], tokenizer)

    assert pieces(plain, tokenizer) == ["<|answer|> 1", "<|answer|> 2"]
    assert plain.spanned == len("<|answer|>")


def test_a_bos_in_the_context_is_not_scored_and_nothing_is_cut_off() -> None:
    tokenizer = built("llama3")
    found = read("<s>un", ["happy"], tokenizer)
    assert (pieces(found, tokenizer), found.spanned) == (["unhappy"], len("un"))

    tokenizer.backend_tokenizer.enable_truncation(4)
    tokenizer.backend_tokenizer.enable_padding(length=4000)
    found = read("So:", [" tea" * 1000, " 1"], tokenizer)
    assert [len(row) - at for row, at in zip(found.rows, found.firsts, strict=True)] == [1000, 2]


def test_several_turns_are_joined_by_line_breaks_where_no_template_is_wanted() -> None:
    tokenizer = built("gpt2", TEMPLATES["turns"])
    turns = [Message("system", "Be brief."), Message("user", "Tea?")]
    found = choice_tokens(turns, [" 1"], tokenizer, is_chat=False)

    assert text(found.rows[0], tokenizer) == "Be brief.\nTea? 1"


@each("family", FAMILIES)
@each("empty", ["", " ", "\n", "\u00a0 \t"])
def test_a_choice_without_a_word_is_refused_whatever_the_tokenizer(family: str, empty: str) -> None:
    with pytest.raises(DataError, match=r"a choice without a word .* give every choice .* a text"):
        read("Answer:", [" 1", empty], built(family))


def test_a_choice_that_the_tokenizer_drops_is_refused() -> None:
    with pytest.raises(DataError, match=r"no token of the choice '\\x00': .* another model"):
        read("Answer:", [" 1", "\x00"], built("bert"))


def test_chat_form_without_a_chat_template_is_refused() -> None:
    with pytest.raises(ModelError, match=r"no chat template .* `choice_prompt: plain`"):
        read("Answer:", [" 1"], built("gpt2"), is_chat=True)


def test_a_tokenizer_that_does_not_say_characters_is_refused() -> None:
    class Slow(PreTrainedTokenizerFast):
        is_fast = False

    slow = Slow(tokenizer_object=built("gpt2").backend_tokenizer)  # type: ignore[no-untyped-call]

    with pytest.raises(ModelError, match="fast tokenizer"):
        read("Answer:", [" 1"], slow)
