"""Rows to Parquet in parts; and records of a run: a column a key of samples.jsonl, a row a line.

Parts of a record stay lists, structs and maps; a missing value is null. What holds others of its
own kind, as usage holds that of superseded calls, is there as JSON text.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import RawIOBase
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from harness.errors import DataError
from harness.storage.cells import decode_json, json_text
from harness.storage.files import write_whole
from harness.storage.runs import SampleRecord

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from pyarrow import DataType, Schema
    from pyarrow.parquet import ParquetFile

ROWS = 2_000
"""The rows that are held, and written or read, at once."""
_OURS = "harness."


class _Drained(RawIOBase):
    """A file whose bytes are taken out as they come."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: "ReadableBuffer") -> int:
        self._parts.append(bytes(data))
        self._size += len(self._parts[-1])
        return len(self._parts[-1])

    def taken(self) -> bytes:
        """What was written since."""
        data = b"".join(self._parts)
        self._parts.clear()
        return data


def parquet_blocks(
    schema: "Schema", rows: Iterable[Mapping[str, object]], *, remedy: str
) -> Iterator[bytes]:
    """A file of Parquet by and by: a group of rows is held; DataError for what it cannot hold."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    file, left = _Drained(), iter(rows)
    try:
        with ParquetWriter(file, schema) as writer:
            while group := list(islice(left, ROWS)):
                writer.write_table(pyarrow.Table.from_pylist(group, schema))
                yield file.taken()
        yield file.taken()
    except (pyarrow.ArrowException, UnicodeEncodeError, OverflowError) as error:
        raise DataError(f"Parquet cannot hold a value ({error}); {remedy}") from error


def write_records(
    out: Path, records: Iterable[SampleRecord], about: Mapping[str, bytes] | None = None
) -> None:
    """Write records as a file of Parquet; `about` has what else it says."""
    from pyarrow import schema

    kind = _arrow(inspect.type_info(SampleRecord))
    fitted, said = _fitting(kind), {f"{_OURS}{name}": text for name, text in (about or {}).items()}
    rows = (fitted(msgspec.to_builtins(record)) for record in records)
    write_whole(out, parquet_blocks(schema([*kind], said), rows, remedy="use .jsonl"))


def said_of(path: Path) -> dict[str, bytes]:
    """What `write_records` was told about the records of a file; nothing where it wrote none."""
    with _opened(path) as file:
        said: dict[bytes, bytes] = file.schema_arrow.metadata or {}
        own = {key.decode("utf-8", "replace"): text for key, text in said.items()}
    return {key.removeprefix(_OURS): text for key, text in own.items() if key.startswith(_OURS)}


def read_records(path: Path) -> Iterator[list[SampleRecord]]:
    """The records of a file that `write_records` wrote, in parts; DataError for others."""
    plain, count = _plain(inspect.type_info(SampleRecord)), 0
    with _opened(path) as file:
        for batch in file.iter_batches(batch_size=ROWS):
            try:
                rows = batch.to_pylist(maps_as_pydicts="strict")
                yield [msgspec.convert(plain(row), SampleRecord) for row in rows]
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                where = f"{path}: rows {count + 1} to {count + len(batch)}"
                fact = f"no answers as `export parquet` writes them ({error})"
                raise DataError(f"{where}: {fact}; export them again") from error
            count += len(batch)


@contextmanager
def _opened(path: Path) -> "Iterator[ParquetFile]":
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            yield file
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        said = " ".join(str(error).split())
        raise DataError(f"{path}: not a Parquet file ({said}); copy it again") from error


def _arrow(kind: inspect.Type, above: tuple[type, ...] = ()) -> "DataType":
    """The type of Parquet for a type of a record; `above` are those that it is a part of."""
    import pyarrow

    match kind:
        case inspect.UnionType(types):
            [one] = (each for each in types if not isinstance(each, inspect.NoneType))
            return _arrow(one, above)
        case inspect.DictType(_, value):
            return pyarrow.map_(pyarrow.string(), _arrow(value, above))
        case inspect.VarTupleType(item):
            return pyarrow.list_(_arrow(item, above))
        case inspect.DataclassType(made, fields) if made not in above:
            inside = (*above, made)
            return pyarrow.struct([(one.name, _arrow(one.type, inside)) for one in fields])
        case inspect.FloatType():
            return pyarrow.float64()
        case inspect.IntType():
            return pyarrow.int64()
        case inspect.BoolType():
            return pyarrow.bool_()
        case _:
            return pyarrow.string()


def _fitting(kind: "DataType") -> Callable[[Any], Any]:
    """What makes of a JSON value one that a type of Parquet takes."""
    from pyarrow import types

    if types.is_struct(kind):
        parts = [(one.name, _fitting(one.type)) for one in kind]
        return lambda value: (
            value if value is None else {name: make(value.get(name)) for name, make in parts}
        )
    if types.is_map(kind):
        item = _fitting(kind.item_type)
        return lambda value: [(name, item(part)) for name, part in value.items()]
    if types.is_list(kind):
        each = _fitting(kind.value_type)
        return lambda value: value if value is None else [each(part) for part in value]
    return lambda value: json_text(value) if isinstance(value, dict) else value


def _plain(kind: inspect.Type, above: tuple[type, ...] = ()) -> Callable[[Any], Any]:
    """What makes a JSON value again of what a column of Parquet has for a type of a record."""
    match kind:
        case inspect.UnionType(types):
            [one] = (each for each in types if not isinstance(each, inspect.NoneType))
            some = _plain(one, above)
            return lambda value: None if value is None else some(value)
        case inspect.DictType(_, value_kind):
            item = _plain(value_kind, above)
            return lambda value: {name: item(part) for name, part in value.items()}
        case inspect.VarTupleType(item_kind):
            each = _plain(item_kind, above)
            return lambda value: [each(part) for part in value]
        case inspect.DataclassType(made, fields) if made not in above:
            parts = [(f.encode_name, _plain(f.type, (*above, made)), _has_none(f)) for f in fields]
            return lambda value: {
                name: make(value[name])
                for name, make, has_none in parts
                if has_none or value[name] is not None
            }
        case inspect.DataclassType():
            return decode_json
        case _:
            return lambda value: value


def _has_none(field: inspect.Field) -> bool:
    """Whether null is a value of a field, and does not say that a line lacks it."""
    kinds = field.type.types if isinstance(field.type, inspect.UnionType) else ()
    return any(isinstance(kind, inspect.NoneType) for kind in kinds)
