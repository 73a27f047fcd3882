"""What a judge's YAML may say, one class a kind."""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from harness.specs.implicitness import EncoderSpec, LocalEncoderSpec
from harness.specs.schema import Spec
from harness.specs.tasks import DecodingSpec


class Contrast(Spec, frozen=True, kw_only=True):
    """The two references: an answer should be nearer to `accept` than to `reject`."""

    accept: str
    reject: str


class Prepended(Spec, frozen=True, kw_only=True):
    """References that are prepended to the texts that a cosine compares; null prepends nothing."""

    response: str | None = None
    accept: str | None = None
    reject: str | None = None


class Scale(Spec, frozen=True, kw_only=True):
    """The lowest and the highest rating; ratings are whole numbers."""

    low: int
    high: int


class PreferenceSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="preference"):
    """A model chooses which of two references a response is closest to.

    `model` is a name in configs/models; `shows` are the references its prompt may contain besides
    the two options. `orders: single` asks once, in an order drawn for each sample; `both` asks
    twice. `step` names an earlier step whose response is read in place of the last one's.
    """

    about: str
    model: str
    template: str
    options: Contrast
    step: str | None = None
    shows: tuple[str, ...] = ()
    orders: Literal["both", "single"] = "both"
    decoding: DecodingSpec


class RatingSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="rating"):
    """A model rates a response on a scale in one or more replies; readable ratings are averaged.

    `model` is a name in configs/models; `shows` are the references its prompt may contain, one a
    line; `slots` words slots by templates, without .j2, that only fields fill. `is_structured` has
    the server enforce the form of replies, if it can.
    """

    about: str
    model: str
    template: str
    scale: Scale
    shows: tuple[str, ...] = ()
    slots: dict[str, str] = field(default_factory=dict)
    replies: Annotated[int, Meta(ge=1)] = 1
    seed: int | None = None
    is_structured: bool = True
    decoding: DecodingSpec


class StatedSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="stated"):
    """The responses are ratings, as imported ones are; the verdict is the mean of readable ones.

    `reading: first_digit` reads them as the scripts of the Topical-Chat release do. `scales` maps
    variants to their own scales.
    """

    about: str
    scale: Scale
    scales: dict[str, Scale] = field(default_factory=dict)
    reading: Literal["strict", "first_digit"] = "strict"


class CosineSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="cosine"):
    """A response, of an earlier `step` if one is named, is right if it is nearer to `accept`."""

    about: str
    encoder: EncoderSpec
    options: Contrast
    step: str | None = None
    prepend: Prepended = Prepended()


class BertScoreSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="bertscore"):
    """BERTScore F1 of a response with each text of a reference, their mean or their maximum.

    `encoder` is minilm (packaged), a hub name or a folder; `layer` counts from 1, null takes the
    one that bert-score recommends, or the last.
    """

    about: str
    encoder: str
    layer: Annotated[int, Meta(ge=1)] | None = None
    reference: str
    over: Literal["mean", "max"] = "mean"


class ContrastSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="contrast"):
    """Whether each response to two samples of a cluster is nearer to its own reference."""

    about: str
    encoder: LocalEncoderSpec
    reference: str


class GoldSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="gold"):
    """Compares the choice with the right one; `normalisation` is that of the headline metric."""

    about: str
    normalisation: Literal["raw", "per_token", "per_byte", "per_character", "pmi"] = "raw"


class PythonJudgeSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="python"):
    """Your own judge: a class in a Python file, or in an installed module.

    `entry: file.py:Class` counts from this file's folder, `entry: package.module:Class` is
    imported. `settings` are for the class to read. `model` names the model it asks, if it asks
    one; `step` an earlier step whose response it reads; `reads` what task it is for.
    """

    about: str
    entry: str
    settings: dict[str, Any] = field(default_factory=dict)
    model: str | None = None
    step: str | None = None
    reads: Literal["texts", "choices"] = "texts"


# Plugins add specs to these; their keys `model`, `step` and `reads` mean what they mean here.
JudgeSpec = (
    PreferenceSpec
    | RatingSpec
    | StatedSpec
    | CosineSpec
    | BertScoreSpec
    | ContrastSpec
    | GoldSpec
    | PythonJudgeSpec
)


def asked_model(spec: JudgeSpec) -> str | None:
    """Return the model a judge asks, as its YAML names it; None for one that asks nothing."""
    asked = spec.encoder if isinstance(spec, CosineSpec) else spec
    if isinstance(asked, LocalEncoderSpec):
        return None
    return getattr(asked, "model", None)


def step_read(spec: JudgeSpec) -> str | None:
    """Return the earlier step whose responses a judge reads; None for the last one's."""
    return getattr(spec, "step", None)


def reads_choices(spec: JudgeSpec) -> bool:
    """Whether a judge is for tasks with choices; the others are for tasks with texts."""
    return isinstance(spec, GoldSpec) or getattr(spec, "reads", "texts") == "choices"
