"""Runs joined with people's ratings of their answers: panels of people and judges.

Where a task's system is a sample's group, the model of each run rated them, and is a judge.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.analysis.pairings import describe_differences
from harness.data.ratings import named_ratings
from harness.errors import SpecError, StoreError, check_names
from harness.judges.asking import CONSISTENCY, FIRST_SLOT, Orders
from harness.lazy import DataFrame, Series, pandas
from harness.parts import digest
from harness.pipeline.verdict_frame import headline_label
from harness.stats.estimate import Floats, ratio, snapped
from harness.storage.find_runs import task_folders
from harness.storage.frames import load
from harness.storage.runs import RunFile, RunFolder
from harness.storage.signature import JudgeRecipe, clean

ALL_SYSTEMS = "all"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgreementQuery:
    """The judges and variants to compare, by name, and which orders of two count."""

    judges: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    orders: Orders = "both"


@dataclass(frozen=True, slots=True)
class JudgeTable:
    """One judge's values of a panel's cells, NaN where it has none.

    `model` is "all", or the run's model that is the judge. `split` counts the verdicts of a half
    that two orders of the options gave by disagreeing.
    """

    judge: str
    model: str
    recipe: str
    values: Floats
    split: int = 0
    orders: Orders = "both"


@dataclass(frozen=True, slots=True)
class Panel:
    """People's ratings, rows x systems x raters, and the judges' values of the same cells.

    A row is a document, at the decoding that its ratings name, if any. Of the `offered` ratings, by
    their index, the `unmatched` have no response here. `recipe` and `given` are parts of
    signatures; `label` is what no other recipe of the same ratings has.
    """

    task: str
    variant: str
    scale: str
    rows: tuple[tuple[str, str], ...]
    clusters: tuple[str, ...]
    systems: tuple[str, ...]
    raters: tuple[str, ...]
    ratings: Floats
    judges: tuple[JudgeTable, ...]
    decodings: tuple[str, ...]
    recipe: str
    given: str
    offered: frozenset[int]
    unmatched: frozenset[int]
    label: str = ""

    @property
    def documents(self) -> tuple[str, ...]:
        """The document of each row."""
        return tuple(document for document, _ in self.rows)

    @property
    def human(self) -> Floats:
        """The raters' mean of each cell."""
        counts = (~np.isnan(self.ratings)).sum(axis=2)
        return snapped(ratio(np.nansum(self.ratings, axis=2), counts))


def unmatched_ratings(found: Sequence[Panel]) -> frozenset[int]:
    """The indices of the ratings that have a response in none of the panels of all recipes."""
    unmatched = frozenset[int]().union(*(panel.unmatched for panel in found))
    return unmatched.difference(*(panel.offered - panel.unmatched for panel in found))


def panels(
    ratings: DataFrame, folders: Sequence[RunFolder], query: AgreementQuery
) -> Iterator[Panel]:
    """The panels of some ratings, task by task; StoreError for a task without runs."""
    for task, rated in ratings.groupby("task"):
        yield from _Rated(task_folders(folders, str(task)), query).panels(rated)


class _Rated:
    """The answers and verdicts of a task's runs, as ratings are joined with them."""

    def __init__(self, folders: Sequence[RunFolder], query: AgreementQuery) -> None:
        self._query = query
        self._files = {folder.key: folder.read() for folder in folders}
        self._last = [*self._files.values()][-1]
        task = self._last.task
        self._by_group = task.system == "group"
        answers = load(folders, "answers", ["row", "sample", "variant", "decoding"])
        samples = load(folders, "samples", ["sample", "cluster", "group"])
        answers = answers.merge(samples, on=["task", "model", "run", "sample"]).astype(object)
        self._answers = answers.assign(
            document=answers[task.document],
            system=answers["group" if self._by_group else "model"],
            sample_id=answers["sample"],
            model="" if self._by_group else answers["model"],
        )
        columns = ["row", "judge", "value", "served", CONSISTENCY, FIRST_SLOT]
        self._verdicts = load(folders, "verdicts", columns).drop(columns=["task", "model"])
        if query.orders != "both" and self._verdicts[CONSISTENCY].isna().all():
            raise SpecError(
                f"--orders {query.orders}: no verdict of task {self._last.run.task} was asked for "
                "in two orders; leave --orders out"
            )

    def panels(self, ratings: DataFrame) -> list[Panel]:
        """A panel for each variant, scale and recipe; of several recipes, those that were rated."""
        matched: list[Panel] = []
        for (variant, scale), targets in self._targets(ratings).items():
            by_recipe: dict[tuple[str, ...], list[str]] = {}
            for name, file in self._files.items():
                if variant in file.run.variants:
                    by_recipe.setdefault(self._recipe(file, variant), []).append(name)
            several = {
                recipe: self._panel(self._fullest(names), targets, variant, scale)
                for recipe, names in sorted(by_recipe.items())
            }
            rated = {recipe: panel for recipe, panel in several.items() if panel.rows}
            matched += self._labelled(rated) or [*several.values()][:1]
        if not matched:
            wanted = ", ".join(self._query.variants or self._last.task.default_variants[:1])
            raise StoreError(f"no run of variant {wanted} that was rated; run it, or see --variant")
        if lost := unmatched_ratings(matched):
            known = {name: sorted({*self._answers[name]}) for name in ("sample_id", "model")}
            found, words = ratings.loc[sorted(lost)], "%d of %d ratings match no response\n%s"
            _log.warning(words, len(lost), len(ratings), "\n".join(named_ratings(found, known)))
        return matched

    def _labelled(self, found: Mapping[tuple[str, ...], Panel]) -> list[Panel]:
        """The panels of several recipes, each labelled with its models and what else differs."""
        if len(found) < 2:
            return [*found.values()]
        varied = [at for at, own in enumerate(zip(*found, strict=True)) if len({*own}) > 1]
        made = []
        for recipe, panel in found.items():
            parts = [recipe[at].replace(f"{panel.task}:", "prompts ") for at in varied]
            models = [] if self._by_group else panel.systems[:3]
            made.append(replace(panel, label=", ".join([*models, *parts])))
        words = "ratings are of %d recipes, which are not compared with each other: %s"
        _log.warning(words, len(made), "; ".join(panel.label for panel in made))
        return made

    def _targets(self, ratings: DataFrame) -> dict[tuple[str, str], DataFrame]:
        """Ratings by variant and scale: a scale that names a variant goes with that one alone."""
        ran = {name for file in self._files.values() for name in file.run.variants}
        known = ran.union(*(file.task.variants for file in self._files.values()))
        wanted, lost = self._wanted(known), 0
        found: dict[tuple[str, str], list[DataFrame]] = {}
        for scale, rated in ratings.groupby("scale"):
            # A scale such as base@T0.3 names a variant and a decoding.
            name, _, drawn = scale.rpartition("@")
            is_drawn = scale not in known and name in known
            variant, decoding = (name, drawn) if is_drawn else (scale, "")
            names = wanted or {*self._last.task.default_variants[:1]}
            if variant in known:
                names = {variant} & (wanted or known)
                lost += len(rated) * (variant not in ran)
            for one in ran & names:
                found.setdefault((one, variant), []).append(rated.assign(decoding=decoding))
        if lost:
            task = self._last.run.task
            _log.warning("%d ratings are of variants of %s that no run has", lost, task)
        return {key: pandas.concat(found[key]) for key in sorted(found)}

    def _wanted(self, variants: set[str]) -> set[str]:
        """The variants that are asked for, which may be none; SpecError for unknown names."""
        judges = sorted({entry.name for file in self._files.values() for entry in file.judges})
        check_names("no run was read by judge", self._query.judges, judges)
        if "all" in self._query.variants:
            return variants
        check_names("no variant", self._query.variants, {*variants, "all"})
        return {*self._query.variants}

    def _recipe(self, file: RunFile, variant: str) -> tuple[str, ...]:
        """The fields that runs of one panel share; the first three begin a signature."""
        # Systems need one recipe, judges of systems only one data set.
        shared = (file.run.task, f"data:{file.data.label}", variant)
        if self._by_group:
            return shared
        words = f"{file.run.task}:{file.variants[variant][:8]}"
        return (words, *shared[1:], _sampling(file), f"v{file.version}")

    def _fullest(self, names: Sequence[str]) -> list[str]:
        """One run of each model, the one with most rows; two versions of one model are refused."""
        best: dict[str, str] = {}
        sizes = self._answers.run.value_counts()
        for name in names:
            file = self._files[name]
            other = self._files[best.setdefault(file.model.name, name)]
            if other.model.identity != file.model.identity:
                raise StoreError(
                    f"two versions of model {file.model.name} ran, and ratings name the model "
                    f"alone{describe_differences(other, file)}; move one run away"
                )
            best[file.model.name] = max(best[file.model.name], name, key=sizes.get)
        return [best[model] for model in sorted(best)]

    def _panel(self, names: list[str], targets: DataFrame, variant: str, scale: str) -> Panel:
        """The panel of some runs of one recipe."""
        answers = self._answers
        rows = answers[answers.run.isin(names) & (answers.variant == variant)]
        cells = rows.drop_duplicates(["sample_id", "model"], keep="last")
        cells = cells[["sample_id", "model", "document", "system", "run"]]
        given = targets.assign(model="") if self._by_group else targets
        given = given.assign(index=targets.index)
        matched = given.merge(cells, on=["sample_id", "model"], suffixes=("", "_here"))
        if "run_here" in matched:  # of two runs that differ in a limit, one was rated
            runs = zip(matched.run, matched.run_here, strict=True)
            is_own = np.array([here.startswith(run) for run, here in runs], dtype=bool)
            matched = matched[is_own]
        people = matched[matched.value.notna()]
        places = [*zip(people.document, people.decoding, strict=True)]
        people = people.assign(place=places)
        axes = {name: sorted(set(people[name])) for name in ("place", "system", "rater")}
        clusters = dict(zip(rows.document, rows.cluster, strict=True))
        file = self._files[names[0]]
        ratings = zip(places, people.system, people.rater, people.value.tolist(), strict=True)
        return Panel(
            task=file.run.task,
            variant=variant,
            scale=scale,
            rows=tuple(axes["place"]),
            clusters=tuple(clusters[document] for document, _ in axes["place"]),
            systems=tuple(axes["system"]),
            raters=tuple(axes["rater"]),
            ratings=_means(people, axes),
            judges=tuple(self._judges(rows, {name: axes[name] for name in ("place", "system")})),
            decodings=tuple(rows.decoding.unique()),
            recipe="|".join(self._recipe(file, variant)[:3]),
            given=f"ratings:{digest(sorted(ratings))[:8]},{scale}|v{file.version}",
            offered=frozenset(targets.index),
            unmatched=frozenset(targets.index.difference(matched["index"])),
        )

    def _judges(self, rows: DataFrame, axes: Mapping[str, list[Any]]) -> Iterator[JudgeTable]:
        """A table for each judge, model where a model judges, recipe and snapshot."""
        query, files = self._query, self._files
        known = {(n, e.name): e.recipe for n, file in files.items() for e in file.judges}
        columns = ["run", "row", "document", "system", "decoding"]
        found = self._verdicts.astype({"run": object}).merge(rows[columns], on=["run", "row"])
        found["recipe"] = [known.get(pair) for pair in zip(found.run, found.judge, strict=True)]
        if query.judges:
            found = found[found.judge.isin(query.judges)]
        models = found.run.map({name: file.model.name for name, file in files.items()})
        found = found.assign(
            by=models if self._by_group else ALL_SYSTEMS,
            served=found.served.astype(object).fillna(""),
            value=_in_order(found, query.orders),
            judge=found.judge.astype(object),
        )
        keys = ["judge", "by", "recipe", "served"]
        voiced = {*found[found.value.notna()][keys[:3]].itertuples(index=False, name=None)}
        for key, own in found.groupby(keys):
            values = own[own.value.notna()]
            # A judge that gave no value at all has no snapshot either, and one table.
            if not len(values) and key[:3] in voiced:
                continue
            orders: Orders = query.orders if values[CONSISTENCY].notna().any() else "both"
            both = [values.assign(decoding=""), values]
            cells = pandas.concat(both) if any(d for _, d in axes["place"]) else both[0]
            cells["place"] = [*zip(cells.document, cells.decoding, strict=True)]
            split = values[CONSISTENCY].lt(1).sum() if orders == "both" else 0
            ran = [files[name] for name in own.run.unique()]
            recipe = _judge_recipe(key[2], key[3], orders, ran)
            yield JudgeTable(key[0], key[1], recipe, _means(cells, axes), int(split), orders)


def _in_order(verdicts: DataFrame, orders: Orders) -> Series:
    """The values by both orders of the options, or by one alone; the first accepts slot 1."""
    if orders == "both":
        return verdicts.value
    first = verdicts[FIRST_SLOT] if orders == "first" else 1 - verdicts[FIRST_SLOT]
    return verdicts.value.where(verdicts.value.isna() | ~verdicts[CONSISTENCY].lt(1), first)


def _judge_recipe(text: str, served: str, orders: Orders, files: Sequence[RunFile]) -> str:
    models = [file.model for file in files]
    versions = {f"{one.name}:{one.kind}@{one.revision or 'unknown'}" for one in models}
    recipe = JudgeRecipe.parse(text)
    way = recipe.way if orders == "both" else f"{orders}-of-{recipe.way}"
    parts = ("+".join(sorted(versions)), _sampling(files[0]), recipe.at(served), way)
    return "|".join(map(clean, parts))


def _sampling(file: RunFile) -> str:
    label = headline_label([f"T{decoding.temperature:g}" for decoding in file.run.decodings])
    return f"{label},n{file.run.decodings[0].n},s{file.run.seed}"


def _means(cells: DataFrame, axes: Mapping[str, list[Any]]) -> Floats:
    """The mean of the values of each cell of some axes, NaN without any."""
    means = cells.groupby([*axes]).value.mean()
    found = means.reindex(pandas.MultiIndex.from_product(axes.values(), names=axes))
    return snapped(found.to_numpy(float).reshape([*map(len, axes.values())]))
