"""The library: evaluate models, read stored runs and get pandas frames, by the same engine."""

import logging
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, Unpack, get_args

from harness.analysis import error_table
from harness.analysis.agreement import COLUMNS as AGREED
from harness.analysis.agreement import EPSILONS, AgreementSettings
from harness.analysis.agreement import agreement as agreement_frame
from harness.analysis.boards import ranked
from harness.analysis.boards.views import board_notes, ranked_on
from harness.analysis.flags import RateQuery, flags
from harness.analysis.panels import AgreementQuery, panels
from harness.analysis.rates import rates
from harness.analysis.tables.build import Changes, TableInput, adapted, build
from harness.analysis.tables.printed import with_printed
from harness.core import Judge, Model
from harness.data.ratings import read_ratings
from harness.errors import HarnessError, SpecError, StoreError, did_you_mean
from harness.judges.asking import Orders
from harness.lazy import DataFrame, pandas
from harness.pipeline.bundle import write_bundle
from harness.pipeline.execute import judge, run
from harness.pipeline.items import item_cells, item_columns
from harness.pipeline.resolve import RunOptions, resolve, resolve_stored
from harness.pipeline.score import ALL, all_scores
from harness.present.document import frame_of, write
from harness.present.figures.figure import draw
from harness.present.figures.named import FigureOptions, figure_of
from harness.present.page.page import REPORT, write_page
from harness.present.screen import ProgressLine
from harness.specs.layouts import LayoutSpec
from harness.stats.agreement import Scale
from harness.storage.find_runs import find_run, find_runs, run_folders, shown_runs, without_earlier
from harness.storage.frames import load
from harness.storage.runs import COLUMNS, RunFolder, ScoreRow, StoredRows, cells_of
from harness.workspace import Workspace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_T = TypeVar("_T")
_SAMPLE_COLUMNS = (
    *("task", "model", "sample_id", "cluster", "group", "variant", "decoding"),
    *("answer", "gold", "judge", "value", "reason", "note"),
)
_log = logging.getLogger(__name__)


class EvaluatedRun:
    """One run: its scores, its answers, and judges that may still read them.

    `path` is its folder, `task` and `model` names, `tag` its own name or None, `judges` those that
    have read it, and `cost_usd` what all of its calls cost, None if one is not known.
    """

    def __init__(self, workspace: Workspace, folder: RunFolder) -> None:
        """Use the files of a run folder."""
        self._workspace, self._folder, self._file = workspace, folder, folder.read()
        self.path, self.tag, self.task = folder.path, folder.tag, self._file.run.task
        self.model = self._file.model.name
        self.judges = tuple(entry.name for entry in self._file.judges)
        self.cost_usd = self._file.costs.total.cost_usd if self._file.costs else None

    @property
    def missing(self) -> DataFrame:
        """Counts by judge (empty: no answer at all) and reason."""
        found = [(one.judge, str(one.reason), one.count) for one in self._file.missing or ()]
        return pandas.DataFrame(found, columns=["judge", "reason", "count"])

    @property
    def scores(self) -> DataFrame:
        """The headline scores, one a row, with the columns of scores.csv."""
        return _scores(self._folder.read_scores())

    @property
    def all_scores(self) -> DataFrame:
        """The scores by every metric, bin and class, computed from the verdicts."""
        return _scores(all_scores(self._folder))

    @property
    def samples(self) -> DataFrame:
        """One row an answer and judge; `value` is NaN if the verdict is missing (`reason`)."""
        return samples([self])

    @property
    def items(self) -> DataFrame:
        """One row an answer: judge J's `value_J`, or NaN and `reason_J`; `missing`: no answer."""
        return items([self])

    def judge(
        self,
        judges: Sequence[str | Judge],
        *,
        judge_model: str | None = None,
        allow_self_judge: bool = False,
        budget_usd: float | None = None,
    ) -> "EvaluatedRun":
        """Have further judges read the stored answers; the model under test is not asked.

        Raises BudgetReached before a call that might cost more than `budget_usd`.
        """
        workspace = self._workspace.with_budget(budget_usd)
        asked = partial(resolve_stored, judge_model=judge_model, allows_self=allow_self_judge)
        judge(asked(workspace, self._folder, judges))
        return EvaluatedRun(self._workspace, self._folder)

    def rates(
        self,
        by: Sequence[str] = (),
        *,
        judge: str = "gold",
        fpr: float | None = None,
        data: str | Path | None = None,
    ) -> DataFrame:
        """TPR, FPR and precision of all texts and by columns of the data, with intervals.

        Columns that the run did not keep are read from its table or from the file `data`. With
        `fpr` the threshold keeps the FPR so low on one half of the benign originals; the other half
        is measured.
        """
        space = self._with_data(data)
        query = RateQuery(by=tuple(_names(by, "by")), judge=judge, fpr=fpr)
        return rates(*error_table.read_rate_texts(space, self._folder, query))

    def errors(
        self, kind: str = "all", *, judge: str = "gold", data: str | Path | None = None
    ) -> DataFrame:
        """The texts that were missed or flagged falsely: `kind` is missed, false-alarm or all.

        All columns of the table that the run read, or of the file `data`, and what the run says of
        each text, in columns whose names begin with `harness_`.
        """
        space, folder = self._with_data(data), self._folder
        if kind not in error_table.KINDS:
            raise SpecError(f"kind {kind!r}: give one of {', '.join(error_table.KINDS)}")
        found = error_table.run_errors(folder, flags(folder, RateQuery(judge=judge)), kind)
        originals = error_table.originals_of(space, folder) if len(found) else None
        return error_table.error_frame(found, originals)

    def _with_data(self, data: str | Path | None) -> Workspace:
        if data is not None and not Path(data).exists():
            raise SpecError(f"data {data}: no such file; name the table that the run read")
        return self._workspace if data is None else replace(self._workspace, data=Path(data))

    def bundle(self, out: str | Path) -> Path:
        """Write a zip with all that derives this run's numbers again."""
        write_bundle(self._workspace, [self._folder], Path(out))
        return Path(out)

    def __repr__(self) -> str:
        """The task, the model and the folder."""
        return f"<run of {self.task} by {self.model}: {self.path}>"

    def _repr_html_(self) -> str:
        """The overall scores, for a notebook."""
        scores = self.scores
        return str(scores[scores.group == ALL].to_html(escape=True, index=False, na_rep=""))


# Runs, or names of runs as commands take them; without them, all below the results folder.
Runs = Sequence[str | EvaluatedRun]


def names(
    kind: Literal["tasks", "models", "judges"], workspace: Workspace | None = None
) -> list[str]:
    """The names of all tasks, models or judges."""
    registry = _opened(workspace).registry
    if kind in ("tasks", "models", "judges"):
        return registry.names("tasks" if kind == "tasks" else f"configs/{kind}")
    raise SpecError(f"names {kind!r}: give one of tasks, models, judges")


def evaluate(
    task: str,
    model: str | Model,
    judges: Sequence[str | Judge] = (),
    *,
    variants: Sequence[str] = (),
    limit: int | None = None,
    seed: int = 0,
    judge_model: str | None = None,
    allow_self_judge: bool = False,
    budget_usd: float | None = None,
    tag: str | None = None,
    workspace: Workspace | None = None,
) -> EvaluatedRun:
    """Answer a task with a model, have judges read the answers, and score them.

    Models and judges are names, or objects (`FunctionModel`, a subclass of `Judge`); by default the
    task's judges. Call it again to resume. `limit` takes a seeded subset of the samples.
    """
    if limit is not None and not (isinstance(limit, int) and limit >= 1):
        raise SpecError(f"limit {limit!r}: give a whole number from 1 on, or None")
    named = {"task": (task,), "tag": (tag or "",), "variants": _names(variants, "variants")}
    named |= {} if judge_model is None else {"judge_model": (judge_model,)}
    if odd := [(key, x) for key, given in named.items() for x in given if not isinstance(x, str)]:
        raise SpecError(f"{odd[0][0]} {odd[0][1]!r}: give a name")
    if not isinstance(model, str) and not hasattr(model, "answer"):
        raise SpecError(f"model {model!r}: give a name, a FunctionModel or another Model")
    if not isinstance(seed, int):
        raise SpecError(f"seed {seed!r}: give a whole number")
    options = RunOptions(
        *(task, model, _names(judges, "judges"), _names(variants, "variants")),
        judge_model=judge_model,
        seed=seed,
        limit=limit,
        is_self_judge_allowed=allow_self_judge,
    )
    opened = _opened(workspace)
    try:
        with closing(ProgressLine):
            result = run(resolve(opened.with_budget(budget_usd), options, is_shown_again=True))
    except HarnessError as error:  # the errors behind it hide what it says
        raise error from None
    if tag is not None:
        result.folder.write_tag(tag)
    return EvaluatedRun(opened, result.folder)


def load_runs(
    results: str | Path = "results", workspace: Workspace | None = None, *, name: str | None = None
) -> list[EvaluatedRun]:
    """The stored runs below a results folder, or in a run's folder; with `name` the one so named.

    A name is TASK/MODEL, @TAG or the start of a digest.
    """
    path = Path(results)
    folders = [RunFolder(path)] if (path / "run.json").is_file() else run_folders(path)
    if not path.is_dir():
        raise SpecError(f"results folder {path}: no such folder; evaluate something first")
    folders = without_earlier(folders) if name is None else [find_run(path, name)]
    opened = _opened(workspace)
    spaces = [replace(opened, results=folder.results(opened.results)) for folder in folders]
    return [*map(EvaluatedRun, spaces, folders)]


def samples(runs: Runs | None = None, *, results: str | Path = "results") -> DataFrame:
    """One row an answer and judge; `value` is NaN if the verdict is missing (`reason`).

    Columns: task, model, sample_id, cluster, group, variant, decoding, answer, gold, judge, value,
    reason, note. An answer that no judge has read has one row without a judge.
    """
    folders, keys = _folders(runs, results), ["task", "model", "run"]
    answers = load(folders, "answers", ["row", "sample", "variant", "decoding", "answer"])
    known = load(folders, "samples", ["sample", "cluster", "group", "gold"])
    verdicts = load(folders, "verdicts", ["row", "judge", "value", "reason", "note"])
    found = answers.merge(known, on=[*keys, "sample"])
    found = found.merge(verdicts, on=[*keys, "row"], how="left")
    return found.rename(columns={"sample": "sample_id"})[list(_SAMPLE_COLUMNS)]


def items(runs: Runs | None = None, *, results: str | Path = "results") -> DataFrame:
    """One row an answer, with the columns of items.csv and of the judges of all runs."""
    read = [(folder.read(), StoredRows(folder)) for folder in _folders(runs, results)]
    judges = tuple({entry.name: entry for file, _ in read for entry in file.judges}.values())
    cells = (item_cells(file, record, judges) for file, rows in read for record in rows)
    return pandas.DataFrame(cells, columns=item_columns(judges))


def leaderboard(
    runs: Runs | None = None, task: str | None = None, *, results: str | Path = "results"
) -> DataFrame:
    """The scores of some runs, or of one task's, with the columns of leaderboard.csv.

    `attrs` has a `title`, on what models are ranked, empty where none is ranked with another, and
    `notes`, why some have no rank or no interval.
    """
    folders = _folders(runs, results)
    tasks = [folder.read().run.task for folder in folders]
    if task not in {None, *tasks}:
        raise StoreError(f"no run of task {task!r}{did_you_mean(str(task), sorted({*tasks}))}")
    own = [one for one, name in zip(folders, tasks, strict=True) if task in (None, name)]
    scores, boards, _ = ranked.leaderboard(own, is_every=True)
    found = ranked.board_rows(scores, boards, is_every=True)
    found.attrs = {"title": ranked_on(boards), "notes": board_notes(boards)}
    return found


def table(
    layout: str | LayoutSpec | None = None,
    runs: Runs | None = None,
    *,
    ratings: str | Path | None = None,
    files: Sequence[str | Path] = (),
    is_printed: bool = False,
    out: str | Path | None = None,
    results: str | Path = "results",
    workspace: Workspace | None = None,
    **changes: Unpack[Changes],
) -> DataFrame:
    """A table of stored runs, of people's ratings or of data, as `harness table` makes it.

    The values in full precision, NaN if missing; several tables have their titles in the column
    `table`. `out` also writes it, to .tex, .md, .html or .csv. `layout` is a name in
    configs/layouts/, the path of a YAML file, or a spec; without it, models by judges. `changes`
    are keys of a layout; `ratings` is a file of people's; `files` replaces the layout's.
    `is_printed`: what the paper of a named layout prints, what is here, and the difference.
    """
    opened, named = _opened(workspace), layout if isinstance(layout, str) else ""
    if isinstance(layout, str):
        layout = opened.registry.load("configs/layouts", layout) if layout else None
    data = opened.data or opened.registry.cache / "data"
    people = Path(ratings) if ratings else None
    given = TableInput(_folders(runs, results), people, tuple(map(Path, files)), data)
    made = build(adapted(layout, **changes), given)
    if is_printed:
        made = with_printed(opened.registry.all("configs/golden"), named, made)
    if out is not None:
        write(made, Path(out))
    return frame_of(made)


def plot(
    figure: str = "",
    of: "Sequence[str | Path | EvaluatedRun] | None" = None,
    *,
    width_cm: float = 16.0,
    results: str | Path = "results",
    workspace: Workspace | None = None,
    **options: "Unpack[FigureOptions]",
) -> "Figure":
    """A figure of runs, ratings or texts for matplotlib, as `harness plot` draws it.

    `figure` is a name that `harness plot` lists; without it, `x` is what scores are drawn by. `of`
    are runs, by default all, or files. Raises HarnessError without matplotlib (extra `plots`).
    """
    if of is not None and not of:
        raise StoreError("no run to draw; `load_runs` has those below a results folder")
    given = [str(o.path if isinstance(o, EvaluatedRun) else o) for o in _names(of, "of")]
    opened = _opened(workspace)
    made = figure_of(figure, given, replace(opened, results=Path(results)), **options)
    return draw(made, width_cm=width_cm)


def report(
    out: str | Path = "", runs: Runs | None = None, *, results: str | Path = "results"
) -> Path:
    """Write one HTML page of stored runs, by default report.html in `results`; its path."""
    path = Path(out) if out else Path(results) / REPORT
    data, _ = write_page(_folders(runs, results), Path(results), path)
    for note in data.notes:
        _log.warning("%s", note)
    return path


def agreement(
    ratings: str | Path,
    results: str | Path = "results",
    *,
    judges: Sequence[str] = (),
    level: Scale = "interval",
    rater_kind: str = "crowd",
    orders: Orders = "both",
    seed: int = 0,
    draws: int = 1000,
) -> DataFrame:
    """How far each judge agrees with people's ratings: the columns of agreement.csv.

    `ratings` is a CSV file with the columns task, sample_id, model, rater, value, scale. `orders`
    says which orders of a judge that was asked in two. `attrs` has the `sentences` of each panel of
    raters, below its title.
    """
    known = {"orders": get_args(Orders), "level": get_args(Scale), "rater_kind": (*EPSILONS,)}
    for name, value in (("orders", orders), ("level", level), ("rater_kind", rater_kind)):
        if value not in known[name]:
            raise SpecError(f"{name} {value!r}: give one of {', '.join(known[name])}")
    settings = AgreementSettings(seed, draws, level, EPSILONS[rater_kind])
    query = AgreementQuery(tuple(judges), orders=orders)
    found = [
        agreement_frame(panel, settings)
        for panel in panels(read_ratings(Path(ratings)), _folders(None, results), query)
    ]
    made = pandas.concat(found or [pandas.DataFrame(columns=list(AGREED))], ignore_index=True)
    said = ([own.attrs["title"], *own.attrs["sentences"]] for own in found)
    made.attrs = {"sentences": list(chain.from_iterable(said))}
    return made


def score_implicitness(texts: Iterable[str], scorer: str = "impscore-minilm") -> DataFrame:
    """How implicit each text is by the ImpScore metric: higher is more implicit.

    `value` is NaN if a text has no score; `flag` says why, or what limits the score.
    """
    given = _names(texts, "texts")
    scored = _opened(None).registry.scorer(scorer).score(given)
    flags = [None if one.flag is None else str(one.flag) for one in scored]
    return pandas.DataFrame({"text": given, "value": [s.value for s in scored], "flag": flags})


def _opened(workspace: Workspace | None) -> Workspace:
    return workspace or Workspace.open(progress=ProgressLine() if sys.stderr.isatty() else None)


def _folders(runs: Runs | None, results: str | Path) -> list[RunFolder]:
    if runs is None:
        return shown_runs(Path(results))
    found = list[RunFolder]()
    for one in _names(runs, "runs"):
        found += [one._folder] if isinstance(one, EvaluatedRun) else find_runs(Path(results), [one])
    return without_earlier(found)


def _scores(rows: Iterable[ScoreRow]) -> DataFrame:
    return pandas.DataFrame([[*cells_of(row)] for row in rows], columns=list(COLUMNS))


def _names(given: Iterable[_T] | None, name: str) -> tuple[_T, ...]:
    if isinstance(given, str):
        raise SpecError(f"{name} {given!r}: give a list of names")
    try:
        return tuple(given or ())
    except TypeError:
        raise SpecError(f"{name} {given!r}: give a list of names") from None
