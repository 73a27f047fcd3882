"""The command that says how implicit and how varied the texts of a file are: profile."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.options import HOME, AsJson, Home
from harness.cli.output import ProgressLine, echo, echo_json, echo_table, log, number
from harness.cli.text_input import STDIN, File, Format, opened
from harness.errors import DataError

if TYPE_CHECKING:
    from harness.analysis.profile import ProfileRow
    from harness.storage.tables import Table

DONE, DONE_WITH_MISSING = 0, 1


def profile(
    file: File,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder that profile.csv and profile.svg go to.")
    ],
    column: Annotated[
        str | None, typer.Option("--column", help="Column of the texts. Default: text.")
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", help="Column of labels, each with a row of its own.")
    ] = None,
    scorer: Annotated[
        str,
        typer.Option(
            "--scorer", help="Name in configs/scorers/, or path of a head or of published weights."
        ),
    ] = "impscore-minilm",
    pairs: Annotated[
        int, typer.Option("--pairs", min=1, help="Random pairs of texts, for each label anew.")
    ] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the pairs.")] = 0,
    layout: Format = None,
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Profile a data set: how implicit its texts are, and how far apart in meaning.

    Implicitness by label - histogram, mean, spread, quantiles - and the pragmatic distance of
    random pairs of different texts. A text that cannot be scored is counted, never zero.
    """
    from harness.analysis.profile import Sampling, picture, profile_text
    from harness.analysis.profile import profile as profile_of
    from harness.storage.files import refuse_file, write_whole
    from harness.storage.tables import column_of

    refuse_file(out)
    table, where = opened(file, layout, has_column=column is not None or label is not None)
    texts = column_of(table, column, where=where)
    labels = None if label is None else _labels(table, label, where=where)
    shown = ProgressLine("encoded")
    found = profile_of(
        texts,
        labels,
        options.registry(home).scorer(scorer),
        sampling=Sampling(pairs, seed),
        progress=shown,
    )
    name = "stdin" if file == STDIN else Path(file).name
    write_whole(out / "profile.csv", profile_text(found.rows).encode())
    write_whole(out / "profile.svg", picture(found, title=name).encode())
    if is_json:
        echo_json(found.rows)
    else:
        _put(name, found.rows)
        echo(f"the table in {out / 'profile.csv'}, the picture in {out / 'profile.svg'}")
    return _code(found.rows[0])


def _labels(table: "Table", name: str, *, where: str) -> list[object]:
    """The cells of the column of labels, numbers among them."""
    from harness.errors import did_you_mean

    if table.columns.count(name) != 1:
        fact = "no column" if name not in table.columns else "several columns"
        raise DataError(
            f"{where}: {fact} {name!r}{did_you_mean(name, [*table.columns])}; correct --label"
        )
    return table.cells(table.columns.index(name))


def _put(name: str, rows: "tuple[ProfileRow, ...]") -> None:
    """Print how implicit the texts are, their histogram, and how far apart they are."""
    head = ("label", "n", "mean", "sd", "5%", "25%", "median", "75%", "95%", "missing", "cut")
    lines = [
        (
            *(row.label, str(row.n), number(row.mean), number(row.sd), number(row.q05)),
            *map(number, (row.q25, row.median, row.q75, row.q95)),
            *(str(row.missing), str(row.cut)),
        )
        for row in rows
    ]
    echo_table(f"implicitness of {name}, by {rows[0].scorer}", head, lines)
    bins = [f"{place * 0.25:g} to" for place in range(len(rows[0].bins))]
    counts = [(row.label, *map(str, row.bins), str(row.outside)) for row in rows]
    echo_table("texts by bin of implicitness", ("label", *bins, "outside"), counts)
    apart = [
        (
            row.label,
            *map(str, (row.different, row.pairs)),
            *map(number, (row.distance_mean, row.distance_sd)),
        )
        for row in rows
    ]
    columns = ("label", "texts that differ", "pairs", "mean", "sd")
    echo_table("pragmatic diversity: distances of random pairs of different texts", columns, apart)


def _code(row: "ProfileRow") -> int:
    """Whether a text has no score, which is told by reason; and what the scorer was trained on."""
    from harness.implicitness.scorer import overlap_message

    reasons = {
        "absent": row.missing_absent,
        "not a text": row.missing_not_text,
        "empty": row.missing_empty,
        "with a NUL": row.missing_nul,
    }
    told = ", ".join(f"{count} {why}" for why, count in reasons.items() if count)
    if told:
        log(f"texts without a score: {told}; they stand in no bin, mean or pair")
    if line := overlap_message(row.scorer, row.trained_on, row.n):
        log(line)
    return DONE_WITH_MISSING if row.missing else DONE
