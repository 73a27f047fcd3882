"""Specs of encoders to encoders, one of each kind and setting in a process."""

from functools import cache
from typing import TYPE_CHECKING

from harness.specs import encoders

if TYPE_CHECKING:
    from harness.models.encoders.encoders import Encoder


@cache
def encoder_of(spec: encoders.LocalEncoderSpec) -> "Encoder":
    """The encoder of a spec; its weights are loaded at its first text, once."""
    match spec:
        case encoders.MiniLMSpec():
            from harness.models.encoders.encoders import MiniLM

            return MiniLM(layers=spec.layers)
        case encoders.CharNgramsSpec():
            from harness.models.encoders.encoders import CharNgrams

            return CharNgrams()
        case encoders.SentenceTransformerSpec():
            from harness.models.encoders.encoders import SentenceTransformers

            return SentenceTransformers(spec.model, spec.revision)
        case encoders.Llm2VecSpec():
            from harness.models.encoders import llm2vec

            kind = llm2vec.Llm2Vec if spec.engine == "native" else llm2vec.Llm2VecPackage
            return kind(
                spec.base,
                spec.adapters,
                revision=spec.revision,
                instruction=spec.instruction,
                max_length=spec.max_length,
                dtype=spec.dtype,
            )
