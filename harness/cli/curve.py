"""The command that draws hits and false alarms against implicitness: curve."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.options import RESULTS, AsJson, Results
from harness.cli.output import echo, echo_json, echo_table, log, number, span

if TYPE_CHECKING:
    from harness.analysis.curves import CurveRow


def curve(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Runs, by folder or start of digest.")
    ],
    judge: Annotated[str, typer.Option("--judge", help="Judge whose verdicts are told.")] = "gold",
    variant: Annotated[
        str | None, typer.Option("--variant", help="Variants, comma-separated. Default: all.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Folder of the files. Default: RESULTS/curves/."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of resampled clusters.")] = 0,
    results: Results = RESULTS,
    is_json: AsJson = False,
) -> int:
    """Lay hits and false alarms of runs along implicitness: a table of bins and curves, a picture.

    Runs of one task and one scale. Each is called by its model and by all else in which they
    differ: data, variant, decoding, snapshot. Files are named for the task and what is in them.
    """
    from harness.analysis.curves import CurveRow, curve_name, curve_rows, picture, together
    from harness.analysis.stored_runs import StoredRun
    from harness.errors import StoreError
    from harness.implicitness.bins import overlap_line
    from harness.storage.csv import records_csv
    from harness.storage.files import refuse_file, write_whole
    from harness.storage.runs import find_run

    if out is not None:
        refuse_file(out)
    folders = [find_run(results, name) for name in runs]
    stored = [StoredRun.read(folder) for folder in folders]
    wanted = options.names(variant)
    tables = [curve_rows(run, judge, variants=wanted, seed=str(seed)) for run in stored]
    if not (rows := together(tables)):
        under = f" under variant {variant}" if variant else ""
        raise StoreError(
            f"nothing to draw: judge {judge} has read no text of {', '.join(runs)}{under} whose "
            "implicitness is known; run hate_speech, or another task that measures it"
        )
    for named, table in zip(runs, tables, strict=True):
        if not table:
            log(f"{named} is left out: judge {judge} has read no text of it with an implicitness")
    lines = [overlap_line(run.file.data, [row.sample for row in run.rows]) for run in stored]
    for line in filter(None, dict.fromkeys(lines)):
        log(line)
    folder, name = out or results / "curves", curve_name(rows)
    write_whole(folder / f"{name}.csv", records_csv(CurveRow, rows).encode())
    write_whole(folder / f"{name}.svg", picture(rows).encode())
    if is_json:
        echo_json(rows)
        return 0
    _put(rows)
    echo(f"{len(rows)} rows in {folder / f'{name}.csv'}, the picture in {folder / f'{name}.svg'}")
    return 0


def _put(rows: "list[CurveRow]") -> None:
    """Print the bins, and which curves there are."""
    from harness.analysis.curves import names

    bins, called = [row for row in rows if row.to is not None], names(rows)
    for signature, shape in dict.fromkeys((row.signature, row.shape) for row in bins):
        members = [r for r in bins if (r.signature, r.shape) == (signature, shape)]
        lines = [
            (
                row.rate,
                f"{number(row.at)} to {number(row.to)}",
                number(row.value),
                span(row.low, row.high),
                str(row.n),
                f"{row.effective_n:.0f}" if row.effective_n is not None else "-",
                row.note,
            )
            for row in members
        ]
        head = ("rate", shape, "value", "95% interval", "n", "effective n", "note")
        echo_table(f"{called[signature]}, by {shape}", head, lines)
    for row in rows:
        if row.to is None and row.value is None:
            echo(f"{called[row.signature]}: no {row.shape} curve of {row.rate}: {row.note}")
