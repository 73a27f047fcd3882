"""The commands about people: agree, and the sheets that they fill in."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, get_args

import msgspec

from harness.analysis import findings, sheets
from harness.analysis.agreement import COLUMNS, EPSILONS, AgreementSettings, agreement
from harness.analysis.panels import AgreementQuery, panels, unmatched_ratings
from harness.analysis.sheets import Sheet, SheetForm
from harness.cli import options
from harness.cli.options import HOME, RESULTS, AsJson, Home, Results, argument, option, output
from harness.data.annotation import read_labels, read_stresses
from harness.data.ratings import filled_in, ratings_text, read_key, read_rated, read_ratings
from harness.data.readers.samples_jsonl import read as read_samples
from harness.errors import DataError, ExitCode, SpecError
from harness.implicitness.pairs import read_items, read_pairs
from harness.implicitness.scorer import Flag, text_of
from harness.judges.asking import Orders
from harness.lazy import DataFrame, pandas
from harness.present.document import form as filled_form
from harness.present.screen import folded, say, show, show_json, warn
from harness.stats.agreement import Scale
from harness.storage.files import write_new, write_whole
from harness.storage.find_runs import find_runs, shown_runs
from harness.storage.frames import frame_csv, plain_rows, records
from harness.storage.tables import column_of, read_input, write_named

STEPS = option("Steps of labelling: a name in configs/annotations/.", ...)
MAIN = {
    "pearson_dataset": "r",
    "kendall_document_zero": "tau",
    "spearman_system": "rho",
    "acc_eq": "acc_eq",
    "alpha_judge_with_each": "alpha each",
    "agreement_pairwise_judge": "equal",
    "annotator_winning_rate": "wins",
}
"""The statistics of a judge that are printed, and what their columns are called."""


@dataclass(frozen=True, kw_only=True)
class AgreeChoice:
    """Which ratings are compared with which judges, and how."""

    ratings: Path = option("Long-form CSV: task, sample_id, model, rater, value, scale.", ...)
    judge: list[str] | None = option("Judges, comma-separated. Default: all.")
    task: str | None = option("Tasks, comma-separated. Default: every task with ratings.")
    variant: str | None = option(
        "Variants, comma-separated, or all. Default: those that were rated."
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


def agree(choice: AgreeChoice, results: Results = RESULTS, is_json: AsJson = False) -> int:
    """Measure how well judges agree with people, and write agreement.csv.

    It compares all runs of a task in the results folder; each model is a system.
    """
    level: Scale = options.one_of("--level", choice.level, *get_args(Scale))
    kind = options.one_of("--rater-kind", choice.rater_kind, *EPSILONS)
    settings = AgreementSettings(choice.seed, choice.draws, level, EPSILONS[kind])
    orders: Orders = options.one_of("--orders", choice.orders, *get_args(Orders))
    judges = options.names(choice.judge, "--judge")
    query = AgreementQuery(judges, options.names(choice.variant), orders)
    ratings, tasks = read_ratings(choice.ratings), options.names(choice.task, "--task")
    for task in tasks or [*ratings.task.unique()] or ["any"]:
        if not (ratings.task == task).any():
            raise DataError(f"{choice.ratings}: no rating of task {task!r}; correct --task")
    ratings = ratings[ratings.task.isin(tasks or ratings.task)]
    found, rated = [], [*panels(ratings, shown_runs(results), query)]
    for panel in rated:
        found.append(agreement(panel, settings))
        _show_panel(found[-1])
    made, table = pandas.concat(found, ignore_index=True), results / "agreement.csv"
    text = frame_csv(made)
    if table.is_file():  # the rows of other tasks stay as they are
        stored = pandas.read_csv(table, dtype=str, keep_default_na=False).reindex(columns=COLUMNS)
        text += stored[~stored.task.isin(made.task)].to_csv(index=False, header=False)
    write_whole(table, text.encode())
    show_json(plain_rows(made), is_json)
    say(f"wrote {len(made)} rows to {table}")
    return ExitCode.of(unmatched_ratings(rated))


def _show_panel(rows: DataFrame) -> None:
    """The title, what is found in sentences, and a table."""
    for line in (rows.attrs["title"], *rows.attrs["sentences"]):
        say(line)
    found = records(rows)
    names = {own[0].signature: judge for judge, own in findings.by_judge(found).items()}
    rows = rows.assign(judge=[names.get(row.signature, findings.who(row)) for row in found])
    main = rows[rows.statistic.isin([*MAIN])]
    for note, own in main[main.note != ""].groupby("note", sort=False).judge:
        say(f"note on {folded([*own.unique()])}: {note}")
    for line in rows.averaging.unique():
        say(f"averaged: {line}")
    say("")
    if (main := main[main.value.notna()]).empty:
        return
    table = main.pivot(index="judge", columns="statistic", values="value")
    table = table[[name for name in MAIN if name in table]].rename(columns=MAIN)
    r = main[main.statistic == "pearson_dataset"].set_index("judge")
    if len(r):
        table.insert(1, "interval", pandas.Series([*zip(r.low, r.high, strict=True)], r.index))
    table = table.reindex(main.judge.unique()).reset_index()
    show(table, "statistics of each judge; agreement.csv has every one, with its interval")


@dataclass(frozen=True, kw_only=True)
class Writing:
    """Who fills a sheet in, and where it goes."""

    raters: str | None = option(
        "Names of the people: ann,bob. Each gets a file, in an order of their own."
    )
    seed: options.Seed = 0
    out: Path = output("CSV file to write.", ".csv")
    home: Home = HOME

    def write(self, sheet: Sheet, *, each: int | None = None, size: int | None = None) -> int:
        """Write the files of a sheet; the exit code."""
        raters = options.names(self.raters, "--raters")
        for name in raters:
            options.plain_name(name, option="--raters")
        if each is not None and each > len(raters):
            raise SpecError(f"--per-answer {each}: name as many with --raters")
        stem, said = self.out.with_suffix(""), []
        files = {} if sheet.key is None else {".key.csv": frame_csv(sheet.key)}
        packets = sheet.packets(raters, each=each, size=size, seed=self.seed)
        for ending, (rater, rows) in packets.items():
            files[f"{ending}.csv"] = sheet.text(rater, rows)
            said.append(f"wrote {len(rows)} rows to {stem}{ending}.csv")
            if sheet.is_by_block:  # a page to print: the guide, then a table a block
                blocks = [records(own) for _, own in rows.groupby(level=0, sort=False)]
                page = filled_form("sheet.html", rater=rater, guide=sheet.guide, blocks=blocks)
                files[f"{ending}.html"] = "".join(page)
        files |= {".guide.txt": sheet.guide} if sheet.guide else {}
        config = "".join(filled_form("config.xml", sheet=sheet)) if sheet.steps else ""
        files |= {".config.xml": config} if config else {}
        for name, text in files.items():
            write_new(Path(f"{stem}{name}"), text.encode())
        for line in said:
            say(line)
        if sheet.guide:
            say(f"what raters read first is in {stem}.guide.txt")
        if sheet.key is not None:
            warn(f"{stem}.key.csv says what each row is: do not show it to the raters")
        if sheet.lost:
            warn(f"{sheet.lost} have no text to show and are left out")
        return ExitCode.of(sheet.lost)


@dataclass(frozen=True, kw_only=True)
class AnswerChoice:
    """Which answers people rate, and how they are dealt out."""

    runs: options.RunNames
    variant: str | None = option(
        "Variants, comma-separated, or all. Default: the task's first that every run has."
    )
    temperature: str | None = option(
        "Temperatures, comma-separated, or all. Default: the first of the runs."
    )
    limit: options.Limit = None
    per_answer: int | None = option("Raters of each answer. Default: all.", min=1)
    per_file: int | None = option("Rows of each file. Default: all.", min=1)


def export_ratings(choice: AnswerChoice, to: Writing, results: Results = RESULTS) -> int:
    """Write blind rating sheets in random order, and their key in a file of its own.

    Label Studio imports them, too: the labelling config is in NAME.config.xml. Export CSV there.
    """
    folders = find_runs(results, choice.runs)
    drawn, file = options.names(choice.temperature, "--temperature"), folders[0].read()
    known = options.registry(to.home).names("configs/sheets")
    own = (file.run.task, file.task.made_of)
    # The form of the task, or that of the task it was made of.
    if (form := next((name for name in own if name in known), None)) is None:
        warn(f"no configs/sheets/{file.run.task}.yaml: each field of a sample is a column")
    sheet = sheets.answers_sheet(
        folders,
        _form_of(form, to.home) if form else None,
        variants=options.names(choice.variant),
        decodings=[one if one == "all" else f"T{one.removeprefix('T')}" for one in drawn],
        limit=choice.limit,
        seed=to.seed,
    )
    if (key := sheet.key) is not None:
        names = ", ".join(key.attrs["names"])
        equal = f"; {len(key)} answers, equal ones in one row" * (len(key) > len(sheet.rows))
        warn(f"variant {names}{equal} (others: --variant, --temperature)")
    return to.write(sheet, each=choice.per_answer, size=choice.per_file)


def _form_of(name: str, home: Path) -> SheetForm:
    registry = options.registry(home)
    place = str(registry.file("configs/sheets", name))
    return SheetForm(registry.load("configs/sheets", name), place, registry.prompts)


def export_sheet(
    to: Writing,
    name: str = argument("SHEET", "Sheet: a name in configs/sheets/ that asks of sentences."),
    file: str = argument(
        "FILE", "Pairs, graded sentences or choices, as impscore eval reads them."
    ),
    each: int | None = option(
        "Pairs of each source, or of each topic where the file has no column source. Default: all.",
        min=1,
    ),
) -> int:
    """Write a questionnaire on sentences: pairs to rate, sets to rank, or choices of the nearest.

    With each file there is a page to print. `harness sheet read-ratings` reads the answers.
    """
    made = _form_of(name, to.home)
    of = made.spec.of
    if of == "answers":
        raise SpecError(f"sheet {name!r} asks of answers: make it by `sheet ratings RUN`")
    table, source = read_input(file, None, has_column=True)
    if of == "pairs":
        units = sheets.pair_units(read_pairs(table, where=source), each, to.seed)
    else:
        units = sheets.item_units(of, read_items(table, where=source))
    return to.write(sheets.units_sheet(name, made, units, to.seed))


def export_annotation(
    to: Writing,
    file: str = argument("FILE", "Table of texts, or - for stdin."),
    steps: str = STEPS,
    column: str | None = option("Column of the texts. Default: text."),
) -> int:
    """Write sheets on which people label texts step by step, and a config for Label Studio.

    \b
    Example:
      harness sheet labels posts.csv --steps ishate -o sheet.csv
    """
    spec = options.registry(to.home).load("configs/annotations", steps)
    table, where = read_input(file, None, has_column=column is not None)
    cells = [text_of(cell) for cell in column_of(table, column, where=where)]
    pairs = zip(table.lines, cells, strict=True)
    known = [(line, cell) for line, cell in pairs if not isinstance(cell, Flag)]
    if not known:
        raise DataError(f"{where}: no text to label")
    sheet = sheets.labels_sheet(spec, known, to.seed)
    return to.write(replace(sheet, lost=len(cells) - len(known)))


def export_stress(
    to: Annotated[Writing, options.Only("raters out")],
    file: Path = argument("FILE", "Turns, such as `harness build turns` chooses: JSON lines."),
) -> int:
    """Write sheets on which people mark stressed words and say what the stress brings out."""
    return to.write(sheets.stress_sheet(read_samples([file], None)))


def import_ratings(
    files: list[Path] = argument("FILE", "Rated sheets, or tables with a column a rater."),
    out: Path = output("Long-form CSV to write.", ".csv"),
    key: Path | None = option("Key file of the blind sheet that was rated."),
    task: str = option("Task of the ratings, if the file names none.", ""),
    raters: str | None = option("Columns of raters: A,B; or with other names: A=anna,B=ben."),
) -> None:
    """Convert ratings to long form; with --key, those of a blind sheet. CSV or XLSX.

    Several files are those of several raters, or parts of a sheet.
    """
    names = (name.partition("=") for name in options.names(raters, "--raters"))
    columns = {left: right or left for left, _, right in names}
    known = read_key(key) if key else None
    found = [read_rated(file, known, task=task, raters=columns) for file in files]
    ratings = filled_in(pandas.concat(found), files)
    write_named(out, ratings_text(ratings).encode())
    say(f"wrote {len(ratings)} ratings to {out}, {ratings.value.isna().sum()} of them blank")
    counts = ratings.rater.value_counts().sort_index()
    say(f"raters: {', '.join(f'{name} ({count})' for name, count in counts.items())}")


def import_labels(
    files: list[Path] = argument("SHEET", "Filled sheets, or CSV exports of Label Studio."),
    steps: str = STEPS,
    out: Path = output("CSV file to write.", ".csv"),
    of_round: int = option("Number of the round of labelling.", 0, flags="--round", min=0),
    home: Home = HOME,
) -> int:
    """Read filled sheets into one table of labels, a line for each text and person.

    A label in a step that should not have been taken is an error with its line. Steps that were
    left blank are missing: they are counted, and leave exit code 1.

    \b
    Examples:
      harness sheet read-labels ann.csv bob.csv --steps ishate -o labels.csv
      harness table ishate-agreement --data labels.csv
    """
    spec = options.registry(home).load("configs/annotations", steps)
    labels = pandas.concat([read_labels(spec, file) for file in files])
    labels.insert(2, "iteration", of_round)
    write_named(out, frame_csv(labels).encode())
    say(f"wrote {len(labels)} rows of {', '.join(labels.coder.unique())} to {out}")
    missing = labels.isna().sum()
    if said := ", ".join(f"{count} of {name}" for name, count in missing.items() if count):
        warn(f"left blank: {said}; these labels are missing")
    return ExitCode.of(missing.any())


def import_stress(
    files: list[Path] = argument("FILE", "Marked sheets: CSV or XLSX."),
    turns: Path = option("The file of turns that the sheets were made of.", ...),
    out: Path = output("File for the samples, JSON lines.", ".jsonl"),
) -> None:
    """Read marked sheets back as samples of emphasized_talk: one a stressed part, with meanings.

    A part that several annotators stress is one sample with the meanings of all; `harness build
    agreement` then keeps those that agree.
    """
    lines = read_stresses(files, read_samples([turns], None))
    if not lines:
        raise DataError(f"{', '.join(map(str, files))}: no stress is marked; nothing written")
    encoded = [msgspec.json.encode(line, order="deterministic") for line in lines]
    write_named(out, b"".join(line + b"\n" for line in encoded))
    several = sum(len(line["references"]["implication"]) > 1 for line in lines)
    say(f"wrote {len(lines)} samples to {out}; {several} have several meanings")
