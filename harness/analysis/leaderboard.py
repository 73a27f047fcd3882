"""All runs' scores as one table, and alarms of runs that a constant answer would equal.

A row of the leaderboard is a score with the run it is of and, where it is ranked, its standing
(`analysis.standings`). Nothing here computes a score.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import comb, sqrt
from typing import TypeVar

from harness.errors import HarnessError, StoreError
from harness.judges.custom import JudgeLabel
from harness.pipeline.choice_scores import AUC, FALSE_ALARMS, FAVOURITE, HITS, PRECISION, RECALL
from harness.pipeline.score import ALL, RIGHT_OR_WRONG, score_rows
from harness.storage.cells import csv_text
from harness.storage.runs import COLUMNS, SCORES, RunFolder, ScoreRow, StoredRows, cells_of

_log = logging.getLogger(__name__)
HEADLINE_METRICS = frozenset({RIGHT_OR_WRONG, "mean_rating", "mean_f1"})
FEWEST_CLUSTERS = 10
"""With fewer independent items an interval says little, and nothing is said of a run or judge."""
# The share of one place among the choices, and of responses without a preference, that is an
# alarm. Of two places the right choices are at one so often, by chance, with less than RARELY.
ALARMING, ALARMING_TIES, RARELY = 0.9, 0.05, 0.01
# Originals of each of two kinds from which on rates are enough for an alarm, and the share of a
# kind that is nearly all of it.
FEWEST, NEARLY_ALL = 10, 0.95
Row = TypeVar("Row", bound=ScoreRow)
_RECALL, _OF_RATES = RECALL.format(""), (HITS, FALSE_ALARMS, AUC)


@dataclass(frozen=True, slots=True)
class PairSensitivity:
    """A judge's value for a run, and its value where each answer is put under another sample."""

    model: str
    recipe: str
    judge: str
    value: float | None
    swapped: float | None

    @property
    def difference(self) -> float | None:
        """How much the judge heeds what was swapped; None where either value is."""
        if self.value is None or self.swapped is None:
            return None
        return self.value - self.swapped


@dataclass(frozen=True, slots=True)
class BoardRow(ScoreRow):
    """A score with the name of its run's folder and, where it is ranked, its standing.

    `rank` is among the models on the same `rank_items`, the verdicts that all of them have;
    `rank_group` is that of models of which no order is known. None where it is not ranked.
    """

    run: str = ""
    rank: int | None = None
    rank_group: int | None = None
    rank_items: int | None = None


DIGITS = 6
"""The digits of a number in leaderboard.csv; the scores.csv of a run has all, and is read again."""
BOARD_COLUMNS = (
    *COLUMNS,
    *("run", "data", "limit", "seed", "prompts", "version", "judge_version"),
    *("rank", "rank_group", "rank_items"),
)


def board_cells(row: BoardRow) -> list[object]:
    """The cells of a row, in the order of BOARD_COLUMNS."""
    made = row.parsed
    return [
        *cells_of(row),
        *(row.run, made.data, made.limit, made.seed, made.prompts),
        *(f"{made.kind}@{made.version}", made.judge.partition(":")[2]),
        *(row.rank, row.rank_group, row.rank_items),
    ]


def board_text(rows: Iterable[BoardRow]) -> str:
    """The leaderboard as CSV, for people: floats to 6 digits, and None as an empty cell."""
    return csv_text(BOARD_COLUMNS, (map(_shortened, board_cells(row)) for row in rows))


def _shortened(cell: object) -> object:
    return float(f"{cell:.{DIGITS}g}") if isinstance(cell, float) else cell


def collect(folders: Iterable[RunFolder]) -> list[BoardRow]:
    """Every row of every run, each score once, in a fixed order; nothing is ranked yet.

    What is not whole is left out.
    """
    return merged({folder: whole_scores(folder) for folder in folders})


def whole_scores(folder: RunFolder) -> list[ScoreRow] | None:
    """The scores of a run, computed anew where their table was changed since it was written.

    None, after a warning, where the verdicts were changed as well.
    """
    changed = [folder.path / name for name in folder.changed() if name != SCORES]
    try:
        rows = folder.read_scores()
    except StoreError as error:
        fact = str(error).partition(";")[0]
        try:
            rows = score_rows(folder.read(), StoredRows(folder))
        except HarnessError as other:
            _log.warning("%s; %s: the run is left out", fact, other)
            return None
        _log.warning("%s; its scores are computed anew", fact)
    else:
        for path in changed:
            said = "changed since it was written; the scores stand as they were; repeat the run"
            _log.warning("%s: %s", path, said)
    return rows


def merged(tables: Mapping[RunFolder, Sequence[ScoreRow] | None]) -> list[BoardRow]:
    """The rows of several runs, each score once, in a fixed order."""
    best: dict[tuple[str, ...], BoardRow] = {}
    for folder, rows in tables.items():
        for row in rows or ():
            key = (row.signature, row.score.group, row.score.metric)
            if key not in best or row.score.n > best[key].score.n:
                own = (row.task, row.model, row.score, row.chance, row.cost_usd, row.signature)
                best[key] = BoardRow(*own, run=folder.path.name)
    return sorted(best.values(), key=_place)


def by_signature(rows: Iterable[ScoreRow]) -> dict[str, dict[str, ScoreRow]]:
    """The overall rows of each signature, by their metrics."""
    found: dict[str, dict[str, ScoreRow]] = {}
    for row in rows:
        if row.score.group == ALL:
            found.setdefault(row.signature, {})[row.score.metric] = row
    return found


def headlines(
    rows: Sequence[Row], metrics: Collection[str] = HEADLINE_METRICS, group: str = ALL
) -> list[Row]:
    """The row of each run, variant and judge over all decodings together: by default overall."""
    chosen: dict[tuple[str, ...], Row] = {}
    for row in rows:
        score = row.score
        if score.group != group or score.metric not in metrics:
            continue
        # All of a recipe but the temperatures of the decoding.
        rest = replace(row.parsed, decoding="").without("variant", "model")
        key = (row.task, tested(row), score.variant, score.judge, rest)
        other = chosen.get(key)
        if other is None or score.decoding.count("+") > other.score.decoding.count("+"):
            chosen[key] = row
    return list(chosen.values())


def pair_sensitivities(rows: Sequence[ScoreRow]) -> list[PairSensitivity]:
    """Each judge that has read a run both as it is and with its samples swapped."""
    heads = {row.signature: row for row in headlines(rows)}
    pairs = []
    for row in heads.values():
        judge, signature = row.score.judge, row.parsed
        swapped = str(replace(JudgeLabel.parse(judge), is_swapped=True))
        recipe = swapped + signature.judge.removeprefix(judge)
        other = heads.get(str(replace(signature, judge=recipe)))
        if other is not None and judge != swapped:
            values = (row.score.value, other.score.value)
            pairs.append(PairSensitivity(row.model, row.recipe, judge, *values))
    return pairs


def tested(row: ScoreRow) -> str:
    """The model under test with its kind and version, as signatures have it."""
    return row.parsed.fields["model"]


@dataclass(frozen=True, slots=True)
class PlaceAlarm:
    """A run whose choices do not seem to depend on the question.

    `favourite` is the share of the place chosen most often, `alike` that of responses whose
    choices all score the same; None where it is no cause.
    """

    row: ScoreRow
    favourite: float | None
    alike: float | None

    @property
    def words(self) -> str:
        """What is alarming, as a sentence that follows the name of the run."""
        facts = []
        if self.favourite is not None:
            facts.append(f"{self.favourite:.0%} of its choices are at one position")
        if self.alike is not None:
            facts.append(f"all choices score the same in {self.alike:.0%} of its responses")
        return (
            f"{' and '.join(facts)}; its accuracy depends on where the right choices are placed, "
            "not on understanding"
        )


def place_alarms(rows: Sequence[ScoreRow]) -> list[PlaceAlarm]:
    """The runs that nearly always choose one place, or that score all choices the same.

    Of the variants of a run that are of one family - with the same part before the colon - the
    one with most responses represents it: all orders together, where they were asked. Where there
    are rates of hits and false alarms, they show more than places do.
    """
    overall = [row for row in rows if row.score.group == ALL]
    favourites = {r.signature: r.score.value for r in overall if r.score.metric == FAVOURITE}
    alike = {r.signature: r.score.value for r in overall if r.score.metric == "identical_scores"}
    widest: dict[tuple[str, ...], ScoreRow] = {}
    for row in sorted(headlines(rows), key=lambda row: row.score.n):
        alike_in = [row.parsed.fields[name] for name in ("data", "model", "decoding", "judge")]
        widest[row.task, *alike_in, row.score.variant.rpartition(":")[0]] = row
    # Of those that have rates or classes, places mean nothing.
    rates = (HITS, FALSE_ALARMS, _RECALL)
    by_rates = {row.signature for row in rows if row.score.metric.startswith(rates)}
    alarms = []
    for row in widest.values():
        share, same = favourites.get(row.signature), alike.get(row.signature)
        is_stuck = row.signature not in by_rates and _is_stuck(share, row.score.clusters)
        is_alike = row.score.clusters >= FEWEST_CLUSTERS and (same or 0.0) >= ALARMING_TIES
        if is_stuck or is_alike:
            alarms.append(PlaceAlarm(row, share if is_stuck else None, same if is_alike else None))
    return alarms


def _is_stuck(share: float | None, clusters: int) -> bool:
    """Whether one place has so large a share as the right choices of two places rarely have."""
    if share is None or share < ALARMING or clusters < FEWEST_CLUSTERS:
        return False
    least = round(share * clusters)
    tail = sum(comb(clusters, count) for count in range(least, clusters + 1))
    return bool(2 * tail / 2**clusters < RARELY)


def _place(row: ScoreRow) -> tuple[str, ...]:
    score = row.score
    overall = "" if score.group == ALL else score.group
    return (row.task, score.judge, score.variant, score.decoding, row.model, overall, score.metric)


_ON_PURPOSE = "constant-"
"""How the names of the controls begin that always answer alike: there it is no news."""


class ConstantBaseline(StrEnum):
    """The kind of constant answer that a run looks like."""

    ALWAYS = "always"
    NEVER = "never"
    ONE_LABEL = "one label"
    BEATEN = "beaten"
    ONE_KIND = "one kind"


@dataclass(frozen=True, slots=True)
class ConstantBaselineAlarm:
    """A run whose headline shows no more than a constant answer would.

    `constant` is the accuracy of the better constant answer on the texts answered; of classes it
    gives them all `label`, None for yes and no. Rates and AUC are None where there are none.
    """

    row: ScoreRow
    finding: ConstantBaseline
    constant: float
    hits: float | None = None
    false_alarms: float | None = None
    auc: float | None = None
    label: str | None = None


def constant_runs(rows: Sequence[ScoreRow]) -> frozenset[str]:
    """The signatures of runs that give every text one label, or nearly every one of enough texts.

    They are no merit of a model, whatever their score is: where all texts are of one kind, a
    constant answer is perfect. Precision is known of the labels that were given alone.
    """
    alarming = {ConstantBaseline.ALWAYS, ConstantBaseline.NEVER, ConstantBaseline.ONE_LABEL}
    found = {
        a.row.signature for a in constant_alarms(rows, headlines(rows)) if a.finding in alarming
    }
    given = PRECISION.format("")
    for name, own in by_signature(rows).items():
        rates = {own[metric].score.value for metric in (HITS, FALSE_ALARMS) if metric in own}
        labels = [row for metric, row in own.items() if metric.startswith(given)]
        used = [row for row in labels if row.score.value is not None]
        if rates in ({0.0}, {1.0}) or (labels and not rates and len(used) == 1):
            found.add(name)
    return frozenset(found)


def constant_alarms(
    rows: Sequence[ScoreRow], heads: Sequence[ScoreRow]
) -> list[ConstantBaselineAlarm]:
    """The alarms of some headline rows: at most one each, the plainest first.

    Rates of hits and of false alarms, or the recall of each class, expose a constant answer
    whatever the shares of the kinds are; accuracy alone does not. Always or never: nearly all
    texts of both kinds are flagged, or nearly none. One label: nearly all texts of one class are
    found, and nearly none of others. One kind: texts of the others are lacking, and one constant
    answer is always right. Beaten: the run's accuracy less that of the better constant answer is
    surely below zero: the upper end of its interval is.
    """
    by_run = by_signature(rows)
    alarms = []
    for head in heads:
        if head.parsed.kind == "scripted" and head.model.startswith(_ON_PURPOSE):
            continue
        own = by_run.get(head.signature, {})
        rates = [own[metric] for metric in (HITS, FALSE_ALARMS) if metric in own]
        kinds = rates or [row for metric, row in own.items() if metric.startswith(_RECALL)]
        if (finding := _constant_finding(head, kinds, is_of_classes=not rates)) is None:
            continue
        hits, false, area = (own[m].score.value if m in own else None for m in _OF_RATES)
        most = max(kinds, key=lambda row: row.score.n).score.metric
        label = None if rates else most.removeprefix(_RECALL)
        constant = _constant(kinds)
        alarms.append(ConstantBaselineAlarm(head, finding, constant, hits, false, area, label))
    return alarms


def _constant_finding(
    head: ScoreRow, kinds: Sequence[ScoreRow], *, is_of_classes: bool
) -> ConstantBaseline | None:
    """The constant answer that one run looks like; None for none, or for too few answers.

    `kinds` are its rates, each of the texts of one kind.
    """
    counts = sorted((row.score.clusters if row.score.n else 0 for row in kinds), reverse=True)
    first, second = [*counts, 0, 0][:2]
    if first < FEWEST or 0 < second < FEWEST:
        return None
    if second == 0:
        return ConstantBaseline.ONE_KIND
    shares = sorted(row.score.value or 0.0 for row in kinds if row.score.clusters >= FEWEST)
    if is_of_classes:
        is_constant = shares[-1] >= NEARLY_ALL and shares[-2] <= 1 - NEARLY_ALL
        constant = ConstantBaseline.ONE_LABEL if is_constant else None
    else:
        is_always, is_never = shares[0] >= NEARLY_ALL, shares[-1] <= 1 - NEARLY_ALL
        constant = ConstantBaseline.NEVER if is_never else None
        constant = ConstantBaseline.ALWAYS if is_always else constant
    return constant or (ConstantBaseline.BEATEN if _is_beaten(kinds, head.score.clusters) else None)


def _is_beaten(kinds: Sequence[ScoreRow], clusters: int) -> bool:
    """Whether accuracy is surely below that of naming the most common kind.

    On one text the difference of both is 1 where a rarer kind is named rightly, and -1 where the
    most common one is not. Its mean is normal, with no more independent texts than clusters.
    """
    most = max(kinds, key=lambda row: row.score.n)
    total = sum(row.score.n for row in kinds)
    gained = sum(row.score.n * _right(row) for row in kinds if row is not most)
    lost = most.score.n * (1 - _right(most))
    mean = (gained - lost) / total
    error = sqrt(max(0.0, (gained + lost) / total - mean**2) / clusters)
    return mean + 1.96 * error < 0


def _right(row: ScoreRow) -> float:
    """The share of a kind's texts that are named rightly."""
    value = row.score.value or 0.0
    return 1 - value if row.score.metric == FALSE_ALARMS else value


def _constant(kinds: Sequence[ScoreRow]) -> float:
    counts = [row.score.n for row in kinds]
    return max(counts) / sum(counts) if sum(counts) else 0.0
