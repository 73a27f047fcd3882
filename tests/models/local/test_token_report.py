"""What a tokenizer makes of choices, counted by hand on small tokenizers."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.each import each
from support.tokenizer_families import built

from harness.core import Request
from harness.errors import ModelError
from harness.models.local.checkpoints import open_spec
from harness.models.local.tiny_llama import build_tiny_llama
from harness.models.local.tokenization import token_report
from harness.parts import Decoding, Message, Mode
from harness.specs.models import TransformersSpec


def asked(context: str, *choices: str, sample_id: str = "one") -> Request:
    return Request(
        sample_id=sample_id,
        variant="base",
        step="answer",
        model="nobody",
        messages=(Message("user", context),),
        decoding=Decoding(max_tokens=1),
        mode=Mode.CHOOSE,
        choices=choices,
    )


NUMBERS, WORDS = asked("Answer:", " 1", " 2"), asked("She is un", "happy", "able")


@each(
    ("family", "expected"),
    [
        *(("gpt2", (4, 1, 2, 3, 0)), ("llama3", (4, 1, 2, 1, 0)), ("llama2", (4, 4, 2, 1, 0))),
        *(("metaspace-never", (4, 1, 2, 3, 0)), ("bert", (4, 2, 2, 3, 0))),
    ],
)
def test_choices_are_counted_that_are_other_tokens_apart_or_share_one_with_the_context(
    family: str, expected: tuple[int, ...]
) -> None:
    report = token_report([NUMBERS, WORDS], built(family), is_chat=False)
    names = ("requests", "choices", "differing", "spanning", "single", "ungiven")
    assert tuple(report[name] for name in names) == (2, *expected)


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ([" 1", " 2"], (1, 1.0, 1)),
        ([" He wants tea", " 1"], (1, 2.0, 3)),
        ([" He wants tea now", " tea", " He is"], (1, 2.0, 4)),
    ],
)
def test_tokens_a_choice_are_the_scored_ones(
    choices: list[str], expected: tuple[int, float, int]
) -> None:
    report = token_report([asked("So:", *choices)], built("gpt2"), is_chat=False)
    assert (report["fewest"], report["median"], report["most"]) == expected


def test_a_request_that_several_samples_share_counts_once() -> None:
    same = replace(NUMBERS, sample_id="two", model="nobody#two")
    assert token_report([NUMBERS, same], built("gpt2"), is_chat=False)["choices"] == 2


def test_a_template_that_refuses_the_turns_is_named_with_the_sample() -> None:
    refusing = built("gpt2", "{{ raise_exception('users only') }}")
    with pytest.raises(ModelError, match=r"turns of sample one: users only; set `choice_prompt"):
        token_report([NUMBERS], refusing, is_chat=True)


def test_the_tokenizer_of_a_folder_is_opened_without_its_weights(tmp_path: Path) -> None:
    folder = build_tiny_llama(tmp_path)
    (folder / "model.safetensors").unlink()
    tokenizer = open_spec(TransformersSpec(model=str(folder)), tmp_path).tokenizer

    assert token_report([NUMBERS], tokenizer, is_chat=False)["choices"] == 2
