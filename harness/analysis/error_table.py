"""Missed texts and false alarms of a run to a table: the user's own rows, with what was said."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import structs

from harness.analysis.flags import RateQuery, crossed, flags, sample_cells
from harness.analysis.rates import RateTexts
from harness.data.readers.labelled_table import OriginalRows, texts_of
from harness.data.split import picked
from harness.errors import DataError, check_names
from harness.lazy import DataFrame, pandas
from harness.pipeline.choice_scores import IMPLICITNESS
from harness.storage.cells import filled, json_text
from harness.storage.environment import read_data_paths
from harness.storage.frames import load
from harness.storage.runs import RunFolder
from harness.storage.tables import FileFormat, Table
from harness.workspace import Workspace

MISSED, FALSE_ALARM, ALL_KINDS = "missed", "false-alarm", "all"
KINDS = (MISSED, FALSE_ALARM, ALL_KINDS)
_NUMBERS: Final = ("score", IMPLICITNESS)
_COLUMNS: Final = (
    *("error", "answer", "verdict", *_NUMBERS, "label", "variant", "decoding", "id", "row"),
)


def read_rate_texts(
    workspace: Workspace, folder: RunFolder, query: RateQuery, table: str | None = None
) -> RateTexts:
    """The flagged texts of a run, with the columns of the query that it keeps or its data has."""
    texts, cells = flags(folder, query), sample_cells(folder)
    asked = dict.fromkeys(part for name in query.by for part in crossed(name, list(cells)))
    wanted = [name for name in asked if name not in cells]
    originals = originals_of(workspace, folder, table) if wanted else None
    if originals is not None:
        added = {name: _data_cells(originals, name, cells.index) for name in wanted}
        cells = cells.assign(**added)
    return texts, query, cells


def _data_cells(originals: OriginalRows, name: str, samples: Any) -> Any:  # noqa: ANN401 - an index and a column
    """The texts that the data has in a column, by sample."""
    columns, rows = originals.table.columns, originals.rows
    fact = f"{', '.join(map(str, originals.files))}: no column"
    check_names(fact, [name], [one for one in columns if one], error=DataError)
    own = originals.table.cells(columns.index(name))
    found = [texts_of(filled(own[rows[one]])) if one in rows else () for one in samples]
    return pandas.Series(found, index=samples, dtype=object)


def originals_of(
    workspace: Workspace, folder: RunFolder, table: str | None = None
) -> OriginalRows | None:
    """The rows of the user's table that a run is of; None for what is no table."""
    file = folder.read()
    spec = file.task.data
    if spec.map is None or file.data.mode == "sample":
        return None
    spec = structs.replace(spec, map=table) if table else spec
    return workspace.original_rows(spec, file.data, read_data_paths(folder))


def run_errors(folder: RunFolder, texts: DataFrame, kind: str) -> DataFrame:
    """The `texts` (of `flags`) that were flagged other than their label says, in the run's order.

    What has no answer is no error. `error` is of KINDS, as `kind` is; `verdict` says it in words.
    """
    known = texts[texts["is_measured"] & texts["flagged"].notna()]
    found = known[known["flagged"] != known["is_positive"].astype(float)]
    found = found.assign(
        error=found["is_positive"].map({True: MISSED, False: FALSE_ALARM}),
        verdict=found["flagged"].map({0.0: "not flagged", 1.0: "flagged"}).fillna("tie"),
    )
    if kind != ALL_KINDS:
        found = found[found["error"] == kind]
    answers = load([folder], "answers", ["row", "answer"])[["row", "answer"]]
    samples = load([folder], "samples", ["sample", "gold", "group", "fields", "references"])
    samples = samples.drop(columns=["task", "model", "run"]).astype({"sample": object})
    return found.merge(answers, on="row").merge(samples, on="sample").reset_index(drop=True)


def error_table(errors: DataFrame, originals: OriginalRows | None) -> tuple[Table, DataFrame]:
    """The rows of some errors in the data, and columns of what the run says of each."""
    names, rows = list(errors["sample"]), originals.rows if originals else {}
    if originals and (unknown := [name for name in names if name not in rows]):
        fact = f"text {unknown[0]} is not in the data as its column map now reads it"
        raise DataError(f"{fact}; put the map back to what it was when the run was made")
    table = picked(originals.table, [rows[n] for n in names]) if originals else _kept(errors)
    places = [originals.places[rows[name]] if originals else None for name in names]
    found = errors.assign(label=errors["gold"], id=errors["sample"], row=places)[list(_COLUMNS)]
    kinds = {name: "float64" if name in _NUMBERS else "object" for name in _COLUMNS}
    free = {name: _free(f"harness_{name}", table.columns) for name in _COLUMNS}
    return table, found.astype(kinds).rename(columns=free)


def error_frame(errors: DataFrame, originals: OriginalRows | None) -> DataFrame:
    """The columns of `error_table` as a frame."""
    table, added = error_table(errors, originals)
    cells = {name: table.cells(at) for at, name in enumerate(table.columns)}
    return pandas.concat([pandas.DataFrame(cells), added.reset_index(drop=True)], axis=1)


def _kept(errors: DataFrame) -> Table:
    """What a run keeps of the texts, for data that is no table of the user's."""
    parts = errors[["sample", "fields", "references", "group"]].itertuples(index=False)
    rows = [
        {
            "id": sample,
            **fields,
            **{n: own[0] if len(own) == 1 else json_text([*own]) for n, own in references.items()},
            "group": group,
        }
        for sample, fields, references, group in parts
    ]
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    cells = [[row.get(name) for row in rows] for name in columns]
    return Table(FileFormat.PARQUET, columns, range(1, len(rows) + 1), cells.__getitem__)


def _free(name: str, taken: Sequence[str]) -> str:
    return _free(f"{name}_", taken) if name in taken else name
