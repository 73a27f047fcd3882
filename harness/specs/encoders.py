"""What YAML may say of an encoder, which turns texts into vectors; one class a kind."""

from typing import Literal

from harness.specs.schema import Spec


class MiniLMSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="minilm"):
    """The packaged all-MiniLM-L6-v2: its last layer, or `layers` (0 to 6) side by side.

    With `is_bare` it reads a text without quotation marks around it and without its full stop.
    """

    layers: tuple[int, ...] = ()
    is_bare: bool = False


class CharNgramsSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="char-ngrams"):
    """Counts of character n-grams: no weights, and no meaning."""


class SentenceTransformerSpec(
    Spec, frozen=True, kw_only=True, tag_field="kind", tag="sentence-transformers"
):
    """Any sentence-transformers model: a hub name or a folder.

    `layers` (0: the word vectors) reads the means after some layers in place of the model's own
    pooling. `sha256` is that of its model.safetensors: other weights are refused. With `is_bare` it
    reads a text without quotation marks around it and without its full stop.
    """

    model: str
    revision: str | None = None
    layers: tuple[int, ...] = ()
    sha256: str | None = None
    is_bare: bool = False


class Llm2VecSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="llm2vec"):
    """An LLM2Vec checkpoint: a base model and its adapters, the first merged first.

    `revision` is the base's; an adapter's follows an @ in its name.
    """

    base: str
    adapters: tuple[str, ...]
    revision: str | None = None
    instruction: str = ""
    max_length: int = 512
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"


class HostedEncoderSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="hosted"):
    """The embeddings of a server: `model` is a name in configs/models."""

    model: str


LocalEncoderSpec = MiniLMSpec | CharNgramsSpec | SentenceTransformerSpec | Llm2VecSpec
EncoderSpec = LocalEncoderSpec | HostedEncoderSpec
