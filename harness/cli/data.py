"""The commands on released data: data list, fetch and check; and verify."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.command import ExitCode, option
from harness.cli.options import HOME, AsJson, DataFolder, Home
from harness.cli.output import echo, echo_json, echo_table, log
from harness.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.analysis.verify import VerifiedCell
    from harness.data.download import Checked

Names = Annotated[
    list[str] | None, typer.Argument(metavar="SOURCE...", help="Sources. Default: all.")
]


def list_sources(home: Home = HOME, is_json: AsJson = False) -> int:
    """List the sources of data, their licences and origins."""
    registry = options.registry(home)
    sources = {name: registry.load("configs/data", name) for name in registry.names("configs/data")}
    if is_json:
        echo_json(sources)
        return ExitCode.DONE
    for name, spec in sources.items():
        echo(f"{name}: {spec.about}")
        echo(f"  licence {spec.licence}; {spec.repository} at {spec.commit}; {spec.citation}")
    return ExitCode.DONE


def fetch(names: Names = None, data: DataFolder = None, home: Home = HOME) -> int:
    """Download sources at a fixed commit; refuse files whose sha256 is not the stated one."""
    from harness.data.download import fetch as fetch_source

    registry, folder = options.registry(home), _folder(data)
    for name in names or registry.names("configs/data"):
        spec = registry.load("configs/data", name)
        log(f"{name}: licence {spec.licence}; {spec.citation}")
        for path in fetch_source(name, spec, folder):
            echo(str(path))
    return ExitCode.DONE


def check(
    names: Names = None, data: DataFolder = None, home: Home = HOME, is_json: AsJson = False
) -> int:
    """Compare the files of sources with their stated sha256.

    The exit code is 1 if a file is missing or differs.
    """
    from harness.data.download import check as check_source

    registry, folder = options.registry(home), _folder(options.data_folder(data))
    files: list[Checked] = []
    for name in names or registry.names("configs/data"):
        files += check_source(name, registry.load("configs/data", name), folder)
    if is_json:
        echo_json(files)
    else:
        for file in files:
            echo(f"{file.state:8} {file.path}")
    if missing := sorted({file.source for file in files if file.state == "missing"}):
        log(
            f"missing below {folder}: `harness data fetch {' '.join(missing)}` downloads it; or "
            "name another folder with --data"
        )
    is_ok = all(file.state == "ok" for file in files)
    return ExitCode.DONE if is_ok else ExitCode.CHECK_FAILED


def verify(
    data: DataFolder = None,
    paper: str | None = option("--paper", "Paper: a name in configs/golden/. Default: all.", None),
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Recompute the numbers of published papers from their data; nothing is downloaded or asked.

    A number is ok within half a unit of its last digit. The exit code is 1 if one differs.
    """
    from harness.analysis.verify import SOURCES, CellStatus, verify

    registry = options.registry(home)
    names = [paper] if paper else registry.names("configs/golden")
    papers = {name: registry.load("configs/golden", name) for name in names}
    folder = _folder(options.data_folder(data))
    if data is not None and not any((folder / source).is_dir() for source in SOURCES):
        raise SpecError(
            f"{folder}: no folder of a source in it ({', '.join(sorted(SOURCES))}); name the "
            "folder that holds them"
        )
    cells = verify(papers, lambda name: path if (path := folder / name).is_dir() else None)
    if is_json:
        echo_json(cells)
    else:
        for name, spec in papers.items():
            _put_paper(f"{name}: {spec.paper}", [cell for cell in cells if cell.paper == name])
        counts = ", ".join(f"{sum(c.status == s for c in cells)} {s}" for s in CellStatus)
        echo(f"{len(cells)} cells: {counts}")
    is_wrong = any(cell.status == CellStatus.DIFFERS for cell in cells)
    return ExitCode.CHECK_FAILED if is_wrong else ExitCode.DONE


def _folder(data: Path | None) -> Path:
    return data or options.registry(Path()).cache / "data"


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
    """A value in five digits; a dash for None."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value == round(value) else f"{value:.5g}"
