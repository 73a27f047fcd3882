"""Stored runs whose verdicts are written as letters, a sample each: right, wrong, tie, missing."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir

from msgspec import structs

from harness.analysis import pairings
from harness.analysis.pairings import ComparedRun, Judges, Pairings, RunView
from harness.core import Sample
from harness.parts import Reason, digest
from harness.specs.tasks import ChoiceSpec, StepSpec, TaskSpec, VariantSpec
from harness.storage.run_tables import RunTables, SampleRecord, VerdictRecord
from harness.storage.runs import JudgeEntry, ModelEntry, RunFolder, StoredRun
from support.sketches import lost, right, row, run_file, task

LETTERS: Mapping[str, VerdictRecord] = {
    "1": right(1.0),
    "0": right(0.0),
    "=": right(0.5),
    ".": lost(Reason.UNPARSED),
}
NEAR = JudgeEntry("near", "accuracy", "near:00|minilm")
THOUGHT = JudgeEntry("near-thought", "accuracy", "near-thought:00|minilm", step="thought")
GOLD = JudgeEntry("gold", "accuracy", "gold:00|raw")
SMALL = ModelEntry("small", "scripted", "m@1", "r1")
Readings = Mapping[tuple[str, str, str], str]


def sample(place: int, **changes: object) -> Sample:
    """A sample of one of two groups, in a cluster of its own."""
    group = "odd" if place % 2 else "even"
    made = Sample(f"s{place:03}", {"topic": f"tea {place}"}, group=group)
    return replace(made, **changes)  # type: ignore[arg-type]  # checked where it is built


def words_task(**changes: object) -> TaskSpec:
    """A task answered in words, of three levels and two gaps."""
    steps = (StepSpec(name="response", template="toy/plain"),)
    levels = {name: VariantSpec(about="", steps=steps) for name in ("base", "cot0", "cot5")}
    gaps = {"uptake_gap": ("cot5", "base"), "inference_gap": ("cot5", "cot0")}
    spec = task(variants=levels, default_variants=tuple(levels), gaps=gaps)
    return structs.replace(spec, **changes)


def choice_task() -> TaskSpec:
    """A task answered by choices, in two orders that are one pool."""
    steps = (StepSpec(name="answer", template="toy/plain"),)
    orders = {
        f"order{n}": VariantSpec(
            about="", steps=steps, choice=ChoiceSpec(order=n), averaged_over="all"
        )
        for n in range(2)
    }
    return task(variants=orders, default_variants=tuple(orders), judges=("gold",))


def stored(
    spec: TaskSpec,
    readings: Readings,
    *,
    judges: Sequence[JudgeEntry] = (NEAR,),
    samples: Sequence[Sample] = (),
    name: str = "toy",
    model: ModelEntry = SMALL,
) -> StoredRun:
    """A run of a task; `readings` are letters by variant, decoding and judge."""
    ways = dict.fromkeys((variant, decoding) for variant, decoding, _ in readings)
    words = dict.fromkeys((variant for variant, _ in ways), "9f31c2ab")
    base = run_file(task=spec, judges=tuple(judges), model=model, variants=words)
    run = replace(base.run, task=name, variants=tuple(words), model=model.identity)
    file = replace(base, run=run, digest=run.digest)
    count = max(map(len, readings.values()))
    there = samples or [sample(place) for place in range(count)]
    return StoredRun(
        file,
        [
            _row(readings, part, place=place, variant=variant, decoding=decoding)
            for variant, decoding in ways
            for place, part in enumerate(there)
        ],
    )


def chosen(shares: Sequence[Sequence[float | None]], **changes: object) -> StoredRun:
    """A run of the choice task: the probability of the right choice by order and sample."""
    told = ["".join("." if p is None else "1" if p > 0.5 else "0" for p in line) for line in shares]
    readings = {(f"order{n}", "logprob", "gold"): line for n, line in enumerate(told)}
    samples = [sample(one, choices=("right", "wrong"), gold="right") for one in range(len(told[0]))]
    run = stored(
        choice_task(),
        readings,
        judges=(GOLD,),
        samples=samples,
        name="toy_choices",
        **changes,  # type: ignore[arg-type]  # as stored takes them
    )
    flat = [p for line in shares for p in line]
    rows = [_sure(part, p) for part, p in zip(run.rows, flat, strict=True)]
    return StoredRun(run.file, rows)


def compared(run: StoredRun) -> ComparedRun:
    tables = RunTables(Path(gettempdir()))
    tables.add(list(run.rows))
    return ComparedRun.of(run.file, tables.files)


def on_disk(folder: Path, run: StoredRun) -> RunFolder:
    """A run in a folder, which may have been written there before."""
    file = replace(run.file, planned=len(run.rows))
    found = RunFolder(folder / run.file.run.task / run.file.model.name / digest(repr(run))[:16])
    found.write(file, run.rows, [])
    return found


def between(first: StoredRun, second: StoredRun, judges: Judges = (None, None)) -> Pairings:
    return pairings.between(compared(first), compared(second), judges)


def within(run: StoredRun, judge: str | None = None) -> Pairings:
    return pairings.within(compared(run), judge)


def views(run: StoredRun, judge: JudgeEntry) -> list[RunView]:
    return pairings.views(compared(run), judge)


def _row(
    readings: Readings, part: Sample, *, place: int, variant: str, decoding: str
) -> SampleRecord:
    verdicts = {
        judge: LETTERS[line[place]]
        for (name, way, judge), line in readings.items()
        if (name, way) == (variant, decoding) and place < len(line)
    }
    made = row(right(1.0), part.id, variant=variant, decoding=decoding, verdicts=verdicts)
    return replace(made, sample=part)


def _sure(part: SampleRecord, share: float | None) -> SampleRecord:
    if share is None:
        return part
    verdict = replace(part.verdicts["gold"], shares=(share, 1 - share))
    return replace(part, verdicts={"gold": verdict})
