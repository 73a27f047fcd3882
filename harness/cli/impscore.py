"""The commands of the implicitness metric: score, pairs, eval and profile."""

import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer

from harness.analysis import profile as profiles
from harness.analysis.rankings import people_and_metric, read_people, scorer_judged
from harness.cli import options
from harness.cli.options import HOME, SCORER, AsJson, ExitCode, Home, ScorerName, option
from harness.cli.put import put_frame
from harness.data.readers.samples_jsonl import with_texts
from harness.errors import DataError, SpecError, did_you_mean
from harness.implicitness.evaluate import evaluate as evaluate_on
from harness.implicitness.evaluate import read_items
from harness.implicitness.open import MEASURES, CachedScorer
from harness.implicitness.probe import plain_line, scale_line
from harness.implicitness.scorer import (
    LIMITS,
    Flag,
    Scored,
    Scorer,
    embedded_texts,
    overlap_message,
    text_of,
)
from harness.lazy import pyarrow
from harness.present.figures.texts import profile_figure
from harness.present.screen import (
    Cell,
    ProgressLine,
    cell,
    say,
    show_json,
    show_records,
    show_rows,
    warn,
)
from harness.storage import tables
from harness.storage.cells import csv_text, parquet_bytes
from harness.storage.files import refuse_file, refuse_source, write_whole
from harness.storage.frames import plain_rows, records
from harness.storage.tables import FileFormat, column_of

STDIN = "-"
File = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="CSV, TSV, JSON lines, Parquet or plain lines; - reads stdin."
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", help="Format of FILE: csv, tsv, jsonl, parquet or lines. Default: by its name."
    ),
]


def read_input(file: str, layout: str | None, *, has_column: bool) -> tuple[tables.Table, str]:
    """The rows of a file or of stdin, and its name for messages."""
    name = "stdin" if file == STDIN else file
    if layout is not None and layout not in [*FileFormat]:
        raise SpecError(f"--format {layout!r}: give one of {', '.join(FileFormat)}")
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror}); correct the path") from error
    kind = FileFormat(layout) if layout else tables.detect_format(name, data, has_column=has_column)
    if kind is FileFormat.LINES and has_column:
        raise SpecError(
            f"{name}: is read as plain lines, which have no columns; if it has columns, give it a "
            "name that ends in .csv or .tsv, or give --format if the command has it"
        )
    is_guess = layout is None and tables.format_by_name(name) is None and not has_column
    if is_guess and kind is FileFormat.LINES and _looks_like_csv(data):
        warn(f"{name}: read as plain lines; --column NAME reads it as CSV")
    try:
        return tables.read_table(name, data, kind), name
    except DataError as error:
        if is_guess and kind is FileFormat.JSONL:
            raise DataError(f"{error}, or give --format lines if it is plain text") from error
        raise


def _looks_like_csv(data: bytes) -> bool:
    """Whether the first line and most others have the same number of commas outside quotes."""
    lines = data[:65536].decode("utf-8", "replace").splitlines()[:50]
    first, *others = [re.sub('"[^"]*"', "", line).count(",") for line in lines if line] or [0]
    return first > 0 and 2 * others.count(first) > len(others) > 0


def _warn(message: str) -> None:
    if message:
        warn(message)


@dataclass(frozen=True, kw_only=True)
class Measuring(options.Computing):
    """With which scorer texts are measured, and where their rows go."""

    out: Path | None = option(
        "File to write: .csv, .tsv, .jsonl or .parquet. Default: stdout.", None, flags="-o --out"
    )
    scorer: ScorerName = SCORER
    layout: Format = None
    home: Home = HOME


def score(
    file: File,
    how: Measuring,
    column: str | None = option("Column of the texts. Default: text.", None),
    name: str = option("Name of the new column.", "implicitness", flags="--as"),
    features: Path | None = option(
        "File for the semantic and pragmatic feature of each text: .csv or .parquet.",
        None,
        metavar="FILE",
    ),
    is_json: AsJson = False,
) -> int:
    """Score the implicitness of each text of a file, and write its rows with the scores.

    A second new column says why a score is missing (absent, not_text, empty, nul), or that the text
    was cut or is thin (one word, or letters that the encoder does not know). A third names the
    scorer: scores of different scorers are not comparable.

    \b
    Example:
      harness impscore score comments.csv --column comment -o scored.csv
    """
    target, source = _target(file, how, name, has_column=column is not None, is_json=is_json)
    texts = column_of(target.table, column, where=source)
    registry = how.placed(options.registry(how.home))
    scorer = registry.scorer(how.scorer)
    if features is not None:
        _write_features(features, texts, scorer)
    cached = CachedScorer(scorer, registry.cache / MEASURES, ProgressLine("encoded"))
    rows = [Scored(one.value, Flag(one.flag) if one.flag else None) for one in cached.score(texts)]
    overlap = scorer.overlap((text,) for text in texts)
    card = scorer.head.card
    _warn(f"scale: {scale_line(card.metrics if card else {})}")
    return _finish(target, rows, scorer, overlap, is_json=is_json)


def _write_features(out: Path, texts: Sequence[object], scorer: Scorer) -> None:
    """A row for each text that can be scored: its row from 1, then both features, number by number.

    Those of the members of an ensemble stand one behind the other.
    """
    kind = tables.format_by_name(out.name)
    if kind not in (FileFormat.CSV, FileFormat.PARQUET):
        raise SpecError(f"--features {out}: give a name that ends in .csv or .parquet")
    numbered = enumerate(map(text_of, texts), 1)
    reads = [(at, read) for at, read in numbered if not isinstance(read, Flag)]
    if not reads:
        raise DataError("--features: the file has no text that can be scored")
    embedded = embedded_texts((text for _, text in reads), scorer.encoder, ProgressLine("encoded"))
    found = scorer.head.features(embedded.vectors)
    places = [embedded.places[text] for _, text in reads]
    sides = {"semantic": found.semantic[places], "pragmatic": found.pragmatic[places]}
    table = {"row": [at for at, _ in reads]} | {
        f"{side}_{place + 1}": column
        for side, values in sides.items()
        for place, column in enumerate(values.T.tolist())
    }
    if kind is FileFormat.CSV:
        write_whole(out, csv_text([*table], zip(*table.values(), strict=True)).encode())
        return

    write_whole(out, parquet_bytes(pyarrow.table(table)))


def pairs(
    file: File,
    *,
    columns: str = option("The two columns of texts, comma-separated."),
    how: Measuring,
    name: str = option("Name of the new column.", "pragmatic_distance", flags="--as"),
    is_json: AsJson = False,
) -> int:
    """Measure the distance in meaning of the two texts of each row, and write the rows with it.

    The new columns are those of `harness impscore score`.
    """
    wanted = [part.strip() for part in columns.split(",")]
    if len(wanted) != 2 or not all(wanted):
        raise SpecError(f"--columns {columns!r}: give two names, as in --columns first,second")
    target, source = _target(file, how, name, has_column=True, is_json=is_json)
    first, second = (column_of(target.table, one, where=source) for one in wanted)
    scorer = how.placed(options.registry(how.home)).scorer(how.scorer)
    texts = [*zip(first, second, strict=True)]
    rows = scorer.distances(texts, ProgressLine("encoded"))
    _warn("scale: 0 means the same, without an upper bound; compare groups of pairs of one scorer")
    return _finish(target, rows, scorer, scorer.overlap(texts), is_json=is_json)


@dataclass(frozen=True, slots=True)
class _Target:
    """Rows to score, and where they go; layout None: nowhere."""

    table: tables.Table
    name: str
    out: Path | None
    layout: FileFormat | None


def _target(
    file: str, how: Measuring, name: str, *, has_column: bool, is_json: bool
) -> tuple[_Target, str]:
    """Where the rows of a file go, and its name; what cannot be written is refused first."""
    out = how.out
    if out is not None and file != STDIN:
        refuse_source(out, Path(file))
    table, source = read_input(file, how.layout, has_column=has_column)
    if not name.strip():
        raise SpecError(f"--as {name!r}: give the new column a name")
    if out is None and is_json:
        return _Target(table, name, None, None), source
    layout = (
        table.file_format if out is None else tables.format_by_name(out.name) or FileFormat.LINES
    )
    if out is not None and layout is FileFormat.LINES:
        known = [ending for ending, kind in tables.ENDINGS.items() if kind is not FileFormat.LINES]
        raise SpecError(
            f"-o {out}: the ending of the name sets the format; give one of {', '.join(known)}"
        )
    if out is None and layout is FileFormat.PARQUET:
        raise SpecError("Parquet cannot be printed: name a file with -o")
    tables.extended(table, _columns(name, [Scored(None, Flag.ABSENT)] * len(table), ""), layout)
    return _Target(table, name, out, layout), source


def _columns(name: str, scored: Sequence[Scored], scorer: str) -> list[tables.Column]:
    return [
        tables.Column(name, [one.value for one in scored], is_number=True),
        tables.Column(f"{name}_flag", [one.flag for one in scored], is_number=False),
        tables.Column(f"{name}_scorer", [scorer] * len(scored), is_number=False),
    ]


def _finish(
    target: _Target, scored: Sequence[Scored], scorer: Scorer, overlap: int | None, *, is_json: bool
) -> int:
    name, out = scorer.signature, target.out
    values = [one.value for one in scored if one.value is not None]
    flags = Counter(str(one.flag) for one in scored if one.flag is not None)
    cut, thin = (flags.pop(flag, 0) for flag in LIMITS)
    missing, mean = dict(sorted(flags.items())), fmean(values) if values else None
    if target.layout is not None:
        columns = _columns(target.name, scored, name)
        _write(tables.extended(target.table, columns, target.layout), out)
    _warn(overlap_message(name, overlap, len(scored), what="rows"))
    if is_json:
        counts = {"scorer": name, "n": len(scored), "scored": len(values), "mean": mean}
        more = {"missing": missing, "cut": cut, "thin": thin, "trained_on": overlap, "out": out}
        show_json({"summary": counts | more, "rows": scored if out is None else None})
        return ExitCode.of(missing)
    parts = [f"{name}: {len(values)} of {len(scored)} rows have a value, mean {cell(mean)}"]
    if missing:
        parts.append(f"without: {', '.join(f'{n} {flag}' for flag, n in missing.items())}")
    if cut:
        parts.append(f"{cut} longer than the encoder reads, scored by their beginning")
    if thin:
        parts.append(f"{thin} of one word, or of letters that the encoder does not know")
    if out is None:
        warn("; ".join(parts))
    else:
        say("; ".join([*parts, f"in {out}"]))
    return ExitCode.of(missing)


def _write(data: bytes, out: Path | None) -> None:
    if out is not None:
        write_whole(out, data)
    elif sys.stdout.isatty():
        say(data.decode("utf-8").removesuffix("\n"))
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()


def evaluate(
    file: File,
    scorer: ScorerName = SCORER,
    ratings: list[Path] | None = option(
        "People's rankings and choices: CSV or XLSX, rater, topic, level, rank; or what `ratings "
        "import` made of a sheet.",
        None,
    ),
    layout: Format = None,
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Evaluate a scorer on sentences that people have graded, paired or chosen.

    FILE has one of these sets of columns: levels (a list, the most explicit sentence first); topic,
    level, text; implicit, explicit; sentence, choices, answer. With --ratings it is compared with
    people: who orders the sentences as their levels, and how far people agree with each other.
    """
    table, source = read_input(file, layout, has_column=True)
    items = read_items(table, where=source)
    people = read_people(ratings, items) if ratings else []
    model = options.registry(home).scorer(scorer)
    result = evaluate_on(items, model, progress=ProgressLine("encoded"))
    _warn(overlap_message(result.scorer, result.trained_on, result.items, what="items"))
    compared = records(people_and_metric(items, people, scorer_judged(items, result)))
    if is_json:
        tables = {"measured": plain_rows(result.measured), "means": plain_rows(result.means)}
        show_json(asdict(result) | tables | {"people": [row._asdict() for row in compared]})
    else:
        columns = "metric, value, interval, chance, n, topics, missing"
        show_records(f"{result.scorer} on {source}", records(result.measured), columns)
        if len(result.means):
            title = "means: implicitness of either side, pragmatic distance of pair and negative"
            show_records(title, records(result.means), "of, mean, sd, n")
        if compared:
            title = "and people: order of the levels, agreement with each person, the nearest"
            columns = "part, who; tau, rho, tau with people=tau_people, rho with people=rho_people"
            show_records(title, compared, f"{columns}, closest, sets, choices, missing")
    missing = [*result.measured["missing"], *(one.missing for one in compared)]
    return ExitCode.of(any(missing))


@dataclass(frozen=True, kw_only=True)
class ProfileChoice:
    """Which texts of a file are described, and where the files go."""

    file: File
    out: Path | None = option(
        "Folder for profile.csv and profile.svg. Default: none is written.", None, flags="-o --out"
    )
    column: str | None = option(
        "Column of the texts; of our sample format also a field or a reference. Default: text.",
        None,
    )
    label: str | None = option("Column of labels; the texts of each label get a row.", None)
    pairs: int = option("Random pairs of texts for each label.", 2000, min=1)
    seed: options.Seed = 0
    layout: Format = None


def profile(
    choice: ProfileChoice, scorer: ScorerName = SCORER, home: Home = HOME, is_json: AsJson = False
) -> int:
    """Describe how implicit the texts of a file are, and how different their meanings.

    It reports the implicitness by label (histogram, mean, spread, quantiles) and the pragmatic
    distance of random pairs of texts. A text that cannot be scored counts as missing, not as zero.
    """
    file, out, label = choice.file, choice.out, choice.label
    if out is not None:
        refuse_file(out)
    has_column = choice.column is not None or label is not None
    table, source = read_input(file, choice.layout, has_column=has_column)
    table = with_texts(table)
    texts = column_of(table, choice.column, where=source)
    opened = options.registry(home).scorer(scorer)
    found = profiles.profile(
        texts,
        None if label is None else _labels(table, label, where=source),
        opened,
        sampling=profiles.Sampling(choice.pairs, choice.seed),
        progress=ProgressLine("encoded"),
    )
    name, rows = "stdin" if file == STDIN else Path(file).name, records(found.rows)
    chart, row = profile_figure(found, title=name), rows[0]
    target = None if out is None else out / "profile.csv"
    show = partial(_put_profile, name, rows)
    put_frame(found.rows, target, show, is_json=is_json, chart=chart)
    reasons = {
        "absent": row.missing_absent,
        "not a text": row.missing_not_text,
        "empty": row.missing_empty,
        "with a NUL": row.missing_nul,
    }
    if counts := ", ".join(f"{count} {why}" for why, count in reasons.items() if count):
        warn(f"texts without a score: {counts}; no bin, mean or pair has them")
    _warn(overlap_message(row.scorer, row.trained_on, row.n))
    if opened.head.card is not None:
        reported = [
            place * profiles.WIDTH for place, count in enumerate(profiles.bins_of(row)) if count
        ]
        _warn(plain_line(opened.head.card.metrics, reported))
    return ExitCode.of(row.texts - row.n)


def _labels(table: tables.Table, name: str, *, where: str) -> list[object]:
    if table.columns.count(name) != 1:
        fact = "no column" if name not in table.columns else "several columns"
        raise DataError(
            f"{where}: {fact} {name!r}{did_you_mean(name, [*table.columns])}; correct --label"
        )
    return table.cells(table.columns.index(name))


def _put_profile(name: str, rows: Sequence[Any]) -> None:
    columns = "label, n, mean, sd, 5%=q05, 25%=q25, median, 75%=q75, 95%=q95, missing, cut, thin"
    show_records(
        f"implicitness of {name}, by {rows[0].scorer}",
        rows,
        columns,
        missing=lambda r: r.texts - r.n,
    )
    bins = [f"{place * 0.25:g} to" for place in range(profiles.BINS)]
    counts: list[tuple[Cell, ...]] = [
        (row.label, *profiles.bins_of(row), row.outside) for row in rows
    ]
    show_rows("texts by bin of implicitness", ("label", *bins, "outside"), counts)
    show_records(
        "pragmatic distances of random pairs of different texts",
        rows,
        "label, texts that differ=different, pairs, mean=distance_mean, sd=distance_sd",
    )
