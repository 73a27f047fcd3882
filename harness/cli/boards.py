"""The command leaderboard: one board of models by variants on one screen, the others on request."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.analysis.boards import scores as scores_of
from harness.analysis.boards import views
from harness.analysis.boards.alarms import constant_runs
from harness.analysis.boards.operating import operating_boards
from harness.analysis.boards.ranked import leaderboard as boards_of
from harness.analysis.boards.ranked import placed, standings, verdicts_of
from harness.analysis.boards.scores import whole_scores
from harness.cli import options
from harness.cli.board_screen import MOST_ALARMS, BoardScreen, log_alarms
from harness.cli.options import RESULTS, AsJson, ExitCode, Results, argument, option
from harness.errors import SpecError, StoreError, did_you_mean
from harness.lazy import DataFrame
from harness.pipeline.score import ALL
from harness.present.screen import say, show_json
from harness.storage.files import write_whole
from harness.storage.find_runs import find_runs, run_folders
from harness.storage.runs import RunFolder


@dataclass(frozen=True, kw_only=True)
class BoardChoice:
    """What of all scores is printed, and in which order."""

    runs: list[str] | None = argument(
        "RUN",
        options.SOME_RUNS + " Default: all runs.",
        None,
    )
    task: str | None = option("Print these tasks only, comma-separated. Default: all.", None)
    variant: str | None = option("Print these variants only, comma-separated. Default: all.", None)
    judge: str | None = option("Print these judges only, comma-separated. Default: all.", None)
    metric: str | None = option("Print this metric. Default: the one that is ranked by.", None)
    in_group: str | None = option(
        "Print this group of samples. Default: all samples.", None, flags="--group"
    )
    decoding: str | None = option("Print this decoding, as T0.3. Default: all together.", None)
    sort: str = option("Order by this variant, or by `model`. Default: the first variant.", "")
    is_all: bool = option(
        "Print all boards, models, variants and alarms, and the judges side by side.",
        False,
        flags="--all",
    )
    has_metrics: bool = option(
        "Keep every metric in leaderboard.csv, not those alone that are ranked.",
        False,
        flags="--metrics",
    )
    fpr: float | None = option(
        "Rank by the TPR at the threshold that keeps the FPR at this rate, as in `rates`.", None
    )
    has_recipes: bool = option("Print the whole signatures.", False, flags="--recipes")

    @property
    def needs_every_score(self) -> bool:
        """Whether more is asked for than the headline scores that runs store."""
        return bool(self.has_metrics or self.metric or self.in_group not in (None, ALL))

    def filtered(self, rows: DataFrame) -> DataFrame:
        """The scores that are asked for; SpecError for a name that none has."""
        if self.fpr is not None and (self.metric or self.in_group):
            raise SpecError(
                "--fpr: ranks by the TPR of all samples; leave out --metric and --group"
            )
        rows = _chosen(rows, "task", self.task)
        of_task = f" of task {self.task}" if self.task else ""
        for name, wanted in (("variant", self.variant), ("judge", self.judge)):
            rows = _chosen(rows, name, wanted, of_task)
        rows = _chosen(rows, "decoding", self.decoding, of_task)
        if self.sort not in ("", "model", *rows["variant"].unique()):
            raise SpecError(f"--sort {self.sort!r}: give `model`, or a variant that is printed")
        return rows

    def of_metric(self, rows: DataFrame) -> DataFrame:
        """The scores of the metric and the group that are asked for, of all without any."""
        return _chosen(_chosen(rows, "metric", self.metric), "group", self.in_group)


def leaderboard(choice: BoardChoice, results: Results = RESULTS, is_json: AsJson = False) -> int:
    """Collect the scores of all runs in leaderboard.csv, and print the main board.

    Models are ranked in one table only if the rest of their signatures is equal, on the items
    that all models have. Models of one group are not all significantly different. Controls have no
    rank. The file has all boards. With RUNs these alone are ranked, and no file is written.
    """
    named = find_runs(results, choice.runs or ())
    if not (folders := named or run_folders(results)):
        raise StoreError(f"no runs below {results}/runs; `harness run` makes one, or see --results")
    found, boards, verdicts, left_out = boards_of(
        {one: whole_scores(one, is_every=choice.needs_every_score) for one in folders}
    )
    rows = placed(found, boards)
    table = results / "leaderboard.csv"
    kept = rows if choice.has_metrics else scores_of.ranked_metrics(rows)
    if not named:
        write_whole(table, scores_of.board_text(kept).encode())
    asked = choice.filtered(rows)
    by_name = {folder.path.name: folder for folder in folders}
    how = {"is_all": choice.is_all, "has_recipes": choice.has_recipes}
    screen = BoardScreen(by_name, sort=choice.sort, **how)
    if choice.fpr is not None:
        boards = operating_boards(screen.folders, asked, choice.fpr)
        screen.put(boards, is_json=is_json)
        return ExitCode.of(left_out)
    if is_json:
        special = choice.of_metric(asked)
        has_all = choice.metric or choice.has_metrics
        show_json(scores_of.records(special if has_all else scores_of.ranked_metrics(special)))
        return ExitCode.of(left_out)
    if len(asked) < len(rows):
        verdicts = verdicts_of([f for f in folders if f not in left_out], asked)
        boards = standings(asked, verdicts)
    if choice.metric is None and choice.in_group in (None, ALL):
        screen.put(boards)
        screen.put_judges(asked, boards, verdicts)
    else:
        _put_plain(choice, screen, asked, constant_runs(found))
    log_alarms(asked, most=None if choice.is_all else MOST_ALARMS)
    wrote = "" if named else f"wrote {len(kept)} rows to {table}"
    if line := f"{wrote}{screen.rest}".removeprefix("; "):
        say(line, is_prose=True)
    return ExitCode.of(left_out)


def _put_plain(
    choice: BoardChoice, screen: BoardScreen, asked: DataFrame, constant: Collection[str]
) -> None:
    """Print the boards of another metric, or of one group, which are not ranked."""
    special = choice.of_metric(asked)
    screen.put(
        views.plain_boards(special, choice.metric, choice.in_group or ALL, constant=constant)
    )


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

    `is_whole`: with their judges side by side and all alarms, which nothing else has printed.
    """
    found = scores_of.board_scores({one: whole_scores(one) for one in folders})
    verdicts = verdicts_of(folders, found)
    screen = BoardScreen({folder.path.name: folder for folder in folders})
    boards = standings(found, verdicts)
    screen.put(boards, has_tasks=is_whole)
    if is_whole:
        screen.put_judges(found, boards, verdicts)
        log_alarms(found)
    if screen.rest:
        say(f"harness leaderboard{screen.rest.removeprefix(';')}\n", is_prose=True)
