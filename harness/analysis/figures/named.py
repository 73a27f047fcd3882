"""The figures that have names, each with what it is drawn from, and how its chart is made.

A name with a number is that of a figure of a paper. Nothing here draws or writes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from harness.analysis.curves import curve_rows, together
from harness.analysis.figures import comparisons, detection, people, texts
from harness.analysis.figures.chart import Chart
from harness.analysis.figures.comparisons import Layout, ScoreFilter
from harness.analysis.leaderboard import BoardRow, collect
from harness.analysis.panels import AgreementQuery, Panel, match_ratings
from harness.analysis.profile import Profile, Sampling, profile
from harness.analysis.rankings import read_people, scorer_judged
from harness.core import Sample
from harness.data.ratings import read_ratings
from harness.errors import DataError, SpecError, StoreError, did_you_mean
from harness.implicitness.evaluate import evaluate, read_items
from harness.implicitness.pairs import read_pairs
from harness.implicitness.scorer import Flag, Scorer, text_of
from harness.models.encoders.encoders import Encoder
from harness.models.vectors import Progress
from harness.storage import tables
from harness.storage.find_runs import find_runs, run_folders
from harness.storage.runs import RunFolder, StoredRun
from harness.storage.tables import Table, column_of

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
        """The folders of the runs that are named; all without names."""
        if self.given:
            return find_runs(self.results, self.given)
        if not (found := run_folders(self.results)):
            raise StoreError(f"no run below {self.results}/runs; `harness run` makes one")
        return found

    def rows(self) -> list[BoardRow]:
        """The stored scores of the runs."""
        return collect(self.folders())

    def runs(self) -> list[StoredRun]:
        """The runs, of the tasks that were chosen."""
        tasks = self.choice.tasks
        read = ((folder, folder.read()) for folder in self.folders())
        return [
            StoredRun(file, folder.read_rows())
            for folder, file in read
            if not tasks or file.run.task in tasks
        ]

    def panels(self) -> list[Panel]:
        """People's ratings with the judges of the runs; SpecError without ratings."""
        if self.ratings is None:
            raise SpecError("this figure is of ratings by people: give --ratings FILE")
        ratings = read_ratings(self.ratings)
        query = AgreementQuery(self.choice.judges, self.choice.variants)
        runs, found = self.runs(), list[Panel]()
        for task in dict.fromkeys(rating.task for rating in ratings):
            own = [run for run in runs if run.file.run.task == task]
            rated = [rating for rating in ratings if rating.task == task]
            found += match_ratings(own, rated, query) if own else []
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
            labels = self._labels(table, name)
            pairs = zip(cells, labels, strict=True)
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
        held = self.samples(task)
        labels = tuple(sample.references["label"][0] for sample in held)
        return texts.TextGroups(tuple(sample.fields[tables.TEXT] for sample in held), labels)

    def encoded_map(self, task: str) -> Chart:
        """The embeddings of those texts, by the encoder that is named, else by the scorer's."""
        encoder = self.encoder() if self.encoder else self.scorer().encoder
        return texts.embedding_map(self.labelled_or(task), encoder, self.progress, seed=self.seed)

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
        held = self.labelled()
        sampling = Sampling(seed=self.seed)
        return profile(
            held.texts, held.labels, self.scorer(), sampling=sampling, progress=self.progress
        )


def _table(path: str, *, has_column: bool) -> Table:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); correct the path") from error
    return tables.read_table(path, data, tables.detect_format(path, data, has_column=has_column))


@dataclass(frozen=True, slots=True)
class NamedFigure:
    """A figure of a name: what it shows, what it is drawn from, and its chart."""

    about: str
    source: Source
    chart: Callable[[Inputs], Chart]


def _bins(inputs: Inputs) -> Chart:
    variants = inputs.choice.variants
    tables = [curve_rows(run, inputs.judge, variants=variants) for run in inputs.runs()]
    if not (rows := together(tables)):
        raise StoreError(
            f"nothing to draw: judge {inputs.judge} has read no text whose implicitness is known; "
            "run hate_speech, or another task that measures it"
        )
    return detection.curve_chart(rows, with_curves=False)


def _violins(inputs: Inputs) -> Chart:
    pairs = [pair for name, table in inputs.tables() for pair in read_pairs(table, where=name)]
    return texts.pair_violins(pairs, inputs.scorer(), inputs.progress)


def _margins(metric: str) -> Callable[[Inputs], Chart]:
    def chart(inputs: Inputs) -> Chart:
        points = [point for name, table in inputs.tables() for point in _points(name, table)]
        return texts.margins(points, metric)

    return chart


def _points(name: str, table: Table) -> list[texts.GridPoint]:
    wanted = [*texts.SYMBOLS, "implicitness", "pragmatics", "test_pairs"]
    if absent := [column for column in wanted if column not in table.columns]:
        raise DataError(
            f"{name}: no column {absent[0]!r}; give the grid.csv of `impscore ablate --grid`"
        )
    columns = [
        [_number(name, cell) for cell in table.cells(table.columns.index(column))]
        for column in wanted
    ]
    return [
        texts.GridPoint(a or 0.0, b or 0.0, c or 0.0, first, second, int(pairs or 0))
        for a, b, c, first, second, pairs in zip(*columns, strict=True)
    ]


def _number(name: str, cell: object) -> float | None:
    try:
        return None if cell in (None, "") else float(str(cell))
    except ValueError:
        raise DataError(f"{name}: {cell!r} is no number; give the grid.csv as written") from None


def _raters(inputs: Inputs) -> Chart:
    if inputs.given and all(Path(name).is_file() for name in inputs.given):
        return _rankers(inputs)
    panels = inputs.panels()
    if len(panels) > 1:
        known = ", ".join(panel.variant for panel in panels)
        raise SpecError(f"several variants or tasks were rated ({known}): give --variant, --task")
    return people.rater_agreement(panels[0])


def _rankers(inputs: Inputs) -> Chart:
    """People's ranks of the sets of a file, and those of the scorer."""
    if inputs.ratings is None or len(inputs.given) > 1:
        raise SpecError("this figure is of one file of graded sentences: give --ratings FILE, too")
    ((name, table),) = [(path, _table(path, has_column=True)) for path in inputs.given]
    items = read_items(table, where=name)
    result = evaluate(items, inputs.scorer(), progress=inputs.progress)
    judged = [*read_people([inputs.ratings], items), scorer_judged(items, result)]
    return people.ranking_agreement([one for one in judged if one.ranks])


def _with_verdicts(
    chart: Callable[[Sequence[StoredRun], str, Sequence[str]], Chart],
) -> Callable[[Inputs], Chart]:
    return lambda inputs: chart(inputs.runs(), inputs.judge, inputs.choice.variants)


FIGURES: Final[Mapping[str, NamedFigure]] = {
    "intent-resolution-2": NamedFigure(
        "Picking the intention beside replying, models x phenomena",
        "runs",
        lambda inputs: comparisons.understanding(inputs.rows(), inputs.choice),
    ),
    "intent-resolution-3": NamedFigure(
        "Accuracy by level of the prompt, a line a model",
        "runs",
        lambda inputs: comparisons.levels(inputs.rows(), inputs.choice),
    ),
    "intent-resolution-4": NamedFigure(
        "Intention against reply accuracy, over models and levels",
        "runs",
        lambda inputs: comparisons.intentions(inputs.folders(), inputs.rows(), inputs.choice),
    ),
    "emphasized-talk-4": NamedFigure(
        "Judges against people, with r and tau",
        "runs and --ratings",
        lambda inputs: people.judges_against_people(inputs.panels()),
    ),
    "impscore-3": NamedFigure("Violins of implicitness and distance", "pairs", _violins),
    "impscore-4": NamedFigure(
        "Accuracy of implicitness over both margins and alpha", "grid.csv", _margins("implicitness")
    ),
    "impscore-5": NamedFigure(
        "Mean implicitness of data sets",
        "files",
        lambda inputs: texts.datasets_mean(inputs.profile()),
    ),
    "impscore-6": NamedFigure(
        "Pragmatic distances within data sets",
        "files",
        lambda inputs: texts.datasets_distance(inputs.profile()),
    ),
    "impscore-7": NamedFigure("Hits and false alarms by bin of implicitness", "runs", _bins),
    "impscore-9": NamedFigure(
        "Agreement of raters and judges, or on graded sentences",
        "runs and --ratings",
        _raters,
    ),
    "impscore-10": NamedFigure(
        "Accuracy of pragmatics over both margins and alpha", "grid.csv", _margins("pragmatics")
    ),
    "impscore-11": NamedFigure(
        "t-SNE of pragmatic and semantic features (also 12, 13)",
        "files",
        lambda inputs: texts.features_map(
            inputs.labelled(), inputs.scorer(), inputs.progress, seed=inputs.seed
        ),
    ),
    "impscore-14": NamedFigure(
        "Distribution of implicitness of data sets",
        "files",
        lambda inputs: texts.datasets_distribution(inputs.profile()),
    ),
    "ishate-1": NamedFigure(
        "t-SNE of embeddings: not hateful, explicit, implicit",
        "files or data",
        lambda inputs: inputs.encoded_map("ishate_implicit"),
    ),
    "ishate-2": NamedFigure(
        "t-SNE of embeddings: not hateful, plain, subtle",
        "files or data",
        lambda inputs: inputs.encoded_map("ishate_subtle"),
    ),
    "confusion": NamedFigure(
        "True labels against given ones", "runs", _with_verdicts(detection.confusion)
    ),
    "reliability": NamedFigure(
        "Share right by probability", "runs", _with_verdicts(detection.reliability)
    ),
    "roc": NamedFigure("ROC, precision and recall", "runs", _with_verdicts(detection.roc)),
    "forest": NamedFigure(
        "A leaderboard with its intervals",
        "runs",
        lambda inputs: comparisons.forest(inputs.rows(), inputs.choice),
    ),
    "judge-agreement": NamedFigure(
        "Agreement of judges, a matrix",
        "runs",
        lambda inputs: people.judge_agreement(inputs.runs(), inputs.choice.judges),
    ),
}
ALIASES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("impscore-12", "impscore-13"), "impscore-11"),
    **dict.fromkeys(("impscore-15", "impscore-16"), "impscore-7"),
}
"""Figures of the same form on other texts or models."""


def chart_of(figure: str | Layout, inputs: Inputs) -> Chart:
    """The chart of a figure that has a name, or of scores by some of their properties."""
    if isinstance(figure, str):
        return figure_named(figure).chart(inputs)
    by_group = "group" in (figure.x, figure.panel, figure.series)
    return comparisons.comparison(inputs.choice.of(inputs.rows(), by_group=by_group), figure, "")


def figure_named(name: str) -> NamedFigure:
    """The figure of a name; SpecError for an unknown one."""
    if (found := FIGURES.get(ALIASES.get(name, name))) is None:
        known = [*FIGURES, *ALIASES]
        raise SpecError(f"no figure {name!r}{did_you_mean(name, known)}; `harness plot` lists all")
    return found
