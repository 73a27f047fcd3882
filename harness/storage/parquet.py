"""Records of a run to a file of Parquet and back: a column a key of samples.jsonl, a row a line.

Parts of a record stay lists, structs and maps; a missing value is null. What holds others of its
own kind, as usage holds that of superseded calls, is there as JSON text.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from harness.errors import DataError
from harness.storage.cells import decode_json, json_text
from harness.storage.files import write_whole
from harness.storage.rebuilt import blocks_of
from harness.storage.runs import SampleRecord

if TYPE_CHECKING:
    from pyarrow import DataType
    from pyarrow.parquet import ParquetFile

ROWS = 2_000
"""The rows that are held, and written or read, at once."""
_OURS = "harness."


def write_records(
    out: Path, records: Iterable[SampleRecord], about: Mapping[str, bytes] | None = None
) -> int:
    """Write records as a file of Parquet; how many there were. `about` has what else it says."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    kind = _arrow(inspect.type_info(SampleRecord))
    fitted, said = _fitting(kind), {f"{_OURS}{name}": text for name, text in (about or {}).items()}
    part, count = out.with_name(f".{out.name}.{token_hex(4)}"), 0
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        with ParquetWriter(part, schema := pyarrow.schema([*kind], said)) as writer:
            for chunk in _chunks(records):
                rows = [fitted(msgspec.to_builtins(record)) for record in chunk]
                writer.write_table(pyarrow.Table.from_pylist(rows, schema))
                count += len(rows)
        write_whole(out, blocks_of(part))
    except (pyarrow.ArrowException, UnicodeEncodeError, OverflowError) as error:
        raise DataError(f"{out}: Parquet cannot hold a value ({error}); use .jsonl") from error
    finally:
        part.unlink(missing_ok=True)
    return count


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


def _chunks(records: Iterable[SampleRecord]) -> Iterator[list[SampleRecord]]:
    left = iter(records)
    while chunk := list(islice(left, ROWS)):
        yield chunk


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
