"""Results as commands put them: to files, with a figure, and on the screen."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ModelError
from harness.lazy import DataFrame
from harness.present.screen import say, show_json, warn
from harness.storage.files import write_whole
from harness.storage.frames import frame_csv, plain_rows
from harness.storage.tables import write_named

if TYPE_CHECKING:
    from harness.present.figures.figure import Figure


def put_frame(
    frame: DataFrame,
    out: Path | None,
    show: Callable[[], object],
    *,
    is_json: bool,
    default: Path | None = None,
    chart: "Figure | None" = None,
) -> None:
    """Write a result's table and the figure of a chart; then print it as JSON or by `show`.

    The table goes to `out`, if an option names it, else to the default place, if there is one.
    """
    drawn = ""
    if (table := out or default) is not None:
        (write_whole if out is None else write_named)(table, frame_csv(frame).encode())
        drawn = _draw(table, chart) if chart is not None else ""
    show_json(plain_rows(frame), is_json)
    show()
    if table is not None:
        say(f"wrote {len(frame)} rows to {table}{drawn}")


def _draw(table: Path, chart: "Figure") -> str:
    from harness.present.figures.figure import pictures

    path = table.with_suffix(".svg")
    try:
        write_named(path, pictures(chart, [".svg"])[".svg"])
    except ModelError as error:
        warn(f"no figure is drawn: {error}")
        return ""
    return f", a figure to {path}"
