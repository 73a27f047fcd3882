"""Published numbers and the data at hand to what our own code makes of them, cell by cell."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harness.data.published import Recomputation, Values, answers, datasets, ishate
from harness.errors import DataError, SpecError, check_names, did_you_mean
from harness.lazy import DataFrame, pandas
from harness.specs.data import COUNTED, DERIVED, NOBODY, CellSpec, GoldenSpec, half_unit
from harness.stats.figures import RULES

Locate = Callable[[str], Path | None]
"""The folder of a source, None where it is not at hand."""
STATES = OK, DIFFERS, KNOWN, TARGET, NO_DATA = (
    *("ok", "differs", "known difference", "target", "no data"),
)
"""How a published number compares with the recomputed one; a target has none."""
_ROUNDING = 1e-9  # of half a unit, which is no exact binary number
RECOMPUTATIONS: Mapping[str, Recomputation] = {
    **datasets.RECOMPUTATIONS,
    **ishate.RECOMPUTATIONS,
    **answers.RECOMPUTATIONS,
}
_Result = tuple[Values, str, str | None]
"""The values of a recomputation, or the status of all its cells and why."""
Figures = Mapping[str, Sequence[float]]
"""The numbers of each cell and input of a paper, by name."""


def verify(papers: Mapping[str, GoldenSpec], locate: Locate) -> DataFrame:
    """Every cell of some papers, in their order; each recomputation is made once a paper.

    The columns are paper, table, cell, published, recomputed (NaN where there is none), tolerance,
    status (of STATES), reason, origin of the published number (printed, DERIVED or COUNTED) and
    by, what it was recomputed of: files, figures (other published numbers), None for nothing.
    """
    cells = []
    for paper, spec in papers.items():
        names = dict.fromkeys(cell.recompute for cell in spec.all_cells if cell.recompute != NOBODY)
        results = {name: _of_files(name, locate) for name in names}
        figures = spec.figures
        for cell in spec.all_cells:
            result = results.get(cell.recompute, ({}, TARGET, cell.reason))
            cells.append({"paper": paper, **_cell(cell, result, figures)})
    return pandas.DataFrame(cells).astype({"recomputed": float})


def _of_files(name: str, locate: Locate) -> _Result:
    """The values of files; where they are not as released, the cells differ."""
    check_names("no recomputation", [name], [*RECOMPUTATIONS, NOBODY])
    recomputation = RECOMPUTATIONS[name]
    folder = locate(recomputation.source)
    if folder is None:
        return {}, NO_DATA, f"no folder {recomputation.source!r} in the data"
    if missing := [name for name in recomputation.files if not (folder / name).is_file()]:
        return {}, NO_DATA, f"no file {recomputation.source}/{missing[0]}"
    try:
        return recomputation.compute(folder), OK, None
    except (DataError, ValueError, LookupError, TypeError, SyntaxError) as error:
        return {}, DIFFERS, f"the files are not as released: {error}"


def by_rule(cell: CellSpec, figures: Figures, here: Figures | None = None) -> float | None:
    """What the rule of a cell makes of figures, or of those that are `here`, if all it takes are.

    SpecError for a name that no figure has.
    """
    check_names("no rule", [str(cell.rule)], RULES)
    names, given = [_names(one, figures) for one in cell.of], figures if here is None else here
    if any(name not in given for own in names for name in own):
        return None
    signs = [-1.0 if one.startswith("-") else 1.0 for one in cell.of]
    parts = [
        [s * n for one in own for n in given[one]] for s, own in zip(signs, names, strict=True)
    ]
    with suppress(ZeroDivisionError):  # a share of nothing
        return RULES[str(cell.rule)](*parts)
    return None


def _names(pattern: str, figures: Figures) -> list[str]:
    """The figures of a name, or those that fit a pattern."""
    name = pattern.removeprefix("-")
    found = [name] if name in figures else [one for one in figures if fnmatchcase(one, name)]
    if not found:
        raise SpecError(f"no cell or input {name!r}{did_you_mean(name, list(figures))}")
    return found


def _cell(spec: CellSpec, result: _Result, figures: Figures) -> dict[str, Any]:
    values, status, reason = result
    tolerance = half_unit(spec.published) if spec.tolerance is None else spec.tolerance
    published, recomputed, by = float(spec.published), None, "files" if status == OK else None
    if spec.rule and status in (TARGET, NO_DATA):
        recomputed, status, reason, by = by_rule(spec, figures), OK, None, "figures"
    elif status == OK:
        check_names(f"recomputation {spec.recompute} has no value", [str(spec.value)], values)
        recomputed = values[str(spec.value)]
    if status == OK and recomputed is None:
        status, reason = DIFFERS, "the data at hand gives no value"
    elif recomputed is not None and not abs(recomputed - published) <= tolerance + _ROUNDING:
        found = spec.found
        is_known = found is not None and abs(recomputed - float(found)) <= half_unit(found)
        status, reason = (KNOWN, spec.known_difference) if is_known else (DIFFERS, None)
    return {
        **{"table": spec.table, "cell": spec.cell, "published": published},
        **{"recomputed": recomputed, "tolerance": tolerance, "status": status, "reason": reason},
        "origin": spec.table if spec.table in (DERIVED, COUNTED) else "printed",
        "by": by,
    }
