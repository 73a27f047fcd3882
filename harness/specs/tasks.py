"""What a task's YAML may say: data, variants, steps, decodings, controls, judges."""

from typing import Annotated, Literal

from msgspec import Meta, field

from harness.parts import Mode
from harness.specs.checked import Spec


class DecodingSpec(Spec, frozen=True, kw_only=True):
    """One way of drawing an answer; max_tokens counts the answer's tokens."""

    temperature: Annotated[float, Meta(ge=0)]
    max_tokens: Annotated[int, Meta(ge=1)]


class StepSpec(Spec, frozen=True, kw_only=True):
    """One call of a variant: a template below prompts/, without .user.j2 or .system.j2."""

    name: str
    template: str
    max_tokens: Annotated[int, Meta(ge=1)] | None = None


class VariantSpec(Spec, frozen=True, kw_only=True):
    """The steps of a variant, the references its prompts may show, and slots of its own.

    `slots` maps a slot to the template that words it, without .j2; only fields fill it.
    """

    about: str
    steps: Annotated[tuple[StepSpec, ...], Meta(min_length=1)]
    slots: dict[str, str] = field(default_factory=dict)
    reveals: tuple[str, ...] = ()
    template_source: Literal["paper", "reconstructed", "own"] = "own"


class DataSpec(Spec, frozen=True, kw_only=True):
    """Where a task's samples come from: a released source, or our own sample set."""

    source: str
    reader: str
    files: tuple[str, ...]
    sample: str
    overlay: str | None = None


class UnitSpec(Spec, frozen=True, kw_only=True):
    """What agreement with people takes for a document and for a system."""

    document: Literal["sample", "cluster"] = "sample"
    system: Literal["model", "group"] = "model"


class TaskSpec(Spec, frozen=True, kw_only=True):
    """A task: its data, its variants, how answers are drawn and cut, who judges them.

    `controls` says which field or references each control model answers with at each step, one
    drawn where there are several: `one+other` joins two, `cluster:name` takes all samples of a
    cluster for the first of them by id;
    `phrases` names slots whose wording depends on a sample's group; `chance` is the expected
    headline value of an answer given blindly, null where there is none. `imports` are the
    layouts in which others store answers to it; `rated` the variants whose samples hold
    people's mean rating as the reference of that name.
    """

    about: str
    data: DataSpec
    variants: dict[str, VariantSpec]
    default_variants: tuple[str, ...]
    decodings: Annotated[tuple[DecodingSpec, ...], Meta(min_length=1)]
    judges: tuple[str, ...]
    controls: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    phrases: tuple[str, ...] = ()
    cut: Literal["none", "blank_line", "lead_in"] = "none"
    unit: UnitSpec = field(default_factory=UnitSpec)
    imports: tuple[str, ...] = ()
    rated: tuple[str, ...] = ()
    mode: Mode = Mode.GENERATE
    chance: float | None = None

    def __post_init__(self) -> None:
        temperatures = [decoding.temperature for decoding in self.decodings]
        if len(set(temperatures)) < len(temperatures):
            raise ValueError(
                f"a temperature is given twice in `decodings` ({temperatures}), "
                "and tables tell decodings apart by it; keep one"
            )
