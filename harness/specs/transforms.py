"""What the YAML of a data-making step may say: what is asked, from what, and what is kept."""

from typing import Annotated, Literal

from msgspec import Meta, field

from harness.specs.schema import Spec
from harness.specs.tasks import DecodingSpec


class BuildStepSpec(Spec, frozen=True, kw_only=True):
    """One call a sample: a template, and the only texts it may see.

    `sees` maps each slot to a field, a reference (its texts one a line) or an earlier step.
    `makes: reference` adds the answer to the sample's references under the step's name; `makes:
    verdict` reads yes or no and drops the reference `judges` of a sample answered with no.
    `at_least` is how many texts that reference must have to be asked about.
    """

    name: str
    template: str
    sees: dict[str, str]
    makes: Literal["reference", "verdict"] = "reference"
    judges: str | None = None
    at_least: Annotated[int, Meta(ge=1)] = 1


class BuildSpec(Spec, frozen=True, kw_only=True):
    """A data-making job: its steps in order, and how answers are drawn and cut."""

    about: str
    steps: Annotated[tuple[BuildStepSpec, ...], Meta(min_length=1)]
    decoding: DecodingSpec
    postprocess: Literal["none", "blank_line", "lead_in"] = field(default="none", name="cut")

    def __post_init__(self) -> None:
        for step in self.steps:
            if (step.makes == "verdict") != (step.judges is not None):
                raise ValueError(
                    f"step {step.name}: `judges` names the reference a verdict is about; give it "
                    "with `makes: verdict`, and only there"
                )


Words = tuple[str, ...]
Groups = tuple[tuple[str, ...], ...]
TEXT = "text"


class ChangeSpec(Spec, frozen=True, kw_only=True):
    """What every change of a text says: what it is, and whether the meaning stays."""

    about: str
    keeps_meaning: bool


class InsertSpec(ChangeSpec, frozen=True, kw_only=True, tag_field="kind", tag="insert"):
    """Puts one adverb in: of `middle` behind an auxiliary of `after`, else at start or end.

    A sentence's first word is made small for an adverb of `start` only where it is one of
    `small`; any other may be a name. `not_before` are words that no adverb of `middle` precedes.
    """

    start: Words
    middle: Words
    end: Words
    after: Words
    not_before: Words
    small: Words


class DegreeSpec(ChangeSpec, frozen=True, kw_only=True, tag_field="kind", tag="degree"):
    """Exchanges a degree modifier for another of its group, else puts one before an adjective.

    Those of `groups` are exchanged before one of `adjectives` alone, those of `anywhere` where they
    stand. Those put in are of the first group; they go before one of `adjectives` that stands
    behind one of `behind` or behind an indefinite article.
    """

    groups: Groups
    anywhere: Groups
    adjectives: Words
    behind: Words


class SwapSpec(ChangeSpec, frozen=True, kw_only=True, tag_field="kind", tag="swap"):
    """Exchanges one expression for another of its group; an expression is one word or several.

    Of groups that share an expression the first counts. `not_before` are words, or marks, before
    which no expression is exchanged.
    """

    groups: Groups
    not_before: Words = ()


class NamesSpec(ChangeSpec, frozen=True, kw_only=True, tag_field="kind", tag="names"):
    """Exchanges one name, wherever it stands, for an invented one of its kind.

    A capitalised name is a person's after one of `titles` or if it is one of `known_people`, an
    organisation's before one of `ends`, a place's after one of `near`. Words of `not_names` are no
    names, nor are those before a word of `not_before`. A place is followed by a mark or a word of
    `places_before`, as others may be names of peoples. A name of unknown kind is left alone.
    """

    people: Words
    places: Words
    organisations: Words
    titles: Words
    known_people: Words
    near: Words
    ends: Words
    not_names: Words
    not_before: Words
    places_before: Words


class RandomSpec(ChangeSpec, frozen=True, kw_only=True, tag_field="kind", tag="random"):
    """An operation of EDA (Wei and Zou 2019) on `share` of a text's words, at least on one.

    `groups` are the synonyms that insertion and synonyms take.
    """

    operation: Literal["deletion", "swap", "insertion", "synonyms"]
    share: Annotated[float, Meta(gt=0, le=1)] = 0.1
    groups: Groups = ()

    def __post_init__(self) -> None:
        if (self.operation in ("insertion", "synonyms")) != bool(self.groups):
            raise ValueError(
                f"operation {self.operation}: `groups` go with insertion and synonyms, and with "
                "them alone; correct one of the two"
            )


class WordNetSpec(ChangeSpec, frozen=True, kw_only=True, tag_field="kind", tag="wordnet"):
    """Exchanges one word for a synonym that an installed WordNet gives it as `part_of_speech`."""

    part_of_speech: Literal["adjective", "adverb", "noun", "verb"] = "adjective"


class AskedSpec(ChangeSpec, frozen=True, kw_only=True, tag_field="kind", tag="asked"):
    """Asks a model to rewrite the text: the last step's answer takes its place.

    Steps see the text as `text`, and what earlier steps wrote under their names.
    """

    steps: Annotated[tuple[BuildStepSpec, ...], Meta(min_length=1)]
    decoding: DecodingSpec = field(
        default_factory=lambda: DecodingSpec(temperature=0.0, max_tokens=400)
    )
    postprocess: Literal["none", "blank_line", "lead_in"] = field(default="blank_line", name="cut")


LocalSpec = InsertSpec | DegreeSpec | SwapSpec | NamesSpec | RandomSpec | WordNetSpec
PerturbationSpec = LocalSpec | AskedSpec
