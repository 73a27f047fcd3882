"""Scores to the tables of a page: leaderboards, phenomena, levels, curves, agreement, cost.

Every number keeps what is behind it: recipe, counts, missing values, and which items. Nothing
here computes a statistic.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from harness.analysis import curves
from harness.analysis.boards.alarms import Row
from harness.analysis.boards.views import board_notes, recipe_labels
from harness.analysis.run_views import ComparedRun
from harness.judges.custom import JudgeLabel
from harness.lazy import DataFrame
from harness.parts import Reason
from harness.pipeline.choice_scores import MACRO
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
from harness.storage.frames import records
from harness.storage.runs import Cost, RunFile

RANKED = {MACRO: "macro F1", "tpr_less_fpr": "TPR less FPR"}
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
    """Scores and boards of the page's runs; what is behind each number is put down here."""

    made: PageParts
    rows: DataFrame
    boards: Sequence[DataFrame]
    whys: list[PageWhy] = field(default_factory=list)
    chosen: list[list[int]] = field(default_factory=list)

    def run_of(self, row: Row) -> int:
        """The place of the run that a row is of."""
        return self.made.folders[row.run]

    def file_of(self, row: Row) -> ComparedRun:
        """The run that a row is of."""
        return self.made.stored[self.run_of(row)]

    def behind(self, why: PageWhy) -> int:
        """The place of what is behind a number."""
        self.whys.append(why)
        return len(self.whys) - 1

    def why(self, row: Row) -> int:
        """The place of what is behind a score."""
        text, run = self.made.texts, self.file_of(row)
        labels = {label for _, label in run.ways}
        counts = {reason: int(getattr(row, f"missing_{reason}")) for reason in Reason}
        missing = {reason: n for reason, n in counts.items() if n}
        return self.behind(
            PageWhy(
                recipe=text.place(row.signature),
                n=int(row.n),
                clusters=int(row.clusters),
                missing=tuple((text.place(reason), n) for reason, n in missing.items()),
                runs=(self.run_of(row),),
                variants=text.places(members(run.file.task, row.variant)),
                judge=text.place(row.judge),
                decoding=text.place(row.decoding) if row.decoding in labels else NONE,
                group=NONE if row.group == ALL else text.place(row.group),
            )
        )

    def cell(self, row: Row) -> PageCell:
        """A score with its interval."""
        return PageCell(known(row.value), known(row.low), known(row.high), self.why(row))

    def listed(self, samples: Iterable[int]) -> int:
        """The place of a list of samples."""
        self.chosen.append(sorted(set(samples)))
        return len(self.chosen) - 1


def known(number: float) -> float | None:
    """A number of a frame; None where it is missing."""
    return None if isnan(number) else float(number)


def first(board: DataFrame) -> Row:
    """The first row of a board: all have its task, variant and judge."""
    return next(board.itertuples())


def members(task: TaskSpec, variant: str) -> tuple[str, ...]:
    """The variants that a variant or an average is of."""
    return averages(task).get(variant, (variant,))


def main_variant(run: ComparedRun) -> str:
    """The variant or average that stands for a run: that of its task's first variant."""
    task, own = run.file.task, run.file.run.variants
    first = next((name for name in task.default_variants if name in own), own[0])
    average = task.variants[first].averaged_over
    return average if average and set(members(task, average)) <= set(own) else first


def in_order(numbers: PageNumbers) -> list[DataFrame]:
    """The boards task by task: main variants and the task's own judges first, swapped ones last."""

    def key(board: DataFrame) -> tuple[object, ...]:
        row = first(board)
        run, label = numbers.file_of(row), JudgeLabel.parse(row.judge)
        task, variant = run.file.task, row.variant
        order = [*task.variants]
        return (
            row.task,
            label.is_swapped,
            variant != main_variant(run),
            -min(int(board["rank"].notna().sum()), 2),  # of two recipes, the one that ranks models
            order.index(variant) if variant in order else -1,
            task.judges.index(label.name) if label.name in task.judges else len(task.judges),
            row.recipe,
        )

    return sorted(numbers.boards, key=key)


def picks(numbers: PageNumbers, boards: Sequence[DataFrame]) -> list[str]:
    """A short name for each board, with what differs where a task has two of one name."""
    rows = [first(board) for board in boards]
    names = [f"{row.variant}, by {row.judge}" for row in rows]
    files = {row.run: numbers.file_of(row).file for row in rows}
    pairs = [(row.task, name) for row, name in zip(rows, names, strict=True)]
    found = []
    for row, name, pair in zip(rows, names, pairs, strict=True):
        alike = [other for other, own in zip(rows, pairs, strict=True) if own == pair]
        label = _label(row, alike, files)
        found.append(f"{name}, {label}" if label else name)
    return found


def _label(row: Row, alike: Sequence[Row], files: Mapping[str, RunFile]) -> str:
    labels = recipe_labels([(other.signature, other.run) for other in alike], files)
    return labels[[other.signature for other in alike].index(row.signature)]


def leaderboards(numbers: PageNumbers) -> Iterator[PageTable]:
    """A table a recipe: ranks and groups, values, chance, counts, what is missing, cost."""
    boards = in_order(numbers)
    for board, pick in zip(boards, picks(numbers, boards), strict=True):
        task, by = first(board).task, first(board).ranked_by
        has_chance = by == "mean" and bool(board["chance"].notna().any())
        has_rates, has_ranks = by == "tpr_less_fpr", bool(board["rank"].notna().any())
        is_shared = bool((board["shared"].notna() & (board["shared"] != board["value"])).any())
        has_cost = bool(board["cost_usd"].notna().any())
        has_groups = bool(board["rank_group"].notna().any())
        columns = [
            *([PageColumn("rank", "count")] if has_ranks else []),
            *([PageColumn("group", "count")] if has_groups else []),
            PageColumn("model"),
            PageColumn(_ranked_name(first(board)), "number"),
            *([PageColumn("on shared items", "number")] if is_shared else []),
            *([PageColumn("TPR", "number"), PageColumn("FPR", "number")] if has_rates else []),
            *([PageColumn("chance", "number")] if has_chance else []),
            *(PageColumn("n", "count"), PageColumn("missing", "missing")),
            *([PageColumn("cost USD", "usd")] if has_cost else []),
        ]
        lines = []
        for row in board.itertuples():
            why = numbers.why(row)
            model = f"{row.model} (control)" if row.is_control else row.model
            model += " (constant answer)" * (row.is_constant and not row.is_control)
            lines.append(
                [
                    *([_whole(row.rank)] if has_ranks else []),
                    *([_whole(row.rank_group)] if has_groups else []),
                    model,
                    PageCell(known(row.value), known(row.low), known(row.high), why),
                    *([known(row.shared)] if is_shared else []),
                    *([known(row.tpr), known(row.fpr)] if has_rates else []),
                    *([known(row.chance)] if has_chance else []),
                    PageCell(int(row.n), why=why),
                    PageCell(int(row.missing), why=why),
                    *([known(row.cost_usd)] if has_cost else []),
                ]
            )
        about, notes = _on_what(board), board_notes(board)
        yield PageTable(f"{task}: {pick}", tuple(columns), lines, task, pick, about, notes)


def _whole(number: float) -> int | None:
    return None if isnan(number) else int(number)


def _ranked_name(row: Row) -> str:
    """The name of what a board ranks by: that of its metric."""
    return RANKED.get(row.ranked_by, str(row.metric).replace("_", " "))


def _on_what(board: DataFrame) -> str:
    count = int(board["rank"].notna().sum())
    if count < 2:
        return "Controls have no rank." if board["is_control"].any() else ""
    items, clusters = map(_whole, (first(board).rank_items, first(board).rank_clusters))
    if items is None:
        return "Ranked by value alone; no group is known."
    models = "both" if count == 2 else f"all {count}"
    apart = "Models of one group are not" if count == 2 else "Not all models within a group are"
    return (
        f"Ranked on the {items} verdicts that {models} have, of {clusters} independent "
        f"items. {apart} significantly different. Controls have no rank."
    )


def phenomena(numbers: PageNumbers) -> Iterator[PageTable]:
    """Models by the groups of samples, for each board that has groups."""
    found = {(row.signature, row.group, row.metric): row for row in numbers.rows.itertuples()}
    groups: dict[str, list[str]] = {}
    for signature, group, _ in found:
        groups.setdefault(signature, []).append(group)
    boards = in_order(numbers)
    for board, pick in zip(boards, picks(numbers, boards), strict=True):
        rows = [*board.itertuples()]
        own = {group for row in rows for group in groups[row.signature]} - {ALL}
        named = sorted(g for g in own if any(_key(row, g) in found for row in rows))
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
            for row in rows
        ]
        columns = (PageColumn("model"), *(PageColumn(group, "number") for group in (ALL, *named)))
        task, metric = rows[0].task, rows[0].metric
        yield PageTable(f"{task}, {metric} by group: {pick}", columns, lines, task, pick)


def _key(row: Row, group: str) -> tuple[str, str, str]:
    return row.signature, group, row.metric


def levels(numbers: PageNumbers) -> Iterator[PageTable]:
    """Models by variants, for each task and judge that were asked under several."""
    grouped: dict[tuple[str, ...], list[DataFrame]] = {}
    for board in in_order(numbers):
        row = first(board)
        key = (row.task, row.judge, row.data, row.limit, row.seed, row.judge_version)
        grouped.setdefault(key, []).append(board)
    heads = [first(boards[0]) for boards in grouped.values()]
    files = {row.run: numbers.file_of(row).file for row in heads}
    for (task, judge, *_), boards in grouped.items():
        variants = list(dict.fromkeys(first(board).variant for board in boards))
        if len(variants) < 2:
            continue
        cells: dict[str, dict[str, PageCell]] = {}
        for row in (row for board in boards for row in board.itertuples()):
            ends = known(row.score), known(row.score_low), known(row.score_high)
            own = cells.setdefault(row.model, {})
            own.setdefault(row.variant, PageCell(*ends, numbers.why(row)))
        lines = [[name, *(own.get(variant) for variant in variants)] for name, own in cells.items()]
        columns = (PageColumn("model"), *(PageColumn(variant, "number") for variant in variants))
        alike = [row for row in heads if (row.task, row.judge) == (task, judge)]
        label = _label(first(boards[0]), alike, files)
        pick = f"by {judge} ({label})" if label else f"by {judge}"
        metric = first(boards[0]).metric
        yield PageTable(f"{task}, {metric} by variant: {pick}", columns, lines, task, pick)


def curve_series(rows: DataFrame) -> Iterator[PageCurve]:
    """Published bins and logistic curves of both rates, of each signature."""
    for task, own in rows.groupby("task", sort=False):
        labels = curves.names(own)
        shown = own[own["shape"].isin((curves.PUBLISHED, "logistic")) & own["at"].notna()]
        for (name, rate, shape), points in shown.groupby(
            ["signature", "rate", "shape"], sort=False
        ):
            yield PageCurve(
                str(task),
                f"{points['variant'].iat[0]}, by {points['judge'].iat[0]}",
                labels[name],
                rate,
                shape,
                points["at"].tolist(),
                points["to"].fillna(points["at"]).tolist(),
                *([known(value) for value in points[n]] for n in ("value", "low", "high")),
            )


def bins(rows: DataFrame) -> Iterator[PageTable]:
    """The numbers behind the bins of the curves, a table a signature."""
    published = rows[rows["shape"] == curves.PUBLISHED]
    labels = curves.names(rows)
    columns = (
        *(PageColumn("rate"), PageColumn("from", "number"), PageColumn("to", "number")),
        *(PageColumn("value", "number"), PageColumn("n", "count"), PageColumn("clusters", "count")),
        PageColumn("note"),
    )
    for signature, members in published.groupby("signature", sort=False):
        own = records(members)
        lines = [
            [r.rate, r.at, r.to, PageCell(r.value, r.low, r.high), r.n, r.clusters, r.note]
            for r in own
        ]
        label = f"{labels[str(signature)]}, {own[0].variant}, by {own[0].judge}"
        yield PageTable(f"{own[0].task}, bins: {label}", columns, lines, own[0].task, label)


def agreement_tables(rows: Sequence[Row]) -> Iterator[PageTable]:
    """Judges by the main statistics of their agreement with people, and the raters' ceiling."""
    by_task: dict[str, dict[tuple[str, ...], dict[str, Row]]] = {}
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


def _agreed(row: Row | None) -> Value:
    if row is None:
        return None
    return row.reason if row.value is None else PageCell(row.value, row.low, row.high)


def costs(numbers: PageNumbers) -> PageTable:
    """Calls, tokens and dollars of each run, with the judges' share."""
    lines: list[list[Any]] = []
    for page, run in zip(numbers.made.runs, numbers.made.stored, strict=True):
        names, found = [page["task"], page["label"]], run.file.costs
        if found is None:
            lines.append([*names, *[None] * 6, "not stored by that version"])
            continue
        judged = [cost.reported.cost_usd for cost in found.judges.values()]
        priced = [usd for usd in judged if usd is not None]
        total = found.total
        lines.append(
            [
                *(*names, total.calls),
                *(total.reported.prompt_tokens, total.reported.completion_tokens),
                *(
                    found.answers.reported.cost_usd,
                    sum(priced) if priced else None,
                    total.reported.cost_usd,
                ),
                "" if page["is_control"] and total.reported.cost_usd is None else _unknown(total),
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
    if total.cost_usd is None and total.reported.cost_usd is not None:
        facts.append("at least: some calls report no cost")
    if total.reported.cost_usd is None:
        facts.append("no price is known")
    if total.unanswered:
        facts.append(f"{total.unanswered} calls broke off without an answer")
    return "; ".join(facts)


def best(board: DataFrame) -> list[Row]:
    """The ranked rows of a board, the first rank first."""
    ranked = board[board["rank"].notna()].sort_values("rank", kind="stable")
    return [*ranked.itertuples()]
