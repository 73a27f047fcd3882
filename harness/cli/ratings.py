"""The commands for ratings by people: agree, export ratings, ratings import."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, get_args

from harness.analysis import panels
from harness.analysis.agreement import EPSILONS, AgreementRow, AgreementSettings, agreement_rows
from harness.analysis.panels import AgreementQuery, Panel, match_ratings, unmatched
from harness.cli import options
from harness.cli.options import RESULTS, AsJson, ExitCode, Results, argument, option
from harness.cli.output import cell, echo, echo_records, log, p_value, put_rows
from harness.data.ratings import (
    Conversion,
    Rating,
    config_text,
    from_label_studio,
    from_wide,
    ratings_text,
    read_ratings,
    tasks_text,
)
from harness.errors import DataError, SpecError
from harness.judges.asking import Orders
from harness.storage.cells import long_cells, records_csv
from harness.storage.files import refuse_source, write_new, write_whole
from harness.storage.runs import find_run, run_folders, stored_runs

Level = Literal["nominal", "ordinal", "interval"]


@dataclass(frozen=True, kw_only=True)
class AgreeChoice:
    """Which ratings are compared with which judges, and how."""

    ratings: Path = option("Long-form CSV: task, sample_id, model, rater, value, scale.")
    judge: list[str] | None = option("Judges, comma-separated. Default: all.", None)
    task: str | None = option("Tasks, comma-separated. Default: every task with ratings.", None)
    variant: str | None = option(
        "Variants, comma-separated, or all. Default: those that were rated.", None
    )
    level: str = option("Scale of the ratings: nominal, ordinal or interval.", "interval")
    rater_kind: str = option(
        "Raters: expert, skilled or crowd; sets the epsilon of the alternative annotator test.",
        "crowd",
    )
    orders: str = option(
        "Judges that were asked in two orders of the options: both (a disagreement is .5), or the "
        "first or second alone.",
        "both",
    )
    seed: options.Seed = 0
    draws: int = option("Draws for each test and for intervals of systems.", 1000, min=1)
    is_strict: bool = option(
        "Refuse ratings of unknown samples or models.", False, flags="--strict"
    )

    def settings(self) -> AgreementSettings:
        """How agreement is measured."""
        level: Level = options.one_of("--level", self.level, *get_args(Level))
        kind = options.one_of("--rater-kind", self.rater_kind, *EPSILONS)
        return AgreementSettings(self.seed, self.draws, level, EPSILONS[kind])

    def query(self) -> AgreementQuery:
        """Which judges and variants are compared, and which of a judge's orders."""
        orders: Orders = options.one_of("--orders", self.orders, *get_args(Orders))
        judges, variants = options.names(self.judge, "--judge"), options.names(self.variant)
        return AgreementQuery(judges, variants, self.is_strict, orders)


def agree(choice: AgreeChoice, results: Results = RESULTS, is_json: AsJson = False) -> int:
    """Measure how well judges agree with people, and write agreement.csv.

    It compares all runs of a task in the results folder; each model is a system.
    """
    settings, query = choice.settings(), choice.query()
    found: list[AgreementRow] = []
    has_unmatched = False
    for task, ratings in _by_task(choice.ratings, options.names(choice.task, "--task")).items():
        runs = stored_runs(run_folders(results), task)
        every = [(p, agreement_rows(p, settings)) for p in match_ratings(runs, ratings, query)]
        for panel, rows in every:
            found += rows
            has_unmatched |= _put_panel(panel, rows, is_quiet=is_json)
        if count := unmatched(runs, ratings):
            log(f"{count} ratings are of variants of {task} that no run has")
    table = results / "agreement.csv"
    text = records_csv(AgreementRow, found) + _rows_of_others(table, {row.task for row in found})
    put_rows(found, {table: text}, lambda: None, is_json=is_json)
    return ExitCode.of(has_unmatched)


@dataclass(frozen=True, kw_only=True)
class SheetChoice:
    """What people will rate, and in which form."""

    runs: options.RunNames
    form: str = option("Form of the sheet: labelstudio or csv.", flags="--format")
    variant: str | None = option("Variants, comma-separated. Default: all.", None)
    seed: options.Seed = 0
    limit: options.Limit = None
    low: int = option("Lowest rating (labelstudio).", 0)
    high: int = option("Highest rating (labelstudio).", 5)
    out: Path | None = option("File to write. Default: in RESULTS/sheets/.", None, flags="-o --out")


def export_ratings(choice: SheetChoice, results: Results = RESULTS) -> int:
    """Write a blind rating sheet in random order, and its key in a second file."""
    form, low, high = choice.form, choice.low, choice.high
    ending = {"labelstudio": "json", "csv": "csv"}.get(form)
    if ending is None or not low < high <= low + 100:
        raise SpecError(
            f"--format {form!r} --low {low} --high {high}: give labelstudio or csv, and a scale "
            "of at most 101 whole numbers"
        )
    folders = [find_run(results, name) for name in dict.fromkeys(choice.runs)]
    variants = options.names(choice.variant)
    sheet = panels.draw_sheet(folders, variants=variants, seed=choice.seed, limit=choice.limit)
    name = f"{sheet.entries[0].task}-s{choice.seed}.{ending}"
    path = choice.out or results / "sheets" / name
    key = path.with_name(f"{path.stem}.key.csv")
    write_new(key, panels.key_text(sheet).encode())
    if form == "csv":
        write_new(path, panels.sheet_text(sheet).encode())
    else:
        names = [panels.column(name) for name in sheet.fields]
        config = path.with_name(f"{path.stem}.config.xml")
        write_new(path, tasks_text(panels.shown(sheet)))
        write_new(config, config_text(names, answer=panels.ANSWER, low=low, high=high).encode())
        echo(f"labelling config in {config}")
    echo(f"wrote {len(sheet.entries)} rows to {path}")
    log(f"{key} names the model of each row: do not show it to the raters")
    if sheet.unanswered:
        log(f"{sheet.unanswered} responses have no answer and are left out")
    return ExitCode.of(sheet.unanswered)


@dataclass(frozen=True, kw_only=True)
class ConvertChoice:
    """Which ratings are converted, and what the file does not say of them."""

    file: Path = argument("FILE", "Ratings in another form.")
    form: str = option(
        "Form of FILE: labelstudio or wide (a column for each rater).", flags="--format"
    )
    out: Path = option("Long-form CSV to write.", flags="-o --out")
    key: Path | None = option("Key file of the blind sheet that was rated.", None)
    task: str = option("Task of the ratings, if the file names none.", "")
    scale: str = option("What was rated: a variant's name, or any word.", "")
    raters: str | None = option(
        "Columns of raters (wide): A,B; or with other names: A=anna,B=ben.", None
    )
    values: str | None = option("Numbers for words: yes=1,no=0.", None)
    control: str = option("Question whose ratings are read (labelstudio).", "")

    def conversion(self) -> Conversion:
        """How ratings are converted."""
        return Conversion(
            task=self.task,
            scale=self.scale,
            keys=panels.read_key(self.key) if self.key else {},
            raters={left: right or left for left, right in _pairs(self.raters)},
            words={left: _number(left, right) for left, right in _pairs(self.values)},
            control=self.control,
        )


def import_ratings(choice: ConvertChoice) -> int:
    """Convert ratings to long form; with --key, those of a blind sheet."""
    file, out = choice.file, choice.out
    form = options.one_of("--format", choice.form, "labelstudio", "wide")
    refuse_source(out, file)
    conversion = choice.conversion()
    is_wide = form == "wide"
    ratings = from_wide(file, conversion) if is_wide else from_label_studio(file, conversion)
    write_whole(out, ratings_text(ratings).encode())
    blank = sum(rating.value is None for rating in ratings)
    echo(f"wrote {len(ratings)} ratings to {out}, {blank} of them blank")
    echo(f"raters: {', '.join(sorted({rating.rater for rating in ratings}))}")
    return ExitCode.DONE


def _by_task(path: Path, tasks: Sequence[str]) -> dict[str, list[Rating]]:
    found: dict[str, list[Rating]] = {task: [] for task in tasks}
    for rating in read_ratings(path):
        if rating.task in tasks or not tasks:
            found.setdefault(rating.task, []).append(rating)
    lacking = [f" of task {task!r}" for task, ratings in found.items() if not ratings]
    if lacking or not found:
        raise DataError(f"{path}: no rating{''.join(lacking[:1])}; correct --task or the file")
    return found


def _rows_of_others(table: Path, tasks: set[str]) -> str:
    if not table.is_file():
        return ""
    # A table of an earlier version has fewer columns: those it lacks stay empty.
    names = [field.name for field in fields(AgreementRow)]
    with table.open(encoding="utf-8", newline="") as file, long_cells(table.stat().st_size):
        rows = [row for row in csv.DictReader(file) if row["task"] not in tasks]
    kept = io.StringIO()
    writer = csv.DictWriter(kept, names, extrasaction="ignore", lineterminator="\n")
    writer.writerows(rows)
    return kept.getvalue()


def _put_panel(panel: Panel, rows: Sequence[AgreementRow], *, is_quiet: bool) -> bool:
    """Print the rows of a panel; return whether some of its ratings match no response."""
    title = (
        f"{panel.task}, {panel.variant}, rated: {panel.scale or 'all'}; "
        f"{len(set(panel.of_rows))} documents x {len(panel.systems)} systems, "
        f"{len(panel.raters)} raters"
    )
    if not is_quiet:
        echo_records(
            title,
            rows,
            "judge, statistic, value, sd, interval, n, skipped, p, p_holm, epsilon, note",
            judge=_who,
            p=lambda row: p_value(row.p),
            p_holm=lambda row: p_value(row.p_holm),
            note=lambda row: "; ".join(filter(None, (row.reason, row.note))),
        )
        for line in _families(rows):
            echo(line)
        for row in (row for row in rows if row.statistic == "pearson_dataset"):
            echo(
                f"{_who(row)}: ties of people {cell(row.tie_rate_human)}, of the judge "
                f"{cell(row.tie_rate_judge)}; {row.averaging}"
            )
        echo("")
    if panel.unmatched:
        log(f"{panel.unmatched} of {panel.offered} ratings match no response: {title}")
    return panel.unmatched > 0


def _families(rows: Sequence[AgreementRow]) -> list[str]:
    """What the p-values of differences were corrected for."""
    tested = [row.statistic for row in rows if row.p_holm is not None]
    alone = sum(name.endswith("williams") for name in tested)
    counts = {"permutation tests": len(tested) - alone, "Williams' tests": alone}
    return [f"p holm: corrected for all {n} {of} of this table" for of, n in counts.items() if n]


def _who(row: AgreementRow) -> str:
    return row.judge if row.model in ("all", row.judge) else f"{row.model}, {row.judge}"


def _pairs(text: str | None) -> list[tuple[str, str]]:
    """The words left and right of each `=` in a list such as yes=1,no=0."""
    parts = [part.strip().partition("=") for part in (text or "").split(",") if part.strip()]
    return [(left.strip(), right.strip()) for left, _, right in parts]


def _number(word: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SpecError(f"--values: {word}={text} is no number; write {word}=1") from None
