"""Commands to what they took: whole processes that take turns, so that a slow moment of the machine
meets every way alike.

What is measured is the process as a user starts it: imports, loading, work and writing. Its seconds
on the clock, the CPU seconds of it and of its children, and the most memory that it held. Beside
them are the CPU seconds of everybody else in the meantime, where the system has them.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

DONE = (0, 1)
"""Exit codes of a way that has done its work; this program's 1 is "done with missing items"."""
SAID_AT_MOST = 2000
STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class Seen:
    """One process: seconds on the clock, CPU seconds, MB held at most.

    `others_s` are the CPU seconds of all other processes in the meantime; None where unknown.
    """

    wall_s: float
    cpu_s: float
    most_mb: float
    others_s: float | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A process to start; `read` reads its values from what it left, None where there are none."""

    words: Sequence[str]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[], Sequence[float]] | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """A way to do the work; `command` gets a new empty folder for each turn."""

    name: str
    title: str
    command: Callable[[Path], Command]


@dataclass(frozen=True, slots=True)
class Turned:
    """What a way took in each turn, and the values it gave in the first."""

    way: Way
    seen: tuple[Seen, ...]
    values: tuple[float, ...]


class WayFailed(Exception):
    """A way did not do its work; the message has its last words."""


def measure(command: Command) -> Seen:
    """Run one process to its end; raises WayFailed if it does not end well."""
    before, start = busy_s(), time.monotonic()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            list(command.words),
            stdout=said,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=command.folder,
            env={**os.environ, **command.environment},
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s, after = time.monotonic() - start, busy_s()
        if process.returncode not in DONE:
            said.seek(0)
            words = said.read().decode("utf-8", "replace")[-SAID_AT_MOST:]
            raise WayFailed(f"{command.words[0]} ended with {process.returncode}:\n{words}")
    cpu_s = used.ru_utime + used.ru_stime
    others_s = None if before is None or after is None else max(after - before - cpu_s, 0.0)
    return Seen(wall_s, cpu_s, used.ru_maxrss / 1024, others_s)


def busy_s() -> float | None:
    """The CPU seconds that all processes have used since the system started; None if untold."""
    try:
        fields = STAT.read_text("ascii").split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    user, nice, system, _idle, _waiting, irq, soft_irq, *_ = map(int, fields)
    return (user + nice + system + irq + soft_irq) / os.sysconf("SC_CLK_TCK")


def take_turns(
    ways: Sequence[Way], turns: int, *, say: Callable[[str], None] = print
) -> list[Turned]:
    """Run all ways one after the other, and again, so many turns."""
    seen: dict[str, list[Seen]] = {way.name: [] for way in ways}
    values: dict[str, tuple[float, ...]] = {}
    for turn in range(turns):
        for way in ways:
            with tempfile.TemporaryDirectory() as name:
                command = way.command(Path(name))
                one = measure(command)
                if turn == 0:
                    values[way.name] = tuple(command.read()) if command.read else ()
            seen[way.name].append(one)
            say(f"  turn {turn + 1}, {way.title}: {one.wall_s:.2f} s, CPU {one.cpu_s:.2f} s")
    return [Turned(way, tuple(seen[way.name]), values[way.name]) for way in ways]
