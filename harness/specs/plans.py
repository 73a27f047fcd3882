"""What the YAML of a plan may say: which models answer which tasks, read by whom, for how much."""

from math import isfinite
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from harness.specs.schema import Spec
from harness.specs.tasks import DecodingSpec

Names = tuple[str, ...]
Limit = Annotated[int, Meta(ge=1)]
Seeds = Annotated[tuple[int, ...], Meta(min_length=1)]


class PlannedTask(Spec, frozen=True, kw_only=True):
    """A task of a plan: how it is run, and what it has in place of what the plan says.

    `judges` and `variants` are by default the task's own; a judge may name the model it asks, as in
    contextual/gpt-4o. `answers` says how models answer choices, `map` is the column map of a table,
    `scorer` the scorer of implicitness, `decoding` how answers are drawn. `models`, `controls`,
    `limit` and `seeds` replace the plan's; `limit: null` takes all samples.
    """

    task: str
    judges: Names = ()
    variants: Names = ()
    answers: Literal["logprob", "top_logprobs", "written"] | None = None
    column_map: str | None = field(name="map", default=None)
    scorer: str | None = None
    decoding: DecodingSpec | None = None
    models: Names | UnsetType = UNSET
    controls: Names | UnsetType = UNSET
    limit: Limit | UnsetType | None = UNSET
    seeds: Seeds | UnsetType = UNSET


class PlanSpec(Spec, frozen=True, kw_only=True):
    """A plan: every model answers every task, once a seed.

    `models` and `controls` are names in configs/models/; a control that a task does not define is
    left out of it. `limit` is how many samples of each task are asked about, by default all;
    `seeds` are those of the random draws, each with runs of its own. `budget_usd` is what all calls
    may cost together. `allow_self_judge` lets a model judge its own answers. `before` and `after`
    are commands of this program, without its name, that are carried out before and after the runs:
    {runs} stands for the runs of the plan, {folder} for the folder of its leaderboard; what a
    command prints is kept there, or in the file after ` > `.
    """

    about: str
    tasks: Annotated[tuple[str | PlannedTask, ...], Meta(min_length=1)]
    models: Names = ()
    controls: Names = ()
    limit: Limit | None = None
    seeds: Seeds = (0,)
    budget_usd: Annotated[float, Meta(ge=0)] | None = None
    allow_self_judge: bool = False
    before: Names = ()
    after: Names = ()

    def __post_init__(self) -> None:
        if self.budget_usd is not None and not isfinite(self.budget_usd):
            raise ValueError(f"budget_usd {self.budget_usd} is no sum; leave it out for no budget")

    @property
    def planned(self) -> tuple[PlannedTask, ...]:
        """The tasks, each with all that is said of it."""
        return tuple(PlannedTask(task=t) if isinstance(t, str) else t for t in self.tasks)
