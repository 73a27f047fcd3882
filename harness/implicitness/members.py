"""A split of training pairs and a recipe to the members of a head."""

from harness.implicitness.examples import Embedded, examples
from harness.implicitness.head import Card, Head
from harness.implicitness.losses import Trained, train
from harness.implicitness.splits import Split
from harness.specs.implicitness import RecipeSpec


def train_members(
    parts: Split, embedded: Embedded, recipe: RecipeSpec, *, seed: int
) -> list[Trained]:
    """As many sets of matrices as a recipe has members, by the seed and those behind it."""
    known = examples(parts.train, embedded)
    held = examples(parts.validation, embedded) if parts.validation else None
    return [
        train(known, recipe.settings, seed=seed + place, validation=held)
        for place in range(recipe.members)
    ]


def head_of(
    name: str,
    members: list[Trained],
    recipe: RecipeSpec,
    *,
    encoder_digest: str,
    card: Card | None = None,
    seen: frozenset[str] = frozenset(),
) -> Head:
    """The head of a recipe's members."""
    return Head(
        name=name,
        members=tuple(member.maps for member in members),
        encoder=recipe.encoder,
        encoder_digest=encoder_digest,
        form=recipe.settings.form,
        card=card,
        seen=seen,
    )
