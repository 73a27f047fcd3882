"""Choices scored by vLLM, in this process and by its server, beside a plain forward pass.

Runs in the environment that tests/vllm/install.sh builds: `python -m pytest -m vllm tests/vllm`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
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
from served import as_llama_2, served
from support.sketches import resolved

from harness.core import Model, Request, Response
from harness.models.local.tokenization import prompt_tokens
from harness.models.local.vllm_model import VllmModel
from harness.models.openai.model import OpenAIModel
from harness.parts import Message, Mode, Reason
from harness.specs.models import OpenAISpec, VllmSpec

pytest_plugins = ["vllm_fixtures"]
pytestmark = pytest.mark.vllm


def in_process(folder: Path) -> VllmModel:
    return resolved(
        VllmModel("tiny", VllmSpec(model=str(folder), enforce_eager=True), folder.parent)
    )


def by_server(url: str, choices: str = "echo") -> OpenAIModel:
    spec = OpenAISpec(model="auto", base_url=url, key_env=None, choices=choices)  # type: ignore[arg-type]  # a Literal
    return resolved(OpenAIModel("tiny", spec, {}))


@pytest.fixture(scope="module")
def llama_2(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return as_llama_2(folder, tmp_path_factory.mktemp("llama-2") / "checkpoint")


@pytest.fixture(scope="module")
def models(
    folder: Path, llama_2: Path, server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[Model, Path]]]:
    engines = [in_process(folder), in_process(llama_2)]
    with served(llama_2, tmp_path_factory.mktemp("log") / "llama-2.log") as url:
        yield {
            "process": (engines[0], folder),
            "process, Llama 2": (engines[1], llama_2),
            "server": (by_server(server), folder),
            "server, Llama 2": (by_server(url), llama_2),
        }
    for engine in engines:
        engine.close()


WAYS = ["process", "process, Llama 2", "server", "server, Llama 2"]


def answers(model: Model, requests: Iterable[Request]) -> dict[str, Response]:
    return {response.key: response for response in model.answer(requests)}


@pytest.mark.parametrize("way", WAYS)
def test_choices_score_what_a_plain_forward_pass_gives(
    models: dict[str, tuple[Model, Path]], way: str
) -> None:
    model, folder = models[way]
    requests = [asked(context, choices) for context, choices in [*OURS, *released()]]
    requests = [
        each
        for each in requests
        if way.endswith("Llama 2") or each.messages[0].content != OURS[-1][0]
    ]

    found = answers(model, requests)

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
    model, _ = models[way]
    requests = [asked(context, choices) for context, choices in OURS]
    requests += [asked(f"{context}{n}", choices) for n in range(8) for context, choices in OURS[:4]]
    alone = {key: each for request in requests for key, each in answers(model, [request]).items()}

    together = answers(model, Random(seed).sample(requests, len(requests)))

    assert {key: each.choice_scores for key, each in together.items()} == {
        key: each.choice_scores for key, each in alone.items()
    }


def test_the_likeliest_tokens_of_a_server_are_those_of_a_forward_pass(
    server: str, folder: Path
) -> None:
    words = (Message("user", "One, two,"),)
    told = next_logprobs(loaded(folder), prompt_tokens(words, tokenizer(folder)))[-1]
    texts = {tokenizer(folder).decode([at]): float(told[at]) for at in told.topk(8).indices}
    known = [text for text in texts if text.strip().isalpha()][:2]
    listing = replace(asked("", (*known, "unheard")), messages=words, mode=Mode.CHOOSE_TOKEN)

    [response] = by_server(server, "top_logprobs").answer([listing])

    *first, last = response.choice_scores or ()
    assert [score.logprob for score in first] == pytest.approx([texts[t] for t in known], abs=1e-3)
    assert [score.is_bound for score in (*first, last)] == [False, False, True]
    assert last.logprob < min(score.logprob for score in first)
