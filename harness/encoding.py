"""Specs of encoders to encoders, one of each kind and setting in a process."""

from functools import cache
from typing import TYPE_CHECKING

from harness.specs import encoders

if TYPE_CHECKING:
    from harness.encoders import Encoder


@cache
def encoder_of(spec: encoders.LocalEncoderSpec) -> "Encoder":
    """The encoder of a spec; its weights are loaded at its first text, once."""
    match spec:
        case encoders.MiniLMSpec():
            from harness.encoders import MiniLM

            return MiniLM(layers=spec.layers)
        case encoders.CharNgramsSpec():
            from harness.encoders import CharNgrams

            return CharNgrams()
        case encoders.SentenceTransformerSpec():
            from harness.encoders import SentenceTransformers

            return SentenceTransformers(spec.model, spec.revision)
        case encoders.Llm2VecSpec():
            from harness import llm2vec

            kind = llm2vec.Llm2Vec if spec.engine == "native" else llm2vec.Llm2VecPackage
            return kind(
                spec.base,
                spec.adapters,
                revision=spec.revision,
                instruction=spec.instruction,
                max_length=spec.max_length,
                dtype=spec.dtype,
            )
