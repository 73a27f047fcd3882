"""What is read of an instruction and a text, and which of its tokens are pooled."""

from typing import TYPE_CHECKING

import pytest
from support.tiny_llm2vec import LLAMA_3, build_tiny_llm2vec

from harness.models.encoders.llm2vec import TEXT_TOKENS, TURNS, Preparation

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

HEADER = "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n"
BLANKS = "word " * (2 * TEXT_TOKENS)
NO_BLANKS = "寓" * (2 * TEXT_TOKENS)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> "PreTrainedTokenizerBase":
    from transformers import AutoTokenizer

    folder = build_tiny_llm2vec(tmp_path_factory.mktemp("tiny")).base
    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    return loaded


@pytest.mark.parametrize(
    ("name", "text", "instruction", "whole", "pooled"),
    [
        (LLAMA_3, "It is cold.", "", f"{HEADER}It is cold.<|eot_id|>", "It is cold.<|eot_id|>"),
        (LLAMA_3, "It is.", "Say it:", f"{HEADER}Say it: It is.<|eot_id|>", " It is.<|eot_id|>"),
        (
            LLAMA_3,
            "It is.",
            "  Say it:\n",
            f"{HEADER}Say it: It is.<|eot_id|>",
            " It is.<|eot_id|>",
        ),
        (LLAMA_3, "end  \n", "", f"{HEADER}end<|eot_id|>", "end<|eot_id|>"),
        (LLAMA_3, "", "", f"{HEADER}<|eot_id|>", "<|eot_id|>"),
        ("other", "It is ", "", "<|begin_of_text|>It is ", "It is "),
        ("other", "It is ", "Say:", "<|begin_of_text|>Say: It is ", " It is "),
        ("other", "", "", "<|begin_of_text|>", "<|begin_of_text|>"),
    ],
)
def test_the_turn_of_a_model_is_around_both_and_only_text_and_its_end_are_pooled(
    tokenizer: "PreTrainedTokenizerBase",
    name: str,
    text: str,
    instruction: str,
    whole: str,
    pooled: str,
) -> None:
    ids, count = Preparation(tokenizer, TURNS.get(name), instruction, 512).read(text)
    assert (tokenizer.decode(ids), tokenizer.decode(ids[-count:])) == (whole, pooled)


def test_a_text_without_a_token_is_read_as_an_end(tokenizer: "PreTrainedTokenizerBase") -> None:
    def without_start(text: str, *, add_special_tokens: bool, **options: object) -> object:
        return tokenizer(text, add_special_tokens=False)

    without_start.eos_token_id = tokenizer.eos_token_id  # type: ignore[attr-defined]  # stands in
    ids, pooled = Preparation(without_start, None, "", 512).read("")  # type: ignore[arg-type]  # stands in

    assert (ids, pooled) == ([tokenizer.eos_token_id], 1)


@pytest.mark.parametrize("text", [BLANKS, NO_BLANKS, "\n" * 2000])
def test_a_long_text_keeps_its_start(tokenizer: "PreTrainedTokenizerBase", text: str) -> None:
    ids, pooled = Preparation(tokenizer, None, "", 512).read(text)
    assert TEXT_TOKENS / 2 < pooled <= TEXT_TOKENS
    assert text.startswith(str(tokenizer.decode(ids[1:49])))


def test_an_instruction_leaves_max_length_alone(tokenizer: "PreTrainedTokenizerBase") -> None:
    ids, pooled = Preparation(tokenizer, TURNS[LLAMA_3], "word " * 100, 64).read("word " * 100)
    assert (len(ids), pooled) == (64, 64)
