"""Unchanged runs: what a run was made of and what it wrote, in a file of its own.

If nothing changed since a run, its stored scores are shown, and no sample is read. Whatever
differs, or is not known, makes the repeat an ordinary one: data, templates, task, model, judges,
code and packages by digest, the ledgers by the sizes and times of their segments, and what was
written by its sha256.
"""

import logging
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import msgspec

import harness
from harness import __version__
from harness.errors import StoreError
from harness.parts import NO_REPLY, digest
from harness.storage.files import sum_of, write_whole
from harness.storage.ledger_index import segments
from harness.storage.runs import NAMES, SUMS, RunFolder, SampleRecord

_log = logging.getLogger(__name__)
PLACE = "manifests"
"""The folder of manifests, below the results: what they say holds for this machine alone."""
Segment = tuple[str, int, int]
"""A segment of a ledger: its name, its size, and when it was changed, in ns since 1970."""
_WARNERS = ("harness.data", "harness.pipeline.resolve", "harness.pipeline.setup")
"""The modules whose warnings of a run's samples and words are shown again."""


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What a run is made of, but for its ledgers: a digest of all its judges share, and of each."""

    shared: str
    judges: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a run was made of, and what it wrote.

    `ledgers` has the segments of each model, `outputs` the sha256 by the place below the results.
    `asked_again` are the ways of retrying that would make calls. `warnings` are those of its
    samples and words.
    """

    inputs: RunInputs
    ledgers: Mapping[str, tuple[Segment, ...]]
    asked_again: tuple[str, ...]
    truncated: int
    warnings: tuple[str, ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Unanswered:
    """The ways of retrying that would ask again what some records lack."""

    ways: set[str] = field(default_factory=set)

    def add(self, records: Iterable[SampleRecord]) -> None:
        """Look at further records."""
        for record in records:
            for step in record.steps:
                if step.reason is not None:
                    self.ways |= {"all", "failed"} if step.reason in NO_REPLY else {"all"}
            for verdict in record.verdicts.values():
                lost = verdict.replies.count(None)
                if verdict.keys and (verdict.reason or 0 < lost < len(verdict.replies)):
                    is_call = verdict.reason is None or verdict.reason in NO_REPLY
                    self.ways |= {"all", "failed"} if is_call else {"all"}


def shared_digest(*parts: object) -> str:
    """The digest of what all judges of a run share, with the code and packages that make it."""
    return digest((*parts, __version__, _code(), _packages()))


@cache
def _code() -> str:
    """The digest of the program's own source."""
    root = Path(harness.__file__).parent
    return digest(
        [(str(path.relative_to(root)), sum_of(path)) for path in sorted(root.rglob("*.py"))]
    )


@cache
def _packages() -> tuple[str, ...]:
    """Python, the machine, and the names and versions of what is installed, as its folders say."""
    places = [Path(place) for place in dict.fromkeys(sys.path) if Path(place).is_dir()]
    found = {part.name for place in places for part in place.iterdir()}
    known = sorted(name for name in found if name.endswith((".dist-info", ".egg-info")))
    return (platform.python_version(), platform.machine(), *known)


def ledgers_of(results: Path, names: Iterable[str]) -> dict[str, tuple[Segment, ...]]:
    """The segments of the ledgers of some models, as they stand."""
    return {
        name: tuple(
            (path.name, found.st_size, found.st_mtime_ns)
            for path in segments(results / "calls" / name)
            for found in [path.stat()]
        )
        for name in names
    }


def note(
    results: Path,
    folder: RunFolder,
    manifest: Manifest,
    *,
    before: Mapping[str, tuple[Segment, ...]],
    listed: Iterable[Path] = (),
) -> None:
    """Write the manifest of a run, unless another process added to its ledgers since.

    `before` is how the ledgers stood before the run; its own segments, by their names, are new.
    `listed` are files that it may have written elsewhere below the results. The run is whole:
    if this cannot be written, a warning says so.
    """
    path = _place(results, folder.path)
    own = [folder.path / name for name in (*NAMES, SUMS)]
    try:
        if _of_others(before) != _of_others(manifest.ledgers):
            path.unlink(missing_ok=True)
            return
        files = [file for file in (*own, *listed) if file.is_file()]
        outputs = {str(file.relative_to(results)): sum_of(file) for file in files}
        write_whole(path, msgspec.json.encode(replace(manifest, outputs=outputs)) + b"\n")
    except (OSError, StoreError) as error:
        why = str(error).partition(";")[0]
        _log.warning("%s; the run is whole, and a repeat goes through it again", why)


def renew(folders: Iterable[RunFolder]) -> None:
    """Note how the ledgers stand after later runs of this process, which added to them.

    Not for a run without all answers: a later one may have got one of these.
    """
    for folder in folders:
        results = folder.path.parents[3]
        path = _place(results, folder.path)
        with suppress(OSError, msgspec.MsgspecError, StoreError):
            manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
            now = ledgers_of(results, manifest.ledgers)
            is_own = _of_others(now) == _of_others(manifest.ledgers)
            if is_own and now != manifest.ledgers and not manifest.asked_again:
                write_whole(path, msgspec.json.encode(replace(manifest, ledgers=now)) + b"\n")


def _of_others(ledgers: Mapping[str, tuple[Segment, ...]]) -> dict[str, list[Segment]]:
    """The segments that other processes wrote."""
    own = f"-{os.getpid()}.jsonl"
    return {name: [o for o in found if not o[0].endswith(own)] for name, found in ledgers.items()}


def recognised(
    results: Path, runs: Path, inputs: RunInputs, retry: str
) -> tuple[RunFolder, Manifest] | None:
    """The unchanged one of some runs of these inputs; None if there is none.

    `runs` is the folder of a task and a model. `retry` says which stored failures are asked again.
    """
    for path in manifests_of(results, runs):
        folder = runs / path.stem
        with suppress(OSError, msgspec.MsgspecError, StoreError):
            manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
            is_same = manifest.inputs.shared == inputs.shared
            is_judged = inputs.judges.items() <= dict(manifest.inputs.judges).items()
            is_final = retry not in manifest.asked_again
            if is_same and is_judged and is_final and _is_unchanged(results, manifest):
                return RunFolder(folder), manifest
    return None


def manifests_of(results: Path, runs: Path) -> list[Path]:
    """The manifests of the runs of a task and a model."""
    return sorted(_place(results, runs / "any").parent.glob("*.json"))


@dataclass(frozen=True, slots=True)
class PlanManifest:
    """What a plan wrote: the sums of its runs' manifests, with their tags, and of its files.

    `spent_usd` is what its calls cost when it was written; None without a budget.
    """

    runs: Mapping[str, str]
    outputs: Mapping[str, str]
    spent_usd: float | None = None


def write_plan_manifest(
    results: Path,
    name: str,
    folders: Iterable[RunFolder],
    files: Iterable[Path],
    *,
    spent_usd: float | None,
) -> None:
    """Write of a plan what it wrote, if all of its runs have a manifest."""
    path = results / PLACE / "plans" / f"{name}.json"
    with suppress(OSError, StoreError):
        path.unlink(missing_ok=True)
        outputs = {str(file.relative_to(results)): sum_of(file) for file in files}
        stored = PlanManifest(_sums(results, folders), outputs, spent_usd)
        write_whole(path, msgspec.json.encode(stored) + b"\n")


def recognised_plan(results: Path, name: str, folders: Iterable[RunFolder]) -> PlanManifest | None:
    """What was stored of a plan of these runs, if it is as it was written; else None."""
    path = results / PLACE / "plans" / f"{name}.json"
    with suppress(OSError, msgspec.MsgspecError, StoreError):
        stored = msgspec.json.decode(path.read_bytes(), type=PlanManifest)
        is_same = all(sum_of(results / file) == known for file, known in stored.outputs.items())
        return stored if is_same and stored.runs == _sums(results, folders) else None
    return None


def _sums(results: Path, folders: Iterable[RunFolder]) -> dict[str, str]:
    """The sum of each run's manifest, with its tag, which pages show."""
    each = ((_place(results, folder.path), folder.tag or "") for folder in folders)
    return {str(place.relative_to(results)): f"{sum_of(place)} {tag}" for place, tag in each}


def _place(results: Path, run: Path) -> Path:
    task, model, digest_of = run.parts[-3:]
    return results / PLACE / task / model / f"{digest_of}.json"


def _is_unchanged(results: Path, manifest: Manifest) -> bool:
    if ledgers_of(results, manifest.ledgers) != dict(manifest.ledgers):
        return False
    return all(sum_of(results / name) == known for name, known in manifest.outputs.items())


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the warnings of samples and words that are given meanwhile."""
    collected: list[str] = []
    handler = _Collector(collected)
    root = logging.getLogger("harness")
    root.addHandler(handler)
    try:
        yield collected
    finally:
        root.removeHandler(handler)


class _Collector(logging.Handler):
    def __init__(self, collected: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._collected = collected

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(_WARNERS):
            self._collected.append(record.getMessage())


def warn_again(warnings: Sequence[str]) -> None:
    """Give the warnings of a run that is not carried out again."""
    for words in warnings:
        _log.warning("%s", words)
