"""The figures that have names, each with what it is drawn from, and how it is made.

A name with a number is that of a figure of a paper. Nothing here draws or writes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypedDict, Unpack

from harness.analysis.boards.scores import board_scores, whole_scores
from harness.analysis.curves import curve_rows, scale_of
from harness.analysis.curves import together as joined
from harness.analysis.panels import AgreementQuery, Panel, panels_of
from harness.analysis.profile import Profile, Sampling, profile
from harness.analysis.rankings import read_people, scorer_judged
from harness.core import Sample
from harness.data.ratings import read_ratings
from harness.errors import DataError, SpecError, StoreError, did_you_mean
from harness.implicitness.evaluate import evaluate
from harness.implicitness.pairs import read_items, read_pairs
from harness.implicitness.scorer import Flag, Scorer, text_of
from harness.lazy import DataFrame, pandas
from harness.models.encoders.encoders import Encoder
from harness.models.vectors import Progress
from harness.present.figures import detection, people, scores, texts, training
from harness.present.figures.figure import Figure
from harness.present.figures.scores import Layout, ScoreFilter
from harness.storage import tables
from harness.storage.find_runs import find_runs, run_folders
from harness.storage.runs import RunFolder
from harness.storage.tables import Table, column_of
from harness.workspace import Workspace

Source = Literal["runs", "runs and --ratings", "files", "files or data", "pairs", "grid.csv"]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a figure is drawn from.

    `given` names runs or files: without any, all runs below `results`. `column` and `label` are
    those of files of texts; `ratings` is a long-form CSV. `scorer` opens the scorer when asked,
    `encoder` another encoder of texts than the scorer's; `samples` reads those of a task.
    """

    given: tuple[str, ...]
    results: Path
    choice: ScoreFilter
    scorer: Callable[[], Scorer]
    progress: Progress
    samples: Callable[[str], Sequence[Sample]]
    encoder: Callable[[], Encoder] | None = None
    ratings: Path | None = None
    column: str | None = None
    label: str | None = None
    seed: int = 0

    @property
    def judge(self) -> str:
        """The one judge of figures of verdicts: the first that was chosen, else gold."""
        return self.choice.judges[0] if self.choice.judges else "gold"

    def folders(self) -> list[RunFolder]:
        """The runs that are named, else all, of the tasks that were chosen."""
        if self.given:
            found = find_runs(self.results, self.given)
        elif not (found := run_folders(self.results)):
            raise StoreError(f"no run below {self.results}/runs; `harness run` makes one")
        tasks = self.choice.tasks
        return [one for one in found if not tasks or one.read().run.task in tasks]

    def scores(self) -> DataFrame:
        """The stored scores of the runs, with the columns of leaderboard.csv."""
        found = board_scores(
            {folder: whole_scores(folder, is_every=True) for folder in self.folders()}
        )
        names = [name for name in found if found[name].dtype == "category"]
        return found.astype({**dict.fromkeys(names, "object"), "n": "float64"})

    def panels(self) -> list[Panel]:
        """People's ratings with the judges of the runs; SpecError without ratings."""
        if self.ratings is None:
            raise SpecError("this figure is of ratings by people: give --ratings FILE")
        query = AgreementQuery(self.choice.judges, self.choice.variants)
        known = {folder.read().run.task for folder in self.folders()}
        ratings = [one for one in read_ratings(self.ratings) if one.task in known]
        found = [*panels_of(ratings, self.folders(), query)]
        if not any(panel.documents for panel in found):
            raise StoreError(f"{self.ratings}: no rating is of a response of these runs")
        return [panel for panel in found if panel.documents]

    def tables(self) -> list[tuple[str, Table]]:
        """The files that are named, each with a short name; SpecError without any."""
        if not self.given:
            raise SpecError("this figure is of texts: name one or more files")
        has_column = self.column is not None or self.label is not None
        names = [Path(name).name for name in self.given]
        if len(set(names)) == len(names):
            names = [name.partition(".")[0] for name in names]
        return [
            (short if names.count(short) == 1 else path, _table(path, has_column=has_column))
            for short, path in zip(names, self.given, strict=True)
        ]

    def labelled(self) -> texts.TextGroups:
        """The texts of the files, by the column --label, else by their file."""
        found: list[tuple[str, str]] = []
        for name, table in self.tables():
            cells = [text_of(cell) for cell in column_of(table, self.column, where=name)]
            pairs = zip(cells, self._labels(table, name), strict=True)
            found += [(cell, label) for cell, label in pairs if not isinstance(cell, Flag)]
        if not found:
            raise DataError(f"{', '.join(self.given)}: no text to draw")
        return texts.TextGroups(*(tuple(side) for side in zip(*found, strict=True)))

    def labelled_or(self, task: str) -> texts.TextGroups:
        """The texts of the files, or without any those of a task's data, by their labels."""
        if self.given:
            return self.labelled()
        if self.column is not None or self.label is not None:
            raise SpecError("--column and --label are of files: name one, or leave them out")
        samples = self.samples(task)
        labels = tuple(sample.references["label"][0] for sample in samples)
        return texts.TextGroups(tuple(one.fields[tables.TEXT] for one in samples), labels)

    def _labels(self, table: Table, name: str) -> list[str]:
        if self.label is None:
            return [name] * len(table)
        if self.label not in table.columns:
            close = did_you_mean(self.label, list(table.columns))
            raise DataError(f"{name}: no column {self.label!r}{close}; correct --label")
        cells = table.cells(table.columns.index(self.label))
        return ["(no label)" if cell in (None, "") else str(cell) for cell in cells]

    def profile(self) -> Profile:
        """The implicitness and the distances of the texts of each file or label."""
        groups, sampling = self.labelled(), Sampling(seed=self.seed)
        scorer = self.scorer()
        return profile(
            groups.texts, groups.labels, scorer, sampling=sampling, progress=self.progress
        )


def _table(path: str, *, has_column: bool) -> Table:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); correct the path") from error
    return tables.read_table(path, data, tables.detect_format(path, data, has_column=has_column))


def _bins(inputs: Inputs, *, with_curves: bool = False) -> Figure:
    variants, folders = inputs.choice.variants, inputs.folders()
    tables = [curve_rows(f.read(), f.tables(), inputs.judge, variants=variants) for f in folders]
    rows = joined(tables)
    if not len(rows):
        raise StoreError(
            f"nothing to draw: judge {inputs.judge} has read no text whose implicitness is known; "
            "run hate_speech, or another task that measures it"
        )
    return detection.curve_figure(rows, scale_of(rows["data"].iat[0]), with_curves=with_curves)


def _intentions(inputs: Inputs) -> Figure:
    folders = inputs.folders()
    judges = {entry.name: entry for folder in folders for entry in folder.read().judges}
    return scores.intentions(judges, inputs.scores(), inputs.choice)


def _violins(inputs: Inputs) -> Figure:
    pairs = [pair for name, table in inputs.tables() for pair in read_pairs(table, where=name)]
    return texts.pair_violins(pairs, inputs.scorer(), inputs.progress)


def _margins(inputs: Inputs, metric: str) -> Figure:
    grid = pandas.concat([_grid(name, table) for name, table in inputs.tables()])
    return training.margins(grid, metric)


def _grid(name: str, table: Table) -> DataFrame:
    wanted = [*training.SYMBOLS, "implicitness", "pragmatics", "test_pairs"]
    if absent := [column for column in wanted if column not in table.columns]:
        raise DataError(
            f"{name}: no column {absent[0]!r}; give the grid.csv of `impscore ablate --grid`"
        )
    cells = {column: table.cells(table.columns.index(column)) for column in wanted}
    try:
        return pandas.DataFrame(cells).replace("", None).astype("float64")
    except ValueError as error:
        raise DataError(f"{name}: {error}; give the grid.csv as written") from None


def _raters(inputs: Inputs) -> Figure:
    if inputs.given and all(Path(name).is_file() for name in inputs.given):
        return _rankers(inputs)
    panels = inputs.panels()
    if len(panels) > 1:
        known = ", ".join(panel.variant for panel in panels)
        raise SpecError(f"several variants or tasks were rated ({known}): give --variant, --task")
    return people.rater_agreement(panels[0])


def _rankers(inputs: Inputs) -> Figure:
    """People's ranks of the sets of a file, and those of the scorer."""
    if inputs.ratings is None or len(inputs.given) > 1:
        raise SpecError("this figure is of one file of graded sentences: give --ratings FILE, too")
    path = inputs.given[0]
    items = read_items(_table(path, has_column=True), where=path)
    result = evaluate(items, inputs.scorer(), progress=inputs.progress)
    judged = [*read_people([inputs.ratings], items), scorer_judged(items, result)]
    return people.ranking_agreement([one for one in judged if one.ranks])


def _features(inputs: Inputs) -> Figure:
    return texts.features_map(inputs.labelled(), inputs.scorer(), inputs.progress, seed=inputs.seed)


def _embeddings(inputs: Inputs, task: str) -> Figure:
    """The embeddings of texts, by the encoder that is named, else by the scorer's."""
    groups = inputs.labelled_or(task)
    encoder = inputs.encoder() if inputs.encoder else inputs.scorer().encoder
    return texts.embedding_map(groups, encoder, inputs.progress, seed=inputs.seed)


_OfVerdicts = Callable[[Sequence[RunFolder], str, Sequence[str]], Figure]


def _of_verdicts(figure: _OfVerdicts) -> Callable[[Inputs], Figure]:
    return lambda inputs: figure(inputs.folders(), inputs.judge, inputs.choice.variants)


def _of_scores(figure: Callable[[DataFrame, ScoreFilter], Figure]) -> Callable[[Inputs], Figure]:
    return lambda inputs: figure(inputs.scores(), inputs.choice)


def _of_profile(figure: Callable[[Profile], Figure]) -> Callable[[Inputs], Figure]:
    return lambda inputs: figure(inputs.profile())


@dataclass(frozen=True, slots=True)
class NamedFigure:
    """A figure of a name: what it shows, what it is drawn from, and how it is made."""

    about: str
    source: Source
    make: Callable[[Inputs], Figure]


FIGURES: Final[Mapping[str, NamedFigure]] = {
    "intent-resolution-2": NamedFigure(
        "Picking the intention and replying, models x phenomena",
        "runs",
        _of_scores(scores.understanding),
    ),
    "intent-resolution-3": NamedFigure(
        "Accuracy by level of the prompt, a line a model", "runs", _of_scores(scores.levels)
    ),
    "intent-resolution-4": NamedFigure(
        "Intention against reply accuracy, over models and levels", "runs", _intentions
    ),
    "emphasized-talk-4": NamedFigure(
        "Judges against people, with r and tau",
        "runs and --ratings",
        lambda inputs: people.judges_against_people(inputs.panels()),
    ),
    "impscore-3": NamedFigure("Violins of implicitness and distance", "pairs", _violins),
    "impscore-4": NamedFigure(
        "Accuracy of implicitness over both margins and alpha",
        "grid.csv",
        partial(_margins, metric="implicitness"),
    ),
    "impscore-5": NamedFigure(
        "Mean implicitness of data sets", "files", _of_profile(texts.datasets_mean)
    ),
    "impscore-6": NamedFigure(
        "Pragmatic distances within data sets", "files", _of_profile(texts.datasets_distance)
    ),
    "impscore-7": NamedFigure("Hits and false alarms by bin of implicitness", "runs", _bins),
    "impscore-9": NamedFigure(
        "Agreement of raters and judges, or on graded sentences", "runs and --ratings", _raters
    ),
    "impscore-10": NamedFigure(
        "Accuracy of pragmatics over both margins and alpha",
        "grid.csv",
        partial(_margins, metric="pragmatics"),
    ),
    "impscore-11": NamedFigure(
        "t-SNE of pragmatic and semantic features (also 12, 13)", "files", _features
    ),
    "impscore-14": NamedFigure(
        "Distribution of implicitness of data sets",
        "files",
        _of_profile(texts.datasets_distribution),
    ),
    "ishate-1": NamedFigure(
        "t-SNE of embeddings: not hateful, explicit, implicit",
        "files or data",
        partial(_embeddings, task="ishate_implicit"),
    ),
    "ishate-2": NamedFigure(
        "t-SNE of embeddings: not hateful, plain, subtle",
        "files or data",
        partial(_embeddings, task="ishate_subtle"),
    ),
    "curve": NamedFigure(
        "Hits and false alarms by implicitness, with curves",
        "runs",
        partial(_bins, with_curves=True),
    ),
    "confusion": NamedFigure(
        "True labels against given ones", "runs", _of_verdicts(detection.confusion)
    ),
    "reliability": NamedFigure(
        "Share right by probability", "runs", _of_verdicts(detection.reliability)
    ),
    "roc": NamedFigure("ROC, precision and recall", "runs", _of_verdicts(detection.roc)),
    "forest": NamedFigure("A leaderboard with its intervals", "runs", _of_scores(scores.forest)),
    "judge-agreement": NamedFigure(
        "Agreement of judges, a matrix",
        "runs",
        lambda inputs: people.judge_agreement(inputs.folders(), inputs.choice.judges),
    ),
}
ALIASES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("impscore-12", "impscore-13"), "impscore-11"),
    **dict.fromkeys(("impscore-15", "impscore-16"), "impscore-7"),
}
"""Figures of the same form on other texts or models."""


class FigureOptions(TypedDict, total=False):
    """What a figure shows: properties of scores, choices among them, and files."""

    x: str
    panel: str
    series: str
    metric: str
    judges: Sequence[str]
    variants: Sequence[str]
    tasks: Sequence[str]
    ratings: str | Path | None
    column: str | None
    label: str | None
    seed: int
    scorer: str


def figure_of(
    figure: str,
    given: Sequence[str],
    *,
    results: Path,
    workspace: Workspace,
    **options: Unpack[FigureOptions],
) -> Figure:
    """The figure of a name, or of scores by `x`; SpecError for neither and for both."""
    x, ratings = options.get("x", ""), options.get("ratings")
    if bool(figure) == bool(x):
        raise SpecError(f"plot: give x, or one figure of {', '.join(FIGURES)}")
    choice = {name: options.get(name, ()) for name in ("judges", "variants", "tasks")}
    for name, given_names in choice.items():
        if isinstance(given_names, str):
            raise SpecError(f"{name} {given_names!r}: give a list of names")
    chosen: list[tuple[str, ...]] = [tuple(names) for names in choice.values()]  # type: ignore[arg-type]  # lists of names
    registry = workspace.registry
    inputs = Inputs(
        given=tuple(given),
        results=results,
        choice=ScoreFilter(chosen[0], chosen[1], chosen[2], options.get("metric", "")),
        scorer=lambda: registry.scorer(options.get("scorer", "impscore-minilm")),
        progress=lambda *_: None,
        samples=lambda task: workspace.samples(registry.load("tasks", task).data)[0],
        ratings=None if ratings is None else Path(ratings),
        column=options.get("column"),
        label=options.get("label"),
        seed=options.get("seed", 0),
    )
    layout = Layout(x, options.get("panel", ""), options.get("series", "")) if x else figure
    return make_figure(layout, inputs)


def make_figure(figure: str | Layout, inputs: Inputs) -> Figure:
    """A figure that has a name, or one of scores by some of their properties."""
    if isinstance(figure, Layout):
        selected = inputs.choice.select(inputs.scores(), by_group="group" in figure.used)
        return scores.comparison(selected, figure)
    if (found := FIGURES.get(ALIASES.get(figure, figure))) is None:
        known = [*FIGURES, *ALIASES]
        close = did_you_mean(figure, known)
        raise SpecError(f"no figure {figure!r}{close}; `harness plot` lists all")
    return found.make(inputs)
