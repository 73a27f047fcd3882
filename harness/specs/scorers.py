"""What a scorer's YAML may say, one class a kind: its matrices and what encodes for them."""

from msgspec import field

from harness.implicitness.formula import Direction, Distance
from harness.specs.encoders import LocalEncoderSpec
from harness.specs.schema import Spec


class FormSpec(Spec, frozen=True, kw_only=True):
    """How a published head is computed; a key left out is as its configuration says."""

    direction: Direction | None = None
    implicitness: Distance | None = None
    pragmatic: Distance | None = None


class KeysSpec(Spec, frozen=True, kw_only=True):
    """The names of a published head's matrices, where they are not found by themselves."""

    semantic: str | None = None
    pragmatic: str | None = None
    transfer: str | None = None
    transfer_semantic: str | None = None


class HeadSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="head"):
    """A head in our format: NAME.json and NAME.safetensors.

    `head` is a path, from this file's folder where it is not absolute, or the name of a head
    that ships. `encoder` takes the place of the one the head names, and must be the same model.
    """

    about: str
    head: str
    encoder: LocalEncoderSpec | None = None


class PublishedSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="published"):
    """Weights as the metric's authors publish them: a torch state dict and its configuration.

    `model` is a hub name or a folder, for the user to fill in where those weights are gated (null
    in what ships); `weights` is a file in it where there are several. `encoder`
    is the sentence encoder (hub name or folder) whose architecture and tokenizer the weights
    belong to. `ignore` names entries of the state dict that the formula has no use for.
    `trained_on` is a table of the texts they were trained on, from this file's folder where it is
    not absolute; null where nobody has it.
    """

    about: str
    model: str | None = None
    revision: str | None = None
    weights: str | None = None
    encoder: str = "sentence-transformers/all-mpnet-base-v2"
    encoder_revision: str | None = None
    form: FormSpec = field(default_factory=FormSpec)
    keys: KeysSpec = field(default_factory=KeysSpec)
    ignore: tuple[str, ...] = ()
    trained_on: str | None = None


ScorerSpec = HeadSpec | PublishedSpec
