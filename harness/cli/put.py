"""Results as commands put them: to files, with a figure, and on the screen."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ModelError
from harness.lazy import DataFrame
from harness.present.screen import say, show_json, warn
from harness.storage.files import write_whole
from harness.storage.frames import frame_csv, plain_rows

if TYPE_CHECKING:
    from harness.present.figures.figure import Figure


def put_frame(
    frame: DataFrame,
    table: Path | None,
    show: Callable[[], object],
    *,
    is_json: bool,
    chart: "Figure | None" = None,
) -> None:
    """Write a result's table and the figure of a chart; then print it as JSON or by `show`."""
    drawn = ""
    if table is not None:
        write_whole(table, frame_csv(frame).encode())
        drawn = _draw(table, chart) if chart is not None else ""
    if is_json:
        show_json(plain_rows(frame))
    show()
    if table is not None:
        say(f"wrote {len(frame)} rows to {table}{drawn}")


def _draw(table: Path, chart: "Figure") -> str:
    from harness.present.figures.figure import pictures

    path = table.with_suffix(".svg")
    try:
        write_whole(path, pictures(chart, [".svg"])[".svg"])
    except ModelError as error:
        warn(f"no figure is drawn: {error}")
        return ""
    return f", a figure to {path}"
