"""What a recipe's YAML may say: how a head of the implicitness metric is trained."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from msgspec import Meta, field

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


class PythonEncoderSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="python"):
    """An encoder of one's own: a class, `entry: package.module:Class` or `~/file.py:Class`.

    Its method `encode` makes a row of numbers of each text of a list. `version` is that of its
    weights, which its source does not say.
    """

    entry: str
    version: str = ""


class HostedEncoderSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="hosted"):
    """The embeddings of a server: `model` is a name in configs/models."""

    model: str


LocalEncoderSpec = (
    MiniLMSpec | CharNgramsSpec | SentenceTransformerSpec | Llm2VecSpec | PythonEncoderSpec
)
EncoderSpec = LocalEncoderSpec | HostedEncoderSpec


class Direction(StrEnum):
    """Which feature is mapped before the two are compared."""

    TO_SEMANTIC = "p2s"
    TO_PRAGMATIC = "s2p"
    THIRD = "third"


class Distance(StrEnum):
    """How far two vectors lie apart: cosine in [0, 2], euclidean in [0, inf)."""

    COSINE = "cosine"
    EUCLIDEAN = "euclidean"


class Form(Spec, frozen=True):
    """One of the twelve ways to compute the metric; as published unless said otherwise.

    `implicitness` measures between a sentence's two features, `pragmatic` between the pragmatic
    features of two sentences.
    """

    direction: Direction = Direction.TO_SEMANTIC
    implicitness: Distance = Distance.COSINE
    pragmatic: Distance = Distance.EUCLIDEAN


Role = Literal["semantic", "pragmatic", "transfer", "transfer_semantic"]
"""The matrices of a head; the last one is of the third space alone."""
AtLeastOne = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[float, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]


class SettingsSpec(Form, frozen=True, kw_only=True):
    """How one set of matrices is trained; as published unless said otherwise.

    `margin` (gamma 1), `pragmatic_margin` (gamma 2) and `pragmatic_weight` (alpha) are those of
    the paper; the number of features and the weight decay are in the released code alone.
    docs/impscore.md has the losses of the others.
    """

    features: AtLeastOne = 64
    learning_rate: Positive = 0.01
    weight_decay: NotNegative = 0.001
    batch: AtLeastOne = 8192
    epochs: AtLeastOne = 30
    margin: NotNegative = 0.5
    pragmatic_margin: NotNegative = 0.7
    pragmatic_weight: NotNegative = 1.0
    level_margin: NotNegative = 0.25
    level_weight: NotNegative = 1.0
    plain_weight: NotNegative = 0.0
    ceiling: NotNegative = 0.6
    ceiling_weight: NotNegative = 0.0
    noise: NotNegative = 0.0
    is_scaled: bool = False

    @property
    def form(self) -> Form:
        """The form that is trained."""
        return Form(self.direction, self.implicitness, self.pragmatic)


class RecipeSpec(Spec, frozen=True, kw_only=True):
    """A head: its encoder, its settings, and how its data is split.

    Its `members` are trained from `seed` and the seeds behind it, and their scores are averaged.
    `split` has the shares to learn from, to choose the epoch by, and to test on; the last two may
    be 0. `folds` parts are each tested on once by a head of the others; 0 leaves that out. With
    `probes` the card has the figures of `harness impscore probe`.
    """

    about: str
    encoder: LocalEncoderSpec = MiniLMSpec()
    settings: SettingsSpec = SettingsSpec()
    seed: int = 0
    members: AtLeastOne = 1
    split: tuple[AtLeastOne, Annotated[int, Meta(ge=0)], Annotated[int, Meta(ge=0)]] = (8, 1, 1)
    folds: Annotated[int, Meta(ge=0)] = 0
    probes: bool = False
    licence: str = ""


class HeadSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="head"):
    """A head in our format: NAME.json and NAME.safetensors.

    `head` is a path, from this file's folder, or the name of a head that ships. `encoder` replaces
    the encoder that the head names; it must be the same model.
    """

    about: str
    head: str
    encoder: LocalEncoderSpec | None = None


class PublishedSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="published"):
    """Weights as the metric's authors publish them: a torch state dict.

    `model` is a hub name or a folder (null in what ships: they are gated); `weights` is a file in
    it where there are several. `encoder` is the sentence encoder whose architecture and tokenizer
    the weights belong to. `form` says how it is computed. `keys` names entries of the state dict,
    if the harness cannot find them; `ignore` those without use. `trained_on` is a table of the
    texts they were trained on, from this file's folder; null where nobody has it.
    """

    about: str
    model: str | None = None
    revision: str | None = None
    weights: str | None = None
    encoder: str = "sentence-transformers/all-mpnet-base-v2"
    encoder_revision: str | None = None
    form: Form | None = None
    keys: dict[Role, str] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    trained_on: str | None = None


class PythonScorerSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="python"):
    """Your own scorer for tasks: a class of a file, `entry: file.py:Class`, or installed module.

    `settings` are for the class to read.
    """

    about: str
    entry: str
    settings: dict[str, Any] = field(default_factory=dict)


ScorerSpec = HeadSpec | PublishedSpec | PythonScorerSpec
