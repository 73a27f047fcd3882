"""The commands for ratings by people: agree, export and import of sheets."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, get_args

from harness.analysis import sheets
from harness.analysis.agreement import EPSILONS, AgreementRow, AgreementSettings, agreement_rows
from harness.analysis.findings import (
    PEOPLE,
    by_judge,
    judge_finding,
    pairs_finding,
    raters_finding,
)
from harness.analysis.panels import AgreementQuery, Panel, match_ratings, unmatched
from harness.analysis.sheets import Packet, Sheet, SheetForm, SheetQuery
from harness.cli import options
from harness.cli.options import HOME, RESULTS, AsJson, ExitCode, Home, Results, argument, option
from harness.cli.put import put_rows
from harness.data.ratings import (
    Conversion,
    Rating,
    SheetKey,
    checked,
    config_text,
    from_label_studio,
    from_wide,
    ratings_text,
    read_ratings,
    tasks_text,
)
from harness.errors import DataError, SpecError
from harness.judges.asking import Orders
from harness.present.screen import Cell, cell, folded, p_value, say, show_records, show_rows, warn
from harness.storage.cells import long_cells, records_csv
from harness.storage.files import refuse_source, write_new, write_whole
from harness.storage.find_runs import find_runs, run_folders, stored_runs
from harness.storage.runs import RunFile

MAIN = {
    "pearson_dataset": "r",
    "kendall_document_zero": "tau",
    "spearman_system": "rho",
    "acc_eq": "acc_eq",
    "alpha_judge_with_each": "alpha",
    "agreement_pairwise_judge": "equal",
    "annotator_winning_rate": "wins",
}
"""The statistics of a judge that are printed without --all, and what their columns are called."""
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
    is_all: bool = option("Print every statistic of every judge.", False, flags="--all")
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
            has_unmatched |= _put_panel(panel, rows, is_quiet=is_json, is_all=choice.is_all)
        if count := unmatched(runs, ratings):
            warn(f"{count} ratings are of variants of {task} that no run has")
    table = results / "agreement.csv"
    text = records_csv(AgreementRow, found) + _rows_of_others(table, {row.task for row in found})
    put_rows(found, {table: text}, lambda: None, is_json=is_json)
    return ExitCode.of(has_unmatched)


@dataclass(frozen=True, kw_only=True)
class SheetChoice:
    """What people will rate, who they are, and in which form they get it."""

    runs: options.RunNames
    form: str = option("Form of the sheet: labelstudio or csv.", flags="--format")
    variant: str | None = option(
        "Variants, comma-separated, or all. Default: the task's first that every run has.", None
    )
    temperature: str | None = option(
        "Temperatures, comma-separated, or all. Default: the first of the runs.", None
    )
    rows: int | None = option(
        "Rows, of the first samples in an order that the seed draws.", None, min=1
    )
    limit: options.Limit = None
    raters: str | None = option("Names of the raters: ann,bob. Each gets a file.", None)
    per_answer: int | None = option("Raters of each answer. Default: all.", None, min=1)
    per_file: int | None = option("Rows of each file. Default: all.", None, min=1)
    seed: options.Seed = 0
    low: int | None = option(
        "Lowest rating (labelstudio), where the task has no sheet in configs/sheets/. Default: 0.",
        None,
    )
    high: int | None = option("Highest rating, likewise. Default: 5.", None)
    out: Path | None = option("File to write. Default: in RESULTS/sheets/.", None, flags="-o --out")

    def query(self) -> SheetQuery:
        """Which answers are shown."""
        temperatures = options.names(self.temperature, "--temperature")
        decodings = tuple("all" if one == "all" else _decoding(one) for one in temperatures)
        variants = options.names(self.variant)
        return SheetQuery(variants, decodings, self.seed, self.limit, self.rows)

    def packets(self, sheet: Sheet) -> list[Packet]:
        """The files that the sheet becomes."""
        raters = options.names(self.raters, "--raters")
        for name in raters:
            options.plain_name(name, option="--raters")
        if taken := sorted({*sheets.OWN_COLUMNS, *sheet.fields} & set(raters)):
            raise SpecError(f"--raters: {taken[0]!r} is a column of the sheet; use another name")
        if self.per_answer is not None and self.per_answer > len(raters):
            raise SpecError(
                f"--per-answer {self.per_answer}: there are {len(raters)} raters; name as many "
                "with --raters"
            )
        size, each = self.per_file, self.per_answer
        return sheets.packets(sheet, raters=raters, each=each, size=size, seed=self.seed)

    def marks(self, form: SheetForm | None) -> dict[str, str]:
        """What raters may choose, and what it means: by the task's sheet, else by whole numbers."""
        has_own = self.low is not None or self.high is not None
        if form and has_own:
            raise SpecError(
                f"--low and --high: {form.place} has a scale of its own "
                f"({', '.join(form.marks)}); leave them out, or change that file"
            )
        if form:
            return {mark.text: mark.means for mark in form.spec.scale}
        low, high = self.low or 0, 5 if self.high is None else self.high
        if not low < high <= low + 100:
            raise SpecError(f"--low {low} --high {high}: give a scale of at most 101 whole numbers")
        return {str(value): "" for value in range(low, high + 1)}


def export_ratings(choice: SheetChoice, results: Results = RESULTS, home: Home = HOME) -> int:
    """Write blind rating sheets in random order, and their key in a file of its own."""
    ending = {"labelstudio": "json", "csv": "csv"}.get(choice.form)
    if ending is None:
        raise SpecError(f"--format {choice.form!r}: give labelstudio or csv")
    runs = sheets.read_runs(find_runs(results, choice.runs))
    form = _sheet_form(runs[0].file, home)
    marks = choice.marks(form)
    sheet = sheets.draw_sheet(runs, choice.query(), form)
    path = choice.out or results / "sheets" / f"{runs[0].file.run.task}-s{choice.seed}.{ending}"
    key = path.with_name(f"{path.stem}.key.csv")
    files = {
        path.with_name(f"{path.stem}{p.ending}{path.suffix}"): p for p in choice.packets(sheet)
    }
    write_new(key, sheets.key_text(sheet).encode())
    for file, packet in files.items():
        is_csv = choice.form == "csv"
        text = sheets.sheet_text(sheet, packet).encode() if is_csv else b""
        write_new(file, text or tasks_text(sheets.shown(sheet, packet.entries)))
        say(f"wrote {len(packet.entries)} rows to {file}")
    _write_guides(path, sheet, form, marks if choice.form == "labelstudio" else {})
    _tell_of_sheet(sheet, key)
    return ExitCode.of(sheet.unanswered)


def _sheet_form(file: RunFile, home: Path) -> SheetForm | None:
    """The task's form in configs/sheets/, or that of the task it was made of; None without one."""
    registry = options.registry(home)
    known = registry.names("configs/sheets")
    names = [one for one in (file.run.task, file.task.made_of) if one in known]
    if not names or names[0] is None:
        warn(f"no configs/sheets/{file.run.task}.yaml: each field of a sample is a column")
        return None
    place = registry.file("configs/sheets", names[0])
    return SheetForm(registry.load("configs/sheets", names[0]), str(place), registry.prompts)


def _write_guides(path: Path, sheet: Sheet, form: SheetForm | None, marks: dict[str, str]) -> None:
    """What raters read first, and the labelling config where there are marks to choose."""
    if form:
        guide = path.with_name(f"{path.stem}.guide.txt")
        write_new(guide, form.guide().encode())
        say(f"what raters read first is in {guide}")
    if marks:
        config = path.with_name(f"{path.stem}.config.xml")
        names = [sheets.column(name) for name in sheet.fields]
        write_new(config, config_text(names, answer=sheets.ANSWER, marks=marks).encode())
        say(f"labelling config in {config}")


def _tell_of_sheet(sheet: Sheet, key: Path) -> None:
    rows, answers = len(sheet.entries), sheet.answers
    equal = f"; {answers} answers, equal ones in one row" if answers > rows else ""
    warn(
        f"variant {', '.join(sheet.variants)}, {', '.join(sheet.decodings)}{equal} (others: "
        "--variant, --temperature)"
    )
    warn(f"{key} names the models of each row: do not show it to the raters")
    if sheet.unanswered:
        warn(f"{sheet.unanswered} responses have no answer and are left out")


def _decoding(text: str) -> str:
    try:
        return f"T{float(text.removeprefix('T')):g}"
    except ValueError:
        raise SpecError(f"--temperature {text!r}: give numbers such as 0.3, or all") from None


@dataclass(frozen=True, kw_only=True)
class ConvertChoice:
    """Which ratings are converted, and what the files do not say of them."""

    files: list[Path] = argument("FILE", "Rated sheets, or ratings in another form: CSV or XLSX.")
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
            key=sheets.read_key(self.key) if self.key else SheetKey(),
            raters={left: right or left for left, right in _pairs(self.raters)},
            words={left: _number(left, right) for left, right in _pairs(self.values)},
            control=self.control,
        )


def import_ratings(choice: ConvertChoice) -> int:
    """Convert ratings to long form; with --key, those of a blind sheet.

    Several files are those of several raters, or parts of a sheet.
    """
    form = options.one_of("--format", choice.form, "labelstudio", "wide")
    for file in choice.files:
        refuse_source(choice.out, file)
    conversion = choice.conversion()
    reader = from_wide if form == "wide" else from_label_studio
    ratings = checked([one for file in choice.files for one in reader(file, conversion)])
    write_whole(choice.out, ratings_text(ratings).encode())
    blank = sum(rating.value is None for rating in ratings)
    counts = Counter(rating.rater for rating in ratings)
    say(f"wrote {len(ratings)} ratings to {choice.out}, {blank} of them blank")
    say(f"raters: {', '.join(f'{name} ({count})' for name, count in sorted(counts.items()))}")
    return ExitCode.DONE


def _by_task(path: Path, tasks: Sequence[str]) -> dict[str, list[Rating]]:
    found: dict[str, list[Rating]] = {task: [] for task in tasks}
    for rating in read_ratings(path):
        if rating.task in tasks or not tasks:
            found.setdefault(rating.task, []).append(rating)
    unrated = [f" of task {task!r}" for task, ratings in found.items() if not ratings]
    if unrated or not found:
        raise DataError(f"{path}: no rating{''.join(unrated[:1])}; correct --task or the file")
    return found


def _rows_of_others(table: Path, tasks: set[str]) -> str:
    if not table.is_file():
        return ""
    # A table of an earlier version has fewer columns: the others stay empty.
    names = [field.name for field in fields(AgreementRow)]
    with table.open(encoding="utf-8", newline="") as file, long_cells(table.stat().st_size):
        rows = [row for row in csv.DictReader(file) if row["task"] not in tasks]
    kept = io.StringIO()
    writer = csv.DictWriter(kept, names, extrasaction="ignore", lineterminator="\n")
    writer.writerows(rows)
    return kept.getvalue()


def _put_panel(panel: Panel, rows: Sequence[AgreementRow], *, is_quiet: bool, is_all: bool) -> bool:
    """Print what a panel shows; return whether some of its ratings match no response."""
    title = (
        f"{panel.task}, {panel.variant}, rated: {panel.scale or 'all'}; "
        f"{len(set(panel.of_rows))} documents x {len(panel.systems)} systems, "
        f"{len(panel.raters)} raters"
    )
    if not is_quiet:
        say(title, is_prose=True)
        _put_findings(rows)
        put = _put_every if is_all else _put_main
        put(rows)
    if panel.unmatched:
        warn(f"{panel.unmatched} of {panel.offered} ratings match no response: {title}")
    return panel.unmatched > 0


def _put_findings(rows: Sequence[AgreementRow]) -> None:
    """The raters once, then a sentence for each judge, and which judges differ significantly."""
    say(raters_finding(rows), is_prose=True)
    for judge, own in by_judge(rows).items():
        say(judge_finding(judge, own), is_prose=True)
    for line in pairs_finding(rows):
        say(line, is_prose=True)
    notes: dict[str, list[str]] = {}
    for row in (row for row in rows if row.statistic in MAIN and row.note):
        notes.setdefault(row.note, []).append(_who(row))
    for note, judges in notes.items():
        say(f"note on {folded(list(dict.fromkeys(judges)))}: {note}", is_prose=True)
    for line in dict.fromkeys(row.averaging for row in rows):
        say(f"averaged: {line}", is_prose=True)
    say("")


def _put_main(rows: Sequence[AgreementRow]) -> None:
    """A line for each judge, of the statistics that have a value."""
    found = by_judge(rows)
    values = {
        judge: {row.statistic: row for row in own if row.value is not None}
        for judge, own in found.items()
    }
    names = [name for name in MAIN if any(name in own for own in values.values())]
    if not names:
        return
    lines: list[list[Cell]] = []
    for judge, own in values.items():
        cells = [own.get(name) for name in names]
        lines.append([judge, *(None if one is None else one.value for one in cells)])
        r = own.get(names[0])
        lines[-1].insert(2, None if r is None else (r.low, r.high))
    heads = [MAIN[name] for name in names]
    title = "statistics of each judge; --all prints every one, with its interval"
    show_rows(title, ["judge", heads[0], "95% interval", *heads[1:]], lines)


def _put_every(rows: Sequence[AgreementRow]) -> None:
    first = next(((row.judge, row.model) for row in rows), None)
    shown = [r for r in rows if r.statistic not in PEOPLE or (r.judge, r.model) == first]
    shown.sort(key=lambda row: row.statistic not in PEOPLE)
    show_records(
        "every statistic; those of raters once",
        shown,
        "judge, statistic; value, sd, interval, n, skipped, p, p_holm, epsilon, note",
        judge=lambda row: "raters" if row.statistic in PEOPLE else _who(row),
        p=lambda row: p_value(row.p),
        p_holm=lambda row: p_value(row.p_holm),
        note=lambda row: "; ".join(filter(None, (row.reason, row.note))),
    )
    for line in _families(rows):
        say(line)
    for row in (row for row in rows if row.statistic == "pearson_dataset"):
        say(
            f"{_who(row)}: ties of people {cell(row.tie_rate_human)}, of the judge "
            f"{cell(row.tie_rate_judge)}"
        )
    say("")


def _families(rows: Sequence[AgreementRow]) -> list[str]:
    """What the p-values of differences were corrected for."""
    tested = [row.statistic for row in rows if row.p_holm is not None]
    alone = sum(name.endswith("williams") for name in tested)
    counts = {"permutation tests": len(tested) - alone, "Williams' tests": alone}
    words = "p holm: corrected for the {} {} of this table"
    return [words.format(count, of) for of, count in counts.items() if count > 1]


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
