"""Vectors by vLLM's server, next to transformers' own.

Runs in the environment that tests/vllm/install.sh builds: `python -m pytest -m vllm tests/vllm`.
"""

from pathlib import Path

import numpy as np
import pytest
from in_process import answers, embed
from posed import OURS, loaded, tokenizer
from served import served
from support.sketches import resolved

from harness.models.openai.model import OpenAIModel
from harness.models.vectors import Vectors
from harness.specs.models import OpenAISpec

pytest_plugins = ["vllm_fixtures"]
pytestmark = pytest.mark.vllm
TEXTS = [context for context, _ in OURS] + ["Hello.", "Does she mean it?", "no " * 900]
TEXTS += [choice for _, choices in OURS for choice in choices]
REQUESTS = [embed(text) for text in dict.fromkeys(TEXTS)]


def by_transformers(folder: Path) -> Vectors:
    """The mean vectors of the texts by a plain forward pass each, scaled to 1."""
    import torch

    rows = []
    for request in REQUESTS:
        ids = tokenizer(folder)(request.messages[0].content)["input_ids"]
        with torch.inference_mode():
            pooled = loaded(folder).model(torch.tensor([ids]))[0][0].mean(0)
        rows.append((pooled / pooled.norm()).numpy())
    return np.stack(rows)


def test_vllms_server_gives_the_vectors_of_transformers(folder: Path, tmp_path: Path) -> None:
    options = ("--runner", "pooling", "--pooler-config", '{"seq_pooling_type": "MEAN"}')
    with served(folder, tmp_path / "server.log", *options) as url:
        spec = OpenAISpec(model="auto", base_url=url, key_env=None, choices="none")
        found = answers(resolved(OpenAIModel("tiny", spec, {})), REQUESTS)

    vectors = np.array([(found[request.key].vectors or ((),))[0] for request in REQUESTS])
    np.testing.assert_allclose(vectors, by_transformers(folder), rtol=0, atol=1e-4)
