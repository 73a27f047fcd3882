"""The commands of the implicitness metric: impscore score, pairs, eval, and those that train."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import impscore_train, options
from harness.cli.options import HOME, AsJson, Home
from harness.cli.output import ProgressLine, echo, echo_json, echo_table, log, number, span
from harness.cli.text_input import STDIN, File, Format, opened
from harness.errors import SpecError

if TYPE_CHECKING:
    from harness.implicitness.scorer import Flag, Scored, Scorer
    from harness.storage.tables import Column, FileFormat, Table

DONE, DONE_WITH_MISSING = 0, 1

app = typer.Typer(
    help="Implicitness: score texts and pairs, evaluate a scorer, train one.", rich_markup_mode=None
)
app.command()(impscore_train.train)
app.command()(impscore_train.ablate)
app.command()(impscore_train.lint)

Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", help="File to write: .csv, .tsv, .jsonl or .parquet. Default: stdout."
    ),
]
ScorerName = Annotated[
    str,
    typer.Option(
        "--scorer", help="Name in configs/scorers/, or path of a head or of published weights."
    ),
]
DEFAULT = "impscore-minilm"


@dataclass(frozen=True, slots=True)
class Summary:
    """What a scorer made of a file; `missing` counts what has no value, by reason.

    `trained_on` counts rows with a text that the scorer was trained on; null where nobody knows.
    """

    scorer: str
    n: int
    scored: int
    mean: float | None
    missing: Mapping[str, int]
    cut: int
    trained_on: int | None
    out: Path | None


@app.command()
def score(
    file: File,
    column: Annotated[
        str | None, typer.Option("--column", help="Column of the texts. Default: text.")
    ] = None,
    out: Out = None,
    scorer: ScorerName = DEFAULT,
    name: Annotated[str, typer.Option("--as", help="Name of the new column.")] = "implicitness",
    layout: Format = None,
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Score the implicitness of each text of a file, and write its rows with the scores.

    Beside the score stand why it is missing (absent, not_text, empty, nul) or that the text was
    cut, and the scorer with its digest: scales of scorers differ. Missing is empty, never zero.
    """
    from harness.implicitness.open import MEASURES, CachedScorer
    from harness.implicitness.scorer import Flag, Scored
    from harness.storage.tables import column_of

    _spare(file, out)
    table, where = opened(file, layout, has_column=column is not None)
    texts = column_of(table, column, where=where)
    target = _target(table, name, out, is_json=is_json)
    registry = options.registry(home)
    found = registry.scorer(scorer)
    kept = CachedScorer(found, registry.cache / MEASURES, ProgressLine("encoded"))
    scored = [Scored(one.value, Flag(one.flag) if one.flag else None) for one in kept.score(texts)]
    overlap = found.overlap((text,) for text in texts)
    return _finish(target, _summary(found, scored, overlap, out), scored, is_json=is_json)


@app.command()
def pairs(
    file: File,
    columns: Annotated[
        str, typer.Option("--columns", help="The two columns of the texts, comma-separated.")
    ],
    out: Out = None,
    scorer: ScorerName = DEFAULT,
    name: Annotated[
        str, typer.Option("--as", help="Name of the new column.")
    ] = "pragmatic_distance",
    layout: Format = None,
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Measure how far apart in meaning the two texts of each row are, and write the rows.

    The new columns are as for `impscore score`.
    """
    from harness.storage.tables import column_of

    wanted = [part.strip() for part in columns.split(",")]
    if len(wanted) != 2 or not all(wanted):
        raise SpecError(f"--columns {columns!r}: give two names, as in --columns first,second")
    _spare(file, out)
    table, where = opened(file, layout, has_column=True)
    first, second = (column_of(table, one, where=where) for one in wanted)
    target = _target(table, name, out, is_json=is_json)
    found = options.registry(home).scorer(scorer)
    both = [*zip(first, second, strict=True)]
    apart = found.distances(both, ProgressLine("encoded"))
    return _finish(target, _summary(found, apart, found.overlap(both), out), apart, is_json=is_json)


@app.command("eval")
def evaluate(
    file: File,
    scorer: ScorerName = DEFAULT,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the intervals' draws.")] = 0,
    layout: Format = None,
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Evaluate a scorer on sentences that people graded, paired or chose among.

    FILE has the columns levels (a list, the most explicit sentence first), or topic, level and
    text; implicit and explicit; or sentence, choices and answer.
    """
    from harness.implicitness.evaluate import evaluate as evaluate_on
    from harness.implicitness.items import read_items

    table, where = opened(file, layout, has_column=True)
    items = read_items(table, where=where)
    found = options.registry(home).scorer(scorer)
    result = evaluate_on(items, found, seed=seed, progress=ProgressLine("encoded"))
    _tell_overlap(result.scorer, result.trained_on, result.items, what="items")
    if is_json:
        echo_json(result)
    else:
        head = ("metric", "value", "95% interval", "chance", "n", "topics", "missing")
        rows = [
            (
                *(m.metric, number(m.value), span(m.low, m.high), number(m.chance)),
                *map(str, (m.n, m.topics, m.missing)),
            )
            for m in result.measured
        ]
        echo_table(f"{result.scorer} on {where}", head, rows)
    return DONE_WITH_MISSING if any(m.missing for m in result.measured) else DONE


@dataclass(frozen=True, slots=True)
class _Target:
    """Rows that are about to be scored, and where they go; layout null: nowhere."""

    table: "Table"
    name: str
    out: Path | None
    layout: "FileFormat | None"


def _target(table: "Table", name: str, out: Path | None, *, is_json: bool) -> _Target:
    """Where the rows go; what could not be written is refused before anything is scored."""
    from harness.storage.tables import ENDINGS, FileFormat, extended, format_by_name

    if not name.strip():
        raise SpecError(f"--as {name!r}: give the new column a name")
    if out is None and is_json:
        return _Target(table, name, None, None)
    layout = table.file_format if out is None else format_by_name(out.name) or FileFormat.LINES
    if out is not None and layout is FileFormat.LINES:
        endings = ", ".join(
            ending for ending, kind in ENDINGS.items() if kind is not FileFormat.LINES
        )
        raise SpecError(f"-o {out}: the ending says what to write; give one of {endings}")
    if out is None and layout is FileFormat.PARQUET:
        raise SpecError("Parquet is not for the screen: give a file in -o")
    nothing = [None] * len(table)
    extended(table, _columns(name, nothing, nothing, ""), layout)
    return _Target(table, name, out, layout)


def _columns(
    name: str,
    values: "Sequence[float | None]",
    flags: "Sequence[Flag | None]",
    signature: str,
) -> "list[Column]":
    """The columns that are added: the values, why there is none, by what scorer."""
    from harness.storage.tables import Column

    return [
        Column(name, values, is_number=True),
        Column(f"{name}_flag", flags, is_number=False),
        Column(f"{name}_scorer", [signature] * len(values), is_number=False),
    ]


def _finish(target: _Target, summary: Summary, scored: "Sequence[Scored]", *, is_json: bool) -> int:
    """Write the rows and tell how it went."""
    from harness.storage.tables import extended

    values, flags = [one.value for one in scored], [one.flag for one in scored]
    if target.layout is not None:
        columns = _columns(target.name, values, flags, summary.scorer)
        _write(extended(target.table, columns, target.layout), target.out)
    _tell_overlap(summary.scorer, summary.trained_on, summary.n, what="rows")
    if is_json:
        echo_json({"summary": summary, "rows": scored if target.out is None else None})
    else:
        _tell(summary)
    return DONE_WITH_MISSING if summary.missing else DONE


def _spare(file: str, out: Path | None) -> None:
    """Refuse to write the rows over the file that they come from."""
    from harness.storage.files import refuse_source

    if out is not None and file != STDIN:
        refuse_source(out, Path(file))


def _tell_overlap(scorer: str, overlap: int | None, total: int, *, what: str) -> None:
    """One line on stderr where the scorer was trained on what it measured, or may have been."""
    from harness.implicitness.scorer import overlap_message

    if line := overlap_message(scorer, overlap, total, what=what):
        log(line)


def _write(data: bytes, out: Path | None) -> None:
    """Write the rows to the file asked for, or to stdout."""
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
    """How many rows have a value, and why the others have none."""
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


def _tell(summary: Summary) -> None:
    """One line on what was done; on stderr where stdout is the rows'."""
    missing = ", ".join(f"{count} {flag}" for flag, count in summary.missing.items())
    line = (
        f"{summary.scorer}: {summary.scored} of {summary.n} rows have a value, mean "
        f"{number(summary.mean)}" + (f"; without: {missing}" if missing else "")
    )
    if summary.cut:
        line += f"; {summary.cut} longer than the encoder reads, by their beginning"
    if summary.out is None:
        log(line)
    else:
        echo(f"{line}; in {summary.out}")
