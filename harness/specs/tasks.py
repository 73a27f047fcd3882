"""What the YAML of a task may say, and of a step that makes or changes its data."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from harness.parts import Mode
from harness.specs.schema import Spec

LABELLED = "labelled_table"


class DecodingSpec(Spec, frozen=True, kw_only=True):
    """One way of drawing an answer."""

    temperature: Annotated[float, Meta(ge=0, le=100)]
    max_tokens: Annotated[int, Meta(ge=1, le=10**7)]


class StepSpec(Spec, frozen=True, kw_only=True):
    """One call of a variant: a template below prompts/, without .user.j2 or .system.j2.

    A step that `is_follow_up` is asked in one conversation with the step before it. `postprocess`
    takes the place of the task's; `answer_line` takes the answer after the last `Answer:`.
    """

    name: str
    template: str
    max_tokens: Annotated[int, Meta(ge=1, le=10**7)] | None = None
    is_unconditional: bool = False
    is_follow_up: bool | UnsetType = UNSET
    postprocess: Literal["none", "blank_line", "lead_in", "answer_line"] | UnsetType = UNSET


class ChoiceSpec(Spec, frozen=True, kw_only=True):
    """How a variant orders and shows the choices of a sample, and what counts as an answer.

    `order` counts the orders of the choices from 0: those of the references order0, order1, ...,
    else all orders, shuffled by the sample's id; null keeps the sample's own. `answers` are the
    `number` a choice is shown at, or its `text`, behind `lead`, which is part of the answer.
    """

    order: Annotated[int, Meta(ge=0)] | None = None
    answers: Literal["number", "text"] = "number"
    lead: str = " "


class VariantSpec(Spec, frozen=True, kw_only=True):
    """The steps of a variant; its prompts may show the references that it `reveals`.

    `slots` maps a slot to the template that words it, without .j2. A sample without a field of
    `needs` is not asked under the variant. `averaged_over` names the rows of tables that average
    over all variants of that name. A step that `is_unconditional` scores the choices without what
    the sample says; it is left out where answers are written.
    """

    about: str
    steps: Annotated[tuple[StepSpec, ...], Meta(min_length=1)]
    slots: dict[str, str] = field(default_factory=dict)
    reveals: tuple[str, ...] = ()
    choice: ChoiceSpec | None = None
    needs: tuple[str, ...] = ()
    averaged_over: str | None = None

    def __post_init__(self) -> None:
        if any(step.is_unconditional for step in self.steps) and self.choice is None:
            raise ValueError("`is_unconditional` is for steps of a variant with a `choice`")
        if self.steps[-1].is_unconditional:
            raise ValueError("the last step answers, and cannot be `is_unconditional`")
        is_first = self.steps[0].is_follow_up
        if is_first or (self.choice and any(step.is_follow_up for step in self.steps)):
            raise ValueError(
                "`is_follow_up` is for a step behind another one, in a variant without a `choice`"
            )


class PairsSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="minimal_pairs"):
    """Choices between what two samples of one cluster mean, by the first text of `reference`."""

    reference: str


class ReferenceChoiceSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="references"):
    """Choices between the first texts of two references, labelled; `join` adds joined fields."""

    right: str
    wrong: str
    labels: tuple[str, str]
    join: dict[str, tuple[str, ...]] = field(default_factory=dict)


class DataSpec(Spec, frozen=True, kw_only=True):
    """Where a task's samples come from: a released source, or our own set, `sample`.

    `derive` makes choice samples from the data; only these are asked. `map` names the column map of
    a table of labelled texts, whose source and files replace these keys. `choices` maps each label
    of the table to its answer.
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
        if len({self.reader == LABELLED, bool(self.map), bool(self.choices)}) > 1:
            raise ValueError(f"give reader {LABELLED!r}, `map` and `choices`, or none of them")


class ImplicitnessSpec(Spec, frozen=True, kw_only=True):
    """How implicit the texts of a task are, and which scores go by it.

    `scorer` measures the field `of`; a table's own column comes first where `prefers_column`. The
    labels in `positive` are those to detect. Scores are given for the published bins and for
    `equal_mass` bins of equal size, each where at least `least` independent texts are answered.
    """

    scorer: str
    of: str = "text"
    prefers_column: bool = True
    positive: Annotated[tuple[str, ...], Meta(min_length=1)] = ("hateful",)
    equal_mass: Annotated[int, Meta(ge=1)] = 5
    least: Annotated[int, Meta(ge=2)] = 10


class ClassesSpec(Spec, frozen=True, kw_only=True):
    """Scores each label by precision, recall and F1, and counts misses of `missed` by `by`."""

    missed: tuple[str, ...] = ()
    by: str = "properties"


class TaskSpec(Spec, frozen=True, kw_only=True):
    """A task: its data, its variants, how answers are drawn and postprocessed, its judges.

    `controls` says which field or references each control model answers with at each step, one
    drawn where there are several: `one+other` joins two, `cluster:name` takes all samples of a
    cluster for the first of them by id. `phrases` names slots whose wording depends on a sample's
    group. `chance` is the expected headline value of an answer given blindly, null where there is
    none. `imports` are the layouts in which others store answers to it. `rated` are variants whose
    samples hold people's mean rating as the reference of that name. `gaps` names differences of two
    variants or averages, the first less the second. `document` and `system` are the units of
    agreement with people. `implicitness` says what scores are compared with, `classes` that each
    label has scores of its own. `made_of` names the task whose samples were changed for this one.
    """

    about: str
    data: DataSpec
    variants: dict[str, VariantSpec]
    default_variants: tuple[str, ...]
    decodings: Annotated[tuple[DecodingSpec, ...], Meta(min_length=1)]
    judges: tuple[str, ...]
    controls: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    phrases: tuple[str, ...] = ()
    postprocess: Literal["none", "blank_line", "lead_in"] = "none"
    document: Literal["sample", "cluster"] = "sample"
    system: Literal["model", "group"] = "model"
    imports: tuple[str, ...] = ()
    rated: tuple[str, ...] = ()
    gaps: dict[str, tuple[str, str]] = field(default_factory=dict)
    implicitness: ImplicitnessSpec | None = None
    classes: ClassesSpec | None = None
    made_of: str | None = None
    mode: Mode = Mode.GENERATE
    chance: Annotated[float, Meta(ge=0, le=1)] | None = None

    def __post_init__(self) -> None:
        temperatures = [decoding.temperature for decoding in self.decodings]
        if len(set(temperatures)) < len(temperatures):
            raise ValueError(f"a temperature is given twice in `decodings` ({temperatures})")
        has_choice = {spec.choice is not None for spec in self.variants.values()}
        if len(has_choice) > 1:
            raise ValueError("some variants have a `choice` and others have none")
        if self.has_choices and len(self.decodings) > 1:
            raise ValueError("choices are drawn in one way: give one decoding")
        if not self.has_choices and self.mode is not Mode.GENERATE:
            raise ValueError(f"mode {self.mode} is for variants with a `choice`; give each one")
        averages = {spec.averaged_over for spec in self.variants.values()}
        if both := averages & {*self.variants}:
            raise ValueError(f"an average and a variant are both called {min(map(str, both))!r}")
        named = {variant for pair in self.gaps.values() for variant in pair}
        if unknown := sorted(named - averages - {*self.variants}):
            raise ValueError(f"`gaps` names {unknown[0]!r}, no variant and no average; correct it")

    def origin(self, name: str) -> str:
        """The task from which this one was made; `name`, its own, if it was made from none."""
        return self.made_of or name

    @property
    def has_choices(self) -> bool:
        """Whether samples are answered by one of their choices."""
        return any(spec.choice for spec in self.variants.values())


class BuildStepSpec(Spec, frozen=True, kw_only=True):
    """One call a sample: a template, and the only texts it may see.

    `sees` maps each slot to a field, a reference (its texts one a line) or an earlier step.
    `makes: reference` adds the answer to the sample's references under the step's name; `makes:
    verdict` reads yes or no and drops the reference `judges` of a sample answered with no, if it
    has `at_least` so many texts; `makes: choice` drops the sample. `makes: lines` adds the `count`
    numbered lines of the answer as the texts of one reference. `refusals: missing` counts an answer
    that opens like a refusal as missing.
    """

    name: str
    template: str
    sees: dict[str, str]
    makes: Literal["reference", "verdict", "choice", "lines"] = "reference"
    judges: str | None = None
    at_least: Annotated[int, Meta(ge=1)] = 1
    count: Annotated[int, Meta(ge=2)] | None = None
    refusals: Literal["kept", "missing"] = "kept"

    def __post_init__(self) -> None:
        if (self.makes == "lines") != (self.count is not None):
            raise ValueError(f"step {self.name}: `count` goes with `makes: lines`")


class TurnRuleSpec(Spec, frozen=True, kw_only=True):
    """Which samples a job takes: the others are dropped before anything is asked.

    The field `context` must have `least_turns` lines, and `turn` `least_words` words that are none
    of `function_words`.
    """

    context: str
    least_turns: Annotated[int, Meta(ge=0)]
    turn: str
    least_words: Annotated[int, Meta(ge=0)]
    function_words: tuple[str, ...] = ()


class BuildSpec(Spec, frozen=True, kw_only=True):
    """A data-making job: its steps in order, which samples it takes, how answers are cut.

    A job without steps asks no model: it keeps what it takes.
    """

    about: str
    steps: tuple[BuildStepSpec, ...]
    decoding: DecodingSpec
    takes: TurnRuleSpec | None = None
    postprocess: Literal["none", "blank_line", "lead_in"] = "none"

    def __post_init__(self) -> None:
        if any((step.makes == "verdict") != (step.judges is not None) for step in self.steps):
            raise ValueError("`judges`, what a verdict is about, goes with `makes: verdict`")


Words = tuple[str, ...]
Groups = tuple[tuple[str, ...], ...]
TEXT = "text"


class ChangeSpec(Spec, frozen=True, kw_only=True):
    """The keys of every change of a text: what it does, and whether it keeps the meaning."""

    about: str
    keeps_meaning: bool


class InsertSpec(ChangeSpec, frozen=True, kw_only=True, tag_field="kind", tag="insert"):
    """Puts one adverb in: of `middle` behind an auxiliary of `after`, else at `start` or `end`."""

    start: Words
    middle: Words
    end: Words
    after: Words
    not_before: Words
    small: Words


class DegreeSpec(ChangeSpec, frozen=True, kw_only=True, tag_field="kind", tag="degree"):
    """Exchanges a degree modifier for another of its group, else puts one before an adjective."""

    groups: Groups
    anywhere: Groups
    adjectives: Words
    behind: Words


class SwapSpec(ChangeSpec, frozen=True, kw_only=True, tag_field="kind", tag="swap"):
    """Exchanges one expression for another of its group, but before a word of `not_before`.

    With `into` those of `groups` are exchanged for one of these in place of their own group.
    """

    groups: Groups
    not_before: Words = ()
    into: Words = ()


# The name of a group of people: many of them, one of them, and the adjective.
GroupName = tuple[str, str, str]


class GroupNamesSpec(ChangeSpec, frozen=True, kw_only=True, tag_field="kind", tag="group_names"):
    """Exchanges one named group, wherever it is, for another of its kind, such as a faith.

    `groups` are found and put in, those of `found` are found alone.
    """

    groups: dict[str, tuple[GroupName, ...]]
    found: dict[str, tuple[GroupName, ...]] = field(default_factory=dict)


class RandomSpec(ChangeSpec, frozen=True, kw_only=True, tag_field="kind", tag="random"):
    """An operation of EDA (Wei and Zou 2019) on `share` of a text's words, by synonym `groups`."""

    operation: Literal["deletion", "swap", "insertion", "synonyms"]
    share: Annotated[float, Meta(gt=0, le=1)] = 0.1
    groups: Groups = ()

    def __post_init__(self) -> None:
        if (self.operation in ("insertion", "synonyms")) != bool(self.groups):
            raise ValueError("`groups` go with the operations insertion and synonyms")


class AskedSpec(ChangeSpec, frozen=True, kw_only=True, tag_field="kind", tag="asked"):
    """Asks a model to rewrite the text; the answer of the last step replaces it.

    Steps see the text as `text`, earlier answers by their names, and `words`, such as a language.
    """

    steps: Annotated[tuple[BuildStepSpec, ...], Meta(min_length=1)]
    words: dict[str, str] = field(default_factory=dict)
    decoding: DecodingSpec = field(
        default_factory=lambda: DecodingSpec(temperature=0.0, max_tokens=400)
    )
    postprocess: Literal["none", "blank_line", "lead_in"] = "blank_line"


LocalSpec = InsertSpec | DegreeSpec | SwapSpec | GroupNamesSpec | RandomSpec
PerturbationSpec = LocalSpec | AskedSpec
