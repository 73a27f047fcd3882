"""Unchanged runs, recognised by digests of what made them and of what they wrote.

No sample is read for it. Anything that differs, or is not known, makes a repeat an ordinary run,
which reads the ledger. What is recorded holds for one machine, so it lies outside the run folders.
"""

import logging
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

import harness
from harness import __version__
from harness.errors import StoreError
from harness.parts import NO_REPLY, digest
from harness.storage.files import sum_of, write_whole
from harness.storage.ledger_index import segments
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import SUMS, RunFolder

_log = logging.getLogger(__name__)
PLACE = "repeats"
"""The folder of what is recorded, below the results."""
Segment = tuple[str, int, str]
"""A file of stored calls: its name, its size in bytes and a digest of its last bytes."""
TAIL = 4096
"""Bytes at the end of a segment, which move when something is put before them."""


class Repeat(msgspec.Struct, frozen=True):
    """What a run was made of, and what it wrote.

    `inputs` has a digest for each judge, and one for all under "". `wrote` is the sha256 of the
    run's list of sums, `retried` the ways of retrying that would make calls, `truncated` the number
    of answers cut at their token limit, `program` the digest of the source that read the replies.
    """

    inputs: Mapping[str, str]
    ledgers: Mapping[str, list[Segment]]
    wrote: str
    retried: frozenset[str]
    truncated: int
    program: str = ""


def program_digest(*parts: object) -> str:
    """A digest of some parts with the program's own source and the packages that are installed."""
    return digest((*parts, __version__, *_program()))


@cache
def _program() -> tuple[object, ...]:
    root = Path(harness.__file__).parent
    code = [(str(path.relative_to(root)), sum_of(path)) for path in sorted(root.rglob("*.py"))]
    places = [Path(place) for place in dict.fromkeys(sys.path) if Path(place).is_dir()]
    found = {part.name for place in places for part in place.iterdir()}
    known = sorted(name for name in found if name.endswith((".dist-info", ".egg-info")))
    return (code, platform.python_version(), platform.machine(), known)


def retried_ways(records: Iterable[SampleRecord]) -> set[str]:
    """The ways of retrying, `all` and `failed`, that would ask again for some of these records."""
    ways = set[str]()
    for record in records:
        asked = [verdict for verdict in record.verdicts.values() if verdict.keys]
        reasons = {step.reason for step in record.steps} | {verdict.reason for verdict in asked}
        # A verdict may have a value although some of its replies are missing.
        known = [verdict.replies for verdict in asked if verdict.reason is None]
        is_partial = any(0 < replies.count(None) < len(replies) for replies in known)
        if is_partial or reasons & NO_REPLY:
            ways |= {"all", "failed"}
        elif reasons - {None}:
            ways |= {"all"}
    return ways


def stored_segments(results: Path, models: Iterable[str]) -> dict[str, list[Segment]]:
    """The segments of some models' ledgers as they are now."""
    return {model: [*map(_segment, segments(results / "calls" / model))] for model in models}


def _segment(path: Path, size: int | None = None) -> Segment:
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END) if size is None else size
        file.seek(max(end - TAIL, 0))
        return path.name, end, digest(file.read(min(end, TAIL)).hex())


def record(
    folder: RunFolder,
    plan_inputs: Mapping[str, str],
    before: Mapping[str, list[Segment]],
    *,
    retried: Iterable[str],
    truncated: int,
) -> None:
    """Record what a run was made of; the run is whole also where this cannot be written.

    `before` are the segments as the run began. Where another process added to one meanwhile,
    nothing is recorded: it may have stored the reply that counts first.
    """
    now, path = stored_segments(folder.path.parents[3], before), _place(folder)
    added = {name for model, own in now.items() for name, *_ in set(own) - set(before[model])}
    try:
        if any(not name.endswith(f"-{os.getpid()}.jsonl") for name in added):
            path.unlink(missing_ok=True)
            return
        wrote = sum_of(folder.path / SUMS)
        found = Repeat(plan_inputs, now, wrote, frozenset(retried), truncated, program_digest())
        write_whole(path, msgspec.json.encode(found) + b"\n")
    except (OSError, StoreError) as error:
        why = str(error).partition(";")[0]
        _log.warning("%s; the run is whole, and a repeat goes through it again", why)


def recognised(
    runs: Path, inputs: Mapping[str, str], retry: str
) -> tuple[RunFolder, Repeat] | None:
    """The one of a task's and a model's runs that is unchanged and made of `inputs`, or None.

    `retry` says which stored failures would be asked again.
    """
    for path in _records(runs):
        folder = RunFolder(runs / path.stem)
        with suppress(OSError, msgspec.MsgspecError, StoreError):
            known = msgspec.json.decode(path.read_bytes(), type=Repeat)
            is_made_so = inputs.items() <= dict(known.inputs).items() and retry not in known.retried
            if is_made_so and _is_unchanged(folder, known):
                return folder, known
    return None


def is_read_by_this_program(folder: RunFolder) -> bool:
    """Whether a run, its stored calls and the program's source are as when it was written."""
    with suppress(OSError, msgspec.MsgspecError, StoreError):
        known = msgspec.json.decode(_place(folder).read_bytes(), type=Repeat)
        return known.program == program_digest() and _is_unchanged(folder, known)
    return False


def has_any(runs: Path) -> bool:
    """Whether anything is recorded of the runs of a task and a model."""
    return bool(_records(runs))


def _is_unchanged(folder: RunFolder, known: Repeat) -> bool:
    for model, before in known.ledgers.items():
        found = segments(folder.path.parents[3] / "calls" / model)
        # Later runs only add calls. Of two replies to one key the first stored counts, so what
        # follows the last segment's end cannot change a run that has all of its replies.
        now = [*map(_segment, found)]
        began = [_segment(path, size) for path, (_, size, _) in zip(found, before, strict=False)]
        is_added_to = before and began == before and now[: len(before) - 1] == before[:-1]
        if now != before and (known.retried or not is_added_to):
            return False
    return sum_of(folder.path / SUMS) == known.wrote and not folder.changed()


def _place(folder: RunFolder) -> Path:
    results, (task, model, name) = folder.path.parents[3], folder.path.parts[-3:]
    return results / PLACE / task / model / f"{name}.json"


def _records(runs: Path) -> list[Path]:
    return sorted(_place(RunFolder(runs / "any")).parent.glob("*.json"))


def record_plan(
    results: Path, name: str, folders: Iterable[RunFolder], files: Iterable[Path]
) -> None:
    """Record the runs of a plan, with their tags, and the files made of them."""
    with suppress(OSError, StoreError):
        write_whole(_of_plan(results, name), _plan_digest(folders, files).encode())


def is_plan_unchanged(
    results: Path, name: str, folders: Iterable[RunFolder], files: Iterable[Path]
) -> bool:
    """Whether a plan's runs and the files made of them are as they were recorded."""
    with suppress(OSError, StoreError):
        return _of_plan(results, name).read_text("utf-8") == _plan_digest(folders, files)
    return False


def _of_plan(results: Path, name: str) -> Path:
    return results / PLACE / "plans" / f"{name}.json"


def _plan_digest(folders: Iterable[RunFolder], files: Iterable[Path]) -> str:
    runs = [(folder.place, sum_of(folder.path / SUMS), folder.tag) for folder in folders]
    return digest((runs, [sum_of(file) for file in files]))
