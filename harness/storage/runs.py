"""Run folders: run.json, samples.jsonl and scores.csv of one run, written whole or not at all.

Everything here can be rebuilt from the calls ledger, and equal inputs give equal bytes: no
clock, no host, no order of arrival.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from harness.core import Run, Sample, Score
from harness.errors import StoreError, did_you_mean
from harness.parts import ChoiceScore, Message, Reason, Usage
from harness.specs.tasks import TaskSpec
from harness.storage.cells import csv_text
from harness.storage.files import write_whole
from harness.storage.signature import Signature

_T = TypeVar("_T")


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
    a judge of one's own says a blind answer gets from it, None where it says nothing; UNSET for
    the judges that come with the program, and in files of earlier versions.
    """

    name: str
    metric: str
    recipe: str
    asks: str | None = None
    identity: str | None = None
    step: str | None = None
    chance: float | UnsetType | None = UNSET


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

    `redrawn` counts the replies without an answer, such as refusals, that were asked for again.
    `missing` is None in files of earlier versions, which did not have it.
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
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            if absent := [name for name in COLUMNS if name not in (table.fieldnames or ())]:
                raise ValueError(f"no column {absent[0]!r}")
            return [_row(cells) for cells in table]
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise _refused(f"{path}: not a table of scores ({error})") from error


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
        *(cells["judge"], cells["variant"], cells["decoding"], cells["group"], cells["metric"]),
        *(_number(cells["value"]), _number(cells["low"]), _number(cells["high"])),
        *(int(cells["n"]), int(cells["clusters"])),
        missing={reason: int(cells[f"missing_{reason}"]) for reason in Reason},
    )
    chance, cost = _number(cells["chance"]), _number(cells["cost_usd"])
    return ScoreRow(cells["task"], cells["model"], score, chance, cost, cells["signature"])


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


_MOST_LISTED = 20
LAST = "@last"
"""The name of the run that was written last."""


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        """Use the files in `path`, which need not exist yet."""
        self.path = path

    @property
    def scores(self) -> Path:
        """Where the scores of this run lie."""
        return self.path / "scores.csv"

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
        path = self.path / "run.json"
        return _decode(_bytes(path), RunFile, where=str(path))

    def read_rows(self) -> list[SampleRecord]:
        """What was asked, answered and judged, in the order of the plan."""
        path = self.path / "samples.jsonl"
        lines = _bytes(path).splitlines()
        return [_decode(line, SampleRecord, where=f"{path}:{n}") for n, line in enumerate(lines, 1)]

    def write(
        self, run: RunFile, rows: Sequence[SampleRecord], scores: Sequence[ScoreRow] | None = None
    ) -> None:
        """Replace run.json and samples.jsonl, and scores.csv where there are scores."""
        lines = b"".join(msgspec.json.encode(row, order="deterministic") + b"\n" for row in rows)
        write_whole(self.path / "samples.jsonl", lines)
        text = msgspec.json.format(msgspec.json.encode(run, order="deterministic"), indent=2)
        write_whole(self.path / "run.json", text + b"\n")
        if scores is not None:
            write_whole(self.scores, table_text(scores).encode())


def find_run(results: Path, name: str) -> RunFolder:
    """The run that a name means: everywhere a command takes a RUN, it is found here.

    A name is a path; `@last`, the run written last; `@TAG`; `TASK/MODEL`, alone or with `@` and a
    tag or the beginning of a digest; or the beginning of a digest. Raises StoreError where it
    means none, or several, with what these differ in.
    """
    if (Path(name) / "run.json").is_file():
        return RunFolder(Path(name))
    found = [RunFolder(path) for path in sorted(results.glob("runs/*/*/*")) if path.is_dir()]
    place, mark, tail = name.rpartition("@")
    if name == LAST:
        found = sorted(found, key=lambda folder: folder.written)[-1:]
    elif mark or "/" in name:
        place, tail = (place, tail) if mark else (name, "")
        found = [one for one in found if place in ("", one.place) and one.is_called(tail)]
        tagged = [one for one in found if tail and one.tag == tail]
        found = tagged or (found if place else [])
    else:
        found = [p for p in found if p.path.name.startswith(name) or name.startswith(p.path.name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise StoreError(_several(name, found))
    raise StoreError(f"no run {name!r} below {results}/runs; `harness list runs` shows them")


def _several(name: str, found: Sequence[RunFolder]) -> str:
    """Why a name is no name of one run, and what those that it may mean differ in."""
    verb = "means" if "@" in name or "/" in name else "begins"
    files: list[RunFile] = []
    readable: list[RunFolder] = []
    for folder in found:
        with suppress(StoreError):  # a damaged one is listed too
            files.append(folder.read())
            readable.append(folder)
    facts = dict(zip((folder.path for folder in readable), run_differences(files), strict=True))
    lines = [f"{name!r} {verb} {len(found)} runs, give more of one: TASK/MODEL@TAG, or a path"]
    for folder in found[:_MOST_LISTED]:
        tag = f"@{folder.tag}" if folder.tag else ""
        own = ", ".join(filter(None, (tag, facts.get(folder.path, "no readable run.json"))))
        lines.append(f"  {folder.path}{': ' * bool(own)}{own}")
    more = len(found) - _MOST_LISTED
    return "\n".join(lines) + (f"\n  and {more} more" if more > 0 else "")


def run_facts(file: RunFile) -> dict[str, str]:
    """What defines a run, in words, by the name of the fact."""
    run, drawn = file.run, file.run.decodings
    return {
        "task": run.task,
        "model": file.model.name,
        "model version": file.model.revision or file.model.identity,
        "variants": ", ".join(run.variants),
        "limit": "all items" if run.limit is None else f"{run.limit} items",
        "seed": str(run.seed),
        "temperatures": ", ".join(f"{one.temperature:g}" for one in drawn),
        "token limits": ", ".join(str(one.max_tokens) for one in drawn),
        "replies a prompt": ", ".join(str(one.n) for one in drawn),
        "answers": str(file.task.mode),
        "data": file.data.label,
        "prompts": run.prompts[:8],
        "judges": ", ".join(entry.name for entry in file.judges) or "none",
        "version of the program": file.version,
    }


def run_differences(files: Sequence[RunFile]) -> list[str]:
    """What tells some runs apart: for each of them its own value of each fact that differs."""
    facts = [run_facts(file) for file in files]
    names = [name for name in (facts[0] if facts else ()) if len({f[name] for f in facts}) > 1]
    return ["; ".join(f"{name} {own[name]}" for name in names) for own in facts]


def run_folders(results: Path) -> list[RunFolder]:
    """Every run folder below a results folder, in the order of their paths."""
    return [RunFolder(path.parent) for path in sorted(results.glob("runs/*/*/*/run.json"))]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _refused(f"{path}: cannot be read ({error.strerror})") from error


def _decode(data: bytes, kind: type[_T], *, where: str) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, ValueError) as error:
        raise _refused(f"{where}: damaged ({error})") from error


def _refused(fact: str) -> StoreError:
    return StoreError(f"{fact}; repeat the run to rebuild it")


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What was run, and its records: one for each sample, variant and decoding."""

    file: RunFile
    rows: Sequence[SampleRecord]

    @classmethod
    def read(cls, folder: RunFolder) -> "StoredRun":
        """The run of a folder."""
        return cls(folder.read(), folder.read_rows())

    @property
    def by_group(self) -> bool:
        """Whether the samples' groups are the systems, which the run's model judges."""
        return self.file.task.unit.system == "group"


def stored_runs(folders: Iterable[RunFolder], task: str) -> list[StoredRun]:
    """The runs of a task, in the order of their folders; StoreError without any."""
    files = [(folder, folder.read()) for folder in folders]
    runs = [StoredRun(file, folder.read_rows()) for folder, file in files if file.run.task == task]
    if not runs:
        known = sorted({file.run.task for _, file in files})
        raise StoreError(
            f"no run of task {task!r}{did_you_mean(task, known)}; "
            "`harness run` makes one, or see --results"
        )
    return runs
