"""Scores, differences and costs to the tables of a page.

Every number keeps what is behind it: recipe, counts, missing values, and which items. Nothing
here computes a statistic.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any

from harness.analysis.boards.alarms import Row
from harness.analysis.boards.views import board_notes, ranked_on, recipe_label
from harness.analysis.compare import compare, decided_items, read_items
from harness.analysis.pairings import Kind, Pairing, between
from harness.analysis.run_views import ComparedRun
from harness.errors import HarnessError
from harness.judges.custom import JudgeLabel
from harness.lazy import DataFrame
from harness.parts import Reason
from harness.pipeline.choice_scores import MACRO
from harness.pipeline.verdict_frame import ALL, averages
from harness.present.page.items import NONE, Cell, PageParts, PageTable, Value
from harness.specs.tasks import TaskSpec
from harness.stats.comparison import holm
from harness.stats.estimate import BootstrapSettings
from harness.storage.frames import records

RANKED = {MACRO: "macro F1", "tpr_less_fpr": "TPR less FPR"}
_COUNTS = {
    "both": ("both right", (1, 1)),
    "only_a": ("A only right", (1, 0)),
    "only_b": ("B only right", (0, 1)),
    "neither": ("both wrong", (0, 0)),
    "ties": ("tie", None),
}
"""The counts of a comparison, and whether A and B are right in them; None where one is neither."""
_MOST = 12
"""So many models are compared with the leader."""
_SETTINGS = BootstrapSettings(0, 1000)


def table_of(title: str, lines: Sequence[Mapping[str, Value]], **more: Any) -> PageTable:  # noqa: ANN401 - fields of a table
    """Rows by the names of their columns as a table; a column that is empty is left out."""
    names = dict.fromkeys(name for line in lines for name in line)
    cells = {name: [line.get(name) for line in lines] for name in names}
    kinds = {
        name: _kind(name, [one[0] if isinstance(one, tuple) else one for one in own])
        for name, own in cells.items()
        if any(one not in (None, "") for one in own)
    }
    columns = [{"name": name, "kind": kind} for name, kind in kinds.items()]
    rows = [[line.get(name) for name in kinds] for line in lines]
    return PageTable(title, columns, rows, **more)


def _kind(name: str, values: Sequence[object]) -> str:
    """How the script shows a column: text, number, count, missing, usd or p."""
    if name == "missing":
        return name
    if any(isinstance(one, str) for one in values):
        return "text"
    if name.startswith("p ("):
        return "p"
    if name.endswith("USD"):
        return "usd"
    return "number" if any(isinstance(one, float) for one in values) else "count"


def known(number: float) -> float | None:
    """A number of a frame; None where it is missing."""
    return None if isnan(number) else float(number)


def _whole(number: float) -> int | None:
    return None if isnan(number) else int(number)


def first(board: DataFrame) -> Row:
    """The first row of a board: all have its task, variant and judge."""
    return next(board.itertuples())


def best(board: DataFrame) -> list[Row]:
    """The ranked rows of a board, the first rank first."""
    ranked = board[board["rank"].notna()].sort_values("rank", kind="stable")
    return [*ranked.itertuples()]


def members(task: TaskSpec, variant: str) -> tuple[str, ...]:
    """The variants that a variant or an average is of."""
    return averages(task).get(variant, (variant,))


def why(page: PageParts, row: Row) -> int:
    """The place of what is behind a score."""
    run = page.run_of(row)
    counts = {reason: int(getattr(row, f"missing_{reason}")) for reason in Reason}
    missing = [(page.text(reason), n) for reason, n in counts.items() if n]
    is_one = row.decoding in set(run.verdicts["decoding"])
    return page.behind(
        row.signature,
        (int(row.n), int(row.clusters)),
        missing=missing,
        runs=[page.folders[row.run]],
        variants=page.places(members(run.file.task, row.variant)),
        judge=page.text(row.judge),
        decoding=page.text(row.decoding) if is_one else NONE,
        group=NONE if row.group == ALL else page.text(row.group),
    )


def main_variant(run: ComparedRun) -> str:
    """The variant or average that stands for a run: that of its task's first variant."""
    task, own = run.file.task, run.file.run.variants
    first = next((name for name in task.default_variants if name in own), own[0])
    average = task.variants[first].averaged_over
    return average if average and set(members(task, average)) <= set(own) else first


def in_order(page: PageParts, boards: Sequence[DataFrame]) -> list[tuple[DataFrame, str]]:
    """The boards with short names, task by task.

    Main variants and the task's own judges are first, swapped judges last. A name has what differs
    where a task has two of one name.
    """

    def key(board: DataFrame) -> tuple[object, ...]:
        row = first(board)
        run, label = page.run_of(row), JudgeLabel.parse(row.judge)
        task, variant, order = run.file.task, row.variant, [*run.file.task.variants]
        return (
            row.task,
            label.is_swapped,
            variant != main_variant(run),
            -min(int(board["rank"].notna().sum()), 2),  # of two recipes, the one that ranks models
            order.index(variant) if variant in order else -1,
            task.judges.index(label.name) if label.name in task.judges else len(task.judges),
            row.recipe,
        )

    ordered = sorted(boards, key=key)
    heads = [first(board) for board in ordered]
    named = [(row.task, row.variant, row.judge) for row in heads]
    found = []
    for board, row, names in zip(ordered, heads, named, strict=True):
        alike = [other for other, own in zip(heads, named, strict=True) if own == names]
        label = _label(page, row, alike)
        name = f"{row.variant}, by {row.judge}"
        found.append((board, f"{name}, {label}" if label else name))
    return found


def _label(page: PageParts, row: Row, alike: Sequence[Row]) -> str:
    files = {other.run: page.run_of(other).file for other in alike}
    return recipe_label(row, alike, files)


def leaderboard(page: PageParts, board: DataFrame, pick: str) -> PageTable:
    """Ranks and groups, values, chance, counts, what is missing, cost."""
    head = first(board)
    is_rate = head.ranked_by == "tpr_less_fpr"
    is_shared = bool((board["shared"].notna() & (board["shared"] != board["value"])).any())
    lines: list[dict[str, Value]] = []
    for row in board.itertuples():
        place = why(page, row)
        kind = " (control)" if row.is_control else " (constant answer)" * row.is_constant
        value = RANKED.get(row.ranked_by, str(head.metric).replace("_", " "))
        lines.append(
            {
                "rank": _whole(row.rank),
                "group": _whole(row.rank_group),
                "model": row.model + kind,
                value: (known(row.value), known(row.low), known(row.high), place),
                "on shared items": known(row.shared) if is_shared else None,
                "TPR": known(row.tpr) if is_rate else None,
                "FPR": known(row.fpr) if is_rate else None,
                "chance": known(row.chance) if row.ranked_by == "mean" else None,
                "n": (int(row.n), None, None, place),
                "missing": (int(row.missing), None, None, place),
                "cost USD": known(row.cost_usd),
            }
        )
    words = {"about": ranked_on(board), "notes": board_notes(board)}
    return table_of(f"{head.task}: {pick}", lines, task=head.task, pick=pick, **words)


def phenomena(page: PageParts, boards: Sequence[tuple[DataFrame, str]]) -> Iterator[PageTable]:
    """Models by the groups of samples, for each board that has groups."""
    scores = page.scores
    for board, pick in boards:
        head = first(board)
        own = scores[scores["signature"].isin(board["signature"])]
        own = own[own["metric"] == head.metric]
        named = sorted(set(own["group"]) - {ALL})
        if len(named) < 2:
            continue
        found = {(row.signature, row.group): row for row in own.itertuples()}
        lines = [
            {"model": row.model}
            | {
                group: _score(page, part) if (part := found.get((row.signature, group))) else None
                for group in (ALL, *named)
            }
            for row in board.itertuples()
        ]
        title = f"{head.task}, {head.metric} by group: {pick}"
        yield table_of(title, lines, task=head.task, pick=pick)


def _score(page: PageParts, row: Row) -> Cell:
    return known(row.value), known(row.low), known(row.high), why(page, row)


def levels(page: PageParts, boards: Sequence[tuple[DataFrame, str]]) -> Iterator[PageTable]:
    """Models by variants, for each task and judge that were asked under several."""
    grouped: dict[tuple[str, ...], list[DataFrame]] = {}
    for board, _ in boards:
        row = first(board)
        key = (row.task, row.judge, row.data, row.limit, row.seed, row.judge_version)
        grouped.setdefault(key, []).append(board)
    heads = [first(own[0]) for own in grouped.values()]
    for head, own in zip(heads, grouped.values(), strict=True):
        if len({first(board).variant for board in own}) < 2:
            continue
        lines: dict[str, dict[str, Value]] = {}
        for row in (row for board in own for row in board.itertuples()):
            ends = known(row.score), known(row.score_low), known(row.score_high)
            line = lines.setdefault(row.model, {"model": row.model})
            line.setdefault(row.variant, (*ends, why(page, row)))
        alike = [row for row in heads if (row.task, row.judge) == (head.task, head.judge)]
        label = _label(page, head, alike)
        pick = f"by {head.judge} ({label})" if label else f"by {head.judge}"
        title = f"{head.task}, {head.metric} by variant: {pick}"
        yield table_of(title, [*lines.values()], task=head.task, pick=pick)


def differences(
    page: PageParts, board: DataFrame, pick: str
) -> tuple[list[Row], list[PageTable], list[str]]:
    """The leader of a board less each other ranked model: rows over all samples, and a table.

    The p of these rows is corrected for all of them together, and not for groups. The notes say
    which models cannot be compared, and why.
    """
    lead, *others = best(board)
    pairs: list[tuple[Pairing, list[int]]] = []
    notes = []
    for other in others[:_MOST]:
        try:
            found, _, _ = between(page.run_of(lead), page.run_of(other), (lead.judge, lead.judge))
        except HarnessError as error:
            notes.append(f"{lead.model} and {other.model} are not compared: {error}")
            continue
        runs = list(dict.fromkeys((page.folders[lead.run], page.folders[other.run])))
        wanted = (Kind.RUNS, lead.variant, lead.decoding)
        pairs += [
            (one, runs)
            for one in found
            if (one.kind, one.second.variant, one.decodings[0]) == wanted
        ]
    if not pairs:
        return [], [], notes
    rows = iter(records(compare([pairing for pairing, _ in pairs], _SETTINGS)))
    lines, heads = [], []
    for pairing, runs in pairs:
        for row in [next(rows) for _ in {ALL, *pairing.items["group"]}]:
            lines.append(_difference(page, row, pairing, runs))
            heads += [row] if row.group == ALL else []
    has_exact = all(row.p_exact is not None for row in heads)
    each = holm([row.p_exact if has_exact else row.p_permutation for row in heads])
    title = f"{lead.task}, the leader and each other model: {pick}"
    about = "A less B on the items that both have. A count opens its items."
    table = table_of(title, lines, task=lead.task, pick=pick, about=about)
    tests = len(heads)
    corrected = [r._replace(p_holm=p, tests=tests) for r, p in zip(heads, each, strict=True)]
    return corrected, [table], notes


def _difference(page: PageParts, row: Row, pairing: Pairing, runs: Sequence[int]) -> dict[str, Any]:
    """A line of differences; each count names its samples."""
    items = pairing.items
    items = items if row.group == ALL else items[items["group"] == row.group]
    variants = dict.fromkeys(
        name
        for side in (pairing.first, pairing.second)
        for name in members(side.file.task, side.variant)
    )
    missing = [("in A", row.missing_a), ("in B", row.missing_b)]

    def behind(chosen: int = NONE) -> int:
        return page.behind(
            row.signature_a,
            (row.n, row.clusters),
            other=page.text(row.signature_b),
            missing=[(page.text(side), count) for side, count in missing if count],
            runs=runs,
            variants=page.places(list(variants)),
            judge=page.text(row.judge_a) if row.judge_a == row.judge_b else NONE,
            group=NONE if row.group == ALL else page.text(row.group),
            chosen=chosen,
        )

    place = behind()
    line: dict[str, Any] = {"A": row.model_a, "B": row.model_b, "group": row.group}
    line["n"] = (row.n, None, None, place)
    for name, (words, rights) in _COUNTS.items() if row.both is not None else ():
        if rights is None:
            own = read_items(items).drop(decided_items(items).index)
        else:
            own = items[(items["a"] == rights[0]) & (items["b"] == rights[1])]
        listed = page.listed(runs, own["id"])
        line[words] = (getattr(row, name), None, None, behind(listed))
    right = (row.both or 0) + (row.only_a or 0)
    line["A less B"] = (row.value, row.low, row.high, place)
    line["B right if A is"] = (row.both or 0) / right if right else None
    return line | {"p (Holm)": row.p_holm}


def costs(page: PageParts) -> PageTable:
    """Calls, tokens and dollars of each run; a cost that is not all known is missing."""
    lines: list[dict[str, Value]] = []
    for facts, run in zip(page.runs, page.stored, strict=True):
        line: dict[str, Value] = {"task": str(facts["task"]), "run": str(facts["label"])}
        if (found := run.file.costs) is not None:
            total, tokens = found.total, found.total.reported
            line |= {"calls": total.calls, "tokens in": tokens.prompt_tokens}
            line |= {"tokens out": tokens.completion_tokens, "total USD": total.cost_usd}
        lines.append(line)
    return table_of("Cost of each run", lines)
