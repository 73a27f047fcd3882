"""Keys of a model's YAML that vLLM's engine is built with: they arrive, and do what they say.

Runs in the environment that tests/vllm/install.sh builds: `python -m pytest -m vllm tests/vllm`.
"""

from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from in_process import answers, model, written_adapter
from posed import OURS, asked, by_forward_pass, loaded
from support.toy import Toy

from harness.core import Request
from harness.models.local.vllm_model import VllmModel
from harness.parts import ChoiceScore

if TYPE_CHECKING:
    from torch import Tensor

pytest_plugins = ["vllm_fixtures"]
pytestmark = pytest.mark.vllm
SETTINGS = """
    kind: vllm
    model: {folder}
    dtype: bfloat16
    quantization: fp8_per_channel
    lora: {adapter}
    max_model_len: 512
    gpu_memory_utilization: 0.05
    enforce_eager: true
"""


def test_keys_of_the_yaml_reach_the_engine(toy: Toy, folder: Path, tmp_path: Path) -> None:
    adapter = written_adapter(tmp_path / "adapter", 1)
    toy.write("configs/models/set.yaml", SETTINGS.format(folder=folder, adapter=adapter))
    registry = toy.space().registry
    one = registry.model("set", registry.load("configs/models", "set"))
    assert isinstance(one, VllmModel)

    config: Any = one._engine()._engine.vllm_config
    one.close()

    assert (config.model_config.model, str(config.model_config.dtype)) == (
        str(folder),
        "torch.bfloat16",
    )
    assert (config.model_config.quantization, config.model_config.max_model_len) == (
        "fp8_per_channel",
        512,
    )
    assert config.lora_config.max_lora_rank == 8
    assert config.cache_config.gpu_memory_utilization == 0.05
    assert config.model_config.enforce_eager


def in_fp8(values: "Tensor") -> "Tensor":
    """Rows rounded to eight bits, each by its own scale."""
    import torch

    scale = values.abs().amax(-1, keepdim=True) / 448
    return (values / scale).to(torch.float8_e4m3fn).float() * scale


def quantized(folder: Path) -> Any:  # noqa: ANN401 - a model of transformers
    """The checkpoint's model with weights and what they are multiplied by rounded by hand."""
    import torch

    model = deepcopy(loaded(folder))
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            module.weight.data = in_fp8(module.weight.data)
            module.register_forward_pre_hook(lambda _, given: (in_fp8(given[0]),))
    return model


def distance(one: tuple[ChoiceScore, ...], other: tuple[ChoiceScore, ...]) -> float:
    return float(np.mean([abs(a.logprob - b.logprob) for a, b in zip(one, other, strict=True)]))


def test_quantization_rounds_as_its_name_says(folder: Path) -> None:
    one = model(folder, dtype="bfloat16", quantization="fp8_per_channel")
    requests: list[Request] = [asked(context, choices) for context, choices in OURS]

    found = answers(one, requests)
    one.close()

    scores = {request: found[request.key].choice_scores or () for request in requests}
    by_hand, whole = quantized(folder), loaded(folder)
    near = [distance(s, by_forward_pass(folder, r, by_hand)) for r, s in scores.items()]
    far = [distance(s, by_forward_pass(folder, r, whole)) for r, s in scores.items()]
    assert np.mean(near) < 0.75 * np.mean(far)
