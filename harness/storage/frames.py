"""The tables of runs as pandas frames: samples, answers, verdicts and scores.

Missing numbers are NaN, missing texts None; names are categories. Nothing here computes a score.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from harness.errors import SpecError
from harness.lazy import DataFrame, pandas
from harness.storage.cells import csv_text
from harness.storage.runs import COLUMNS, RunFolder, cells_of
from harness.storage.schema import FIELD, REFERENCE, STORED, categories

Row = Any
"""A row of `records`."""
Table = Literal["samples", "answers", "verdicts", "scores"]
RUN = ("task", "model", "run")
"""The columns that every loaded frame begins with; `run` is the key of the run, a digest."""
_CATEGORIES = {*RUN, "metric", *(name for table in STORED for name in categories(table))}
_NUMBERS = ("value", "low", "high", "chance", "cost_usd")
_GATHERED = {"fields": FIELD, "references": REFERENCE}


def load(
    folders: Iterable[RunFolder], table: Table, columns: Sequence[str] | None = None
) -> DataFrame:
    """One table of some runs, with the columns `task`, `model` and `run` first.

    `columns` chooses some of the others, in that order; a detail that no verdict has is all NaN.
    Answers begin with `row`, their place. Of samples, `fields` and `references` are dicts of the
    columns that begin so. StoreError where a file of a run was changed since it was written.
    """
    import numpy as np

    facts, parts = list[tuple[str, ...]](), []
    for folder in folders:
        file = folder.read()
        facts.append((file.run.task, file.model.name, folder.key))
        if table == "scores":
            rows = [cells_of(row) for row in folder.read_scores()]
            parts.append(pandas.DataFrame(rows, columns=list(COLUMNS)))
        else:
            parts.append(_stored(folder, table, columns))
    if not parts:
        raise SpecError(f"{table}: no run to load")
    sizes = [*map(len, parts)]
    made = pandas.concat(parts, ignore_index=True) if table == "scores" else _joined(parts)
    if table == "answers":
        made.insert(0, "row", np.concatenate([np.arange(size) for size in sizes]))
    wanted = _GATHERED if columns is None else {n: _GATHERED[n] for n in columns if n in _GATHERED}
    for name, start in wanted.items() if table == "samples" else ():
        made[name] = _dicts(made[[one for one in made.columns if one.startswith(start)]], start)
    if columns is not None:
        made = made.reindex(columns=list(columns))
    for place, name in enumerate(RUN):
        if name not in made.columns:
            codes, names = pandas.factorize(np.array([one[place] for one in facts], dtype=object))
            own = pandas.Categorical.from_codes(np.repeat(codes, sizes), names)
            made.insert(place, name, own)
    named = [name for name in made.columns if name in _CATEGORIES]
    numbers = {name: "float64" for name in made.columns if name in _NUMBERS}
    made = made.astype(dict.fromkeys(named, "category") | numbers)
    for name in named if len(parts) > 1 else ():
        known = made[name].cat.remove_unused_categories()
        made[name] = known.cat.reorder_categories(sorted(known.cat.categories))
    return made


def _joined(parts: Sequence[Any]) -> DataFrame:
    from pyarrow import concat_tables

    made = concat_tables(parts, promote_options="default").unify_dictionaries()
    frame: DataFrame = made.to_pandas(self_destruct=True)
    return frame


def _stored(folder: RunFolder, table: str, columns: Sequence[str] | None) -> Any:  # noqa: ANN401
    """Some columns of a table as a pyarrow.Table."""
    every = (table == "samples" and columns) or ()
    starts = tuple(_GATHERED[name] for name in every if name in _GATHERED)

    def is_wanted(name: str) -> bool:
        return columns is None or name in columns or name.startswith(starts)

    return folder.check_sum(f"{table}.parquet", is_wanted=is_wanted)


def _dicts(columns: DataFrame, start: str) -> list[dict[str, Any]]:
    """One dict a row of what is there, named without the beginning that all columns share."""
    rows = columns.rename(columns=lambda name: name.removeprefix(start))
    return [
        {name: cell for name, cell in row.items() if cell is not None} for row in plain_rows(rows)
    ] or [{} for _ in range(len(columns))]


def plain_rows(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame as dicts, None for what is missing."""
    cells = frame.astype(object)
    found: list[dict[str, Any]] = cells.where(cells.notna(), None).to_dict("records")
    return found


def frame_csv(frame: DataFrame) -> str:
    """A frame as CSV: floats in full precision, what is missing empty, texts formula-safe."""
    return csv_text(list(frame.columns), (row.values() for row in plain_rows(frame)))


def records(frame: DataFrame) -> list[Row]:
    """The rows of a frame as named tuples, with None for what is missing."""
    if frame.empty:
        return []
    found = frame.astype(object)
    return list(found.where(found.notna(), None).itertuples(index=False))
