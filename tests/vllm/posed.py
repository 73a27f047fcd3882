"""Prompts with choices, in numbers and in words, and what a plain forward pass gives for them."""

import csv
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.core import Request, Response
from harness.models.local.tokenization import choice_tokens
from harness.parts import ChoiceScore, Decoding, Message, Mode

if TYPE_CHECKING:
    from torch import Tensor

STORY = (
    "Scenario: Ben\u2019s aunt rubs her arms and says: \u201cWhat a lovely fresh breeze.\u201d "
    "What does she want to say?\nOptions:\n1) She likes the wind.\n"
    "2) She is cold \u2013 he should close the window.\n3) She wants tea.\n"
)
OURS = [
    (f"{STORY}Answer:", (" 1", " 2", " 3")),
    (f"{STORY}Answer: ", ("1", "2", "3")),
    (f"{STORY}Answer:\n", ("1", "2", "x")),
    (
        f"{STORY}Answer:",
        (" She likes the wind.", " She is cold \u2013 he should close it.", " She wants tea."),
    ),
    (
        f"{STORY}Answer:",
        (" He\u2019s in the na\u00efve caf\u00e9 \U0001f600", "\u2019tis not so", " tea"),
    ),
    ("She is un", ("happy", "able to say", "til")),
    ("Hi \U0001f600", ("\U0001f601", "\u00e9", " no")),
]


def released() -> list[tuple[str, tuple[str, ...]]]:
    """Some prompts of Hu et al. with their numbers and with their options' words, if at hand."""
    folder = Path(os.environ.get("HARNESS_DATA", "")) / "hu2022" / "prompts"
    posed = []
    for path in sorted(folder.glob("*_prompts_seed0_examples0.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows[:: max(len(rows) // 3, 1)]:
            prompt = row["prompt"].rstrip()
            options = prompt.partition("Options:")[2].splitlines()
            words = [line.partition(") ")[2] for line in options if ") " in line]
            posed.append((prompt, tuple(f" {number + 1}" for number in range(len(words)))))
            posed.append((prompt, tuple(f" {word}" for word in words)))
    return [(prompt, choices) for prompt, choices in posed if len(set(choices)) > 1]


def asked(context: str, choices: Sequence[str]) -> Request:
    words = (Message("user", context),)
    return Request(
        "s", "base", "answer", "m", words, Decoding(max_tokens=1), Mode.CHOOSE, tuple(choices)
    )


@cache
def loaded(folder: Path) -> Any:  # noqa: ANN401 - a model of transformers
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)


@cache
def tokenizer(folder: Path) -> Any:  # noqa: ANN401 - a tokenizer of transformers
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(folder))


def next_logprobs(model: Any, row: Sequence[int]) -> "Tensor":  # noqa: ANN401 - as loaded
    """Behind each token of a row, alone in its batch, the log-probabilities of all tokens."""
    import torch

    with torch.inference_mode():
        told: Tensor = model(torch.tensor([row])).logits[0].log_softmax(-1)
    return told


def by_forward_pass(
    folder: Path,
    request: Request,
    model: Any = None,  # noqa: ANN401 - as loaded
    *,
    is_chat: bool = False,
) -> tuple[ChoiceScore, ...]:
    """Scores by one forward pass a row, of the checkpoint or of another model with its words."""
    words = tokenizer(folder)
    tokens = choice_tokens(request.messages, request.choices, words, is_chat=is_chat)
    sums = []
    for row, first in zip(tokens.rows, tokens.firsts, strict=True):
        told = next_logprobs(model or loaded(folder), row)
        sums.append(sum(float(told[at - 1, row[at]]) for at in range(first, len(row))))
    return tokens.scored(sums, request.choices)


def assert_scored(response: Response, expected: Sequence[ChoiceScore]) -> None:
    """The log-probabilities agree to 1e-3, and all that is counted is equal."""
    found = response.choice_scores
    assert found is not None, response.failure
    assert [each.logprob for each in found] == pytest.approx(
        [each.logprob for each in expected], rel=0, abs=1e-3
    )
    assert [(s.tokens, s.bytes, s.spanned, s.is_bound) for s in found] == [
        (s.tokens, s.bytes, s.spanned, s.is_bound) for s in expected
    ]
