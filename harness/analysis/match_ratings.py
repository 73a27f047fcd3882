"""Stored runs and ratings to panels: which runs and ratings are of the same variant and recipe.

Nothing here computes a statistic or writes a file.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from harness.analysis.panels import Panel, RatingTarget, StoredRun, named, panel_of, recipe_of
from harness.data.ratings import Rating
from harness.errors import DataError, SpecError, StoreError, did_you_mean
from harness.storage.runs import RunFolder


@dataclass(frozen=True, slots=True)
class AgreementQuery:
    """What to compare: judges and variants by name (none: all judges, the variants rated)."""

    judges: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    is_strict: bool = False


def stored_runs(folders: Iterable[RunFolder], task: str) -> list[StoredRun]:
    """The runs of a task, in the order of their folders."""
    found = [(folder, folder.read()) for folder in folders]
    runs = [StoredRun(file, folder.read_rows()) for folder, file in found if file.run.task == task]
    if not runs:
        known = sorted({file.run.task for _, file in found})
        raise StoreError(
            f"no run of task {task!r}{did_you_mean(task, known)}; "
            "`harness run` makes one, or see --results"
        )
    return runs


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
