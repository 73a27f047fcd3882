"""Settings drawn at random, and run folders of made-up answers of models that differ in nothing.

For `statements.py`: what is planted is part of a setting, and 0 where nothing is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import exp, log, sqrt
from pathlib import Path

import numpy as np
from msgspec import structs
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from support import hate_rows, paired_runs, sketches
from support.paired_runs import NEAR, SMALL
from support.run_tables import FAR

from benchmarks.coverage import Floats, Generator, one_large, skewed
from harness.core import Sample
from harness.pipeline.score import rows_of
from harness.storage.run_tables import RunTables, SampleRecord
from harness.storage.runs import JudgeEntry, ModelEntry, RunFile, RunFolder

RATING = JudgeEntry("near", "mean_rating", "near:00|scale1-5")
SPEC = structs.replace(hate_rows.SPEC, equal_mass=1, least=10**6)  # no bins
SIZES = ("one", "equal", "skewed", "half")


@dataclass(frozen=True, slots=True)
class Setting:
    """What a trial's data is like; `seed` is of the sizes of clusters and of what models have.

    The last ones are planted: how much more the first side has of a share, of missing answers, of
    a slope in log-odds, of standard deviations of its scores, or of a correlation.
    """

    seed: int
    clusters: int
    sizes: str
    rate: float
    alike: float
    lost: float
    models: int
    variants: int
    judges: int
    lead: float = 0.0
    more_lost: float = 0.0
    slope: float = 0.0
    shift: float = 0.0
    closer: float = 0.0

    @classmethod
    def drawn(cls, draw: Generator) -> "Setting":
        """A random one."""
        return cls(
            seed=int(draw.integers(2**31)),
            clusters=round(exp(draw.uniform(log(10), log(400)))),
            sizes=str(draw.choice(SIZES)),
            rate=float(draw.uniform(0.02, 0.98)),
            alike=float(draw.uniform(0, 0.9)),
            lost=float(draw.uniform(0, 0.2)),
            models=int(draw.integers(2, 7)),
            variants=int(draw.integers(1, 4)),
            judges=int(draw.integers(2, 11)),
        )

    def design(self, of: str) -> Generator:
        """The random numbers of what does not change when an effect is planted."""
        return np.random.default_rng([self.seed, *of.encode()])

    @property
    def places(self) -> NDArray[np.intp]:
        """The cluster of each item."""
        if self.sizes in ("skewed", "half"):
            sizes = skewed if self.sizes == "skewed" else one_large
            return sizes(self.clusters, self.design("sizes"))
        each = 1 if self.sizes == "one" else int(self.design("each").integers(2, 9))
        return np.repeat(np.arange(self.clusters), each)

    def latents(self, draw: Generator, count: int) -> Floats:
        """Standard normal numbers, sides x items, that correlate as models and clusters do.

        Each side has an effect of the cluster of its own, of 0 to .7 of what is not shared.
        """
        places = self.places
        own = self.design("own").uniform(0, 0.7, count + 1)
        made = [
            sqrt(share) * draw.normal(size=self.clusters)[places]
            + sqrt(1 - share) * draw.normal(size=len(places))
            for share in own.tolist()
        ]
        return sqrt(self.alike) * made[0] + sqrt(1 - self.alike) * np.stack(made[1:])

    def lacks(self, draw: Generator, count: int) -> NDArray[np.bool_]:
        """Which answers of each side are missing."""
        ends = [min(1.0, self.lost + self.more_lost * (at == 0)) for at in range(count)]
        return self.latents(draw, count) < ndtri(ends)[:, None]


def words_runs(one: Setting, draw: Generator, folder: Path, judges: int = 0) -> list[RunFolder]:
    """Runs whose answers are right or wrong, some of them ties, or rated, one in four; for a gate
    right or wrong by so many judges.
    """
    is_rated = one.design("rated").random() < 0.25 and not judges
    ties = 0 if judges else one.design("ties").choice([0, 0, 0, 0.1])
    entries = [RATING] if is_rated else [NEAR, FAR][: max(1, judges)]
    names, samples = ("base", "cot5", "cot0")[: one.variants], samples_of(one)
    readings = [dict[tuple[str, str, str], str]() for _ in range(one.models)]
    ratings = [list[float]() for _ in range(one.models)]
    for name, entry in product(names, entries):
        sides = one.latents(draw, one.models), one.lacks(draw, one.models)
        for at, (own, lost) in enumerate(zip(*sides, strict=True)):
            rate = one.rate + one.lead * (0.5 if at == 0 else -0.5)
            end, tied = (ndtri(min(1.0, max(0.0, rate + more))) for more in (0, ties))
            letters = np.where(own < end, "1", np.where(own < tied, "=", "0"))
            readings[at][name, "T0.3", entry.name] = "".join(np.where(lost, ".", letters))
            ratings[at] += np.clip(np.round(2 * (1 + 4 * rate - own)) / 2, 1, 5).tolist()
    found = []
    for at, own in enumerate(readings):
        made = paired_runs.stored(
            paired_runs.words_task(), own, judges=entries, samples=samples, model=model_of(at)
        )
        # Gates pass runs of the same answers.
        rows = [replace(row, answer=f"{at}") if judges else row for row in made.rows]
        for place, value in enumerate(ratings[at] if is_rated else ()):
            if rows[place].verdicts["near"].value is not None:
                rows[place] = replace(rows[place], verdicts={"near": sketches.right(value)})
        found.append(written(folder, made.file, rows, has_scores=not judges))
    return found


def samples_of(one: Setting, choices: Sequence[str] = ()) -> list[Sample]:
    """A sample for each item, the first choice right."""
    own = {"choices": tuple(choices), "gold": choices[0]} if choices else {}
    return [
        Sample(f"s{at:04}", {"topic": f"tea {at}"}, cluster=f"c{place:03}", **own)
        for at, place in enumerate(one.places)
    ]


def model_of(place: int) -> ModelEntry:
    """One of several models, which is no control."""
    return replace(SMALL, name=f"m{place}", kind="vllm", identity=f"m{place}@1")


def written(
    folder: Path, file: RunFile, rows: Sequence[SampleRecord], *, has_scores: bool = True
) -> RunFolder:
    """The folder of a run, with the scores that boards read."""
    made = RunFolder(folder / file.run.task / file.model.name / file.model.name)
    made.path.mkdir(parents=True)
    tables, file = RunTables(made.path), replace(file, planned=len(rows))
    tables.add(rows)
    made.put(file, tables, rows_of(file, tables.files) if has_scores else None)
    return made


def texts(one: Setting, draw: Generator, folder: Path, count: int) -> list[RunFolder]:
    """Runs of models that flag texts of two to six groups, with scores and some implicitness."""
    places, own, made = one.places, one.design("texts"), []
    is_hateful = own.random(len(places)) < own.uniform(0.3, 0.7)
    groups = own.integers(0, one.models, one.clusters)
    of = groups[places] if own.random() < 0.5 else own.integers(0, one.models, len(places))
    at = own.uniform(0, 2, one.clusters)[places] + own.normal(size=len(places)) * 0.05
    latents, lacks = one.latents(draw, count), one.lacks(draw, count)
    if one.more_lost:  # of the texts to detect, in place of the first model
        ends = ndtri(np.minimum(1, one.lost + one.more_lost * is_hateful))
        lacks = one.latents(draw, count) < ends
    fpr = min(one.rate, 1 - one.rate)
    for place in range(count):
        # Equally good models differ in how readily they flag.
        less = place * own.uniform(0, fpr)
        ends = np.where(is_hateful, one.rate, fpr) - less
        ends += is_hateful * one.lead * np.where(of == 0, 0.5, -0.5)
        ends = np.clip(ends, 0.001, 0.999)
        ends = 1 / (1 + (1 - ends) / ends * np.exp(-one.slope * is_hateful * (at - 1)))
        said = latents[place] < ndtri(ends)
        sure = ndtr(-latents[place] + (1.0 + one.shift * (place == 0)) * is_hateful)
        rows = []
        for n, cluster in enumerate(places):
            value = None if lacks[place, n] else float(said[n])
            row = hate_rows.text(
                f"t{n:04}",
                is_hateful=bool(is_hateful[n]),
                at=float(at[n]),
                said=value,
                sure=None if value is None else float(sure[n]),
                cluster=f"c{cluster:03}",
            )
            rows.append(replace(row, sample=replace(row.sample, group=f"g{of[n]}")))
        file = hate_rows.run_of(rows, SPEC, model=model_of(place))
        run = replace(file.run, model=file.model.identity)
        made.append(written(folder, replace(file, run=run, digest=run.digest), rows))
    return made
