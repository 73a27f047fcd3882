"""The commands that train scorers of implicitness and try them: train, ablate, lint and probe."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options
from harness.cli.impscore import read_input
from harness.cli.options import HOME, SCORER, AsJson, ExitCode, Home, argument, option
from harness.cli.put import put_frame
from harness.data.readers import sentence_pairs
from harness.errors import DataError, SpecError
from harness.implicitness.lint import LintMeasure, measures
from harness.implicitness.losses import embed
from harness.implicitness.open import MEASURES, CachedScorer
from harness.implicitness.pairs import TrainingPair, read_pairs, split
from harness.implicitness.probe import (
    ALL,
    ALL_IMPLICIT,
    ALL_PLAIN,
    EDGES,
    IMPLICIT,
    PLAIN,
    UPPER,
    WEAK,
    parts_of,
    probe_figures,
    scores_of,
    words,
)
from harness.implicitness.scorer import save_head
from harness.implicitness.train import (
    METRICS,
    Data,
    grid_points,
    grid_trials,
    make_head,
    origin,
    run_trials,
    trials,
)
from harness.lazy import DataFrame
from harness.models.encoders.encoders import CachedEncoder
from harness.pipeline.plan import subsample
from harness.pipeline.setup import VECTORS
from harness.present.figures.training import ablation_figure, margins
from harness.present.screen import Cell, Marked, ProgressLine, say, show_json, show_rows, warn
from harness.registry import Registry
from harness.specs.implicitness import RecipeSpec
from harness.storage.cells import json_text
from harness.storage.files import refuse_file, refuse_source, write_whole
from harness.storage.frames import Row, plain_rows, records

RECIPE = "impscore"
PairsFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Sentence pairs (JSON lines, CSV, Parquet): implicit, explicit, topic, intention, "
        "levels; or pos_implicit, pos_explicit, neg_implicit, neg_explicit, source.",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        help="Column: rows with the same value go into the same part of the split. Default: "
        "topic, original or group."
    ),
]


@dataclass(frozen=True, kw_only=True)
class HeadChoice:
    """Which recipe is trained on which pairs, and where the files go."""

    file: PairsFile
    out: Path = option("Folder for the files.", flags="-o --out", metavar="FOLDER")
    recipe: str = option("Recipe: a name in configs/recipes/, or the path of a YAML file.", RECIPE)
    group: Group = None
    home: Home = HOME

    def opened(self) -> tuple[Registry, str, RecipeSpec]:
        """The registry, and the recipe with its name."""
        refuse_file(self.out)
        registry = options.registry(self.home)
        known = registry.file("configs/recipes", self.recipe).stem
        return registry, known, registry.load("configs/recipes", self.recipe)


def train(
    choice: HeadChoice,
    name: str | None = option("Name of the head. Default: the recipe's.", None),
    is_json: AsJson = False,
) -> int:
    """Train a head of the metric on sentence pairs; write it and a card of origin and quality.

    Writes NAME.safetensors and NAME.json: give either to --scorer. Each sentence is encoded once;
    its vector is kept for the next training. The same file, recipe and machine: the same bytes.
    """
    registry, known, spec = choice.opened()
    name = options.plain_name(name or known, option="--name")
    data = Data(choice.file.name, _training_pairs(choice.file, choice.group))
    encoder = CachedEncoder(registry.encoder(spec.encoder), registry.cache / VECTORS)
    head = make_head(name, data, spec, encoder=encoder, progress=ProgressLine("done"))
    path = save_head(head, choice.out / head.name)
    metrics = head.card.metrics if head.card is not None else {}
    if is_json:
        show_json({"head": path, "digest": head.digest, "metrics": metrics})
        return ExitCode.DONE
    if metrics:
        show_rows(head.name, ("metric", "value"), [*metrics.items()])
    say(f"{head.name}@{head.digest[:8]} in {path}")
    return ExitCode.DONE


def ablate(
    choice: HeadChoice,
    runs: int = option("Trainings of each form and setting, each with another seed.", 3, min=1),
    is_grid: bool = option(
        "Train every combination of both margins and alpha instead, 120 of them.",
        False,
        flags="--grid",
    ),
    is_json: AsJson = False,
) -> int:
    """Train all twelve forms of the metric, and all settings that the paper tried.

    Writes ablation.csv, with a row for each training (its metrics on the test pairs and its
    origin), and ablation.svg; or grid.csv and grid.svg with --grid, and prints the best point.
    """
    registry, known, spec = choice.opened()
    if not spec.split[2]:
        raise DataError(f"recipe {known} keeps no pairs to test on; give its split a third share")
    samples = _training_pairs(choice.file, choice.group)
    progress = ProgressLine("done")
    encoder = CachedEncoder(registry.encoder(spec.encoder), registry.cache / VECTORS)
    embedded = embed(samples, encoder, progress)
    parts = split(samples, seed=spec.seed, shares=spec.split)
    planned = grid_trials(spec.settings) if is_grid else trials(spec.settings)
    made_of = origin(choice.file.name, samples, recipe=(known, spec), encoder=encoder)
    found = run_trials(parts, embedded, spec, runs=runs, progress=progress, planned=planned)
    tested, graded = len(parts.test), sum(bool(pair.levels) for pair in parts.test)
    found = (grid_points(found) if is_grid else found).assign(**made_of)
    if is_grid:
        found = found.assign(test_pairs=tested)
        drawing, table = margins(found), choice.out / "grid.csv"
    else:
        drawing = ablation_figure(found, pairs=tested, graded=graded)
        table = choice.out / "ablation.csv"

    def show() -> None:
        if is_grid:
            say("\n".join(drawing.notes))
        else:
            _show_means(found, f"on {tested} test pairs, {graded} of them with levels")

    put_frame(found, table, show, is_json=is_json, chart=drawing)
    return ExitCode.DONE


def _show_means(trainings: DataFrame, where: str) -> None:
    each = trainings.groupby(["setting", "value"], sort=False)
    means = each.size().rename("runs").to_frame().join(each[[*METRICS]].mean()).reset_index()
    rows = [[*row.values()] for row in plain_rows(means)]
    show_rows(f"Means over the runs, {where}", [*means.columns], rows)


def lint(file: PairsFile, group: Group = None, is_json: AsJson = False) -> int:
    """Check whether surface cues distinguish the sides and levels of sentence pairs.

    "sides" is the share of a mark on the implicit sides less that on the explicit ones, "levels"
    the highest share of a level less the lowest; of lengths it is the difference of the mean words
    as a share of the greater. Sentences of the probes (harness impscore probe) are counted too:
    nobody may train on them. The pairs that come with the harness keep the same limits. Exit code
    1: a limit is broken, or could not be measured, as of pairs of one topic.
    """
    found = measures(_training_pairs(file, group))
    if is_json:
        show_json(found)
    else:
        rows = [(m.name, m.value, m.least, m.most, _said(m)) for m in found]
        show_rows(str(file), ("measure", "value", "at least", "at most", ""), rows)
    return ExitCode.DONE if all(m.is_kept for m in found) else ExitCode.CHECK_FAILED


def _said(measure: LintMeasure) -> str:
    if measure.value is None:
        return "not measured"
    return "" if measure.is_kept else "broken"


def probe(
    scorer: str = argument(
        "SCORER",
        "Scorer: a name in configs/scorers/, or the path of a trained head or published weights.",
        SCORER,
    ),
    by: str = option("Add figures by register, or by writer.", "", metavar="register|writer"),
    out: Path | None = option("File for all figures: .csv.", None, flags="-o --out"),
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Find which kinds of implicitness a scorer detects, by sentences that ship.

    Prints the AUC of each implicit kind over each plain kind, with 95 % intervals over sets of
    sentences; a * marks those that begin below .7. Then how high the sentences of each kind score.

    \b
    Example:
      harness impscore probe heads/mine.json --by register -o probe.csv
    """
    if out is not None and out.suffix != ".csv":
        raise SpecError(f"-o {out}: give a name that ends in .csv")
    part = parts_of(by)
    registry = options.registry(home)
    opened = registry.scorer(scorer)
    cached = CachedScorer(opened, registry.cache / MEASURES, ProgressLine("encoded"))
    found = probe_figures(scores_of(cached), by=part, scorer=opened.signature)
    put_frame(found, out, lambda: _put_areas(records(found)), is_json=is_json)
    return ExitCode.DONE


def _put_areas(rows: Sequence[Row]) -> None:
    areas = {(row.part, row.kind, row.against): row for row in rows if row.figure == "auc"}
    kinds, against = (*IMPLICIT, ALL_IMPLICIT), (*PLAIN, ALL_PLAIN)
    say(f"{rows[0].scorer} on {rows[0].sets} sets of probe sentences\n")
    lines = [[words(kind), *(_area(areas[ALL, kind, one]) for one in against)] for kind in kinds]
    title = f"AUC of implicit over plain kinds, 95% interval; * begins below {WEAK:g}"
    show_rows(title, ("", *against), lines)
    parts = [part for part in dict.fromkeys(row.part for row in rows) if part != ALL]
    if parts:
        lines = [
            [words(kind), *(_area(areas[part, kind, ALL_PLAIN], is_short=True) for part in parts)]
            for kind in kinds
        ]
        show_rows("AUC over all plain kinds, by part", ("", *parts), lines)
    _put_heights([row for row in rows if row.part == ALL])
    if parts:
        plain = [row for row in rows if row.kind == ALL_PLAIN]
        _put_heights(plain, title="plain sentences by part")


def _put_heights(rows: Sequence[Row], title: str = "") -> None:
    """The mean of each kind (of each part, where several are there), and how high it reaches."""
    by_part = len({row.part for row in rows}) > 1
    lines: dict[str, list[Cell]] = {}
    for row in rows:
        name = row.part if by_part else words(row.kind)
        if row.figure == "mean":
            lines[name] = [row.value, (row.low, row.high)]
        elif row.at_least is not None and row.at_least >= UPPER:
            lines[name].append(None if row.value is None else f"{row.value:.0%}")
    head = ("", "mean", "95% interval", *(f">={edge:g}" for edge in EDGES if edge >= UPPER))
    show_rows(
        f"{title or 'sentences by kind'}: mean implicitness, and share in the upper bins",
        head,
        [[name, *cells] for name, cells in lines.items()],
    )


def _area(row: Row, *, is_short: bool = False) -> Cell:
    """An AUC in two decimals with its interval, as .83 .79-.87; * where it is weak."""
    numbers = [None if one is None else f"{one:.2f}".lstrip("0") for one in (row.low, row.high)]
    text = "-" if row.value is None else f"{row.value:.2f}".lstrip("0")
    if not is_short and None not in numbers:
        text += f" {numbers[0]}-{numbers[1]}"
    return Marked(f"{text}*") if row.is_weak else text


@dataclass(frozen=True, kw_only=True)
class CollectChoice:
    """The sentences to collect, of one public data set, and where they go."""

    name: str = argument("MAP", "Map: a name in configs/pairs/, or the path of a YAML file.")
    files: list[Path] = argument("FILE", "Tables of the data set: CSV, TSV, JSON lines, Parquet.")
    out: Path = option("File for the sentences: JSON lines.", flags="-o --out")
    limit: options.Limit = None
    seed: options.Seed = 0
    home: Home = HOME


def collect(choice: CollectChoice, is_json: AsJson = False) -> int:
    """Collect the sentences of a public data set that imply something, as samples.

    `harness build JOB` lets a model write what each says outright; a data set that has such
    counterparts needs no job. `harness impscore train` reads both.
    """
    for file in choice.files:
        refuse_source(choice.out, file)
    registry = options.registry(choice.home)
    spec, source = registry.load("configs/pairs", choice.name), Path(choice.name).stem
    found = sentence_pairs.collect(choice.files, spec, source)
    samples = subsample(found.samples, choice.limit, seed=choice.seed)
    lines = (
        {
            "id": one.id,
            "group": one.group,
            "cluster": one.cluster,
            "fields": one.fields,
            "references": one.references,
        }
        for one in samples
    )
    write_whole(choice.out, "".join(f"{json_text(line)}\n" for line in lines).encode())
    counts = {"written": len(samples), "found": len(found.samples), "left_out": found.left_out}
    if is_json:
        show_json(counts | {"job": spec.job or None, "licence": spec.licence})
        return ExitCode.DONE
    say(f"wrote {len(samples)} of {len(found.samples)} sentences to {choice.out}")
    for reason, count in found.left_out.items():
        warn(f"left out: {count} rows, {reason}")
    warn(f"licence: {spec.licence}; the map was tried on {spec.tried}")
    say(
        f"next: harness build {spec.job} {choice.out} --model MODEL -o pairs.jsonl"
        if spec.job
        else f"next: harness impscore train {choice.out} -o heads; it has counterparts already"
    )
    return ExitCode.DONE


def _training_pairs(file: Path, group: str | None) -> list[TrainingPair]:
    table, source = read_input(str(file), None, has_column=True)
    return read_pairs(table, where=source, group=group)
