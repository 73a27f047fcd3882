"""Runs of more than one chunk: the same files, in the order of the plan, by memory that stays."""

import json
import shutil
import subprocess
import sys
from itertools import product

import pytest
from support.toy import Lines, Toy, lines

from harness.pipeline.execute import CHUNK
from harness.storage.runs import RunFolder

COUNT = CHUNK // 2 + 50
"""Samples; in two decodings more than a chunk."""


def with_samples(toy: Toy, count: int) -> Toy:
    path = toy.home / "tasks/samples/toy.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines(count, ("even", "odd"))), "utf-8")
    return toy


def forget(toy: Toy) -> None:
    """Have the next repeat carry out the run, though nothing changed."""
    for known in toy.results.glob("repeats/*/*/*"):
        known.unlink()


@pytest.mark.slow
def test_a_run_of_two_chunks_is_in_plan_order_and_is_repeated_and_read_as_it_is(toy: Toy) -> None:
    with_samples(toy, COUNT)
    assert toy.run("--variant", "base") == 0
    [folder] = toy.runs()

    file, rows = RunFolder(folder).read(), RunFolder(folder).read_rows()
    places = [(row.decoding, row.sample.fields["story"]) for row in rows]
    stories = [json.loads(line)["fields"]["story"] for line in lines(COUNT)]
    assert file.planned == len(rows) == 2 * COUNT > CHUNK
    assert places == list(product(("T0", "T0.5"), stories))
    assert all(row.verdicts["near"].value == 1.0 for row in rows)
    sizes = {row.score.n for row in RunFolder(folder).read_scores()}
    assert sizes == {COUNT, 2 * COUNT, COUNT // 2}

    before = toy.bytes()
    forget(toy)
    assert toy.run("--variant", "base") == 0
    assert toy.main("read", str(folder)) == 0
    assert toy.bytes() == before


@pytest.mark.slow
def test_another_judge_goes_through_a_large_run_and_all_verdicts_stay(toy: Toy) -> None:
    with_samples(toy, COUNT)
    near = (toy.home / "configs/judges/near.yaml").read_text("utf-8")
    swapped = near.replace("accept: right, reject: wrong", "accept: wrong, reject: right")
    toy.write("configs/judges/far.yaml", swapped)
    toy.run("--variant", "base")
    [folder] = toy.runs()

    assert toy.main("judge", str(folder), "--judge", "far") == 0
    forget(toy)
    assert toy.run("--variant", "base") == 0

    rows = RunFolder(folder).read_rows()
    assert {(r.verdicts["far"].value, r.verdicts["near"].value) for r in rows} == {(0.0, 1.0)}


@pytest.mark.slow
def test_a_large_run_is_counted_sharded_and_merged_in_chunks(toy: Toy, capsys: Lines) -> None:
    with_samples(toy, COUNT)
    given = ("run", "--task", "toy", "--model", "oracle", "--variant", "base")

    def counted() -> list[tuple[int, int]]:
        capsys.readouterr()
        assert toy.main(*given, "--dry-run", "--json") == 0
        told = json.loads(capsys.readouterr().out)
        return [(kind["calls"], kind["stored"]) for kind in told]

    assert counted() == [(2 * COUNT, 0)]
    assert toy.main(*given) == 0
    before = toy.bytes()
    assert counted() == [(2 * COUNT, 2 * COUNT)]
    shutil.rmtree(toy.results)
    assert [toy.main(*given, "--shard", f"{number}/2") for number in (1, 2)] == [0, 0]
    assert toy.main("merge", *given[1:]) == 0
    assert toy.bytes() == before


def peak(*words: str) -> int:
    code = (
        "import resource, sys; from harness.cli import main; main(sys.argv[1:]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    return int(subprocess.check_output([sys.executable, "-c", code, *words]).split()[-1])


@pytest.mark.slow
def test_memory_grows_by_less_than_2_kb_an_answer(toy: Toy) -> None:
    peaks = dict[int, list[int]]()
    for count in (CHUNK, 2 * CHUNK):
        with_samples(toy, count)
        home = ("--home", str(toy.home))
        whole, parts = (("--results", str(toy.folder / f"{n}{count}")) for n in ("whole", "parts"))
        given = ("--task", "toy", "--model", "oracle", "--variant", "base", *home)
        peaks[count] = [
            peak("run", *given, *whole, "--dry-run"),
            peak("run", *given, *whole),
            peak("items", "oracle", *whole),
            peak("run", *given, *parts, "--shard", "1/1"),
            peak("merge", *given, *parts),
        ]

    grown = [more - less for less, more in zip(*peaks.values(), strict=True)]
    assert [kb for kb in grown if kb * 1024 / (2 * CHUNK) >= 2_000] == []
