"""What a judge's YAML may say, one class a kind."""

from typing import Literal

from harness.specs.checked import Spec
from harness.specs.tasks import DecodingSpec


class Contrast(Spec, frozen=True, kw_only=True):
    """The reference an answer should be nearer to, and the one it should not."""

    accept: str
    reject: str


class PreferenceSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="preference"):
    """A model chooses which of two references a response is closest to.

    `shows` are the references its prompt may hold beside the two options. `orders: single`
    asks once, in an order drawn for each sample; `both` asks twice.
    """

    about: str
    model: str
    template: str
    options: Contrast
    shows: tuple[str, ...] = ()
    orders: Literal["both", "single"] = "both"
    decoding: DecodingSpec


class EncoderSpec(Spec, frozen=True, kw_only=True):
    """How texts become vectors: the packaged MiniLM, or character n-grams."""

    name: Literal["minilm", "char-ngrams"]


class CosineSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="cosine"):
    """A response is right where it is nearer, by cosine, to `accept` than to `reject`."""

    about: str
    encoder: EncoderSpec
    options: Contrast


JudgeSpec = PreferenceSpec | CosineSpec
