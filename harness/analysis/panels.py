"""Runs of one recipe and ratings of one variant to a panel: people and judges on the same cells.

What a document and a system are, the task says; where the system is a sample's group, the model
of each run rated the systems, and is a judge. Nothing here computes a statistic.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from harness.analysis.stored_runs import StoredRun
from harness.core import Sample
from harness.data.ratings import Rating
from harness.errors import DataError, SpecError, StoreError, did_you_mean
from harness.parts import digest
from harness.pipeline.scores import headline_label
from harness.stats.estimate import Floats, ratio
from harness.storage.runs import JudgeEntry, RunFile, SampleRecord

ALL_SYSTEMS = "all"
Cell = tuple[str, str]
_Document = tuple[str, str]  # its name, and the decoding it is of, empty for all of them


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
    name, way = witness.recipe.split("|")
    judge = f"{name}@{witness.served}" if witness.served else name
    fields = ("+".join(sorted(models)), _drawn(file), judge, way)
    # A snapshot's name is a server's to choose: it ends neither the field nor the line.
    return "|".join(re.sub(r"[|\s]", "_", field) for field in fields)


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


@dataclass(frozen=True, slots=True)
class AgreementQuery:
    """What to compare: judges and variants by name (none: all judges, the variants rated)."""

    judges: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    is_strict: bool = False


def panels(
    runs: Sequence[StoredRun], ratings: Sequence[Rating], question: AgreementQuery
) -> list[Panel]:
    """A panel for each variant, scale and recipe; of several recipes, those that were rated."""
    task = runs[-1].file.task
    found = []
    for (variant, scale), aims in _aimed(runs, ratings, _wanted(runs, question)).items():
        chosen = [run for run in runs if variant in run.file.run.variants]
        if question.is_strict:
            _check_known(chosen, aims, variant=variant)
        several = [
            panel_of(members, aims, where=(variant, scale), judges=question.judges)
            for members in _by_recipe(chosen, variant)
        ]
        rated = [panel for panel in several if panel.documents]
        found += rated or several[:1]
    if not found:
        wanted = ", ".join(question.variants or task.default_variants[:1])
        raise StoreError(f"no run of variant {wanted} that was rated; run it, or see --variant")
    return found


def unmatched(runs: Sequence[StoredRun], ratings: Sequence[Rating]) -> int:
    """How many ratings are of a variant that no run has."""
    known = _variants(runs)
    ran = {name for run in runs for name in run.file.run.variants}
    found = [_variant_of(part.scale, known)[0] for part in ratings]
    return sum(variant is not None and variant not in ran for variant in found)


def _wanted(runs: Sequence[StoredRun], question: AgreementQuery) -> set[str]:
    """The variants asked for by name; judges that read no run are refused."""
    judges = sorted({entry.name for run in runs for entry in run.file.judges})
    for name in question.judges:
        if name not in judges:
            raise SpecError(f"no run was read by judge {name!r}{did_you_mean(name, judges)}")
    known = sorted(_variants(runs))
    if "all" in question.variants:
        return set(known)
    return {_full_name(name, known) for name in question.variants}


def _variants(runs: Sequence[StoredRun]) -> set[str]:
    """Every variant of the task, as the runs know it."""
    return {name for run in runs for name in (*run.file.task.variants, *run.file.run.variants)}


def _full_name(name: str, known: list[str]) -> str:
    """The variant of a name, which may be told by what stands after its first colon."""
    ends = [variant for variant in known if variant.partition(":")[2] == name]
    if name not in known and len(ends) != 1:
        raise SpecError(f"no variant {name!r}{did_you_mean(name, [*known, 'all'])}")
    return name if name in known else ends[0]


def _check_known(runs: Sequence[StoredRun], aims: Sequence[RatingTarget], *, variant: str) -> None:
    """Refuse a rating of a sample or a model that no run of the variant has."""
    by_group = bool(runs) and runs[-1].by_group
    known = {named(run, row) for run in runs for row in run.rows if row.variant == variant}
    for aim in aims:
        part = aim.rating
        if (part.sample_id, "" if by_group else part.model) not in known:
            raise DataError(
                f"{part.place}: no run of variant {variant} has sample {part.sample_id!r} by model "
                f"{part.model!r}; correct the names, or leave --strict out"
            )


def _aimed(
    runs: Sequence[StoredRun], ratings: Sequence[Rating], wanted: set[str]
) -> dict[tuple[str, str], list[RatingTarget]]:
    """Ratings by variant and scale: a scale that names a variant goes with that one alone."""
    task = runs[-1].file.task
    known = _variants(runs)
    ran = {name for run in runs for name in run.file.run.variants}
    found: dict[tuple[str, str], list[RatingTarget]] = {}
    for part in ratings:
        variant, decoding = _variant_of(part.scale, known)
        if variant is None:
            names, scale = wanted or set(task.default_variants[:1]), part.scale
        else:
            names, scale = {variant} & (wanted or known), variant
        for name in sorted(names & ran):
            found.setdefault((name, scale), []).append(RatingTarget(part, decoding))
    return dict(sorted(found.items()))


def _variant_of(scale: str, known: set[str]) -> tuple[str | None, str | None]:
    """The variant and the decoding that a scale such as `base` or `base@T0.3` names."""
    if scale in known:
        return scale, None
    variant, _, decoding = scale.rpartition("@")
    return (variant, decoding) if variant in known else (None, None)


def _by_recipe(runs: Sequence[StoredRun], variant: str) -> Iterator[list[StoredRun]]:
    """Runs that may be compared: systems need one recipe, judges of systems only one data set."""
    ordered = sorted(runs, key=lambda run: recipe_of(run, variant))
    for _, members in groupby(ordered, key=lambda run: recipe_of(run, variant)):
        yield _fullest(list(members))


def _fullest(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """One run of each model, the one with most rows; two versions of one model are refused."""
    best: dict[str, StoredRun] = {}
    for run in runs:
        held = best.setdefault(run.file.model.name, run)
        if held.file.model.identity != run.file.model.identity:
            raise StoreError(
                f"two versions of model {run.file.model.name} ran ({held.file.digest[:12]}, "
                f"{run.file.digest[:12]}), and ratings name the model alone; move one run away"
            )
        if len(run.rows) > len(held.rows):
            best[run.file.model.name] = run
    return [best[name] for name in sorted(best)]
