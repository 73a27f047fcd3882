"""Runs to the frames that the library gives: answers, items, the leaderboard, rates, errors."""

from collections.abc import Sequence

from harness.analysis import error_table
from harness.analysis.boards.ranked import board_rows, leaderboard
from harness.analysis.boards.views import board_notes, ranked_on
from harness.analysis.flags import RateQuery, flags
from harness.analysis.rates import rates
from harness.errors import SpecError
from harness.lazy import DataFrame, pandas
from harness.pipeline.items import item_cells, item_columns
from harness.storage.frames import load
from harness.storage.runs import RunFolder, StoredRows
from harness.workspace import Workspace

SAMPLE_COLUMNS = (
    *("task", "model", "sample_id", "cluster", "group", "variant", "decoding"),
    *("answer", "gold", "judge", "value", "reason", "note"),
)


def samples_frame(folders: Sequence[RunFolder]) -> DataFrame:
    """One row an answer and judge: the columns of SAMPLE_COLUMNS."""
    answers = load(folders, "answers", ["row", "sample", "variant", "decoding", "answer"])
    known = load(folders, "samples", ["sample", "cluster", "group", "gold"])
    verdicts = load(folders, "verdicts", ["row", "judge", "value", "reason", "note"])
    keys = ["task", "model", "run"]
    found = answers.merge(known, on=[*keys, "sample"]).merge(
        verdicts, on=[*keys, "row"], how="left"
    )
    return found.rename(columns={"sample": "sample_id"})[list(SAMPLE_COLUMNS)]


def items_frame(folders: Sequence[RunFolder]) -> DataFrame:
    """One row an answer, with the columns of items.csv and of the judges of all runs."""
    read = [(folder.read(), StoredRows(folder)) for folder in folders]
    judges = tuple({entry.name: entry for file, _ in read for entry in file.judges}.values())
    cells = (item_cells(file, record, judges) for file, rows in read for record in rows)
    return pandas.DataFrame(cells, columns=item_columns(judges))


def board_frame(folders: Sequence[RunFolder]) -> DataFrame:
    """All scores with their ranks: the rows of leaderboard.csv with `--metrics`."""
    scores, boards, _ = leaderboard(folders, is_every=True)
    found = board_rows(scores, boards, is_every=True)
    found.attrs = {"title": ranked_on(boards), "notes": board_notes(boards)}
    return found


def rates_frame(
    workspace: Workspace, folder: RunFolder, by: Sequence[str], *, judge: str, fpr: float | None
) -> DataFrame:
    """TPR, FPR and precision of all texts and by columns: the columns of `harness rates`."""
    query = RateQuery(by=tuple(by), judge=judge, fpr=fpr)
    return rates(*error_table.read_rate_texts(workspace, folder, query))


def errors_frame(workspace: Workspace, folder: RunFolder, kind: str, judge: str) -> DataFrame:
    """The texts that were missed or flagged falsely, with all columns of the run's data."""
    if kind not in error_table.KINDS:
        raise SpecError(f"kind {kind!r}: give one of {', '.join(error_table.KINDS)}")
    found = error_table.run_errors(folder, flags(folder, RateQuery(judge=judge)), kind)
    originals = error_table.originals_of(workspace, folder) if len(found) else None
    return error_table.error_frame(found, originals)
