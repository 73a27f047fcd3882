"""The command plot: a figure of runs, ratings or texts, and its data as CSV."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from harness.cli import options
from harness.cli.options import SCORER, Only, ScorerName, Where, argument, option, output
from harness.errors import SpecError
from harness.present.figures.figure import ENDINGS, data_csv, pictures
from harness.present.figures.named import FIGURES, check_figure, figure_of
from harness.present.screen import ProgressLine, say, show_names
from harness.storage.files import refuse_source
from harness.storage.tables import write_named


@dataclass(frozen=True, kw_only=True)
class FigureChoice:
    """Which figure is drawn, of what, and how."""

    what: list[str] | None = argument(
        "NAME",
        "Name of a figure, then the runs or files that it is of; with --x runs alone. Without any "
        "name: list the figures. Default: all runs.",
        None,
    )
    out: Path | None = output(
        "File to write: .pdf, .svg or .png; without an ending, all three. Its data go into a CSV.",
        *(*ENDINGS, ""),
        default=None,
    )
    x: str | None = option("Draw scores by model, variant, group, judge, task, metric ...")
    panel: str = option("With --x: a panel for each of these.", "")
    series: str = option("With --x: a series for each of these.", "")
    metric: str = option("With --x: the metric to draw. Default: the headline's.", "")
    width: float = option("Width of the figure in cm.", 16.0, metavar="CM")
    judge: str | None = option("Judges, comma-separated. Default: all, or gold.")
    variant: str | None = option("Variants, comma-separated. Default: all.")
    task: str | None = option("Tasks, comma-separated. Default: all.")
    ratings: Path | None = option("Long-form CSV of ratings by people.")
    column: str | None = option("Column of the texts of files. Default: text.")
    label: str | None = option(
        "Column of labels of files, each a series; of maps also a column of markers, and one of "
        "words at the points: topic,level,text."
    )
    encoder: str | None = option(
        "Encoder for ishate-1 and -2: minilm, char-ngrams, or a sentence-transformers model "
        "(hub name or folder). Default: the scorer's."
    )
    seed: options.Seed = 0


def plot(
    choice: FigureChoice,
    where: Annotated[Where, Only("data table results home")],
    scorer: ScorerName = SCORER,
) -> None:
    """Draw a figure of runs, ratings or texts, and write its data as CSV.

    \b
    Examples:
      harness plot intent-resolution-3 -o levels.pdf
      harness plot --x model --series judge --task ludwig -o models
    """
    words = choice.what or []
    if not words and choice.x is None:
        rows = [(name, source, about) for name, (source, about, _) in FIGURES.items()]
        show_names(("figure", "of", "what it shows"), rows, [source for _, source, _ in rows])
        return
    if choice.x is None:
        check_figure(words[0])
    if choice.out is None:
        raise SpecError("-o: name the file to write, as in -o figure.pdf")
    out, endings = choice.out, [end for end in ENDINGS if choice.out.suffix in ("", end)]
    refuse_source(table := out.with_suffix(".csv"))
    kept = ("panel", "series", "metric", "ratings", "column", "label", "encoder", "seed")
    drawing = figure_of(
        "" if choice.x else words[0],
        words if choice.x else words[1:],
        where.workspace(options.OFFLINE),
        ProgressLine("encoded"),
        x=choice.x or "",
        judges=options.names(choice.judge, "--judge"),
        variants=options.names(choice.variant),
        tasks=options.names(choice.task, "--task"),
        scorer=scorer,
        table=where.table,
        **{name: getattr(choice, name) for name in kept},
    )
    write_named(table, data_csv(drawing).encode())
    say(f"wrote the data to {table}")
    for ending, data in pictures(drawing, endings, width_cm=choice.width).items():
        write_named(out.with_suffix(ending), data)
        say(f"wrote a figure to {out.with_suffix(ending)}")
