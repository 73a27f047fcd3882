"""The commands on released data: data list, data fetch, data check."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.options import HOME, AsJson, Data, Home
from harness.cli.output import echo, echo_json, log

if TYPE_CHECKING:
    from harness.data.download import Checked

app = typer.Typer(
    help="Released data sets: list, fetch by commit and sha256, check.", rich_markup_mode=None
)
Names = Annotated[list[str] | None, typer.Argument(help="Sources; default: all.")]


@app.command("list")
def list_sources(home: Home = HOME, is_json: AsJson = False) -> int:
    """List the sources, their licences and where they come from."""
    registry = options.registry(home)
    found = {name: registry.source(name) for name in registry.names("configs/data")}
    if is_json:
        echo_json(found)
        return 0
    for name, spec in found.items():
        echo(f"{name}: {spec.about}")
        echo(f"  licence {spec.licence}; {spec.repository} at {spec.commit}; {spec.citation}")
    return 0


@app.command()
def fetch(names: Names = None, data: Data = None, home: Home = HOME) -> int:
    """Download sources by commit and keep only what has the stated sha256."""
    from harness.data.download import fetch as fetch_source

    registry, folder = options.registry(home), _folder(data)
    for name in names or registry.names("configs/data"):
        spec = registry.source(name)
        log(f"{name}: licence {spec.licence}; {spec.citation}")
        for path in fetch_source(name, spec, folder):
            echo(str(path))
    return 0


@app.command()
def check(
    names: Names = None, data: Data = None, home: Home = HOME, is_json: AsJson = False
) -> int:
    """Compare the files of sources with their stated sha256; 1 where one is missing or differs."""
    from harness.data.download import check as check_source

    registry, folder = options.registry(home), _folder(options.data_folder(data))
    found: list[Checked] = []
    for name in names or registry.names("configs/data"):
        found += check_source(name, registry.source(name), folder)
    if is_json:
        echo_json(found)
    else:
        for part in found:
            echo(f"{part.state:8} {part.path}")
    if lost := sorted({part.source for part in found if part.state == "missing"}):
        log(f"missing below {folder}: `harness data fetch {' '.join(lost)}`, or name it by --data")
    return 0 if all(part.state == "ok" for part in found) else 1


def _folder(data: Path | None) -> Path:
    """The data folder a command is told of, else the cache."""
    return data or options.cache_folder() / "data"
