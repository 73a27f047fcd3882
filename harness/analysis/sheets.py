"""Answers, sentences and texts to blind, shuffled sheets, each with a key that nobody is shown."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.core import Sample
from harness.data.annotation import BETWEEN, FIELDS, GUIDE, STRESSES
from harness.data.ratings import KEY_COLUMNS, MARKS, RATER, RATING, ROW
from harness.errors import DataError, SpecError, check_names, did_you_mean
from harness.implicitness.pairs import Items, TrainingPair, unit_names
from harness.implicitness.splits import with_negatives
from harness.lazy import DataFrame, pandas
from harness.parts import digest
from harness.pipeline.plan import subsample
from harness.specs.sheets import AnnotationSpec, AnnotationStep, SheetSpec, StepLabel
from harness.storage.cells import csv_text
from harness.storage.frames import load
from harness.storage.runs import RunFile, RunFolder
from harness.storage.tables import BOM, TEXT
from harness.text.prompts import Prompts

ITEM, QUESTION, ANSWER = "item", "question", "answer"
OWN_COLUMNS = frozenset({ROW, ANSWER, RATING, RATER})


@dataclass(frozen=True, slots=True)
class Sheet:
    """What people fill in, and what stays with us.

    `rows` has the opaque id `row` and what people see; its index names the block of each row, which
    goes to the same people, and with `is_by_block` stays together. Without `blanks` there is one
    column to fill in, named for the rater. `key` says what each row is, `steps` are for Label
    Studio, `lost` counts what has nothing to show.
    """

    rows: DataFrame
    blanks: tuple[str, ...] = ()
    key: DataFrame | None = None
    guide: str = ""
    steps: tuple[AnnotationStep, ...] = ()
    lost: int = 0
    is_by_block: bool = False

    def packets(
        self, raters: Sequence[str], *, each: int | None = None, size: int | None, seed: int
    ) -> dict[str, tuple[str, DataFrame]]:
        """The rater and the rows of each file, `size` in a random order, by what ends its name.

        `each` raters, by default all, see a block: those with the fewest rows so far.
        """
        given: dict[str, list[int]] = {rater: [] for rater in raters or ("",)}
        for block, places in self.rows.groupby(level=0).indices.items():
            ranks = {r: (len(own), digest((seed, block, r))) for r, own in given.items()}
            for rater in sorted(given, key=ranks.__getitem__)[:each]:
                given[rater].extend(places)
        found = {}
        for rater, own in given.items():
            rows = self.rows.iloc[own]
            blocks = [digest((seed, rater, block)) * self.is_by_block for block in rows.index]
            keys = [*zip(blocks, (digest((seed, rater, row)) for row in rows[ROW]), strict=True)]
            rows = rows.iloc[sorted(range(len(rows)), key=keys.__getitem__)]
            step = size or max(1, len(rows))
            for number, start in enumerate(range(0, len(rows), step), 1):
                names = (rater, str(number) if len(rows) > step else "")
                found["".join(f"-{n}" for n in names if n)] = rater, rows.iloc[start : start + step]
        return found

    def text(self, rater: str, rows: DataFrame) -> str:
        """A file of the sheet as formula-safe CSV with blank columns, after a byte order mark."""
        blanks = self.blanks or (rater or RATING,)
        lines = ([*row, *[None] * len(blanks)] for row in rows.itertuples(index=False))
        return BOM + csv_text((*rows.columns, *blanks), lines)


@dataclass(frozen=True, slots=True)
class SheetForm:
    """How people see a sample: the spec of a sheet, its file, and what renders its templates."""

    spec: SheetSpec
    place: str
    prompts: Prompts

    def fields(self, sample: Sample) -> dict[str, str]:
        """The item and the question of a sample; SpecError where a reference is not there."""
        then = f", which sample {sample.id} does not have"
        check_names(f"{self.place}: shows", self.spec.shows, sample.references, then=then)
        own = {name: "\n".join(sample.references[name]) for name in self.spec.shows}
        slots = {**sample.fields, **own}
        texts = {ITEM: self.spec.item, QUESTION: self.spec.question}
        item, question = (
            self.prompts.fill(text, slots=slots, where=f"{self.place}, {name}").strip()
            for name, text in texts.items()
        )
        return {ITEM: item, QUESTION: f"{question} ({self.choice})"}

    @property
    def choice(self) -> str:
        """What raters may write, in no language."""
        return " / ".join(mark.text for mark in self.spec.scale)

    def sheet(self, rows: DataFrame, key: DataFrame, lost: int, *, is_by_block: bool) -> Sheet:
        """A sheet in this form, with the marks of its scale in the key."""
        scale = self.spec.scale
        means = "".join(f"{mark.text}: {mark.means}\n" for mark in scale)
        fill = self.spec.fill.replace("{marks}", self.choice).strip()
        guide = f"{self.spec.guide.strip()}\n\n{means}\n{fill}\n"
        labels = tuple(StepLabel(word=mark.text, means=mark.means) for mark in scale)
        steps = (AnnotationStep(name=RATING, question="Rating", labels=labels),)
        marks = " ".join(f"{mark.text}={mark.value:g}" for mark in scale)
        key = key.assign(**{MARKS: marks})
        return Sheet(rows, (), key, guide.lstrip(), steps, lost, is_by_block)


def answers_sheet(
    folders: Sequence[RunFolder],
    form: SheetForm | None,
    *,
    variants: Sequence[str] = (),
    decodings: Sequence[str] = (),
    limit: int | None = None,
    seed: int = 0,
) -> Sheet:
    """The answers of some runs of a task to `limit` samples; equal ones to a sample share a row.

    By default of the task's first variant that every run has, and the first decoding; `all` is all
    of them. Without a form every field of a sample is a column. SpecError for runs without answers,
    of several tasks, or with two answers of one model to one question.
    """
    files = [folder.read() for folder in folders]
    if len(tasks := sorted({file.run.task for file in files})) > 1:
        raise SpecError(f"runs of tasks {', '.join(tasks)}: make a sheet for each task")
    samples = _samples(folders)
    answers = load(folders, "answers", ["sample", "variant", "decoding", "answer"]).astype(object)
    kept = [one.id for one in subsample([*samples.values()], limit, seed=seed)]
    known = list(answers.decoding.unique())
    chosen = answers[
        answers["sample"].isin(kept)
        & answers.variant.isin(_variants(files, variants))
        & answers.decoding.isin(_wanted("--temperature", decodings, known))
    ]
    rated = chosen[chosen.answer.notna()].rename(columns={"sample": "sample_id"})
    _check_answers(rated)
    pairs = zip(rated.sample_id, rated.answer, strict=True)
    rated[ROW] = [_id(seed, sample, answer.split()) for sample, answer in pairs]
    is_one = answers.groupby("run").decoding.nunique()[rated.run].to_numpy() == 1
    rated["scale"] = rated.variant.where(is_one, rated.variant + "@" + rated.decoding)
    rated[MARKS] = ""
    rows = _shown(rated.drop_duplicates(ROW), samples, form)
    key = rated[list(KEY_COLUMNS)].sort_values(list(KEY_COLUMNS), ignore_index=True)
    key.attrs["names"] = [*rated.variant.unique(), *rated.decoding.unique()]  # as in the plan
    lost = len(chosen) - len(rated)
    if form is None:
        return Sheet(rows, key=key, lost=lost)
    return form.sheet(rows, key, lost, is_by_block=False)


def _check_answers(rated: DataFrame) -> None:
    for one in rated[rated.duplicated(["model", "sample_id", "variant", "decoding"])].itertuples():
        raise SpecError(
            f"two of these runs hold an answer by {one.model} to sample {one.sample_id}, "
            f"{one.variant}, {one.decoding}; give one run of each model"
        )
    if not len(rated):
        raise SpecError("these runs hold no answer to rate; choose other runs or variants")


def _samples(folders: Sequence[RunFolder]) -> dict[str, Sample]:
    stored = load(folders, "samples", ["sample", "group", "fields", "references"])
    return {
        one.sample: Sample(
            one.sample,
            one.fields,
            {name: tuple(texts) for name, texts in one.references.items() if len(texts)},
            group=one.group,
        )
        for one in stored.itertuples()
    }


def _shown(answers: DataFrame, samples: Mapping[str, Sample], form: SheetForm | None) -> DataFrame:
    """A row as people see it for each answer, named by its sample."""
    rows = []
    for one in answers.itertuples():
        sample = samples[one.sample_id]
        fields = form.fields(sample) if form else sample.fields
        named = {f"{n}_" if n in OWN_COLUMNS else n: text for n, text in fields.items()}
        rows.append({ROW: one.row, **named, ANSWER: one.answer})
    made = pandas.DataFrame(rows, index=list(answers.sample_id)).fillna("")
    return made[[*(name for name in made.columns if name != ANSWER), ANSWER]]


def _id(seed: int, *parts: object) -> str:
    # A letter first, or a spreadsheet takes some ids for numbers.
    return f"r{digest((seed, *parts))[:15]}"


def _variants(files: Sequence[RunFile], wanted: Sequence[str]) -> list[str]:
    order = [*files[0].task.default_variants, *(v for file in files for v in file.run.variants)]
    if "all" in wanted:
        return order
    shared = [name for name in order if all(name in file.run.variants for file in files)]
    if not shared:
        raise SpecError("no variant was run by all of these runs; give --variant all")
    return _wanted("--variant", wanted, list(dict.fromkeys(shared)))


def _wanted(option: str, wanted: Sequence[str], known: list[str]) -> list[str]:
    """The names that are wanted, all, or the first without any."""
    if "all" in wanted:
        return known
    for name in wanted:
        if name not in known:
            fact = f"{option} {name}: not in all of these runs{did_you_mean(name, known)}"
            raise SpecError(fact)
    return [*wanted] or known[:1]


NOT = " (negative)"
"""Ends the source, and in the key the scale, of a pair whose sentences have two meanings."""
Unit = tuple[str, str, Mapping[str, str], str]
"""What a row asks of: its block, what units of one block differ in or where a pair is from, the
fields that the form's templates see, and the text to judge."""


def pair_units(pairs: Sequence[TrainingPair], each: int | None, seed: int) -> list[Unit]:
    """A unit for each pair and one for its negative, named by its place from 1.

    `each` units of a source are drawn by the seed, half of them negatives where there are any.
    """
    by_source: dict[str, list[Unit]] = {}
    for place, pair in enumerate(with_negatives(pairs, seed=seed), 1):
        source = pair.source or "all"
        whole = {source: (pair.implicit, pair.explicit), f"{source}{NOT}": pair.negative}
        for name, sides in whole.items():
            if sides is not None:
                kind = "negative" if name.endswith(NOT) else "positive"
                fields = {"implicit": sides[0], "explicit": sides[1], "kind": kind}
                by_source.setdefault(name, []).append((str(place), name, fields, sides[1]))
    kinds = 2 if any(name.endswith(NOT) for name in by_source) else 1
    drawn = (sorted(own, key=lambda unit: digest((seed, unit[2]))) for own in by_source.values())
    return [unit for own in drawn for unit in own[: each and -(-each // kinds)]]


def item_units(of: str, items: Items) -> list[Unit]:
    """The units of graded sentences and choices: whole sets, their sentences, or choices."""
    if of == "choices":
        return [
            (name, str(place), {"topic": one.topic, "sentence": str(one.sentences[0])}, str(text))
            for name, one in zip(unit_names(items.choices), items.choices, strict=True)
            for place, text in enumerate(one.sentences[1:], 1)
        ]
    units: list[Unit] = []
    for name, one in zip(unit_names(items.rankings), items.rankings, strict=True):
        order = sorted(range(len(one.levels)), key=one.levels.__getitem__)
        texts = {str(place): str(one.sentences[at]) for place, at in enumerate(order, 1)}
        if of == "rankings":
            texts = {"set": "\n".join(f"{place}. {text}" for place, text in texts.items())}
        units += [(name, place, {"topic": name}, text) for place, text in texts.items()]
    return units


def units_sheet(name: str, form: SheetForm, units: Sequence[Unit], seed: int) -> Sheet:
    """The sheet of some units; SpecError without any, or where a set has more texts than marks."""
    of, marks = form.spec.of, len(form.spec.scale)
    if not units:
        raise SpecError(f"{form.place}: asks of {of}, and the file has none; give another file")
    most = max(Counter(block for block, *_ in units).values())
    if of == "sentences" and most > marks:
        fact = f"{form.place}: has {marks} marks, and a set has {most} sentences"
        raise SpecError(f"{fact}; give its `scale` a mark for each")
    ids = [_id(seed, name, block, model, text) for block, model, _, text in units]
    shown = [
        {ROW: row, **form.fields(Sample(block, fields)), ANSWER: text}
        for row, (block, _, fields, text) in zip(ids, units, strict=True)
    ]
    rows = pandas.DataFrame(shown, index=[block for block, *_ in units])
    key = [
        (row, name, block, model.removesuffix(NOT), "", "", of + NOT * model.endswith(NOT), "", "")
        for row, (block, model, _, _) in zip(ids, units, strict=True)
    ]
    return form.sheet(rows, pandas.DataFrame(key, columns=list(KEY_COLUMNS)), 0, is_by_block=True)


def labels_sheet(spec: AnnotationSpec, texts: Sequence[tuple[int, str]], seed: int) -> Sheet:
    """The sheet on which people label texts, each given after the line of its file."""
    rows = [(_id(seed, line, text), text) for line, text in texts]
    key = [(row, line) for (row, _), (line, _) in zip(rows, texts, strict=True)]
    guide = [spec.guide.strip(), ""]
    for number, step in enumerate(spec.steps, 1):
        guide.append(f"{number}. {step.name}: {step.question}")
        guide += [f"   Only where {step.condition}; else leave it blank."] if step.when else []
        guide += [f"   Write {BETWEEN.strip()!r} between several labels."] * step.is_several
        guide += [*(f"   {label.word}: {label.means}" for label in step.labels), ""]
    return Sheet(
        pandas.DataFrame(rows, index=[row for row, _ in rows], columns=[ROW, TEXT]),
        tuple(step.name for step in spec.steps),
        pandas.DataFrame(key, columns=[ROW, "line"]),
        "\n".join(guide).lstrip(),
        spec.steps,
    )


def stress_sheet(turns: Iterable[Sample]) -> Sheet:
    """The sheet on which people mark stresses of turns; DataError for a turn that cannot be."""
    rows = []
    for turn in turns:
        if absent := [name for name in FIELDS if name not in turn.fields]:
            raise DataError(f"turn {turn.id}: no field {absent[0]!r}; give {', '.join(FIELDS)}")
        if "*" in turn.fields["turn"]:
            raise DataError(f"turn {turn.id}: has an asterisk, which marks a stress; take it out")
        rows.append((turn.id, *(turn.fields[name] for name in FIELDS)))
    made = pandas.DataFrame(rows, index=[row[0] for row in rows], columns=[ROW, *FIELDS])
    return Sheet(made, tuple(name for pair in STRESSES for name in pair), guide=GUIDE)
