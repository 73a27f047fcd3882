"""The commands that let people label texts step by step: export annotation, ratings labels."""

from dataclasses import dataclass
from pathlib import Path

from harness.cli import options
from harness.cli.impscore import Format, read_input
from harness.cli.options import HOME, ExitCode, Home, argument, option
from harness.data.annotation import (
    guide_text,
    key_csv,
    labels_csv,
    read_labels,
    sheet_csv,
    steps_config,
    texts_to_label,
)
from harness.errors import DataError, SpecError
from harness.implicitness.scorer import Flag, text_of
from harness.present.screen import say, warn
from harness.storage.files import refuse_source, write_new, write_whole
from harness.storage.tables import column_of

STEPS = option("Steps of labelling: a name in configs/annotations/.")


@dataclass(frozen=True, kw_only=True)
class AnnotationChoice:
    """Which texts people label, in which steps, and who they are."""

    file: str = argument("FILE", "Table of texts, or - for stdin.")
    steps: str = STEPS
    column: str | None = option("Column of the texts. Default: text.", None)
    raters: str | None = option("Names of the people: ann,bob. Each gets a file.", None)
    out: Path = option("CSV file to write.", flags="-o --out")
    layout: Format = None
    seed: options.Seed = 0


def export_annotation(choice: AnnotationChoice, home: Home = HOME) -> int:
    """Write sheets on which people label texts step by step, and a config for Label Studio.

    The sheets are shuffled and show ids and texts alone; their key is a file of its own.

    \b
    Example:
      harness sheet labels posts.csv --steps ishate -o sheet.csv
    """
    if choice.out.suffix != ".csv":
        raise SpecError(f"-o {choice.out}: a sheet is a CSV file; end its name in .csv")
    spec = options.registry(home).load("configs/annotations", choice.steps)
    table, where = read_input(choice.file, choice.layout, has_column=choice.column is not None)
    refuse_source(choice.out, Path(where))
    cells = [text_of(cell) for cell in column_of(table, choice.column, where=where)]
    known = [
        (line, cell)
        for line, cell in zip(table.lines, cells, strict=True)
        if not isinstance(cell, Flag)
    ]
    if not known:
        raise DataError(f"{where}: no text to label")
    rows, out = texts_to_label(known, choice.seed), choice.out
    raters = options.names(choice.raters, "--raters") if choice.raters else ()
    endings = [f"-{options.plain_name(name, option='--raters')}" for name in raters] or [""]
    for ending in endings:
        write_new(path := out.with_name(f"{out.stem}{ending}.csv"), sheet_csv(spec, rows).encode())
        say(f"wrote {len(rows)} rows to {path}")
    for ending, text in (
        (".key.csv", key_csv(rows)),
        (".guide.txt", guide_text(spec)),
        (".config.xml", steps_config(spec)),
    ):
        write_new(path := out.with_name(f"{out.stem}{ending}"), text.encode())
        say(f"wrote {path}")
    if lost := len(cells) - len(known):
        warn(f"{lost} rows have no text and are left out")
    return ExitCode.of(lost)


@dataclass(frozen=True, kw_only=True)
class LabelsChoice:
    """Which filled sheets are read, and where the labels go."""

    files: list[Path] = argument("SHEET", "Filled sheets, or CSV exports of Label Studio.")
    steps: str = STEPS
    out: Path = option("CSV file to write.", flags="-o --out")
    of_round: int = option("Number of the round of labelling.", 0, flags="--round", min=0)


def import_labels(choice: LabelsChoice, home: Home = HOME) -> int:
    """Read filled sheets into one table of labels, a line for each text and person.

    A label in a step that should not have been taken is an error with its line. Steps that were
    left blank are missing: they are counted, and leave exit code 1.

    \b
    Examples:
      harness sheet read-labels ann.csv bob.csv --steps ishate -o labels.csv
      harness table ishate-agreement --data labels.csv
    """
    spec = options.registry(home).load("configs/annotations", choice.steps)
    for path in choice.files:
        refuse_source(choice.out, path)
    rows = [row for path in choice.files for row in read_labels(spec, path)]
    write_whole(choice.out, labels_csv(spec, rows, of_round=choice.of_round).encode())
    coders = dict.fromkeys(row.coder for row in rows)
    say(f"wrote {len(rows)} rows of {', '.join(coders)} to {choice.out}")
    missing = {step.name: sum(row.labels[step.name] is None for row in rows) for step in spec.steps}
    if said := ", ".join(f"{count} of {name}" for name, count in missing.items() if count):
        warn(f"left blank: {said}; these labels are missing")
    return ExitCode.of(any(missing.values()))
