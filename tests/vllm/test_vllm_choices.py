"""Choices scored by vLLM, in this process and by its server, beside a plain forward pass."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from in_process import answers, model
from posed import (
    OURS,
    asked,
    assert_scored,
    by_forward_pass,
    loaded,
    next_logprobs,
    released,
    tokenizer,
)
from served import as_llama_2, as_openai, served

from harness.core import Model
from harness.models.local.tokenization import prompt_tokens
from harness.parts import Message, Mode, Reason

pytest_plugins = ["vllm_fixtures"]
pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def llama_2(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return as_llama_2(folder, tmp_path_factory.mktemp("llama-2") / "checkpoint")


@pytest.fixture(scope="module")
def models(
    folder: Path, llama_2: Path, server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[Model, Path]]]:
    engines = [model(folder), model(llama_2)]
    with served(llama_2, tmp_path_factory.mktemp("log") / "llama-2.log") as url:
        yield {
            "process": (engines[0], folder),
            "process, Llama 2": (engines[1], llama_2),
            "server": (as_openai(server, choices="echo"), folder),
            "server, Llama 2": (as_openai(url, choices="echo"), llama_2),
        }
    for engine in engines:
        engine.close()


WAYS = ["process", "process, Llama 2", "server", "server, Llama 2"]


@pytest.mark.parametrize("way", WAYS)
def test_choices_score_as_a_plain_pass(models: dict[str, tuple[Model, Path]], way: str) -> None:
    scorer, folder = models[way]
    requests = [asked(context, choices) for context, choices in [*OURS, *released()]]
    requests = [
        each
        for each in requests
        if way.endswith("Llama 2") or each.messages[0].content != OURS[-1][0]
    ]

    found = answers(scorer, requests)

    for request in requests:
        assert_scored(found[request.key], by_forward_pass(folder, request))


@pytest.mark.parametrize("way", ["process", "server"])
@pytest.mark.parametrize(
    ("context", "choices", "fact"),
    [("", (" 1", " 2"), "there is nothing before"), ("Answer:", (" 1", " "), "without a word")],
)
def test_what_nothing_can_score_is_unsupported(
    models: dict[str, tuple[Model, Path]],
    way: str,
    context: str,
    choices: tuple[str, ...],
    fact: str,
) -> None:
    [response] = models[way][0].answer([asked(context, choices)])

    assert response.failure is not None
    assert response.failure.reason is Reason.UNSUPPORTED
    assert fact in response.failure.message


@pytest.mark.parametrize("way", ["process", "server"])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_of_prompts_changes_no_value(
    models: dict[str, tuple[Model, Path]], way: str, seed: int
) -> None:
    scorer, _ = models[way]
    requests = [asked(context, choices) for context, choices in OURS]
    requests += [asked(f"{context}{n}", choices) for n in range(8) for context, choices in OURS[:4]]
    alone = {key: each for request in requests for key, each in answers(scorer, [request]).items()}

    together = answers(scorer, Random(seed).sample(requests, len(requests)))

    assert {key: each.choice_scores for key, each in together.items()} == {
        key: each.choice_scores for key, each in alone.items()
    }


def test_likeliest_tokens_of_servers_are_those_of_a_forward_pass(server: str, folder: Path) -> None:
    words = (Message("user", "One, two,"),)
    told = next_logprobs(loaded(folder), prompt_tokens(words, tokenizer(folder)))[-1]
    texts = {tokenizer(folder).decode([at]): float(told[at]) for at in told.topk(8).indices}
    known = [text for text in texts if text.strip().isalpha()][:2]
    listing = replace(asked("", (*known, "unheard")), messages=words, mode=Mode.CHOOSE_TOKEN)

    [response] = as_openai(server, choices="top_logprobs").answer([listing])

    *first, last = response.choice_scores or ()
    assert [score.logprob for score in first] == pytest.approx([texts[t] for t in known], abs=1e-3)
    assert [score.is_bound for score in (*first, last)] == [False, False, True]
    assert last.logprob < min(score.logprob for score in first)
