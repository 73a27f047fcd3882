"""The tables of a run, read: as arrow tables, as records, one answer after the other."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import msgspec

from harness.core import Sample
from harness.errors import StoreError
from harness.lazy import Mask, Places, compute, numpy, pyarrow
from harness.parts import ChoiceScore, Reason, Usage
from harness.storage import schema
from harness.storage.run_tables import RareFacts, SampleRecord, StepRecord, Values, VerdictRecord
from harness.storage.schema import STORED, arrow_type, categories

_NO_RARE = RareFacts()
_VERDICT = (
    *("row", "judge", "value", "reason", "note", "served"),
    *("probabilities", "keys", "replies", "usages"),
)
_STEP = (
    *("text", "reason", "note", "stop", "logprobs", "tokens", "bytes"),
    *("step", "key", "prompt_tokens", "completion_tokens", "cost_usd", "earlier", "more"),
)

_BRIEF = (
    *("row", "sample", "variant", "decoding", "answer", "text", "reason", "note", "stop"),
    *("served", "step", "key", "earlier", "judge", "value", "replies"),
)


@contextmanager
def opened(path: Path | IO[bytes], dictionary: Sequence[str] = ()) -> Iterator[Any]:
    """A table as a ParquetFile, those columns as categories; StoreError where it is damaged."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path, read_dictionary=list(dictionary)) as file:
            yield file
    except (ArrowException, OSError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path | IO[bytes], fact: object) -> StoreError:
    return StoreError(f"{path}: damaged ({fact}); repeat the run to rebuild it")


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


def check_table(
    path: Path, known: Mapping[str, Collection[str]], is_wanted: Callable[[str], bool] | None = None
) -> Any:  # noqa: ANN401 - pyarrow has no types
    """The wanted columns; StoreError, which names the column, where they are not as schema says.

    `known` has what may be in some of the columns. The first column where none is wanted.
    """
    table = path.stem
    known = {name: own for name, own in known.items() if name in STORED[table]}
    with opened(path) as file:
        columns = {one.name: one.type for one in file.schema_arrow}
        kinds = {n: schema.extra_kind(table, n) for n in columns} | {**STORED[table]}
        for name, kind in kinds.items():
            found = columns.get(name, "missing")
            if found != arrow_type(kind):
                raise _damaged(path, f"column {name!r} is {found}, not {arrow_type(kind)}")
    wanted = [name for name in columns if is_wanted and is_wanted(name)] or [*columns][:1]
    rows = arrow_table(path, sorted({*schema.FILLED[table], *known, *wanted}), categories(table))
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if column.null_count and name in schema.FILLED[table]:
            raise _damaged(path, f"column {name!r} has empty cells")
        there: set[str | None] = {*column.unique().to_pylist()} if name in known else set()
        if odd := there - {*known.get(name, ()), None}:
            raise _damaged(path, f"column {name!r} has {odd.pop()!r:.60}")
    return rows.select(wanted)


@contextmanager
def trusted(path: Path | IO[bytes]) -> Iterator[None]:
    """Make a StoreError of what a cell of a table cannot be made into."""
    try:
        yield
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise _damaged(path, error) from error


def _row_groups(
    path: Path, is_wanted: Mask, *, key: str | None = None, is_brief: bool = False
) -> Iterator[Values]:
    """The wanted rows of a table, by row groups, as lists of values by column.

    `is_wanted` is by the place of a row in the table, or by what is in its column `key`. In brief,
    what is not in `_BRIEF` is not read and None.
    """
    start = 0
    with opened(path) as file:
        names = [n for n in file.schema_arrow.names if n in _BRIEF or not is_brief]
        for place in range(file.num_row_groups):
            end = start + file.metadata.row_group(place).num_rows
            keys = file.read_row_group(place, [key]).column(key).to_numpy() if key else None
            at = numpy.flatnonzero(is_wanted[start:end] if keys is None else is_wanted[keys])
            start = end
            if len(at):
                rows = file.read_row_group(place, names).take(at)
                unread = dict.fromkeys(STORED[path.stem], [None] * len(at))
                yield unread | {name: _listed(rows.column(name)) for name in names}


def _listed(column: Any) -> list[Any]:  # noqa: ANN401 - pyarrow has no types
    array = column.combine_chunks()
    if not pyarrow.types.is_list(array.type):
        found: list[Any] = array.to_pylist()
        return found
    # Several times as quick as the list of each row by itself.
    ends, inner = array.offsets.to_pylist(), array.values.to_pylist()
    rows = zip(array.is_valid().to_pylist(), ends, ends[1:], strict=False)
    return [inner[start:end] if is_there else None for is_there, start, end in rows]


def _named(values: Values, start: str) -> Values:
    return {n.removeprefix(start): column for n, column in values.items() if n.startswith(start)}


def _there(columns: Values) -> Iterator[dict[str, Any]]:
    """What is there of each row, by column; without an end where there is no column."""
    if not columns:
        yield from iter(dict[str, Any], None)
    for cells in zip(*columns.values(), strict=True):
        yield {name: cell for name, cell in zip(columns, cells, strict=True) if cell is not None}


def _samples(path: Path, is_wanted: Mask) -> Iterator[Sample]:
    """The wanted samples of a table, in their order."""
    for values in _row_groups(path, is_wanted):
        own = (_there(_named(values, schema.FIELD)), _there(_named(values, schema.REFERENCE)))
        main = (values[n] for n in ("sample", "choices", "gold", "group", "cluster", "flags"))
        rows = zip(*own, *main, strict=False)
        for fields, references, name, choices, gold, group, cluster, flags in rows:
            said = {n: tuple(texts) for n, texts in references.items()}
            about = (tuple(choices or ()), gold, group, cluster, tuple(flags or ()))
            yield Sample(name, fields, said, *about)


def read_records(
    folder: Path, places: Places, is_wanted: Mask, *, is_brief: bool = False
) -> Iterator[SampleRecord]:
    """The wanted records of a run's tables, in their order; in brief, with texts and values alone.

    `places` has the place of each answer's sample in the table of samples, which is read once for
    each variant and decoding.
    """
    with trusted(folder):
        yield from _read_records(folder, places, is_wanted, is_brief)


def _read_records(
    folder: Path, places: Places, is_wanted: Mask, is_brief: bool
) -> Iterator[SampleRecord]:
    samples, answers, verdicts = (folder / f"{name}.parquet" for name in STORED)
    known, judged = _placed(samples, places[is_wanted]), _by_row(verdicts, is_wanted, is_brief)
    for values in _row_groups(answers, is_wanted, is_brief=is_brief):
        columns = (values[n] for n in ("sample", "variant", "decoding", "answer", "served"))
        for steps, name, *rest in zip(_steps(values), *columns, strict=True):
            if (sample := next(known)).id != name:
                raise _damaged(answers, f"sample {name}")
            variant, decoding, answer, served = rest
            yield SampleRecord(sample, variant, decoding, steps, answer, served, next(judged))


def _steps(values: Values) -> Iterator[tuple[StepRecord, ...]]:
    for row in zip(*(values[name] for name in _STEP), strict=True):
        text, reason, note, stop, logprobs, tokens, sizes, *cells = row
        *before, (name, key, usage, rare) = _calls(cells)
        last = StepRecord(
            step=name,
            key=key,
            text=text,
            reason=Reason(reason) if reason else None,
            note=note or "",
            stop=stop,
            choice_scores=_choice_scores(logprobs, tokens, sizes, rare) if logprobs else (),
            usage=usage,
            detail=rare.detail,
        )
        yield (*before, last)


def _calls(cells: Sequence[Any]) -> list[Any]:
    """The earlier steps of an answer, then step, key, usage and rare facts of the last."""
    step, key, prompt, completion, cost, earlier, more = cells
    rare = msgspec.json.decode(more, type=RareFacts) if more else _NO_RARE
    others = (rare.reasoning_tokens, rare.unanswered, rare.superseded)
    usage = Usage(prompt, completion, cost, *others)
    before = msgspec.json.decode(earlier, type=tuple[StepRecord, ...]) if earlier else ()
    return [*before, (step, key, usage, rare)]


def step_usages(cells: Sequence[Any]) -> Iterator[tuple[str, str, Usage, Mapping[str, float]]]:
    """The step, key, usage and details of each call of an answer, from the cells of its row.

    Cells are `step`, `key`, the three columns of the usage, `earlier` and `more`.
    """
    *before, (step, key, usage, rare) = _calls(cells)
    yield from ((one.step, one.key, one.usage, one.detail) for one in before)
    yield step, key, usage, rare.detail


def _choice_scores(
    logprobs: Sequence[float], tokens: Sequence[int], sizes: Sequence[int], rare: RareFacts
) -> tuple[ChoiceScore, ...]:
    cells = enumerate(zip(logprobs, tokens, sizes, strict=True))
    return tuple(
        ChoiceScore(logprob, None if count < 0 else count, size, rare.spanned, at in rare.bound)
        for at, (logprob, count, size) in cells
    )


def _placed(path: Path, places: Places) -> Iterator[Sample]:
    """The samples at some places; the table is read again from where a place is no later one."""
    for rising in numpy.split(places, numpy.flatnonzero(numpy.diff(places) <= 0) + 1):
        is_wanted = numpy.zeros(rising.max(initial=-1) + 1, bool)
        is_wanted[rising] = True
        yield from _samples(path, is_wanted)


def _by_row(path: Path, is_wanted: Mask, is_brief: bool) -> Iterator[dict[str, VerdictRecord]]:
    """The verdicts on one wanted answer after the other."""
    found = groupby(_verdicts(path, is_wanted, is_brief), key=itemgetter(0))
    place, own = next(found, (None, iter(())))
    for row in numpy.flatnonzero(is_wanted).tolist():
        if place != row:
            yield {}
            continue
        yield {judge: verdict for _, judge, verdict in own}
        place, own = next(found, (None, iter(())))


def _verdicts(
    path: Path, is_wanted: Mask, is_brief: bool
) -> Iterator[tuple[int, str, VerdictRecord]]:
    for values in _row_groups(path, is_wanted, key="row", is_brief=is_brief):
        details = {
            name: column for name, column in values.items() if name not in STORED["verdicts"]
        }
        rows = zip(*(values[name] for name in _VERDICT), strict=True)
        for row, detail in zip(rows, _there(details), strict=False):
            place, judge, value, reason, note, served, shares, keys, replies, usages = row
            verdict = VerdictRecord(
                value=value,
                reason=Reason(reason) if reason else None,
                note=note or "",
                detail=detail,
                shares=tuple(shares or ()),
                served=served,
                keys=tuple(keys or ()),
                replies=tuple(replies or ()),
                usages=msgspec.json.decode(usages, type=tuple[Usage, ...]) if usages else (),
            )
            yield place, judge, verdict


def places_of(samples: Path, answers: Path) -> Places:
    """For each answer the place of its sample in the table of samples."""
    names, asked = (
        arrow_table(path, ["sample"]).column("sample").combine_chunks()
        for path in (samples, answers)
    )
    every = range(0, len(asked), len(names) or 1)
    if all(asked[at : at + len(names)].equals(names) for at in every):
        # All samples, once for each variant and decoding: no table of a million names is needed.
        return numpy.tile(numpy.arange(len(names)), len(every))
    found = compute.index_in(asked, value_set=names)
    if found.null_count:
        raise _damaged(answers, "a sample is unknown")
    places: Places = found.to_numpy(zero_copy_only=False)
    return places
