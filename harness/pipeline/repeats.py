"""Unchanged runs, recognised by digests of what made them and of what they wrote.

What is recorded holds for one machine, so it lies outside the run folders.
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
from harness.parts import NO_REPLY, Reason, digest
from harness.storage.files import sum_of, write_whole
from harness.storage.ledger_index import segments
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import SUMS, RunFolder

_log = logging.getLogger(__name__)
Segment = tuple[str, int, str]
"""A file of stored calls: its name, its size in bytes and a digest of its last bytes."""
TAIL = 4096  # bytes at the end of a segment


class Repeat(msgspec.Struct, frozen=True):
    """What a run was made of, and what it wrote.

    `inputs` has a digest for each judge, and one for all under "". `wrote` is the sha256 of the
    run's list of sums, `retried` the ways of retrying that would make calls, `truncated` the number
    of answers cut at their token limit, `program` the digest of what read the replies.
    """

    inputs: Mapping[str, str]
    ledgers: Mapping[str, list[Segment]]
    wrote: str
    retried: frozenset[str]
    truncated: int
    program: str


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
    reasons = set[Reason | None]()
    for record in records:
        reasons |= {step.reason for step in record.steps}
        for verdict in (one for one in record.verdicts.values() if one.keys):
            # A verdict may have a value although some of its replies are missing.
            is_partial = verdict.reason is None and verdict.replies.count(None) > 0
            is_lost = is_partial and verdict.replies.count(None) < len(verdict.replies)
            reasons.add(Reason.FAILED if is_lost else verdict.reason)
    if reasons & NO_REPLY:
        return {"all", "failed"}
    return {"all"} if reasons - {None} else set()


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
    inputs: Mapping[str, str],
    before: Mapping[str, list[Segment]],
    *,
    retried: Iterable[str],
    truncated: int,
) -> None:
    """Record what a run was made of, unless another process added calls since `before`.

    Its reply may be the one that counts. The run is whole also where this cannot be written.
    """
    now = stored_segments(folder.path.parents[3], before)
    path = _record_of(folder)
    added = {name for model, own in now.items() for name, *_ in set(own) - set(before[model])}
    try:
        if any(not name.endswith(f"-{os.getpid()}.jsonl") for name in added):
            path.unlink(missing_ok=True)
            return
        wrote = sum_of(folder.path / SUMS)
        found = Repeat(inputs, now, wrote, frozenset(retried), truncated, program_digest())
        write_whole(path, msgspec.json.encode(found) + b"\n")
    except (OSError, StoreError) as error:
        why = str(error).partition(";")[0]
        _log.warning("%s; the run is whole, and a repeat goes through it again", why)


def records_of(runs: Path) -> Path:
    """The folder of what is recorded of the runs of a task and a model."""
    return runs.parents[2] / "repeats" / runs.parent.name / runs.name


def _record_of(folder: RunFolder) -> Path:
    return records_of(folder.path.parent) / f"{folder.path.name}.json"


def _read(path: Path) -> Repeat:
    return msgspec.json.decode(path.read_bytes(), type=Repeat)


def recognised(
    runs: Path, inputs: Mapping[str, str], retry: str
) -> tuple[RunFolder, Repeat] | None:
    """The run that is unchanged and made of `inputs`, or None; `retry` as of --retry."""
    for path in sorted(records_of(runs).glob("*.json")):
        folder = RunFolder(runs / path.stem)
        with suppress(OSError, msgspec.MsgspecError, StoreError):
            known = _read(path)
            is_made_so = inputs.items() <= dict(known.inputs).items() and retry not in known.retried
            if is_made_so and _is_unchanged(folder, known):
                return folder, known
    return None


def is_read_by_this_program(folder: RunFolder) -> bool:
    """Whether a run, its stored calls and the program's source are as when it was written."""
    with suppress(OSError, msgspec.MsgspecError, StoreError):
        known = _read(_record_of(folder))
        return known.program == program_digest() and _is_unchanged(folder, known)
    return False


def _is_unchanged(folder: RunFolder, known: Repeat) -> bool:
    for model, before in known.ledgers.items():
        found = segments(folder.path.parents[3] / "calls" / model)
        # Of two replies to one key the first stored counts: what was added since changes no run
        # that has all of its replies.
        began = [_segment(path, size) for path, (_, size, _) in zip(found, before, strict=False)]
        is_begun = bool(before) and began == before
        if [*map(_segment, found)] != before and (known.retried or not is_begun):
            return False
    return sum_of(folder.path / SUMS) == known.wrote and not folder.changed()
