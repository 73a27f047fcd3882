from collections.abc import Callable
from pathlib import Path

import pytest
from jinja2 import TemplateError
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from harness.models.local.tiny_llama import build_tiny_llama
from harness.models.local.tokenization import prompt_text, prompt_tokens
from harness.parts import Message

Build = Callable[..., PreTrainedTokenizerBase]

SYSTEM, USER = Message("system", "Be brief."), Message("user", "Hello.")
REPLY, NEXT = Message("assistant", "Hi."), Message("user", "Again.")

TURNS = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
ALTERNATING = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
    "[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
)
NO_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}" + TURNS
)
DROPS_SYSTEM = (
    "{% for m in messages if m.role != 'system' %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "[assistant]"
)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder = build_tiny_llama(tmp_path_factory.mktemp("cache"))

    def with_template(template: str | None, *, adds_bos: bool = False) -> PreTrainedTokenizerBase:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(str(folder))
        tokenizer.chat_template = template
        if adds_bos:
            _add_bos(tokenizer)
        return tokenizer

    return with_template


def _add_bos(tokenizer: PreTrainedTokenizerBase) -> None:
    from tokenizers.processors import TemplateProcessing

    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )


@pytest.mark.parametrize(
    ("start", "adds_bos", "expected"),
    [
        *(("", True, 1), ("{{ bos_token }}", True, 1), ("{{ bos_token }}{{ bos_token }}", True, 1)),
        *(("{{ bos_token }}", False, 1), ("", False, 0)),
    ],
    ids=["tokenizer", "both", "template-twice", "template", "neither"],
)
def test_a_prompt_opens_with_one_bos_where_the_tokenizer_uses_one(
    build: Build, start: str, adds_bos: bool, expected: int
) -> None:
    tokenizer = build(start + TURNS, adds_bos=adds_bos)
    tokens = prompt_tokens([USER], tokenizer)

    assert tokens.count(0) == expected
    assert tokens[:expected] == [0] * expected


def test_the_prompt_of_the_tiny_llama_is_spelled_out_token_by_token(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(str(build_tiny_llama(tmp_path)))
    tokens = prompt_tokens([SYSTEM, USER], tokenizer)

    words = {m: tokenizer(m.content)["input_ids"] for m in (SYSTEM, USER)}
    assert tokens == [0, 4, *words[SYSTEM], 1, 2, *words[USER], 1, 3]


@pytest.mark.parametrize("template", [ALTERNATING, NO_SYSTEM, DROPS_SYSTEM])
def test_a_template_without_a_system_role_gets_the_text_in_the_first_user_turn(
    build: Build, template: str
) -> None:
    text = prompt_text([SYSTEM, USER, REPLY, NEXT], build(template))
    assert text == "[user]Be brief.\n\nHello.[assistant]Hi.[user]Again.[assistant]"


def test_a_system_turn_alone_becomes_the_user_turn_where_it_is_refused(build: Build) -> None:
    assert prompt_text([SYSTEM], build(NO_SYSTEM)) == "[user]Be brief.[assistant]"


def test_without_a_template_the_prompt_is_the_texts_line_by_line(build: Build) -> None:
    assert prompt_text([SYSTEM, USER], build(None)) == "Be brief.\nHello."


def test_turns_a_template_refuses_in_any_form_are_refused(build: Build) -> None:
    with pytest.raises(TemplateError, match="must alternate"):
        prompt_text([SYSTEM, USER, NEXT], build(ALTERNATING))
