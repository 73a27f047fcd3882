"""What a task's YAML may say: data, variants, steps, decodings, controls, judges."""

from typing import Annotated, Literal

from msgspec import Meta, field

from harness.parts import Mode
from harness.specs.schema import Spec

LABELLED = "labelled_table"


class DecodingSpec(Spec, frozen=True, kw_only=True):
    """One way of drawing an answer; max_tokens counts the answer's tokens."""

    temperature: Annotated[float, Meta(ge=0)]
    max_tokens: Annotated[int, Meta(ge=1)]


class StepSpec(Spec, frozen=True, kw_only=True):
    """One call of a variant: a template below prompts/, without .user.j2 or .system.j2."""

    name: str
    template: str
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    is_unconditional: bool = field(default=False, name="is_neutral")


class ChoiceSpec(Spec, frozen=True, kw_only=True):
    """How a variant lays out the choices of a sample, and what it takes for an answer.

    `order` counts the orders of the choices from 0: those a sample brings as references order0,
    order1, ..., else all orders there are, shuffled by the sample's id; null keeps the sample's
    own. The answer is the `number` a choice is shown at, or its `text`, behind `lead`, which is
    part of the answer.
    """

    order: Annotated[int, Meta(ge=0)] | None = None
    answers: Literal["number", "text"] = "number"
    lead: str = " "


class VariantSpec(Spec, frozen=True, kw_only=True):
    """The steps of a variant, the references its prompts may show, and slots of its own.

    `slots` maps a slot to the template that words it, without .j2; only fields fill it. A sample
    that lacks a field of `needs` is not asked under the variant. `averaged_over` names the rows of
    tables that average over all variants of that name. A step that `is_unconditional` scores the
    choices without what the sample says; it is left out where answers are written.
    """

    about: str
    steps: Annotated[tuple[StepSpec, ...], Meta(min_length=1)]
    slots: dict[str, str] = field(default_factory=dict)
    reveals: tuple[str, ...] = ()
    template_source: Literal["paper", "reconstructed", "own"] = "own"
    choice: ChoiceSpec | None = None
    needs: tuple[str, ...] = ()
    averaged_over: str | None = field(default=None, name="pool")

    def __post_init__(self) -> None:
        is_unconditional = [step.is_unconditional for step in self.steps]
        if any(is_unconditional) and self.choice is None:
            raise ValueError(
                "`is_unconditional` is for steps of a variant with a `choice`; leave it out"
            )
        if is_unconditional[-1]:
            raise ValueError(
                "the last step answers, and cannot be `is_unconditional`; add one after it"
            )


class PairsSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="minimal_pairs"):
    """Choices between what two samples of one cluster mean, by the first text of `reference`."""

    reference: str


class ReferenceChoiceSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="references"):
    """Choices between the first texts of two references of a sample, labelled in that order.

    `join` adds a field made of others, put one behind the other as they stand.
    """

    right: str
    wrong: str
    labels: tuple[str, str]
    join: dict[str, tuple[str, ...]] = field(default_factory=dict)


class DataSpec(Spec, frozen=True, kw_only=True):
    """Where a task's samples come from: a released source, or our own sample set.

    Without `files`, and without `map`, the sample set is all the data there is. `derive` makes
    choice samples of what is read, and those alone are asked. `map` names the
    column map of a table of labelled texts, whose source and files then take the place of these,
    and `choices` the answer that each of its labels takes.
    """

    source: str
    reader: str
    files: tuple[str, ...]
    sample: str
    overlay: str | None = None
    derive: PairsSpec | ReferenceChoiceSpec | None = None
    map: str | None = None
    choices: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.reader == LABELLED) != (self.map is not None) or bool(self.map) != bool(
            self.choices
        ):
            raise ValueError(
                f"reader {LABELLED!r}, `map` and `choices` go together; give all three, or none"
            )


class ImplicitnessSpec(Spec, frozen=True, kw_only=True):
    """How implicit the texts of a task are, and which scores go by it.

    `scorer` measures the field `of`; a table's own column of implicitness comes first where
    `prefers_column`. The labels in `positive` are those to detect. Scores are given for the
    published bins and for `equal_mass` bins of equal size, each where at least `least` independent
    texts of a kind are answered.
    """

    scorer: str
    of: str = "text"
    prefers_column: bool = True
    positive: Annotated[tuple[str, ...], Meta(min_length=1)] = ("hateful",)
    equal_mass: Annotated[int, Meta(ge=1)] = 5
    least: Annotated[int, Meta(ge=2)] = 10


class ClassesSpec(Spec, frozen=True, kw_only=True):
    """Scores each label by precision, recall and F1; for those in `missed`, what was missed.

    Missed ones are counted by the texts of the reference `by`, such as properties.
    """

    missed: tuple[str, ...] = ()
    by: str = "properties"


class UnitSpec(Spec, frozen=True, kw_only=True):
    """What agreement with people takes for a document and for a system."""

    document: Literal["sample", "cluster"] = "sample"
    system: Literal["model", "group"] = "model"


class TaskSpec(Spec, frozen=True, kw_only=True):
    """A task: its data, its variants, how answers are drawn and postprocessed, its judges.

    `controls` says which field or references each control model answers with at each step, one
    drawn where there are several: `one+other` joins two, `cluster:name` takes all samples of a
    cluster for the first of them by id;
    `phrases` names slots whose wording depends on a sample's group; `chance` is the expected
    headline value of an answer given blindly, null where there is none. `imports` are the
    layouts in which others store answers to it; `rated` the variants whose samples hold
    people's mean rating as the reference of that name; `gaps` names differences of two variants
    or averages, the first less the second; `implicitness` says what scores are told against,
    `classes` that each label has scores of its own. `made_of` names the task that this one was
    made of by changing its samples: its phrases, and what was trained for it, serve this one too.
    """

    about: str
    data: DataSpec
    variants: dict[str, VariantSpec]
    default_variants: tuple[str, ...]
    decodings: Annotated[tuple[DecodingSpec, ...], Meta(min_length=1)]
    judges: tuple[str, ...]
    controls: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    phrases: tuple[str, ...] = ()
    postprocess: Literal["none", "blank_line", "lead_in"] = field(default="none", name="cut")
    unit: UnitSpec = field(default_factory=UnitSpec)
    imports: tuple[str, ...] = ()
    rated: tuple[str, ...] = ()
    gaps: dict[str, tuple[str, str]] = field(default_factory=dict)
    implicitness: ImplicitnessSpec | None = None
    classes: ClassesSpec | None = None
    made_of: str | None = None
    mode: Mode = Mode.GENERATE
    chance: float | None = None

    def __post_init__(self) -> None:
        temperatures = [decoding.temperature for decoding in self.decodings]
        if len(set(temperatures)) < len(temperatures):
            raise ValueError(
                f"a temperature is given twice in `decodings` ({temperatures}), "
                "and tables tell decodings apart by it; keep one"
            )
        with_choices = [name for name, spec in self.variants.items() if spec.choice]
        if len(with_choices) not in (0, len(self.variants)):
            lacking = next(name for name in self.variants if name not in with_choices)
            raise ValueError(f"some variants have a `choice` and {lacking!r} has none; give it one")
        if with_choices and len(self.decodings) > 1:
            raise ValueError("choices are drawn in one way: give one decoding")
        if not with_choices and self.mode is not Mode.GENERATE:
            raise ValueError(f"mode {self.mode} is for variants with a `choice`; give each one")
        if both := set(self.variants) & {spec.averaged_over for spec in self.variants.values()}:
            raise ValueError(f"an average and a variant are both called {min(both)!r}; rename one")
        known = {*self.variants, *(spec.averaged_over for spec in self.variants.values())}
        named = [variant for pair in self.gaps.values() for variant in pair]
        if unknown := [name for name in named if name not in known]:
            raise ValueError(f"`gaps` names {unknown[0]!r}, no variant and no average; correct it")

    def origin(self, name: str) -> str:
        """The task that this one, of some name, was made of; itself where it was made of none."""
        return self.made_of or name

    @property
    def has_choices(self) -> bool:
        """Whether samples are answered by one of their choices."""
        return any(spec.choice for spec in self.variants.values())
