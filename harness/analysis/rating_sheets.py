"""Runs to the sheets that people rate, blind and shuffled, and to the key of each sheet.

A sheet shows what a prompt may show and the answer: no model, no reference, no verdict. Only the
key has the sample and model of each row.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.data.ratings import Target, unguarded
from harness.errors import SpecError, did_you_mean
from harness.parts import digest
from harness.pipeline.plan import subsample
from harness.storage.cells import csv_text
from harness.storage.runs import RunFile, RunFolder, SampleRecord
from harness.storage.tables import read_rows

ROW, ANSWER, RATING = "row", "answer", "rating"
KEY_COLUMNS = ("row", "task", "sample_id", "model", "variant", "decoding", "scale")


@dataclass(frozen=True, slots=True)
class SheetEntry:
    """One row of a sheet: an opaque id, the texts shown, and the sample and model of the answer."""

    id: str
    fields: Mapping[str, str]
    answer: str
    task: str
    sample_id: str
    model: str
    variant: str
    decoding: str
    scale: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """Rows in the order of rating, and how many responses had no answer to show."""

    entries: tuple[SheetEntry, ...]
    unanswered: int

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns of the fields shown, in alphabetical order."""
        return tuple(sorted({name for entry in self.entries for name in entry.fields}))


def draw_sheet(
    folders: Sequence[RunFolder], *, variants: Sequence[str], seed: int, limit: int | None
) -> Sheet:
    """The answers of some runs of one task, shuffled; `limit` counts samples, not answers.

    SpecError for runs of several tasks, without answers, or with two answers of one model to one
    sample.
    """
    runs = [(folder.read(), folder.read_rows()) for folder in folders]
    if len(tasks := sorted({file.run.task for file, _ in runs})) > 1:
        raise SpecError(f"runs of tasks {', '.join(tasks)}: make a sheet for each task")
    samples = {row.sample.id: row.sample for _, rows in runs for row in rows}
    kept = {sample.id for sample in subsample(tuple(samples.values()), limit, seed=seed)}
    chosen = [
        (file, row)
        for file, rows in runs
        for row in _of_variants(file, rows, variants)
        if row.sample.id in kept
    ]
    entries = [
        _entry(file, row, answer=row.answer, seed=seed)
        for file, row in chosen
        if row.answer is not None
    ]
    _check_ids(entries)
    if not entries:
        raise SpecError("these runs hold no answer to rate; choose other runs or variants")
    ordered = sorted(entries, key=lambda entry: entry.id)
    return Sheet(tuple(ordered), len(chosen) - len(entries))


def shown(sheet: Sheet) -> list[dict[str, str]]:
    """Each row as people see it: its id, the fields, the answer."""
    return [
        {ROW: e.id, **{column(n): e.fields.get(n, "") for n in sheet.fields}, ANSWER: e.answer}
        for e in sheet.entries
    ]


def column(field: str) -> str:
    """The column of a field; one with the name of another column gets an underscore."""
    return f"{field}_" if field in (ROW, ANSWER, RATING) else field


def sheet_text(sheet: Sheet) -> str:
    """A sheet as CSV, formula-safe, with a blank column for the rating."""
    head = (ROW, *map(column, sheet.fields), ANSWER, RATING)
    return csv_text(head, ([*row.values(), None] for row in shown(sheet)))


def key_text(sheet: Sheet) -> str:
    """The key of a sheet as CSV: the sample, model, variant and scale of each row."""
    lines = [
        (e.id, e.task, e.sample_id, e.model, e.variant, e.decoding, e.scale) for e in sheet.entries
    ]
    return csv_text(KEY_COLUMNS, sorted(lines))


def read_key(path: Path) -> dict[str, Target]:
    """The target of each row of a sheet, from its key."""
    rows = [
        {name: unguarded(row.cells[name]) for name in KEY_COLUMNS}
        for row in read_rows(path, KEY_COLUMNS)
    ]
    return {r["row"]: Target(r["task"], r["sample_id"], r["model"], r["scale"]) for r in rows}


def _of_variants(
    file: RunFile, rows: Sequence[SampleRecord], names: Sequence[str]
) -> Iterator[SampleRecord]:
    wanted = set(names)
    if unknown := sorted(wanted - set(file.run.variants) - {"all"}):
        raise SpecError(
            f"run {file.digest[:12]} of {file.model.name} has no variant {unknown[0]!r}"
            f"{did_you_mean(unknown[0], list(file.run.variants))}"
        )
    return (row for row in rows if not wanted or "all" in wanted or row.variant in wanted)


def _entry(file: RunFile, row: SampleRecord, *, answer: str, seed: int) -> SheetEntry:
    """A row of the sheet; with several decodings, the scale has the decoding too."""
    place = (file.run.task, row.sample.id, file.model.name, row.variant, row.decoding)
    is_one_decoding = len(file.run.decodings) == 1
    return SheetEntry(
        # A letter first, or a spreadsheet takes some ids for numbers.
        id=f"r{digest((seed, file.digest, place))[:15]}",
        fields=row.sample.fields,
        answer=answer,
        task=file.run.task,
        sample_id=row.sample.id,
        model=file.model.name,
        variant=row.variant,
        decoding=row.decoding,
        scale=row.variant if is_one_decoding else f"{row.variant}@{row.decoding}",
    )


def _check_ids(entries: Sequence[SheetEntry]) -> None:
    """Refuse two answers of one model to the same question: a rating would be of both."""
    counts = Counter((e.sample_id, e.model, e.variant, e.decoding) for e in entries)
    for (sample, model, variant, decoding), count in counts.items():
        if count > 1:
            raise SpecError(
                f"{count} of these runs hold an answer by {model} to sample {sample}, {variant}, "
                f"{decoding}; give one run of each model"
            )
