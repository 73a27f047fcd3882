"""The tables of a run, written chunk by chunk: a chunk is a row group of Parquet.

The digest of a table depends neither on the sizes of chunks nor on the library's version.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from io import BufferedRandom
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from weakref import finalize

import msgspec

from harness.core import Sample
from harness.errors import StoreError
from harness.lazy import pyarrow
from harness.parts import ChoiceScore, Message, Reason, Superseded, Usage
from harness.storage.schema import FIELD, REFERENCE, STORED, arrow_type, extra_kind


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of a response; `messages`, the prompt, are empty in stored records."""

    step: str
    key: str
    messages: tuple[Message, ...] = ()
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
    """A planned answer; `answer` is a text, or the answer of the likeliest choice."""

    sample: Sample
    variant: str
    decoding: str
    steps: tuple[StepRecord, ...]
    answer: str | None
    served: str | None = None
    verdicts: Mapping[str, VerdictRecord] = field(default_factory=dict)


Values = dict[str, list[Any]]
"""The values of some rows by column, None where empty."""
_ENCODER = msgspec.json.Encoder(order="deterministic")


class TableFile:
    """One table in a file without a name, which goes with its process, however that ends."""

    def __init__(self, table: str, folder: Path) -> None:
        """Begin a table in the folder, or in the nearest above it that exists."""
        self.table, self.rows = table, 0
        self._folder = next(one for one in (folder, *folder.parents) if one.is_dir())
        self._kinds = {**STORED[table]}
        self._sums = {name: sha256() for name in self._kinds}
        self._stack = ExitStack()
        self._file: Any = None  # a file and its writer
        self._writer: Any = None
        finalize(self, self._stack.close)

    def add(self, values: Values) -> None:
        """Add some rows; a column that is not in the schema begins where it first has a value."""
        count = len(next(iter(values.values())))
        fresh = [name for name in values if name not in self._kinds]
        for name in fresh:
            self._kinds[name] = extra_kind(self.table, name)
            self._sums[name] = sha256(b"null," * self.rows)
        if fresh and self.rows:
            self._copy()
        columns = {name: values.get(name) or [None] * count for name in self._kinds}
        for name, column in columns.items():
            self._sums[name].update(_ENCODER.encode(column)[1:-1] + b",")
        self.rows += count
        self._put(pyarrow.Table.from_pydict(columns, self._schema()))

    @property
    def digest(self) -> str:
        """The sha256 of the values of all rows, of the columns in alphabetical order."""
        sums = sorted((name, found.hexdigest()) for name, found in self._sums.items())
        return sha256(_ENCODER.encode([self.rows, sums])).hexdigest()

    @property
    def file(self) -> BufferedRandom:
        """The whole file, from its beginning; nothing can be added after that."""
        with _disk():
            self._open().close()
            self._file.seek(0)
        file: BufferedRandom = self._file
        return file

    def blocks(self) -> Iterator[bytes]:
        """The file, in parts of at most a megabyte, which is then gone."""
        self._file.seek(0)
        yield from iter(partial(self._file.read, 1 << 20), b"")
        self._stack.close()

    def _schema(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        return pyarrow.schema([(name, arrow_type(kind)) for name, kind in self._kinds.items()])

    def _open(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        from pyarrow.parquet import ParquetWriter

        if self._writer is None:
            file = TemporaryFile(dir=self._folder)  # noqa: SIM115 - the stack closes it
            self._file = self._stack.enter_context(file)
            writer = ParquetWriter(self._file, self._schema(), compression="zstd")
            self._writer = self._stack.enter_context(writer)
        return self._writer

    def _put(self, rows: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        with _disk():
            self._open().write_table(rows)

    def _copy(self) -> None:
        """Copy what was added to a file that has further columns, empty so far."""
        from pyarrow.parquet import ParquetFile

        empty = pyarrow.Table.from_pylist([], self._schema())
        with self._stack.pop_all(), ParquetFile(self.file) as source:
            self._writer = None
            for place in range(source.num_row_groups):
                rows = [empty, source.read_row_group(place)]
                self._put(pyarrow.concat_tables(rows, promote_options="default"))


@contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        fact = f"the tables of a run cannot be kept on the disk ({error.strerror})"
        raise StoreError(f"{fact}; free some space, then repeat the command") from error


class RunTables:
    """The tables of samples, answers and verdicts of one run, as its records come in."""

    def __init__(self, folder: Path) -> None:
        """Begin them; nothing is in the folder before `blocks` were written there."""
        self._files = {name: TableFile(name, folder) for name in STORED}
        self._seen = set[str]()

    def __iter__(self) -> Iterator[TableFile]:
        return iter(self._files.values())

    @property
    def files(self) -> dict[str, BufferedRandom]:
        """The whole file of each table; nothing can be added after that."""
        return {name: table.file for name, table in self._files.items()}

    @property
    def digests(self) -> dict[str, str]:
        """The digest of each table."""
        return {name: file.digest for name, file in self._files.items()}

    def fill(self, chunks: Iterable[Sequence[SampleRecord]]) -> None:
        """Add all records of some chunks; a chunk is free as soon as it is added."""
        for records in chunks:
            self.add(records)

    def add(self, records: Sequence[SampleRecord]) -> None:
        """Add some records with all their verdicts, in the order of the plan."""
        if not records:
            return
        first = self._files["answers"].rows
        fresh = {r.sample.id: r.sample for r in records if r.sample.id not in self._seen}
        self._seen.update(fresh)
        if fresh:
            self._files["samples"].add(_of_samples(list(fresh.values())))
        self._files["answers"].add(_of_answers(records))
        verdicts = _of_verdicts(records, first)
        if verdicts["row"]:
            self._files["verdicts"].add(verdicts)


def _same(names: str, things: Sequence[object]) -> Values:
    """The columns that are called as what they hold is."""
    return {name: [getattr(one, name) for one in things] for name in names.split()}


def _of_samples(samples: Sequence[Sample]) -> Values:
    found = {"sample": [s.id for s in samples], **_same("cluster group gold", samples)}
    for name, column in _same("choices flags", samples).items():
        found[name] = [list(cells) or None for cells in column]
    for name in dict.fromkeys(name for s in samples for name in s.fields):
        found[FIELD + name] = [s.fields.get(name) for s in samples]
    for name in dict.fromkeys(name for s in samples for name in s.references):
        known = (s.references.get(name) for s in samples)
        found[REFERENCE + name] = [None if texts is None else list(texts) for texts in known]
    return found


def _of_answers(records: Sequence[SampleRecord]) -> Values:
    last = [record.steps[-1] for record in records]
    scores = [step.choice_scores for step in last]
    earlier = ([replace(step, messages=()) for step in record.steps[:-1]] for record in records)
    return {
        "sample": [record.sample.id for record in records],
        **_same("variant decoding answer served", records),
        **_same("text stop step key", last),
        "reason": [step.reason and str(step.reason) for step in last],
        "note": [step.note or None for step in last],
        "logprobs": [[s.logprob for s in own] or None for own in scores],
        "tokens": [[-1 if s.tokens is None else s.tokens for s in own] or None for own in scores],
        "bytes": [[s.bytes for s in own] or None for own in scores],
        **_same("prompt_tokens completion_tokens cost_usd", [step.usage for step in last]),
        "earlier": [_json(steps) if steps else None for steps in earlier],
        "more": [_more(step) for step in last],
    }


def _json(value: object) -> str:
    return _ENCODER.encode(value).decode()


class RareFacts(msgspec.Struct, omit_defaults=True):
    """What few calls have: it is in one column."""

    detail: dict[str, float] = {}
    spanned: int = 0
    bound: list[int] = []
    reasoning_tokens: int | None = None
    unanswered: int | msgspec.UnsetType = msgspec.UNSET
    superseded: tuple[Superseded, ...] | msgspec.UnsetType = msgspec.UNSET


def _more(step: StepRecord) -> str | None:
    usage, scores = step.usage, step.choice_scores
    found = RareFacts(
        detail=dict(step.detail),
        spanned=scores[0].spanned if scores else 0,
        bound=[at for at, score in enumerate(scores) if score.is_bound],
        reasoning_tokens=usage.reasoning_tokens,
        unanswered=usage.unanswered,
        superseded=usage.superseded,
    )
    text = _json(found)
    return None if text == "{}" else text


def _of_verdicts(records: Sequence[SampleRecord], first: int) -> Values:
    rows = [
        (row, record, judge, record.verdicts[judge])
        for row, record in enumerate(records, first)
        for judge in sorted(record.verdicts)
    ]
    samples, verdicts = [record.sample for _, record, *_ in rows], [one for *_, one in rows]
    found: Values = {
        "row": [row for row, *_ in rows],
        "sample": [sample.id for sample in samples],
        **_same("cluster group", samples),
        **_same("variant decoding", [record for _, record, *_ in rows]),
        "judge": [judge for *_, judge, _ in rows],
        **_same("value served", verdicts),
        "reason": [verdict.reason and str(verdict.reason) for verdict in verdicts],
        "note": [verdict.note or None for verdict in verdicts],
        "model_served": [record.served for _, record, *_ in rows],
        "probabilities": [[*verdict.shares] or None for verdict in verdicts],
        "keys": [[*verdict.keys] or None for verdict in verdicts],
        "replies": [[*verdict.replies] or None for verdict in verdicts],
        "usages": [_json(verdict.usages) if verdict.usages else None for verdict in verdicts],
    }
    for name in sorted({name for verdict in verdicts for name in verdict.detail}):
        if name in found:
            raise StoreError(f"a judge's detail is called {name!r}, as a column of verdicts is")
        found[name] = [verdict.detail.get(name) for verdict in verdicts]
    return found
