"""The size of a prompt is what its call is charged for, before it is made."""

import pytest
from support.tokenizer_families import built

from harness.core import Request
from harness.models.local.tiny_llama import build_tiny_llama
from harness.models.local.tokenization import estimated, prompt_size
from harness.models.local.transformers_lm import TransformersModel
from harness.parts import Decoding, Message, Mode
from harness.specs.models import TransformersSpec

TEXT = "Is there any tea left?"


def asked(text: str = TEXT, mode: Mode = Mode.GENERATE, *choices: str) -> Request:
    turns, drawn = (Message("user", text),), Decoding(max_tokens=2)
    return Request("s1", "base", "answer", "tiny", turns, drawn, mode, choices)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TransformersModel:
    folder = build_tiny_llama(tmp_path_factory.mktemp("cache"))
    return TransformersModel("tiny", TransformersSpec(model=str(folder)), folder.parent)


@pytest.mark.parametrize(
    "question", [asked(), asked(TEXT, Mode.CHOOSE, " yes", " no, not a drop"), asked("Tea\n\n" * 9)]
)
def test_a_size_is_what_the_answer_then_says(tiny: TransformersModel, question: Request) -> None:
    [response] = tiny.answer([question])
    assert tiny.prompt_size(question) == response.usage.prompt_tokens


def test_a_chat_template_counts_with_its_own_words() -> None:
    plain, chat = (built("gpt2", part) for part in (None, "[user]{{ messages[0].content }}[end]"))
    found = [prompt_size(asked(), each, is_chat=False) for each in (plain, chat)]

    texts = (TEXT, f"[user]{TEXT}[end]")
    assert found == [len(plain(text)["input_ids"]) for text in texts]


@pytest.mark.parametrize(
    ("template", "question"),
    [("{{ raise_exception('no') }}", asked()), (None, asked(TEXT, Mode.CHOOSE, " ", " no"))],
)
def test_what_a_model_will_not_read_has_no_size(template: str | None, question: Request) -> None:
    tokenizer = built("gpt2", template)
    assert prompt_size(question, tokenizer, is_chat=False) == 0


@pytest.mark.parametrize(
    ("question", "characters"),
    [
        (asked("a" * 40), 40),
        (asked("a" * 40, Mode.CHOOSE_TOKEN, " 1", " 2"), 40),
        (asked("a" * 40, Mode.CHOOSE, " 1", " 2"), 2 * 42),
    ],
)
def test_an_estimate_is_four_characters_a_token_with_each_choice_behind_its_context(
    question: Request, characters: int
) -> None:
    assert estimated(question) == characters // 4
