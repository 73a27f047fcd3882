"""The figures that have names, each with what it is drawn from, and how it is made.

A name with a number is that of a figure of a paper. Nothing here draws or writes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypedDict, Unpack

from harness.analysis.boards.scores import board_scores, prompt_names, score_text, words_of
from harness.analysis.curves import curve_rows, scale_of
from harness.analysis.curves import together as joined
from harness.analysis.panels import AgreementQuery, Panel, panels
from harness.data.ratings import read_ratings
from harness.errors import DataError, SpecError, StoreError, did_you_mean
from harness.implicitness.evaluate import evaluate
from harness.implicitness.open import with_options
from harness.implicitness.pairs import read_items, read_pairs
from harness.implicitness.profile import Profile, profile
from harness.implicitness.rankings import read_people, scorer_judged
from harness.implicitness.scorer import Flag, Scorer, text_of
from harness.lazy import DataFrame, pandas
from harness.models.encoders.encoders import Encoder
from harness.models.local.classifiers import CHECKPOINT
from harness.models.vectors import Progress
from harness.pipeline.setup import trained_folder
from harness.present.figures import scores, texts
from harness.present.figures.figure import Figure
from harness.present.figures.scores import ScoreFilter
from harness.present.figures.texts import Placed
from harness.specs import implicitness as encoder_specs
from harness.specs.implicitness import MiniLMSpec
from harness.specs.models import SklearnSpec, TrainedSpec
from harness.storage.find_runs import shown_runs
from harness.storage.frames import load
from harness.storage.runs import RunFolder
from harness.storage.tables import TEXT, Table, column_of, read_any
from harness.workspace import Workspace

IMPLICITNESS, PRAGMATICS = "implicitness", "pragmatics"


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
    encoder: str | None
    table: str | None


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a figure is drawn from.

    `given` names runs or files: without any, all runs of the workspace. Of the options, `column`
    and `label` are those of files of texts, and `ratings` is a long-form CSV.
    """

    given: tuple[str, ...]
    workspace: Workspace
    choice: ScoreFilter
    options: FigureOptions
    progress: Progress

    @property
    def seed(self) -> int:
        """Of random draws."""
        return self.options.get("seed", 0)

    def scorer(self) -> Scorer:
        """The scorer of texts, opened now."""
        return self.workspace.registry.scorer(self.options.get("scorer", "impscore-minilm"))

    def folders(self) -> list[RunFolder]:
        """The runs that are named, else all, of the tasks that were chosen."""
        results, tasks = self.workspace.results, self.choice.tasks
        if not (found := shown_runs(results, self.given)):
            raise StoreError(f"no run below {results}/runs; `harness run` makes one")
        return [one for one in found if not tasks or one.read().run.task in tasks]

    def scores(self) -> DataFrame:
        """The stored scores of the runs, with the columns of leaderboard.csv."""
        folders = self.folders()
        texts = {one.key: score_text(one, is_every=True) for one in folders}
        found = board_scores(texts, words_of(folders))
        found["prompts"] = prompt_names(found, folders).fillna("the same")
        names = [name for name in found if found[name].dtype == "category"]
        return found.astype({**dict.fromkeys(names, "object"), "n": "float64"})

    def tables(self) -> list[tuple[str, Table]]:
        """The files that are named, each with a short name; SpecError without any."""
        if not self.given:
            raise SpecError("this figure is of texts: name one or more files")
        has_column = bool(self.options.get("column") or self.options.get("label"))
        names = [Path(name).name.partition(".")[0] for name in self.given]
        return [
            (short if names.count(short) == 1 else path, read_any(path, has_column=has_column))
            for short, path in zip(names, self.given, strict=True)
        ]

    def labelled(self, task: str = "") -> list[Placed]:
        """The texts of the files, by the columns of --label, else by their file.

        Of several columns the second is the marker, the third is written at the point; of a list
        of texts, as the levels of graded sentences, its places are one more. Without files those
        of a task's data, by their labels.
        """
        column, given = self.options.get("column"), self.options.get("label")
        if task and not self.given:
            if column is not None or given is not None:
                raise SpecError("--column and --label are of files: name one, or leave them out")
            spec = self.workspace.registry.load("tasks", task)
            spec = with_options(spec, name=task, table=self.options.get("table"), scorer=None)
            samples, _ = self.workspace.samples(spec.data)
            return [Placed(one.fields[TEXT], one.references["label"][0]) for one in samples]
        names, found = (given or "").split(",") if given else [], list[Placed]()
        for name, table in self.tables():
            columns = [column_of(table, n.strip(), where=name, option="--label") for n in names]
            known = zip(*columns, strict=True) if columns else [(name,)] * len(table)
            cells = column_of(table, column, where=name, option="--column NAME")
            for cell, labels in zip(cells, known, strict=True):
                said = ["(no label)" if one in (None, "") else str(one) for one in labels]
                for place, one in enumerate(cell if isinstance(cell, list) else [cell], 1):
                    text, own = text_of(one), [*said, *[str(place)] * (one is not cell)]
                    found += [] if isinstance(text, Flag) else [Placed(text, *own[:3])]
        if not found:
            raise DataError(f"{', '.join(self.given)}: no text to draw")
        return found

    def answered(self) -> tuple[list[Placed], Encoder]:
        """The texts of one run with their labels, and those of its model, and what it reads by."""
        if len(folders := self.folders()) > 1:
            raise SpecError("this figure is of one run: name one, as in `plot ishate-1 RUN`")
        file = folders[0].read()
        spec = self.workspace.registry.load("configs/models", file.model.name)
        if not isinstance(spec, TrainedSpec):
            raise SpecError(f"model {file.model.name} is not trained here, and has no vectors")
        answers = load(folders, "answers", ["sample", "answer"]).drop_duplicates("sample")
        samples = load(folders, "samples", ["sample", "field_text", "gold"])
        both = samples.merge(answers, on="sample").astype(object).fillna("(none)")
        found = [Placed(r.field_text, r.gold, predicted=r.answer) for r in both.itertuples()]
        if isinstance(spec, SklearnSpec):
            return found, self.workspace.registry.encoder(spec.encoder)
        task = file.task.origin(file.run.task)
        place = trained_folder(self.workspace.results, spec, name=file.model.name, task=task)
        made = encoder_specs.SentenceTransformerSpec(model=str(place / CHECKPOINT))
        return found, self.workspace.registry.encoder(made)


def _panels(inputs: Inputs) -> list[Panel]:
    """People's ratings with the judges of the runs; SpecError without ratings."""
    ratings, folders = inputs.options.get("ratings"), inputs.folders()
    if ratings is None:
        raise SpecError("this figure is of ratings by people: give --ratings FILE")
    query = AgreementQuery(inputs.choice.judges, inputs.choice.variants)
    rated = read_ratings(Path(ratings))
    rated = rated[rated.task.isin({folder.read().run.task for folder in folders})]
    found = [panel for panel in panels(rated, folders, query) if panel.rows]
    if not found:
        raise StoreError(f"{ratings}: no rating is of a response of these runs")
    return found


def _profile(inputs: Inputs, figure: Callable[[Profile], Figure]) -> Figure:
    """A figure of the implicitness and the distances of the texts of each file or label."""
    cells, labels = zip(*((one.text, one.label) for one in inputs.labelled()), strict=True)
    scorer, seed, progress = inputs.scorer(), inputs.seed, inputs.progress
    return figure(profile(cells, labels, scorer, seed=seed, progress=progress))


def _bins(inputs: Inputs, *, with_curves: bool = False) -> Figure:
    judge, variants = next(iter(inputs.choice.judges), "gold"), inputs.choice.variants
    found = [curve_rows(f.read(), f.tables(), judge, variants=variants) for f in inputs.folders()]
    rows = joined(found)
    if not len(rows):
        fact = f"nothing to draw: judge {judge} has read no text whose implicitness is known"
        raise StoreError(f"{fact}; run hate_speech, or another task that measures it")
    return scores.curve_figure(rows, scale_of(rows["data"].iat[0]), with_curves=with_curves)


def _intentions(inputs: Inputs) -> Figure:
    judges = {entry.name: entry for folder in inputs.folders() for entry in folder.read().judges}
    return scores.intentions(inputs.scores(), inputs.choice, judges)


def _violins(inputs: Inputs) -> Figure:
    pairs = [pair for name, table in inputs.tables() for pair in read_pairs(table, where=name)]
    return texts.pair_violins(pairs, inputs.scorer(), inputs.progress)


def _margins(inputs: Inputs, alphas: Sequence[float]) -> Figure:
    grids, what = [], "the file: the grid.csv of `impscore ablate --grid`, as written"
    for name, table in inputs.tables():
        names = (*scores.SYMBOLS, IMPLICITNESS, PRAGMATICS, "test_pairs")
        cells = {one: column_of(table, one, where=name, option=what) for one in names}
        try:
            grids.append(pandas.DataFrame(cells).replace("", None).astype("float64"))
        except ValueError as error:
            raise DataError(f"{name}: {error}; give {what}") from None
    metric = inputs.choice.metric or IMPLICITNESS
    if metric not in (IMPLICITNESS, PRAGMATICS):
        raise SpecError(f"--metric {metric}: give {IMPLICITNESS} or {PRAGMATICS}")
    return scores.margins(pandas.concat(grids), metric, alphas)


def _raters(inputs: Inputs) -> Figure:
    """Agreement on the responses of runs; of a file, on the ranks of its sets of sentences."""
    if not inputs.given or not all(Path(name).is_file() for name in inputs.given):
        first, *more = _panels(inputs)
        if more:
            known = "; ".join(f"{one.variant} {one.label}".strip() for one in (first, *more))
            raise SpecError(
                f"several variants or recipes were rated ({known}): give --variant, --task, or runs"
            )
        return scores.rater_agreement(first)
    ratings = inputs.options.get("ratings")
    if ratings is None or len(inputs.given) > 1:
        raise SpecError("this figure is of one file of graded sentences: give --ratings FILE, too")
    items = read_items(read_any(inputs.given[0], has_column=True), where=inputs.given[0])
    result = evaluate(items, inputs.scorer(), progress=inputs.progress)
    judged = [*read_people([Path(ratings)], items), scorer_judged(items, result)]
    return scores.ranking_agreement([one for one in judged if one.ranks])


def _embeddings(inputs: Inputs, task: str) -> Figure:
    """The embeddings of texts, by the encoder that is named, else by the scorer's."""
    if inputs.given and not any(Path(name).is_file() for name in inputs.given):
        found, own = inputs.answered()
        return texts.embedding_map(found, own, inputs.progress, seed=inputs.seed)
    labelled, name = inputs.labelled(task), inputs.options.get("encoder")
    known: dict[str, encoder_specs.LocalEncoderSpec] = {
        "minilm": MiniLMSpec(),
        "char-ngrams": encoder_specs.CharNgramsSpec(),
    }
    if name is None:
        encoder = inputs.scorer().encoder
    else:
        spec = known.get(name) or encoder_specs.SentenceTransformerSpec(model=name)
        encoder = inputs.workspace.registry.encoder(spec)
    return texts.embedding_map(labelled, encoder, inputs.progress, seed=inputs.seed)


Make = Callable[[Inputs], Figure]


def _of_scores(figure: Callable[[DataFrame, ScoreFilter], Figure]) -> Make:
    return lambda inputs: figure(inputs.scores(), inputs.choice)


_RATED = "runs and --ratings"
FIGURES: Final[Mapping[str, tuple[str, str, Make]]] = {
    name: (source, about, make)
    for name, source, about, make in (
        ("intent-resolution-2", "runs", "Picking the intention and replying, models x phenomena",
         _of_scores(scores.understanding)),
        ("intent-resolution-3", "runs", "Accuracy by level of the prompt, a line a model",
         _of_scores(scores.levels)),
        ("intent-resolution-4", "runs", "Intention against reply accuracy, over models and levels",
         _intentions),
        ("emphasized-talk-4", _RATED, "Judges against people, with r and tau",
         lambda i: scores.judges_against_people(_panels(i))),
        ("impscore-3", "pairs", "Violins of implicitness and distance", _violins),
        ("impscore-4", "grid.csv", "Accuracy of implicitness over both margins at alpha 1",
         partial(_margins, alphas=(1.0,))),
        ("impscore-5", "files", "Mean implicitness of data sets",
         partial(_profile, figure=texts.datasets_mean)),
        ("impscore-6", "files", "Pragmatic distances within data sets",
         partial(_profile, figure=texts.datasets_distance)),
        ("impscore-7", "runs", "Hits and false alarms by bin of implicitness (also 15, 16)", _bins),
        ("impscore-9", _RATED, "Agreement of raters and judges, or on graded sentences", _raters),
        ("impscore-10", "grid.csv", "The same at alpha .5, 1.5 and 2 (--metric pragmatics)",
         partial(_margins, alphas=(0.5, 1.5, 2.0))),
        ("impscore-11", "files", "t-SNE of pragmatic and semantic features (also 12, 13)",
         lambda i: texts.features_map(i.labelled(), i.scorer(), i.progress, seed=i.seed)),
        ("impscore-14", "files", "Distribution of implicitness of data sets",
         partial(_profile, figure=texts.datasets_distribution)),
        ("ishate-1", "files or data", "t-SNE of embeddings: not hateful, explicit, implicit",
         partial(_embeddings, task="ishate_implicit")),
        ("ishate-2", "files or data", "t-SNE of embeddings: not hateful, plain, subtle",
         partial(_embeddings, task="ishate_subtle")),
        ("curve", "runs", "Hits and false alarms by implicitness, with curves",
         partial(_bins, with_curves=True)),
        ("forest", "runs", "A leaderboard with its intervals", _of_scores(scores.forest)),
    )
}  # fmt: skip
"""Of each name: what it is drawn from, what it shows, and how it is made."""


def check_figure(name: str) -> None:
    """Raise SpecError for the name of no figure."""
    if name not in FIGURES:
        raise SpecError(f"no figure {name!r}{did_you_mean(name, [*FIGURES], 'harness plot')}")


def figure_of(
    figure: str,
    given: Sequence[str],
    workspace: Workspace,
    progress: Progress = lambda *_: None,
    **options: Unpack[FigureOptions],
) -> Figure:
    """The figure of a name, or of scores by `x`; SpecError for neither and for both."""
    x = options.get("x", "")
    if bool(figure) == bool(x):
        raise SpecError(f"plot: give x, or one figure of {', '.join(FIGURES)}")
    if figure:
        check_figure(figure)
    judges, variants = options.get("judges", ()), options.get("variants", ())
    tasks = options.get("tasks", ())
    for name, given_names in (("judges", judges), ("variants", variants), ("tasks", tasks)):
        if isinstance(given_names, str):
            raise SpecError(f"{name} {given_names!r}: give a list of names")
    metric = options.get("metric", "")
    choice = ScoreFilter(tuple(judges), tuple(variants), tuple(tasks), metric)
    inputs = Inputs(tuple(given), workspace, choice, options, progress)
    if figure:
        return FIGURES[figure][2](inputs)
    places = x, options.get("panel", ""), options.get("series", "")
    return scores.comparison(choice.select(inputs.scores(), by_group="group" in places), *places)
