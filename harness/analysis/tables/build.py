"""A layout and what it is made of to tables: stored runs, ratings by people, files."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack, get_args

from msgspec import structs, to_builtins

from harness.analysis.boards.scores import board_scores, prompt_names, score_text, warn_of_changed
from harness.analysis.tables import sources
from harness.analysis.tables.facts import ranks_of, run_facts
from harness.analysis.tables.pivot import PaperTable, paper_tables
from harness.data.ratings import read_ratings
from harness.errors import DataError, SpecError, StoreError
from harness.lazy import pandas
from harness.specs import layouts
from harness.specs.layouts import FilesLayout, LayoutSpec, RunsLayout
from harness.specs.schema import load_spec
from harness.storage.find_runs import data_words, is_trial, without_earlier
from harness.storage.runs import RunFolder


@dataclass(frozen=True, slots=True)
class TableInput:
    """What tables are made of: runs, a file of ratings, files of data, and the folder of data.

    `files` are read in place of those that a layout names in `data`; None where there is none.
    """

    folders: Sequence[RunFolder] = ()
    ratings: Path | None = None
    files: Sequence[Path] = ()
    data: Path | None = None


PLAIN: Final = RunsLayout(
    about="Scores",
    rows=("model",),
    columns=("judge",),
    cell=layouts.CellStyle(shows=("value", "interval", "n")),
)
"""The layout of a table that no other describes: models by judges, values with intervals."""


class Changes(TypedDict, total=False):
    """What replaces parts of a layout: its axes, conditions, and the parts and digits of a cell."""

    rows: Sequence[str] | None
    columns: Sequence[str] | None
    groups: Sequence[str] | None
    where: Mapping[str, Sequence[str]] | None
    cell: Sequence[str] | None
    digits: int | None


def adapted(layout: LayoutSpec | None, **changes: Unpack[Changes]) -> LayoutSpec:
    """A layout with other axes, conditions or cells, PLAIN without one; SpecError for a clash."""
    said = to_builtins(layout or PLAIN)
    given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    where, shown, digits = (given.pop(name, None) for name in ("where", "cell", "digits"))
    if unknown := [name for name in shown or () if name not in get_args(layouts.Shown)]:
        known = ", ".join(get_args(layouts.Shown))
        raise SpecError(f"cell {unknown[0]!r}: give some of {known}, as a list")
    said["cell"] |= {"shows": shown} if shown else {}
    said["cell"] |= {} if digits is None else {"digits": digits}
    said |= {**given, "where": {**said["where"], **(where or {})}}
    made: LayoutSpec = load_spec(said, LayoutSpec, where="the table")
    return made


def build(layout: LayoutSpec, given: TableInput) -> list[PaperTable]:
    """The tables of a layout. Raises HarnessError where what it needs is not there."""
    if isinstance(layout, RunsLayout):
        given = replace(given, folders=without_earlier(given.folders))
        if "statistic" not in layout.axes:
            return _of_runs(layout, given)
        rated = _people(given, has_statistics=True)
        note = " ".join(filter(None, (layout.note, *sources.rated_notes(rated))))
        return paper_tables(sources.agreement_facts(rated), structs.replace(layout, note=note))
    files = _files(layout, given)
    match layout:
        case layouts.CountsLayout():
            # What rows were kept by is no part of what was counted.
            where = {name: kept for name, kept in layout.where.items() if name in layout.axes}
            facts = sources.count_facts(layout, files)
            return paper_tables(facts, structs.replace(layout, where=where))
        case layouts.CodersLayout():
            return paper_tables(sources.coder_facts(layout, files), layout)
        case layouts.ValuesLayout():
            return paper_tables(sources.value_facts(layout, files), layout)


def _of_runs(layout: RunsLayout, given: TableInput) -> list[PaperTable]:
    if not given.folders:
        raise StoreError("no runs for the table; `harness run` makes one, or see --results")
    is_every = bool({*layout.axes, *layout.where} & {"metric", "group"})
    texts = {one.key: score_text(one, is_every=is_every) for one in given.folders}
    scores = board_scores(texts)
    scores = scores.assign(prompts=prompt_names(scores, given.folders))
    warn_of_changed(given.folders, texts)
    extra = None
    if given.ratings is not None and (layout.people or layout.agreement):
        rated = _people(given, has_statistics=bool(layout.agreement))
        parts = [sources.agreement_facts(rated, layout.agreement)]
        parts += [sources.mean_facts(rated, layout.people)] if layout.people else []
        extra = pandas.concat([part for part in parts if len(part)] or parts, ignore_index=True)
    elif layout.people:
        layout = structs.replace(layout, note=f"{layout.note} No ratings: see --ratings.".strip())
    layout = structs.replace(layout, names={**layout.names, **_data_names(given.folders)})
    return paper_tables(
        run_facts(scores), layout, extra=extra, ranks=ranks_of(scores, given.folders)
    )


def _data_names(folders: Sequence[RunFolder]) -> dict[str, str]:
    """Words for the data of some runs, by their labels in signatures."""
    files = [folder.read() for folder in folders]
    named = {(file.run.task, file.data.label): data_words(file) for file in files}
    trial = {file.data.label for file in files if is_trial(file)}
    words = Counter((task, name) for (task, _), name in named.items())
    found = {}
    for (task, label), name in named.items():
        # Only the label of two versions of one file differs.
        own = f"{name} ({label})" if words[task, name] > 1 else name
        found[label] = f"{own}, for trying and not for measuring" if label in trial else own
    return found


def _people(given: TableInput, *, has_statistics: bool) -> sources.Rated:
    if given.ratings is None:
        raise SpecError("this table needs people's ratings; name their file with --ratings")
    ratings = read_ratings(given.ratings)
    return sources.match_people(ratings, given.folders, has_statistics=has_statistics)


def _files(layout: FilesLayout, given: TableInput) -> dict[str, Path]:
    """The files of a layout, by split."""
    if given.files:
        return {path.name.partition(".")[0]: path for path in given.files}
    if not layout.files:
        needs = layout.needs or "a table (CSV, TSV, JSON lines or Parquet)"
        raise SpecError(f"this table is made of a file; name it with --data FILE: {needs}")
    folder = (given.data or Path()) / layout.source
    paths = {split: folder / name for split, name in layout.files.items()}
    if absent := [path.name for path in paths.values() if not path.is_file()]:
        raise DataError(
            f"{folder}: no {', '.join(absent)}; `harness data fetch {layout.source}` downloads "
            "them, or see --data"
        )
    return paths
