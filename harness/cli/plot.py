"""The command plot: runs, ratings and texts to a figure, with its data."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from harness.cli import options
from harness.cli.options import SCORER, ExitCode, Only, ScorerName, Where, argument, option
from harness.core import Sample
from harness.errors import SpecError
from harness.implicitness.open import with_options
from harness.present.figures.figure import ENDINGS, Ending, Figure, data_csv, pictures
from harness.present.figures.named import FIGURES, Inputs, make_figure
from harness.present.figures.scores import Layout, ScoreFilter
from harness.present.screen import ProgressLine, say, show_rows
from harness.specs.implicitness import (
    CharNgramsSpec,
    LocalEncoderSpec,
    MiniLMSpec,
    SentenceTransformerSpec,
)
from harness.storage.files import refuse_source, write_whole

if TYPE_CHECKING:
    from harness.models.encoders.encoders import Encoder
    from harness.registry import Registry


@dataclass(frozen=True, kw_only=True)
class FigureChoice:
    """Which figure is drawn, of what, and how."""

    what: list[str] | None = argument(
        "NAME",
        "Name of a figure, then the runs or files that it is of; with --x runs alone. Without any "
        "name: list the figures. Default: all runs.",
        None,
    )
    out: Path | None = option(
        "File to write: .pdf, .svg or .png; without an ending, all three. Its data go into a CSV.",
        None,
        flags="-o --out",
    )
    x: str | None = option("Draw scores by model, variant, group, judge, task, metric ...", None)
    panel: str = option("With --x: a panel for each of these.", "")
    series: str = option("With --x: a series for each of these.", "")
    metric: str = option("With --x: the metric to draw. Default: the headline's.", "")
    width: float = option("Width of the figure in cm.", 16.0, metavar="CM")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which scores, ratings and texts are drawn."""

    judge: str | None = option("Judges, comma-separated. Default: all, or gold.", None)
    variant: str | None = option("Variants, comma-separated. Default: all.", None)
    task: str | None = option("Tasks, comma-separated. Default: all.", None)
    ratings: Path | None = option("Long-form CSV of ratings by people.", None)
    column: str | None = option("Column of the texts of files. Default: text.", None)
    label: str | None = option("Column of labels of files; each label is a series.", None)
    encoder: str | None = option(
        "Encoder for ishate-1 and -2: minilm, char-ngrams, or a sentence-transformers model "
        "(hub name or folder). Default: the scorer's.",
        None,
    )
    seed: options.Seed = 0

    def choice(self, metric: str) -> ScoreFilter:
        """Which scores are drawn."""
        judges, variants = options.names(self.judge, "--judge"), options.names(self.variant)
        return ScoreFilter(judges, variants, options.names(self.task, "--task"), metric)

    def encoder_of(self, registry: "Registry") -> "Callable[[], Encoder] | None":
        """What opens the encoder that is named; None where none is."""
        if (name := self.encoder) is None:
            return None
        known: dict[str, LocalEncoderSpec] = {
            "minilm": MiniLMSpec(),
            "char-ngrams": CharNgramsSpec(),
        }
        return lambda: registry.encoder(known.get(name) or SentenceTransformerSpec(model=name))


def plot(
    figure: FigureChoice,
    selection: Selection,
    where: Annotated[Where, Only("data table results home")],
    scorer: ScorerName = SCORER,
) -> int:
    """Draw a figure of runs, ratings or texts, and write its data as CSV.

    \b
    Examples:
      harness plot intent-resolution-3 -o levels.pdf
      harness plot --x model --series judge --task ludwig -o models
    """
    words = figure.what or []
    if not words and figure.x is None:
        return _list_figures()
    if figure.out is None:
        raise SpecError("-o: name the file to write, as in -o figure.pdf")
    endings, registry = _endings(figure.out), options.registry(where.home)
    for read in [*map(Path, words), *filter(None, [selection.ratings])]:
        refuse_source(figure.out.with_suffix(".csv"), read)
    inputs = Inputs(
        given=tuple(words if figure.x else words[1:]),
        results=where.results,
        choice=selection.choice(figure.metric),
        scorer=lambda: registry.scorer(scorer),
        progress=ProgressLine("encoded"),
        samples=lambda task: _samples(task, where),
        encoder=selection.encoder_of(registry),
        ratings=selection.ratings,
        column=selection.column,
        label=selection.label,
        seed=selection.seed,
    )
    layout = Layout(figure.x, figure.panel, figure.series) if figure.x else None
    drawing = make_figure(layout or words[0], inputs)
    _write(drawing, figure.out, endings, width=figure.width)
    return ExitCode.DONE


def _samples(task: str, where: Where) -> list[Sample]:
    """The samples of a task, from the data that is given or fetched, else its own."""
    space = where.workspace(options.OFFLINE)
    spec = with_options(
        space.registry.load("tasks", task), name=task, table=where.table, scorer=None
    )
    samples, _ = space.samples(spec.data)
    return list(samples)


def _list_figures() -> int:
    rows = [(name, found.source, found.about) for name, found in FIGURES.items()]
    show_rows("Figures", ("name", "of", "what it shows"), rows)
    return ExitCode.DONE


def _endings(out: Path) -> list[Ending]:
    """The files that are asked for; SpecError for an ending that is no picture's."""
    if out.is_dir() or not out.name:
        raise SpecError(f"-o {out}: is a folder; name a file in it")
    if not out.suffix:
        return list(ENDINGS)
    return [options.one_of("-o: the ending", out.suffix, *ENDINGS)]


def _write(drawing: Figure, out: Path, endings: list[Ending], *, width: float) -> None:
    """Write the data, then the pictures, which need matplotlib."""
    table = out.with_suffix(".csv")
    write_whole(table, data_csv(drawing).encode())
    say(f"wrote the data to {table}")
    for ending, data in pictures(drawing, endings, width_cm=width).items():
        path = out.with_suffix(ending)
        write_whole(path, data)
        say(f"wrote a figure to {path}")
