"""What the YAML of a data-making step may say: what is asked, from what, and what is kept."""

from typing import Annotated, Literal

from msgspec import Meta

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
    cut: Literal["none", "blank_line", "lead_in"] = "none"

    def __post_init__(self) -> None:
        for step in self.steps:
            if (step.makes == "verdict") != (step.judges is not None):
                raise ValueError(
                    f"step {step.name}: `judges` names the reference a verdict is about; give it "
                    "with `makes: verdict`, and only there"
                )
