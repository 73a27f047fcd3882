"""The commands of the implicitness metric: score, pairs and eval; train, ablate and lint."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.command import ExitCode, option
from harness.cli.options import HOME, SCORER, AsJson, Home, ScorerName, Seed
from harness.cli.output import Cell, ProgressLine, cell, echo, echo_json, echo_table, log
from harness.cli.text_input import STDIN, File, Format, log_overlap, read_input
from harness.errors import DataError, SpecError

if TYPE_CHECKING:
    from harness.implicitness.pairs import TrainingPair
    from harness.implicitness.scorer import Flag, Scored, Scorer
    from harness.implicitness.train import AblationRow
    from harness.storage.tables import Column, FileFormat, Table

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
        "--group",
        help="Column; rows with one value of it stay in one part of the split. Default: topic, "
        "original or group.",
    ),
]


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of scoring a file; `missing` counts rows without a value by reason.

    `trained_on` counts rows with a text that the scorer was trained on; None if unknown.
    """

    scorer: str
    n: int
    scored: int
    mean: float | None
    missing: Mapping[str, int]
    cut: int
    trained_on: int | None
    out: Path | None


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """With which scorer texts are measured, and where their rows go."""

    out: Path | None = option(
        "-o --out", "File to write: .csv, .tsv, .jsonl or .parquet. Default: stdout.", None
    )
    scorer: ScorerName = SCORER
    layout: Format = None
    home: Home = HOME


def score(
    file: File,
    how: Measuring,
    column: str | None = option("--column", "Column of the texts. Default: text.", None),
    name: str = option("--as", "Name of the new column.", "implicitness"),
    is_json: AsJson = False,
) -> int:
    """Score the implicitness of each text of a file, and write its rows with the scores.

    Two more columns say why a score is missing (absent, not_text, empty, nul) or that the text was
    cut, and name the scorer: scores of different scorers are not comparable.

    
    Example:
      harness impscore score comments.csv --column comment -o scored.csv
    """
    from harness.implicitness.open import MEASURES, CachedScorer
    from harness.implicitness.scorer import Flag, Scored
    from harness.storage.tables import column_of

    _refuse_input(file, how.out)
    table, source = read_input(file, how.layout, has_column=column is not None)
    texts = column_of(table, column, where=source)
    target = _target(table, name, how.out, is_json=is_json)
    registry = options.registry(how.home)
    scorer = registry.scorer(how.scorer)
    cached = CachedScorer(scorer, registry.cache / MEASURES, ProgressLine("encoded"))
    rows = [Scored(one.value, Flag(one.flag) if one.flag else None) for one in cached.score(texts)]
    overlap = scorer.overlap((text,) for text in texts)
    return _finish(target, _summary(scorer, rows, overlap, how.out), rows, is_json=is_json)


def pairs(
    file: File,
    *,
    columns: str = option("--columns", "The two columns of texts, comma-separated."),
    how: Measuring,
    name: str = option("--as", "Name of the new column.", "pragmatic_distance"),
    is_json: AsJson = False,
) -> int:
    """Measure how far apart in meaning the two texts of each row are, and write the rows.

    The new columns are those of `harness impscore score`.
    """
    from harness.storage.tables import column_of

    wanted = [part.strip() for part in columns.split(",")]
    if len(wanted) != 2 or not all(wanted):
        raise SpecError(f"--columns {columns!r}: give two names, as in --columns first,second")
    _refuse_input(file, how.out)
    table, source = read_input(file, how.layout, has_column=True)
    first, second = (column_of(table, one, where=source) for one in wanted)
    target = _target(table, name, how.out, is_json=is_json)
    scorer = options.registry(how.home).scorer(how.scorer)
    texts = [*zip(first, second, strict=True)]
    rows = scorer.distances(texts, ProgressLine("encoded"))
    summary = _summary(scorer, rows, scorer.overlap(texts), how.out)
    return _finish(target, summary, rows, is_json=is_json)


def evaluate(
    file: File,
    scorer: ScorerName = SCORER,
    seed: Seed = 0,
    layout: Format = None,
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Evaluate a scorer on sentences that people have graded, paired or chosen.

    FILE has the columns levels (a list, the most explicit sentence first), or topic, level and
    text; implicit and explicit; or sentence, choices and answer.
    """
    from harness.implicitness.evaluate import evaluate as evaluate_on
    from harness.implicitness.evaluate import read_items

    table, source = read_input(file, layout, has_column=True)
    items = read_items(table, where=source)
    model = options.registry(home).scorer(scorer)
    result = evaluate_on(items, model, seed=seed, progress=ProgressLine("encoded"))
    log_overlap(result.scorer, result.trained_on, result.items, what="items")
    if is_json:
        echo_json(result)
    else:
        head = ("metric", "value", "95% interval", "chance", "n", "topics", "missing")
        rows = [
            (*(m.metric, m.value, (m.low, m.high), m.chance, m.n, m.topics, m.missing),)
            for m in result.measured
        ]
        echo_table(f"{result.scorer} on {source}", head, rows)
    return ExitCode.of(any(m.missing for m in result.measured))


@dataclass(frozen=True, kw_only=True)
class HeadChoice:
    """Which recipe is trained on which pairs, and where the files go."""

    file: PairsFile
    out: Path = option("-o --out", "Folder for the files.", metavar="FOLDER")
    recipe: str = option(
        "--recipe", "Recipe: a name in configs/recipes/, or the path of a YAML file.", RECIPE
    )
    group: Group = None
    home: Home = HOME


def train(
    choice: HeadChoice,
    name: str | None = option("--name", "Name of the head. Default: the recipe's.", None),
    is_json: AsJson = False,
) -> int:
    """Train a head of the metric on sentence pairs, with a card of its origin and its quality.

    Writes NAME.safetensors and NAME.json: give either to --scorer. Each sentence is encoded once.
    The same file, recipe and machine give the same bytes.
    """
    from harness.implicitness.scorer import save_head
    from harness.implicitness.train import Data, make_head
    from harness.storage.files import refuse_file

    refuse_file(choice.out)
    registry = options.registry(choice.home)
    known = registry.file("configs/recipes", choice.recipe).stem
    spec = registry.load("configs/recipes", choice.recipe)
    name = options.plain_name(name or known, option="--name")
    data = Data(choice.file.name, _training_pairs(choice.file, choice.group))
    encoder = registry.encoder(spec.encoder)
    head = make_head(name, data, spec, encoder=encoder, progress=ProgressLine("done"))
    path = save_head(head, choice.out / head.name)
    metrics = head.card.metrics if head.card is not None else {}
    if is_json:
        echo_json({"head": path, "digest": head.digest, "metrics": metrics})
        return ExitCode.DONE
    if metrics:
        echo_table(head.name, ("metric", "value"), [*metrics.items()])
    echo(f"{head.name}@{head.digest[:8]} in {path}")
    return ExitCode.DONE


def ablate(
    choice: HeadChoice,
    runs: int = option("--runs", "Trainings of each form and setting, by seed.", 3, min=1),
    is_json: AsJson = False,
) -> int:
    """Train all twelve forms of the metric, and all settings that the paper tried.

    Writes ablation.csv, with a row for each training (its metrics on the test pairs and its
    origin), and ablation.svg.
    """
    from harness.analysis.plots import ablation_picture
    from harness.implicitness.losses import embed
    from harness.implicitness.pairs import split
    from harness.implicitness.train import COLUMNS, Origin, run_trials
    from harness.storage.cells import delimited
    from harness.storage.files import refuse_file, write_whole

    file, out = choice.file, choice.out
    refuse_file(out)
    registry = options.registry(choice.home)
    known = registry.file("configs/recipes", choice.recipe).stem
    spec = registry.load("configs/recipes", choice.recipe)
    if not spec.split[2]:
        raise DataError(f"recipe {known} keeps no pairs to test on; give its split a third share")
    samples = _training_pairs(file, choice.group)
    encoder, progress = registry.encoder(spec.encoder), ProgressLine("done")
    embedded = embed(samples, encoder, progress)
    parts = split(samples, seed=spec.seed, shares=spec.split)
    rows = [*run_trials(parts, embedded, spec, runs=runs, progress=progress)]
    origin = Origin.of(file.name, samples, recipe=(known, spec), encoder=encoder)
    table = delimited(COLUMNS, [row.cells(origin) for row in rows], separator=",")
    write_whole(out / "ablation.csv", table)
    write_whole(out / "ablation.svg", ablation_picture(rows).encode())
    if is_json:
        echo_json({"origin": origin, "trainings": rows})
        return ExitCode.DONE
    graded = sum(bool(pair.levels) for pair in parts.test)
    _put_means(rows, f"on {len(parts.test)} test pairs, {graded} of them with levels")
    echo(f"{len(rows)} trainings in {out / 'ablation.csv'}; picture in {out / 'ablation.svg'}")
    return ExitCode.DONE


def lint(file: PairsFile, group: Group = None, is_json: AsJson = False) -> int:
    """Check whether anything but the meaning distinguishes the sides and levels of sentence pairs.

    The limits are those that our own pairs keep. The exit code is 1 if one is broken.
    """
    from harness.implicitness.lint import measures

    found = measures(_training_pairs(file, group))
    if is_json:
        echo_json(found)
    else:
        rows = [(m.name, m.value, m.least, m.most, "" if m.is_kept else "broken") for m in found]
        echo_table(str(file), ("measure", "value", "at least", "at most", ""), rows)
    return ExitCode.DONE if all(m.is_kept for m in found) else ExitCode.CHECK_FAILED


@dataclass(frozen=True, slots=True)
class _Target:
    """Rows to score, and where they go; layout None: nowhere."""

    table: "Table"
    name: str
    out: Path | None
    layout: "FileFormat | None"


def _target(table: "Table", name: str, out: Path | None, *, is_json: bool) -> _Target:
    """Where the rows go; what cannot be written is refused before any scoring."""
    from harness.storage.tables import ENDINGS, FileFormat, extended, format_by_name

    if not name.strip():
        raise SpecError(f"--as {name!r}: give the new column a name")
    if out is None and is_json:
        return _Target(table, name, None, None)
    layout = table.file_format if out is None else format_by_name(out.name) or FileFormat.LINES
    if out is not None and layout is FileFormat.LINES:
        known = [ending for ending, kind in ENDINGS.items() if kind is not FileFormat.LINES]
        raise SpecError(
            f"-o {out}: the ending of the name sets the format; give one of {', '.join(known)}"
        )
    if out is None and layout is FileFormat.PARQUET:
        raise SpecError("Parquet cannot be printed: name a file with -o")
    nothing = [None] * len(table)
    extended(table, _columns(name, nothing, nothing, ""), layout)
    return _Target(table, name, out, layout)


def _columns(
    name: str, values: "Sequence[float | None]", flags: "Sequence[Flag | None]", scorer: str
) -> "list[Column]":
    """The added columns: the values, why one is missing or cut, and the scorer."""
    from harness.storage.tables import Column

    return [
        Column(name, values, is_number=True),
        Column(f"{name}_flag", flags, is_number=False),
        Column(f"{name}_scorer", [scorer] * len(values), is_number=False),
    ]


def _finish(target: _Target, summary: Summary, scored: "Sequence[Scored]", *, is_json: bool) -> int:
    from harness.storage.tables import extended

    values, flags = [one.value for one in scored], [one.flag for one in scored]
    if target.layout is not None:
        columns = _columns(target.name, values, flags, summary.scorer)
        _write(extended(target.table, columns, target.layout), target.out)
    log_overlap(summary.scorer, summary.trained_on, summary.n, what="rows")
    if is_json:
        echo_json({"summary": summary, "rows": scored if target.out is None else None})
    else:
        _put_summary(summary)
    return ExitCode.of(summary.missing)


def _refuse_input(file: str, out: Path | None) -> None:
    """Refuse to write the rows over the file that they come from."""
    from harness.storage.files import refuse_source

    if out is not None and file != STDIN:
        refuse_source(out, Path(file))


def _write(data: bytes, out: Path | None) -> None:
    from harness.storage.files import write_whole

    if out is not None:
        write_whole(out, data)
    elif sys.stdout.isatty():
        echo(data.decode("utf-8").removesuffix("\n"))
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()


def _summary(
    scorer: "Scorer", scored: "Sequence[Scored]", overlap: int | None, out: Path | None
) -> Summary:
    values = [one.value for one in scored if one.value is not None]
    flags = Counter(str(one.flag) for one in scored if one.flag is not None)
    cut = flags.pop("cut", 0)
    return Summary(
        scorer=scorer.signature,
        n=len(scored),
        scored=len(values),
        mean=fmean(values) if values else None,
        missing=dict(sorted(flags.items())),
        cut=cut,
        trained_on=overlap,
        out=out,
    )


def _put_summary(summary: Summary) -> None:
    """Print one line; on stderr where the rows go to stdout."""
    missing = ", ".join(f"{count} {flag}" for flag, count in summary.missing.items())
    line = (
        f"{summary.scorer}: {summary.scored} of {summary.n} rows have a value, mean "
        f"{cell(summary.mean)}" + (f"; without: {missing}" if missing else "")
    )
    if summary.cut:
        line += f"; {summary.cut} longer than the encoder reads, scored by their beginning"
    if summary.out is None:
        log(line)
    else:
        echo(f"{line}; in {summary.out}")


def _put_means(rows: "Sequence[AblationRow]", where: str) -> None:
    """Print the mean of each metric over the runs of each form and setting."""
    lines: list[tuple[Cell, ...]] = []
    for (setting, value), members in groupby(rows, key=lambda row: (row.setting, row.value)):
        runs = [row.figures for row in members]
        columns = zip(*((f.implicitness, f.pragmatics, f.tau, f.rho) for f in runs), strict=True)
        known = [[part for part in column if part is not None] for column in columns]
        means = (fmean(column) if column else "" for column in known)
        lines.append((setting, value, len(runs), *means))
    head = ("setting", "value", "runs", "implicitness", "pragmatics", "tau", "rho")
    echo_table(f"Means over the runs, {where}", head, lines)


def _training_pairs(file: Path, group: str | None) -> "list[TrainingPair]":
    from harness.implicitness.pairs import read_pairs

    table, source = read_input(str(file), None, has_column=True)
    return read_pairs(table, where=source, group=group)
