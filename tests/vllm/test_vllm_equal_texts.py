"""Greedy texts of a task's own prompts: transformers, vLLM in this process and vLLM's server."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from in_process import answers, embed, model
from posed import OURS, loaded, tokenizer
from served import as_anthropic, as_openai, served
from support.sketches import resolved
from support.toy import Toy

from harness.core import Model, Request
from harness.models.local.tokenization import prompt_tokens
from harness.models.local.transformers_lm import TransformersModel
from harness.models.vectors import Vectors
from harness.parts import Decoding
from harness.pipeline.plan import request
from harness.pipeline.resolve import RunOptions, resolve
from harness.specs.models import TransformersSpec

pytest_plugins = ["vllm_fixtures"]
pytestmark = pytest.mark.vllm
TASKS = {"intent_resolution": ("base", "cot2", "cot5"), "emphasized_talk": ("marker:caps",)}
SAMPLES, TOKENS, TIE = 12, 64, 1e-4


@dataclass(frozen=True)
class Expected:
    """A greedy text by plain forward passes, and how it begins before the first tie."""

    text: str
    beginning: str

    @property
    def is_tied(self) -> bool:
        """Whether at some step the two best tokens are too close to call."""
        return self.beginning != self.text

    def allows(self, text: str) -> bool:
        """Whether a text is this one, as far as one can tell."""
        return text.startswith(self.beginning) if self.is_tied else text == self.text


@pytest.fixture
def requests(toy: Toy) -> list[Request]:
    """The first questions of some variants about our own samples, to be answered greedily."""
    found = []
    for task, variants in TASKS.items():
        options = RunOptions(
            task, "echo", variants=variants, limit=SAMPLES, judges=("ngram-cosine",)
        )
        plan = resolve(toy.space(), options).plan
        for cell in plan.cells:
            if cell.decoding == plan.task.decodings[0]:
                step = plan.task.variants[cell.variant].steps[0]
                asked = request(plan, cell, step=step, earlier={})
                found.append(replace(asked, decoding=Decoding(max_tokens=TOKENS), model="tiny"))
    return found


def expected(folder: Path, asked: Request) -> Expected:
    import torch

    words = tokenizer(folder)
    prompt = prompt_tokens(asked.messages, words)
    row, tie = list(prompt), None
    for step in range(TOKENS):
        with torch.inference_mode():
            best = loaded(folder)(torch.tensor([row])).logits[0, -1].topk(2)
        if tie is None and float(best.values[0] - best.values[1]) < TIE:
            tie = step
        row.append(int(best.indices[0]))
        if row[-1] == words.eos_token_id:
            break
    told: Sequence[int] = row[len(prompt) :]
    text = words.decode(told, skip_special_tokens=True)
    beginning = text if tie is None else words.decode(told[:tie], skip_special_tokens=True)
    return Expected(text, beginning)


def test_greedy_texts_are_equal_but_for_ties(
    requests: list[Request], folder: Path, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = model(folder)
    models: dict[str, Model] = {
        "transformers": resolved(
            TransformersModel("t", TransformersSpec(model=str(folder)), folder)
        ),
        "vLLM in process": engine,
        "vLLM's server, as OpenAI's": as_openai(server),
        "vLLM's server, by responses": as_openai(server, api="responses", choices="none"),
        "vLLM's server, as Anthropic's": as_anthropic(server),
    }

    texts = {name: answers(one, requests) for name, one in models.items()}
    engine.close()

    wanted = {asked.key: expected(folder, asked) for asked in requests}
    assert len(wanted) >= 30
    for name, found in texts.items():
        said = {key: (found[key].texts or ("",))[0] for key in wanted}
        assert [key for key in wanted if not wanted[key].allows(said[key])] == [], name
        equal = sum(said[key] == each.text for key, each in wanted.items())
        with capsys.disabled():
            print(f"\n{name}: {equal} of {len(wanted)} greedy texts equal", end="")
    with capsys.disabled():
        print(f"\n{sum(each.is_tied for each in wanted.values())} of them have a tie")


TEXTS = [context for context, _ in OURS] + ["Hello.", "Does she mean it?", "no " * 900]
TEXTS += [choice for _, choices in OURS for choice in choices]
EMBEDDED = [embed(text) for text in dict.fromkeys(TEXTS)]


def by_transformers(folder: Path) -> Vectors:
    """The mean vectors of the texts by a plain forward pass each, scaled to 1."""
    import torch

    rows = []
    for one in EMBEDDED:
        ids = tokenizer(folder)(one.messages[0].content)["input_ids"]
        with torch.inference_mode():
            pooled = loaded(folder).model(torch.tensor([ids]))[0][0].mean(0)
        rows.append((pooled / pooled.norm()).numpy())
    return np.stack(rows)


def test_vllms_server_gives_the_vectors_of_transformers(folder: Path, tmp_path: Path) -> None:
    options = ("--runner", "pooling", "--pooler-config", '{"seq_pooling_type": "MEAN"}')
    with served(folder, tmp_path / "server.log", *options) as url:
        found = answers(as_openai(url, choices="none"), EMBEDDED)

    vectors = np.array([(found[request.key].vectors or ((),))[0] for request in EMBEDDED])
    np.testing.assert_allclose(vectors, by_transformers(folder), rtol=0, atol=1e-4)
