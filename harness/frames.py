"""Results as small tables that a notebook shows, and as pandas frames."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

MOST_SHOWN = 60
"""Rows of a table that a notebook shows."""


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Columns and rows; None is a missing value."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)

    def to_pandas(self) -> "pandas.DataFrame":
        """The table as a pandas frame; missing numbers are NaN."""
        import pandas

        return pandas.DataFrame(list(self.rows), columns=list(self.columns))

    def _repr_html_(self) -> str:
        frame = self.to_pandas()
        note = f"<p>{len(self)} rows in all</p>" if len(self) > MOST_SHOWN else ""
        html: str = frame.head(MOST_SHOWN).to_html(escape=True, index=False, na_rep="")
        return html + note
