"""Runs of more than one chunk: the same files, in the order of the plan, by memory that stays."""

import json
import subprocess
import sys
from itertools import product

import pytest
from support.toy import Toy, lines

from harness.pipeline.execute import CHUNK
from harness.storage.runs import RunFolder

COUNT = CHUNK // 2 + 50
"""Samples; in two decodings more than a chunk."""


def with_samples(toy: Toy, count: int) -> Toy:
    """The toy with so many samples."""
    path = toy.home / "tasks/samples/toy.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines(count)), "utf-8")
    return toy


def forget(toy: Toy) -> None:
    """Have the next repeat carry out the run, though nothing changed."""
    for manifest in toy.results.glob("manifests/*/*/*"):
        manifest.unlink()


@pytest.mark.slow
def test_a_run_of_two_chunks_is_in_the_order_of_the_plan_and_is_repeated_and_read_as_it_is(
    toy: Toy,
) -> None:
    with_samples(toy, COUNT)
    assert toy.run("--variant", "base") == 0
    [folder] = toy.runs()

    file, rows = RunFolder(folder).read(), RunFolder(folder).read_rows()
    places = [(row.decoding, row.sample.fields["story"]) for row in rows]
    stories = [json.loads(line)["fields"]["story"] for line in lines(COUNT)]
    assert file.planned == len(rows) == 2 * COUNT > CHUNK
    assert places == list(product(("T0", "T0.5"), stories))
    assert all(row.verdicts["near"].value == 1.0 for row in rows)
    assert {row.score.n for row in RunFolder(folder).read_scores()} == {
        COUNT,
        2 * COUNT,
        COUNT // 2,
    }

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
def test_memory_grows_by_less_than_2_kb_an_answer(toy: Toy) -> None:
    code = (
        "import resource, sys; from harness.cli import main; main(sys.argv[1:]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peaks = []
    for count in (CHUNK, 2 * CHUNK):
        with_samples(toy, count)
        where = ("--home", str(toy.home), "--results", str(toy.folder / str(count)))
        command = ("run", "--task", "toy", "--model", "oracle", "--variant", "base", *where)
        done = subprocess.run(
            [sys.executable, "-c", code, *command], capture_output=True, text=True, check=True
        )
        peaks.append(int(done.stdout.split()[-1]))

    assert (peaks[1] - peaks[0]) * 1024 / (2 * CHUNK) < 2_000
