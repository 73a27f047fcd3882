"""Scores as table rows: the columns scripts rely on, written formula-safe and read back.

Nothing here computes a score or ranks one.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.core import Score
from harness.errors import StoreError
from harness.parts import Reason
from harness.storage.csv import csv_text
from harness.storage.signature import Signature

COLUMNS = (
    *("task", "model", "variant", "decoding", "group", "judge", "metric"),
    *("value", "low", "high", "n", "clusters"),
    *(f"missing_{reason}" for reason in Reason),
    *("chance", "cost_usd", "signature"),
)


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A score, the signature of how it was made, and the cost of the calls behind it.

    `cost_usd` counts each call once; it is None where the cost of one of them is unknown.
    """

    task: str
    model: str
    score: Score
    chance: float | None
    cost_usd: float | None
    signature: str

    @property
    def recipe(self) -> str:
        """The signature without the model: only rows of one recipe are ranked together."""
        return self.parsed.without("model")

    @property
    def parsed(self) -> Signature:
        """The signature by its fields."""
        return Signature.parse(self.signature)


def table_text(rows: Iterable[ScoreRow]) -> str:
    """Rows as CSV, with floats in full precision and None as an empty cell."""
    return csv_text(COLUMNS, map(cells_of, rows))


def read_table(path: Path) -> list[ScoreRow]:
    """The rows of a table that `table_text` wrote."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            if absent := [name for name in COLUMNS if name not in (table.fieldnames or ())]:
                raise ValueError(f"no column {absent[0]!r}")
            return [_row(cells) for cells in table]
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise StoreError(
            f"{path}: not a table of scores ({error}); repeat the run to rebuild it"
        ) from error


def cells_of(row: ScoreRow) -> list[object]:
    """The cells of a row, in the order of COLUMNS."""
    score = row.score
    return [
        *(row.task, row.model, score.variant, score.decoding, score.group),
        *(score.judge, score.metric, score.value, score.low, score.high),
        *(score.n, score.clusters, *(score.missing.get(reason, 0) for reason in Reason)),
        *(row.chance, row.cost_usd, row.signature),
    ]


def _row(cells: dict[str, str]) -> ScoreRow:
    score = Score(
        judge=cells["judge"],
        variant=cells["variant"],
        decoding=cells["decoding"],
        group=cells["group"],
        metric=cells["metric"],
        value=_number(cells["value"]),
        low=_number(cells["low"]),
        high=_number(cells["high"]),
        n=int(cells["n"]),
        clusters=int(cells["clusters"]),
        missing={reason: int(cells[f"missing_{reason}"]) for reason in Reason},
    )
    return ScoreRow(
        task=cells["task"],
        model=cells["model"],
        score=score,
        chance=_number(cells["chance"]),
        cost_usd=_number(cells["cost_usd"]),
        signature=cells["signature"],
    )


def _number(cell: str) -> float | None:
    return float(cell) if cell else None
