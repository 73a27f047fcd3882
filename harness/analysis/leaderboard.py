"""All runs' scores as one table, and which of them may be ranked together.

Rows are compared only where their signatures differ in nothing but the model. Nothing here
computes a score.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.analysis.constant_baselines import has_rates
from harness.core import Score
from harness.judges.label import JudgeLabel
from harness.pipeline.choice_scores import FAVOURITE
from harness.pipeline.score import ALL
from harness.storage.runs import RunFolder
from harness.storage.score_table import ScoreRow, read_table

HEADLINE_METRICS = frozenset({"accuracy", "mean_rating", "mean_f1"})
CEILING, FLOOR = "oracle", "literal"
# What fitness takes: below so many items an interval says little; a judge whose scale has a chance
# level must spread the controls over half of it.
FEWEST_CLUSTERS, SMALLEST_GAP = 10, 0.5
# The share of one place among the choices (of FEWEST_CLUSTERS samples or more: of a few, the right
# ones may stand at one place by chance), and of responses without a preference, that is told of.
ALARMING, ALARMING_TIES = 0.9, 0.05


@dataclass(frozen=True, slots=True)
class RankedTable:
    """The headline rows of one recipe, best first; a null value comes last."""

    recipe: str
    rows: tuple[ScoreRow, ...]


@dataclass(frozen=True, slots=True)
class Rank:
    """What one judge makes of one model, and its place by that judge; both null together.

    Models of equal value share the better place.
    """

    value: float | None
    rank: int | None


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model's standing by each judge of a table, null where a judge has not read it."""

    model: str
    standings: tuple[Rank | None, ...]


@dataclass(frozen=True, slots=True)
class JudgeMatrix:
    """Models by judges for one recipe, the judges' part left out of it.

    `judges` are in the order of their names, the lines in that of the first judge's ranks.
    """

    recipe: str
    judges: tuple[str, ...]
    lines: tuple[ModelRow, ...]


@dataclass(frozen=True, slots=True)
class PairSensitivity:
    """A judge's value for a run, and what it is where each answer stands under another sample."""

    model: str
    recipe: str
    judge: str
    value: float | None
    swapped: float | None

    @property
    def difference(self) -> float | None:
        """How much the judge heeds what it was made to swap; null where either value is."""
        if self.value is None or self.swapped is None:
            return None
        return self.value - self.swapped


class ControlFinding(StrEnum):
    """What the two controls say against a judge."""

    UNHEARD = "unheard"
    FEW = "few"
    UNFIT = "unfit"
    WEAK = "weak"


@dataclass(frozen=True, slots=True)
class JudgeWarning:
    """What speaks against a judge, and its scores for the ceiling and the floor control."""

    finding: ControlFinding
    recipe: str
    ceiling: Score
    floor: Score


def collect(folders: Iterable[RunFolder]) -> list[ScoreRow]:
    """Every row of every run, each score once, in a fixed order."""
    tables = [read_table(folder.scores) for folder in folders if folder.scores.is_file()]
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
        key = (row.task, _tested(row), score.variant, score.judge, *_rest(row))
        held = chosen.get(key)
        if held is None or score.decoding.count("+") > held.score.decoding.count("+"):
            chosen[key] = row
    return list(chosen.values())


def boards(rows: Sequence[ScoreRow]) -> list[RankedTable]:
    """Headline rows by recipe, each board ranked by value."""
    grouped: dict[str, list[ScoreRow]] = {}
    for row in headlines(rows):
        grouped.setdefault(row.recipe, []).append(row)
    return [
        RankedTable(recipe, tuple(sorted(members, key=_rank)))
        for recipe, members in grouped.items()
    ]


def side_by_side(rows: Sequence[ScoreRow]) -> list[JudgeMatrix]:
    """A table a task, data, variant, decoding and version: every model by every judge.

    Judges that read answers under swapped samples are left out: what they say of a model is no
    merit of its.
    """
    tables: dict[str, dict[str, RankedTable]] = {}
    for board in boards(rows):
        signature, judge = board.rows[0].parsed, board.rows[0].score.judge
        if not JudgeLabel.parse(judge).is_swapped:
            recipe = signature.without("model", "judge", "way")
            tables.setdefault(recipe, {})[str(signature.recipe)] = board
    return [_table(recipe, dict(sorted(held.items()))) for recipe, held in tables.items()]


def sensitivities(rows: Sequence[ScoreRow]) -> list[PairSensitivity]:
    """Each judge that has read a run both as it is and with its samples swapped."""
    heads = {row.signature: row for row in headlines(rows)}
    found = []
    for row in heads.values():
        judge, signature = row.score.judge, row.parsed
        swapped = str(replace(JudgeLabel.parse(judge), is_swapped=True))
        recipe = swapped + signature.judge.removeprefix(judge)
        other = heads.get(str(replace(signature, judge=recipe)))
        if other is not None and judge != swapped:
            pair = (row.score.value, other.score.value)
            found.append(PairSensitivity(row.model, row.recipe, judge, *pair))
    return found


def _table(recipe: str, held: Mapping[str, RankedTable]) -> JudgeMatrix:
    by_judge = [{_tested(row): row for row in board.rows} for board in held.values()]
    models = dict.fromkeys(name for members in by_judge for name in members)
    lines = [
        ModelRow(
            next(members[name].model for members in by_judge if name in members),
            tuple(
                standing(members[name], board) if name in members else None
                for members, board in zip(by_judge, held.values(), strict=True)
            ),
        )
        for name in models
    ]
    return JudgeMatrix(recipe, _names(list(held)), tuple(lines))


def standing(row: ScoreRow, board: RankedTable) -> Rank:
    """The place of a row on its board; none without a value."""
    value = row.score.value
    if value is None:
        return Rank(None, None)
    values = (other.score.value for other in board.rows)
    return Rank(value, 1 + sum(other is not None and other > value for other in values))


def _names(recipes: Sequence[str]) -> tuple[str, ...]:
    """Judges by name; by their whole recipe where two have one name."""
    names = [recipe.partition(":")[0] for recipe in recipes]
    return tuple(
        name if names.count(name) == 1 else recipe
        for name, recipe in zip(names, recipes, strict=True)
    )


def _tested(row: ScoreRow) -> str:
    """The model of a row with its kind and revision, as its signature says."""
    return row.parsed.fields["model"]


def judge_warnings(rows: Sequence[ScoreRow]) -> list[JudgeWarning]:
    """The judges of which the controls oracle and literal do not show that they are fit."""
    found = []
    for board in boards(rows):
        named = {row.model: row for row in board.rows}
        ceiling, floor = named.get(CEILING), named.get(FLOOR)
        if ceiling and floor and not JudgeLabel.parse(ceiling.score.judge).is_swapped:
            finding = _finding(ceiling.score, floor.score, chance=ceiling.chance)
            found += (
                [JudgeWarning(finding, board.recipe, ceiling.score, floor.score)] if finding else []
            )
    return found


@dataclass(frozen=True, slots=True)
class Alarm:
    """A run whose choices do not depend on what is asked, as far as can be told.

    `favourite` is the share of the place chosen most often, null where it is no cause; `alike` the
    share of responses whose choices all score the same.
    """

    row: ScoreRow
    favourite: float | None
    alike: float | None


def alarms(rows: Sequence[ScoreRow]) -> list[Alarm]:
    """The runs that nearly always choose one place, or that score all choices the same.

    Of the variants of a run that are of one family - those before whose colon the same stands -
    the one with most responses stands for it: all orders together, where they were asked. Where
    choices are told by rates of hits and false alarms, those tell more than places do.
    """
    overall = [row for row in rows if row.score.group == ALL]
    favourites = {r.signature: r.score.value for r in overall if r.score.metric == FAVOURITE}
    alike = {r.signature: r.score.value for r in overall if r.score.metric == "identical_scores"}
    widest = {_run(row): row for row in sorted(headlines(rows), key=lambda row: row.score.n)}
    by_rates, found = has_rates(rows), []
    for row in widest.values():
        share, same = favourites.get(row.signature), alike.get(row.signature)
        is_stuck = row.score.clusters >= FEWEST_CLUSTERS and (share or 0.0) >= ALARMING
        is_stuck = is_stuck and row.signature not in by_rates
        is_alike = row.score.clusters >= FEWEST_CLUSTERS and (same or 0.0) >= ALARMING_TIES
        if is_stuck or is_alike:
            found.append(Alarm(row, share if is_stuck else None, same if is_alike else None))
    return found


def _run(row: ScoreRow) -> tuple[str, ...]:
    """What tells a model's run of a task by one judge from others, whatever the variant."""
    fields = row.parsed.fields
    alike = [fields[name] for name in ("data", "model", "decoding", "judge")]
    return (row.task, *alike, row.score.variant.rpartition(":")[0])


def _finding(ceiling: Score, floor: Score, *, chance: float | None) -> ControlFinding | None:
    """What two controls say against a judge; null where they say nothing."""
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
    """The interval of a score; a constant over several clusters is its own, for want of one."""
    is_constant = score.low is None and score.clusters > 1
    return (score.value, score.value) if is_constant else (score.low, score.high)


def _rank(row: ScoreRow) -> tuple[bool, float, str]:
    value = row.score.value
    return value is None, -(value or 0.0), row.model


def _place(row: ScoreRow) -> tuple[str, ...]:
    score = row.score
    overall = "" if score.group == ALL else score.group
    return (row.task, score.judge, score.variant, score.decoding, row.model, overall, score.metric)


def _rest(row: ScoreRow) -> tuple[str, ...]:
    """What else of a recipe keeps rows apart: all but the temperatures of the decoding."""
    return (replace(row.parsed, decoding="").without("variant", "model"),)
