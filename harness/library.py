"""The library: evaluate models, read stored runs and get tables, from a notebook or a script.

The same engine as the command line: same files, same ledger, same numbers. Results are small
objects whose `to_pandas()` gives a frame. `import harness as ph` exports what is public here.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, get_args

from harness.core import Judge, Model
from harness.errors import HarnessError, SpecError, StoreError, did_you_mean
from harness.frames import (
    PlotOptions,
    ResultTable,
    ResultTables,
    TableOptions,
    errors_of,
    figure_of,
    item_chunks,
    items_of,
    page_of,
    probe_table,
    rates_of,
    tables_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from harness.implicitness.probe import By
    from harness.judges.asking import Orders
    from harness.specs.layouts import LayoutSpec
    from harness.stats.agreement import Scale
    from harness.storage.runs import RunFile, RunFolder, SampleRecord, ScoreRow
    from harness.workspace import Workspace

SAMPLE_COLUMNS = (
    *("task", "model", "sample_id", "cluster", "group", "variant", "decoding"),
    *("answer", "gold", "judge", "value", "reason", "note"),
)


class EvaluatedRun:
    """One run: its scores, its answers, and judges that may still read them."""

    def __init__(self, workspace: "Workspace", folder: "RunFolder") -> None:
        """Use the files of a run folder; `evaluate` and `load_runs` make these."""
        self._workspace, self._folder = workspace, folder
        self._file: RunFile = folder.read()

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self._folder.path

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._file.run.task

    @property
    def model(self) -> str:
        """The name of the model under test."""
        return self._file.model.name

    @property
    def tag(self) -> str | None:
        """The name that was given to this run; None without one."""
        return self._folder.tag

    @property
    def judges(self) -> tuple[str, ...]:
        """The judges that have read this run."""
        return tuple(entry.name for entry in self._file.judges)

    @property
    def missing(self) -> ResultTable:
        """What is missing: by judge (empty: no answer at all) and reason, with its count."""
        found = self._file.missing or ()
        rows = tuple((part.judge, str(part.reason), part.count) for part in found)
        return ResultTable(("judge", "reason", "count"), rows)

    @property
    def cost_usd(self) -> float | None:
        """What all calls of the run cost in US dollars; None where one of them is not known."""
        return self._file.costs.total.cost_usd if self._file.costs else None

    @property
    def scores(self) -> ResultTable:
        """One row a score, with the columns of scores.csv."""
        return _score_table(self._folder.read_scores())

    @property
    def samples(self) -> ResultTable:
        """One row an answer and judge; `value` is None where the verdict is missing (`reason`)."""
        rows = [row for record in self._folder.read_rows() for row in self._rows_of(record)]
        return ResultTable(SAMPLE_COLUMNS, tuple(rows))

    @property
    def items(self) -> ResultTable:
        """One row an answer, with the columns of items.csv: `value_J` is judge J's, NaN if missing.

        `item` has the texts of the item, `expected` the right answers, `missing` says why there is
        no answer, `reason_J` why there is no value.
        """
        return items_of([self._folder])

    def item_chunks(self, rows: int = 10_000) -> Iterator[ResultTable]:
        """The table `items` in parts of at most so many rows, of which one is held at a time."""
        return item_chunks([self._folder], rows)

    def judge(
        self,
        judges: "Sequence[str | Judge]",
        *,
        judge_model: str | None = None,
        allow_self_judge: bool = False,
        budget_usd: float | None = None,
    ) -> "EvaluatedRun":
        """Have further judges read the stored answers; the model under test is not asked.

        Raises BudgetReached before a call that might cost more than `budget_usd`.
        """
        from harness.pipeline.execute import judge
        from harness.pipeline.resolve import resolve_stored
        from harness.pipeline.setup import JudgeModelOptions

        workspace = self._workspace.with_budget(budget_usd)
        asking = JudgeModelOptions(judge_model, allow_self_judge)
        judge(resolve_stored(workspace, self._folder, judges, asking=asking))
        return EvaluatedRun(self._workspace, self._folder)

    def rates(
        self,
        by: Sequence[str] = (),
        *,
        judge: str = "gold",
        fpr: float | None = None,
        data: str | Path | None = None,
    ) -> ResultTable:
        """TPR, FPR and precision of all texts and by columns of the data, with intervals.

        Columns that the run did not keep are read from its table, where it read that, or from the
        file `data`. With `fpr` a text is flagged from the threshold on that keeps the FPR so low on
        one half of the benign originals; the other half is measured, and in precision each benign
        text of it counts for about two.
        """
        return rates_of(self._with_data(data), self._folder, by, judge, fpr)

    def errors(
        self, kind: str = "all", *, judge: str = "gold", data: str | Path | None = None
    ) -> ResultTable:
        """The texts that were missed or flagged falsely: `kind` is missed, false-alarm or all.

        All columns of the run's table, as texts, and what the run says of each text. The table is
        read where the run read it, or from the file `data`; one of its columns that has the name of
        one of ours is called `data_` and its name.
        """
        return errors_of(self._with_data(data), self._folder, kind, judge)

    def _with_data(self, data: str | Path | None) -> "Workspace":
        """The workspace of this run, with a file of data in place of its own."""
        if data is not None and not Path(data).exists():
            raise SpecError(f"data {data}: no such file; name the table that the run read")
        return self._workspace if data is None else replace(self._workspace, data=Path(data))

    def bundle(self, out: str | Path) -> Path:
        """Write a zip with all that derives this run's numbers again; `harness prove` does it."""
        from harness.pipeline.bundle import write_bundle

        write_bundle(self._workspace, [self._folder], Path(out))
        return Path(out)

    def _rows_of(self, record: "SampleRecord") -> Iterator[tuple[object, ...]]:
        sample = record.sample
        left = (
            *(self.task, self.model, sample.id, sample.cluster, sample.group),
            *(record.variant, record.decoding, record.answer, sample.gold),
        )
        for name, verdict in record.verdicts.items():
            reason = None if verdict.reason is None else str(verdict.reason)
            yield (*left, name, verdict.value, reason, verdict.note)
        if not record.verdicts:
            yield (*left, None, None, None, None)

    def __repr__(self) -> str:
        """The task, the model and the folder."""
        return f"<run of {self.task} by {self.model}: {self.path}>"

    def _repr_html_(self) -> str:
        from harness.pipeline.score import ALL

        table = self.scores
        place = table.columns.index("group")
        rows = tuple(row for row in table.rows if row[place] == ALL)
        return ResultTable(table.columns, rows)._repr_html_()


class EvaluatedRuns(Sequence[EvaluatedRun]):
    """The runs below a results folder, in the order of their paths."""

    def __init__(self, runs: Sequence[EvaluatedRun]) -> None:
        """Keep the runs."""
        self._runs = tuple(runs)

    def __len__(self) -> int:
        """The number of runs."""
        return len(self._runs)

    def __getitem__(self, place: int) -> EvaluatedRun:  # type: ignore[override]  # no slices
        """The run at a place."""
        return self._runs[place]

    def leaderboard(self, task: str | None = None) -> ResultTable:
        """The scores of all runs, or of one task's, with the columns of leaderboard.csv."""
        from harness.analysis.leaderboard import BOARD_COLUMNS, board_cells, collect
        from harness.analysis.standings import placed, ranked_tables, verdicts_of

        known = sorted({run.task for run in self._runs})
        if task is not None and task not in known:
            raise StoreError(f"no run of task {task!r}{did_you_mean(task, known)}")
        folders = self._folders
        rows = collect(folders)
        found = placed(rows, ranked_tables(rows, verdicts_of(folders, rows)))
        chosen = (row for row in found if task in (None, row.task))
        return ResultTable(BOARD_COLUMNS, tuple(tuple(board_cells(row)) for row in chosen))

    def table(
        self, layout: "str | LayoutSpec" = "", **options: Unpack[TableOptions]
    ) -> ResultTables:
        """A table of these runs; the options are those of `table`."""
        return tables_of(layout, self._folders, options, self._workspace)

    def plot(self, figure: str = "", **options: Unpack[PlotOptions]) -> "Figure":
        """A figure of these runs, for matplotlib; the options are those of `plot`."""
        paths = [folder.path for folder in self._folders]
        if not paths:
            raise StoreError("no run to draw; `load_runs` has those below a results folder")
        space = self._workspace
        return figure_of(figure, paths, options, results=space.results, workspace=space)

    def report(self, out: str | Path = "", *, ratings: str | Path | None = None) -> Path:
        """Write one HTML page of these runs, by default results/report.html; where it is."""
        return page_of(self._folders, self._workspace.results, out, ratings)

    @property
    def _folders(self) -> "list[RunFolder]":
        return [run._folder for run in self._runs]

    @property
    def _workspace(self) -> "Workspace":
        return self._runs[0]._workspace if self._runs else _opened(None)

    @property
    def samples(self) -> ResultTable:
        """One row an answer and judge, of all runs."""
        rows = (row for run in self._runs for row in run.samples.rows)
        return ResultTable(SAMPLE_COLUMNS, tuple(rows))

    @property
    def items(self) -> ResultTable:
        """One row an answer, of all runs; None in the columns of judges that have not read it."""
        return items_of(self._folders)

    def item_chunks(self, rows: int = 10_000) -> Iterator[ResultTable]:
        """The table `items` in parts of at most so many rows, of which one is held at a time."""
        return item_chunks(self._folders, rows)


def tasks(workspace: "Workspace | None" = None) -> list[str]:
    """The names of all tasks."""
    return _opened(workspace).registry.names("tasks")


def models(workspace: "Workspace | None" = None) -> list[str]:
    """The names of all models."""
    return _opened(workspace).registry.names("configs/models")


def judges(workspace: "Workspace | None" = None) -> list[str]:
    """The names of all judges."""
    return _opened(workspace).registry.names("configs/judges")


@contextmanager
def _own_words() -> Iterator[None]:
    """Raise our errors without those behind them, whose tracebacks hide what they say."""
    try:
        yield
    except HarnessError as error:
        raise error from None


def evaluate(
    task: str,
    model: "str | Model",
    judges: "Sequence[str | Judge]" = (),
    *,
    variants: Sequence[str] = (),
    limit: int | None = None,
    seed: int = 0,
    judge_model: str | None = None,
    allow_self_judge: bool = False,
    budget_usd: float | None = None,
    tag: str | None = None,
    workspace: "Workspace | None" = None,
) -> EvaluatedRun:
    """Answer a task with a model, have judges read the answers, and score them.

    Models and judges are names, or Python objects (`FunctionModel`, a subclass of `Judge`).
    Without judges, those of the task read. Finished calls are stored below `results/` and never
    asked again: call it again to resume. `limit` takes a seeded subset of the samples; `tag` names
    the run, which commands then take as `@TAG`.
    """
    from harness.pipeline.execute import run_each
    from harness.pipeline.resolve import RunOptions, resolve

    if isinstance(judges, str) or isinstance(variants, str) or (limit is not None and limit < 1):
        raise SpecError("judges and variants are lists of names, and limit is at least 1")
    options = RunOptions(
        task=task,
        model=model,
        judges=tuple(judges),
        variants=tuple(variants),
        judge_model=judge_model,
        seed=seed,
        limit=limit,
        is_self_judge_allowed=allow_self_judge,
    )
    with _own_words():
        opened = _opened(workspace)
        [result] = run_each([resolve(opened.with_budget(budget_usd), options, is_told_again=True)])
    if tag is not None:
        result.folder.write_tag(tag)
    return EvaluatedRun(opened, result.folder)


def load_runs(
    results: str | Path = "results",
    workspace: "Workspace | None" = None,
    *,
    name: str | None = None,
) -> EvaluatedRuns:
    """The stored runs below a results folder; one run where `results` is a run's folder.

    With `name` the one run that commands know by it: TASK/MODEL, @TAG, the start of a digest.
    """
    from harness.storage.find_runs import find_run, run_folders
    from harness.storage.runs import RunFolder

    path = Path(results)
    folders = [RunFolder(path)] if (path / "run.json").is_file() else run_folders(path)
    if not path.is_dir():
        raise SpecError(f"results folder {path}: no such folder; evaluate something first")
    folders = folders if name is None else [find_run(path, name)]
    opened = _opened(workspace)
    spaces = [replace(opened, results=folder.results(opened.results)) for folder in folders]
    return EvaluatedRuns([*map(EvaluatedRun, spaces, folders)])


def table(
    layout: "str | LayoutSpec" = "",
    runs: Sequence[str] = (),
    *,
    results: str | Path = "results",
    workspace: "Workspace | None" = None,
    **options: Unpack[TableOptions],
) -> ResultTables:
    """A table of stored runs, of people's ratings or of data, as `harness table` makes it.

    `layout` is a name in configs/layouts/, the path of a YAML file, or a spec; without it, models
    by judges. `runs` are names of runs, by default all. Options: `rows`, `columns` and `groups`
    replace the layout's; `where` keeps some values of a name, by patterns; `cell` is some of
    value, interval, sd, n, rank, and `digits` those after the point; `ratings` is a file of
    people's; `files` are read in place of those that the layout names.
    """
    return tables_of(layout, _named(results, runs), options, _opened(workspace))


def plot(
    figure: str = "",
    of: Sequence[str | Path] = (),
    *,
    results: str | Path = "results",
    workspace: "Workspace | None" = None,
    **options: Unpack[PlotOptions],
) -> "Figure":
    """A figure of runs, ratings or texts for matplotlib, as `harness plot` draws it.

    `figure` is a name that `harness plot` lists; without it, `x` is what scores are drawn by:
    model, variant, group, judge, task, metric. `of` are names of runs, by default all, or files.
    Options: `panel`, `series` and `metric` go with `x`; `judges`, `variants` and `tasks` choose
    scores; `ratings` is a file of people's; `column`, `label`, `seed` and `scorer` are for texts;
    `width_cm`, 16 by default. Raises HarnessError without matplotlib (extra `plots`).
    """
    return figure_of(figure, of, options, results=Path(results), workspace=_opened(workspace))


def report(
    out: str | Path = "",
    runs: Sequence[str] = (),
    *,
    ratings: str | Path | None = None,
    results: str | Path = "results",
) -> Path:
    """Write one HTML page of stored runs, as `harness report` does; where it is.

    `out` is the file, by default report.html in `results`; `runs` are names of runs, by default
    all; `ratings`, a file of people's, adds how well judges agree with them.
    """
    return page_of(_named(results, runs), Path(results), out, ratings)


def _named(results: str | Path, runs: Sequence[str]) -> "list[RunFolder]":
    from harness.storage.find_runs import find_runs, run_folders

    if isinstance(runs, str):
        raise SpecError(f"runs {runs!r}: give a list of names")
    return find_runs(Path(results), runs) or run_folders(Path(results))


def agreement(
    ratings: str | Path,
    results: str | Path = "results",
    *,
    judges: Sequence[str] = (),
    level: "Scale" = "interval",
    rater_kind: str = "crowd",
    orders: "Orders" = "both",
    seed: int = 0,
    draws: int = 1000,
) -> ResultTable:
    """How far each judge agrees with people's ratings: the columns of agreement.csv.

    `ratings` is a CSV file with the columns task, sample_id, model, rater, value, scale. `level`
    is nominal, ordinal or interval; `rater_kind` expert, skilled or crowd; `orders` both, first or
    second: which orders of a judge that was asked in two.
    """
    from harness.analysis.agreement import EPSILONS, AgreementRow, AgreementSettings, agreement_rows
    from harness.analysis.panels import AgreementQuery, rated_panels
    from harness.judges.asking import Orders
    from harness.stats.agreement import Scale
    from harness.storage.find_runs import run_folders

    if orders not in get_args(Orders):
        raise SpecError(f"orders {orders!r}: give one of {', '.join(get_args(Orders))}")
    if level not in (levels := get_args(Scale)) or rater_kind not in EPSILONS:
        raise SpecError(
            f"level {level!r}, rater_kind {rater_kind!r}: give one of {', '.join(levels)}, and one "
            f"of {', '.join(EPSILONS)}"
        )
    settings = AgreementSettings(seed, draws, level, EPSILONS[rater_kind])
    query, rows = AgreementQuery(tuple(judges), orders=orders), list[AgreementRow]()
    for panel in rated_panels(Path(ratings), run_folders(Path(results)), query):
        rows += agreement_rows(panel, settings)
    columns = tuple(field.name for field in fields(AgreementRow))
    return ResultTable(columns, tuple(tuple(getattr(r, name) for name in columns) for r in rows))


def implicitness(texts: Iterable[str], scorer: str = "impscore-minilm") -> ResultTable:
    """How implicit each text is by the ImpScore metric: higher is more implicit.

    `value` is None where a text has no score; `flag` says why, or what limits the score.
    """
    given = list(texts)
    if isinstance(texts, str):
        raise SpecError("implicitness takes a list of texts, not one text")
    scored = _opened(None).registry.scorer(scorer).score(given)
    rows = tuple(
        (text, one.value, None if one.flag is None else str(one.flag))
        for text, one in zip(given, scored, strict=True)
    )
    return ResultTable(("text", "value", "flag"), rows)


def probe_scorer(scorer: str = "impscore-minilm", by: "By | None" = None) -> ResultTable:
    """What a scorer knows and what it does not: the columns of `harness impscore probe -o`."""
    return probe_table(_opened(None).registry.scorer(scorer), by)


def _opened(workspace: "Workspace | None") -> "Workspace":
    from harness.workspace import Workspace

    return workspace or Workspace.open()


def _score_table(rows: "Iterable[ScoreRow]") -> ResultTable:
    from harness.storage.runs import COLUMNS, cells_of

    return ResultTable(COLUMNS, tuple(tuple(cells_of(row)) for row in rows))
