"""A state dict of the metric to its matrices and the weights of its encoder.

Nothing a file holds is run. Entries are told by the last part of their names and by their
shapes; what stands before, as `module.`, does not matter.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import asdict

from harness.errors import ModelError
from harness.implicitness.formula import Direction, Form, Maps, Matrix
from harness.specs.schema import nearest
from harness.specs.scorers import PublishedSpec

if TYPE_CHECKING:
    from torch import Tensor

PICKLES: Final = frozenset({".bin", ".ckpt", ".pt", ".pth"})
WEIGHTS: Final = PICKLES | {".safetensors"}
NESTED: Final = ("state_dict", "model_state_dict", "model")
# What a matrix may be called, in small letters and digits alone.
ROLES: Final = {
    "semantic": {"weights", "ws", "projs", "semantic"},
    "pragmatic": {"weightp", "wp", "projp", "pragmatic"},
    "transfer": {"weightt", "wt", "projt", "transfer", "weighttp", "weightpt", "wtp", "wpt"},
    "transfer_semantic": {"weightts", "weightst", "wts", "wst", "transfersemantic"},
}
LAYER: Final = re.compile(r"\.(weight|bias)$")


@dataclass(frozen=True, slots=True, eq=False)
class Parted:
    """The matrices of a state dict, and the weights of its encoder by name (none: as stocked)."""

    maps: Maps[Matrix]
    encoder: "Mapping[str, Tensor]"


def read_weights(path: Path) -> "dict[str, Tensor]":
    """The tensors of a file, by name; anything else in it is refused, code above all."""
    from pickle import UnpicklingError

    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        found = (
            torch.load(path, map_location="cpu", weights_only=True)
            if path.suffix in PICKLES
            else load_file(path)
        )
    except (UnpicklingError, SafetensorError, RuntimeError, OSError, EOFError, ValueError) as error:
        raise ModelError(
            f"{path}: not a file of weights alone ({' '.join(str(error).split())[:200]}); copy it "
            "again, or write its weights anew with torch.save(model.state_dict(), FILE)"
        ) from error
    inner: Mapping[str, Tensor] = found if isinstance(found, Mapping) else {"its content": found}
    for key in NESTED:
        if isinstance(nested := inner.get(key), Mapping):
            inner = nested
    if other := [str(key) for key, held in inner.items() if not isinstance(held, torch.Tensor)]:
        raise ModelError(
            f"{path}: not a state dict: {', '.join(other[:3])} is no tensor; write its weights "
            "anew with torch.save(model.state_dict(), FILE)"
        )
    return dict(inner)


def parted(
    weights: "Mapping[str, Tensor]",
    spec: PublishedSpec,
    *,
    form: Form,
    features: int | None,
    path: Path,
) -> Parted:
    """The matrices and the encoder's weights; `features` is k where the arguments tell it."""
    keys = _keys(weights, spec, path)
    used = [role for role in ROLES if role != "transfer_semantic" or _is_third(form)]
    if lacking := [role for role in used if role not in keys]:
        shapes = [f"{key} {list(held.shape)}" for key, held in weights.items()][-6:]
        raise ModelError(
            f"{path}: no matrix {', '.join(lacking)} for the direction {form.direction} among "
            f"{len(weights)} entries ({', '.join(shapes)}); name it in the scorer's YAML, under "
            "`keys:`"
        )
    matrices = {role: weights[keys[role]].float() for role in used}
    try:
        maps = Maps(
            **{
                role: np.ascontiguousarray((held.T if is_layer else held).numpy())
                for role, held in matrices.items()
                for is_layer in [_is_layer(role, matrices, keys, features=features)]
            }
        )
    except ValueError as error:
        raise ModelError(f"{path}: {error}; name others in the YAML, under `keys:`") from error
    return Parted(maps, _left(weights, keys, spec, path=path))


def plain(name: str) -> str:
    """A name in small letters and digits alone."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _is_third(form: Form) -> bool:
    return form.direction is Direction.THIRD


def _keys(weights: "Mapping[str, Tensor]", spec: PublishedSpec, path: Path) -> dict[str, str]:
    """The name of the entry for each matrix that there is."""
    keys = {role: key for role, key in asdict(spec.keys).items() if key is not None}
    if absent := [key for key in keys.values() if key not in weights]:
        raise ModelError(
            f"{path}: no entry {absent[0]!r}, named under `keys:`{nearest(absent[0], [*weights])}"
        )
    for role in ROLES.keys() - keys.keys():
        found = [key for key, held in weights.items() if _leaf(key) in ROLES[role]]
        found = [key for key in found if weights[key].ndim == 2 and key not in spec.ignore]
        if len(found) > 1:
            raise ModelError(
                f"{path}: {' and '.join(found)} may each be the matrix {role}; name the one in "
                "the scorer's YAML, under `keys:`"
            )
        if found:
            keys[role] = found[0]
    return keys


def _leaf(key: str) -> str:
    """The last part of an entry's name, less `weight` and `bias`."""
    return plain(LAYER.sub("", key).rpartition(".")[2])


def _is_layer(
    role: str, matrices: "Mapping[str, Tensor]", keys: Mapping[str, str], *, features: int | None
) -> bool:
    """Whether a matrix is stored as a linear layer's, [out, in], and so has to be turned.

    Shape tells it, else the name. A square matrix is stored as the pragmatic one of like name.
    """
    guide = role if role in ("semantic", "pragmatic") else "pragmatic"
    height, width = matrices[guide].shape
    is_named = keys[role].endswith(".weight")
    if height == width or is_named != keys[guide].endswith(".weight"):
        return is_named
    return height == (features or min(height, width))


def _left(
    weights: "Mapping[str, Tensor]", keys: Mapping[str, str], spec: PublishedSpec, *, path: Path
) -> "dict[str, Tensor]":
    """The entries that are no part of the head; one that adds to a matrix is refused."""
    used = {*keys.values(), *spec.ignore}
    biases = {f"{LAYER.sub('', key)}.bias" for key in keys.values()}
    for key in sorted(biases & weights.keys() - used):
        if bool(weights[key].any()):
            raise ModelError(
                f"{path}: {key} is added to a feature, which the metric's formula does not do; "
                "use weights without it"
            )
    return {key: held for key, held in weights.items() if key not in used | biases}
