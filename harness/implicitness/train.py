"""Training pairs and a recipe to a head with its card, and to a comparison of forms and settings.

A head is never tested on a sentence that it was trained on, nor on one nearly equal to it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from math import log
from typing import Final

from msgspec import structs, to_builtins

from harness.implicitness.evaluate import mean_known, rho, tau
from harness.implicitness.formula import FORMS, Maps, Matrix
from harness.implicitness.losses import embed, examples, train
from harness.implicitness.pairs import TrainingPair
from harness.implicitness.probe import head_figures
from harness.implicitness.scorer import Embedded, Head, HeadCard
from harness.implicitness.splits import Split, data_digest, folds, split
from harness.lazy import DataFrame, pandas
from harness.models.encoders.encoders import Encoder
from harness.models.vectors import Progress
from harness.parts import digest
from harness.specs.implicitness import RecipeSpec, SettingsSpec
from harness.text.dedup import LIKENESS, fingerprint, normal

Metrics = dict[str, float | None]
Members = tuple[Maps[Matrix], ...]


def head_metrics(
    head: Head,
    held: Sequence[TrainingPair],
    embedded: Embedded,
    *,
    words: Callable[[str], float] | None = None,
) -> Metrics:
    """Measure a head on held-out pairs, whose sentences are all embedded.

    docs/impscore.md says what each metric is; `words` scores a text by its words alone. None where
    there are none of a kind.
    """
    values = head.implicitness(embedded.vectors).tolist()
    scores = {text: values[place] for text, place in embedded.places.items()}
    known = [pair.negative for pair in held if pair.negative]
    near = embedded.apart([(pair.implicit, pair.explicit) for pair in held], head)
    own = [apart for apart, pair in zip(near, held, strict=True) if pair.negative]
    far = embedded.apart(known, head)
    graded = [[scores[text] for text in pair.levels] for pair in held if pair.levels]
    return {
        "implicitness": accuracy([scores[p.implicit] - scores[p.explicit] for p in held]),
        "pragmatics": accuracy([other - one for one, other in zip(own, far, strict=True)]),
        "tau": mean_known([tau(range(len(found)), found) for found in graded]),
        "rho": mean_known([rho(range(len(found)), found) for found in graded]),
        "words": accuracy([words(p.implicit) - words(p.explicit) for p in held]) if words else None,
        "plain": accuracy([scores[p.implicit] - scores[p.plain] for p in held if p.plain]),
        "implicit mean": mean_known([scores[pair.implicit] for pair in held]),
        "explicit mean": mean_known([scores[pair.explicit] for pair in held]),
        "pair distance": mean_known(near),
        "negative distance": mean_known(far),
    }


def word_presence(known: Sequence[TrainingPair]) -> Callable[[str], float]:
    """Train the baseline, naive Bayes: a function from a text to its score by words alone."""
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


def make_head(
    name: str,
    data: tuple[str, Sequence[TrainingPair]],
    recipe: RecipeSpec,
    *,
    encoder: Encoder,
    progress: Progress,
) -> Head:
    """Train a head on some pairs, named in `data`, by a recipe; its metrics are on its card."""
    source, pairs = data
    embedded = embed(pairs, encoder, progress)
    parts = split(pairs, seed=recipe.seed, shares=recipe.split)
    members, epochs = train_members(parts, embedded, recipe, seed=recipe.seed)
    bare = head_of(name, members, recipe, encoder_digest=encoder.digest)
    metrics: Metrics = {}
    if parts.test:
        graded = sum(bool(pair.levels) for pair in parts.test)
        metrics |= {"test pairs": len(parts.test), "test graded": graded}
        found = head_metrics(bare, parts.test, embedded, words=word_presence(parts.train))
        metrics |= {f"test {key}": value for key, value in found.items()}
    if recipe.folds:
        metrics |= cross_validated(pairs, recipe, embedded, progress=progress)
    if recipe.probes:
        metrics |= head_figures(bare, encoder, progress)
    card = HeadCard(
        data=source,
        data_digest=data_digest(pairs),
        split=_split_text(parts, recipe),
        seeds=tuple(recipe.seed + place for place in range(recipe.members)),
        settings=to_builtins(recipe.settings) | {"kept_epochs": ", ".join(map(str, epochs))},
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
) -> tuple[Members, tuple[int, ...]]:
    """The matrices of each member of a recipe, with successive seeds, and the epochs of these."""
    known = examples(parts.train, embedded)
    held = examples(parts.validation, embedded) if parts.validation else None
    seeds = range(seed, seed + recipe.members)
    found = [train(known, recipe.settings, seed=one, validation=held) for one in seeds]
    return tuple(maps for maps, _ in found), tuple(epoch for _, epoch in found)


def head_of(name: str, members: Members, recipe: RecipeSpec, *, encoder_digest: str = "") -> Head:
    """Build the head of a recipe's members, without a card."""
    form = recipe.settings.form
    return Head(name, members, recipe.encoder, encoder_digest=encoder_digest, form=form)


CHOOSING: Final = (9, 1)  # shares of what a fold leaves, where a recipe chooses its epochs


def cross_validated(
    pairs: Sequence[TrainingPair], recipe: RecipeSpec, embedded: Embedded, *, progress: Progress
) -> Metrics:
    """Measure a recipe by folds: each metric by name, the mean over folds."""
    shares, seed, found = CHOOSING if recipe.split[1] else (1, 0), recipe.seed, list[Metrics]()
    for parts in folds(pairs, seed=seed, count=recipe.folds, shares=shares):
        # The members of no two seeds are alike.
        members, _ = train_members(parts, embedded, recipe, seed=seed * 1000)
        head, words = head_of("fold", members, recipe), word_presence(parts.train)
        found.append(head_metrics(head, parts.test, embedded, words=words))
        progress("folds", len(found), recipe.folds)
    names = (name for name in found[0] if not name.endswith((" mean", " distance")))
    return {f"folds {name}": mean_known([one[name] for one in found]) for name in names}


SWEPT: Final[dict[str, tuple[float, ...]]] = {
    "margin": (0.1, 0.3, 0.5, 0.7, 1.0, 1.5),
    "pragmatic_margin": (0.5, 0.7, 1.0, 1.5, 2.0),
    "pragmatic_weight": (0.5, 1.0, 1.5, 2.0),
}
"""The values that the paper swept, by their names here: gamma 1, gamma 2 and alpha."""
METRICS: Final = ("implicitness", "pragmatics", "tau", "rho")
Trial = tuple[dict[str, object], SettingsSpec]
"""The columns that name a training of an ablation, and its settings."""


def trials(settings: SettingsSpec, *, is_grid: bool = False) -> list[Trial]:
    """The twelve forms, named in `setting` and `value`; or every combination of SWEPT."""
    if is_grid:
        combined = [dict(zip(SWEPT, values, strict=True)) for values in product(*SWEPT.values())]
        return [({**one}, structs.replace(settings, **one)) for one in combined]
    return [
        (
            {"setting": "form", "value": " ".join(structs.astuple(form))},
            structs.replace(settings, **structs.asdict(form)),
        )
        for form in FORMS
    ]


def ablation(
    data: tuple[str, Sequence[TrainingPair]],
    recipe: tuple[str, RecipeSpec],
    encoder: Encoder,
    planned: Sequence[Trial],
    *,
    runs: int,
    progress: Progress,
) -> DataFrame:
    """Train and measure each trial, once for each of `runs` seeds: a row a training.

    `data` and `recipe` come with their names. Columns: the trial's, seed, kept_epoch, METRICS on
    the test pairs; then data, recipe and encoder, each NAME@DIGEST. `attrs` counts the test
    `pairs`, and those that are `graded`.
    """
    (source, pairs), (name, spec) = data, recipe
    embedded = embed(pairs, encoder, progress)
    parts = split(pairs, seed=spec.seed, shares=spec.split)
    rows: list[dict[str, object]] = []
    for done, (columns, settings) in enumerate(planned, 1):
        one = structs.replace(spec, settings=settings, members=1)
        for seed in range(spec.seed, spec.seed + runs):
            members, (epoch,) = train_members(parts, embedded, one, seed=seed)
            found = head_metrics(head_of("trial", members, one), parts.test, embedded)
            values = {name: found[name] for name in METRICS}
            rows.append({**columns, "seed": seed, "kept_epoch": epoch, **values})
        progress("trials", done, len(planned))
    made = pandas.DataFrame(rows).astype(dict.fromkeys(METRICS, float))
    graded = sum(bool(pair.levels) for pair in parts.test)
    made.attrs = {"pairs": len(parts.test), "graded": graded}
    return made.assign(
        data=f"{source}@{data_digest(pairs)[:8]}",
        recipe=f"{name}@{digest(spec)[:8]}",
        encoder=f"{encoder.name}@{encoder.digest[:8]}",
    )
