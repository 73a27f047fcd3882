"""What the YAML of published numbers may say: cells, what recomputes each, what is known of it."""

from typing import Annotated

from msgspec import Meta, field

from harness.specs.schema import Spec

NOBODY = "none"
# A number as it is printed: in quotes where it has decimals, for YAML drops its last noughts.
Printed = int | Annotated[str, Meta(pattern=r"^[+-]?[0-9]*\.[0-9]+$")]


def half_unit(printed: Printed) -> float:
    """Half a unit of the last printed digit: what rounding may have taken or added."""
    decimals = len(printed.partition(".")[2]) if isinstance(printed, str) else 0
    return 0.5 * 10.0**-decimals


class CellSpec(Spec, frozen=True, kw_only=True):
    """One published number: the value of a recomputation it should equal, or why there is none.

    `known_difference` says why the recomputed value is `found` and not the published one.
    """

    table: str
    cell: str
    published: Printed
    tolerance: float | None = None
    recompute: str = NOBODY
    value: str | None = None
    reason: str | None = None
    known_difference: str | None = None
    found: Printed | None = None

    def __post_init__(self) -> None:
        is_lost = self.recompute == NOBODY
        if is_lost == (self.reason is None) or is_lost != (self.value is None):
            raise ValueError(
                f"cell {self.cell!r}: give `recompute` and `value`, or `recompute: {NOBODY}` and "
                "a `reason`"
            )
        if (self.known_difference is None) != (self.found is None):
            raise ValueError(f"cell {self.cell!r}: `known_difference` and `found` go together")


class PrintedTable(Spec, frozen=True, kw_only=True):
    """A table whose own cells nobody can recompute; its columns are inputs of recomputations."""

    table: str
    reason: str
    rows: tuple[str, ...]
    columns: dict[str, tuple[Printed, ...]]

    def __post_init__(self) -> None:
        for name, values in self.columns.items():
            if len(values) != len(self.rows):
                raise ValueError(
                    f"column {name!r} has {len(values)} values for {len(self.rows)} rows"
                )

    @property
    def cells(self) -> tuple[CellSpec, ...]:
        """Every cell of the table."""
        return tuple(
            CellSpec(table=self.table, cell=f"{row}, {name}", published=value, reason=self.reason)
            for name, values in self.columns.items()
            for row, value in zip(self.rows, values, strict=True)
        )


class GoldenSpec(Spec, frozen=True, kw_only=True):
    """The published numbers of one paper or source, and those that some are computed from."""

    paper: str
    about: str
    cells: tuple[CellSpec, ...] = ()
    printed: tuple[PrintedTable, ...] = ()
    inputs: dict[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def all_cells(self) -> tuple[CellSpec, ...]:
        """The cells of the printed tables, then the others."""
        return (*(cell for table in self.printed for cell in table.cells), *self.cells)

    @property
    def numbers(self) -> dict[str, tuple[float, ...]]:
        """The columns of the printed tables and the other inputs, by name."""
        columns = {
            name: tuple(float(value) for value in values)
            for table in self.printed
            for name, values in table.columns.items()
        }
        return {**columns, **self.inputs}
