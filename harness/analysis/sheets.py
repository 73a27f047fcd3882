"""Runs to sheets that people rate, and the key of a sheet back to the answers that it shows.

A sheet, blind and shuffled, shows each answer once, with its sample as people read it: no model,
no verdict, and of the references only those that the task's sheet may show. Only its key has the
sample and the models of each row. Nothing here reads ratings or computes a statistic.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.core import Sample
from harness.data.ratings import RATER, RATING, SheetKey, Target, unguarded
from harness.errors import SpecError, did_you_mean
from harness.parts import digest
from harness.pipeline.plan import subsample
from harness.specs.sheets import MarkSpec, SheetSpec
from harness.storage.cells import csv_text
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import RunFile, RunFolder, StoredRun
from harness.storage.tables import BOM, read_rows
from harness.text.prompts import Prompts

ROW, ITEM, QUESTION, ANSWER = "row", "item", "question", "answer"
OWN_COLUMNS = frozenset({ROW, ANSWER, RATING, RATER})
KEY_COLUMNS = ("row", "task", "sample_id", "model", "variant", "decoding", "scale")
MARKS = "marks"
"""The column of a key that has the marks of the scale; keys of earlier versions lack it."""


@dataclass(frozen=True, slots=True)
class SheetForm:
    """How people see a sample: the spec of a sheet, its file, and what renders its templates."""

    spec: SheetSpec
    place: str
    prompts: Prompts

    def fields(self, sample: Sample) -> dict[str, str]:
        """The item and the question of a sample; SpecError where a reference is not there."""
        slots = dict(sample.fields)
        for name in self.spec.shows:
            if not sample.references.get(name):
                raise SpecError(
                    f"{self.place}: shows {name!r}, which sample {sample.id} does not have"
                    f"{did_you_mean(name, list(sample.references))}"
                )
            slots[name] = "\n".join(sample.references[name])
        render = partial(self.prompts.fill, slots=slots)
        item = render(self.spec.item, where=f"{self.place}, item").strip()
        question = render(self.spec.question, where=f"{self.place}, question").strip()
        return {ITEM: item, QUESTION: f"{question} ({or_list(self.marks)})"}

    @property
    def marks(self) -> tuple[str, ...]:
        """What raters may write."""
        return tuple(mark.text for mark in self.spec.scale)

    def guide(self) -> str:
        """What raters read first: what they do, and what each mark means."""
        steps = (
            f"Write {or_list(self.marks)} into the last column of each row. Leave it blank where "
            "you cannot say. Change nothing else."
        )
        scale = "".join(f"{mark.text}: {mark.means}\n" for mark in self.spec.scale)
        return f"{self.spec.guide.strip()}\n\n{scale}\n{steps}\n".lstrip()


@dataclass(frozen=True, slots=True)
class SheetQuery:
    """Which answers a sheet shows.

    Without variants, the task's first that every run has; without decodings, such as T0.3, the
    first of the runs; `all` is all of them. `limit` counts samples, with all their answers;
    `rows` counts rows: those of the first samples, in an order that the seed draws.
    """

    variants: tuple[str, ...] = ()
    decodings: tuple[str, ...] = ()
    seed: int = 0
    limit: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class RatedAnswer:
    """The names under which an answer is stored; `scale` is what its ratings are called."""

    task: str
    sample_id: str
    model: str
    variant: str
    decoding: str
    scale: str


@dataclass(frozen=True, slots=True)
class SheetEntry:
    """One row of a sheet: an opaque id, the texts shown, and all stored answers that it shows."""

    id: str
    fields: Mapping[str, str]
    answer: str
    rated: tuple[RatedAnswer, ...]

    @property
    def sample_id(self) -> str:
        """The sample that was answered."""
        return self.rated[0].sample_id


@dataclass(frozen=True, slots=True)
class Sheet:
    """Rows in the order of rating, how many responses had no answer, and the marks of the scale.

    `variants` and `decodings` are those of its answers.
    """

    entries: tuple[SheetEntry, ...]
    unanswered: int
    variants: tuple[str, ...]
    decodings: tuple[str, ...]
    scale: tuple[MarkSpec, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns of the fields shown, in alphabetical order."""
        return tuple(sorted({name for entry in self.entries for name in entry.fields}))

    @property
    def answers(self) -> int:
        """How many stored answers the rows show."""
        return sum(len(entry.rated) for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Packet:
    """The rows of one file: those of a rater, who is empty if unknown, or a part of them."""

    rater: str
    part: int | None
    entries: tuple[SheetEntry, ...]

    @property
    def ending(self) -> str:
        """What its file has behind the name of the sheet."""
        return "".join(f"-{one}" for one in (self.rater, self.part) if one)


def read_runs(folders: Iterable[RunFolder]) -> list[StoredRun]:
    """Runs of one task; SpecError for runs of several."""
    runs = [StoredRun.read(folder) for folder in folders]
    if len(tasks := sorted({run.file.run.task for run in runs})) > 1:
        raise SpecError(f"runs of tasks {', '.join(tasks)}: make a sheet for each task")
    return runs


def draw_sheet(
    runs: Sequence[StoredRun], query: SheetQuery, form: SheetForm | None = None
) -> Sheet:
    """The answers of some runs, shuffled; equal answers to one sample share a row.

    Without a form every field of a sample is a column. SpecError for runs without answers, or
    with two answers of one model to one question.
    """
    variants = _variants(runs, query.variants)
    decodings = _decodings(runs, query.decodings)
    samples = {row.sample.id: row.sample for run in runs for row in run.rows}
    kept = {one.id for one in subsample([*samples.values()], query.limit, seed=query.seed)}
    chosen = [
        (run.file, row)
        for run in runs
        for row in run.rows
        if row.variant in variants and row.decoding in decodings and row.sample.id in kept
    ]
    answered = [(file, row) for file, row in chosen if row.answer is not None]
    _check_answers(answered)
    if not answered:
        raise SpecError("these runs hold no answer to rate; choose other runs or variants")
    entries = _entries(answered, form, query.seed)
    entries = _first(entries, [samples[name] for name in sorted(kept)], query)
    return Sheet(
        tuple(sorted(entries, key=lambda entry: entry.id)),
        len(chosen) - len(answered),
        variants,
        decodings,
        form.spec.scale if form else (),
    )


def packets(
    sheet: Sheet,
    *,
    raters: Sequence[str] = (),
    each: int | None = None,
    size: int | None,
    seed: int,
) -> list[Packet]:
    """The files that a sheet becomes: for each rater, in an order of their own, `size` rows each.

    `each` raters, by default all, see an answer; they see all answers to its sample. The raters of
    a sample are those with the fewest rows so far, and of these the ones that the seed draws.
    """
    if not raters:
        return _parts("", sheet.entries, size)
    by_sample: dict[str, list[SheetEntry]] = defaultdict(list)
    for entry in sheet.entries:
        by_sample[entry.sample_id].append(entry)
    given: dict[str, list[SheetEntry]] = {rater: [] for rater in raters}
    for sample, entries in by_sample.items():
        drawn = sorted(raters, key=lambda name: (len(given[name]), digest((seed, sample, name))))
        for rater in drawn[:each]:
            given[rater] += entries
    return [
        packet
        for rater, entries in given.items()
        for packet in _parts(
            rater, sorted(entries, key=lambda entry: digest((seed, rater, entry.id))), size
        )
    ]


def shown(sheet: Sheet, entries: Iterable[SheetEntry]) -> list[dict[str, str]]:
    """Each row as people see it: its id, the fields, the answer."""
    return [
        {ROW: e.id, **{column(n): e.fields.get(n, "") for n in sheet.fields}, ANSWER: e.answer}
        for e in entries
    ]


def column(field: str) -> str:
    """The column of a field; one with the name of another column gets an underscore."""
    return f"{field}_" if field in OWN_COLUMNS else field


def sheet_text(sheet: Sheet, packet: Packet) -> str:
    """A file of a sheet as CSV, formula-safe, with a blank column for the rater.

    It begins with a byte order mark, without which spreadsheet programs take it for another
    encoding.
    """
    head = (ROW, *map(column, sheet.fields), ANSWER, packet.rater or RATING)
    rows = ([*row.values(), None] for row in shown(sheet, packet.entries))
    return BOM + csv_text(head, rows)


def key_text(sheet: Sheet) -> str:
    """The key of a sheet as CSV: the sample, model, variant and scale of each answer in a row."""
    marks = " ".join(f"{mark.text}={mark.value:g}" for mark in sheet.scale)
    lines = [
        (entry.id, *(getattr(one, name) for name in KEY_COLUMNS[1:]), marks)
        for entry in sheet.entries
        for one in entry.rated
    ]
    return csv_text((*KEY_COLUMNS, MARKS), sorted(lines))


def read_key(path: Path) -> SheetKey:
    """The answers in each row of a sheet and the marks of its scale, from its key."""
    targets: dict[str, list[Target]] = defaultdict(list)
    marks: dict[str, float] = {}
    for row in read_rows(path, KEY_COLUMNS):
        r = {name: unguarded(row.cells[name]) for name in KEY_COLUMNS}
        targets[r["row"]].append(Target(r["task"], r["sample_id"], r["model"], r["scale"]))
        for mark in row.cells.get(MARKS, "").split():
            word, _, value = mark.rpartition("=")
            marks[word] = float(value)
    return SheetKey({name: tuple(several) for name, several in targets.items()}, marks)


def or_list(words: Sequence[str]) -> str:
    """Words with `or` before the last."""
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _parts(rater: str, entries: Sequence[SheetEntry], size: int | None) -> list[Packet]:
    if size is None or size >= len(entries):
        return [Packet(rater, None, tuple(entries))]
    starts = range(0, len(entries), size)
    return [Packet(rater, n, tuple(entries[at : at + size])) for n, at in enumerate(starts, 1)]


def _variants(runs: Sequence[StoredRun], wanted: Sequence[str]) -> tuple[str, ...]:
    ran = [list(run.file.run.variants) for run in runs]
    known = list(dict.fromkeys(name for names in ran for name in names))
    if "all" in wanted:
        return tuple(known)
    for run, names in zip(runs, ran, strict=True):
        if unknown := sorted(set(wanted) - set(names)):
            raise SpecError(
                f"run {run.file.digest[:12]} of {run.file.model.name} has no variant "
                f"{unknown[0]!r}{did_you_mean(unknown[0], names)}"
            )
    if wanted:
        return tuple(wanted)
    order = [*runs[0].file.task.default_variants, *known]
    shared = [name for name in order if all(name in names for names in ran)]
    if not shared:
        raise SpecError(
            f"no variant was run by all of these runs ({', '.join(known)}); choose runs that "
            "share one, or give --variant all"
        )
    return (shared[0],)


def _decodings(runs: Sequence[StoredRun], wanted: Sequence[str]) -> tuple[str, ...]:
    known = list(dict.fromkeys(row.decoding for run in runs for row in run.rows))
    if "all" in wanted:
        return tuple(known)
    if unknown := [name for name in wanted if name not in known]:
        raise SpecError(
            f"--temperature: these runs hold no answer drawn at {unknown[0]}"
            f"{did_you_mean(unknown[0], known)}"
        )
    return tuple(wanted or known[:1])


def _entries(
    answered: Sequence[tuple[RunFile, SampleRecord]], form: SheetForm | None, seed: int
) -> list[SheetEntry]:
    several: dict[tuple[str, str], list[tuple[RunFile, SampleRecord]]] = defaultdict(list)
    for file, row in answered:
        several[row.sample.id, " ".join((row.answer or "").split())].append((file, row))
    return [
        SheetEntry(
            # A letter first, or a spreadsheet takes some ids for numbers.
            id=min(f"r{digest((seed, file.digest, _place(file, row)))[:15]}" for file, row in same),
            fields=form.fields(same[0][1].sample) if form else same[0][1].sample.fields,
            answer=same[0][1].answer or "",
            rated=tuple(RatedAnswer(*_place(file, row), _scale(file, row)) for file, row in same),
        )
        for same in several.values()
    ]


def _place(file: RunFile, row: SampleRecord) -> tuple[str, str, str, str, str]:
    return file.run.task, row.sample.id, file.model.name, row.variant, row.decoding


def _scale(file: RunFile, row: SampleRecord) -> str:
    is_one_decoding = len(file.run.decodings) == 1
    return row.variant if is_one_decoding else f"{row.variant}@{row.decoding}"


def _first(
    entries: Sequence[SheetEntry], samples: Sequence[Sample], query: SheetQuery
) -> list[SheetEntry]:
    """As many rows as are wanted: whole samples in a seeded order, the last of them perhaps cut."""
    if query.rows is None or query.rows >= len(entries):
        return list(entries)

    def of_first(count: int) -> list[SheetEntry]:
        kept = {one.id for one in subsample(samples, count, seed=query.seed)}
        return [entry for entry in entries if entry.sample_id in kept]

    counts = range(len(samples) + 1)
    enough = bisect_left(counts, query.rows, key=lambda count: len(of_first(count)))
    whole = {entry.id for entry in of_first(enough - 1)}
    ordered = sorted(of_first(enough), key=lambda entry: (entry.id not in whole, entry.id))
    return ordered[: query.rows]


def _check_answers(answered: Iterable[tuple[RunFile, SampleRecord]]) -> None:
    """Refuse two answers of one model to the same question: a rating would be of both."""
    counts = Counter(_place(file, row) for file, row in answered)
    for (_, sample, model, variant, decoding), count in counts.items():
        if count > 1:
            raise SpecError(
                f"{count} of these runs hold an answer by {model} to sample {sample}, {variant}, "
                f"{decoding}; give one run of each model"
            )
