"""Weights as the metric's authors publish them, to a scorer.

The folder (of the hub, or a copy) has a torch state dict with the head's matrices and the encoder's
weights. State dicts that hold more than weights are refused, so no code runs. The encoder is loaded
at the first text.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from harness.errors import ModelError, SpecError, check_names
from harness.implicitness.formula import PUBLISHED, Maps, Matrix
from harness.implicitness.scorer import Head, Scorer
from harness.lazy import Tensor, torch
from harness.models.encoders.encoders import Encoder, SentenceTransformers
from harness.models.extras import require
from harness.models.local.checkpoints import explain, folder_of
from harness.parts import digest
from harness.specs.implicitness import Direction, Form, PublishedSpec, Role, SentenceTransformerSpec

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


# What precedes a backbone's own names, by the version of sentence-transformers.
WRAPPED: Final = re.compile(r"^\d+\.(auto_model|model)\.")
COUNTED: Final = re.compile(r"(^|\.)position_ids$")  # stored by old versions, computed by new ones
UNREAD: Final = "pooler."  # no pooling of sentence-transformers reads it


@dataclass(frozen=True)
class TunedEncoder(SentenceTransformers):
    """A sentence-transformers model with the weights of a state dict, if any, in place of its own.

    Architecture, tokenizer, pooling and scaling are the model's; prefixes of names are ignored.
    """

    weights: Mapping[str, Tensor] = field(default_factory=dict, compare=False, repr=False)

    kind = "impscore-encoder"
    is_scaled: ClassVar[bool] = False

    @cached_property
    def _own_digest(self) -> str:
        """Digest of the pipeline and of the weights that replace its own."""
        pipeline = SentenceTransformers(self.model, self.revision).digest
        arrays = ((n, self.weights[n].float().contiguous().numpy()) for n in sorted(self.weights))
        sums = [(name, hashlib.sha256(array.tobytes()).hexdigest()) for name, array in arrays]
        return digest((self.kind, pipeline, sums))

    def _loaded(self) -> "SentenceTransformer":
        model = super()._loaded()
        if self.weights:
            own = model.state_dict()
            model.load_state_dict(own | _renamed(self.weights, own, model=self.model))
        return model


def _renamed(
    given: Mapping[str, Tensor], own: Mapping[str, Tensor], *, model: str
) -> dict[str, Tensor]:
    """The given weights under the model's own names; all of them must fit, and be there."""
    ends = {WRAPPED.sub("", name): name for name in own}
    placed: dict[str, Tensor] = {}
    unknown = []
    for name, weight in given.items():
        parts = name.split(".")
        inner = (".".join(parts[start:]) for start in range(len(parts)))
        end = next((end for end in inner if end in ends), None)
        if end is not None and weight.shape == own[ends[end]].shape:
            placed[ends[end]] = weight
        elif not COUNTED.search(name):
            unknown.append(f"{name} {list(weight.shape)}")
    missing = [name for end, name in ends.items() if name not in placed and UNREAD not in end]
    if unknown or missing:
        facts = zip(("unknown", "missing"), (unknown, missing), strict=True)
        said = [f"{len(names)} {what} ({', '.join(names[:3])})" for what, names in facts if names]
        fact = f"the state dict's encoder does not fit {model}: {'; '.join(said)}"
        raise ModelError(f"{fact}; correct `encoder:` or list what is no weight of it in `ignore:`")
    return placed


PICKLES: Final = frozenset({".bin", ".ckpt", ".pt", ".pth"})
WEIGHTS: Final = PICKLES | {".safetensors"}
NESTED: Final = ("state_dict", "model_state_dict", "model")
# What a matrix may be called, in small letters and digits alone.
ROLES: Final[Mapping[Role, set[str]]] = {
    "semantic": {"weights", "ws", "projs", "semantic"},
    "pragmatic": {"weightp", "wp", "projp", "pragmatic"},
    "transfer": {"weightt", "wt", "projt", "transfer", "weighttp", "weightpt", "wtp", "wpt"},
    "transfer_semantic": {"weightts", "weightst", "wts", "wst", "transfersemantic"},
}
LAYER: Final = re.compile(r"\.(weight|bias)$")


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file, by name; anything else in it, above all code, is refused."""
    from pickle import UnpicklingError

    from safetensors import SafetensorError
    from safetensors.torch import load_file

    again = "copy it again, or write its weights again with torch.save(model.state_dict(), FILE)"
    try:
        is_pickle = path.suffix in PICKLES
        found = (
            torch.load(path, map_location="cpu", weights_only=True)
            if is_pickle
            else load_file(path)
        )
    except (UnpicklingError, SafetensorError, RuntimeError, OSError, EOFError, ValueError) as error:
        said = " ".join(str(error).split())[:200]
        raise ModelError(f"{path}: not a file of weights alone ({said}); {again}") from error
    inner: Mapping[str, Tensor] = found if isinstance(found, Mapping) else {"its content": found}
    for key in NESTED:
        if isinstance(nested := inner.get(key), Mapping):
            inner = nested
    if other := [str(key) for key, value in inner.items() if not isinstance(value, torch.Tensor)]:
        fact = f"not a state dict: {', '.join(other[:3])} is no tensor"
        raise ModelError(f"{path}: {fact}; {again}")
    return dict(inner)


def split_weights(
    weights: Mapping[str, Tensor], spec: PublishedSpec, *, form: Form, path: Path
) -> tuple[Maps[Matrix], dict[str, Tensor]]:
    """Split a state dict into matrices and encoder; this is empty where the stock one is meant."""
    keys = _keys(weights, spec, path)
    is_third = form.direction is Direction.THIRD
    used = [role for role in ROLES if role != "transfer_semantic" or is_third]
    if missing := [role for role in used if role not in keys]:
        shapes = ", ".join(f"{key} {list(part.shape)}" for key, part in [*weights.items()][-6:])
        fact = f"no matrix {', '.join(missing)} among {len(weights)} entries ({shapes})"
        raise ModelError(f"{path}: {fact}; name it in the scorer's YAML, under `keys:`")
    found = {}
    for role in used:
        matrix = weights[keys[role]].float()
        matrix = matrix.T if _is_layer(role, weights, keys) else matrix
        found[role] = np.ascontiguousarray(matrix.numpy())
    try:
        maps = Maps(**found)
    except ValueError as error:
        raise ModelError(f"{path}: {error}; name others in the YAML, under `keys:`") from error
    used_up = {*keys.values(), *spec.ignore}
    biases = {f"{LAYER.sub('', key)}.bias" for key in keys.values()}
    for key in sorted(biases & weights.keys() - used_up):
        if bool(weights[key].any()):
            raise ModelError(f"{path}: {key} is added to a feature; use weights without it")
    return maps, {key: part for key, part in weights.items() if key not in used_up | biases}


def _keys(weights: Mapping[str, Tensor], spec: PublishedSpec, path: Path) -> dict[Role, str]:
    """The entry of each matrix: as the YAML says, else by its name."""
    keys = dict(spec.keys)
    then = ", named under `keys:`"
    check_names(f"{path}: no entry", keys.values(), weights, then=then, error=ModelError)
    flat = {
        key: re.sub(r"[^a-z0-9]", "", LAYER.sub("", key).rpartition(".")[2].lower())
        for key, tensor in weights.items()
        if tensor.ndim == 2 and key not in spec.ignore
    }
    for role in ROLES.keys() - keys.keys():
        candidates = [key for key, name in flat.items() if name in ROLES[role]]
        if len(candidates) > 1:
            fact = f"{' and '.join(candidates)} may each be the matrix {role}"
            raise ModelError(f"{path}: {fact}; name the one in the YAML, under `keys:`")
        if candidates:
            keys[role] = candidates[0]
    return keys


def _is_layer(role: Role, weights: Mapping[str, Tensor], keys: Mapping[Role, str]) -> bool:
    """Whether a matrix is stored as a linear layer's, [out, in], and must be transposed."""
    # The shape decides, else the name. A square matrix is stored as the pragmatic one of like name.
    guide: Role = role if role in ("semantic", "pragmatic") else "pragmatic"
    height, width = weights[keys[guide]].shape
    is_named = keys[role].endswith(".weight")
    if height == width or is_named != keys[guide].endswith(".weight"):
        return is_named
    return height < width


def published_scorer(
    name: str, spec: PublishedSpec, *, seen: frozenset[str] = frozenset()
) -> Scorer:
    """Build the scorer of a hub snapshot or folder; its encoder is loaded at the first text.

    `seen` has the fingerprints of the texts it was trained on; empty where nobody knows.
    """
    require("torch", "sentence_transformers")
    path, form = _weight_file(_folder(spec), spec), spec.form or PUBLISHED
    maps, weights = split_weights(read_weights(path), spec, form=form, path=path)
    encoder = TunedEncoder(spec.encoder, spec.encoder_revision, weights=weights)
    used = SentenceTransformerSpec(model=spec.encoder, revision=spec.encoder_revision)
    return Scorer(name, Head(name, (maps,), used, encoder.digest, form, seen=seen), encoder)


def published_encoder(name: str, spec: PublishedSpec) -> Encoder:
    """Build the encoder alone."""
    return published_scorer(name, spec).encoder


def _folder(spec: PublishedSpec) -> Path:
    if spec.model is None:
        raise SpecError(
            "the published weights are gated and ship with nobody: copy the scorer's YAML to "
            "configs/scorers/ in your home folder and set `model:` to their hub name, after "
            "`hf auth login`, or to a folder of yours that holds them"
        )
    if (path := folder_of(spec.model)) is not None:
        return path
    from huggingface_hub import snapshot_download

    with explain(spec.model):
        patterns = [f"*{ending}" for ending in sorted(WEIGHTS)]
        return Path(snapshot_download(spec.model, revision=spec.revision, allow_patterns=patterns))


def _weight_file(folder: Path, spec: PublishedSpec) -> Path:
    names = sorted(path.name for path in folder.iterdir() if path.suffix in WEIGHTS)
    wanted = [name for name in names if spec.weights in (None, name)]
    if len(wanted) != 1:
        listed = ", ".join(names) or f"none; endings: {', '.join(sorted(WEIGHTS))}"
        raise ModelError(
            f"{folder}: one file of weights is needed, and `weights: {spec.weights or ''}` fits "
            f"{len(wanted)}; there are: {listed}; name one in `weights:`"
        )
    return folder / wanted[0]
