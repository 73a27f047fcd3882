"""A tiny random Llama with two random LoRA adapters, in the layout of the LLM2Vec checkpoints.

Its tokenizer has the markers of Llama-3 Instruct, and its files are of forms that both old and
new transformers read.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from zlib import crc32

from harness.models.local.tiny_llama import HIDDEN, INNER, LAYERS, build_tiny_llama

LLAMA_3 = "meta-llama/Meta-Llama-3-8B-Instruct"
MARKERS = {
    "<s>": "<|begin_of_text|>",
    "</s>": "<|end_of_text|>",
    "<|user|>": "<|start_header_id|>",
    "<|assistant|>": "<|end_header_id|>",
    "<|system|>": "<|eot_id|>",
}
PROJECTIONS = {
    "self_attn.q_proj": (HIDDEN, HIDDEN),
    "self_attn.v_proj": (HIDDEN, HIDDEN),
    "mlp.down_proj": (INNER, HIDDEN),
}
RANK = 4


@dataclass(frozen=True, slots=True)
class TinyLlm2Vec:
    """Folders: a plain base, the MNTP adapter with a tokenizer beside it, and a later adapter."""

    base: str
    mntp: str
    supervised: str


def build_tiny_llm2vec(parent: Path, *, trained_on: str = LLAMA_3) -> TinyLlm2Vec:
    """Write the three folders; the base says it was saved from `trained_on`."""
    base, mntp, supervised = (parent / name for name in ("base", "mntp", "supervised"))
    copytree(build_tiny_llama(parent), base)
    _rewrite_tokenizer(base)
    _set(base / "config.json", _name_or_path=trained_on)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        mntp.mkdir(exist_ok=True)
        (mntp / name).write_bytes((base / name).read_bytes())
    _write_adapter(mntp, str(base))
    _write_adapter(supervised, str(base))
    return TinyLlm2Vec(str(base), str(mntp), str(supervised))


def _set(path: Path, **settings: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def _rewrite_tokenizer(folder: Path) -> None:
    """Give the tokenizer Llama 3's markers, its start of text, and merges in their old form."""
    for path in (folder / "tokenizer.json", folder / "tokenizer_config.json"):
        text = path.read_text("utf-8")
        for old, new in MARKERS.items():
            text = text.replace(json.dumps(old), json.dumps(new))
        path.write_text(text, "utf-8")
    path = folder / "tokenizer.json"
    model = json.loads(path.read_text("utf-8"))["model"]
    model["merges"] = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    start = {"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}}
    special = {"id": "<|begin_of_text|>", "ids": [0], "tokens": ["<|begin_of_text|>"]}
    processor = {
        "type": "TemplateProcessing",
        "single": [start, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|begin_of_text|>": special},
    }
    _set(path, model=model, post_processor=processor)
    _set(folder / "tokenizer_config.json", model_input_names=["input_ids", "attention_mask"])


def _write_adapter(folder: Path, base: str) -> None:
    """Write an adapter of uniform noise, strong enough to be seen, from a seed of its name."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(exist_ok=True)
    generator = torch.Generator().manual_seed(crc32(folder.name.encode()))
    weights = {}
    for layer in range(LAYERS):
        for name, (inner, outer) in PROJECTIONS.items():
            stem = f"base_model.model.layers.{layer}.{name}"
            for part, shape in (("lora_A", (RANK, inner)), ("lora_B", (outer, RANK))):
                noise = torch.rand(shape, generator=generator) - 0.5
                weights[f"{stem}.{part}.weight"] = noise * 0.3
    save_file(weights, folder / "adapter_model.safetensors", {"format": "pt"})
    settings = {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": base,
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "lora_dropout": 0.05,
        "target_modules": sorted({name.split(".")[1] for name in PROJECTIONS}),
        "bias": "none",
        "inference_mode": True,
    }
    (folder / "adapter_config.json").write_text(json.dumps(settings))
