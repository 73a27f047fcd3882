"""What a column map may say: which columns of a file say whose answer it is, and what it is."""

from typing import Annotated, Literal

from msgspec import Meta, field

from harness.specs.schema import Spec


class SampleColumns(Spec, frozen=True, kw_only=True):
    """What identifies the sample: its id; some fields, with its group if given; or its prompt.

    Each names a column. A prompt must be that of this program, to the letter.
    """

    id: str | None = None
    fields: dict[str, str] = field(default_factory=dict)
    group: str | None = None
    prompt: str | None = None

    def __post_init__(self) -> None:
        ways = [name for name in ("id", "fields", "prompt") if getattr(self, name)]
        if len(ways) != 1:
            names = "`id`, `fields` and `prompt`"
            raise ValueError(f"a sample is identified by one of {names}, not by {ways or 'none'}")
        if self.group is not None and not self.fields:
            raise ValueError("`group` goes with `fields`; leave it out")


class VariantColumn(Spec, frozen=True, kw_only=True):
    """The column that says the variant; `values` maps what stands there to names of variants."""

    column: str
    values: dict[str, str] = field(default_factory=dict)


class OnlyRows(Spec, frozen=True, kw_only=True):
    """The rows to take: those that have this value in this column; the others are left out."""

    column: str
    value: str


class TextSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="text"):
    """What was written: a text, or in JSON lines a list of several replies."""

    column: str


Order = Literal["shown", "own"]
Start = Literal[0, 1]


class ChosenSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="chosen"):
    """Which choice was made: its number or its text.

    Numbers count from `counted_from`, in the order the variant shows the choices in or in the
    sample's own.
    """

    column: str
    order: Order = "shown"
    counted_from: Start = 1


class ScoresSpec(Spec, frozen=True, kw_only=True):
    """A number for each choice: in one column as a JSON list or object, or in a column for each.

    A list, and the columns, go by `order`; where a sample has fewer choices, columns are empty. The
    keys of an object are numbers, as in ChosenSpec, or the texts of the choices.
    """

    column: str | None = None
    columns: tuple[str, ...] = ()
    order: Order = "shown"
    counted_from: Start = 1

    def __post_init__(self) -> None:
        if (self.column is None) == (not self.columns):
            raise ValueError("give `column`, or `columns` with one for each choice, not both")


class ProbabilitiesSpec(
    ScoresSpec, frozen=True, kw_only=True, tag_field="kind", tag="probabilities"
):
    """The probability of each choice."""


class LogprobsSpec(ScoresSpec, frozen=True, kw_only=True, tag_field="kind", tag="logprobs"):
    """The log-probability of each choice, in nats."""


AnswerSpec = TextSpec | ChosenSpec | ProbabilitiesSpec | LogprobsSpec
Temperature = Annotated[float, Meta(ge=0)]


class MapSpec(Spec, frozen=True, kw_only=True):
    """A file of stored answers by its columns.

    In JSON lines a column is a path such as `doc.id`. Logs (`lm_eval`, `inspect`) say themselves
    what was asked and answered; of them a map says whose answers they are. `variant` is a fixed
    one, a column, or null where the prompt or the task's only variant says it. `prompt` is the
    column of what was asked, null where it is not known; `temperature` that of written answers.
    """

    about: str
    format: Literal["csv", "jsonl", "lm_eval", "inspect"]
    sample: SampleColumns | None = None
    variant: str | VariantColumn | None = None
    only: OnlyRows | None = None
    prompt: str | None = None
    answer: AnswerSpec | None = None
    temperature: Temperature | None = None

    def __post_init__(self) -> None:
        is_log = self.format in ("lm_eval", "inspect")
        if is_log and (self.answer or self.prompt):
            raise ValueError(
                f"a log in format {self.format} says itself what was asked and answered; leave "
                "out `prompt` and `answer`"
            )
        if not is_log and not (self.answer and self.sample):
            raise ValueError(f"a file in format {self.format} needs `sample` and `answer`")
