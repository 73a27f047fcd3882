"""Run folders: run.json, samples.jsonl and scores.csv of one run, written whole or not at all.

Everything here can be rebuilt from the calls ledger, and equal inputs give equal bytes: no
clock, no host, no order of arrival. A file that was changed since it was written is not believed.
"""

import csv
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from io import StringIO
from pathlib import Path

import msgspec

from harness.core import Run, Sample, Score
from harness.errors import StoreError
from harness.parts import ChoiceScore, Message, Reason, UnbatchedCheck, Usage, possible
from harness.specs.tasks import TaskSpec
from harness.storage.cells import csv_text, finite, formula_text, long_cells
from harness.storage.files import refuse_unwritable, write_whole
from harness.storage.rebuilt import (
    blocks_of,
    decoded,
    found_sum,
    is_outside,
    lines_in,
    read_bytes,
    refused,
    say_unchecked,
)
from harness.storage.signature import Signature, clean_signature
from harness.storage.spool import Spool

RUN, SAMPLES, SCORES, SUMS = "run.json", "samples.jsonl", "scores.csv", "SHA256SUMS"
NAMES = (SAMPLES, RUN, SCORES)
_ENCODER = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """The model under test, as it was resolved."""

    name: str
    kind: str
    identity: str
    revision: str | None


@dataclass(frozen=True, slots=True)
class JudgeEntry:
    """A judge that has read this run; `asks` and `identity` name its judge model, if it asks.

    `step` is the earlier step whose responses it reads, None for the last one's. `chance` is what
    a judge says a blind answer gets from it, None where one of your own says nothing; UNSET for
    those of the program that leave it to the task, and in files of earlier versions.
    """

    name: str
    metric: str
    recipe: str
    asks: str | None = None
    identity: str | None = None
    step: str | None = None
    chance: float | msgspec.UnsetType | None = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class DataEntry:
    """Where the samples came from; `label` stands in signatures, `files` maps names to sha256.

    `mode` is released, corrected, or sample for our own sample set. `is_training_known` says
    whether the scorer of implicitness says which texts it was trained on; None without one.
    """

    source: str
    mode: str
    label: str
    files: Mapping[str, str]
    is_training_known: bool | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """The tokens and US dollars of some calls, each once; None where one does not report them.

    `told` has the sums over those that report them, the least that it was. `unanswered` counts
    further calls that broke off without an answer: nobody knows what they cost.
    """

    calls: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    told: Usage
    unanswered: int = 0

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "completion_tokens", "cost_usd"):
            object.__setattr__(self, name, possible(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Costs:
    """What the calls of a run cost, whenever they were made: all, the answers', each judge's.

    A call that two judges share counts for each of them, and once in the total.
    """

    total: Cost
    answers: Cost
    judges: Mapping[str, Cost]


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """An error of calls without an answer, and how many had it."""

    message: str
    count: int


@dataclass(frozen=True, slots=True)
class MissingCount:
    """What is missing, why, how often, and the commonest errors of the calls behind it.

    `judge` is empty where there is no answer, for any judge; `is_reply` says that the judge asked
    and cannot read the reply. `said` is empty where a model's own words are the reason.
    """

    judge: str
    is_reply: bool
    reason: Reason
    count: int
    said: tuple[ErrorCount, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFile:
    """run.json: what was run, resolved, how much of it was planned, and what it cost.

    `redrawn` counts replies without an answer that were asked for again. In earlier files `missing`
    is None, and `packages`, the versions, empty. `unbatched_check` is UNSET where none was made.
    """

    digest: str
    run: Run
    task: TaskSpec
    model: ModelEntry
    data: DataEntry
    variants: Mapping[str, str]
    samples: int
    planned: int
    chance: float | None
    version: str
    judges: tuple[JudgeEntry, ...] = ()
    costs: Costs | None = None
    redrawn: int = 0
    missing: tuple[MissingCount, ...] | None = None
    unbatched_check: UnbatchedCheck | msgspec.UnsetType = msgspec.UNSET
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of a response: its key in the ledger, the prompt, what came as it came, its cost."""

    step: str
    key: str
    messages: tuple[Message, ...]
    text: str | None = None
    reason: Reason | None = None
    note: str = ""
    stop: str | None = None
    choice_scores: tuple[ChoiceScore, ...] = ()
    usage: Usage = field(default_factory=Usage)
    detail: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VerdictRecord:
    """One judge's verdict, with the keys of what it asked, the replies it read and their cost."""

    value: float | None
    reason: Reason | None = None
    note: str = ""
    detail: Mapping[str, float] = field(default_factory=dict)
    shares: tuple[float, ...] = ()
    served: str | None = None
    keys: tuple[str, ...] = ()
    replies: tuple[str | None, ...] = ()
    usages: tuple[Usage, ...] = ()


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One line of samples.jsonl: a sample, what was asked, what came back, how it was read.

    `answer` is a text, or the answer of the likeliest choice.
    """

    sample: Sample
    variant: str
    decoding: str
    steps: tuple[StepRecord, ...]
    answer: str | None
    served: str | None = None
    verdicts: Mapping[str, VerdictRecord] = field(default_factory=dict)


COLUMNS = (
    *("task", "model", "variant", "decoding", "group", "judge", "metric"),
    *("value", "low", "high", "n", "clusters"),
    *(f"missing_{reason}" for reason in Reason),
    *("chance", "cost_usd", "signature"),
)


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A score, the signature of how it was made, and the cost of the calls behind it.

    `cost_usd` counts each call once; it is None where the cost of one of them is unknown.
    """

    task: str
    model: str
    score: Score
    chance: float | None
    cost_usd: float | None
    signature: str

    @property
    def recipe(self) -> str:
        """The signature without the model: only rows of one recipe are ranked together."""
        return self.parsed.without("model")

    @property
    def parsed(self) -> Signature:
        """The signature by its fields."""
        return Signature.parse(self.signature)


def table_text(rows: Iterable[ScoreRow]) -> str:
    """Rows as CSV, with floats in full precision and None as an empty cell."""
    return csv_text(COLUMNS, map(cells_of, rows))


def read_table(path: Path) -> list[ScoreRow]:
    """The rows of a table that `table_text` wrote."""
    return _rows_of(read_bytes(path), path)


def _rows_of(data: bytes, path: Path) -> list[ScoreRow]:
    try:
        with long_cells(len(data)):
            table = csv.DictReader(StringIO(data.decode(), newline=""))
            if absent := [name for name in COLUMNS if name not in (table.fieldnames or ())]:
                raise ValueError(f"no column {absent[0]!r}")
            return [_row(cells) for cells in table]
    except (ValueError, TypeError, csv.Error) as error:
        raise refused(f"{path}: not a table of scores ({error})") from error


def cells_of(row: ScoreRow) -> list[object]:
    """The cells of a row, in the order of COLUMNS."""
    score = row.score
    return [
        *(row.task, row.model, score.variant, score.decoding, score.group),
        *(score.judge, score.metric, score.value, score.low, score.high),
        *(score.n, score.clusters, *(score.missing.get(reason, 0) for reason in Reason)),
        *(row.chance, row.cost_usd, row.signature),
    ]


def _row(cells: dict[str, str]) -> ScoreRow:
    score = Score(
        *(cells["judge"], cells["variant"], cells["decoding"], formula_text(cells["group"])),
        *(cells["metric"], finite(cells["value"]), finite(cells["low"]), finite(cells["high"])),
        *(int(cells["n"]), int(cells["clusters"])),
        missing={reason: int(cells[f"missing_{reason}"]) for reason in Reason},
    )
    chance, cost = finite(cells["chance"]), finite(cells["cost_usd"])
    signature = clean_signature(cells["signature"])
    return ScoreRow(cells["task"], cells["model"], score, chance, cost, signature)


class RunFolder:
    """The three files of one run, and SHA256SUMS, with what each of them was when it was written.

    Reading a changed file raises StoreError; of an earlier version, without sums, it only warns.
    """

    def __init__(self, path: Path) -> None:
        """Use the files in `path`, which need not exist yet."""
        self.path = path

    @property
    def scores(self) -> Path:
        """Where the scores of this run lie."""
        return self.path / SCORES

    @property
    def items(self) -> Path:
        """Where the flat table of the answers of this run lies."""
        return self.path / "items.csv"

    def results(self, given: Path) -> Path:
        """The results folder this run lies below, by its place; the given one where that fits."""
        path = self.path.resolve()
        is_below = given.resolve() in path.parents
        is_placed = len(path.parents) > 3 and path.parents[2].name == "runs"
        return path.parents[3] if is_placed and not is_below else given

    @property
    def place(self) -> str:
        """The task and the model, as a name has them: TASK/MODEL."""
        return "/".join(self.path.parts[-3:-1])

    @property
    def written(self) -> float:
        """When run.json was written, in seconds since 1970; 0 where there is none."""
        path = self.path / "run.json"
        return path.stat().st_mtime if path.is_file() else 0.0

    @property
    def tag(self) -> str | None:
        """The name that somebody gave this run; no digest depends on it. None without one."""
        path = self.path / "tag"
        return path.read_text("utf-8", "replace").strip() or None if path.is_file() else None

    def write_tag(self, tag: str) -> None:
        """Give this run a name in place of any that it has."""
        write_whole(self.path / "tag", f"{tag}\n".encode())

    def is_called(self, tail: str) -> bool:
        """Whether a tag or the beginning of a digest is this run's; an empty one is any run's."""
        return tail == self.tag or self.path.name.startswith(tail)

    def read(self) -> RunFile:
        """What was run."""
        data = read_bytes(path := self.path / RUN)
        file = decoded(data, RunFile, where=str(path))
        self.check_sum(RUN, sha256(data).hexdigest())
        return file

    def read_rows(self, *, is_checked: bool = True) -> list[SampleRecord]:
        """What was asked, answered and judged, in the order of the plan.

        Unless `is_checked`, it may have been changed since it was written.
        """
        return list(StoredRows(self, is_checked=is_checked))

    def read_scores(self) -> list[ScoreRow]:
        """The scores of every judge; none where no judge has read the run yet."""
        if not self.scores.exists() and SCORES not in (self._sums() or ()):
            return []
        rows = _rows_of(data := read_bytes(self.scores), self.scores)
        self.check_sum(SCORES, sha256(data).hexdigest())
        for odd in filter(is_outside, [r.score for r in rows] if self._sums() is None else ()):
            raise refused(f"{self.scores}: {odd.metric} is outside its interval")
        return rows

    def changed(self) -> list[str]:
        """The files that are not as they were written; none where that is not known."""
        sums = self._sums() or {}
        return [name for name, known in sums.items() if found_sum(self.path / name) != known]

    def judges_before(self) -> tuple[JudgeEntry, ...]:
        """The judges that a run names which need not be whole; none where it cannot be read."""
        with suppress(StoreError):
            return decoded(read_bytes(self.path / RUN), RunFile, where="").judges
        return ()

    def check_sum(self, name: str, found: str) -> None:
        """Raise StoreError unless a file had this sha256 when it was written."""
        sums = self._sums()
        if sums is None:
            say_unchecked(SUMS, str(self.path.parent.parent.parent))
        elif sums.get(name) != found:
            fact = f"changed since it was written (see {SUMS} beside it)"
            if not (self.path / SUMS).exists():
                fact = f"no {SUMS} beside it, which its version wrote: it may have been changed"
            raise refused(f"{self.path / name}: {fact}")

    def _sums(self) -> dict[str, str] | None:
        """The sha256 of each file as it was written; None in a folder of an earlier version."""
        path = self.path / SUMS
        if not path.exists():
            return None if self._is_earlier() else dict.fromkeys(NAMES, "gone")
        text = read_bytes(path).decode("utf-8", "replace")
        pairs = [line.split("  ") for line in text.splitlines()]
        sums = {pair[1]: pair[0] for pair in pairs if len(pair) == 2}
        return sums if {RUN, SAMPLES} <= set(sums) <= {*NAMES} else dict.fromkeys(NAMES, "damaged")

    def _is_earlier(self) -> bool:
        """Whether version 0.1 wrote the run, or no run.json is there."""
        with suppress(StoreError):
            found = decoded(read_bytes(self.path / RUN), dict[str, object], where="")
            return str(found.get("version")).startswith("0.1.")
        return not (self.path / RUN).exists()

    def check(self) -> None:
        """Raise StoreError, before a call is paid for, where the run cannot be written."""
        refuse_unwritable(self.path, (*NAMES, SUMS))

    def write(
        self, run: RunFile, rows: Sequence[SampleRecord], scores: Sequence[ScoreRow] | None = None
    ) -> None:
        """Replace run.json and samples.jsonl, and scores.csv where there are scores."""
        lines = Spool(self.path)
        lines.add(lines_of(rows))
        self.put(run, lines, scores)

    def put(self, run: RunFile, lines: Spool, scores: Sequence[ScoreRow] | None = None) -> None:
        """Replace them; `lines` are those of samples.jsonl."""
        files = {RUN: msgspec.json.format(_ENCODER.encode(run), indent=2) + b"\n"}
        files |= {} if scores is None else {SCORES: table_text(scores).encode()}
        write_whole(self.path / SAMPLES, lines.blocks())
        for name, data in files.items():
            write_whole(self.path / name, data)
        sums = {name: sha256(data).hexdigest() for name, data in files.items()}
        sums[SAMPLES] = lines.digest
        text = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
        write_whole(self.path / SUMS, text.encode())

    def remove(self) -> None:
        """Remove the files of this run, and the folder where it has no others."""
        for name in (*NAMES, SUMS, self.items.name, "tag", "data_paths.json"):
            (self.path / name).unlink(missing_ok=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()


def lines_of(rows: Iterable[SampleRecord]) -> bytes:
    """The lines of samples.jsonl for some records."""
    return b"".join(_ENCODER.encode(row) + b"\n" for row in rows)


class StoredRows(Iterable[SampleRecord]):
    """The records of a run folder, decoded one by one each time they are gone through."""

    def __init__(self, folder: RunFolder, *, is_checked: bool = True) -> None:
        """Check the file first, which StoreError tells of; without that, damage is told later."""
        self._path, self._count, found, block = folder.path / SAMPLES, 0, sha256(), b"\n"
        for block in blocks_of(self._path):
            found.update(block)
            self._count += block.count(b"\n")
        self._count += not block.endswith(b"\n")
        is_known = not is_checked or (folder.path / SUMS).exists()
        try:
            if is_checked:
                folder.check_sum(SAMPLES, found.hexdigest())
        except StoreError:
            is_known = False
            raise
        finally:
            deque(() if is_known else self, maxlen=0)  # a damaged line is told of first

    @classmethod
    def whole(cls, folder: RunFolder, *, is_checked: bool = True) -> "StoredRows":
        """The records; StoreError where a response that was planned is not there."""
        file, rows = folder.read(), cls(folder, is_checked=is_checked)
        if len(rows) != file.planned:
            fact = f"{len(rows)} of {file.planned} planned responses"
            raise refused(f"{folder.path / SAMPLES}: {fact}")
        return rows

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[SampleRecord]:
        for number, line in enumerate(lines_in(self._path), 1):
            yield decoded(line, SampleRecord, where=f"{self._path}:{number}")


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What was run, and its records: one for each sample, variant and decoding."""

    file: RunFile
    rows: Sequence[SampleRecord]

    @classmethod
    def read(cls, folder: RunFolder) -> "StoredRun":
        """The run of a folder."""
        return cls(folder.read(), folder.read_rows())

    @classmethod
    def read_all(cls, folder: RunFolder, *, is_checked: bool = True) -> "StoredRun":
        """The run of a folder; StoreError where a response that was planned is not there."""
        rows = list(StoredRows.whole(folder, is_checked=is_checked))
        return cls(folder.read(), rows)

    @property
    def by_group(self) -> bool:
        """Whether the samples' groups are the systems, which the run's model judges."""
        return self.file.task.unit.system == "group"
