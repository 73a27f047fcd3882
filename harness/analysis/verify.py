"""Published numbers and the data at hand to what our own code makes of them, cell by cell."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.analysis.published import Recomputation, Values, answers, datasets, ishate, printed
from harness.errors import DataError, SpecError, did_you_mean
from harness.lazy import DataFrame, pandas
from harness.specs.data import DERIVED, NOBODY, RELEASE, CellSpec, GoldenSpec, half_unit

Locate = Callable[[str], Path | None]
"""The folder of a source, None where it is not at hand."""
SOURCES = ("emphasized_talk", "intent_resolution", "topical_chat", "ludwig", "ishate", "hu2022")
"""The folders of the data that recomputations read."""
STATES = OK, DIFFERS, KNOWN, LOST, NO_DATA = (
    *("ok", "differs", "known difference", "not recomputable", "no data"),
)
"""How a published number compares with the recomputed one."""
ORIGINS = {DERIVED: "derived", RELEASE: "release"}
"""Where a number is from that is not printed: from printed ones, or counted in the release."""
_ROUNDING = 1e-9  # of half a unit, which is no exact binary number
RECOMPUTATIONS: Mapping[str, Recomputation] = {
    **datasets.RECOMPUTATIONS,
    **ishate.RECOMPUTATIONS,
    **answers.RECOMPUTATIONS,
    **printed.RECOMPUTATIONS,
}
_Result = tuple[Values, str, str | None]
"""The values of a recomputation, or the status of all its cells and why."""


def verify(papers: Mapping[str, GoldenSpec], locate: Locate) -> DataFrame:
    """Every cell of some papers, in their order; each recomputation is made once a paper.

    The columns are paper, table, cell, published, recomputed (NaN where there is none), tolerance,
    status (of STATES), reason and origin: printed, or one of ORIGINS.
    """
    cells = []
    for paper, spec in papers.items():
        names = dict.fromkeys(cell.recompute for cell in spec.all_cells if cell.recompute != NOBODY)
        results = {name: _result(name, spec, locate) for name in names}
        for cell in spec.all_cells:
            result = results.get(cell.recompute, ({}, LOST, cell.reason))
            cells.append({"paper": paper, **_cell(cell, result)})
    return pandas.DataFrame(cells).astype({"recomputed": float})


def _result(name: str, spec: GoldenSpec, locate: Locate) -> _Result:
    if name not in RECOMPUTATIONS:
        raise SpecError(f"no recomputation {name!r}{did_you_mean(name, [*RECOMPUTATIONS, NOBODY])}")
    recomputation = RECOMPUTATIONS[name]
    if recomputation.source:
        return _of_files(recomputation, locate(recomputation.source))
    try:
        return recomputation.compute(spec.numbers), OK, None
    except KeyError as error:
        raise SpecError(
            f"{spec.paper}: recomputation {name} needs an input {error}; "
            f"given: {', '.join(spec.numbers) or 'none'}"
        ) from None


def _of_files(recomputation: Recomputation, folder: Path | None) -> _Result:
    """The values of files; where one cannot be read the cells differ, for something is amiss."""
    if folder is None:
        return {}, NO_DATA, f"no folder {recomputation.source!r} in the data"
    if missing := [name for name in recomputation.files if not (folder / name).is_file()]:
        return {}, NO_DATA, f"no file {recomputation.source}/{missing[0]}"
    try:
        return recomputation.compute(folder), OK, None
    except DataError as error:
        return {}, DIFFERS, str(error)


def _cell(spec: CellSpec, result: _Result) -> dict[str, Any]:
    values, status, reason = result
    tolerance = half_unit(spec.published) if spec.tolerance is None else spec.tolerance
    published, recomputed = float(spec.published), None
    if status == OK:
        if spec.value not in values:
            raise SpecError(
                f"recomputation {spec.recompute} has no value {spec.value!r}"
                f"{did_you_mean(str(spec.value), list(values))}"
            )
        recomputed = values[str(spec.value)]
        if recomputed is None:
            status, reason = DIFFERS, "the data at hand gives no value"
        elif abs(recomputed - published) > tolerance + _ROUNDING:
            found = spec.found
            is_known = found is not None and abs(recomputed - float(found)) <= half_unit(found)
            status, reason = (KNOWN, spec.known_difference) if is_known else (DIFFERS, None)
    return {
        **{"table": spec.table, "cell": spec.cell, "published": published},
        **{"recomputed": recomputed, "tolerance": tolerance, "status": status, "reason": reason},
        "origin": ORIGINS.get(spec.table, "printed"),
    }
