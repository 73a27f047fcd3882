"""The tables of a run, written and read chunk by chunk: a chunk is a row group of Parquet.

Each table has a digest of its values, column by column, which depends neither on the sizes of
chunks nor on the version of the library that wrote the file.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any
from weakref import finalize

import msgspec

from harness.core import Sample
from harness.errors import StoreError
from harness.parts import ChoiceScore, Reason, Usage
from harness.storage.records import SampleRecord, StepRecord, VerdictRecord
from harness.storage.schema import FIELD, REFERENCE, STORED, arrow_type, extra_kind

Values = dict[str, list[Any]]
"""The values of some rows by column, None where empty."""
_BLOCK = 1 << 20
_ENCODER = msgspec.json.Encoder(order="deterministic")


class TableFile:
    """One table in a file without a name, which goes with its process, however that ends."""

    def __init__(self, table: str, folder: Path) -> None:
        """Begin a table in the folder, or in the nearest above it that exists."""
        self.table, self.rows = table, 0
        self._folder = next(one for one in (folder, *folder.parents) if one.is_dir())
        self._kinds = {column.name: column.kind for column in STORED[table]}
        self._sums = {name: sha256() for name in self._kinds}
        self._opened: list[tuple[IO[bytes], Any]] = []  # a file and its writer, at most one
        finalize(self, _close, self._opened)

    def add(self, values: Values) -> None:
        """Add some rows; a column that is not in the schema begins where it first has a value."""
        import pyarrow

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
        schema = self._schema()
        arrays = [pyarrow.array(columns[name], type=schema.field(name).type) for name in columns]
        self._put(pyarrow.Table.from_arrays(arrays, schema=schema))

    @property
    def digest(self) -> str:
        """The sha256 of the values of all rows, of the columns in alphabetical order."""
        sums = sorted((name, found.hexdigest()) for name, found in self._sums.items())
        return sha256(_ENCODER.encode([self.rows, sums])).hexdigest()

    @property
    def file(self) -> IO[bytes]:
        """The whole file, from its beginning; nothing can be added after that."""
        try:
            file, writer = self._open()
            writer.close()
            file.seek(0)
        except OSError as error:
            raise _full(error) from error
        return file

    def blocks(self) -> Iterator[bytes]:
        """The file, in parts of at most a megabyte, which is then gone."""
        file = self.file
        while block := file.read(_BLOCK):
            yield block
        _close(self._opened)

    def _schema(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        import pyarrow

        return pyarrow.schema([(name, arrow_type(kind)) for name, kind in self._kinds.items()])

    def _open(self) -> tuple[IO[bytes], Any]:
        from pyarrow.parquet import ParquetWriter

        if not self._opened:
            file = TemporaryFile(dir=self._folder)  # noqa: SIM115 - see `_close`
            self._opened.append((file, ParquetWriter(file, self._schema(), compression="zstd")))
        return self._opened[0]

    def _put(self, rows: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        try:
            self._open()[1].write_table(rows)
        except OSError as error:
            raise _full(error) from error

    def _copy(self) -> None:
        """Copy what was added to a file that has further columns, empty so far."""
        import pyarrow
        from pyarrow.parquet import ParquetFile

        schema, earlier = self._schema(), list(self._opened)
        self._opened.clear()
        earlier[0][1].close()
        with ParquetFile(earlier[0][0]) as source:
            for place in range(source.num_row_groups):
                rows = source.read_row_group(place)
                for name in (name for name in schema.names if name not in rows.column_names):
                    empty = pyarrow.nulls(len(rows), schema.field(name).type)
                    rows = rows.append_column(name, empty)
                self._put(rows.select(schema.names))
        _close(earlier)


def _close(opened: list[tuple[IO[bytes], Any]]) -> None:
    for file, writer in opened:
        if not file.closed:
            writer.close()
        file.close()
    opened.clear()


def _full(error: OSError) -> StoreError:
    return StoreError(
        f"the tables of a run cannot be kept on the disk ({error.strerror}); free some space, then "
        "repeat the command"
    )


class RunTables:
    """The tables of samples, answers and verdicts of one run, as its records come in."""

    def __init__(self, folder: Path) -> None:
        """Begin them; nothing is in the folder before `blocks` were written there."""
        self._files = {name: TableFile(name, folder) for name in STORED}
        self._seen = set[str]()

    def __iter__(self) -> Iterator[TableFile]:
        return iter(self._files.values())

    @property
    def files(self) -> dict[str, IO[bytes]]:
        """The whole file of each table; nothing can be added after that."""
        return {name: table.file for name, table in self._files.items()}

    @property
    def digests(self) -> dict[str, str]:
        """The digest of each table."""
        return {name: file.digest for name, file in self._files.items()}

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


def _of_samples(samples: Sequence[Sample]) -> Values:
    found: Values = {
        "sample": [s.id for s in samples],
        "cluster": [s.cluster for s in samples],
        "group": [s.group for s in samples],
        "gold": [s.gold for s in samples],
        "choices": [list(s.choices) or None for s in samples],
        "flags": [list(s.flags) or None for s in samples],
    }
    for name in sorted({name for s in samples for name in s.fields}):
        found[FIELD + name] = [s.fields.get(name) for s in samples]
    for name in sorted({name for s in samples for name in s.references}):
        column = (s.references.get(name) for s in samples)
        found[REFERENCE + name] = [None if texts is None else list(texts) for texts in column]
    return found


def _of_answers(records: Sequence[SampleRecord]) -> Values:
    last = [record.steps[-1] for record in records]
    return {
        "sample": [record.sample.id for record in records],
        "variant": [record.variant for record in records],
        "decoding": [record.decoding for record in records],
        "answer": [record.answer for record in records],
        "text": [step.text for step in last],
        "reason": [step.reason and str(step.reason) for step in last],
        "note": [step.note or None for step in last],
        "stop": [step.stop for step in last],
        "served": [record.served for record in records],
        "step": [step.step for step in last],
        "key": [step.key for step in last],
        "logprobs": [[s.logprob for s in step.choice_scores] or None for step in last],
        "tokens": [_tokens(step) for step in last],
        "bytes": [[s.bytes for s in step.choice_scores] or None for step in last],
        "prompt_tokens": [step.usage.prompt_tokens for step in last],
        "completion_tokens": [step.usage.completion_tokens for step in last],
        "cost_usd": [step.usage.cost_usd for step in last],
        "earlier": [_earlier(record.steps) for record in records],
        "more": [_more(step) for step in last],
    }


def _earlier(steps: Sequence[StepRecord]) -> str | None:
    bare = [replace(step, messages=()) for step in steps[:-1]]
    return _json(bare) if bare else None


def _tokens(step: StepRecord) -> list[int] | None:
    return [-1 if s.tokens is None else s.tokens for s in step.choice_scores] or None


def _json(value: object) -> str:
    return _ENCODER.encode(value).decode()


class _More(msgspec.Struct, omit_defaults=True):
    """What few calls have: it is in one column."""

    detail: dict[str, float] = {}
    spanned: int = 0
    bound: list[int] = []
    reasoning_tokens: int | None = None
    unanswered: int | msgspec.UnsetType = msgspec.UNSET
    superseded: Any = msgspec.UNSET


def _more(step: StepRecord) -> str | None:
    usage, scores = step.usage, step.choice_scores
    found = _More(
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
    found: Values = {
        "row": [row for row, *_ in rows],
        "sample": [record.sample.id for _, record, *_ in rows],
        "cluster": [record.sample.cluster for _, record, *_ in rows],
        "group": [record.sample.group for _, record, *_ in rows],
        "variant": [record.variant for _, record, *_ in rows],
        "decoding": [record.decoding for _, record, *_ in rows],
        "judge": [judge for *_, judge, _ in rows],
        "value": [verdict.value for *_, verdict in rows],
        "reason": [verdict.reason and str(verdict.reason) for *_, verdict in rows],
        "note": [verdict.note or None for *_, verdict in rows],
        "served": [verdict.served for *_, verdict in rows],
        "model_served": [record.served for _, record, *_ in rows],
        "probabilities": [list(verdict.shares) or None for *_, verdict in rows],
        "keys": [list(verdict.keys) or None for *_, verdict in rows],
        "replies": [list(verdict.replies) or None for *_, verdict in rows],
        "usages": [_json(verdict.usages) if verdict.usages else None for *_, verdict in rows],
    }
    for name in sorted({name for *_, verdict in rows for name in verdict.detail}):
        if name in found:
            raise StoreError(f"a judge's detail is called {name!r}, as a column of verdicts is")
        found[name] = [verdict.detail.get(name) for *_, verdict in rows]
    return found


@contextmanager
def opened(path: Path | IO[bytes], dictionary: Sequence[str] = ()) -> Iterator[Any]:
    """A table as a ParquetFile, those columns as categories; StoreError where it is damaged."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path, read_dictionary=list(dictionary)) as file:
            yield file
    except (ArrowException, OSError) as error:
        raise StoreError(f"{path}: damaged ({error}); repeat the run to rebuild it") from error


def arrow_table(
    path: Path | IO[bytes], columns: Sequence[str] | None = None, dictionary: Sequence[str] = ()
) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Some columns of a table, or all, as a pyarrow.Table."""
    with opened(path, dictionary) as file:
        return file.read(columns)


def column_names(path: Path | IO[bytes]) -> list[str]:
    """The columns of a table."""
    with opened(path) as file:
        names: list[str] = file.schema_arrow.names
        return names


def row_groups(path: Path, columns: Sequence[str] | None = None) -> Iterator[Values]:
    """The row groups of a table as lists of values, by column."""
    with opened(path) as file:
        for place in range(file.num_row_groups):
            rows = file.read_row_group(place, columns=columns)
            yield {name: _listed(rows.column(name)) for name in rows.column_names}


def _listed(column: Any) -> list[Any]:  # noqa: ANN401 - pyarrow has no types
    import pyarrow

    array = column.combine_chunks()
    if not pyarrow.types.is_list(array.type):
        found: list[Any] = array.to_pylist()
        return found
    # Several times as quick as the list of each row by itself.
    ends, inner = array.offsets.to_pylist(), array.values.to_pylist()
    empty = array.is_null().to_pylist()
    return [
        None if is_empty else inner[start:end]
        for is_empty, start, end in zip(empty, ends, ends[1:], strict=False)
    ]


def read_samples(path: Path) -> Iterator[Sample]:
    """The samples of a table, in their order."""
    for values in row_groups(path):
        fields = _named(values, FIELD)
        references = _named(values, REFERENCE)
        main = (values[n] for n in ("sample", "gold", "choices", "flags", "group", "cluster"))
        for at, (name, gold, choices, flags, group, cluster) in enumerate(zip(*main, strict=True)):
            yield Sample(
                id=name,
                fields={n: column[at] for n, column in fields.items() if column[at] is not None},
                references={
                    n: tuple(column[at])
                    for n, column in references.items()
                    if column[at] is not None
                },
                choices=tuple(choices or ()),
                gold=gold,
                group=group,
                cluster=cluster,
                flags=tuple(flags or ()),
            )


def _named(values: Values, start: str) -> Values:
    return {n.removeprefix(start): column for n, column in values.items() if n.startswith(start)}


def read_records(folder: Path, places: Sequence[int]) -> Iterator[SampleRecord]:
    """The records of a run's tables, in their order.

    `places` has the place of each answer's sample in the table of samples, which is read once for
    each variant and decoding.
    """
    samples, answers, verdicts = (folder / f"{name}.parquet" for name in STORED)
    judged = _Grouped(verdicts)
    known, row = _Placed(samples), 0
    for values in row_groups(answers):
        for step, name, variant, decoding, answer, served in zip(
            _steps(values),
            *(values[n] for n in ("sample", "variant", "decoding", "answer", "served")),
            strict=True,
        ):
            sample = known.at(places[row])
            if sample.id != name:
                raise StoreError(
                    f"{answers}: damaged (sample {name}); repeat the run to rebuild it"
                )
            yield SampleRecord(sample, variant, decoding, step, answer, served, judged.of(row))
            row += 1


def _steps(values: Values) -> Iterator[tuple[StepRecord, ...]]:
    columns = (
        *("step", "key", "text", "reason", "note", "stop", "logprobs", "tokens", "bytes"),
        *("prompt_tokens", "completion_tokens", "cost_usd", "earlier", "more"),
    )
    for row in zip(*(values[name] for name in columns), strict=True):
        step, key, text, reason, note, stop, logprobs, tokens, sizes, *usage, earlier, more = row
        rare = msgspec.json.decode(more, type=_More) if more else _NO_MORE
        last = StepRecord(
            step=step,
            key=key,
            text=text,
            reason=Reason(reason) if reason else None,
            note=note or "",
            stop=stop,
            choice_scores=_choice_scores(logprobs, tokens, sizes, rare) if logprobs else (),
            usage=_usage(usage, rare) if more else Usage(*usage),
            detail=rare.detail,
        )
        yield (
            *(msgspec.json.decode(earlier, type=tuple[StepRecord, ...]) if earlier else ()),
            last,
        )


_NO_MORE = _More()


def step_usages(
    step: str,
    key: str,
    prompt_tokens: int | None,
    completion_tokens: int | None,
    cost_usd: float | None,
    earlier: str | None,
    more: str | None,
) -> Iterator[tuple[str, str, Usage, Mapping[str, float]]]:
    """The step, key, usage and details of each call of an answer, from the cells of its row."""
    for one in msgspec.json.decode(earlier, type=tuple[StepRecord, ...]) if earlier else ():
        yield one.step, one.key, one.usage, one.detail
    rare = msgspec.json.decode(more, type=_More) if more else _NO_MORE
    yield step, key, _usage((prompt_tokens, completion_tokens, cost_usd), rare), rare.detail


def _choice_scores(
    logprobs: Sequence[float], tokens: Sequence[int], sizes: Sequence[int], rare: _More
) -> tuple[ChoiceScore, ...]:
    return tuple(
        ChoiceScore(
            logprob,
            tokens=None if count < 0 else count,
            bytes=size,
            spanned=rare.spanned,
            is_bound=at in rare.bound,
        )
        for at, (logprob, count, size) in enumerate(zip(logprobs, tokens, sizes, strict=True))
    )


def _usage(known: Sequence[Any], rare: _More) -> Usage:
    names = ("prompt_tokens", "completion_tokens", "cost_usd")
    found = dict(zip(names, known, strict=True)) | {"reasoning_tokens": rare.reasoning_tokens}
    for name in ("unanswered", "superseded"):
        if (value := getattr(rare, name)) is not msgspec.UNSET:
            found[name] = value
    return msgspec.convert(found, Usage)


class _Placed:
    """Samples by their places; quick where the next place is the one after the last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin()

    def _begin(self) -> None:
        self._left, self._place = read_samples(self._path), -1

    def at(self, place: int) -> Sample:
        """The sample at a place."""
        if place <= self._place:
            self._begin()
        while self._place < place:
            found = next(self._left)
            self._place += 1
        return found


class _Grouped:
    """The verdicts of one answer after the other."""

    def __init__(self, path: Path) -> None:
        self._left = _verdicts(path)
        self._next = next(self._left, None)

    def of(self, row: int) -> dict[str, VerdictRecord]:
        """The verdicts on the answer at a place, which is asked for in ascending order."""
        found: dict[str, VerdictRecord] = {}
        while self._next is not None and self._next[0] == row:
            found[self._next[1]] = self._next[2]
            self._next = next(self._left, None)
        return found


def _verdicts(path: Path) -> Iterator[tuple[int, str, VerdictRecord]]:
    fixed = {column.name for column in STORED["verdicts"]}
    main = (
        *("row", "judge", "value", "reason", "note", "served"),
        *("probabilities", "keys", "replies", "usages"),
    )
    for values in row_groups(path):
        details = {name: column for name, column in values.items() if name not in fixed}
        for at, row in enumerate(zip(*(values[name] for name in main), strict=True)):
            place, judge, value, reason, note, served, shares, keys, replies, usages = row
            yield (
                place,
                judge,
                VerdictRecord(
                    value=value,
                    reason=Reason(reason) if reason else None,
                    note=note or "",
                    detail={n: c[at] for n, c in details.items() if c[at] is not None},
                    shares=tuple(shares or ()),
                    served=served,
                    keys=tuple(keys or ()),
                    replies=tuple(replies or ()),
                    usages=msgspec.json.decode(usages, type=tuple[Usage, ...]) if usages else (),
                ),
            )


def places_of(samples: Path, answers: Path) -> list[int]:
    """For each answer the place of its sample in the table of samples."""
    from pyarrow import compute

    names, asked = (
        arrow_table(path, ["sample"]).column("sample").combine_chunks()
        for path in (samples, answers)
    )
    found = compute.index_in(asked, value_set=names)
    if found.null_count:
        raise StoreError(f"{answers}: damaged (a sample is unknown); repeat the run to rebuild it")
    places: list[int] = found.to_numpy(zero_copy_only=False)
    return places
