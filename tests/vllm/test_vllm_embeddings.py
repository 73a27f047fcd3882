"""Vectors by vLLM, in this process and by its server, beside transformers' own.

Runs in the environment that tests/vllm/install.sh builds: `python -m pytest -m vllm tests/vllm`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any

import numpy as np
import pytest
from in_process import answers, embed, merged, model, written_adapter
from posed import OURS, loaded, tokenizer
from served import served
from support.resolved import resolved
from support.toy import Toy

from harness.core import Response
from harness.models.local.vllm_model import VllmModel
from harness.models.openai.model import OpenAIModel
from harness.models.vectors import Vectors
from harness.specs.models import OpenAISpec

pytest_plugins = ["vllm_fixtures"]
pytestmark = pytest.mark.vllm
TEXTS = [context for context, _ in OURS] + ["Hello.", "Does she mean it?", "no " * 900]
TEXTS += [choice for _, choices in OURS for choice in choices]
REQUESTS = [embed(text) for text in dict.fromkeys(TEXTS)]
FAR = """
    about: By vectors of vLLM.
    kind: cosine
    encoder: {kind: hosted, model: vectors}
    options: {accept: right, reject: wrong}
"""


@pytest.fixture(scope="module")
def mean(folder: Path) -> Iterator[VllmModel]:
    one = model(folder, pooling="mean")
    yield one
    one.close()


def by_transformers(
    folder: Path,
    pooling: str,
    weights: Any = None,  # noqa: ANN401 - a model of transformers
) -> Vectors:
    """The vectors of the texts by a plain forward pass each, pooled by hand and scaled to 1."""
    import torch

    rows = []
    for request in REQUESTS:
        ids = tokenizer(folder)(request.messages[0].content)["input_ids"]
        with torch.inference_mode():
            states = (weights or loaded(folder)).model(torch.tensor([ids]))[0][0]
        pooled = {"mean": states.mean(0), "last": states[-1], "cls": states[0]}[pooling]
        rows.append((pooled / pooled.norm()).numpy())
    return np.stack(rows)


def vectors(found: dict[str, Response]) -> Vectors:
    """The vectors of the requests, in their order."""
    return np.array([(found[request.key].vectors or ((),))[0] for request in REQUESTS], np.float32)


def as_sentence_transformer(folder: Path, target: Path, pooling: str) -> Path:
    """A copy of a checkpoint that says how its token vectors are pooled."""
    copytree(folder, target)
    types = ["Transformer", "Pooling", "Normalize"]
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": n, "name": str(n), "path": paths[n], "type": f"sentence_transformers.models.{kind}"}
        for n, kind in enumerate(types)
    ]
    (target / "modules.json").write_text(json.dumps(modules))
    (target / "1_Pooling").mkdir()
    says = {"word_embedding_dimension": 64, f"pooling_mode_{pooling}": True}
    (target / "1_Pooling" / "config.json").write_text(json.dumps(says))
    return target


@pytest.mark.parametrize("pooling", ["mean", "last", "cls"])
def test_vectors_are_those_of_transformers_pooled_alike(folder: Path, pooling: str) -> None:
    one = model(folder, pooling=pooling)

    found = answers(one, REQUESTS)
    one.close()

    np.testing.assert_allclose(vectors(found), by_transformers(folder, pooling), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("says", "pooling"), [("mean_tokens", "mean"), ("cls_token", "cls"), (None, "last")]
)
def test_pooling_left_open_is_the_checkpoints(
    folder: Path, tmp_path: Path, says: str | None, pooling: str
) -> None:
    source = as_sentence_transformer(folder, tmp_path / "copy", says) if says else folder
    one = model(source, pooling="auto")

    found = answers(one, REQUESTS)
    one.close()

    np.testing.assert_allclose(vectors(found), by_transformers(folder, pooling), rtol=0, atol=1e-4)


def test_texts_go_in_small_letters_where_the_checkpoint_says_so(
    mean: VllmModel, folder: Path, tmp_path: Path
) -> None:
    source = as_sentence_transformer(folder, tmp_path / "copy", "mean_tokens")
    says = {"max_seq_length": 4096, "do_lower_case": True}
    (source / "sentence_bert_config.json").write_text(json.dumps(says))
    small, as_is = embed("does she mean it?"), embed("Does she mean it?")
    one = model(source, pooling="auto")

    found = answers(one, [as_is])[as_is.key].vectors
    one.close()

    assert found == answers(mean, [small])[small.key].vectors
    assert found != answers(mean, [as_is])[as_is.key].vectors


def test_order_and_neighbours_do_not_change_a_vector(mean: VllmModel) -> None:
    alone = {key: each for request in REQUESTS for key, each in answers(mean, [request]).items()}

    assert answers(mean, Random(1).sample(REQUESTS, len(REQUESTS))) == alone


def test_vectors_with_an_adapter_are_those_of_merged_weights(folder: Path, tmp_path: Path) -> None:
    adapter = written_adapter(tmp_path / "adapter", 1)
    one = model(folder, pooling="mean", lora=str(adapter))

    found = answers(one, REQUESTS)
    one.close()

    expected = by_transformers(folder, "mean", merged(folder, adapter))
    np.testing.assert_allclose(vectors(found), expected, rtol=0, atol=1e-4)


def test_vllms_server_gives_the_same_vectors(mean: VllmModel, folder: Path, tmp_path: Path) -> None:
    options = ("--runner", "pooling", "--pooler-config", '{"seq_pooling_type": "MEAN"}')
    with served(folder, tmp_path / "server.log", *options) as url:
        spec = OpenAISpec(model="auto", base_url=url, key_env=None, choices="none")
        found = answers(resolved(OpenAIModel("tiny", spec, {})), REQUESTS)

    here = answers(mean, REQUESTS)
    np.testing.assert_allclose(vectors(found), vectors(here), rtol=0, atol=1e-5)
    assert [found[r.key].usage for r in REQUESTS] == [here[r.key].usage for r in REQUESTS]


def test_a_judge_reads_vectors_of_one_engine_after_another_wrote_the_answers(
    toy: Toy, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = f"kind: vllm\nmodel: {folder}\nenforce_eager: true\n"
    toy.write("configs/judges/far.yaml", FAR)
    toy.write("configs/models/writer.yaml", checkpoint)
    toy.write("configs/models/vectors.yaml", f"{checkpoint}pooling: mean\n")

    assert toy.run("--judge", "far", model="writer") in (0, 1)
    before = toy.bytes()
    assert toy.run("--judge", "far", "--offline", model="writer") in (0, 1)

    assert toy.bytes() == before
    assert toy.run(model="vectors") == 2
    assert "model vectors writes no answers" in capsys.readouterr().err
