"""Training pairs to how well each form of the metric and each setting of its losses does.

The twelve forms of the paper's ablation and the settings that it swept are tried one at a time, the
others as in the recipe, each from several seeds. Nothing here encodes, reads or writes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from msgspec.structs import replace

from harness.implicitness.formula import FORMS
from harness.implicitness.pairs import TrainingPair, data_digest
from harness.implicitness.training.examples import Embedded
from harness.implicitness.training.metrics import HeadMetrics, head_metrics
from harness.implicitness.training.splits import Split
from harness.implicitness.training.train import head_of, train_members
from harness.models.encoders.encoders import Encoder
from harness.models.vectors import Progress
from harness.parts import digest
from harness.specs.implicitness import RecipeSpec, SettingsSpec

Setting = Literal["form", "margin", "pragmatic_margin", "pragmatic_weight"]
SWEPT: Final[dict[Setting, tuple[float, ...]]] = {
    "margin": (0.1, 0.3, 0.5, 0.7, 1.0, 1.5),
    "pragmatic_margin": (0.5, 0.7, 1.0, 1.5, 2.0),
    "pragmatic_weight": (0.5, 1.0, 1.5, 2.0),
}
"""The values that the paper swept, by their names here: gamma 1, gamma 2 and alpha."""
COLUMNS: Final = (
    *("setting", "value", "seed", "kept_epoch"),
    *("implicitness", "pragmatics", "tau", "rho"),
    *("data", "recipe", "encoder"),
)


@dataclass(frozen=True, slots=True)
class Origin:
    """What trainings were made of: file of pairs, recipe and encoder, each NAME@DIGEST."""

    data: str
    recipe: str
    encoder: str

    @classmethod
    def of(
        cls,
        file: str,
        pairs: Sequence[TrainingPair],
        *,
        recipe: tuple[str, RecipeSpec],
        encoder: Encoder,
    ) -> "Origin":
        """Describe trainings on the pairs of a file, by a recipe with its name."""
        name, spec = recipe
        return cls(
            f"{file}@{data_digest(pairs)[:8]}",
            f"{name}@{digest(spec)[:8]}",
            f"{encoder.name}@{encoder.digest[:8]}",
        )


@dataclass(frozen=True, slots=True)
class AblationTrial:
    """One form or setting to try; `value` is the form's name or the setting's number."""

    setting: Setting
    value: str
    settings: SettingsSpec


@dataclass(frozen=True, slots=True)
class AblationRow:
    """The metrics of one training on the test pairs."""

    setting: Setting
    value: str
    seed: int
    epoch: int
    figures: HeadMetrics

    def cells(self, origin: Origin) -> tuple[object, ...]:
        """The row of a table with COLUMNS; None where there was nothing to measure."""
        found = self.figures
        metrics = (found.implicitness, found.pragmatics, found.tau, found.rho)
        made_of = (origin.data, origin.recipe, origin.encoder)
        return (str(self.setting), self.value, self.seed, self.epoch, *metrics, *made_of)


def trials(settings: SettingsSpec) -> list[AblationTrial]:
    """List the twelve forms, then each value of each swept setting, the rest as in `settings`."""
    grid = [
        AblationTrial(
            "form",
            f"{form.direction} {form.implicitness} {form.pragmatic}",
            replace(
                settings,
                direction=form.direction,
                implicitness=form.implicitness,
                pragmatic=form.pragmatic,
            ),
        )
        for form in FORMS
    ]
    swept = [
        AblationTrial(name, f"{value:g}", replace(settings, **{name: value}))
        for name, values in SWEPT.items()
        for value in values
    ]
    return [*grid, *swept]


def run_trials(
    parts: Split,
    embedded: Embedded,
    recipe: RecipeSpec,
    *,
    runs: int,
    progress: Progress,
) -> Iterator[AblationRow]:
    """Train and measure each trial, once for each of `runs` seeds.

    Trials of equal settings are trained once.
    """
    planned = trials(recipe.settings)
    known: dict[tuple[SettingsSpec, int], tuple[int, HeadMetrics]] = {}
    for done, trial in enumerate(planned):
        for seed in range(recipe.seed, recipe.seed + runs):
            progress("trials", done, len(planned))
            if (trial.settings, seed) not in known:
                one = replace(recipe, settings=trial.settings, members=1)
                (member,) = train_members(parts, embedded, one, seed=seed)
                head = head_of("trial", [member], one, encoder_digest="")
                known[trial.settings, seed] = member.epoch, head_metrics(head, parts.test, embedded)
            epoch, found = known[trial.settings, seed]
            yield AblationRow(trial.setting, trial.value, seed, epoch, found)
    progress("trials", len(planned), len(planned))
