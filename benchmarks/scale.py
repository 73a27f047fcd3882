"""What each command costs at a thousand to a million synthetic items, with a scripted model.

    python -m benchmarks.scale --items 1000,10000,100000 --workers 1,2,4

Each command is a whole process: `run`, the same again (`repeat`), `read`, `judge`, `leaderboard`,
`report`. With several workers a run is that many processes at once, a shard each, and one `merge`;
its seconds are of all together, its memory is of the largest. Writes the table into results.md.
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
COMMANDS = ("repeat", "read", "judge", "leaderboard", "report")
"""What follows the first run, in this order."""
SIZES, WORKERS = (1_000, 10_000, 100_000, 1_000_000), (1, 2, 4)


@dataclass(frozen=True, slots=True)
class Job:
    """So many items in a folder of their own."""

    folder: Path
    items: int

    def command(self, *words: str) -> Command:
        """A command of this program on them."""
        told = [sys.executable, "-m", "harness", *words]
        return Command(told, self.folder, {"PYTHONPATH": str(ROOT), "HARNESS_DATA": ""})

    def run(self, *more: str) -> Command:
        """The first run, the repeat, or a shard of it."""
        where = ("--home", str(self.folder / "home"), "--results", str(self.folder / "results"))
        return self.command("run", "--task", "bench", "--model", "oracle", *where, *more)

    def after(self, name: str) -> Command:
        """One of the commands that follow a run."""
        results_of = ("--results", str(self.folder / "results"))
        home = ("--home", str(self.folder / "home"))
        [run] = [path.parent for path in self.folder.glob("results/runs/*/*/*/run.json")] or [
            Path("none")
        ]
        words = {
            "read": ("read", str(run), *results_of, *home),
            "judge": ("judge", str(run), "--judge", "again", *results_of, *home),
            "leaderboard": ("leaderboard", *results_of),
            "report": ("report", *results_of, "-o", str(self.folder / "report.html")),
        }
        return self.run() if name == "repeat" else self.command(*words[name])


def prepare(job: Job) -> None:
    """Write task, judge, prompt and items."""
    home = job.folder / "home"
    for name, text in {
        "tasks/bench.yaml": TASK,
        "configs/judges/again.yaml": JUDGE,
        "prompts/bench/ask.user.j2": "{{ words }}",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, "utf-8")
    (home / "tasks/samples").mkdir()
    with (home / "tasks/samples/bench.jsonl").open("w", encoding="utf-8") as file:
        for number in range(job.items):
            file.write(json.dumps(item(number)) + "\n")


def item(number: int) -> dict[str, object]:
    """One item; ten items stand in a cluster."""
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
    """All commands on so many items; with several workers the run alone."""

    def stage(name: str, seen: Seen) -> Stage:
        return Stage(name, items, workers, seen.wall_s, seen.cpu_s, seen.most_mb)

    with tempfile.TemporaryDirectory() as folder:
        job = Job(Path(folder), items)
        prepare(job)
        if workers == 1:
            yield stage("run", measure(job.run()))
            for name in COMMANDS:
                yield stage(name, measure(job.after(name)))
            return
        shards = [job.run("--shard", f"{at}/{workers}") for at in range(1, workers + 1)]
        seen = at_once(shards)
        merged = measure(job.command("merge", "--results", str(job.folder / "results")))
        both = replace(merged, wall_s=seen.wall_s + merged.wall_s, cpu_s=seen.cpu_s + merged.cpu_s)
        yield stage("run", replace(both, most_mb=max(seen.most_mb, merged.most_mb)))


def measured(sizes: Sequence[int], workers: Sequence[int], *, is_idle: bool) -> Scale:
    """The table of all sizes and numbers of workers; each line is told as it is measured."""
    with tempfile.TemporaryDirectory() as folder:
        base = measure(Job(Path(folder), 0).command("list"))
    found = []
    for items in sizes:
        for number in workers:
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
