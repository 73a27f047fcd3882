"""vLLM in this process: models and adapters of the tiny checkpoint, and requests to write."""

import json
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

from posed import loaded
from support.sketches import resolved

from harness.core import Model, Request, Response
from harness.models.local.vllm_model import VllmModel
from harness.parts import Decoding, Message, Mode, Reason
from harness.specs.models import VllmSpec


def model(folder: Path, **settings: object) -> VllmModel:
    """A model of a checkpoint, whose engine is not started yet."""
    spec = VllmSpec(model=str(folder), enforce_eager=True, **settings)  # type: ignore[arg-type]  # by key
    return resolved(VllmModel("tiny", spec, folder.parent))


def ask(text: str, *, repeat: int = 0, **decoding: float | None) -> Request:
    chosen = Decoding(**{"max_tokens": 24, **decoding})  # type: ignore[arg-type]  # ints
    words = (Message("user", text),)
    return Request("s", "base", "answer", "tiny", words, chosen, repeat=repeat)


def embed(text: str) -> Request:
    words = (Message("user", text),)
    return Request("s", "base", "embed", "tiny", words, Decoding(max_tokens=1), Mode.EMBED)


def answers(model: Model, requests: Iterable[Request]) -> dict[str, Response]:
    return {response.key: response for response in model.answer(requests)}


def failure_of(response: Response) -> tuple[Reason, str]:
    assert response.failure is not None
    return response.failure.reason, response.failure.message


def written_adapter(folder: Path, seed: int) -> Path:
    import torch
    from safetensors.torch import save_file

    folder.mkdir()
    draw = torch.Generator().manual_seed(seed)
    weights = {
        f"base_model.model.model.layers.{layer}.self_attn.{name}.lora_{part}.weight": torch.rand(
            shape, generator=draw
        )
        - 0.5
        for layer in range(2)
        for name in ("q_proj", "v_proj")
        for part, shape in (("A", (4, 64)), ("B", (64, 4)))
    }
    save_file(weights, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def merged(folder: Path, adapter: Path) -> Any:  # noqa: ANN401 - a model of transformers
    """The checkpoint's model with the adapter's weights in its own, by hand: W + alpha / r BA."""
    from safetensors.torch import load_file

    model, parts = deepcopy(loaded(folder)), load_file(adapter / "adapter_model.safetensors")
    for name in {name.partition(".lora_")[0] for name in parts}:
        weight = model.get_submodule(name.removeprefix("base_model.model.")).weight.data
        weight += 16 / 4 * parts[f"{name}.lora_B.weight"] @ parts[f"{name}.lora_A.weight"]
    return model
