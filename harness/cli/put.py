"""Results as commands put them: to files, with a figure, and on the screen."""

from collections.abc import Callable, Mapping, Sized
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ModelError
from harness.lazy import DataFrame
from harness.present.screen import say, show_json, warn
from harness.storage.files import write_whole
from harness.storage.frames import frame_csv, plain_rows

if TYPE_CHECKING:
    from harness.present.figures.figure import Figure


def put_rows(
    rows: Sized,
    files: Mapping[Path, str],
    show: Callable[[], object],
    *,
    is_json: bool,
    chart: "Figure | None" = None,
) -> None:
    """Write a result's table and the figure of a chart; then print it as JSON or by `show`.

    Without a file the result is only printed.
    """
    for path, text in files.items():
        write_whole(path, text.encode())
    table = next(iter(files), None)
    drawn = "" if chart is None or table is None else draw_beside(table, chart)
    if is_json:
        show_json(rows)
        return
    show()
    if table is not None:
        say(f"wrote {len(rows)} rows to {table}{drawn}")


def put_frame(
    frame: DataFrame,
    table: Path | None,
    show: Callable[[], object],
    *,
    is_json: bool,
    chart: "Figure | None" = None,
) -> None:
    """As `put_rows`, of a frame."""
    files = {table: frame_csv(frame)} if table else {}
    put_rows(plain_rows(frame), files, show, is_json=is_json, chart=chart)


def draw_beside(table: Path, chart: "Figure") -> str:
    """Write the figure of a table as SVG next to it, and say so; or what to install first."""
    from harness.present.figures.figure import pictures

    path = table.with_suffix(".svg")
    try:
        write_whole(path, pictures(chart, [".svg"])[".svg"])
    except ModelError as error:
        warn(f"no figure is drawn: {error}")
        return ""
    return f", a figure to {path}"
