"""Scores to the tables of a page: leaderboards, phenomena, levels, curves, agreement, cost.

Every number keeps what is behind it: recipe, counts, missing values, and which items. Nothing
here computes a statistic.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.analysis import curves
from harness.analysis.agreement import AgreementRow
from harness.analysis.curves import CurveRow
from harness.analysis.findings import board_notes
from harness.analysis.leaderboard import BoardRow
from harness.analysis.matrices import recipe_labels
from harness.analysis.standings import BoardVerdicts, RankedBy, RankedTable, Standing
from harness.judges.custom import JudgeLabel
from harness.pipeline.columns.stored import ColumnRun
from harness.pipeline.score import ALL, averages
from harness.present.page.items import PageParts
from harness.present.page.records import (
    NONE,
    PageCell,
    PageColumn,
    PageCurve,
    PageTable,
    PageWhy,
    Value,
)
from harness.specs.tasks import TaskSpec
from harness.storage.runs import Cost

RANKED = {
    RankedBy.MACRO_F1: "macro F1",
    RankedBy.INFORMEDNESS: "TPR less FPR",
}
_STATISTICS = {
    "pearson_dataset": "Pearson r",
    "attainable_r": "attainable r (ceiling)",
    "noise_ceiling": "noise ceiling",
    "kendall_document": "Kendall tau",
    "spearman_system": "Spearman, systems",
    "acc_eq": "acc_eq",
    "alpha_raters": "alpha, raters",
    "alpha_judge_with_raters": "alpha with judge",
    "annotator_winning_rate": "winning rate",
}


@dataclass
class PageNumbers:
    """Rows and boards of the page's runs; what is behind each number is put down here."""

    made: PageParts
    rows: Sequence[BoardRow]
    boards: Sequence[RankedTable]
    verdicts: Mapping[str, BoardVerdicts]
    whys: list[PageWhy] = field(default_factory=list)
    chosen: list[list[int]] = field(default_factory=list)

    def run_of(self, row: BoardRow) -> int:
        """The place of the run that a row is of."""
        return self.made.folders[row.run]

    def file_of(self, row: BoardRow) -> ColumnRun:
        """The run that a row is of."""
        return self.made.stored[self.run_of(row)]

    def behind(self, why: PageWhy) -> int:
        """The place of what is behind a number."""
        self.whys.append(why)
        return len(self.whys) - 1

    def why(self, row: BoardRow) -> int:
        """The place of what is behind a score."""
        text, score, run = self.made.texts, row.score, self.file_of(row)
        labels = run.samples.decoding.kinds
        missing = {reason: n for reason, n in score.missing.items() if n}
        return self.behind(
            PageWhy(
                recipe=text.place(row.signature),
                n=score.n,
                clusters=score.clusters,
                missing=tuple((text.place(reason), n) for reason, n in missing.items()),
                runs=(self.run_of(row),),
                variants=text.places(members(run.file.task, score.variant)),
                judge=text.place(score.judge),
                decoding=text.place(score.decoding) if score.decoding in labels else NONE,
                group=NONE if score.group == ALL else text.place(score.group),
            )
        )

    def cell(self, row: BoardRow) -> PageCell:
        """A score with its interval."""
        return PageCell(row.score.value, row.score.low, row.score.high, self.why(row))

    def listed(self, samples: Iterable[int]) -> int:
        """The place of a list of samples."""
        self.chosen.append(sorted(set(samples)))
        return len(self.chosen) - 1


def members(task: TaskSpec, variant: str) -> tuple[str, ...]:
    """The variants that a variant or an average is of."""
    return averages(task).get(variant, (variant,))


def main_variant(run: ColumnRun) -> str:
    """The variant or average that stands for a run: that of its task's first variant."""
    task, own = run.file.task, run.file.run.variants
    first = next((name for name in task.default_variants if name in own), own[0])
    average = task.variants[first].averaged_over
    return average if average and set(members(task, average)) <= set(own) else first


def in_order(numbers: PageNumbers) -> list[RankedTable]:
    """The boards task by task: main variants and the task's own judges first, swapped ones last."""

    def key(board: RankedTable) -> tuple[object, ...]:
        row = board.rows[0]
        run, label = numbers.file_of(row), JudgeLabel.parse(row.score.judge)
        task, variant = run.file.task, row.score.variant
        order = [*task.variants]
        return (
            row.task,
            label.is_swapped,
            variant != main_variant(run),
            -min(len(board.ranked), 2),  # of two recipes, the one that ranks models
            order.index(variant) if variant in order else -1,
            task.judges.index(label.name) if label.name in task.judges else len(task.judges),
            board.recipe,
        )

    return sorted(numbers.boards, key=key)


def picks(numbers: PageNumbers, boards: Sequence[RankedTable]) -> list[str]:
    """A short name for each board, with what differs where a task has two of one name."""
    rows = [board.rows[0] for board in boards]
    names = [f"{row.score.variant}, by {row.score.judge}" for row in rows]
    files = {row.run: numbers.file_of(row).file for row in rows}
    pairs = [(row.task, name) for row, name in zip(rows, names, strict=True)]
    found = []
    for row, name, pair in zip(rows, names, pairs, strict=True):
        alike = [other for other, known in zip(rows, pairs, strict=True) if known == pair]
        label = recipe_labels(alike, files)[alike.index(row)]
        found.append(f"{name}, {label}" if label else name)
    return found


def leaderboards(numbers: PageNumbers) -> Iterator[PageTable]:
    """A table a recipe: ranks and groups, values, chance, counts, what is missing, cost."""
    boards = in_order(numbers)
    for board, pick in zip(boards, picks(numbers, boards), strict=True):
        has_chance = board.ranked_by is RankedBy.MEAN and any(
            r.chance is not None for r in board.rows
        )
        has_rates = board.ranked_by is RankedBy.INFORMEDNESS
        is_shared = any(line.shared not in (None, line.value) for line in board.lines)
        has_cost = any(row.cost_usd is not None for row in board.rows)
        has_groups = any(line.group is not None for line in board.lines)
        columns = [
            *([PageColumn("rank", "count")] if board.ranked else []),
            *([PageColumn("group", "count")] if has_groups else []),
            PageColumn("model"),
            PageColumn(_ranked_name(board), "number"),
            *([PageColumn("on shared items", "number")] if is_shared else []),
            *([PageColumn("TPR", "number"), PageColumn("FPR", "number")] if has_rates else []),
            *([PageColumn("chance", "number")] if has_chance else []),
            *(PageColumn("n", "count"), PageColumn("missing", "missing")),
            *([PageColumn("cost USD", "usd")] if has_cost else []),
        ]
        lines = []
        for line in board.lines:
            row, why = line.row, numbers.why(line.row)
            model = f"{row.model} (control)" if line.is_control else row.model
            model += " (constant answer)" * (line.is_constant and not line.is_control)
            lines.append(
                [
                    *([line.rank] if board.ranked else []),
                    *([line.group] if has_groups else []),
                    model,
                    PageCell(line.value, line.low, line.high, why),
                    *([line.shared] if is_shared else []),
                    *([*(line.rates or (None, None))] if has_rates else []),
                    *([row.chance] if has_chance else []),
                    PageCell(row.score.n, why=why),
                    PageCell(sum(row.score.missing.values()), why=why),
                    *([row.cost_usd] if has_cost else []),
                ]
            )
        title = f"{board.rows[0].task}: {pick}"
        about, notes = _on_what(board), board_notes(board)
        yield PageTable(title, tuple(columns), lines, board.rows[0].task, pick, about, notes)


def _ranked_name(board: RankedTable) -> str:
    """The name of what a board ranks by: that of its metric."""
    return RANKED.get(board.ranked_by, board.rows[0].score.metric.replace("_", " "))


def _on_what(board: RankedTable) -> str:
    count = len(board.ranked)
    if count < 2:
        return "Controls have no rank." if any(line.is_control for line in board.lines) else ""
    if board.items is None:
        return "Ranked by value alone; no group is known."
    models = "both" if count == 2 else f"all {count}"
    apart = "Models of one group are not" if count == 2 else "Not all models within a group are"
    return (
        f"Ranked on the {board.items} verdicts that {models} have, of {board.clusters} independent "
        f"items. {apart} told apart. Controls have no rank."
    )


def phenomena(numbers: PageNumbers) -> Iterator[PageTable]:
    """Models by the groups of samples, for each board that has groups."""
    found = {(row.signature, row.score.group, row.score.metric): row for row in numbers.rows}
    groups: dict[str, list[str]] = {}
    for row in numbers.rows:
        groups.setdefault(row.signature, []).append(row.score.group)
    boards = in_order(numbers)
    for board, pick in zip(boards, picks(numbers, boards), strict=True):
        own = {group for row in board.rows for group in groups[row.signature]} - {ALL}
        named = sorted(group for group in own if _has_headline(board, group, found))
        if len(named) < 2:
            continue
        lines = [
            [
                row.model,
                *(
                    numbers.cell(part) if (part := found.get(_key(row, group))) else None
                    for group in (ALL, *named)
                ),
            ]
            for row in board.rows
        ]
        columns = (PageColumn("model"), *(PageColumn(group, "number") for group in (ALL, *named)))
        metric = board.rows[0].score.metric
        title = f"{board.rows[0].task}, {metric} by group: {pick}"
        yield PageTable(title, columns, lines, board.rows[0].task, pick)


def _key(row: BoardRow, group: str) -> tuple[str, str, str]:
    return row.signature, group, row.score.metric


def _has_headline(
    board: RankedTable, group: str, found: Mapping[tuple[str, str, str], BoardRow]
) -> bool:
    return any(_key(row, group) in found for row in board.rows)


def levels(numbers: PageNumbers) -> Iterator[PageTable]:
    """Models by variants, for each task and judge that were asked under several."""
    grouped: dict[tuple[str, ...], list[RankedTable]] = {}
    for board in in_order(numbers):
        row = board.rows[0]
        made = row.parsed
        key = (row.task, row.score.judge, made.data, made.limit, made.seed, made.judge)
        grouped.setdefault(key, []).append(board)
    heads = [boards[0].rows[0] for boards in grouped.values()]
    files = {row.run: numbers.file_of(row).file for row in heads}
    for (task, judge, *_), boards in grouped.items():
        variants = list(dict.fromkeys(board.rows[0].score.variant for board in boards))
        if len(variants) < 2:
            continue
        cells: dict[str, dict[str, PageCell]] = {}
        for row in (row for board in boards for row in board.rows):
            cells.setdefault(row.model, {}).setdefault(row.score.variant, numbers.cell(row))
        lines = [[name, *(own.get(variant) for variant in variants)] for name, own in cells.items()]
        columns = (PageColumn("model"), *(PageColumn(variant, "number") for variant in variants))
        alike = [row for row in heads if (row.task, row.score.judge) == (task, judge)]
        label = recipe_labels(alike, files)[alike.index(boards[0].rows[0])]
        pick = f"by {judge} ({label})" if label else f"by {judge}"
        metric = boards[0].rows[0].score.metric
        yield PageTable(f"{task}, {metric} by variant: {pick}", columns, lines, task, pick)


def curve_series(rows: Sequence[CurveRow]) -> Iterator[PageCurve]:
    """Published bins and logistic curves of both rates, of each signature."""
    by_task: dict[str, list[CurveRow]] = {}
    for row in rows:
        by_task.setdefault(row.task, []).append(row)
    for task, own in by_task.items():
        grouped: dict[tuple[str, str, str], list[CurveRow]] = {}
        for row in own:
            if row.shape in (curves.PUBLISHED, "logistic") and row.at is not None:
                grouped.setdefault((row.signature, row.rate, row.shape), []).append(row)
        labels = curves.names(own)
        for (signature, rate, shape), points in grouped.items():
            yield PageCurve(
                task,
                f"{points[0].variant}, by {points[0].judge}",
                labels[signature],
                rate,
                shape,
                [p.at or 0.0 for p in points],
                [p.at or 0.0 if p.to is None else p.to for p in points],
                [p.value for p in points],
                [p.low for p in points],
                [p.high for p in points],
            )


def bins(rows: Sequence[CurveRow]) -> Iterator[PageTable]:
    """The numbers behind the bins of the curves, a table a signature."""
    by_signature: dict[str, list[CurveRow]] = {}
    for row in rows:
        if row.shape == curves.PUBLISHED:
            by_signature.setdefault(row.signature, []).append(row)
    labels = curves.names(rows) if rows else {}
    columns = (
        *(PageColumn("rate"), PageColumn("from", "number"), PageColumn("to", "number")),
        *(PageColumn("value", "number"), PageColumn("n", "count"), PageColumn("clusters", "count")),
        PageColumn("note"),
    )
    for signature, own in by_signature.items():
        lines = [
            [r.rate, r.at, r.to, PageCell(r.value, r.low, r.high), r.n, r.clusters, r.note]
            for r in own
        ]
        label = f"{labels[signature]}, {own[0].variant}, by {own[0].judge}"
        yield PageTable(f"{own[0].task}, bins: {label}", columns, lines, own[0].task, label)


def agreement_tables(rows: Sequence[AgreementRow]) -> Iterator[PageTable]:
    """Judges by the main statistics of their agreement with people, beside the raters' ceiling."""
    by_task: dict[str, dict[tuple[str, ...], dict[str, AgreementRow]]] = {}
    for row in rows:
        if row.statistic in _STATISTICS:
            own = by_task.setdefault(row.task, {})
            own.setdefault((row.variant, row.scale, row.judge, row.model), {})[row.statistic] = row
    for task, judges in by_task.items():
        columns = (
            *map(PageColumn, ("variant", "scale", "judge", "model")),
            *(PageColumn(name, "number") for name in _STATISTICS.values()),
            *(PageColumn("documents", "count"), PageColumn("raters", "count")),
        )
        lines = []
        for names, found in judges.items():
            cells = [_agreed(found.get(statistic)) for statistic in _STATISTICS]
            one = next(iter(found.values()))
            lines.append([*names, *cells, one.documents, one.raters])
        about = (
            "The attainable r is the highest correlation that a judge without any error would have "
            "with these raters' means."
        )
        yield PageTable(f"{task}: agreement with people", columns, lines, task, "", about)


def _agreed(row: AgreementRow | None) -> Value:
    if row is None:
        return None
    return row.reason if row.value is None else PageCell(row.value, row.low, row.high)


def costs(numbers: PageNumbers) -> PageTable:
    """Calls, tokens and dollars of each run, with the judges' share."""
    lines: list[list[Value]] = []
    for page, run in zip(numbers.made.runs, numbers.made.stored, strict=True):
        found = run.file.costs
        if found is None:
            lines.append([page.task, page.label, *[None] * 6, "not stored by that version"])
            continue
        judged = [cost.told.cost_usd for cost in found.judges.values()]
        known = [usd for usd in judged if usd is not None]
        total = found.total
        lines.append(
            [
                *(page.task, page.label, total.calls),
                *(total.told.prompt_tokens, total.told.completion_tokens),
                *(found.answers.told.cost_usd, sum(known) if known else None, total.told.cost_usd),
                "" if page.is_control and total.told.cost_usd is None else _unknown(total),
            ]
        )
    kinds = {"calls": "count", "tokens in": "count", "tokens out": "count"}
    dollars = {"answers USD": "usd", "judges USD": "usd", "total USD": "usd"}
    named = {"task": "text", "run": "text", **kinds, **dollars, "note": "text"}
    # What no run reports has no column: controls have neither tokens nor a price.
    places = [n for n, name in enumerate(named) if any(line[n] not in (None, "") for line in lines)]
    columns = tuple(PageColumn(*list(named.items())[place]) for place in places)
    return PageTable("Cost of each run", columns, [[line[n] for n in places] for line in lines])


def _unknown(total: Cost) -> str:
    facts = []
    if total.cost_usd is None and total.told.cost_usd is not None:
        facts.append("at least: some calls report no cost")
    if total.told.cost_usd is None:
        facts.append("no price is known")
    if total.unanswered:
        facts.append(f"{total.unanswered} calls broke off without an answer")
    return "; ".join(facts)


def best(board: RankedTable) -> list[Standing]:
    """The ranked lines of a board, the first rank first."""
    return sorted(board.ranked, key=lambda line: line.rank or 0)
