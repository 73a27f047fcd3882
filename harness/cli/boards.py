"""The command leaderboard: one board of models by variants on one screen, the others on request."""

from collections.abc import Collection, Mapping, Sequence
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
from harness.cli.board_screen import MOST_ALARMS, log_alarms, put_boards, put_judges
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

    @property
    def is_ranked(self) -> bool:
        """Whether the boards are those of the headlines, and not of another metric or group."""
        return self.metric is None and self.in_group in (None, ALL)

    def plain(self, scores: DataFrame, constant: Collection[str]) -> DataFrame:
        """Boards of another metric or group, without ranks."""
        return views.plain_boards(scores, self.metric, self.in_group or ALL, constant=constant)

    def put(
        self, boards: DataFrame, folders: Mapping[str, RunFolder], *, is_json: bool = False
    ) -> list[str]:
        """Print boards; returns what was left out, in words."""
        if is_json:
            show_json(scores_of.records(boards))
            return []
        how = {"is_all": self.is_all, "has_recipes": self.has_recipes}
        return put_boards(boards, folders, sort=self.sort, **how)

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
    every = choice.needs_every_score
    found, boards, verdicts, left_out = boards_of(
        {one: whole_scores(one, is_every=every) for one in folders}
    )
    rows = placed(found, boards)
    table = results / "leaderboard.csv"
    kept = rows if choice.has_metrics else scores_of.ranked_metrics(rows)
    if not named:
        write_whole(table, scores_of.board_text(kept).encode())
    asked = choice.filtered(rows)
    by_name = {folder.path.name: folder for folder in folders}
    special = choice.of_metric(asked)
    if choice.fpr is not None:
        choice.put(operating_boards(by_name, asked, choice.fpr), by_name, is_json=is_json)
        return ExitCode.of(left_out)
    if is_json:
        has_all = choice.metric or choice.has_metrics
        show_json(scores_of.records(special if has_all else scores_of.ranked_metrics(special)))
        return ExitCode.of(left_out)
    if choice.is_ranked:
        if len(asked) < len(rows):
            verdicts = verdicts_of([f for f in folders if f not in left_out], asked)
            boards = standings(asked, verdicts)
        left = choice.put(boards, by_name)
        put_judges(asked, boards, verdicts, is_all=choice.is_all)
    else:
        left = choice.put(choice.plain(special, constant_runs(found)), by_name)
    log_alarms(asked, most=None if choice.is_all else MOST_ALARMS)
    wrote = "" if named else f"wrote {len(kept)} rows to {table}"
    rest = f"--all prints {' and '.join(left)}" if left else ""
    say("; ".join(filter(None, (wrote, rest))), is_prose=True)
    return ExitCode.of(left_out)


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
    found = scores_of.board_scores({one: whole_scores(one) for one in folders})
    verdicts = verdicts_of(folders, found)
    boards = standings(found, verdicts)
    left = put_boards(boards, {one.path.name: one for one in folders}, has_tasks=is_whole)
    if is_whole:
        put_judges(found, boards, verdicts)
        log_alarms(found)
    if left:
        say(f"harness leaderboard --all prints {' and '.join(left)}\n", is_prose=True)
