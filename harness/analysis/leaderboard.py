"""All runs' scores as one table: ranked, judge by judge, with warnings and alarms.

Rows are ranked together only where their signatures differ in nothing but the model. A warning is
about a judge that does not separate the two controls, an alarm about a run that a constant answer
would equal. Nothing here computes a score.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.core import Score
from harness.errors import HarnessError, StoreError
from harness.judges.custom import JudgeLabel
from harness.pipeline.choice_scores import AUC, FALSE_ALARMS, FAVOURITE, HITS, RECALL
from harness.pipeline.score import ALL, score_rows
from harness.storage.runs import SCORES, RunFolder, ScoreRow

_log = logging.getLogger(__name__)
HEADLINE_METRICS = frozenset({"accuracy", "mean_rating", "mean_f1"})
CEILING, FLOOR = "oracle", "literal"
# For a judge to be fit: with fewer items an interval says little; where the scale has a chance
# level, the controls must lie half of the scale apart.
FEWEST_CLUSTERS, SMALLEST_GAP = 10, 0.5
# The share of one place among the choices (of FEWEST_CLUSTERS samples or more: of a few, the right
# ones may be at one place by chance), and of responses without a preference, that is an alarm.
ALARMING, ALARMING_TIES = 0.9, 0.05
# Originals of each of two kinds from which on rates are enough for an alarm, and the share of a
# kind that is nearly all of it.
FEWEST, NEARLY_ALL = 10, 0.95
_RECALL, _OF_RATES = RECALL.format(""), (HITS, FALSE_ALARMS, AUC)


@dataclass(frozen=True, slots=True)
class RankedTable:
    """The headline rows of one recipe, best first; rows without a value come last."""

    recipe: str
    rows: tuple[ScoreRow, ...]


@dataclass(frozen=True, slots=True)
class Rank:
    """One judge's value of one model, and the model's rank by it; both None together.

    Models of equal value share the better rank.
    """

    value: float | None
    rank: int | None


@dataclass(frozen=True, slots=True)
class JudgeMatrix:
    """Models by judges for one recipe without the judges' part.

    `judges` are in the order of their names. A line is a model's name with its rank by each judge,
    None where one has not read it; lines are in the order of the first judge's ranks.
    """

    recipe: str
    judges: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Rank | None, ...]], ...]


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


class ControlFinding(StrEnum):
    """What the two controls show against a judge."""

    UNHEARD = "unheard"
    FEW = "few"
    UNFIT = "unfit"
    WEAK = "weak"


@dataclass(frozen=True, slots=True)
class JudgeWarning:
    """A finding against a judge, with its scores for the ceiling and the floor control."""

    finding: ControlFinding
    recipe: str
    ceiling: Score
    floor: Score


def collect(folders: Iterable[RunFolder]) -> list[ScoreRow]:
    """Every row of every run, each score once, in a fixed order; what is not whole is left out."""
    return merged(filter(None, map(whole_scores, folders)))


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
            rows = score_rows(folder.read(), folder.read_rows())
        except HarnessError as other:
            _log.warning("%s; %s: the run is left out", fact, other)
            return None
        _log.warning("%s; its scores are computed anew", fact)
    else:
        for path in changed:
            said = "changed since it was written; the scores stand as they were; repeat the run"
            _log.warning("%s: %s", path, said)
    return rows


def merged(tables: Iterable[Sequence[ScoreRow]]) -> list[ScoreRow]:
    """The rows of several tables, each score once, in a fixed order."""
    best: dict[tuple[str, ...], ScoreRow] = {}
    for row in (row for table in tables for row in table):
        key = (row.signature, row.score.group, row.score.metric)
        if key not in best or row.score.n > best[key].score.n:
            best[key] = row
    return sorted(best.values(), key=_place)


def headlines(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """The overall row of each run, variant and judge, over all decodings together."""
    chosen: dict[tuple[str, ...], ScoreRow] = {}
    for row in rows:
        score = row.score
        if score.group != ALL or score.metric not in HEADLINE_METRICS:
            continue
        # All of a recipe but the temperatures of the decoding.
        rest = replace(row.parsed, decoding="").without("variant", "model")
        key = (row.task, _tested(row), score.variant, score.judge, rest)
        other = chosen.get(key)
        if other is None or score.decoding.count("+") > other.score.decoding.count("+"):
            chosen[key] = row
    return list(chosen.values())


def ranked_tables(rows: Sequence[ScoreRow]) -> list[RankedTable]:
    """Headline rows by recipe, each table ranked by value."""
    grouped: dict[str, list[ScoreRow]] = {}
    for row in headlines(rows):
        grouped.setdefault(row.recipe, []).append(row)
    for members in grouped.values():
        members.sort(key=lambda r: (r.score.value is None, -(r.score.value or 0.0), r.model))
    return [RankedTable(recipe, tuple(members)) for recipe, members in grouped.items()]


def judge_matrices(rows: Sequence[ScoreRow]) -> list[JudgeMatrix]:
    """A matrix a task, data, variant, decoding and version: every model by every judge.

    Judges that read answers under swapped samples are left out: their value is no merit of the
    model's.
    """
    by_recipe: dict[str, dict[str, RankedTable]] = {}
    for table in ranked_tables(rows):
        signature, judge = table.rows[0].parsed, table.rows[0].score.judge
        if not JudgeLabel.parse(judge).is_swapped:
            recipe = signature.without("model", "judge", "way")
            by_recipe.setdefault(recipe, {})[str(signature.recipe)] = table
    return [_matrix(recipe, dict(sorted(own.items()))) for recipe, own in by_recipe.items()]


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


def _matrix(recipe: str, tables: Mapping[str, RankedTable]) -> JudgeMatrix:
    names: dict[str, str] = {}
    ranks: dict[tuple[str, str], Rank] = {}
    for judge, table in tables.items():
        for row in table.rows:
            tested = _tested(row)
            names.setdefault(tested, row.model)
            ranks[tested, judge] = rank_of(row, table)
    lines = (
        (name, tuple(ranks.get((tested, judge)) for judge in tables))
        for tested, name in names.items()
    )
    # Judges by name; by their whole recipe where two have one name.
    judges = [judge.partition(":")[0] for judge in tables]
    pairs = zip(judges, tables, strict=True)
    unique = tuple(name if judges.count(name) == 1 else judge for name, judge in pairs)
    return JudgeMatrix(recipe, unique, tuple(lines))


def rank_of(row: ScoreRow, table: RankedTable) -> Rank:
    """The rank of a row in its table; none without a value."""
    value = row.score.value
    if value is None:
        return Rank(None, None)
    values = (other.score.value for other in table.rows)
    return Rank(value, 1 + sum(other is not None and other > value for other in values))


def _tested(row: ScoreRow) -> str:
    return row.parsed.fields["model"]


def judge_warnings(rows: Sequence[ScoreRow]) -> list[JudgeWarning]:
    """The judges of which the controls oracle and literal do not show that they are fit."""
    warnings = []
    for table in ranked_tables(rows):
        named = {row.model: row for row in table.rows}
        ceiling, floor = named.get(CEILING), named.get(FLOOR)
        if ceiling and floor and not JudgeLabel.parse(ceiling.score.judge).is_swapped:
            finding = _control_finding(ceiling.score, floor.score, chance=ceiling.chance)
            if finding is not None:
                warnings.append(JudgeWarning(finding, table.recipe, ceiling.score, floor.score))
    return warnings


@dataclass(frozen=True, slots=True)
class PlaceAlarm:
    """A run whose choices do not seem to depend on the question.

    `favourite` is the share of the place chosen most often, `alike` that of responses whose
    choices all score the same; None where it is no cause.
    """

    row: ScoreRow
    favourite: float | None
    alike: float | None


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
        is_stuck = row.score.clusters >= FEWEST_CLUSTERS and (share or 0.0) >= ALARMING
        is_stuck = is_stuck and row.signature not in by_rates
        is_alike = row.score.clusters >= FEWEST_CLUSTERS and (same or 0.0) >= ALARMING_TIES
        if is_stuck or is_alike:
            alarms.append(PlaceAlarm(row, share if is_stuck else None, same if is_alike else None))
    return alarms


def _control_finding(
    ceiling: Score, floor: Score, *, chance: float | None
) -> ControlFinding | None:
    """What two controls show against a judge; None where they show nothing."""
    if ceiling.value is None or floor.value is None:
        return ControlFinding.UNHEARD
    if min(ceiling.clusters, floor.clusters) < FEWEST_CLUSTERS:
        return ControlFinding.FEW
    low, high = _bounds(ceiling)[0], _bounds(floor)[1]
    if low is None or high is None or low <= high:
        return ControlFinding.UNFIT
    if chance is None:
        return None
    if low <= chance or high >= chance:
        return ControlFinding.UNFIT
    return ControlFinding.WEAK if ceiling.value - floor.value < SMALLEST_GAP else None


def _bounds(score: Score) -> tuple[float | None, float | None]:
    """The interval of a score; a constant over several clusters is its own interval."""
    is_constant = score.low is None and score.clusters > 1
    return (score.value, score.value) if is_constant else (score.low, score.high)


def _place(row: ScoreRow) -> tuple[str, ...]:
    score = row.score
    overall = "" if score.group == ALL else score.group
    return (row.task, score.judge, score.variant, score.decoding, row.model, overall, score.metric)


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


def constant_alarms(
    rows: Sequence[ScoreRow], heads: Sequence[ScoreRow]
) -> list[ConstantBaselineAlarm]:
    """The alarms of some headline rows: at most one each, the plainest first.

    Rates of hits and of false alarms, or the recall of each class, expose a constant answer
    whatever the shares of the kinds are; accuracy alone does not. Always or never: nearly all
    texts of both kinds are flagged, or nearly none. One label: nearly all texts of one class are
    found, and nearly none of others. One kind: texts of the others are lacking, and one constant
    answer is always right. Beaten: the better constant answer has the run's accuracy or more.
    """
    by_run: dict[str, dict[str, ScoreRow]] = {}
    for row in rows:
        if row.score.group == ALL:
            by_run.setdefault(row.signature, {})[row.score.metric] = row
    alarms = []
    for head in heads:
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
    value = head.score.value
    is_beaten = value is not None and value <= _constant(kinds) + 1e-12
    return constant or (ConstantBaseline.BEATEN if is_beaten else None)


def _constant(kinds: Sequence[ScoreRow]) -> float:
    counts = [row.score.n for row in kinds]
    return max(counts) / sum(counts) if sum(counts) else 0.0
