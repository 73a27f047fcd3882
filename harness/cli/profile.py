"""The command that describes how implicit and how varied the texts of a file are: profile."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli import options
from harness.cli.command import ExitCode, option
from harness.cli.options import HOME, SCORER, AsJson, Home, ScorerName, Seed
from harness.cli.output import Cell, ProgressLine, echo_table, log, put_rows
from harness.cli.text_input import STDIN, File, Format, log_overlap, read_input
from harness.errors import DataError

if TYPE_CHECKING:
    from harness.analysis.profile import ProfileRow
    from harness.storage.tables import Table


@dataclass(frozen=True, kw_only=True)
class ProfileChoice:
    """Which texts of a file are described, and where the files go."""

    file: File
    out: Path = option("-o --out", "Folder for profile.csv and profile.svg.")
    column: str | None = option("--column", "Column of the texts. Default: text.", None)
    label: str | None = option(
        "--label", "Column of labels; the texts of each label get a row.", None
    )
    pairs: int = option("--pairs", "Random pairs of texts for each label.", 2000, min=1)
    seed: Seed = 0
    layout: Format = None


def profile(
    choice: ProfileChoice, scorer: ScorerName = SCORER, home: Home = HOME, is_json: AsJson = False
) -> int:
    """Describe how implicit the texts of a file are, and how far apart in meaning.

    Gives the implicitness by label (histogram, mean, spread, quantiles) and the pragmatic distance
    of random pairs of texts. A text that cannot be scored is counted as missing, not as zero.
    """
    from harness.analysis.profile import ProfileRow, Sampling, picture
    from harness.analysis.profile import profile as profile_of
    from harness.storage.cells import records_csv
    from harness.storage.files import refuse_file
    from harness.storage.tables import column_of

    file, out, label = choice.file, choice.out, choice.label
    refuse_file(out)
    has_column = choice.column is not None or label is not None
    table, source = read_input(file, choice.layout, has_column=has_column)
    texts = column_of(table, choice.column, where=source)
    labels = None if label is None else _labels(table, label, where=source)
    found = profile_of(
        texts,
        labels,
        options.registry(home).scorer(scorer),
        sampling=Sampling(choice.pairs, choice.seed),
        progress=ProgressLine("encoded"),
    )
    name = "stdin" if file == STDIN else Path(file).name
    files = {out / "profile.csv": records_csv(ProfileRow, found.rows)}
    files[out / "profile.svg"] = picture(found, title=name)
    put_rows(found.rows, files, is_json=is_json, show=lambda: _put(name, found.rows))
    _log_missing(found.rows[0])
    return ExitCode.of(found.rows[0].missing)


def _labels(table: "Table", name: str, *, where: str) -> list[object]:
    from harness.errors import did_you_mean

    if table.columns.count(name) != 1:
        fact = "no column" if name not in table.columns else "several columns"
        raise DataError(
            f"{where}: {fact} {name!r}{did_you_mean(name, [*table.columns])}; correct --label"
        )
    return table.cells(table.columns.index(name))


def _put(name: str, rows: "tuple[ProfileRow, ...]") -> None:
    head = ("label", "n", "mean", "sd", "5%", "25%", "median", "75%", "95%", "missing", "cut")
    lines = [
        (
            *(row.label, row.n, row.mean, row.sd, row.q05, row.q25, row.median, row.q75, row.q95),
            *(row.missing, row.cut),
        )
        for row in rows
    ]
    echo_table(f"implicitness of {name}, by {rows[0].scorer}", head, lines)
    bins = [f"{place * 0.25:g} to" for place in range(len(rows[0].bins))]
    counts: list[tuple[Cell, ...]] = [(row.label, *row.bins, row.outside) for row in rows]
    echo_table("texts by bin of implicitness", ("label", *bins, "outside"), counts)
    apart = [
        (row.label, row.different, row.pairs, row.distance_mean, row.distance_sd) for row in rows
    ]
    columns = ("label", "texts that differ", "pairs", "mean", "sd")
    echo_table("pragmatic distances of random pairs of different texts", columns, apart)


def _log_missing(row: "ProfileRow") -> None:
    """Log the texts without a score by reason, and the texts that the scorer was trained on."""
    reasons = {
        "absent": row.missing_absent,
        "not a text": row.missing_not_text,
        "empty": row.missing_empty,
        "with a NUL": row.missing_nul,
    }
    counts = ", ".join(f"{count} {why}" for why, count in reasons.items() if count)
    if counts:
        log(f"texts without a score: {counts}; no bin, mean or pair has them")
    log_overlap(row.scorer, row.trained_on, row.n)
