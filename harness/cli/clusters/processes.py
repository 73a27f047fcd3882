"""A command to child processes that make its calls, each a shard, with one line of progress.

Children read what the command reads, and make no call before they are told to. One ends when its
parent does. What a child leaves undone, the parent does itself afterwards.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Self

from harness.cli.options import ExitCode
from harness.cli.output import MARK, ProgressLine, command_words, is_child, log
from harness.models.client.cached import Stage
from harness.parts import PROCESSES

GO = b"."
"""What a parent writes to a child that may make its calls."""
_begun = threading.Event()
GRACE_S = 10.0
"""How long a child may take to store what it has when the command is interrupted."""
_Told = tuple[int, str | None]
"""The number of a child and a line of it; None when it has ended."""


class Children:
    """This command as `count` shards of child processes, which end with its context."""

    def __init__(self, count: int) -> None:
        """Start none yet."""
        self._count = count
        self._told: SimpleQueue[_Told] = SimpleQueue()
        self._children: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []
        self._ended = threading.Event()
        self._is_heard = True

    def __enter__(self) -> Self:
        """End, with the context, those that are started."""
        return self

    def start(self) -> None:
        """Start them; they make no call yet, and nothing is shown of what they say."""
        if self._children:
            return
        self._children = [_start(number, self._count) for number in range(1, self._count + 1)]
        self._threads = [
            threading.Thread(target=_read, args=(child, number, self._told), daemon=True)
            for number, child in enumerate(self._children, 1)
        ]
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        """End those that still run; each stores its finished calls first."""
        self._is_heard = False
        _stop(self._children)
        for thread in self._threads:
            thread.join(GRACE_S)

    def begin(self) -> None:
        """Have them make their calls, and show what they tell."""
        for child in self._children:
            with suppress(OSError):  # it has ended already
                os.write(child.stdin.fileno() if child.stdin else -1, GO)
        self._threads.append(threading.Thread(target=self._tell, daemon=True))
        self._threads[-1].start()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether all that were to begin have ended, after so many seconds at most."""
        return self._ended.wait(seconds)

    def _tell(self) -> None:
        """Show what children tell until all have ended; what several of them say, once."""
        sums, said = _Sums(ProgressLine()), set[str]()
        for number, line in self._heard():
            if line is None:
                _tell_end(number, self._count, self._children[number - 1].wait())
                sums.end(number)
                continue
            if line.startswith(MARK):
                sums.add(number, line.removeprefix(MARK))
                continue
            if line not in said:
                log(line)
            said.add(line)
        self._ended.set()

    def _heard(self) -> Iterator[_Told]:
        left = self._count
        while left:
            number, line = self._told.get()
            left -= line is None
            if self._is_heard:
                yield number, line


def shard_words(words: Sequence[str], number: int, count: int) -> list[str]:
    """The words of a command as those of one of its shards."""
    kept, rest = list[str](), iter(words)
    for word in rest:
        if word == "--processes":
            next(rest, None)
        elif not word.startswith("--processes="):
            kept.append(word)
    return [kept[0], "--shard", f"{number}/{count}", *kept[1:]]


def _start(number: int, count: int) -> "subprocess.Popen[str]":
    words = shard_words(command_words(), number, count)
    return subprocess.Popen(  # noqa: S603 - our own command, in words that no shell reads
        [sys.executable, "-m", "harness", *words],
        env=os.environ | {PROCESSES: str(count)},
        stdin=subprocess.PIPE,  # it is told once to begin; its end is that of this process
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="backslashreplace",
        start_new_session=True,  # Ctrl-C comes from here, once
    )


def _read(child: "subprocess.Popen[str]", number: int, told: "SimpleQueue[_Told]") -> None:
    with child:  # closes its streams
        for line in child.stderr or ():
            told.put((number, line.rstrip("\n")))
    told.put((number, None))


def _tell_end(number: int, count: int, code: int) -> None:
    if code < 0:
        name = signal.Signals(-code).name if -code in [*signal.Signals] else f"signal {-code}"
        log(f"process {number} of {count}: ended by {name}; its calls are made when the others end")
    elif code > 1:
        bound = ", as far as a budget allows it" if code == ExitCode.INTERRUPTED else ""
        log(f"process {number} of {count}: ended with code {code}; this one tries its calls{bound}")


def _stop(children: "Sequence[subprocess.Popen[str]]") -> None:
    """End what still runs; each stores its finished calls first."""
    running = [child for child in children if child.poll() is None]
    for child in running:
        with suppress(OSError):
            child.send_signal(signal.SIGINT)
    for child in running:
        try:
            child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def end_with_parent() -> None:
    """In a child: hear when to begin, and be interrupted when the parent is gone.

    So no call is made for nobody.
    """
    if not is_child():
        return

    def wait() -> None:
        with suppress(OSError, ValueError):
            # Not through a buffer, whose lock would outlive the interpreter.
            while os.read(0, len(GO)) == GO:
                _begun.set()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()


def wait_to_begin() -> None:
    """In a child: wait until the parent, too, has found all in order."""
    if is_child():
        _begun.wait()


class _Sums:
    """The progress of all children in one line: of the first stage that some have not ended."""

    def __init__(self, line: ProgressLine) -> None:
        self._line = line
        self._stages: dict[str, dict[int, tuple[int, int, int, float | None]]] = {}
        self._named: dict[str, tuple[str, Stage | str]] = {}
        self._shown: tuple[str, int, int] | None = None

    def add(self, number: int, text: str) -> None:
        """Take the numbers that a child has told."""
        with suppress(ValueError, TypeError, KeyError):
            told = json.loads(text)
            stage = told["stage"]
            named = stage if isinstance(stage, str) else Stage(*stage)
            key = f"{told['run']}{named}"
            self._named[key] = told["run"], named
            self._stages.setdefault(key, {})[number] = tuple(told["counts"])
            self._show()

    def end(self, number: int) -> None:
        """Leave out what a child has not ended: it goes on no more."""
        for parts in self._stages.values():
            if number in parts and parts[number][0] < parts[number][1]:
                del parts[number]

    def _show(self) -> None:
        for key, parts in self._stages.items():
            columns = zip(*(part[:3] for part in parts.values()), strict=True)
            done, total, failed = (sum(column) for column in columns)
            if done < total or key == next(reversed(self._stages)):
                if self._shown == (key, done, total):
                    return
                self._shown = key, done, total
                costs = [part[3] for part in parts.values() if part[3] is not None]
                run, stage = self._named[key]
                self._line.of(run)
                self._line(stage, done, total, failed, sum(costs) if costs else None)
                return
