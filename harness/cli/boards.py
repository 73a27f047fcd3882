"""The command leaderboard: one board of models by variants on one screen, the others on request.

A task with one variant has a table with a column for each fact. With several variants a cell has
the value and the letter of its group. Runs that differ in their seeds alone share a line: their
mean and their spread.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.analysis.boards import alarms, ranked, views
from harness.analysis.boards import scores as scores_of
from harness.analysis.boards.ranked import RANKING, RATES
from harness.cli import options
from harness.cli.options import RESULTS, AsJson, ExitCode, Results, argument, option
from harness.errors import SpecError, StoreError, did_you_mean
from harness.lazy import DataFrame, pandas
from harness.pipeline.score import ALL
from harness.present.screen import cell, folded, say, show, show_json, usd, warn
from harness.storage.files import write_whole
from harness.storage.find_runs import data_words, find_runs, run_folders
from harness.storage.frames import Row
from harness.storage.runs import RunFile, RunFolder, ScoreRow, table_text

MOST_MODELS, MOST_VARIANTS, MOST_ALARMS = 12, 8, 2
"""How many lines, columns and alarms are printed without --all."""


@dataclass(frozen=True, kw_only=True)
class BoardChoice:
    """What of all scores is printed."""

    runs: list[str] | None = argument("RUN", options.SOME_RUNS + " Default: all runs.", None)
    task: str | None = option("Print these tasks only, comma-separated. Default: all.", None)
    variant: str | None = option("Print these variants only, comma-separated. Default: all.", None)
    judge: str | None = option("Print these judges only, comma-separated. Default: all.", None)
    metric: str | None = option("Print this metric. Default: the one that is ranked by.", None)
    in_group: str | None = option(
        "Print this group of samples. Default: all samples.", None, flags="--group"
    )
    is_all: bool = option(
        "Print all boards, models, variants and alarms, and what swapped samples change.",
        False,
        flags="--all",
    )
    has_metrics: bool = option(
        "Keep every metric in leaderboard.csv, not those alone that are ranked.",
        False,
        flags="--metrics",
    )


def leaderboard(choice: BoardChoice, results: Results = RESULTS, is_json: AsJson = False) -> int:
    """Collect the scores of all runs in leaderboard.csv, and print the main board.

    Models are ranked in one table only if the rest of their signatures is equal, on the items
    that all models have. Models of one group are not all significantly different. Controls have no
    rank. The file has all boards. With RUNs these alone are ranked, and no file is written.
    """
    named = find_runs(results, choice.runs or ())
    if not (folders := named or run_folders(results)):
        raise StoreError(f"no runs below {results}/runs; `harness run` makes one, or see --results")
    is_ranked = choice.metric is None and choice.in_group in (None, ALL)
    found, boards, verdicts = ranked.leaderboard(
        folders, is_every=choice.has_metrics or not is_ranked
    )
    lost, rows = found.attrs["lost"], ranked.placed(found, boards)
    table = results / "leaderboard.csv"
    kept = rows if choice.has_metrics else scores_of.ranked_metrics(rows)
    if not named:
        write_whole(table, scores_of.board_text(kept).encode())
    asked = _chosen(rows, "task", choice.task)
    where = f" of task {choice.task}" if choice.task else ""
    for name, wanted in (("variant", choice.variant), ("judge", choice.judge)):
        asked = _chosen(asked, name, wanted, where)
    special = _chosen(_chosen(asked, "metric", choice.metric), "group", choice.in_group)
    if is_json:
        has_all = choice.metric or choice.has_metrics
        show_json(scores_of.records(special if has_all else scores_of.ranked_metrics(special)))
        return ExitCode.of(lost)
    if is_ranked and len(asked) < len(rows):
        verdicts = ranked.verdicts_of([one for one in folders if one.path.name not in lost], asked)
        boards = ranked.standings(asked, verdicts)
    elif not is_ranked:
        metrics = {choice.metric} if choice.metric else scores_of.HEADLINES
        heads = scores_of.headlines(special, metrics, choice.in_group or ALL)
        boards = ranked.in_order(ranked.unranked(heads, alarms.constant_runs(found)))
    left = _put_boards(boards, folders, is_all=choice.is_all)
    if is_ranked:
        _put_judges(asked, boards, verdicts, is_all=choice.is_all)
    _warn_of_alarms(asked, most=None if choice.is_all else MOST_ALARMS)
    wrote = "" if named else f"wrote {len(kept)} rows to {table}"
    rest = f"--all prints {' and '.join(left)}" if left else ""
    say("; ".join(filter(None, (wrote, rest))), is_prose=True)
    return ExitCode.of(lost)


def _chosen(rows: DataFrame, what: str, wanted: str | None, where: str = "") -> DataFrame:
    # A group's name may have a comma in it.
    alone = (wanted,) if what == "group" and wanted else None
    if not (names := alone or options.names(wanted, f"--{what}")):
        return rows
    known = sorted(map(str, rows[what].unique()))
    for name in (name for name in names if name not in known):
        if what == "task" and name in options.registry(Path()).names("tasks"):
            raise SpecError(f"no run of task {name} yet; `harness run --task {name}` makes one")
        raise SpecError(f"no run{where} has a {what} {name!r}{did_you_mean(name, known)}")
    return rows[rows[what].isin(names)]


def put_joint_boards(folders: Sequence[RunFolder], *, is_whole: bool = False) -> None:
    """Print the boards of some runs alone, those of one task together.

    `is_whole`: of all tasks, with all alarms, which nothing else has printed.
    """
    found, boards, verdicts = ranked.leaderboard(folders)
    left = _put_boards(boards, folders, has_tasks=is_whole)
    if is_whole:
        _put_judges(found, boards, verdicts)
        _warn_of_alarms(found)
    if left:
        say(f"harness leaderboard --all prints {' and '.join(left)}\n", is_prose=True)


def warn_of_run(rows: Sequence[ScoreRow]) -> None:
    """Warn of the alarms of one run's scores."""
    _warn_of_alarms(scores_of.board_scores({"": table_text(rows)}))


def _put_boards(
    boards: DataFrame,
    folders: Iterable[RunFolder],
    *,
    is_all: bool = False,
    has_tasks: bool = False,
) -> list[str]:
    """Print the board of the first task and its own judge, of all tasks, or with `is_all` all.

    Returns what was left out, in words.
    """
    firsts = set(boards.drop_duplicates("recipe")["run"])
    files = {one.path.name: one.read() for one in folders if one.path.name in firsts}
    made = views.matrices(boards, files, is_all=is_all)
    of_tasks = {matrix["task"].iat[0]: matrix for matrix in reversed(made)}
    shown = made if is_all else [*reversed(of_tasks.values())][: None if has_tasks else 1]
    left = [words for one in shown for words in _put_board(one, files, is_all=is_all)]
    names = [f"{matrix['task'].iat[0]} by {matrix['judge'].iat[0]}" for matrix in made]
    seen = {name for name, one in zip(names, made, strict=True) if any(one is m for m in shown)}
    if others := [name for name in names if name not in seen]:
        left.append(f"{len(others)} more boards ({folded(list(dict.fromkeys(others)))})")
    return left


def _put_judges(
    found: DataFrame, boards: DataFrame, verdicts: DataFrame, *, is_all: bool = False
) -> None:
    """Warn of unfit judges, with the numbers of the first variant and the names of the others.

    With `is_all` print what swapping the samples changed.
    """
    fitness = alarms.judge_fitness(boards, verdicts)
    unfit = fitness[fitness["finding"] != "fit"]
    for (task, judge, _), own in unfit.groupby(["task", "judge", "finding"], sort=False):
        first, *rest = own["variant"]
        others = f"; likewise {folded(list(dict.fromkeys(rest)))}" if rest else ""
        warn(f"judge {judge} {own['words'].iat[0]}: {task}, {first}{others}")
    if not is_all:
        return
    for _, own in alarms.sensitivities(found).groupby("recipe", sort=False, observed=True):
        judge, swapped = own["judge"].iat[0], f"{own['judge'].iat[0]}:swapped"
        shown = own[["model", "value", "swapped", "difference"]]
        shown = shown.set_axis(["model", judge, swapped, "difference"], axis=1)
        what = f"{own['task'].iat[0]}, {own['variant'].iat[0]}"
        show(shown, f"sensitivity to emphasis, {judge} minus {swapped}: {what}")


def _put_board(matrix: DataFrame, files: Mapping[str, RunFile], *, is_all: bool) -> list[str]:
    variants, lines = matrix.attrs["variants"], views.lines_of(matrix)
    left = [f"the {n} variants that are averaged"] if (n := len(matrix.attrs["averaged"])) else []
    has_seeds = any(len(own) > 1 for _, columns in lines for own in columns)
    if not is_all and (more := len(variants) - MOST_VARIANTS) > 0:
        left.append(f"{more} more variants")
        variants = variants[:MOST_VARIANTS]
    if not is_all and (more := len(lines) - MOST_MODELS) > 0:
        left.append(f"{more} more models")
        lines = lines[:MOST_MODELS]
    if len(variants) == 1 and not has_seeds:
        shown = _facts([own[0] for _, [own] in lines])
    else:
        rows = [[name, *map(_cell, columns[: len(variants)])] for name, columns in lines]
        levels = [_levels(matrix[matrix["variant"] == name]) for name in variants]
        if any(levels):
            rows.append(["chance", *(" to ".join(map("{:.3f}".format, own)) for own in levels)])
        shown = pandas.DataFrame(rows, columns=["model", *variants])
        lost = [sum(r.missing for own in columns for r in own) for _, columns in lines]
        if any(lost):
            shown["missing"] = pandas.Series(lost, dtype=object)
    title = "\n".join([_title(matrix), _words(matrix, files), *_ranked_on(matrix)])
    show(shown, title, keys=1 + (shown.columns[0] != "model"))
    notes = views.board_notes(matrix)
    for note in notes if len(variants) == 1 else [*notes, "Intervals: --variant NAME."]:
        say(note, is_prose=True)
    if notes or len(variants) > 1:
        say("")
    return left


def _facts(rows: Sequence[Row]) -> DataFrame:
    """A board of one variant: a column for each fact that is known, controls and chance below."""
    own = pandas.DataFrame(rows)
    by, levels = own["ranked_by"].iat[0], _levels(own)
    shared = own["shared"].notna() & (own["shared"] != own["value"])
    value = RANKING.get(by, "value")
    found = {
        "rank": own["rank"].map("{:.0f}".format, na_action="ignore"),
        "model": own["model"]
        + np.where(own["is_constant"] & ~own["is_control"], " (constant answer)", ""),
        value: own["value"],
        "95% interval": [*zip(own["low"], own["high"], strict=True)],
        "on shared items": own["shared"] if shared.any() else None,
        "TPR": own["tpr"] if by == RATES else None,
        "FPR": own["fpr"] if by == RATES else None,
        "chance": own["chance"] if by == "mean" and len(levels) > 1 else None,
        "n": own["n"],
        "missing": own["missing"] if own["missing"].any() else None,
        "group": own["rank_group"].map(_letters, na_action="ignore")
        if own["rank"].notna().sum() > 1
        else None,
        "cost USD": own["cost_usd"].map(usd, na_action="ignore"),
    }
    shown = pandas.DataFrame(found, dtype=object)
    shown = shown[shown.columns[shown.notna().any() | (shown.columns == "rank")]]
    if len(levels) == 1:
        shown.loc[len(shown)] = pandas.Series({"model": "chance", value: levels[0]})
    return shown


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


def _levels(rows: DataFrame) -> list[float]:
    """The chance levels of some rows, lowest and highest: of the headline, if that ranks."""
    found = sorted(rows.loc[rows["ranked_by"] == "mean", "chance"].dropna().round(3).unique())
    return found if len(found) < 3 else [found[0], found[-1]]


def _title(matrix: DataFrame) -> str:
    row = next(matrix.itertuples())
    variant = f", {row.variant}" if len(matrix.attrs["variants"]) == 1 else ""
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


def _warn_of_alarms(scores: DataFrame, *, most: int | None = None) -> None:
    """Warn of runs whose answers do not depend on what is asked, or are as good as a constant.

    At most so many alarms are printed, and how many there are.
    """
    found, names = alarms.alarms(scores), ["model", "task", "variant"]
    runs = scores_of.headlines(scores)[[*names, "data", "limit"]].drop_duplicates()
    shared = Counter(runs[names].itertuples(index=False, name=None))
    for row in found[:most].itertuples():
        of = f", {row.data}" if shared[row.model, row.task, row.variant] > 1 else ""
        warn(f"alarm: {row.model} on {row.task}, {row.variant}{of}: {row.words}")
    if most is not None and len(found) > most:
        warn(f"alarm: {len(found) - most} more alarms: --all")
