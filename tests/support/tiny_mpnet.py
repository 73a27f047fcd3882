"""A tiny random encoder in the layout of all-mpnet-base-v2, and checkpoints as released over it.

The layout is that of the hub's files; the checkpoint is a torch state dict of the matrices, as
linear layers, and of the encoder, with the arguments of the training beside it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING

from harness.implicitness.formula import Maps, Matrix

if TYPE_CHECKING:
    from torch import Tensor

WIDTH, MOST_TOKENS = 48, 40
VOCABULARY = [
    *("<s>", "<pad>", "</s>", "[UNK]", "<mask>"),
    *ascii_lowercase,
    *(f"##{letter}" for letter in ascii_lowercase),
    *(".", ",", "'", "?"),
]
MODULES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True, slots=True)
class Shape:
    """Width, layers and attention heads of an encoder; how far its random weights spread."""

    width: int = WIDTH
    layers: int = 2
    heads: int = 4
    spread: float = 0.3  # at the usual .02 so small a model finds all texts alike


def write_mpnet(
    folder: Path, *, seed: int = 0, is_normalised: bool = True, shape: Shape = Shape()
) -> Path:
    """The encoder's folder: random weights, a tokenizer of letters, mean pooling, Normalize."""
    import torch
    from transformers import MPNetConfig, MPNetModel, MPNetTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # unannotated
    torch.manual_seed(seed)
    config = MPNetConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.width,
        max_position_embeddings=MOST_TOKENS + 2,
        initializer_range=shape.spread,
    )
    MPNetModel(config).save_pretrained(folder)
    places = {token: place for place, token in enumerate(VOCABULARY)}
    MPNetTokenizer(vocab=places, unk_token="[UNK]").save_pretrained(folder)
    kinds = MODULES if is_normalised else MODULES[:-1]
    paths = ("", "1_Pooling", "2_Normalize")
    modules = [
        {
            "idx": place,
            "name": str(place),
            "path": path,
            "type": f"sentence_transformers.models.{kind}",
        }
        for place, (path, kind) in enumerate(zip(paths, kinds, strict=False))
    ]
    pooling = {"word_embedding_dimension": shape.width, "pooling_mode_mean_tokens": True}
    reading = {"max_seq_length": MOST_TOKENS, "do_lower_case": False}
    for name in paths[1:]:
        (folder / name).mkdir(exist_ok=True)
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps(reading))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


def mean_vectors(folder: Path, texts: list[str]) -> "Tensor":
    """The means of the token states of a folder's model, by transformers alone."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    rows = []
    for text in texts:
        tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=MOST_TOKENS)
        with torch.inference_mode():
            rows.append(model.eval()(**tokens)[0][0].mean(dim=0))
    return torch.stack(rows)


@dataclass(frozen=True, slots=True)
class Released:
    """How a checkpoint is laid out: what stands around its names, how matrices are kept."""

    prefix: str = ""
    suffix: str = ".weight"
    encoder: str = "text_encoder.0.auto_model."
    is_linear: bool = True
    nested: str | None = None
    file: str = "pytorch_model.bin"


def write_released(
    folder: Path, maps: Maps[Matrix], *, tuned: Path | None = None, layout: Released = Released()
) -> Path:
    """A checkpoint of the matrices and of the encoder in `tuned` (null: without an encoder's)."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    names = {"weight_s": maps.semantic, "weight_p": maps.pragmatic, "weight_t": maps.transfer}
    if maps.transfer_semantic is not None:
        names["weight_ts"] = maps.transfer_semantic
    state = {
        f"{layout.prefix}{name}{layout.suffix}": torch.tensor(
            matrix.T.copy() if layout.is_linear else matrix
        )
        for name, matrix in names.items()
    }
    state |= _encoder_state(tuned, f"{layout.prefix}{layout.encoder}")
    kept: Mapping[str, object] = {layout.nested: state, "epoch": 3} if layout.nested else state
    torch.save(kept, folder / layout.file)
    return folder


def _encoder_state(folder: Path | None, prefix: str) -> "dict[str, Tensor]":
    """The weights of an encoder's folder behind a prefix."""
    from safetensors.torch import load_file

    if folder is None:
        return {}
    return {
        f"{prefix}{name}": held for name, held in load_file(folder / "model.safetensors").items()
    }
