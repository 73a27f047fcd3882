"""Training pairs and a recipe to a head with its card, and to a comparison of forms and settings.

A head is never tested on a sentence that it was trained on, nor on one nearly equal to it. Its
baseline, word presence, knows no meaning. The ablation tries the twelve forms of the paper and the
settings that it swept one at a time, the others as in the recipe. Nothing here reads or writes
files.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from math import log
from statistics import fmean, stdev
from typing import Final, Literal

from msgspec import structs, to_builtins

from harness.errors import DataError
from harness.implicitness.evaluate import tau
from harness.implicitness.formula import FORMS
from harness.implicitness.losses import TrainedMember, embed, examples, train
from harness.implicitness.pairs import (
    Split,
    TrainingPair,
    data_digest,
    folds,
    split,
    with_negatives,
)
from harness.implicitness.probe import head_figures
from harness.implicitness.scorer import Embedded, Head, HeadCard, Numbers
from harness.lazy import DataFrame, pandas
from harness.models.encoders.encoders import Encoder
from harness.models.vectors import Progress
from harness.parts import digest
from harness.specs.implicitness import RecipeSpec, SettingsSpec
from harness.stats.correlation import spearman
from harness.text.dedup import LIKENESS, fingerprint, normal

Metrics = dict[str, float | None]


def head_metrics(
    head: Head,
    held: Sequence[TrainingPair],
    embedded: Embedded,
    *,
    words: Callable[[str], float] | None = None,
) -> Metrics:
    """Measure a head on held-out pairs, whose sentences are all embedded.

    `implicitness` is the share of pairs whose implicit side scores above the explicit one,
    `pragmatics` that of pairs whose sides are nearer in meaning than its negative's, 0 to 1, ties
    half. `tau` (tau-b) and `rho` are the means of the rank correlations of each set of levels
    with its order, -1 to 1; `words` is the implicitness accuracy of word presence. `plain` is the
    share of pairs whose implicit side scores above their plain sentence, ties half. None where
    there are none of a kind.
    """
    scores = _scores(head, embedded)
    both = [((p.implicit, p.explicit), p.negative) for p in held if p.negative]
    near, far = (
        _apart(head, [pair[side] for pair in both], embedded).tolist() if both else []
        for side in (0, 1)
    )
    graded = [[scores[text] for text in pair.levels] for pair in held if pair.levels]
    return {
        "implicitness": accuracy([scores[p.implicit] - scores[p.explicit] for p in held]),
        "pragmatics": accuracy([other - own for own, other in zip(near, far, strict=True)]),
        "tau": mean_known([tau(range(len(found)), found) for found in graded]),
        "rho": mean_known([spearman(range(len(found)), found).value for found in graded]),
        "words": accuracy([words(p.implicit) - words(p.explicit) for p in held]) if words else None,
        "plain": accuracy([scores[p.implicit] - scores[p.plain] for p in held if p.plain]),
    }


def side_means(head: Head, held: Sequence[TrainingPair], embedded: Embedded) -> Metrics:
    """Mean implicitness of both sides, and mean pragmatic distance of pairs and of negatives.

    `implicit mean` and `explicit mean` are 0 to 2 where the head's distance is cosine, `pair
    distance` and `negative distance` 0 or more; None without a pair, or one with a negative.
    """
    scores = _scores(head, embedded)

    def apart(pairs: Sequence[tuple[str, str]]) -> float | None:
        return float(_apart(head, pairs, embedded).mean()) if pairs else None

    return {
        "implicit mean": mean_known([scores[pair.implicit] for pair in held]),
        "explicit mean": mean_known([scores[pair.explicit] for pair in held]),
        "pair distance": apart([(pair.implicit, pair.explicit) for pair in held]),
        "negative distance": apart([pair.negative for pair in held if pair.negative]),
    }


def _scores(head: Head, embedded: Embedded) -> dict[str, float]:
    scores = head.implicitness(embedded.vectors).tolist()
    return {text: scores[place] for text, place in embedded.places.items()}


def _apart(head: Head, pairs: Sequence[tuple[str, str]], embedded: Embedded) -> Numbers:
    sides = ([embedded.places[text] for text in side] for side in zip(*pairs, strict=True))
    first, second = (embedded.vectors[side] for side in sides)
    return head.pragmatic_distance(first, second)


def word_presence(known: Sequence[TrainingPair]) -> Callable[[str], float]:
    """Train the baseline: a function from a text to its score by words alone.

    The score is the sum, over the text's distinct words, of the log of how often each occurred on
    implicit sides over how often on explicit ones, each plus one (naive Bayes).
    """
    sides = [pair.implicit for pair in known], [pair.explicit for pair in known]
    implicit, explicit = (
        Counter(word for text in side for word in set(normal(text).split())) for side in sides
    )

    def score(text: str) -> float:
        words = sorted(set(normal(text).split()))
        return sum(log((implicit[word] + 1) / (explicit[word] + 1)) for word in words)

    return score


def accuracy(apart: Sequence[float]) -> float | None:
    """The share of differences above zero, those of zero half; None without any."""
    return mean_known([(one > 0) + 0.5 * (one == 0) for one in apart])


def mean_known(values: Sequence[float | None]) -> float | None:
    """The mean of the values that are not None; None if there are none."""
    there = [value for value in values if value is not None]
    return fmean(there) if there else None


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
    metrics: Metrics = {}
    if parts.test:
        graded = sum(bool(pair.levels) for pair in parts.test)
        metrics |= {"test pairs": len(parts.test), "test graded": graded}
        found = head_metrics(bare, parts.test, embedded, words=word_presence(parts.train))
        found |= side_means(bare, parts.test, embedded)
        metrics |= {f"test {key}": value for key, value in found.items()}
    if recipe.folds:
        metrics |= cross_validated(data.pairs, recipe, embedded, progress=progress)
    if recipe.leave_writers_out:
        metrics |= writers_left_out(data.pairs, recipe, embedded, progress=progress)
    if recipe.probes:
        metrics |= head_figures(bare, encoder, progress)
    epochs = [str(member.epoch) for member in members]
    card = HeadCard(
        data=data.name,
        data_digest=data_digest(data.pairs),
        split=_split_text(parts, recipe),
        seeds=tuple(recipe.seed + place for place in range(recipe.members)),
        settings=to_builtins(recipe.settings) | {"kept_epochs": ", ".join(epochs)},
        metrics=metrics,
        licence=recipe.licence,
        notes=recipe.about,
    )
    known = (*parts.train, *parts.validation)  # the texts that trained it or chose its epochs
    seen = frozenset(fingerprint(text) for pair in known for text in pair.sentences)
    return replace(bare, card=card, seen=seen)


def _split_text(parts: Split, recipe: RecipeSpec) -> str:
    return (
        f"{len(parts.train)} pairs to learn from, {len(parts.validation)} to choose the epoch by, "
        f"{len(parts.test)} to test on (seed {recipe.seed}); {parts.groups} groups, linked by "
        f"label or by sentences with a Jaccard index of {LIKENESS} or more, none of them parted; "
        f"{parts.redrawn} negatives from other parts drawn again"
    )


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
    name: str, members: Sequence[TrainedMember], recipe: RecipeSpec, *, encoder_digest: str = ""
) -> Head:
    """Build the head of a recipe's members, without a card."""
    return Head(
        name=name,
        members=tuple(member.maps for member in members),
        encoder=recipe.encoder,
        encoder_digest=encoder_digest,
        form=recipe.settings.form,
    )


CHOOSING: Final = (9, 1)  # shares of what a fold leaves, where a recipe chooses its epochs


def cross_validated(
    pairs: Sequence[TrainingPair], recipe: RecipeSpec, embedded: Embedded, *, progress: Progress
) -> Metrics:
    """Measure a recipe by folds: each metric by name, the mean over folds and seeds.

    `NAME sd` is the standard deviation between the seeds, where there are several.
    """
    by_seed: list[list[Metrics]] = []
    for seed in recipe.fold_seeds:
        by_seed.append([])
        shares = CHOOSING if recipe.split[1] else (1, 0)
        for parts in folds(pairs, seed=seed, count=recipe.folds, shares=shares):
            # The members of no two seeds are alike.
            members = train_members(parts, embedded, recipe, seed=seed * 1000)
            head = head_of("fold", members, recipe)
            words = word_presence(parts.train)
            by_seed[-1].append(head_metrics(head, parts.test, embedded, words=words))
            progress("folds", sum(map(len, by_seed)), recipe.folds * len(recipe.fold_seeds))
    metrics: Metrics = {}
    for name in by_seed[0][0]:
        means = [mean_known([one[name] for one in found]) for found in by_seed]
        there = [mean for mean in means if mean is not None]
        metrics[f"folds {name}"] = mean_known(means)
        if len(there) > 1:
            metrics[f"folds {name} sd"] = stdev(there)
    return metrics


def writers_left_out(
    pairs: Sequence[TrainingPair], recipe: RecipeSpec, embedded: Embedded, *, progress: Progress
) -> Metrics:
    """Measure a recipe on each writer's pairs by a head of the others': metrics by WRITER and name.

    Writing habits are then unseen, too. Pairs without a writer are always learned of. Each head has
    one member, whatever the recipe says.
    """
    recipe = structs.replace(recipe, members=1)
    writers = sorted({pair.writer for pair in pairs if pair.writer is not None})
    if len(writers) < 2:
        raise DataError(f"{len(writers)} writers: leave_writers_out needs two in a column `writer`")
    metrics: Metrics = {}
    for done, writer in enumerate(writers, start=1):
        others = [pair for pair in pairs if pair.writer != writer]
        held = with_negatives([pair for pair in pairs if pair.writer == writer], recipe.seed)
        parts = split(others, seed=recipe.seed, shares=(*recipe.split[:2], 0))
        head = head_of("left out", train_members(parts, embedded, recipe, seed=recipe.seed), recipe)
        found = head_metrics(head, held, embedded)
        del found["words"]
        metrics |= {f"writer {writer} {name}": value for name, value in found.items()}
        progress("writers", done, len(writers))
    return metrics


Setting = Literal["form", "margin", "pragmatic_margin", "pragmatic_weight", "grid"]
SWEPT: Final[dict[Setting, tuple[float, ...]]] = {
    "margin": (0.1, 0.3, 0.5, 0.7, 1.0, 1.5),
    "pragmatic_margin": (0.5, 0.7, 1.0, 1.5, 2.0),
    "pragmatic_weight": (0.5, 1.0, 1.5, 2.0),
}
"""The values that the paper swept, by their names here: gamma 1, gamma 2 and alpha."""
METRICS: Final = ("implicitness", "pragmatics", "tau", "rho")


def origin(
    file: str, pairs: Sequence[TrainingPair], *, recipe: tuple[str, RecipeSpec], encoder: Encoder
) -> dict[str, str]:
    """What trainings were made of: data, recipe and encoder, each NAME@DIGEST."""
    name, spec = recipe
    return {
        "data": f"{file}@{data_digest(pairs)[:8]}",
        "recipe": f"{name}@{digest(spec)[:8]}",
        "encoder": f"{encoder.name}@{encoder.digest[:8]}",
    }


Trial = tuple[Setting, str, SettingsSpec]


def trials(settings: SettingsSpec) -> list[Trial]:
    """List the twelve forms, then each value of each swept setting, the rest as in `settings`.

    A trial has the form's name or the setting's number, and all settings.
    """
    grid = {f"{form.direction} {form.implicitness} {form.pragmatic}": form for form in FORMS}
    forms: list[Trial] = [
        ("form", name, structs.replace(settings, **asdict(form))) for name, form in grid.items()
    ]
    return forms + [
        (name, f"{value:g}", structs.replace(settings, **{name: value}))
        for name, values in SWEPT.items()
        for value in values
    ]


def grid_trials(settings: SettingsSpec) -> list[Trial]:
    """List every combination of the values of the swept settings: both margins, at each weight.

    A trial has the three numbers as its value, in the order of SWEPT.
    """
    return [
        (
            "grid",
            " ".join(f"{value:g}" for value in values),
            structs.replace(settings, **dict(zip(SWEPT, values, strict=True))),
        )
        for values in product(*SWEPT.values())
    ]


def run_trials(
    parts: Split,
    embedded: Embedded,
    recipe: RecipeSpec,
    *,
    runs: int,
    progress: Progress,
    planned: Sequence[Trial] = (),
) -> DataFrame:
    """Train and measure each trial, once for each of `runs` seeds: those of `trials` by default.

    A row a training: setting, value, seed, kept_epoch, and its METRICS on the test pairs, NaN where
    there was nothing to measure. Trials of equal settings are trained once.
    """
    planned, rows = planned or trials(recipe.settings), []
    known: dict[tuple[SettingsSpec, int], tuple[object, ...]] = {}
    for done, (setting, value, settings) in enumerate(planned):
        for seed in range(recipe.seed, recipe.seed + runs):
            progress("trials", done, len(planned))
            if (settings, seed) not in known:
                one = structs.replace(recipe, settings=settings, members=1)
                (member,) = train_members(parts, embedded, one, seed=seed)
                found = head_metrics(head_of("trial", [member], one), parts.test, embedded)
                known[settings, seed] = member.epoch, *(found[name] for name in METRICS)
            rows.append((setting, value, seed, *known[settings, seed]))
    progress("trials", len(planned), len(planned))
    frame = pandas.DataFrame(rows, columns=["setting", "value", "seed", "kept_epoch", *METRICS])
    return frame.astype(dict.fromkeys(METRICS, float))


def grid_points(trainings: DataFrame) -> DataFrame:
    """The trainings of `grid_trials` with a column a swept setting in place of their value."""
    points = trainings["value"].str.split(expand=True).astype(float)
    return points.set_axis([*SWEPT], axis=1).join(trainings.drop(columns=["setting", "value"]))
