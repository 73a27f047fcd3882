"""The tables of runs as pandas frames: samples, answers, verdicts and scores.

Missing numbers are NaN, missing texts None; names are categories. Nothing here computes a score.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from harness.errors import SpecError
from harness.storage.cells import csv_text
from harness.storage.read_tables import opened
from harness.storage.runs import COLUMNS, RunFolder, cells_of
from harness.storage.schema import FIELD, REFERENCE, STORED, categories

if TYPE_CHECKING:
    from pandas import DataFrame

Table = Literal["samples", "answers", "verdicts", "scores"]
RUN = ("task", "model", "run")
"""The columns that every loaded frame begins with; `run` is the digest that names the folder."""
SAMPLE, ANSWER, VERDICT = (tuple(column.name for column in columns) for columns in STORED.values())
"""The columns of a frame, in their order; those of fields, references and details come after.

The first column of answers is `row`, their place, by which verdicts name them.
"""
_CATEGORIES = frozenset(
    {
        *(*RUN, "metric"),
        *(name for table in STORED for name in categories(table)),
    }
)
_NUMBERS = ("value", "low", "high", "chance", "cost_usd")
_GATHERED = {"fields": FIELD, "references": REFERENCE}


def load(
    folders: Iterable[RunFolder], table: Table, columns: Sequence[str] | None = None
) -> "DataFrame":
    """One table of some runs, with the columns `task`, `model` and `run` first.

    `columns` chooses some of the others, in that order; a detail that no verdict has is all NaN.
    Of samples, `fields` and `references` are dicts of the columns that begin so. StoreError where
    a file of a run was changed since it was written.
    """
    import pandas

    frames = []
    for folder in folders:
        file = folder.read()
        found = _scores(folder) if table == "scores" else _stored(folder, table, columns)
        if columns is not None:
            found = found.reindex(columns=list(columns))
        of_run = dict(zip(RUN, (file.run.task, file.model.name, folder.path.name), strict=True))
        for place, (name, value) in enumerate(of_run.items()):
            if name not in found.columns:
                found.insert(place, name, value)
        frames.append(found)
    if not frames:
        raise SpecError(f"{table}: no run to load")
    made = frames[0] if len(frames) == 1 else pandas.concat(frames, ignore_index=True)
    kinds = {name: "category" for name in made.columns if name in _CATEGORIES}
    kinds |= {name: "float64" for name in made.columns if name in _NUMBERS}
    return made.astype(kinds)


def _stored(folder: RunFolder, table: str, columns: Sequence[str] | None) -> "DataFrame":
    path = folder.path / f"{table}.parquet"
    folder.check_sum(path.name)
    with opened(path, categories(table)) as file:
        known = file.schema_arrow.names
        gathered = {
            name: [column for column in known if column.startswith(start)]
            for name, start in _GATHERED.items()
            if table == "samples" and (columns is None or name in columns)
        }
        wanted = known if columns is None else [name for name in columns if name in known]
        more = [name for some in gathered.values() for name in some if name not in wanted]
        found = file.read([*wanted, *more]).to_pandas(self_destruct=True)
    if table == "answers":
        found.insert(0, "row", range(len(found)))
    for name, own in gathered.items():
        found[name] = _dicts(found[own], _GATHERED[name])
    return found


def _dicts(columns: "DataFrame", start: str) -> list[dict[str, Any]]:
    """One dict a row of what is there, named without the beginning that all columns share."""
    called = [name.removeprefix(start) for name in columns.columns]
    return [
        {name: cell for name, cell in zip(called, row, strict=True) if cell is not None}
        for row in columns.astype(object).where(columns.notna(), None).itertuples(index=False)
    ]


def _scores(folder: RunFolder) -> "DataFrame":
    import pandas

    rows = [cells_of(row) for row in folder.read_scores()]
    return pandas.DataFrame(rows, columns=list(COLUMNS))


def plain_rows(frame: "DataFrame") -> list[dict[str, Any]]:
    """The rows of a frame as dicts, None for what is missing."""
    cells = frame.astype(object)
    found: list[dict[str, Any]] = cells.where(cells.notna(), None).to_dict("records")
    return found


def frame_csv(frame: "DataFrame") -> str:
    """A frame as CSV: floats in full precision, what is missing empty, texts formula-safe."""
    return csv_text(list(frame.columns), (row.values() for row in plain_rows(frame)))


def records(frame: "DataFrame") -> list[Any]:
    """The rows of a frame as named tuples, with None for what is missing."""
    found = frame.astype(object)
    return list(found.where(found.notna(), None).itertuples(index=False))
