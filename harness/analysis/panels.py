"""Runs with people's ratings of their answers to panels.

A panel has people and judges on the same cells: ratings are matched with the runs of their
variant, and only runs of one recipe share a panel. The task sets what is a document and what a
system; where the system is a sample's group, the model of each run rated the systems, and is a
judge. Nothing here computes a statistic.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from harness.analysis.pairings import describe_differences
from harness.core import Sample
from harness.data.ratings import read_ratings
from harness.errors import SpecError, StoreError, did_you_mean
from harness.judges.asking import Orders, is_consistent, value_of
from harness.parts import digest
from harness.pipeline.score import headline_label
from harness.stats.estimate import Floats, ratio, snapped
from harness.storage.find_runs import stored_runs
from harness.storage.frames import Row, records
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import RunFile, RunFolder, StoredRun
from harness.storage.signature import JudgeRecipe, clean

ALL_SYSTEMS = "all"
Cell = tuple[str, str]
_JudgeColumn = tuple[str, str, str, str]  # a judge's name, its model or "all", recipe and snapshot
_Document = tuple[str, str]  # its name, and the decoding it is of, empty for all of them


@dataclass(frozen=True, slots=True)
class JudgeTable:
    """One judge's values of a panel's cells, NaN where it has none.

    `model` is "all", or the model that gave the ratings where a run's model is a judge. `split`
    counts the verdicts of a half that two orders of the options gave by disagreeing; `orders` says
    which order was read.
    """

    judge: str
    model: str
    recipe: str
    values: Floats
    split: int = 0
    orders: Orders = "both"


@dataclass(frozen=True, slots=True)
class Panel:
    """People's ratings, documents x systems x raters, and the judges' values of the same cells.

    Where ratings name decodings, a document has a row for each: `rated` are these decodings, and
    `sources` the documents of the rows; both are empty where each row is a document. `unmatched`
    of the `offered` ratings are of nothing that was run; `recipe` is the part of a signature
    before the judge, `given` the part after it.
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
    sources: tuple[str, ...] = ()
    rated: tuple[str, ...] = ()

    @property
    def of_rows(self) -> tuple[str, ...]:
        """The document of each row; several rows are of one where decodings were rated apart."""
        return self.sources or self.documents


@dataclass(frozen=True, slots=True)
class RatingTarget:
    """A rating and the decoding of the answer that it is of, None where it is of all."""

    rating: Row
    decoding: str | None


def panel_of(
    runs: Sequence[StoredRun],
    targets: Sequence[RatingTarget],
    *,
    where: tuple[str, str],
    query: "AgreementQuery",
) -> Panel:
    """The panel of runs of one recipe; `where` is its variant and scale."""
    variant, scale = where
    rows = [(run, row) for run in runs for row in run.rows if row.variant == variant]
    cells = {named(run, row): _cell(run, row.sample) for run, row in rows}
    matched = [
        (cells[key], target) for target in targets if (key := _named(runs[0], target)) in cells
    ]
    clusters = {_cell(run, row.sample)[0]: row.sample.cluster for run, row in rows}
    people = [
        ((cell[0], target.decoding or ""), cell[1], target.rating.rater, target.rating.value)
        for cell, target in matched
        if target.rating.value is not None
    ]
    documents = sorted({document for document, _, _, _ in people})
    systems = sorted({system for _, system, _, _ in people})
    raters = sorted({rater for _, _, rater, _ in people})
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
        judges=tuple(_judge_tables(rows, (documents, systems), query=query)),
        decodings=tuple(dict.fromkeys(row.decoding for _, row in rows)),
        recipe="|".join(recipe_of(runs[0], variant)[:3]),
        given=f"ratings:{digest(sorted(people))[:8]},{scale}|v{file.version}",
        offered=len(targets),
        unmatched=len(targets) - len(matched),
        sources=tuple(document for document, _ in documents),
        rated=tuple(sorted({decoding for _, decoding in documents if decoding})),
    )


def _named(run: StoredRun, target: RatingTarget) -> tuple[str, str]:
    return target.rating.sample_id, "" if run.by_group else target.rating.model


def _cell(run: StoredRun, sample: Sample) -> Cell:
    unit = run.file.task.unit
    document = sample.id if unit.document == "sample" else sample.cluster
    return document, run.file.model.name if unit.system == "model" else sample.group


def _judge_tables(
    rows: Sequence[tuple[StoredRun, SampleRecord]],
    axes: tuple[Sequence[_Document], Sequence[str]],
    *,
    query: "AgreementQuery",
) -> Iterator[JudgeTable]:
    cells: dict[_JudgeColumn, list[tuple[_Document, str, str, float]]] = {}
    agreed: dict[_JudgeColumn, list[bool | None]] = {}
    models: dict[_JudgeColumn, set[str]] = {}
    for run, row in rows:
        tested = run.file.model
        for entry in run.file.judges:
            if (query.judges and entry.name not in query.judges) or entry.name not in row.verdicts:
                continue
            verdict = row.verdicts[entry.name]
            model = tested.name if run.by_group else ALL_SYSTEMS
            column = (entry.name, model, entry.recipe, verdict.served or "")
            version = f"{tested.name}:{tested.kind}@{tested.revision or 'unknown'}"
            models.setdefault(column, set()).add(version)
            value = value_of(verdict.value, verdict.detail, query.orders)
            if value is not None:
                document, system = _cell(run, row.sample)
                cells.setdefault(column, []).extend(
                    ((document, label), system, "", value) for label in ("", row.decoding)
                )
                agreed.setdefault(column, []).append(is_consistent(verdict.detail))
    # A judge that gave no value at all has no snapshot either, and gets a table all the same.
    voiced = {column[:3] for column in cells}
    for column in sorted([*cells, *(silent for silent in models if silent[:3] not in voiced)]):
        values = _means(cells.get(column, []), (*axes, [""]))[:, :, 0]
        has_two = any(agrees is not None for agrees in agreed.get(column, ()))
        orders: Orders = query.orders if has_two else "both"
        recipe = _recipe(column, models[column], rows, orders=orders)
        split = agreed.get(column, []).count(False) if orders == "both" else 0
        yield JudgeTable(*column[:2], recipe, values, split, orders)


def _recipe(
    column: _JudgeColumn,
    models: Iterable[str],
    rows: Sequence[tuple[StoredRun, SampleRecord]],
    *,
    orders: Orders,
) -> str:
    _, model, parsed, served = column
    named = (run.file for run, _ in rows if model in (ALL_SYSTEMS, run.file.model.name))
    recipe = JudgeRecipe.parse(parsed)
    way = recipe.way if orders == "both" else f"{orders}-of-{recipe.way}"
    parts = ("+".join(sorted(models)), _sampling(next(named)), recipe.at(served), way)
    return "|".join(map(clean, parts))


def _sampling(file: RunFile) -> str:
    label = headline_label([f"T{decoding.temperature:g}" for decoding in file.run.decodings])
    return f"{label},n{file.run.decodings[0].n},s{file.run.seed}"


def _means(
    values: Iterable[tuple[_Document, str, str, float]],
    axes: tuple[Sequence[_Document], Sequence[str], Sequence[str]],
) -> Floats:
    documents, systems, raters = ({name: at for at, name in enumerate(axis)} for axis in axes)
    sums, counts = (np.zeros([len(axis) for axis in axes]) for _ in range(2))
    for document, system, rater, value in values:
        if document in documents and system in systems:
            cell = documents[document], systems[system], raters[rater]
            sums[cell] += value
            counts[cell] += 1
    return snapped(ratio(sums, counts))


def named(run: StoredRun, row: SampleRecord) -> tuple[str, str]:
    """The sample and model by which a rating names a response."""
    return row.sample.id, "" if run.by_group else run.file.model.name


def recipe_of(run: StoredRun, variant: str) -> tuple[str, ...]:
    """The fields that runs of one panel share; the first three begin a signature."""
    file = run.file
    shared = (file.run.task, f"data:{file.data.label}", variant)
    if run.by_group:
        return shared
    words = f"{file.run.task}:{file.variants[variant][:8]}"
    return (words, *shared[1:], _sampling(file), f"v{file.version}")


@dataclass(frozen=True, slots=True)
class AgreementQuery:
    """The judges and variants to compare, by name; without any, all judges, or those rated.

    `orders` other than both reads one order of verdicts that were asked for in two.
    """

    judges: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    orders: Orders = "both"


def rated_panels(
    ratings: Path, folders: Sequence[RunFolder], query: AgreementQuery
) -> Iterator[Panel]:
    """The panels of a file of ratings, task by task; StoreError for a task without runs."""
    return panels_of(records(read_ratings(ratings)), folders, query)


def panels_of(
    ratings: Sequence[Row], folders: Sequence[RunFolder], query: AgreementQuery
) -> Iterator[Panel]:
    """The panels of some ratings, task by task; StoreError for a task without runs."""
    given = sorted(ratings, key=lambda rating: rating.task)
    for task, rated in groupby(given, key=lambda rating: rating.task):
        yield from match_ratings(stored_runs(folders, task), list(rated), query)


def match_ratings(
    runs: Sequence[StoredRun], ratings: Sequence[Row], query: AgreementQuery
) -> list[Panel]:
    """A panel for each variant, scale and recipe; of several recipes, those that were rated."""
    if query.orders != "both" and all(
        is_consistent(verdict.detail) is None
        for run in runs
        for row in run.rows
        for verdict in row.verdicts.values()
    ):
        raise SpecError(
            f"--orders {query.orders}: no verdict of task {runs[-1].file.run.task} was asked for "
            "in two orders; leave --orders out"
        )
    matched: list[Panel] = []
    for (variant, scale), targets in _targets(runs, ratings, _wanted(runs, query)).items():
        chosen = [run for run in runs if variant in run.file.run.variants]
        # Systems need one recipe, judges of systems only one data set.
        shared = sorted({recipe_of(run, variant) for run in chosen})
        by_recipe = (_fullest(r for r in chosen if recipe_of(r, variant) == one) for one in shared)
        several = [
            panel_of(members, targets, where=(variant, scale), query=query) for members in by_recipe
        ]
        matched += [panel for panel in several if panel.documents] or several[:1]
    if not matched:
        wanted = ", ".join(query.variants or runs[-1].file.task.default_variants[:1])
        raise StoreError(f"no run of variant {wanted} that was rated; run it, or see --variant")
    return matched


def unmatched(runs: Sequence[StoredRun], ratings: Sequence[Row]) -> int:
    """How many ratings are of a variant that no run has."""
    known = _variants(runs)
    ran = {name for run in runs for name in run.file.run.variants}
    variants = [_variant_of(rating.scale, known)[0] for rating in ratings]
    return sum(variant is not None and variant not in ran for variant in variants)


def _wanted(runs: Sequence[StoredRun], query: AgreementQuery) -> set[str]:
    judges = sorted({entry.name for run in runs for entry in run.file.judges})
    for name in query.judges:
        if name not in judges:
            raise SpecError(f"no run was read by judge {name!r}{did_you_mean(name, judges)}")
    known = sorted(_variants(runs))
    if "all" in query.variants:
        return set(known)
    # A name may be the part after the variant's first colon.
    ends = {
        name: [full for full in known if full.partition(":")[2] == name] for name in query.variants
    }
    if bad := [name for name in query.variants if name not in known and len(ends[name]) != 1]:
        raise SpecError(f"no variant {bad[0]!r}{did_you_mean(bad[0], [*known, 'all'])}")
    return {name if name in known else ends[name][0] for name in query.variants}


def _variants(runs: Sequence[StoredRun]) -> set[str]:
    return {name for run in runs for name in (*run.file.task.variants, *run.file.run.variants)}


def _targets(
    runs: Sequence[StoredRun], ratings: Sequence[Row], wanted: set[str]
) -> dict[tuple[str, str], list[RatingTarget]]:
    """Ratings by variant and scale: a scale that names a variant goes with that one alone."""
    task = runs[-1].file.task
    known = _variants(runs)
    ran = {name for run in runs for name in run.file.run.variants}
    targets: dict[tuple[str, str], list[RatingTarget]] = {}
    for rating in ratings:
        variant, decoding = _variant_of(rating.scale, known)
        if variant is None:
            names, scale = wanted or set(task.default_variants[:1]), rating.scale
        else:
            names, scale = {variant} & (wanted or known), variant
        for name in sorted(names & ran):
            targets.setdefault((name, scale), []).append(RatingTarget(rating, decoding))
    return dict(sorted(targets.items()))


def _variant_of(scale: str, known: set[str]) -> tuple[str | None, str | None]:
    """The variant and the decoding that a scale such as `base` or `base@T0.3` names."""
    if scale in known:
        return scale, None
    variant, _, decoding = scale.rpartition("@")
    return (variant, decoding) if variant in known else (None, None)


def _fullest(runs: Iterable[StoredRun]) -> list[StoredRun]:
    """One run of each model, the one with most rows; two versions of one model are refused."""
    best: dict[str, StoredRun] = {}
    for run in runs:
        other = best.setdefault(run.file.model.name, run)
        if other.file.model.identity != run.file.model.identity:
            raise StoreError(
                f"two versions of model {run.file.model.name} ran, and ratings name the model alone"
                f"{describe_differences(other.file, run.file)}; move one run away"
            )
        if len(run.rows) > len(other.rows):
            best[run.file.model.name] = run
    return [best[name] for name in sorted(best)]
