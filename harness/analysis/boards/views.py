"""Boards as people see them: models by variants, seeds together; and notes on ranks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from harness.analysis.boards.scores import Row, missing_words, three
from harness.analysis.pairings import DECISIONS
from harness.lazy import DataFrame, Series, pandas
from harness.pipeline.score import SHARES
from harness.stats.estimate import NoValue
from harness.stats.intervals import LEAST_CLUSTERS
from harness.stats.missing import mean_bounds
from harness.storage.find_runs import data_words
from harness.storage.frames import records
from harness.storage.runs import RunFile
from harness.storage.signature import Signature, short_labels


def matrices(
    boards: DataFrame,
    files: Mapping[str, RunFile],
    tags: Mapping[str, str] = {},
    *,
    is_all: bool = False,
) -> list[DataFrame]:
    """The rows of `standings` whose signatures differ in model, seed and variant alone.

    `files` has the first run of each recipe, by name, `tags` those of runs. `attrs` of each: its
    `variants`; `averaged`, those that are left out for their average, none with `is_all`; `means`,
    averages of variants that are there; `label`, what differs from others of the same task and
    judge. The task's own judge comes first.
    """

    def rest(recipe: str) -> str:
        """All of a recipe but prompts, variant and seed."""
        _, data, _, *others = without_seed(recipe)
        return "|".join([data, *others])

    keys = [boards["task"].astype(object), boards["recipe"].astype(object).map(rest)]
    # The same variant in other words has a matrix of its own.
    words = boards["recipe"].astype(object).map(lambda recipe: recipe.partition("|")[0])
    words = words.groupby([*keys, boards["variant"]], observed=True, sort=False)
    number = words.transform(lambda own: own.factorize()[0]).astype(int)
    groups = boards.groupby([*keys, number], sort=False)
    found = [_matrix(own.reset_index(drop=True), files, is_all=is_all) for _, own in groups]
    heads = [next(one[:1].itertuples()) for one in found]
    labels = recipe_labels(heads, [(head.task, head.judge) for head in heads], files, tags)
    for one, label in zip(found, labels, strict=True):
        one.attrs["label"] = label

    def place(matrix: DataFrame) -> tuple[str, int]:
        task, judge, run = (matrix[name].iat[0] for name in ("task", "judge", "run"))
        names, name = files[run].task.judges, judge.partition("@")[0]
        return task, names.index(name) if name in names else len(names)

    return sorted(found, key=place)


def overview(boards: Sequence[DataFrame]) -> DataFrame:
    """Models by tasks: the value of the first variant of the first of some `matrices` of each task.

    A dot marks a model that may be the best by its ranks, a star one with missing verdicts; several
    seeds are averaged. Controls are left out; a cell is missing where nothing was run.
    """
    firsts = {str(board["task"].iat[0]): board for board in reversed(boards)}
    tasks = list(dict.fromkeys(str(board["task"].iat[0]) for board in boards))
    found: dict[str, dict[str, str]] = {}
    for task in tasks:
        board = firsts[task]
        own = board[(board["variant"] == board.attrs["variants"][0]) & ~board["is_control"]]
        for model, rows in own.groupby(own["model"].astype(str), sort=False):
            marks = "." * bool((rows["rank_best"] == 1).all())
            marks += " *" * bool(rows["missing"].any())
            cell = "-" if rows["value"].isna().all() else f"{rows['value'].mean():.3f}{marks}"
            found.setdefault(str(model), {})[task] = cell
    made = pandas.DataFrame.from_dict(found, orient="index").reindex(columns=tasks)
    return made.rename_axis("model").reset_index()


def without_seed(recipe: str) -> tuple[str, ...]:
    """The parts of a recipe but for its seed: prompts, data, variant, repeats, judge, program."""
    prompts, data, variant, drawn, *judged = recipe.split("|")
    return (prompts, data, variant, drawn.rpartition(",")[0], *judged)


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
    means = {pools.get(name) for name in shown}
    found.attrs |= {"variants": shown, "averaged": averaged, "means": means}
    return found


def recipe_labels(
    rows: Sequence[Row],
    keys: Sequence[object],
    files: Mapping[str, RunFile],
    tags: Mapping[str, str] = {},
) -> list[str]:
    """What the recipe of each row differs in from those with its key, apart from models.

    `tags` of runs, by name, are for prompts, which differ in more than their token limits.
    """
    bare = dict.fromkeys(("variant", "seed"), "")
    groups: dict[object, dict[str, str]] = {}
    parts = [one.recipe.split("|") for one in rows]
    made = [Signature.parse("|".join([*own[:3], ":@", *own[3:]])) for own in parts]
    plain = [str(replace(one, **bare)) for one in made]
    for row, key, recipe in zip(rows, keys, plain, strict=True):
        groups.setdefault(key, {})[recipe] = data_words(files[row.run])
    labels = {key: short_labels(own) for key, own in groups.items()}
    said = [labels[key][recipe].removeprefix(", ") for key, recipe in zip(keys, plain, strict=True)]
    for key in labels:
        places = [at for at, own in enumerate(keys) if own == key]
        for names in (_token_limits(files), tags):
            own = {at: (made[at].prompts, names.get(rows[at].run, "")) for at in places}
            _call_prompts(said, own)
    return said


def _call_prompts(labels: list[str], names: Mapping[int, tuple[str, str]]) -> None:
    """In labels of some places write the name of each digest of prompts, if there is one of each.

    `names` has the digest and its name by the place of the label.
    """
    pairs, known = {*names.values()}, dict(names.values())
    if "" in known.values() or not len({*known.values()}) == len(pairs) == len(known) > 1:
        return
    for at, (prompts, name) in names.items():
        labels[at] = labels[at].replace(f"prompts {prompts}", name)


def _token_limits(files: Mapping[str, RunFile]) -> dict[str, str]:
    """The token limit of each run in words."""
    limits = {
        run: dict.fromkeys(f"{d.max_tokens}" for d in f.run.decodings) for run, f in files.items()
    }
    return {run: f"{', '.join(own)} tokens" for run, own in limits.items()}


def lines_of(matrix: DataFrame) -> list[tuple[str, list[list[Row]]]]:
    """Each model of a matrix with its rows in each column, one a seed; controls come last.

    A model that has answered in two ways is there twice.
    """
    variants: list[str] = matrix.attrs["variants"]
    cells: dict[tuple[tuple[str, str], str], list[Row]] = {}
    for row in matrix.assign(order=matrix["shared"].fillna(matrix["value"])).itertuples():
        cells.setdefault(((row.tested, row.answers), row.variant), []).append(row)
    firsts = {}
    for name in dict.fromkeys(name for name, _ in cells):
        place = next(at for at, variant in enumerate(variants) if (name, variant) in cells)
        rows = cells[name, variants[place]]
        known = [-row.order for row in rows if not np.isnan(row.order)]
        order = float(np.mean(known)) if known else np.inf
        is_apart = rows[0].is_control or rows[0].is_constant
        firsts[name] = is_apart, place, rows[0].is_constant, order, rows[0].model
    models = Counter(key[-1] for key in {name[0]: key for name, key in firsts.items()}.values())
    return [
        (key[-1] if models[key[-1]] == 1 else name[0], [cells.get((name, v), []) for v in variants])
        for name, key in sorted(firsts.items(), key=lambda pair: pair[1])
    ]


def ranked_on(boards: DataFrame) -> str:
    """On what models are ranked, on one board or from the least to the most of several."""
    sizes = boards[boards["rank"].notna()].groupby("board").size()
    several = boards[boards["board"].isin(sizes.index[sizes > 1]) & boards["rank"].notna()]
    known = several[several["rank_items"].notna()]
    if len(several) and not len(known):
        return "verdicts were not read: ranked by value alone"
    if not len(several):
        return "no rank: no item that all have" if (boards["rank_items"] == 0).any() else ""
    count = int(sizes.max())
    models = "both" if count == 2 else f"all {count}"
    pairs = "" if count == 2 else f", Holm over {count * (count - 1) // 2} pairs"
    items, clusters = (
        " to ".join(map("{:.0f}".format, sorted({known[name].min(), known[name].max()})))
        for name in ("rank_items", "rank_clusters")
    )
    return (
        f"ranked on the {items} verdicts that {models} have, of {clusters} independent items; "
        f"`may be`: ranks that are not excluded (clusters swapped{pairs})"
    )


def ranks(row: Row) -> str | None:
    """The ranks that a model may have, such as 2-4; None where others were not compared."""
    if np.isnan(row.rank_best):
        return None
    return "-".join(dict.fromkeys((f"{row.rank_best:.0f}", f"{row.rank_worst:.0f}")))


def ranks_if_wrong(is_ranked: Series, ends: Sequence[tuple[float, float]]) -> Series | None:
    """The ranks of those ranked were all that is missing wrong; None where nothing is."""
    if not ends:
        return None
    low = pandas.Series([low for low, _ in ends], dtype=float).where(is_ranked)
    low = low.round(12)  # equal shares of other counts differ by rounding
    return low.rank(method="min", ascending=False).astype("Int64")


def levels(rows: DataFrame) -> list[float]:
    """The chance levels of some rows, lowest and highest: of the headline, if that ranks."""
    found = sorted(rows.loc[rows["ranked_by"] == "mean", "chance"].dropna().round(3).unique())
    return found if len(found) < 3 else [found[0], found[-1]]


def with_missing(row: Row) -> tuple[float, float] | None:
    """The value were all that is missing wrong, and right; None where these are not known."""
    if row.ranked_by != "mean" or row.metric not in SHARES or np.isnan(row.value):
        return None
    return mean_bounds(row.value, row.n, row.missing, (0.0, 1.0))


def board_notes(boards: DataFrame, *, has_ends: bool = True) -> list[str]:
    """Why models, not controls, have no rank or no interval, and who misses more: sentences."""
    has_ranks = boards.groupby("board")["rank"].transform("count") > 0
    rows = boards.assign(has_ranks=has_ranks, ends=boards["value"].notna() & boards["low"].isna())
    models: dict[tuple[str, str], dict[str, None]] = {}
    for row in records(rows[boards["rank"].isna() & ~boards["is_control"]]):
        models.setdefault(("No rank", _without_rank(row)), {})[row.model] = None
    for row in records(rows[rows["ends"]]) if has_ends else ():
        models.setdefault(("No interval", _without_bounds(row)), {})[row.model] = None
    notes = [f"{what} for {', '.join(own)}: {why}." for (what, why), own in models.items() if why]
    if len(ways := sorted({*boards["answers"].astype(object)})) > 1:
        notes.append(f"Answered in different ways ({', '.join(ways)}): {DECISIONS}.")
    if unlike := boards.drop_duplicates("board")["unlike"].dropna().tolist():
        boards_left = len(unlike) - 1
        more = f"; so on {boards_left} other board{'s' * (boards_left > 1)}" * bool(boards_left)
        notes.append(f"{unlike[0]}{more}.")
    return notes


def _without_rank(row: Row) -> str:
    if row.is_constant:
        rates = f"; TPR {three(row.tpr)}, FPR {three(row.fpr)}" if row.has_rates else ""
        return f"a constant answer (all texts, or nearly all, get one label{rates})"
    if row.value is None and row.n == 0:
        return f"nothing could be read ({missing_words(row) or 'none'})"
    if row.value is None:
        return "there are no texts of one kind, or they were not read"
    return "it has too few of the verdicts that others have" if row.has_ranks else ""


def _without_bounds(row: Row) -> str:
    why = row.why or (NoValue.TOO_FEW if row.clusters < LEAST_CLUSTERS else None)
    if why is NoValue.TOO_FEW:
        return f"too few independent items ({row.clusters})"
    if why is None and row.has_rates:
        return "its verdicts were not read"
    alike = "all answers of a kind are alike, so no interval can be computed"
    return alike if why in (None, NoValue.CONSTANT) else str(why)
