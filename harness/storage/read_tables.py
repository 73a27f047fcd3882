"""The tables of a run, read: as arrow tables, as records, one answer after the other."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import msgspec

from harness.core import Sample
from harness.errors import StoreError
from harness.lazy import pyarrow
from harness.parts import ChoiceScore, Reason, Usage
from harness.storage.run_tables import RareFacts, SampleRecord, StepRecord, Values, VerdictRecord
from harness.storage.schema import FIELD, REFERENCE, STORED


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
    known, judged = _placed(samples, places), _by_row(verdicts)
    for values in row_groups(answers):
        columns = (values[n] for n in ("sample", "variant", "decoding", "answer", "served"))
        for steps, name, *rest in zip(_steps(values), *columns, strict=True):
            if (sample := next(known)).id != name:
                raise StoreError(
                    f"{answers}: damaged (sample {name}); repeat the run to rebuild it"
                )
            variant, decoding, answer, served = rest
            yield SampleRecord(sample, variant, decoding, steps, answer, served, next(judged))


def _steps(values: Values) -> Iterator[tuple[StepRecord, ...]]:
    columns = (
        *("step", "key", "text", "reason", "note", "stop", "logprobs", "tokens", "bytes"),
        *("prompt_tokens", "completion_tokens", "cost_usd", "earlier", "more"),
    )
    for row in zip(*(values[name] for name in columns), strict=True):
        step, key, text, reason, note, stop, logprobs, tokens, sizes, *usage, earlier, more = row
        rare = msgspec.json.decode(more, type=RareFacts) if more else _NO_RARE
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


_NO_RARE = RareFacts()


def step_usages(cells: Sequence[Any]) -> Iterator[tuple[str, str, Usage, Mapping[str, float]]]:
    """The step, key, usage and details of each call of an answer, from the cells of its row.

    Cells are `step`, `key`, the three columns of the usage, `earlier` and `more`.
    """
    step, key, *usage, earlier, more = cells
    for one in msgspec.json.decode(earlier, type=tuple[StepRecord, ...]) if earlier else ():
        yield one.step, one.key, one.usage, one.detail
    rare = msgspec.json.decode(more, type=RareFacts) if more else _NO_RARE
    yield step, key, _usage(usage, rare), rare.detail


def _choice_scores(
    logprobs: Sequence[float], tokens: Sequence[int], sizes: Sequence[int], rare: RareFacts
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


def _usage(known: Sequence[Any], rare: RareFacts) -> Usage:
    names = ("prompt_tokens", "completion_tokens", "cost_usd")
    found = dict(zip(names, known, strict=True)) | {"reasoning_tokens": rare.reasoning_tokens}
    for name in ("unanswered", "superseded"):
        if (value := getattr(rare, name)) is not msgspec.UNSET:
            found[name] = value
    return msgspec.convert(found, Usage)


def _placed(path: Path, places: Sequence[int]) -> Iterator[Sample]:
    """The samples at some places; the table is read again from where a place is no later one."""
    left, at = iter(list[Sample]()), len(places)
    for place in places:
        if place <= at:
            left, at = read_samples(path), -1
        yield from islice(left, place - at - 1, place - at)
        at = place


def _by_row(path: Path) -> Iterator[dict[str, VerdictRecord]]:
    """The verdicts on one answer after the other, without an end."""
    row = 0
    for place, own in groupby(_verdicts(path), key=itemgetter(0)):
        yield from ({} for _ in range(row, place))
        yield {judge: verdict for _, judge, verdict in own}
        row = place + 1
    yield from iter(dict[str, VerdictRecord], None)


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
