"""Results as small tables that a notebook shows, and as pandas frames."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

    from harness.analysis.tables.pivot import PaperTable

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


class ResultTables:
    """Tables as a paper prints them, made by `table`: as text in four forms, and as a frame."""

    def __init__(self, tables: "Sequence[PaperTable]") -> None:
        """Keep the tables; they hold numbers, names and notes, each as its own field."""
        self.tables = tuple(tables)

    def to_pandas(self) -> "pandas.DataFrame":
        """The values in full precision, NaN where missing; of several tables one below another."""
        import pandas

        frames = [
            pandas.DataFrame(
                [[*row.names, *(cell.value for cell in row.cells)] for row in one.rows],
                columns=[*one.head, *(name or "value" for name in one.headings)],
            )
            for one in self.tables
        ]
        if len(frames) == 1:
            return frames[0]
        for one, frame in zip(self.tables, frames, strict=True):
            frame.insert(0, "table", one.title)
        return pandas.concat(frames, ignore_index=True)

    def to_latex(self) -> str:
        """LaTeX for a paper that uses the package booktabs."""
        return self._text(".tex")

    def to_markdown(self) -> str:
        """Markdown, with the signatures folded away."""
        return self._text(".md")

    def to_html(self) -> str:
        """A piece of HTML, all texts escaped."""
        return self._text(".html")

    def to_csv(self) -> str:
        """CSV in full precision; missing values are empty."""
        return self._text(".csv")

    def _text(self, form: str) -> str:
        from harness.analysis.tables.build import FORMS

        return FORMS[form](self.tables)

    def _repr_html_(self) -> str:
        return self.to_html()
