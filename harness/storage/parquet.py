"""The records of a run to a file of Parquet: a column a key of samples.jsonl, a row a line.

Parts of a record stay lists, structs and maps; a missing value is null. What holds others of its
own kind, as usage holds that of superseded calls, is there as JSON text.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from harness.errors import DataError
from harness.storage.cells import json_text
from harness.storage.files import write_whole
from harness.storage.rebuilt import blocks_of
from harness.storage.runs import SampleRecord

if TYPE_CHECKING:
    from pyarrow import DataType

ROWS = 2_000
"""The rows that are held, and written, at once."""


def write_records(out: Path, records: Iterable[SampleRecord]) -> int:
    """Write records as a file of Parquet; how many there were."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    kind = _arrow(inspect.type_info(SampleRecord))
    fitted = _fitting(kind)
    part, count = out.with_name(f".{out.name}.{token_hex(4)}"), 0
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        with ParquetWriter(part, schema := pyarrow.schema([*kind])) as writer:
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
