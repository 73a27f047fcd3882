"""Run folders: run.json, the tables and scores.csv of one run, written whole or not at all.

Equal inputs give equal bytes. A file that was changed since it was written is not believed.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import file_digest, sha256
from io import StringIO
from itertools import islice
from pathlib import Path
from re import fullmatch
from typing import TYPE_CHECKING, Any

import msgspec

from harness.core import Run, Score
from harness.errors import StoreError
from harness.lazy import Mask, numpy
from harness.parts import Reason, Usage, possible
from harness.specs.tasks import TaskSpec
from harness.storage import files
from harness.storage.cells import csv_text, finite, formula_text, long_cells
from harness.storage.files import refused, write_whole
from harness.storage.read_tables import check_table, places_of, read_records
from harness.storage.run_tables import RunTables, SampleRecord
from harness.storage.schema import STORED
from harness.storage.signature import Signature, clean_signature

if TYPE_CHECKING:
    from harness.storage.ledger import Ledger

RUN, SCORES, SUMS = "run.json", "scores.csv", "SHA256SUMS"
SAMPLES, ANSWERS, VERDICTS = (f"{table}.parquet" for table in STORED)
NAMES = (SAMPLES, ANSWERS, VERDICTS, RUN, SCORES)
EARLIER = (
    "an earlier version of the program wrote this run; the same command makes it again from the "
    "stored calls, without a call"
)
_CHUNK = 1_000
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

    `step` is the earlier step that it reads, None for the last one. `chance` is what a judge says a
    blind answer gets; None where one of your own says nothing, UNSET where the task says it.
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
    """Where the samples came from; `label` is that of signatures, `files` maps names to sha256.

    `mode` is released, corrected, changed (not as released) or sample. `is_training_known` says
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

    `reported` has the sums over those that do. `unanswered` counts calls that broke off.
    """

    calls: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    reported: Usage
    unanswered: int = 0

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "completion_tokens", "cost_usd"):
            object.__setattr__(self, name, possible(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Costs:
    """What the calls of a run cost: all, the answers', each judge's; shared ones for each."""

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

    `judge` is empty where there is no answer; `is_reply`: the judge cannot read the reply it got.
    """

    judge: str
    is_reply: bool
    reason: Reason
    count: int
    said: tuple[ErrorCount, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFile:
    """run.json: what was run, resolved, how much of it was planned, and what it cost.

    `redrawn` counts replies without an answer that were asked for again, `tables` has the digest of
    the values of each table. `written` has, where choices were scored, what `variants` would say
    had the answers been written: by it variants are known as the same, however models answer.
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
    packages: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)

    @property
    def fault(self) -> str | None:
        """The key that cannot be as it is, and why; None where nothing is amiss.

        Somebody else may have written it: its names become paths, and its variants keys.
        """
        run = self.run
        if not fullmatch("[0-9a-f]{64}", self.digest):
            return "`digest` is no sha256"
        for key in ("variants", "decodings"):
            if not getattr(run, key):
                return f"`run.{key}` is empty"
        if unknown := {*run.variants} - (self.task.variants.keys() & self.variants.keys()):
            return f"`run.variants` has {min(unknown)!r:.60}, which `task` has not"
        asked = {f"judges {one.name}": one.asks for one in self.judges if one.asks is not None}
        names = {"run.task": run.task, "model.name": self.model.name, "model.kind": self.model.kind}
        unfit = (key for key, name in (names | asked).items() if not files.is_part(name))
        return next((f"`{key}` is no name of a file" for key in unfit), None)


COLUMNS = (
    *("task", "model", "variant", "decoding", "group", "judge", "metric"),
    *("value", "low", "high", "n", "clusters"),
    *(f"missing_{reason}" for reason in Reason),
    *("chance", "cost_usd", "signature"),
)


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A score, its signature, and the cost of its calls, each once; None where one is unknown."""

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


def read_table(path: Path, text: str | None = None) -> list[ScoreRow]:
    """The rows of a table that `table_text` wrote, or of its text."""
    text = files.read_bytes(path).decode("utf-8", "replace") if text is None else text
    try:
        with long_cells(len(text)):
            table = csv.DictReader(StringIO(text, newline=""))
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
    """The files of one run, and SHA256SUMS; reading a changed file raises StoreError.

    `key` names it among others: the digest of the run.
    """

    def __init__(self, path: Path) -> None:
        """Use the files in `path`, which need not exist yet."""
        self.path, self.key = path, path.name
        self._before: dict[str, str] | None = None  # the sums at `check`

    @property
    def scores(self) -> Path:
        """Where the scores of this run lie."""
        return self.path / SCORES

    def results(self, given: Path) -> Path:
        """The results folder that this run is below; the given one where that fits."""
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
        path = self.path / RUN
        return path.stat().st_mtime if path.is_file() else 0.0

    @property
    def tag(self) -> str | None:
        """The name that somebody gave this run; no digest depends on it. None without one."""
        path = self.path / "tag"
        return path.read_text("utf-8", "replace").strip() or None if path.is_file() else None

    def write_tag(self, tag: str) -> None:
        """Give this run a name in place of any that it has."""
        write_whole(self.path / "tag", f"{tag}\n".encode())

    def read(self) -> RunFile:
        """What was run; StoreError for what an earlier version of the program wrote."""
        self._refuse_earlier()
        data = files.read_bytes(path := self.path / RUN)
        file = files.decoded(data, RunFile, where=str(path))
        self.check_sum(RUN, sha256(data).hexdigest())
        if fault := file.fault:
            raise refused(f"{path}: damaged ({fault})")
        return file

    @property
    def is_earlier(self) -> bool:
        """Whether an earlier version of the program wrote this run."""
        return (self.path / "samples.jsonl").exists() and not (self.path / ANSWERS).exists()

    def _refuse_earlier(self) -> None:
        if self.is_earlier:
            raise StoreError(f"{self.path}: {EARLIER}")

    def read_rows(self, *, with_prompts: bool = False) -> list[SampleRecord]:
        """What was asked, answered and judged, in the order of the plan."""
        return list(StoredRows(self, with_prompts=with_prompts))

    def tables(self) -> dict[str, Path]:
        """The file of each table; StoreError where one was changed since it was written."""
        for table in STORED:
            self.check_sum(f"{table}.parquet")
        return {table: self.path / f"{table}.parquet" for table in STORED}

    def read_scores(self) -> list[ScoreRow]:
        """The scores of every judge; none where no judge has read the run yet."""
        return read_table(self.scores, text) if (text := self.scores_text()) else []

    def scores_text(self) -> str:
        """The table of scores as it was written; empty where no judge has read the run yet."""
        if not self.scores.exists() and SCORES not in self._sums():
            return ""
        data = files.read_bytes(self.scores)
        self.check_sum(SCORES, sha256(data).hexdigest())
        return data.decode()

    def changed(self) -> list[str]:
        """The files that are not as they were written; none where there is no run."""
        sums = self._sums()
        return [name for name, known in sums.items() if files.found_sum(self.path / name) != known]

    def judges_before(self) -> tuple[JudgeEntry, ...]:
        """The judges that a changed run names; none where it cannot be read."""
        with suppress(StoreError):
            return files.decoded(files.read_bytes(self.path / RUN), RunFile, where="").judges
        return ()

    def check_sum(
        self, name: str, found: str | None = None, is_wanted: Callable[[str], bool] | None = None
    ) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Raise StoreError unless a file has the sha256 that it had when it was written.

        Returned are some columns of a table, as of `check_table`.
        """
        self._refuse_earlier()
        if self._sums().get(name) != (found or files.found_sum(self.path / name)):
            fact = f"changed since it was written (see {SUMS} in its folder)"
            if not (self.path / SUMS).exists():
                fact = f"no {SUMS} in its folder: it may have been changed"
            raise refused(f"{self.path / name}: {fact}")
        return self.check_table(self.path / name, is_wanted) if name.endswith(".parquet") else None

    def check_table(self, path: Path, is_wanted: Callable[[str], bool] | None = None) -> Any:  # noqa: ANN401
        """Some columns; StoreError unless a table is as its schema says: others may write it."""
        known = {"variant": self.read().run.variants, "reason": [*Reason]}
        return check_table(path, known, is_wanted)

    def _sums(self) -> dict[str, str]:
        """The sha256 of each file as it was written; none is right where the list is damaged."""
        path = self.path / SUMS
        if not path.exists():
            return dict.fromkeys(NAMES, "gone") if (self.path / RUN).exists() else {}
        text = files.read_bytes(path).decode("utf-8", "replace")
        pairs = [line.split("  ") for line in text.splitlines()]
        sums = {pair[1]: pair[0] for pair in pairs if len(pair) == 2}
        return sums if {RUN, ANSWERS} <= set(sums) <= {*NAMES} else dict.fromkeys(NAMES, "damaged")

    def check(self) -> None:
        """Raise StoreError, before a call is paid for, where the run cannot be written."""
        files.refuse_unwritable(self.path, (*NAMES, SUMS))
        self._before = self._sums()

    @contextmanager
    def held(self) -> Iterator[RunFile | None]:
        """Hold the folder, so that one at a time writes the run or reads all of it.

        Gives the run with scores that another process or thread wrote since `check`, or None.
        """
        with files.held(self.path):
            is_new = self._before is not None and self._before != (sums := self._sums())
            yield self.read() if is_new and SCORES in sums and not self.changed() else None

    def write(
        self, run: RunFile, rows: Sequence[SampleRecord], scores: Sequence[ScoreRow] | None = None
    ) -> None:
        """Replace run.json and the tables, and scores.csv where there are scores."""
        tables = RunTables(self.path)
        tables.add(rows)
        with files.held(self.path):
            self.put(run, tables, scores)

    def put(
        self, run: RunFile, tables: RunTables, scores: Sequence[ScoreRow] | None = None
    ) -> None:
        """Replace them by a run whose records were all added to its tables."""
        self._before = None
        run = replace(run, tables=tables.digests)
        made = {RUN: msgspec.json.format(_ENCODER.encode(run), indent=2) + b"\n"}
        made |= {} if scores is None else {SCORES: table_text(scores).encode()}
        sums = {name: sha256(data).hexdigest() for name, data in made.items()}
        for table in tables:
            name = f"{table.table}.parquet"
            sums[name] = file_digest(table.file, "sha256").hexdigest()
            write_whole(self.path / name, table.blocks())
        for name, data in made.items():
            write_whole(self.path / name, data)
        text = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
        write_whole(self.path / SUMS, text.encode())
        (self.path / "samples.jsonl").unlink(missing_ok=True)  # of an earlier version

    def remove(self) -> None:
        """Remove the files of this run, and the folder where it has no others."""
        for name in (*NAMES, SUMS, "tag", "data_paths.json"):
            (self.path / name).unlink(missing_ok=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()


class StoredRows(Iterable[SampleRecord]):
    """The records of a run folder, read one after the other each time they are iterated over.

    With prompts, those of each step are looked up in the ledger, as far as it is there.
    """

    def __init__(
        self, folder: RunFolder, *, is_checked: bool = True, with_prompts: bool = False
    ) -> None:
        """StoreError where a table was changed, or a planned response is not there."""
        planned = folder.read().planned
        if is_checked:
            folder.tables()
        for name in () if is_checked else STORED:
            folder.check_table(folder.path / f"{name}.parquet")
        self._folder, self._with_prompts = folder, with_prompts
        self.places = places_of(folder.path / SAMPLES, folder.path / ANSWERS)
        """For each answer the place of its sample in the table of samples."""
        if len(self) != planned:
            fact = f"{len(self)} of {planned} planned responses"
            raise refused(f"{folder.path / ANSWERS}: {fact}")

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[SampleRecord]:
        rows = self.at(numpy.ones(len(self), bool))
        return self.prompted(rows) if self._with_prompts else rows

    def at(self, is_wanted: Mask, *, is_brief: bool = False) -> Iterator[SampleRecord]:
        """The records at the wanted places, without prompts; in brief, with texts and values."""
        return read_records(self._folder.path, self.places, is_wanted, is_brief=is_brief)

    def prompted(
        self, rows: Iterable[SampleRecord], ledgers: "Callable[[Path], Ledger] | None" = None
    ) -> Iterator[SampleRecord]:
        """Some of the records with the prompts of their steps, as far as the ledger has them.

        `ledgers` opens the ledger in a folder: for many runs, each once.
        """
        from harness.storage.ledger import Ledger

        path, left = self._folder.path, iter(rows)
        if len(path.parents) < 4:
            yield from left
            return
        ledger = (ledgers or Ledger)(path.parents[3] / "calls" / path.parent.name)
        while some := list(islice(left, _CHUNK)):
            asked = ledger.asked([step.key for row in some for step in row.steps])
            for row in some:
                known = ((step, asked.get(step.key)) for step in row.steps)
                steps = (replace(s, messages=one.messages) if one else s for s, one in known)
                yield replace(row, steps=tuple(steps))


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What was run, and its records: one for each sample, variant and decoding."""

    file: RunFile
    rows: Sequence[SampleRecord]

    @classmethod
    def read(cls, folder: RunFolder, *, with_prompts: bool = False) -> "StoredRun":
        """The run of a folder; StoreError where a response that was planned is not there."""
        return cls(folder.read(), folder.read_rows(with_prompts=with_prompts))
