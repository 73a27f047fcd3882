"""Published numbers and the data at hand to what our own code makes of them, cell by cell.

Nothing is fetched, asked or printed. What was published is in configs/golden/ alone; what
recomputes it is a function of `published/`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from harness.analysis.published import (
    Recomputation,
    Values,
    answers,
    datasets,
    ishate,
    printed,
)
from harness.errors import DataError, SpecError, did_you_mean
from harness.specs.data import DERIVED, NOBODY, RELEASE, CellSpec, GoldenSpec, half_unit

Locate = Callable[[str], Path | None]
"""The folder of a source, None where it is not at hand."""

SOURCES = ("emphasized_talk", "intent_resolution", "topical_chat", "ludwig", "ishate", "hu2022")
"""The folders of the data that recomputations read."""
_ROUNDING = 1e-9  # of half a unit, which is no exact binary number


class CellStatus(StrEnum):
    """How a published number compares with the recomputed one."""

    OK = "ok"
    DIFFERS = "differs"
    KNOWN = "known difference"
    LOST = "not recomputable"
    NO_DATA = "no data"


@dataclass(frozen=True, slots=True)
class VerifiedCell:
    """One published number and the recomputed one, None where there is none."""

    paper: str
    table: str
    cell: str
    published: float
    recomputed: float | None
    tolerance: float
    status: CellStatus
    reason: str | None = None

    @property
    def difference(self) -> float | None:
        """Recomputed less published."""
        return None if self.recomputed is None else self.recomputed - self.published

    @property
    def origin(self) -> Literal["printed", "derived", "release"]:
        """Whether the published number is printed, follows from printed ones, or was counted."""
        if self.table == DERIVED:
            return "derived"
        return "release" if self.table == RELEASE else "printed"


@dataclass(frozen=True, slots=True)
class _Result:
    """What a recomputation gave: values, or the status of all its cells and why."""

    values: Values
    status: CellStatus = CellStatus.OK
    reason: str | None = None


RECOMPUTATIONS: Mapping[str, Recomputation] = {
    **datasets.RECOMPUTATIONS,
    **ishate.RECOMPUTATIONS,
    **answers.RECOMPUTATIONS,
    **printed.RECOMPUTATIONS,
}


def verify(papers: Mapping[str, GoldenSpec], locate: Locate) -> list[VerifiedCell]:
    """Every cell of some papers, in their order; each recomputation is made once a paper."""
    cells: list[VerifiedCell] = []
    for paper, spec in papers.items():
        names = dict.fromkeys(cell.recompute for cell in spec.all_cells if cell.recompute != NOBODY)
        results = {name: _result(name, spec, locate) for name in names}
        cells += [_cell(paper, cell, results.get(cell.recompute)) for cell in spec.all_cells]
    return cells


def _result(name: str, spec: GoldenSpec, locate: Locate) -> _Result:
    if name not in RECOMPUTATIONS:
        raise SpecError(f"no recomputation {name!r}{did_you_mean(name, [*RECOMPUTATIONS, NOBODY])}")
    recomputation = RECOMPUTATIONS[name]
    if recomputation.source:
        return _of_files(recomputation, locate(recomputation.source))
    try:
        return _Result(recomputation.compute(spec.numbers))
    except KeyError as error:
        raise SpecError(
            f"{spec.paper}: recomputation {name} needs an input {error}; "
            f"given: {', '.join(spec.numbers) or 'none'}"
        ) from None


def _of_files(recomputation: Recomputation, folder: Path | None) -> _Result:
    """The values of files; where one cannot be read the cells differ, for something is amiss."""
    if folder is None:
        return _Result({}, CellStatus.NO_DATA, f"no folder {recomputation.source!r} in the data")
    if missing := [name for name in recomputation.files if not (folder / name).is_file()]:
        return _Result({}, CellStatus.NO_DATA, f"no file {recomputation.source}/{missing[0]}")
    try:
        return _Result(recomputation.compute(folder))
    except DataError as error:
        return _Result({}, CellStatus.DIFFERS, str(error))


def _cell(paper: str, spec: CellSpec, result: _Result | None) -> VerifiedCell:
    result = result or _Result({}, CellStatus.LOST, spec.reason)
    tolerance = half_unit(spec.published) if spec.tolerance is None else spec.tolerance
    recomputed, status, reason = None, result.status, result.reason
    if status == CellStatus.OK:
        if spec.value is None or spec.value not in result.values:
            raise SpecError(
                f"recomputation {spec.recompute} has no value {spec.value!r}"
                f"{did_you_mean(str(spec.value), list(result.values))}"
            )
        recomputed = result.values[spec.value]
        status, reason = _status(spec, recomputed, tolerance)
    published = float(spec.published)
    names = (paper, spec.table, spec.cell)
    return VerifiedCell(*names, published, recomputed, tolerance, status, reason)


def _status(
    spec: CellSpec, recomputed: float | None, tolerance: float
) -> tuple[CellStatus, str | None]:
    if recomputed is None:
        return CellStatus.DIFFERS, "the data at hand gives no value"
    if abs(recomputed - float(spec.published)) <= tolerance + _ROUNDING:
        return CellStatus.OK, None
    if spec.found is not None and abs(recomputed - float(spec.found)) <= half_unit(spec.found):
        return CellStatus.KNOWN, spec.known_difference
    return CellStatus.DIFFERS, None
