"""The command that recomputes published numbers: verify."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.options import HOME, AsJson, Home
from harness.cli.output import echo, echo_json, echo_table
from harness.errors import SpecError

if TYPE_CHECKING:
    from harness.analysis.verify import VerifiedCell

Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        envvar="HARNESS_DATA",
        help="Data folder, one subfolder a source. Default: what `harness data fetch` has fetched.",
    ),
]
Paper = Annotated[
    str | None, typer.Option("--paper", help="One file of configs/golden/ by name; default: all.")
]


def verify(
    data: Data = None, paper: Paper = None, home: Home = HOME, is_json: AsJson = False
) -> int:
    """Recompute published numbers from the data at hand; 1 where one differs.

    Offline: nothing is fetched or asked. A number is ok within half a unit of its last digit.
    """
    from harness.analysis.verify import SOURCES, CellStatus, verify

    registry = options.registry(home)
    names = [paper] if paper else registry.names("configs/golden")
    papers = {name: registry.golden(name) for name in names}
    folder = options.data_folder(data)
    if folder is not None and not any((folder / source).is_dir() for source in SOURCES):
        raise SpecError(
            f"{folder}: no folder of a source in it ({', '.join(sorted(SOURCES))}); name the "
            "folder that holds them"
        )
    cells = verify(papers, _locate(folder, registry.cache / "data"))
    if is_json:
        echo_json(cells)
    else:
        for name, spec in papers.items():
            _put_paper(f"{name}: {spec.paper}", [cell for cell in cells if cell.paper == name])
        counts = ", ".join(f"{sum(c.status == s for c in cells)} {s}" for s in CellStatus)
        echo(f"{len(cells)} cells: {counts}")
    return int(any(cell.status == CellStatus.DIFFERS for cell in cells))


def _locate(data: Path | None, fetched: Path) -> Callable[[str], Path | None]:
    """Where a source lies: in the data folder a command is told of, else among the fetched."""
    parent = data or fetched
    return lambda source: parent / source if (parent / source).is_dir() else None


def _put_paper(title: str, cells: "Sequence[VerifiedCell]") -> None:
    head = ("table", "cell", "published", "recomputed", "difference", "status")
    rows = [
        (
            cell.table,
            cell.cell,
            _number(cell.published),
            _number(cell.recomputed),
            _number(cell.difference),
            f"{cell.status} ({cell.reason})" if cell.reason else str(cell.status),
        )
        for cell in cells
    ]
    echo_table(title, head, rows)


def _number(value: float | None) -> str:
    """A value for a table: five digits, a dash where there is none."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value == round(value) else f"{value:.5g}"
