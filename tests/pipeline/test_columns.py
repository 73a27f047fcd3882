"""Scores are made of columns that grow by chunks: whatever the chunks, the same bytes come out."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from sys import getsizeof

import numpy as np
import pytest
from msgspec import structs
from support.choice_cases import choice_run, variants
from support.choice_cases import task as choice_task
from support.each import rest_slow
from support.sketches import JUDGE, rows, run_file

from harness.core import Sample
from harness.parts import Reason, Superseded, Usage, digest
from harness.pipeline.columns.arrays import Detail, Names, name_bytes, name_text
from harness.pipeline.columns.run import RunColumns
from harness.pipeline.columns.stored import ColumnRun, shared
from harness.pipeline.records import with_costs
from harness.pipeline.score import rows_of, score_rows
from harness.specs.tasks import ClassesSpec, ImplicitnessSpec
from harness.storage.runs import (
    JudgeEntry,
    RunFile,
    SampleRecord,
    StepRecord,
    VerdictRecord,
    table_text,
)

GOLD = JudgeEntry("gold", "accuracy", "gold:00|raw")
ASKING = JudgeEntry("asking", "mean_rating", "asking:11|rating 1-5", asks="m", identity="openai:m")
LABELS = ("yes", "no", "perhaps")


def drawn(count: int, seed: int) -> list[SampleRecord]:
    """Records of two variants and decodings by two judges, with all that may be missing."""
    draw = Random(seed)
    return [_record(draw, at, count) for at in range(count)]


def _record(draw: Random, at: int, count: int) -> SampleRecord:
    choices = LABELS[: 2 + at // 2 % 2]
    name = f"s{at // 2:03}"
    sample = Sample(
        name,
        {"text": name},
        {
            "labels": choices,
            "properties": tuple(draw.sample(("irony", "context"), draw.randrange(3))),
            "implicitness": (repr(draw.choice((0.0, 0.3, draw.random() * 2))),),
        },
        choices,
        draw.choice(choices),
        group=draw.choice(("east", "west", "all")),
        cluster=draw.choice((name, f"c{at % 7}\0", "ü" * 80)) if draw.random() < 0.5 else name,
    )
    verdicts = {"gold": _gold_verdict(draw, sample)}
    if draw.random() < 0.9:
        verdicts["asking"] = _rating(draw)
    steps = [
        StepRecord(step, digest([step, at, draw.random()]), (), text="so", usage=_usage(draw))
        for step in ("thought", "response")[draw.randrange(2) :]
    ]
    return SampleRecord(
        sample,
        *("order0" if at % 2 else "order1", "T0.3" if at < count // 2 else "T0.5"),
        steps=tuple(steps),
        answer=None if draw.random() < 0.1 else "yes",
        served=draw.choice((None, "m-1")),
        verdicts=verdicts,
    )


def _gold_verdict(draw: Random, sample: Sample) -> VerdictRecord:
    if draw.random() < 0.15:
        return VerdictRecord(None, draw.choice([*Reason]), note=f"lost at {draw.random()}")
    parts = [draw.random() for _ in sample.choices]
    shares = tuple(part / sum(parts) for part in parts)
    place = shares.index(max(shares))
    detail = {f"chosen_place_{n + 1}": float(n == place) for n in range(len(shares))}
    detail |= {f"chosen_label_{n}": float(at == place) for at, n in enumerate(sample.choices)}
    if draw.random() < 0.7:
        detail |= {f"prob_label_{n}": shares[at] for at, n in enumerate(sample.choices)}
    known = shares if draw.random() < 0.9 else ()
    return VerdictRecord(float(sample.choices[place] == sample.gold), detail=detail, shares=known)


def _rating(draw: Random) -> VerdictRecord:
    served = draw.choice(("j-1", "j-2"))
    if draw.random() < 0.2:
        return VerdictRecord(None, Reason.UNPARSED, served=served, keys=("q",), usages=(Usage(),))
    keys = (digest(draw.randrange(40)),)
    # A call that several records share was charged once, and is told alike by all of them.
    usage = _usage(Random(keys[0]))
    return VerdictRecord(draw.choice((1.0, 2.5, 5.0)), served=served, keys=keys, usages=(usage,))


def _usage(draw: Random) -> Usage:
    usage = Usage(draw.randrange(90), draw.randrange(90), draw.random())
    if draw.random() < 0.05:
        earlier = (Superseded(Usage(3, 1, 0.5), Reason.REFUSED),)
        return replace(usage, superseded=earlier, unanswered=draw.choice((1, 0)))
    return Usage(7, None, None) if draw.random() < 0.001 else usage


def run_of(seed: int, records: Sequence[SampleRecord]) -> RunFile:
    spec = choice_task(variants("order0", "order1"))
    spec = [
        spec,
        structs.replace(
            spec, implicitness=ImplicitnessSpec(scorer="s", positive=("yes",), least=2)
        ),
        structs.replace(spec, classes=ClassesSpec(missed=("yes",))),
    ][seed % 3]
    model = replace(run_file().model, identity=("openai:m", "scripted:m")[seed % 2])
    made = choice_run(spec, len(records), judges=(GOLD, replace(ASKING, step="thought")))
    return replace(made, model=model)


@pytest.mark.parametrize("seed", rest_slow(range(3), kept=1))
def test_scores_and_sums_are_those_of_the_whole_whatever_the_chunks(seed: int) -> None:
    records, draw = drawn(60, seed), Random(f"{seed} chunks")
    file = run_of(seed, records)

    columns, at = RunColumns(file.task), 0
    while at < len(records):
        size = draw.randrange(1, 25)
        columns.add(iter(records[at : at + size]))
        at += size

    assert table_text(rows_of(file, columns)) == table_text(score_rows(file, records))
    assert columns.summed(file) == with_costs(file, records)


def held(value: object, seen: set[int]) -> int:
    """The bytes of an object and of all that it holds."""
    if id(value) in seen:
        return 0
    seen.add(id(value))
    parts: list[object] = [*value] if isinstance(value, list | tuple) else []
    parts += [*value.items()] if isinstance(value, dict) else []
    parts += [*getattr(value, "__dict__", {}).values()]
    return getsizeof(value) + sum(held(part, seen) for part in parts)


@pytest.mark.slow
def test_a_record_takes_a_hundred_and_fifty_bytes() -> None:
    records = [
        replace(record, sample=replace(record.sample, id=f"{at:016x}", cluster=f"c{at // 2:015x}"))
        for at, record in enumerate(rows([0.0, 1.0] * 2500))
    ]

    columns = RunColumns.of(run_file().task, iter(records))

    assert columns.readings(JUDGE.name).value.sum() == 2500
    assert 50 * len(records) < held(columns, set()) < 150 * len(records)


def test_names_keep_the_order_of_letters_whatever_they_hold() -> None:
    given = ["b", "a\0", "a", "a\1", "\0", "é", "z" * 500, "z", "\U0001f600", "a"]
    column = Names()
    column.add(given[:4])
    column.add(given[4:])

    places = {name: place for place, name in enumerate(sorted(set(given)))}
    assert column.ranks.tolist() == [places[name] for name in given]


def test_a_number_that_a_chunk_lacks_is_missing_and_no_zero() -> None:
    column = Detail()
    column.add(2, np.array([0.0, np.nan, 1.0]))
    column.add(6, np.array([0.25]))

    found = column.at(np.arange(9))

    assert np.isnan(found[[0, 1, 3, 5, 7, 8]]).all()
    assert found[[2, 4, 6]].tolist() == [0.0, 1.0, 0.25]


@pytest.mark.parametrize("name", ["", "tea", "\0", "\1\2", "a\1\0\2\1", "\ud800 \u00e9"])
def test_a_name_comes_back_from_its_bytes(name: str) -> None:
    assert name_text(name_bytes(name)) == name


def test_samples_say_the_same_as_far_as_both_say_anything() -> None:
    said = [{"topic": "tea"}, {"topic": "rain"}, {}, {"topic": "tea", "dialog": "Tea?"}]
    first, *_ = rows([1.0])
    runs = [
        ColumnRun.of(run_file(), [replace(first, sample=Sample("s", fields))] * 2)
        for fields in said
    ]

    alike = [runs[0].is_said(np.array([0, 1]), other, np.array([1, 0])).all() for other in runs]

    assert alike == [True, False, True, True]


def test_the_names_that_two_have_are_found_in_the_order_of_the_first() -> None:
    long = "b" * 99
    ours, theirs = Names(), Names()
    ours.add(["c", "a", "d", long])
    theirs.add(["a", "e", "d"])

    found = shared(ours.bytes, theirs.bytes)

    assert [places.tolist() for places in found] == [[1, 2], [0, 2]]
    assert [places.tolist() for places in shared(ours.bytes, Names().bytes)] == [[], []]
