"""Training pairs and a recipe to a head with its card.

A head is never tested on a sentence that it was trained on, nor on one nearly equal to it. Nothing
here reads or writes files.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import stdev
from typing import Final

from msgspec import to_builtins

from harness.implicitness.head import Head, HeadCard
from harness.implicitness.pairs import TrainingPair, data_digest
from harness.implicitness.training.examples import Embedded, embed, examples
from harness.implicitness.training.losses import TrainedMember, train
from harness.implicitness.training.metrics import (
    HeadMetrics,
    head_metrics,
    mean_known,
    word_presence,
)
from harness.implicitness.training.splits import Split, folds, split
from harness.models.encoders.encoders import Encoder
from harness.models.vectors import Progress
from harness.specs.implicitness import RecipeSpec
from harness.text.dedup import LIKENESS, fingerprint


@dataclass(frozen=True, slots=True)
class Data:
    """Training pairs, under the name that a card gives them."""

    name: str
    pairs: Sequence[TrainingPair]


def make_head(
    name: str, data: Data, recipe: RecipeSpec, *, encoder: Encoder, progress: Progress
) -> Head:
    """Train a head on some pairs by a recipe; its metrics are on its card.

    `encoder` is the one that the recipe names. Progress counts sentences and folds.
    """
    embedded = embed(data.pairs, encoder, progress)
    parts = split(data.pairs, seed=recipe.seed, shares=recipe.split)
    members = train_members(parts, embedded, recipe, seed=recipe.seed)
    bare = head_of(name, members, recipe, encoder_digest=encoder.digest)
    metrics: dict[str, float | None] = {}
    if parts.test:
        graded = sum(bool(pair.levels) for pair in parts.test)
        metrics |= {"test pairs": len(parts.test), "test graded": graded}
        found = head_metrics(bare, parts.test, embedded, words=word_presence(parts.train))
        metrics |= {f"test {key}": value for key, value in asdict(found).items()}
    if recipe.folds:
        metrics |= cross_validated(data.pairs, recipe, embedded, progress=progress)
    card = HeadCard(
        data=data.name,
        data_digest=data_digest(data.pairs),
        split=_split_text(parts, recipe),
        seeds=tuple(recipe.seed + place for place in range(recipe.members)),
        settings=_settings(recipe, [member.epoch for member in members]),
        metrics=metrics,
        licence=recipe.licence,
        notes=recipe.about,
    )
    return head_of(
        name, members, recipe, encoder_digest=encoder.digest, card=card, seen=_seen(parts)
    )


def _split_text(parts: Split, recipe: RecipeSpec) -> str:
    return (
        f"{len(parts.train)} pairs to learn from, {len(parts.validation)} to choose the epoch by, "
        f"{len(parts.test)} to test on (seed {recipe.seed}); {parts.groups} groups, linked by "
        f"label or by sentences with a Jaccard index of {LIKENESS} or more, none of them parted; "
        f"{parts.redrawn} negatives from other parts drawn anew"
    )


def _settings(recipe: RecipeSpec, epochs: list[int]) -> dict[str, bool | int | float | str]:
    settings: dict[str, bool | int | float | str] = to_builtins(recipe.settings)
    return settings | {"kept_epochs": ", ".join(map(str, epochs))}


def _seen(parts: Split) -> frozenset[str]:
    """The fingerprints of the texts that trained a head or chose its epochs."""
    known = (*parts.train, *parts.validation)
    return frozenset(fingerprint(text) for pair in known for text in pair.sentences)


def train_members(
    parts: Split, embedded: Embedded, recipe: RecipeSpec, *, seed: int
) -> list[TrainedMember]:
    """Train as many sets of matrices as a recipe has members, with successive seeds."""
    known = examples(parts.train, embedded)
    held = examples(parts.validation, embedded) if parts.validation else None
    return [
        train(known, recipe.settings, seed=seed + place, validation=held)
        for place in range(recipe.members)
    ]


def head_of(
    name: str,
    members: list[TrainedMember],
    recipe: RecipeSpec,
    *,
    encoder_digest: str,
    card: HeadCard | None = None,
    seen: frozenset[str] = frozenset(),
) -> Head:
    """Build the head of a recipe's members."""
    return Head(
        name=name,
        members=tuple(member.maps for member in members),
        encoder=recipe.encoder,
        encoder_digest=encoder_digest,
        form=recipe.settings.form,
        card=card,
        seen=seen,
    )


CHOOSING: Final = (9, 1)  # shares of what a fold leaves, where a recipe chooses its epochs


def cross_validated(
    pairs: Sequence[TrainingPair],
    recipe: RecipeSpec,
    embedded: Embedded,
    *,
    progress: Progress,
) -> dict[str, float | None]:
    """Measure a recipe by folds: each metric by name, the mean over folds and seeds.

    `NAME sd` is the standard deviation between the seeds, where there are several.
    """
    by_seed: list[list[HeadMetrics]] = []
    for seed in recipe.fold_seeds:
        by_seed.append([])
        shares = CHOOSING if recipe.split[1] else (1, 0)
        for parts in folds(pairs, seed=seed, count=recipe.folds, shares=shares):
            by_seed[-1].append(_measured(parts, recipe, embedded, seed=seed))
            progress("folds", sum(map(len, by_seed)), recipe.folds * len(recipe.fold_seeds))
    metrics: dict[str, float | None] = {}
    for name in asdict(by_seed[0][0]):
        means = [mean_known([getattr(one, name) for one in found]) for found in by_seed]
        there = [mean for mean in means if mean is not None]
        metrics[f"folds {name}"] = mean_known(means)
        if len(there) > 1:
            metrics[f"folds {name} sd"] = stdev(there)
    return metrics


def _measured(parts: Split, recipe: RecipeSpec, embedded: Embedded, *, seed: int) -> HeadMetrics:
    """The metrics of one fold. The members of no two seeds are alike."""
    members = train_members(parts, embedded, recipe, seed=seed * 1000)
    head = head_of("fold", members, recipe, encoder_digest="")
    return head_metrics(head, parts.test, embedded, words=word_presence(parts.train))
