"""Boards side by side as people see them: models by variants, seeds together; and notes on ranks.

Nothing here ranks, prints or writes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from harness.analysis.boards.alarms import Row, missing_words, three
from harness.lazy import DataFrame
from harness.stats.estimate import LEAST_CLUSTERS, NoValue
from harness.storage.find_runs import data_words
from harness.storage.frames import records
from harness.storage.runs import RunFile
from harness.storage.signature import Signature, short_labels


def matrices(
    boards: DataFrame, files: Mapping[str, RunFile], *, is_all: bool = False
) -> list[DataFrame]:
    """The rows of `standings` whose signatures differ in model, seed, variant and its words alone.

    `files` has the first run of each recipe, by name. `attrs` of each: `variants`, its columns from
    left to right; `averaged`, the variants that are left out because a column is the average over
    them, none with `is_all`; `label`, what differs from others of the same task and judge. The
    task's own judge comes first.
    """
    rest = boards["recipe"].astype(object).map(_rest)
    alike = boards["task"].astype(object) + "|" + rest
    # The same variant in other words has a matrix of its own.
    words = boards.assign(alike=alike).groupby(["alike", "variant"], observed=True, sort=False)
    number = words["prompts"].transform(lambda own: own.astype(object).factorize()[0])
    keys = [alike, number.astype(int)]
    found = [
        _matrix(own.reset_index(drop=True), files, is_all=is_all)
        for _, own in boards.groupby(keys, sort=False)
    ]
    _label(found, files)
    return sorted(found, key=lambda one: _place(one, files))


def _rest(recipe: str) -> str:
    """A recipe without prompts, variant and seed."""
    _, data, _, drawn, *judged = recipe.split("|")
    return "|".join([data, drawn.rpartition(",")[0], *judged])


def _place(matrix: DataFrame, files: Mapping[str, RunFile]) -> tuple[str, int]:
    task, judge, run = (matrix[name].iat[0] for name in ("task", "judge", "run"))
    names, name = files[run].task.judges, judge.partition("@")[0]
    return task, names.index(name) if name in names else len(names)


def _matrix(own: DataFrame, files: Mapping[str, RunFile], *, is_all: bool) -> DataFrame:
    names = own["variant"].unique()
    pools = {
        name: files[run].task.variants[name].averaged_over
        for run in own.drop_duplicates("recipe")["run"]
        for name in files[run].run.variants
    }
    order = [*pools.values(), *pools]
    averaged = [name for name in names if pools.get(name) in names and not is_all]
    shown = [name for name in names if name not in averaged]
    shown.sort(key=lambda name: order.index(name) if name in order else len(order))
    found = own[own["variant"].isin(shown)].reset_index(drop=True)
    found.attrs |= {"variants": shown, "averaged": averaged, "label": ""}
    return found


def _label(found: Sequence[DataFrame], files: Mapping[str, RunFile]) -> None:
    alike: dict[tuple[str, str], list[DataFrame]] = {}
    for one in found:
        alike.setdefault((one["task"].iat[0], one["judge"].iat[0]), []).append(one)
    for members in alike.values():
        firsts = [(one["signature"].iat[0], one["run"].iat[0]) for one in members]
        for one, label in zip(members, recipe_labels(firsts, files), strict=True):
            one.attrs["label"] = label


def recipe_labels(recipes: Iterable[tuple[str, str]], files: Mapping[str, RunFile]) -> list[str]:
    """What differs between the recipes of some signatures and their runs, apart from models."""
    bare = dict.fromkeys(("model", "kind", "version", "variant", "seed"), "")
    plain = [(str(replace(Signature.parse(name), **bare)), run) for name, run in recipes]
    labels = short_labels({name: data_words(files[run]) for name, run in plain})
    return [labels[name].removeprefix(", ") for name, _ in plain]


Lines = Sequence[tuple[str, Sequence[Sequence[Row]]]]
"""The name of each model with its rows in each column: one a seed."""


def lines_of(matrix: DataFrame) -> Lines:
    """Each model of a matrix with its rows in each column: one a seed, none where it was not run.

    In the order of the first column; of several seeds the means count. Controls and constant
    answers come last.
    """
    variants = matrix.attrs["variants"]
    found: dict[str, list[list[Row]]] = {}
    for place, variant in enumerate(variants):
        rows: dict[str, list[Row]] = {}
        for row in matrix[matrix["variant"] == variant].itertuples():
            rows.setdefault(row.tested, []).append(row)
        names = list(rows)
        if any(len(own) > 1 for own in rows.values()):
            names.sort(key=lambda name: (rows[name][0].is_constant, -mean_of(rows[name])))
        for name in names:
            found.setdefault(name, [[] for _ in variants])[place] = rows[name]
    first = {name: next(own[0] for own in columns if own) for name, columns in found.items()}
    models = [row.model for row in first.values()]
    made = [
        (row.model if models.count(row.model) == 1 else name, found[name])
        for name, row in sorted(
            first.items(), key=lambda pair: pair[1].is_control or pair[1].is_constant
        )
    ]
    return made


def mean_of(rows: Iterable[Row]) -> float:
    """The mean value of some rows; minus infinity where none has one."""
    known = [row.value for row in rows if not np.isnan(row.value)]
    return float(np.mean(known)) if known else -np.inf


def board_notes(boards: DataFrame) -> list[str]:
    """Why models, other than controls, have no rank, and why values have no interval: sentences."""
    open_ = boards[boards["value"].notna() & boards["low"].isna()]
    ends = [(row.model, _without_bounds(row)) for row in records(open_)]
    return [*rank_notes(boards), *_sentences("No interval", ends)]


def rank_notes(boards: DataFrame) -> list[str]:
    """Why models, other than controls, have no rank: a sentence a reason."""
    is_open = boards["rank"].isna() & ~boards["is_control"]
    has_ranks = boards.groupby("board")["rank"].transform("count") > 0
    rows = records(boards.assign(has_ranks=has_ranks)[is_open])
    return _sentences("No rank", [(row.model, _without_rank(row)) for row in rows])


def _sentences(what: str, found: Iterable[tuple[str, str]]) -> list[str]:
    """A sentence a reason, with the names of those that have it."""
    models: dict[str, dict[str, None]] = {}
    for model, reason in found:
        models.setdefault(reason, {})[model] = None
    return [f"{what} for {', '.join(own)}: {reason}." for reason, own in models.items() if reason]


def _without_rank(row: Row) -> str:
    if row.is_constant:
        rates = f"; TPR {three(row.tpr)}, FPR {three(row.fpr)}" if row.has_rates else ""
        return f"a constant answer (all texts, or nearly all, get one label{rates})"
    if row.value is None and row.n == 0:
        return f"nothing could be read ({missing_words(row)})"
    if row.value is None:
        return "there are no texts of one kind, or they were not read"
    return "it has too few of the verdicts that others have" if row.has_ranks else ""


def _without_bounds(row: Row) -> str:
    match row.why or (NoValue.TOO_FEW if row.clusters < LEAST_CLUSTERS else None):
        case NoValue.TOO_FEW:
            return f"too few independent items ({row.clusters})"
        case None if row.has_rates:
            return "its verdicts were not read"
        case None | NoValue.CONSTANT:
            return "all answers of a kind are alike, so that nothing shows how far they may vary"
        case other:
            return str(other)
