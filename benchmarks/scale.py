"""What each command costs at a thousand to a million synthetic items, with a scripted model.

    python -m benchmarks.scale --items 1000,10000,100000 --workers 1,2,4

Each command is a whole process: `run --dry-run`, `run`, the same again (`repeat`), `run PLAN
--status`, `read`, `items`, `judge`, `leaderboard`, `report`, and a run of a thousand answers more
next to the stored ones (`more`). Then, with each number of workers, that many shards at once, whose
seconds are of all together and whose memory is of the largest, and their `merge`. The largest size
is measured with one worker alone. Writes the table into results.md.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from time import monotonic

from benchmarks import machine, results
from benchmarks.choice import TASK
from benchmarks.results import Scale, Setting, Stage
from benchmarks.turns import Command, Seen, measure

ROOT = Path(__file__).parent.parent
JUDGE = """
about: As `gold`, a second time.
kind: gold
"""
MORE = """
  more:
    about: with another question
    choice: {answers: text}
    steps: [{name: answer, template: bench/more}]
judges:"""
PLAN = """
about: The run, as a plan.
models: [oracle]
tasks: [bench]
"""
COMMANDS = (
    *("dry-run", "run", "repeat", "status", "read", "items", "judge"),
    *("leaderboard", "report", "more"),
)
"""What one process does, in this order."""
SIZES, WORKERS = (1_000, 10_000, 100_000, 1_000_000), (1, 2, 4)


@dataclass(frozen=True, slots=True)
class Job:
    """So many items in a folder of their own."""

    folder: Path
    items: int

    def command(self, *words: str) -> Command:
        """A command of this program on them."""
        command = [sys.executable, "-m", "harness", *words]
        return Command(command, self.folder, {"PYTHONPATH": str(ROOT), "HARNESS_DATA": ""})

    def part(self, name: str, *more: str) -> Command:
        """A shard, or the merge, of a run in a results folder of its own."""
        asked = (name, "--task", "bench", "--model", "oracle", "--home", "home")
        return self.command(*asked, "--results", "parts", *more)

    def named(self, name: str) -> Command:
        """One of `COMMANDS`."""
        asked, run = ("--task", "bench", "--model", "oracle"), "bench/oracle"
        words = {
            "dry-run": ("run", *asked, "--dry-run"),
            "run": ("run", *asked),
            "repeat": ("run", *asked),
            "status": ("run", "plan.yaml", "--status"),
            "read": ("read", run),
            "items": ("items", run, "--csv", "items.csv"),
            "judge": ("judge", run, "--judge", "again"),
            "leaderboard": ("leaderboard",),
            "report": ("report", "-o", "report.html"),
            "more": ("run", *asked, "--variant", "more", "--limit", "1000"),
        }[name]
        home = () if name in ("items", "leaderboard", "report") else ("--home", "home")
        return self.command(*words, *home, "--results", "results")


def prepare(job: Job) -> None:
    """Write task, judge, prompt, plan and items."""
    home = job.folder / "home"
    (job.folder / "plan.yaml").write_text(PLAN, "utf-8")
    for name, text in {
        "tasks/bench.yaml": TASK.replace("\njudges:", MORE),
        "configs/judges/again.yaml": JUDGE,
        "prompts/bench/ask.user.j2": "{{ words }}",
        "prompts/bench/more.user.j2": "Once more: {{ words }}",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, "utf-8")
    (home / "tasks/samples").mkdir()
    with (home / "tasks/samples/bench.jsonl").open("w", encoding="utf-8") as file:
        for number in range(job.items):
            file.write(json.dumps(item(number)) + "\n")


def item(number: int) -> dict[str, object]:
    """One item; ten items make a cluster."""
    words = f"Someone says the words of number {number}. Is it meant as it is said?"
    return {
        "id": f"{number:07}",
        "group": "all",
        "cluster": f"{number // 10:06}",
        "fields": {"words": words},
        "choices": ["yes", "no"],
        "gold": "yes" if number % 2 else "no",
        "references": {},
    }


def at_once(commands: Sequence[Command]) -> Seen:
    """Several processes at the same time: seconds of all, CPU of all, memory of the largest."""
    start = monotonic()
    with ThreadPoolExecutor(len(commands)) as pool:
        seen = list(pool.map(measure, commands))
    cpu_s, most_mb = sum(one.cpu_s for one in seen), max(one.most_mb for one in seen)
    return Seen(monotonic() - start, cpu_s, most_mb)


def stages(items: int, workers: int) -> Iterator[Stage]:
    """All commands on so many items; with several workers the shards and their merge alone."""

    def stage(name: str, seen: Seen) -> Stage:
        return Stage(name, items, workers, seen.wall_s, seen.cpu_s, seen.most_mb)

    with tempfile.TemporaryDirectory() as folder:
        job = Job(Path(folder), items)
        prepare(job)
        for name in COMMANDS if workers == 1 else ():
            yield stage(name, measure(job.named(name)))
        shards = [f"{number}/{workers}" for number in range(1, workers + 1)]
        yield stage("shard", at_once([job.part("run", "--shard", shard) for shard in shards]))
        yield stage("merge", measure(job.part("merge")))


def measured(sizes: Sequence[int], workers: Sequence[int], *, is_idle: bool) -> Scale:
    """The table of all sizes and numbers of workers; each line is given as it is measured."""
    with tempfile.TemporaryDirectory() as folder:
        base = measure(Job(Path(folder), 0).command("list"))
    found = []
    for items in sizes:
        for number in workers if items < max(sizes) or len(sizes) == 1 else workers[:1]:
            for stage in stages(items, number):
                found.append(stage)
                print(
                    f"  {stage.command}, {items:,} items, {number} workers: {stage.wall_s:.2f} s, "
                    f"CPU {stage.cpu_s:.2f} s, {stage.most_mb:.0f} MB",
                    flush=True,
                )
    setting = Setting(machine.described(), machine.versions(), str(date.today()), is_idle)
    return Scale(setting, base.most_mb, tuple(found))


def main() -> None:
    """Measure, and write the table into results.md."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--items", default=",".join(map(str, SIZES)))
    parser.add_argument("--workers", default=",".join(map(str, WORKERS)))
    parser.add_argument("--force", action="store_true", help="measure on a loaded machine, too")
    options = parser.parse_args()
    sizes, workers = ([int(n) for n in o.split(",")] for o in (options.items, options.workers))
    try:
        load = os.getloadavg()[0]
        is_idle = machine.check_idle(load, machine.cores(), is_forced=options.force)
    except machine.Busy as busy:
        sys.exit(str(busy))
    scale = measured(sizes, workers, is_idle=is_idle)
    results.write(replace(results.read(), scale=scale), root=ROOT)


if __name__ == "__main__":
    main()
