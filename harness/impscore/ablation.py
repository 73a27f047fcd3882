"""Training pairs to how each form of the metric and each setting of its losses does.

The twelve forms of the paper's ablation and the settings that it swept, one after the other with
the others as published, each trained from several seeds. Nothing here encodes, reads or writes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal

from msgspec.structs import replace

from harness.impscore.examples import Embedded
from harness.impscore.figures import Figures, figures
from harness.impscore.formula import FORMS
from harness.impscore.members import head_of, train_members
from harness.impscore.splits import Split
from harness.pictures import Plot, Series, svg
from harness.specs.recipes import RecipeSpec, SettingsSpec

Setting = Literal["form", "margin", "pragmatic_margin", "pragmatic_weight"]
SWEPT: Final[dict[Setting, tuple[float, ...]]] = {
    "margin": (0.1, 0.3, 0.5, 0.7, 1.0, 1.5),
    "pragmatic_margin": (0.5, 0.7, 1.0, 1.5, 2.0),
    "pragmatic_weight": (0.5, 1.0, 1.5, 2.0),
}
"""The values that the paper swept, by their names here: gamma 1, gamma 2 and alpha."""
DRAWN: Final = ("implicitness", "pragmatics", "tau")
COLUMNS: Final = (
    *("setting", "value", "seed", "kept_epoch"),
    *("implicitness", "pragmatics", "tau", "rho"),
)
NAMES: Final = {"margin": "gamma 1", "pragmatic_margin": "gamma 2", "pragmatic_weight": "alpha"}


@dataclass(frozen=True, slots=True)
class Trial:
    """One form or setting that is tried; `value` is the form's name or the setting's number."""

    setting: Setting
    value: str
    settings: SettingsSpec


@dataclass(frozen=True, slots=True)
class Row:
    """What one training came to on the test pairs."""

    setting: Setting
    value: str
    seed: int
    epoch: int
    figures: Figures

    @property
    def cells(self) -> tuple[object, ...]:
        """The row of a table with COLUMNS; null where there was nothing to measure."""
        found = self.figures
        told = (found.implicitness, found.pragmatics, found.tau, found.rho)
        return (str(self.setting), self.value, self.seed, self.epoch, *told)


def trials(settings: SettingsSpec) -> list[Trial]:
    """The twelve forms, then each value of each swept setting, the rest being `settings`."""
    grid = [
        Trial(
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
        Trial(name, f"{value:g}", replace(settings, **{name: value}))
        for name, values in SWEPT.items()
        for value in values
    ]
    return [*grid, *swept]


def tried(
    parts: Split,
    embedded: Embedded,
    recipe: RecipeSpec,
    *,
    runs: int,
    progress: Callable[[int, int], None],
) -> Iterator[Row]:
    """What each trial comes to, once for each of as many seeds as there are runs.

    Trials of equal settings are trained once.
    """
    planned = trials(recipe.settings)
    known: dict[tuple[SettingsSpec, int], tuple[int, Figures]] = {}
    for done, trial in enumerate(planned):
        for seed in range(recipe.seed, recipe.seed + runs):
            progress(done, len(planned))
            if (trial.settings, seed) not in known:
                one = replace(recipe, settings=trial.settings, members=1)
                (member,) = train_members(parts, embedded, one, seed=seed)
                head = head_of("trial", [member], one, encoder_digest="")
                known[trial.settings, seed] = member.epoch, figures(head, parts.test, embedded)
            epoch, found = known[trial.settings, seed]
            yield Row(trial.setting, trial.value, seed, epoch, found)
    progress(len(planned), len(planned))


def picture(rows: Sequence[Row]) -> str:
    """The swept settings as SVG: a plot a setting, a line a figure, a point a training."""
    plots = []
    for setting in SWEPT:
        mine = [row for row in rows if row.setting == setting]
        series = tuple(part for figure in DRAWN for part in _drawn(mine, figure))
        values = [float(row.value) for row in mine]
        title = f"{NAMES[setting]} ({setting})"
        plots.append(Plot(title, title, "on test pairs", series, (0, max(values) * 1.05), (0, 1)))
    return svg(plots, title="Held-out accuracy (implicitness, pragmatics) and tau by setting")


def _drawn(rows: Sequence[Row], figure: str) -> list[Series]:
    """The trainings and the line of their means, where there is anything to draw."""
    found = [(float(row.value), getattr(row.figures, figure)) for row in rows]
    points = [(x, y) for x, y in found if y is not None]
    if not points:
        return []
    places = sorted({x for x, _ in points})
    means = [fmean(y for x, y in points if x == place) for place in places]
    return [
        Series(figure, "line", places, means),
        Series(figure, "points", [x for x, _ in points], [y for _, y in points]),
    ]
