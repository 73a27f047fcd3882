"""The command leaderboard: one board of models by variants on one screen, the others on request.

A task with one variant has a table with a column for each fact. With several variants a cell has
the value alone. Runs that differ in their seeds alone share a line: their mean and their spread.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.boards import ranked, views
from harness.analysis.boards.ranked import RANKING, RATES
from harness.analysis.boards.scores import alarms, board_text, headlines, judge_fitness
from harness.analysis.findings import NOISE
from harness.cli import options
from harness.cli.options import RESULTS, AsJson, Results, argument, option, switch
from harness.errors import SpecError, StoreError, did_you_mean
from harness.lazy import DataFrame, pandas
from harness.present import screen
from harness.present.screen import PAGE, cell, folded, say, show, usd, warn
from harness.storage.files import write_whole
from harness.storage.find_runs import apart, data_words, shown_runs
from harness.storage.frames import Row, plain_rows
from harness.storage.runs import RunFile, RunFolder

MOST_MODELS, MOST_VARIANTS, MOST_ALARMS = 12, 5, 2
"""What a screen of 80 x 24 has room for; --all prints the rest."""


@dataclass(frozen=True, kw_only=True)
class BoardChoice:
    """What of all scores is printed."""

    runs: list[str] | None = argument("RUN", options.SOME_RUNS + " Default: all runs.", None)
    task: str | None = option("Print these tasks only, comma-separated. Default: all.")
    variant: str | None = option("Print these variants only, comma-separated. Default: all.")
    judge: str | None = option("Print these judges only, comma-separated. Default: all.")
    has_metrics: bool = switch(
        "--metrics", "Keep every metric in leaderboard.csv, not those alone that are ranked."
    )
    missing: options.Missing = "apart"

    def of(self, scores: DataFrame) -> DataFrame:
        """The chosen scores; SpecError for what none of them has."""
        for what in ("task", "variant", "judge"):
            known = sorted(map(str, scores[what].unique()))
            wanted = options.names(getattr(self, what), f"--{what}")
            for name in (name for name in wanted if name not in known):
                fact = f"no run has a {what} {name!r}{did_you_mean(name, known)}"
                raise SpecError(f"{fact}; `harness run` makes one")
            scores = scores[scores[what].isin(wanted)] if wanted else scores
        return scores


def leaderboard(choice: BoardChoice, results: Results = RESULTS, is_json: AsJson = False) -> None:
    """Collect the scores of all runs in leaderboard.csv, and print the main board.

    Models are ranked in one table only if the rest of their signatures is equal, on the items
    that all models have; "may be" has the ranks that are not excluded. Controls have no rank. The
    file has all boards. With RUNs these alone are ranked, and no file is written.
    """
    if not (folders := shown_runs(results, choice.runs or ())):
        raise StoreError(f"no runs below {results}/runs; `harness run` makes one, or see --results")
    is_wrong = options.is_missing_wrong(choice.missing)
    kept = {"is_every": choice.has_metrics, "is_wrong": is_wrong}
    scores, boards, verdicts = ranked.leaderboard(folders, **kept)
    rows = ranked.board_rows(scores, boards, is_every=choice.has_metrics)
    table = results / "leaderboard.csv"
    if is_file := not (choice.runs or is_wrong):
        write_whole(table, board_text(rows).encode())
    asked = choice.of(scores)
    if is_json:
        rows = boards[[*rows]] if is_wrong else rows
        screen.show_json(plain_rows(rows[rows["signature"].isin(asked["signature"])]))
        return
    boards = boards[boards["signature"].isin(asked["signature"])]
    left, tasks = _put_boards(boards, folders)
    _warn_of_judges(boards[boards["task"].isin(tasks)], verdicts)
    warn_of_alarms(asked[asked["task"].isin(tasks)])  # of what is not shown nothing is said
    wrote = f"wrote {len(rows)} rows to {table}" if is_file else ""
    rest = f"--all prints {' and '.join(left)}" if left else ""
    say("; ".join(filter(None, (wrote, rest))))


def put_joint_boards(folders: Sequence[RunFolder]) -> None:
    """Print the boards of some runs alone, those of one task together, with all alarms."""
    scores, boards, verdicts = ranked.leaderboard(folders := apart(folders))
    left, _ = _put_boards(boards, folders, has_tasks=True)
    _warn_of_judges(boards, verdicts)
    warn_of_alarms(scores)
    if left:
        say(f"--all prints {' and '.join(left)}")


def _put_boards(
    boards: DataFrame, folders: Iterable[RunFolder], *, has_tasks: bool = False
) -> tuple[list[str], set[str]]:
    """Print the board of the first task and its own judge, of all tasks, or with --all all.

    Returned are what is left to print, in words, and the tasks whose boards are printed.
    """
    runs = set(boards.drop_duplicates("recipe")["run"])
    found = {one.key: one for one in folders if one.key in runs}
    files = {name: one.read() for name, one in found.items()}
    tags = {name: f"@{one.tag}" for name, one in found.items() if one.tag}
    made = views.matrices(boards, files, tags, is_all=PAGE.is_whole)
    heads = [(matrix["task"].iat[0], matrix["judge"].iat[0]) for matrix in made]
    firsts = {task: place for place, (task, _) in reversed([*enumerate(heads)])}
    places = [*range(len(made))] if PAGE.is_whole else sorted(firsts.values())
    shown = places if PAGE.is_whole or has_tasks else places[:1]
    if len(firsts) > 1 and not has_tasks and len(every := views.overview(made)):
        words = "first variant by the task's own judge; `.`: may be the best, `*`: verdicts missing"
        show(every, f"Models by tasks ({words})")
    left = [words for at in shown for words in _put_board(made[at], files)]
    seen = {heads[at] for at in shown}
    hidden = [at for at in range(len(made)) if at not in shown]
    if others := [f"{heads[at][0]} by {heads[at][1]}" for at in hidden if heads[at] not in seen]:
        left.append(f"the boards of {folded(list(dict.fromkeys(others)))}")
    if same := [made[at].attrs["label"] for at in hidden if heads[at] in seen]:
        left.append(f"{len(same)} more board{'s' * (len(same) != 1)} ({'; '.join(same[:3])})")
    return left, {task for task, _ in seen}


def _warn_of_judges(boards: DataFrame, verdicts: DataFrame) -> None:
    """Warn of unfit judges, with the numbers of the first variant and the names of the others."""
    fitness = judge_fitness(boards, verdicts)
    unfit = fitness[fitness["finding"] != "fit"]
    for (task, judge, _), own in unfit.groupby(["task", "judge", "finding"], sort=False):
        first, *rest = own["variant"]
        others = f"; likewise {folded(list(dict.fromkeys(rest)))}" if rest else ""
        warn(f"judge {judge} {own['words'].iat[0]}: {task}, {first}{others}")


def _put_board(matrix: DataFrame, files: Mapping[str, RunFile]) -> list[str]:
    variants, lines = matrix.attrs["variants"], views.lines_of(matrix)
    counted = [at for at, name in enumerate(variants) if name not in matrix.attrs["means"]]
    more = {"more models": len(lines) - MOST_MODELS, "more variants": len(variants) - MOST_VARIANTS}
    left = [f"{count} {what}" for what, count in more.items() if count > 0 and not PAGE.is_whole]
    if averaged := matrix.attrs["averaged"]:
        left.append(f"the {len(averaged)} variants that are averaged")
    if not PAGE.is_whole:
        lines, variants = lines[:MOST_MODELS], variants[:MOST_VARIANTS]
    if len(variants) == 1:
        shown = _facts([own for _, [own] in lines])
    else:
        rows = [[name, *map(_cell, columns[: len(variants)])] for name, columns in lines]
        levels = [views.levels(matrix[matrix["variant"] == name]) for name in variants]
        if any(levels):
            rows.append(["chance", *(" to ".join(map("{:.3f}".format, own)) for own in levels)])
        shown = pandas.DataFrame(rows, columns=["model", *variants])
        lost = [sum(r.missing for at in counted for r in columns[at]) for _, columns in lines]
        if any(lost):
            shown["missing"] = pandas.Series(lost, dtype=object)
        ways = [next(row.answers for own in columns for row in own) for _, columns in lines]
        if len({*ways}) > 1:
            shown["answers"] = pandas.Series(ways, dtype=object)
    title = _title(matrix, files[matrix["run"].iat[0]])
    show(shown, title, keys=1 + [*shown.columns].index("model"))
    printed = {row.signature for _, columns in lines for own in columns for row in own}
    notes = views.board_notes(matrix[matrix["signature"].isin(printed)])
    for note in notes if len(variants) == 1 else [*notes, "Intervals and ranks: --variant NAME."]:
        say(note)
    if notes or len(variants) > 1:
        say("")
    return left


def _facts(lines: Sequence[Sequence[Row]]) -> DataFrame:
    """A board of one variant: a column for each fact that is known, controls and chance below.

    Of several seeds of a model there are the mean with its spread, and sums of what is missing and
    of costs.
    """
    own = pandas.DataFrame([rows[0] for rows in lines])
    for name in ("missing", "cost_usd"):
        own[name] = [sum(getattr(row, name) for row in rows) for rows in lines]
    several = [len(rows) > 1 for rows in lines]
    own.loc[
        several, ["rank", "rank_best", "rank_worst", "low", "high", "shared", "tpr", "fpr", "n"]
    ] = np.nan
    by, levels = own["ranked_by"].iat[0], views.levels(own)
    shared = (own["shared"] - own["value"]).abs() > NOISE
    value = RANKING.get(by, "value")
    known = [views.with_missing(row) for row in own.itertuples()]
    is_known = own["missing"].any() and not any(several)
    ends = [one for one in known if one is not None] if is_known else []
    ends = ends if len(ends) == len(own) else []
    found = {
        "rank": own["rank"].map("{:.0f}".format, na_action="ignore"),
        "may be": [views.ranks(row) for row in own.itertuples()],
        "model": own["model"]
        + np.where(own["is_constant"] & ~own["is_control"], " (constant answer)", ""),
        "answers": own["answers"] if own["answers"].nunique() > 1 else None,
        value: [_cell(rows) if len(rows) > 1 else rows[0].value for rows in lines],
        "95% interval": [*zip(own["low"], own["high"], strict=True)],
        "on shared items": own["shared"] if shared.any() else None,
        "TPR": own["tpr"] if by == RATES else None,
        "FPR": own["fpr"] if by == RATES else None,
        "chance": own["chance"] if by == "mean" and len(levels) > 1 else None,
        "n": own["n"].astype("Int64"),
        f"missing{' in all' * any(several)}": own["missing"] if own["missing"].any() else None,
        "if missing wrong to right": [own if own[0] < own[1] else None for own in ends] or None,
        "rank if wrong": views.ranks_if_wrong(own["rank"].notna(), ends),
        f"cost USD{' in all' * any(several)}": own["cost_usd"].map(usd, na_action="ignore"),
    }
    shown = pandas.DataFrame(found, dtype=object)
    shown = shown[shown.columns[shown.notna().any() | (shown.columns == "rank")]]
    if len(levels) == 1:
        shown.loc[len(shown)] = pandas.Series({"model": "chance", value: levels[0]})
    return shown


def _cell(rows: Sequence[Row]) -> str:
    """The value of a run, or mean and spread of several seeds; a star if verdicts are missing."""
    known = [row.value for row in rows if not np.isnan(row.value)]
    parts = [cell(float(np.mean(known)) if known else None)] if rows else []
    if len(known) > 1:
        parts.append(f"sd {np.std(known, ddof=1):.3f}")
    return " ".join([*parts, *["*"] * any(row.missing for row in rows)])


def _title(matrix: DataFrame, file: RunFile) -> str:
    """What the rows have in common: task, metric and judge, the recipe, and what ranks are on."""
    row, variants = next(matrix.itertuples()), matrix.attrs["variants"]
    variant = f", {row.variant}" if len(variants) == 1 else ""
    label = f" ({matrix.attrs['label']})" if matrix.attrs["label"] else ""
    whole = file.samples if row.limit == "all" else f"limit {row.limit}"
    drawn, repeats, _ = row.signature.split("|")[4].rsplit(",", 2)
    seeds = sorted(set(matrix["seed"]), key=lambda name: (len(name), name))
    scorer = row.data.partition("+")[2].partition("@")[0]
    facts = [
        f"data: {data_words(file)} ({whole})",
        f"implicitness: {scorer}" if scorer else "",
        f"answers: {' or '.join(sorted({*matrix['answers']})) or drawn}"
        + (f", {repeats[1:]} each" if repeats not in ("n", "n1") else ""),
        f"seed{'s' * (len(seeds) > 1)} {folded(seeds)}",
        "*: verdicts are missing" if matrix["missing"].any() else matrix["missing_as"].iat[0],
    ]
    lines = [
        f"{row.task}{variant}: {RANKING.get(row.ranked_by, row.metric)} by {row.judge}{label}",
        "; ".join(filter(None, facts)),
        views.ranked_on(matrix) if len(variants) == 1 else "",
    ]
    return "\n".join(filter(None, lines))


def warn_of_alarms(scores: DataFrame) -> None:
    """Warn of runs whose answers do not depend on what is asked, or are as good as a constant."""
    found, names = alarms(scores), ["model", "task", "variant"]
    runs = headlines(scores)[[*names, "data", "limit"]].drop_duplicates()
    shared = Counter(runs[names].itertuples(index=False, name=None))
    for row in found[: None if PAGE.is_whole else MOST_ALARMS].itertuples():
        is_one = shared[row.model, row.task, row.variant] == 1
        of = "" if is_one else f", data:{row.data},{row.limit}"
        warn(f"alarm: {row.model} on {row.task}, {row.variant}{of}: {row.words}")
    if len(found) > MOST_ALARMS and not PAGE.is_whole:
        warn(f"alarm: {len(found) - MOST_ALARMS} more alarms: --all")
