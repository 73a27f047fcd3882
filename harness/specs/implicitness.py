"""What a recipe's YAML may say: how a head of the implicitness metric is trained."""

from typing import Annotated

from msgspec import Meta, field

from harness.implicitness.formula import Direction, Distance, Form
from harness.specs.encoders import LocalEncoderSpec, MiniLMSpec
from harness.specs.schema import Spec

AtLeastOne = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[float, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]


class SettingsSpec(Spec, frozen=True, kw_only=True):
    """How one set of matrices is trained; as published unless told otherwise.

    `margin` (gamma 1), `pragmatic_margin` (gamma 2) and `pragmatic_weight` (alpha) are those of
    the paper; the number of features and the weight decay stand in the released code alone.
    `level_margin` is asked for between neighbouring levels, and as often as levels are apart.
    `noise` is the mean length of what is added anew to each row, itself of length 1. `is_scaled`
    learns of equally wide columns.
    """

    direction: Direction = Direction.TO_SEMANTIC
    implicitness: Distance = Distance.COSINE
    pragmatic: Distance = Distance.EUCLIDEAN
    features: AtLeastOne = 64
    learning_rate: Positive = 0.01
    weight_decay: NotNegative = 0.001
    batch: AtLeastOne = 8192
    epochs: AtLeastOne = 30
    margin: NotNegative = 0.5
    pragmatic_margin: NotNegative = 0.7
    pragmatic_weight: NotNegative = 1.0
    level_margin: NotNegative = 0.25
    level_weight: NotNegative = 1.0
    noise: NotNegative = 0.0
    is_scaled: bool = False

    @property
    def form(self) -> Form:
        """The form that is trained."""
        return Form(self.direction, self.implicitness, self.pragmatic)


class RecipeSpec(Spec, frozen=True, kw_only=True):
    """A head: its encoder, its settings, and how its data is split.

    Its `members` are trained from `seed` and the seeds behind it, and their scores are averaged.
    `split` has the shares to learn from, to choose the epoch by, and to test on; the last two may
    be 0. `folds` parts of the data are each tested on once by a head of the others, for each seed
    of `fold_seeds`; 0 leaves that out.
    """

    about: str
    encoder: LocalEncoderSpec = field(default_factory=MiniLMSpec)
    settings: SettingsSpec = field(default_factory=SettingsSpec)
    seed: int = 0
    members: AtLeastOne = 1
    split: tuple[AtLeastOne, Annotated[int, Meta(ge=0)], Annotated[int, Meta(ge=0)]] = (8, 1, 1)
    folds: Annotated[int, Meta(ge=0)] = 0
    fold_seeds: tuple[int, ...] = (0,)
    licence: str = ""
