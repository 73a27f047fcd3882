"""Runs of one recipe and ratings of one variant to a panel: people and judges on the same cells.

What a document and a system are, the task says; where the system is a sample's group, the model
of each run rated the systems, and is a judge. Nothing here computes a statistic.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.core import Sample
from harness.data.ratings import Rating
from harness.parts import digest
from harness.pipeline.score import headline_label
from harness.stats.estimate import Floats, ratio
from harness.storage.runs import JudgeEntry, RunFile, SampleRecord
from harness.storage.signature import JudgeRecipe, clean

ALL_SYSTEMS = "all"
Cell = tuple[str, str]
_Document = tuple[str, str]  # its name, and the decoding it is of, empty for all of them


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What was run, and its rows."""

    file: RunFile
    rows: Sequence[SampleRecord]

    @property
    def by_group(self) -> bool:
        """Whether the systems are the samples' groups, and the run's model a judge of them."""
        return self.file.task.unit.system == "group"


@dataclass(frozen=True, slots=True)
class JudgeTable:
    """One judge's values of a panel's cells, NaN where it has none.

    `model` is all, or the model that gave the ratings where a run's model is a judge.
    """

    judge: str
    model: str
    recipe: str
    values: Floats


@dataclass(frozen=True, slots=True)
class Panel:
    """People's ratings, documents x systems x raters, and the judges' values of the same cells.

    `unmatched` of the `offered` ratings are of nothing that was run; `recipe` is what a
    signature says before the judge, `given` what it says after it.
    """

    task: str
    variant: str
    scale: str
    documents: tuple[str, ...]
    clusters: tuple[str, ...]
    systems: tuple[str, ...]
    raters: tuple[str, ...]
    ratings: Floats
    judges: tuple[JudgeTable, ...]
    decodings: tuple[str, ...]
    recipe: str
    given: str
    offered: int
    unmatched: int


@dataclass(frozen=True, slots=True)
class RatingTarget:
    """A rating with the variant it is of, and the decoding, null where it is of all."""

    rating: Rating
    decoding: str | None


@dataclass(frozen=True, slots=True)
class _JudgeColumn:
    """A judge of one panel: its name, the model it stands for, its recipe and its snapshot."""

    judge: str
    model: str
    recipe: str
    served: str


def panel_of(
    runs: Sequence[StoredRun],
    aims: Sequence[RatingTarget],
    *,
    where: tuple[str, str],
    judges: Sequence[str],
) -> Panel:
    """The panel of runs of one recipe."""
    variant, scale = where
    rows = [(run, row) for run in runs for row in run.rows if row.variant == variant]
    places = {named(run, row): _cell(run, row.sample) for run, row in rows}
    by_group = runs[0].by_group
    there = [
        (places[key], aim)
        for aim in aims
        if (key := (aim.rating.sample_id, "" if by_group else aim.rating.model)) in places
    ]
    clusters = {_cell(run, row.sample)[0]: row.sample.cluster for run, row in rows}
    people = [
        ((cell[0], aim.decoding or ""), cell[1], aim.rating.rater, aim.rating.value)
        for cell, aim in there
        if aim.rating.value is not None
    ]
    documents = sorted({document for document, _, _, _ in people})
    systems = sorted({system for _, system, _, _ in people})
    raters = sorted({rater for _, _, rater, _ in people})
    tables = _judge_tables(rows, (documents, systems), judges=judges)
    file = runs[0].file
    return Panel(
        task=file.run.task,
        variant=variant,
        scale=scale,
        documents=tuple("@".join(filter(None, name)) for name in documents),
        clusters=tuple(clusters[document] for document, _ in documents),
        systems=tuple(systems),
        raters=tuple(raters),
        ratings=_means(people, (documents, systems, raters)),
        judges=tuple(tables),
        decodings=tuple(dict.fromkeys(row.decoding for _, row in rows)),
        recipe="|".join(recipe_of(runs[0], variant)[:3]),
        given=f"ratings:{digest(sorted(people))[:8]},{scale}|v{file.version}",
        offered=len(aims),
        unmatched=len(aims) - len(there),
    )


def _cell(run: StoredRun, sample: Sample) -> Cell:
    """The document and the system of a response, as the task takes them."""
    unit = run.file.task.unit
    document = sample.id if unit.document == "sample" else sample.cluster
    return document, run.file.model.name if unit.system == "model" else sample.group


def _judge_tables(
    rows: Sequence[tuple[StoredRun, SampleRecord]],
    axes: tuple[Sequence[_Document], Sequence[str]],
    *,
    judges: Sequence[str],
) -> Iterator[JudgeTable]:
    """Each judge's values; those that different snapshots or recipes stand behind are apart."""
    cells: dict[_JudgeColumn, list[tuple[_Document, str, str, float]]] = {}
    models: dict[_JudgeColumn, set[str]] = {}
    for run, row in rows:
        for entry in run.file.judges:
            if (judges and entry.name not in judges) or entry.name not in row.verdicts:
                continue
            verdict = row.verdicts[entry.name]
            witness = _witness(run, entry, verdict.served or "")
            models.setdefault(witness, set()).add(_model(run))
            if verdict.value is not None:
                document, system = _cell(run, row.sample)
                cells.setdefault(witness, []).extend(
                    ((document, way), system, "", verdict.value) for way in ("", row.decoding)
                )
    # One that gave no value at all has no snapshot either, and is there all the same.
    silent = [w for w in models if w not in cells and not any(_is_of(w, c) for c in cells)]
    for witness in sorted([*cells, *silent], key=lambda w: (w.judge, w.model, w.recipe, w.served)):
        values = _means(cells.get(witness, []), (*axes, [""]))[:, :, 0]
        yield JudgeTable(
            witness.judge, witness.model, _line(witness, models[witness], rows), values
        )


def _witness(run: StoredRun, entry: JudgeEntry, served: str) -> _JudgeColumn:
    model = run.file.model.name if run.by_group else ALL_SYSTEMS
    return _JudgeColumn(entry.name, model, entry.recipe, served)


def _is_of(one: _JudgeColumn, other: _JudgeColumn) -> bool:
    """Whether two differ in their snapshots at most."""
    return replace(one, served="") == replace(other, served="")


def _model(run: StoredRun) -> str:
    model = run.file.model
    return f"{model.name}:{model.kind}@{model.revision or 'unknown'}"


def _line(
    witness: _JudgeColumn, models: Iterable[str], rows: Sequence[tuple[StoredRun, SampleRecord]]
) -> str:
    """The part of a signature on models, decodings and judge."""
    file = rows[0][0].file
    if witness.model != ALL_SYSTEMS:
        file = next(run.file for run, _ in rows if run.file.model.name == witness.model)
    recipe = JudgeRecipe.parse(witness.recipe)
    judge = recipe.at(witness.served)
    return "|".join(map(clean, ("+".join(sorted(models)), _drawn(file), judge, recipe.way)))


def _drawn(file: RunFile) -> str:
    """How answers were drawn."""
    ways = headline_label([f"T{decoding.temperature:g}" for decoding in file.run.decodings])
    return f"{ways},n{file.run.decodings[0].n},s{file.run.seed}"


def _means(
    values: Iterable[tuple[_Document, str, str, float]],
    axes: tuple[Sequence[_Document], Sequence[str], Sequence[str]],
) -> Floats:
    """Values by document, system and rater: the mean of those of one place, NaN without any."""
    places = [{name: place for place, name in enumerate(axis)} for axis in axes]
    sums, counts = (np.zeros([len(axis) for axis in axes]) for _ in range(2))
    for document, system, rater, value in values:
        if document in places[0] and system in places[1]:
            place = places[0][document], places[1][system], places[2][rater]
            sums[place] += value
            counts[place] += 1
    return ratio(sums, counts)


def named(run: StoredRun, row: SampleRecord) -> tuple[str, str]:
    """The sample and model by which a rating names a response."""
    return row.sample.id, "" if run.by_group else run.file.model.name


def recipe_of(run: StoredRun, variant: str) -> tuple[str, ...]:
    """What runs share that may stand in one panel; its first three fields begin a signature."""
    file = run.file
    shared = (file.run.task, f"data:{file.data.label}", variant)
    if run.by_group:
        return shared
    words = f"{file.run.task}:{file.variants[variant][:8]}"
    return (words, *shared[1:], _drawn(file), f"v{file.version}")
