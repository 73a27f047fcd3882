"""Results as a notebook shows them: small tables that become pandas frames, figures, a page."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar, get_args

from harness.errors import SpecError

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from harness.analysis.tables.pivot import PaperTable
    from harness.implicitness.probe import By
    from harness.implicitness.scorer import Scorer
    from harness.specs.layouts import LayoutSpec
    from harness.storage.runs import RunFolder
    from harness.workspace import Workspace

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

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


def items_of(folders: "Sequence[RunFolder]") -> ResultTable:
    """One row an answer of some runs, with the columns of items.csv and of all their judges."""
    columns, cells = _item_cells(folders)
    return ResultTable(columns, tuple(cells))


def item_chunks(folders: "Sequence[RunFolder]", size: int) -> Iterator[ResultTable]:
    """That table in parts of at most so many rows; SpecError for less than one."""
    if size < 1:
        raise SpecError(f"rows {size}: give 1 or more")
    columns, cells = _item_cells(folders)
    while rows := tuple(islice(cells, size)):
        yield ResultTable(columns, rows)


def _item_cells(
    folders: "Sequence[RunFolder]",
) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
    from harness.pipeline.items import item_cells, item_columns
    from harness.storage.runs import StoredRows

    runs = [(folder.read(), StoredRows(folder)) for folder in folders]
    judges = tuple({entry.name: entry for file, _ in runs for entry in file.judges}.values())
    cells = (item_cells(file, record, judges) for file, rows in runs for record in rows)
    return item_columns(judges), cells


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


class TableOptions(TypedDict, total=False):
    """What stands in a table, as `ph.table` describes it."""

    rows: Sequence[str]
    columns: Sequence[str]
    groups: Sequence[str]
    where: Mapping[str, Sequence[str]]
    cell: Sequence[str]
    digits: int
    ratings: str | Path
    files: Sequence[str | Path]


class PlotOptions(TypedDict, total=False):
    """What a figure shows, as `ph.plot` describes it."""

    x: str
    panel: str
    series: str
    metric: str
    judges: Sequence[str]
    variants: Sequence[str]
    tasks: Sequence[str]
    ratings: str | Path
    column: str
    label: str
    seed: int
    width_cm: float
    scorer: str


def tables_of(
    layout: "str | LayoutSpec",
    folders: "Sequence[RunFolder]",
    options: TableOptions,
    workspace: "Workspace",
) -> ResultTables:
    """The tables of a layout and some runs; SpecError for names that are not a list."""
    from harness.analysis.tables.build import TableInput, adapted, build
    from harness.specs.layouts import Shown

    if isinstance(layout, str):
        layout = adapted(workspace.registry.load("configs/layouts", layout) if layout else None)
    axes = {"rows": options.get("rows"), "columns": options.get("columns")}
    axes["groups"] = options.get("groups")
    chosen = {name: _names(given, name) for name, given in axes.items() if given}
    kept = {name: _names(given, name) for name, given in options.get("where", {}).items()}
    cell: dict[str, object] = {"digits": options["digits"]} if "digits" in options else {}
    if shown := _names(options.get("cell"), "cell"):
        if unknown := [name for name in shown if name not in get_args(Shown)]:
            raise SpecError(f"cell {unknown[0]!r}: give some of {', '.join(get_args(Shown))}")
        cell["shows"] = shown
    data = workspace.data or workspace.registry.cache / "data"
    files, ratings = tuple(map(Path, options.get("files", ()))), _path(options.get("ratings"))
    return ResultTables(
        build(adapted(layout, chosen, kept, cell), TableInput(folders, ratings, files, data))
    )


def figure_of(
    figure: str,
    of: "Sequence[str | Path]",
    options: PlotOptions,
    *,
    results: Path,
    workspace: "Workspace",
) -> "Figure":
    """The figure of a name, or by properties of scores; SpecError where it is not told what."""
    from harness.present.figures.figure import draw
    from harness.present.figures.named import FIGURES, Inputs, make_figure
    from harness.present.figures.scores import Layout, ScoreFilter
    from harness.present.figures.style import WIDTH

    x = options.get("x", "")
    if bool(figure) == bool(x):
        raise SpecError(f"plot: give x, or one figure of {', '.join(FIGURES)}")
    inputs = Inputs(
        given=tuple(map(str, _names(of, "of"))),
        results=results,
        choice=ScoreFilter(
            _names(options.get("judges"), "judges"),
            _names(options.get("variants"), "variants"),
            _names(options.get("tasks"), "tasks"),
            options.get("metric", ""),
        ),
        scorer=lambda: workspace.registry.scorer(options.get("scorer", "impscore-minilm")),
        progress=lambda *_: None,
        samples=lambda task: workspace.samples(workspace.registry.load("tasks", task).data)[0],
        ratings=_path(options.get("ratings")),
        column=options.get("column"),
        label=options.get("label"),
        seed=options.get("seed", 0),
    )
    layout = Layout(x, options.get("panel", ""), options.get("series", "")) if x else figure
    return draw(make_figure(layout, inputs), width_cm=options.get("width_cm", WIDTH))


def page_of(
    folders: "Sequence[RunFolder]", results: Path, out: str | Path, ratings: str | Path | None
) -> Path:
    """Write the page of some runs, by default into their results folder; where it is."""
    from harness.analysis.report.page import REPORT, write_page

    path = Path(out) if out else results / REPORT
    data, _ = write_page(folders, results, path, _path(ratings))
    for note in data.notes:
        _log.warning("%s", note)
    return path


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)


def _names(given: Sequence[_T] | None, name: str) -> tuple[_T, ...]:
    if isinstance(given, str):
        raise SpecError(f"{name} {given!r}: give a list of names")
    return tuple(given or ())


def probe_table(scorer: "Scorer", by: "By | None") -> ResultTable:
    """The figures of a scorer on the probe sentences."""
    from harness.implicitness.probe import ProbeFigure, parts_of, probe_figures, scores_of

    rows = probe_figures(scores_of(scorer), by=parts_of(by), scorer=scorer.signature)
    columns = tuple(field.name for field in fields(ProbeFigure))
    return ResultTable(columns, tuple(tuple(getattr(r, name) for name in columns) for r in rows))


def rates_of(
    workspace: "Workspace", folder: "RunFolder", by: Sequence[str], judge: str, fpr: float | None
) -> ResultTable:
    """The rates of a run, with the columns of `harness rates`."""
    from harness.analysis.error_table import joined_query
    from harness.analysis.rates import (
        OperatingPoint,
        RateQuery,
        RateRow,
        flagged_blocks,
        rate_rows,
    )
    from harness.storage.runs import StoredRun

    point = None if fpr is None else OperatingPoint(fpr=fpr)
    run = StoredRun.read_all(folder)
    query = RateQuery(by=_names(by, "by"), judge=judge, point=point)
    query = joined_query(workspace, folder, run, query)
    rows = rate_rows(flagged_blocks(run, query), query)
    columns = tuple(field.name for field in fields(RateRow))
    return ResultTable(columns, tuple(tuple(getattr(r, n) for n in columns) for r in rows))


def errors_of(workspace: "Workspace", folder: "RunFolder", kind: str, judge: str) -> ResultTable:
    """The texts that err, with all columns of the data."""
    from harness.analysis.error_table import KINDS, original_errors, originals_of, run_errors
    from harness.analysis.rates import RateQuery, flagged_blocks
    from harness.storage.runs import StoredRun

    if kind not in KINDS:
        raise SpecError(f"kind {kind!r}: give one of {', '.join(KINDS)}")
    run = StoredRun.read_all(folder)
    errors = run_errors(flagged_blocks(run, RateQuery(judge=judge)), kind)
    originals = originals_of(workspace, folder, run) if errors else None
    rows = original_errors(errors, originals)
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    return ResultTable(columns, tuple(tuple(row[name] for name in columns) for row in rows))
