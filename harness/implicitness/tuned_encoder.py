"""A sentence encoder whose weights come from elsewhere: from a published state dict.

Architecture, tokenizer, pooling and scaling are those of a sentence-transformers model; of the
state dict the names before those of the model's own weights do not matter.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final

from harness.errors import ModelError
from harness.models.encoders.encoders import SentenceTransformers
from harness.parts import digest

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor

# What precedes a backbone's own names, by the version of sentence-transformers.
WRAPPED: Final = re.compile(r"^\d+\.(auto_model|model)\.")
COUNTED: Final = re.compile(r"(^|\.)position_ids$")  # stored by old versions, computed by new ones
UNREAD: Final = "pooler."  # no pooling of sentence-transformers reads it


@dataclass(frozen=True)
class TunedEncoder(SentenceTransformers):
    """A sentence-transformers model with the weights of a state dict in place of its own.

    Rows are as the model's pipeline leaves them: of length 1 where it ends in Normalize, as
    all-mpnet-base-v2 does. Without `weights` the model's own stay.
    """

    weights: "Mapping[str, Tensor]" = field(default_factory=dict, compare=False, repr=False)

    name: ClassVar[str] = "impscore-encoder"
    is_scaled: ClassVar[bool] = False

    @cached_property
    def digest(self) -> str:
        """Digest of the pipeline and of the weights laid over it."""
        pipeline = SentenceTransformers(self.model, self.revision).digest
        return digest((self.name, pipeline, _checksums(self.weights)))

    def _loaded(self) -> "SentenceTransformer":
        """The model with the weights over its own."""
        model = super()._loaded()
        if self.weights:
            own = model.state_dict()
            model.load_state_dict(own | _placed(self.weights, own, model=self.model))
        return model


def _placed(
    given: "Mapping[str, Tensor]", own: "Mapping[str, Tensor]", *, model: str
) -> "dict[str, Tensor]":
    """The given weights under the names the model has for them; all must find their place."""
    ends = {WRAPPED.sub("", name): name for name in own}
    placed: dict[str, Tensor] = {}
    unknown = []
    for name, weight in given.items():
        if COUNTED.search(name):
            continue
        end = next((end for end in _ends(name) if end in ends), None)
        if end is None:
            unknown.append(f"{name} {list(weight.shape)}")
        else:
            placed[ends[end]] = weight
    missing = [name for end, name in ends.items() if name not in placed and UNREAD not in end]
    wrong = [
        f"{name}: {list(weight.shape)}, not {list(own[name].shape)}"
        for name, weight in placed.items()
        if weight.shape != own[name].shape
    ]
    if unknown or missing or wrong:
        raise ModelError(
            f"the state dict's encoder does not fit {model}: {_told('unknown', unknown)}; "
            f"{_told('missing', missing)}; {_told('of another shape', wrong)}; set `encoder:` to "
            "the model they were trained with, and list what is no weight of it in `ignore:`"
        )
    return placed


def _ends(name: str) -> Iterable[str]:
    """The name, then what is left of it behind each of its dots."""
    parts = name.split(".")
    return (".".join(parts[start:]) for start in range(len(parts)))


def _told(what: str, names: list[str]) -> str:
    """How many names there are, and the first of them."""
    more = ", ..." if len(names) > 3 else ""
    return f"{len(names)} {what}" + (f" ({', '.join(names[:3])}{more})" if names else "")


def _checksums(weights: "Mapping[str, Tensor]") -> list[tuple[str, str]]:
    """Name and sha256 of each weight in float32."""
    return [
        (name, hashlib.sha256(weights[name].float().contiguous().numpy().tobytes()).hexdigest())
        for name in sorted(weights)
    ]
