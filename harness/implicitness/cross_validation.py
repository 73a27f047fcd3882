"""Training pairs and a recipe to how well heads do on groups that they did not learn of.

The pairs are dealt into folds by their groups. A head of the recipe's members learns of all folds
but one, a tenth of which only chooses its epochs, and is tested on that one.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from statistics import stdev
from typing import Final

from harness.implicitness.examples import Embedded
from harness.implicitness.members import head_of, train_members
from harness.implicitness.metrics import Figures, figures, mean_known, word_presence
from harness.implicitness.pairs import TrainingPair
from harness.implicitness.splits import Split, folds
from harness.specs.implicitness import RecipeSpec

CHOOSING: Final = (9, 1)  # shares of what a fold leaves, where a recipe chooses its epochs


def cross_validated(
    pairs: Sequence[TrainingPair],
    recipe: RecipeSpec,
    embedded: Embedded,
    *,
    progress: Callable[[int, int], None],
) -> dict[str, float | None]:
    """The figures by name, each the mean over folds and seeds.

    Beside each stands its standard deviation between the seeds, where there are several.
    """
    by_seed: list[list[Figures]] = []
    for seed in recipe.fold_seeds:
        by_seed.append([])
        shares = CHOOSING if recipe.split[1] else (1, 0)
        for parts in folds(pairs, seed=seed, count=recipe.folds, shares=shares):
            by_seed[-1].append(_measured(parts, recipe, embedded, seed=seed))
            progress(sum(map(len, by_seed)), recipe.folds * len(recipe.fold_seeds))
    metrics: dict[str, float | None] = {}
    for name in asdict(by_seed[0][0]):
        means = [mean_known([getattr(one, name) for one in found]) for found in by_seed]
        there = [mean for mean in means if mean is not None]
        metrics[f"folds {name}"] = mean_known(means)
        if len(there) > 1:
            metrics[f"folds {name} sd"] = stdev(there)
    return metrics


def _measured(parts: Split, recipe: RecipeSpec, embedded: Embedded, *, seed: int) -> Figures:
    """The figures of one fold. The members of no two seeds are alike."""
    members = train_members(parts, embedded, recipe, seed=seed * 1000)
    head = head_of("fold", members, recipe, encoder_digest="")
    return figures(head, parts.test, embedded, words=word_presence(parts.train))
