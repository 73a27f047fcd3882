"""The commands for people's ratings: agree, export ratings, ratings import."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.cli import options
from harness.cli.options import RESULTS, AsJson, Results
from harness.cli.output import echo, echo_json, echo_table, log, number, p_value, span
from harness.errors import SpecError

if TYPE_CHECKING:
    from harness.analysis.agreement import AgreementRow
    from harness.analysis.panels import Panel
    from harness.analysis.rating_sheets import Sheet
    from harness.data.ratings import Rating

EPSILONS = {"expert": 0.2, "skilled": 0.15, "crowd": 0.1}
DONE, DONE_WITH_MISSING = 0, 1

export_app = typer.Typer(
    help="Write what other programs read: sheets for people to rate.", no_args_is_help=True
)
ratings_app = typer.Typer(help="People's ratings: import from other forms.", no_args_is_help=True)


def agree(
    ratings: Annotated[
        Path,
        typer.Option(
            "--ratings", help="Long-form CSV: task, sample_id, model, rater, value, scale."
        ),
    ],
    judge: Annotated[
        list[str] | None,
        typer.Option("--judge", help="Judge to compare; repeat for more. Default: all."),
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", help="Task. Default: those that were rated.")
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option("--variant", help="Variants, comma-separated, or all. Default: as rated."),
    ] = None,
    level: Annotated[
        str, typer.Option("--level", help="The ratings are nominal, ordinal or interval.")
    ] = "interval",
    rater_kind: Annotated[
        str, typer.Option("--rater-kind", help="The raters are expert, skilled or crowd.")
    ] = "crowd",
    seed: Annotated[int, typer.Option("--seed", help="Seed of draws and folds.")] = 0,
    draws: Annotated[int, typer.Option("--draws", min=1, help="Draws of each interval.")] = 1000,
    is_strict: Annotated[
        bool, typer.Option("--strict", help="Refuse ratings of unknown samples or models.")
    ] = False,
    results: Results = RESULTS,
    is_json: AsJson = False,
) -> int:
    """Say how far each judge agrees with people, and write agreement.csv.

    All runs of the task below results are compared, each model a system.
    """
    from harness.analysis.agreement import AgreementRow, AgreementSettings, agreement_rows
    from harness.analysis.panels import AgreementQuery, match_ratings, unmatched
    from harness.analysis.stored_runs import stored_runs
    from harness.storage.csv import records_csv
    from harness.storage.files import write_whole
    from harness.storage.runs import run_folders

    if rater_kind not in EPSILONS:
        raise SpecError(f"--rater-kind {rater_kind!r}: give one of {', '.join(EPSILONS)}")
    method = AgreementSettings(seed, draws, _level(level), EPSILONS[rater_kind])
    question = AgreementQuery(tuple(judge or ()), options.names(variant), is_strict)
    found, code = [], DONE
    for name, members in _by_task(ratings, task).items():
        runs = stored_runs(run_folders(results), name)
        compared = [(p, agreement_rows(p, method)) for p in match_ratings(runs, members, question)]
        found += [row for _, rows in compared for row in rows]
        for panel, rows in compared:
            code = max(code, _put_panel(panel, rows, is_quiet=is_json))
        if count := unmatched(runs, members):
            log(f"{count} ratings are of variants of {name} that no run has")
    table = results / "agreement.csv"
    kept = _rows_of_others(table, {row.task for row in found})
    write_whole(table, (records_csv(AgreementRow, found) + kept).encode())
    if is_json:
        echo_json(found)
    else:
        echo(f"{len(found)} rows in {results / 'agreement.csv'}")
    return code


@export_app.command("ratings")
def export_ratings(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Run folders, or starts of digests.")
    ],
    form: Annotated[str, typer.Option("--format", help="labelstudio or csv.")],
    variant: Annotated[
        str | None, typer.Option("--variant", help="Variants, comma-separated. Default: all.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the rows' order.")] = 0,
    limit: options.Limit = None,
    low: Annotated[int, typer.Option("--low", help="Least rating (labelstudio).")] = 0,
    high: Annotated[int, typer.Option("--high", help="Greatest rating (labelstudio).")] = 5,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="File to write. Default: below results/sheets/."),
    ] = None,
    results: Results = RESULTS,
) -> int:
    """Write a sheet for people to rate: blind, in shuffled order, with a key beside it."""
    from harness.analysis.rating_sheets import draw_sheet, key_text, sheet_text
    from harness.storage.files import write_new
    from harness.storage.runs import find_run

    ending = {"labelstudio": "json", "csv": "csv"}.get(form)
    if ending is None or not low < high <= low + 100:
        raise SpecError(
            f"--format {form!r} --low {low} --high {high}: give labelstudio or csv, and a scale "
            "of at most 101 whole numbers"
        )
    folders = [find_run(results, name) for name in dict.fromkeys(runs)]
    sheet = draw_sheet(folders, variants=options.names(variant), seed=seed, limit=limit)
    path = out or results / "sheets" / f"{sheet.entries[0].task}-s{seed}.{ending}"
    key = path.with_name(f"{path.stem}.key.csv")
    write_new(key, key_text(sheet).encode())
    if form == "csv":
        write_new(path, sheet_text(sheet).encode())
    else:
        _write_label_studio(path, sheet, low=low, high=high)
    echo(f"{len(sheet.entries)} rows in {path}")
    log(f"{key} tells which row is whose: keep it from those who rate")
    if sheet.unanswered:
        log(f"{sheet.unanswered} responses have no answer and are left out")
    return DONE_WITH_MISSING if sheet.unanswered else DONE


@ratings_app.command("import")
def import_ratings(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Ratings in another form.")],
    form: Annotated[str, typer.Option("--format", help="labelstudio or wide.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Long-form CSV to write.")],
    key: Annotated[
        Path | None, typer.Option("--key", help="Key of the sheet that was rated.")
    ] = None,
    task: Annotated[
        str, typer.Option("--task", help="Task of the ratings, where they do not say.")
    ] = "",
    scale: Annotated[
        str, typer.Option("--scale", help="What was rated; a variant's name, or any word.")
    ] = "",
    raters: Annotated[
        str | None,
        typer.Option("--raters", help="Columns of raters (wide): A,B, or A=name,B=other."),
    ] = None,
    values: Annotated[
        str | None, typer.Option("--values", help="Numbers that words stand for: yes=1,no=0.")
    ] = None,
    control: Annotated[
        str, typer.Option("--control", help="The one question to take (labelstudio).")
    ] = "",
) -> int:
    """Bring ratings into long form; with --key, those of a blind sheet."""
    from harness.analysis.rating_sheets import read_key
    from harness.data.label_studio import from_label_studio
    from harness.data.ratings import Conversion, from_wide, ratings_text
    from harness.storage.files import refuse_source, write_whole

    if form not in ("labelstudio", "wide"):
        raise SpecError(f"--format {form!r}: give labelstudio or wide")
    refuse_source(out, file)
    how = Conversion(
        task=task,
        scale=scale,
        keys=read_key(key) if key else {},
        raters={left: right or left for left, right in _pairs(raters)},
        words={left: _number(left, right) for left, right in _pairs(values)},
        control=control,
    )
    found = from_wide(file, how) if form == "wide" else from_label_studio(file, how)
    write_whole(out, ratings_text(found).encode())
    blank = sum(rating.value is None for rating in found)
    echo(f"{len(found)} ratings in {out}, {blank} blank")
    echo(f"raters: {', '.join(sorted({rating.rater for rating in found}))}")
    return DONE


def _by_task(path: Path, task: str | None) -> "dict[str, list[Rating]]":
    """The ratings of each task asked for."""
    from harness.data.ratings import read_ratings
    from harness.errors import DataError

    found: dict[str, list[Rating]] = {}
    for rating in read_ratings(path):
        if task in (None, rating.task):
            found.setdefault(rating.task, []).append(rating)
    if not found:
        raise DataError(f"{path}: no rating of task {task!r}; correct --task or the column task")
    return found


def _rows_of_others(table: Path, tasks: set[str]) -> str:
    """The lines of an agreement table that are about other tasks, as they stand there."""
    if not table.is_file():
        return ""
    with table.open(encoding="utf-8", newline="") as file:
        rows = [row for row in list(csv.reader(file))[1:] if row and row[0] not in tasks]
    kept = io.StringIO()
    csv.writer(kept, lineterminator="\n").writerows(rows)
    return kept.getvalue()


def _put_panel(panel: "Panel", rows: "Sequence[AgreementRow]", *, is_quiet: bool) -> int:
    """Print the rows of a panel, and what of it matched nothing."""
    head = ("judge", "statistic", "value", "95% interval", "n", "skipped", "p", "epsilon", "note")
    table = [
        (
            _who(row),
            row.statistic,
            number(row.value),
            span(row.low, row.high),
            str(row.n),
            str(row.skipped),
            p_value(row.p),
            number(row.epsilon),
            row.reason or "",
        )
        for row in rows
    ]
    title = (
        f"{panel.task}, {panel.variant}, rated: {panel.scale or 'all'}; {len(panel.documents)} "
        f"documents x {len(panel.systems)} systems, {len(panel.raters)} raters"
    )
    if not is_quiet:
        echo_table(title, head, table)
        _put_ties(rows)
    if panel.unmatched:
        log(f"{panel.unmatched} of {panel.offered} ratings match no response: {title}")
    return DONE_WITH_MISSING if panel.unmatched else DONE


def _who(row: "AgreementRow") -> str:
    """The judge of a row, with the model that rated where that is another."""
    is_told = row.model in ("all", row.judge)
    return row.judge if is_told else f"{row.model}, {row.judge}"


def _put_ties(rows: "Sequence[AgreementRow]") -> None:
    """Print how cells were averaged and how often people and each judge tie two systems."""
    one = [row for row in rows if row.statistic == "pearson_dataset"]
    for row in one:
        echo(
            f"{_who(row)}: ties of people {number(row.tie_rate_human)}, of the judge "
            f"{number(row.tie_rate_judge)}; {row.averaging}"
        )
    echo("")


def _write_label_studio(path: Path, sheet: "Sheet", *, low: int, high: int) -> None:
    from harness.analysis.rating_sheets import ANSWER, column, shown
    from harness.data.label_studio import config_text, tasks_text
    from harness.storage.files import write_new

    names = [column(name) for name in sheet.fields]
    config = path.with_name(f"{path.stem}.config.xml")
    write_new(path, tasks_text(shown(sheet)))
    write_new(config, config_text(names, answer=ANSWER, low=low, high=high).encode())
    echo(f"labelling config in {config}")


def _pairs(text: str | None) -> list[tuple[str, str]]:
    """What stands left and right of each `=` in a list such as yes=1,no=0."""
    parts = [part.strip().partition("=") for part in (text or "").split(",") if part.strip()]
    return [(left.strip(), right.strip()) for left, _, right in parts]


def _number(word: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SpecError(f"--values: {word}={text} gives no number; write {word}=1") from None


def _level(name: str) -> Literal["nominal", "ordinal", "interval"]:
    match name:
        case "nominal" | "ordinal" | "interval":
            return name
        case _:
            raise SpecError(f"--level {name!r}: give nominal, ordinal or interval")
