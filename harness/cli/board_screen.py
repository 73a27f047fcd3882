"""Boards to tables on the screen: models by facts, or by variants; and warnings of alarms.

A task with one variant has a table with a column for each fact. With several variants a cell has
the value and the letter of its group. Runs that differ in their seeds alone share a line: their
mean and their spread.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from harness.analysis.boards import scores as scores_of
from harness.analysis.boards import views
from harness.analysis.boards.alarms import Row, alarms, judge_fitness, sensitivities
from harness.analysis.boards.ranked import RANKING
from harness.lazy import DataFrame, pandas
from harness.pipeline.score import ALL
from harness.present.screen import cell, folded, say, show, usd, warn
from harness.storage.find_runs import data_words
from harness.storage.runs import RunFile, RunFolder, ScoreRow

MOST_MODELS, MOST_VARIANTS, MOST_ALARMS = 12, 8, 2
"""How many lines, columns and alarms are printed without --all."""


def put_boards(
    boards: DataFrame,
    folders: Mapping[str, RunFolder],
    *,
    sort: str = "",
    is_all: bool = False,
    has_recipes: bool = False,
    has_tasks: bool = False,
) -> list[str]:
    """Print the board of the first task and its own judge, of all tasks, or with `is_all` all.

    `folders` are those of the runs, by name; `sort` names a variant, or is `model`. Returns what
    was left out, in words.
    """
    files = {name: folders[name].read() for name in boards["run"].unique()}
    made = views.matrices(boards, files, is_all=is_all)
    firsts = {matrix["task"].iat[0]: matrix for matrix in reversed(made)}
    shown = made if is_all else [*reversed(firsts.values())][: None if has_tasks else 1]
    left: list[str] = []
    for matrix in shown:
        left += _put_board(matrix, files, sort=sort, is_all=is_all)
        if has_recipes:
            say("\n".join(dict.fromkeys(matrix["recipe"])) + "\n")
    names = {_name(matrix) for matrix in shown}
    if others := [name for name in map(_name, made) if name not in names]:
        left.append(f"{len(others)} more boards ({folded(list(dict.fromkeys(others)))})")
    return left


def put_judges(
    found: DataFrame, boards: DataFrame, verdicts: DataFrame, *, is_all: bool = False
) -> None:
    """Warn of unfit judges; with `is_all` print all side by side, and what swapping changed."""
    log_unfit(judge_fitness(boards, verdicts))
    if not is_all:
        return
    sides = boards[~boards["judge"].astype(str).str.endswith(":swapped")]
    names = ["task", "variant", "decoding", "data", "model", "judge"]
    means = sides.astype(dict.fromkeys(names, str)).pivot_table(
        "value", names[:-1], "judge", sort=False
    )
    for (task, variant, *_), own in means.groupby(names[:-2], sort=False):
        if len(own := own.dropna(axis=1, how="all").droplevel(names[:-2]).reset_index()) and (
            len(own.columns) > 2
        ):
            show(own, f"judges side by side: {task}, {variant}")
    for _, own in sensitivities(found).groupby("recipe", sort=False, observed=True):
        first, judge = own.iloc[0], own["judge"].iat[0]
        title = f"sensitivity to emphasis, {judge} minus {judge}:swapped"
        columns = {"model": "model", "value": judge, "swapped": f"{judge}:swapped"}
        shown = own.rename(columns=columns)[[*columns.values(), "difference"]]
        show(shown, f"{title}: {first['task']}, {first['variant']}")


def _put_board(
    matrix: DataFrame, files: Mapping[str, RunFile], *, sort: str, is_all: bool
) -> list[str]:
    variants, lines = matrix.attrs["variants"], views.lines_of(matrix, sort)
    left = [f"the {n} variants that are averaged"] if (n := len(matrix.attrs["averaged"])) else []
    has_seeds = any(len(own) > 1 for _, columns in lines for own in columns)
    if not is_all and (more := len(variants) - MOST_VARIANTS) > 0:
        left.append(f"{more} more variants")
        variants = variants[:MOST_VARIANTS]
    lines = sorted(lines, key=lambda line: _is_apart(line[1]))
    if not is_all and (more := len(lines) - MOST_MODELS) > 0:
        left.append(f"{more} more models")
        lines = lines[:MOST_MODELS]
    if len(variants) == 1 and not has_seeds:
        shown = _facts(matrix, [own[0] for _, [own] in lines])
    else:
        rows = [[name, *map(_cell, columns[: len(variants)])] for name, columns in lines]
        levels = [_levels(matrix[matrix["variant"] == name].itertuples()) for name in variants]
        if any(levels):
            rows.append(["chance", *(" to ".join(map("{:.3f}".format, own)) for own in levels)])
        shown = pandas.DataFrame(rows, columns=["model", *variants])
        lost = [sum(r.missing for own in columns for r in own) for _, columns in lines]
        if any(lost):
            shown["missing"] = pandas.Series(lost, dtype=object)
    show(shown, "\n".join([_title(matrix), _words(matrix, files), *_ranked_on(matrix)]), keys=2)
    boards = matrix.groupby("board", sort=False)
    notes = dict.fromkeys(note for _, own in boards for note in views.board_notes(own))
    for note in notes if len(variants) == 1 else [*notes, "Intervals: --variant NAME."]:
        say(note, is_prose=True)
    if notes or len(variants) > 1:
        say("")
    return left


def _facts(matrix: DataFrame, rows: Sequence[Row]) -> DataFrame:
    """A board of one variant: a column for each fact that is known, controls and chance below."""
    by, levels, own = rows[0].ranked_by, _levels(rows), pandas.DataFrame(rows)
    constant = own["is_constant"] & ~own["is_control"]
    shared = own["shared"].notna() & (own["shared"] != own["value"])
    value = RANKING.get(by, "value")
    found = {
        "rank": own["rank"].map("{:.0f}".format, na_action="ignore"),
        "model": own["model"] + np.where(constant, " (constant answer)", ""),
        value: own["value"],
        "95% interval": [*zip(own["low"], own["high"], strict=True)],
        "on shared items": own["shared"] if shared.any() else None,
        "hits": own["tpr"] if by == "tpr_less_fpr" else None,
        "FPR": own["fpr"] if by in ("tpr_less_fpr", "tpr_at_fpr") else None,
        "chance": own["chance"] if by == "mean" and len(levels) > 1 else None,
        "n": own["n"],
        "missing": own["missing"] if own["missing"].any() else None,
        "group": own["rank_group"].map(_letters, na_action="ignore"),
        "cost USD": own["cost_usd"].map(usd, na_action="ignore"),
    }
    if own["rank"].notna().sum() < 2:
        del found["group"]
    shown = pandas.DataFrame(found, dtype=object)
    known = shown.columns[shown.notna().any() | (shown.columns == "rank")]
    shown = shown[known].rename(columns={"hits": "TPR"})
    if len(levels) == 1:
        shown.loc[len(shown)] = pandas.Series({"model": "chance", value: levels[0]})
    return shown


def _is_apart(columns: Sequence[Sequence[Row]]) -> bool:
    first = next(row for own in columns for row in own)
    return bool(first.is_control or first.is_constant)


def _cell(rows: Sequence[Row]) -> str:
    """The value of one run with the letter of its group, or mean and spread of several seeds."""
    if not rows:
        return ""
    mean = views.mean_of(rows)
    known = [row.value for row in rows if not np.isnan(row.value)]
    parts = [cell(None if np.isinf(mean) else mean)]
    if len(known) > 1:
        parts.append(f"sd {np.std(known, ddof=1):.3f}")
    elif not np.isnan(rows[0].rank_group):
        parts.append(_letters(rows[0].rank_group))
    return " ".join([*parts, *["*"] * any(row.missing for row in rows)])


def _letters(group: float) -> str:
    """The letter of a group: a for the best one, aa after z."""
    rest, place = divmod(int(group) - 1, 26)
    return (_letters(rest) if rest else "") + chr(ord("a") + place)


def _levels(rows: Iterable[Row]) -> list[float]:
    """The chance levels of some rows, lowest and highest: of the headline, if that ranks."""
    known = (row.chance for row in rows if row.ranked_by == "mean" and not np.isnan(row.chance))
    found = sorted({round(chance, 3) for chance in known})
    return found if len(found) < 3 else [found[0], found[-1]]


def _name(matrix: DataFrame) -> str:
    return f"{matrix['task'].iat[0]} by {matrix['judge'].iat[0]}"


def _title(matrix: DataFrame) -> str:
    row, variants = next(matrix.itertuples()), matrix.attrs["variants"]
    variant = f", {row.variant}" if len(variants) == 1 else ""
    metric = RANKING.get(row.ranked_by, row.metric)
    group = "" if row.group == ALL else f", {row.group}"
    label = f" ({matrix.attrs['label']})" if matrix.attrs["label"] else ""
    return f"{row.task}{variant}: {metric}{group} by {row.judge}{label}"


def _words(matrix: DataFrame, files: Mapping[str, RunFile]) -> str:
    """The recipe in words: data, decoding and seed."""
    row, file = next(matrix.itertuples()), files[matrix["run"].iat[0]]
    whole = file.samples if row.limit == "all" else f"limit {row.limit}"
    drawn, repeats, _ = row.signature.split("|")[4].rsplit(",", 2)
    seeds = sorted(set(matrix["seed"]), key=lambda name: (len(name), name))
    scorer = row.data.partition("+")[2].partition("@")[0]
    facts = [
        f"data: {data_words(file)} ({whole})",
        f"implicitness: {scorer}" if scorer else "",
        f"answers: {drawn}" + (f", {repeats[1:]} each" if repeats not in ("n", "n1") else ""),
        f"seed{'s' * (len(seeds) > 1)} {folded(seeds)}",
        "*: verdicts are missing" if matrix["missing"].any() else "nothing missing",
    ]
    if row.ranked_by == "tpr_at_fpr":
        facts.append(
            f"thresholds that keep FPR at {matrix.attrs['at_fpr']:g} on half the benign texts"
        )
    return "; ".join(filter(None, facts))


def _ranked_on(matrix: DataFrame) -> list[str]:
    """On what models are ranked, in each column alike or from the least to the most."""
    sizes = matrix[matrix["rank"].notna()].groupby("board").size()
    several = matrix[matrix["board"].isin(sizes.index[sizes > 1]) & matrix["rank"].notna()]
    known = several[several["rank_items"].notna()]
    if len(several) and not len(known):
        return ["verdicts were not read: ranked by value alone, no group is known"]
    if not len(several):
        return ["no rank: no item that all have"] if (matrix["rank_items"] == 0).any() else []
    count = int(sizes.max())
    models = "both" if count == 2 else f"all {count}"
    pairs = "" if count == 2 else f", Holm over {count * (count - 1) // 2} pairs"
    groups = "models of one group are not" if count == 2 else "not all within a group are"
    items, clusters = (
        " to ".join(map("{:.0f}".format, sorted({known[name].min(), known[name].max()})))
        for name in ("rank_items", "rank_clusters")
    )
    is_one = len(matrix.attrs["variants"]) == 1
    return [
        f"{'' if is_one else 'a, b, ...: groups in a column, '}ranked on the {items} verdicts that "
        f"{models} have, of {clusters} independent items; {groups} significantly different "
        f"(clusters swapped{pairs})"
    ]


def log_alarms(scores: DataFrame, *, most: int | None = None) -> None:
    """Warn of runs whose answers do not depend on what is asked, or are as good as a constant.

    At most so many alarms are printed, and how many there are.
    """
    found = alarms(scores)
    words = [f"{row.model} on {row.task}, {row.variant}" for row in found.itertuples()]
    runs = scores_of.headlines(scores)
    shared = Counter(
        f"{model} on {task}, {variant}"
        for model, task, variant, *_ in {
            *zip(*(runs[n] for n in ("model", "task", "variant", "data", "limit")), strict=True)
        }
    )
    for name, row in list(zip(words, found.itertuples(), strict=True))[:most]:
        warn(f"alarm: {name}{f', {row.data}' if shared[name] > 1 else ''}: {row.words}")
    if most is not None and len(found) > most:
        warn(f"alarm: {len(found) - most} more alarms: --all")


def log_run_alarms(folder: RunFolder, rows: Sequence[ScoreRow]) -> None:
    """Warn of the alarms of one run's scores."""
    log_alarms(scores_of.board_scores({folder: rows}))


def log_unfit(found: DataFrame) -> None:
    """Warn of judges that are not fit: the first variant with its numbers, the others by name."""
    unfit = found[found["finding"] != "fit"]
    for (task, judge, _), own in unfit.groupby(["task", "judge", "finding"], sort=False):
        first, *rest = own["variant"]
        others = f"; likewise {folded(list(dict.fromkeys(rest)))}" if rest else ""
        warn(f"judge {judge} {own['words'].iat[0]}: {task}, {first}{others}")
