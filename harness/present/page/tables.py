"""Scores, differences and costs to the tables and sentences of a page.

Every number keeps what is behind it: recipe, counts, missing values, and which items. Nothing
here computes a statistic.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import comb, isnan
from typing import Any, NamedTuple

from harness.analysis.boards.ranked import RANKING, RATES
from harness.analysis.boards.scores import Row
from harness.analysis.boards.scores import alarms as alarms_of
from harness.analysis.boards.views import board_notes, levels, ranked_on, ranks, recipe_labels
from harness.analysis.compare import compare, decided_items, read_items
from harness.analysis.findings import NOISE, difference_words
from harness.analysis.flags import GROUP, RateQuery, flags, lessons, sample_cells
from harness.analysis.pairings import Kind, Pairing, of_one_task
from harness.analysis.rates import MOST_VALUES, PRECISION, rates
from harness.errors import HarnessError
from harness.judges.custom import JudgeLabel
from harness.lazy import DataFrame
from harness.parts import Mode, Reason
from harness.pipeline.verdict_frame import ALL, averages
from harness.present.page.items import NONE, PageParts, PageTable, Value
from harness.specs.models import CLASSIFIERS
from harness.stats.comparison import holm
from harness.storage.find_runs import data_words, is_trial
from harness.storage.frames import load, records
from harness.storage.runs import RunFile, RunFolder

_COUNTS = {
    "both": ("both right", (1, 1)),
    "only_a": ("A only right", (1, 0)),
    "only_b": ("B only right", (0, 1)),
    "neither": ("both wrong", (0, 0)),
    "ties": ("tie", None),
}
"""The counts of a comparison, and whether A and B are right in them; None where one is neither."""
_MOST = 12  # so many models are compared with the leader
Line = Mapping[str, Value]


class Board(NamedTuple):
    """A board of the page, its first row, whose task, variant and judge all have, and its name."""

    rows: DataFrame
    head: Row
    name: str


def table_of(title: str, lines: Sequence[Line], **more: Any) -> PageTable:  # noqa: ANN401 - fields of a table
    """Rows by the names of their columns as a table; a column that is empty is left out."""
    names = dict.fromkeys(name for line in lines for name in line)
    cells = {name: [line.get(name) for line in lines] for name in names}
    bare = {n: [c[0] if isinstance(c, tuple) else c for c in own] for n, own in cells.items()}
    kept = [name for name, own in bare.items() if any(one not in (None, "") for one in own)]
    columns = [{"name": name, "kind": _kind(name, bare[name])} for name in kept]
    rows = [list(row) for row in zip(*(cells[name] for name in kept), strict=True)]
    return PageTable(title, columns, rows, **more)


def _kind(name: str, values: Sequence[object]) -> str:
    """How the script shows a column: text, ranks, number, count, missing, usd or p."""
    if any(isinstance(one, str) for one in values):
        return "ranks" if name == "may be" else "text"
    known = {"missing": "missing", "p (Holm)": "p", "cost USD": "usd", "total USD": "usd"}
    is_number = any(isinstance(one, float) for one in values)
    return known.get(name, "number" if is_number else "count")


def known(number: float) -> float | None:
    """A number of a frame; None where it is missing."""
    return None if isnan(number) else float(number)


def best(board: DataFrame) -> list[Row]:
    """The ranked rows of a board, the first rank first."""
    return [*board[board["rank"].notna()].sort_values("rank", kind="stable").itertuples()]


def members(file: RunFile, variant: str) -> tuple[str, ...]:
    """The variants that a variant or an average is of."""
    return averages(file.task).get(variant, (variant,))


def why(page: PageParts, row: Row) -> int:
    """The place of what is behind a score."""
    run = page.folders[row.run]
    counts = {reason: int(getattr(row, f"missing_{reason}")) for reason in Reason}
    return page.behind(
        row.signature,
        (int(row.n), int(row.clusters)),
        missing=[(page.text(reason), n) for reason, n in counts.items() if n],
        runs=[run],
        variants=page.places(members(page.files[run], row.variant)),
        judge=page.text(row.judge),
        decoding=page.text(row.decoding) if row.decoding in page.decodings[run] else NONE,
        group=NONE if row.group == ALL else page.text(row.group),
    )


def main_variant(file: RunFile) -> str:
    """The variant or average that stands for a run: that of its task's first variant."""
    task, own = file.task, file.run.variants
    first = next((name for name in task.default_variants if name in own), own[0])
    average = task.variants[first].averaged_over
    return average if average and set(members(file, average)) <= set(own) else first


def in_order(page: PageParts, boards: DataFrame) -> list[Board]:
    """The boards with short names, task by task, main variants and the task's own judges first."""
    ranked = boards.groupby("board")["rank"].count()

    def key(row: Row) -> tuple[object, ...]:
        file, label = page.file_of(row), JudgeLabel.parse(row.judge)
        order, judges = [*file.task.variants], file.task.judges
        return (
            row.task,
            row.variant != main_variant(file),
            -min(int(ranked[row.board]), 2),  # of two recipes, the one that ranks models
            order.index(row.variant) if row.variant in order else -1,
            judges.index(label.name) if label.name in judges else len(judges),
            row.recipe,
        )

    heads = sorted(boards.drop_duplicates("board").itertuples(), key=key)
    names = [f"{row.variant}, by {row.judge}" for row in heads]
    keys = [(row.task, row.variant, row.judge) for row in heads]
    labels = recipe_labels(heads, keys, {row.run: page.file_of(row) for row in heads})
    own = dict(iter(boards.groupby("board")))
    return [
        Board(own[row.board], row, f"{name}, {label}" if label else name)
        for row, name, label in zip(heads, names, labels, strict=True)
    ]


def _metric(row: Row) -> str:
    """The name of what ranks a board."""
    return RANKING.get(row.ranked_by, str(row.metric).replace("_", " "))


def _apart(board: DataFrame) -> DataFrame:
    """The rows of a board, constant answers after others, controls last."""
    return board.sort_values(["is_control", "is_constant"], kind="stable")


def dots(own: Board) -> dict[str, object]:
    """A board as a picture."""
    rows = [
        (row.model, known(row.value), known(row.low), known(row.high), bool(row.is_control))
        for row in _apart(own.rows).itertuples()
    ]
    chance = [*map(float, levels(own.rows))]
    title = f"{own.head.task}: {own.name}"
    return {"title": title, "metric": _metric(own.head), "chance": chance, "rows": rows}


def matrix(page: PageParts, boards: Sequence[Board]) -> PageTable:
    """Models by tasks, a board each; first who may be the best on most of them."""
    lines: dict[str, dict[str, Value]] = {}
    tops = Counter(row.model for own in boards for row in best(own.rows) if row.rank_best == 1)
    for board, head, _ in boards:
        for row in board[~board["is_control"]].itertuples():
            ends = known(row.value), known(row.low), known(row.high), why(page, row)
            marks = "\u25cf" * (row.rank_best == 1) + "*" * (row.missing > 0)
            lines.setdefault(row.model, {"model": row.model}).setdefault(head.task, (*ends, marks))
    names = "; ".join(f"{head.task}: {_metric(head)}, {name}" for _, head, name in boards)
    about = "\u25cf: may be the best by its ranks; *: verdicts are missing."
    ordered = sorted(lines.values(), key=lambda line: -tops[str(line["model"])])
    return table_of("Models by tasks", ordered, about=about, notes=[f"{names}."])


def several(boards: Sequence[Board]) -> str:
    """Who may be the best on most of several tasks, a board each; empty if one or none ranks."""
    ranked = {own.head.task: best(own.rows) for own in boards}
    known = {task: rows for task, rows in ranked.items() if rows[1:]}
    tops = {task: [r.model for r in own if r.rank_best == 1] for task, own in known.items()}
    counts = Counter(model for own in tops.values() for model in own)
    if len(tops) < 2 or not counts:
        return ""
    most = max(counts.values())
    leads = " and ".join(model for model, count in counts.items() if count == most)
    models = len({row.model for rows in ranked.values() for row in rows})
    alone: dict[str, list[str]] = {}
    for task, own in tops.items():
        if len(own) == 1:
            alone.setdefault(own[0], []).append(task)
    said = ", ".join(f"{model} on {', '.join(own)}" for model, own in alone.items())
    rest = f"the only one: {said}" if said else "no task has a single best model"
    many = f"all {most}" if most == len(tops) else f"{most} of {len(tops)}"
    return f"Of {models} models, {leads} may be the best on {many} tasks; {rest}."


def leaderboard(page: PageParts, own: Board) -> PageTable:
    """Ranks, values, chance, counts, what is missing, cost."""
    board, head, pick = own
    is_rate = head.ranked_by == RATES
    has_ways = board["answers"].nunique() > 1
    is_shared = bool(((board["shared"] - board["value"]).abs() > NOISE).any())
    lines: list[Line] = []
    for row in _apart(board).itertuples():
        place = why(page, row)
        kind = " (control)" if row.is_control else " (constant answer)" * row.is_constant
        lines.append(
            {
                "rank": None if isnan(row.rank) else int(row.rank),
                "may be": ranks(row),
                "model": row.model + kind,
                "answers": row.answers if has_ways else None,
                _metric(head): (known(row.value), known(row.low), known(row.high), place),
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


def phenomena(page: PageParts, boards: Sequence[Board]) -> Iterator[PageTable]:
    """Models by the groups of samples, for each board that has groups."""
    found: dict[tuple[str, str], dict[str, Row]] = {}
    is_wanted = page.scores["metric"].isin({board.head.metric for board in boards})
    for row in page.scores[is_wanted].itertuples():
        found.setdefault((row.signature, row.metric), {})[row.group] = row
    for board, head, pick in boards:
        of_models = [found.get((own, head.metric), {}) for own in board["signature"]]
        groups = [ALL, *sorted({group for own in of_models for group in own} - {ALL})]
        if len(groups) < 3 or head.ranked_by == RATES:
            continue
        lines: list[dict[str, Value]] = []
        for model, own in zip(board["model"], of_models, strict=True):
            cells: dict[str, Value] = {
                group: (known(row.value), known(row.low), known(row.high), why(page, row))
                for group in groups
                if (row := own.get(group)) is not None
            }
            lines.append({"model": model, **cells})
        title = f"{head.task}, {head.metric} by group: {pick}"
        yield table_of(title, lines, task=head.task, pick=pick)


def subgroups(folders: Mapping[str, RunFolder], boards: Sequence[Board]) -> Iterator[PageTable]:
    """TPR, FPR and precision by the groups of texts, for each board that is ranked by rates."""
    query = RateQuery(by=(GROUP,))
    for board, head, pick in (own for own in boards if own.head.ranked_by == RATES):
        lines: dict[tuple[str, str], dict[str, Value]] = {}
        found = [
            row
            for folder in (folders[run] for run in board["run"])
            for texts, cells in [(flags(folder, query), sample_cells(folder))]
            if 1 < cells[GROUP].nunique() <= MOST_VALUES
            for row in rates(texts[texts["variant"] == head.variant], query, cells).itertuples()
        ]
        for row in found:
            name = row.rate if row.rate == PRECISION else row.rate.upper()
            line = lines.setdefault(
                (row.group, row.model), {"group": row.group, "model": row.model}
            )
            line[name] = known(row.value), known(row.low), known(row.high), NONE
        title = f"{head.task}, rates by group: {pick}"
        yield from [table_of(title, [*lines.values()], task=head.task, pick=pick)] * bool(lines)


def differences(page: PageParts, board: Board) -> tuple[list[Row], list[PageTable], list[str]]:
    """The leader less each other ranked model: rows (their p corrected together), table, notes."""
    pick, (lead, *others) = board.name, best(board.rows)
    pairs: list[tuple[Pairing, list[int]]] = []
    notes, wanted = [], (Kind.RUNS, lead.variant, lead.decoding)
    for other in others[:_MOST]:
        runs = list(dict.fromkeys((page.folders[lead.run], page.folders[other.run])))
        try:
            sides = page.compared(runs[0]), page.compared(runs[-1])
            found, _, _ = of_one_task(*sides, lead.judge)
        except HarnessError as error:
            notes.append(f"{lead.model} and {other.model} are not compared: {error}")
            continue
        kept = [one for one in found if (one.kind, one.second.variant, one.decodings[0]) == wanted]
        pairs += [(one, runs) for one in kept]
    if not pairs:
        return [], [], notes
    rows = iter(records(compare([pairing for pairing, _ in pairs])))
    lines, heads = [], []
    for pairing, runs in pairs:
        for row in [next(rows) for _ in {ALL, *pairing.items["group"]}]:
            lines.append(_difference(page, row, pairing, runs))
            heads += [row] if row.group == ALL else []
    # The leader is chosen by the data: its differences are corrected for all pairs of models.
    each = holm([row.p for row in heads] + [1.0] * (comb(len(others) + 1, 2) - len(heads)))
    pairs_of = zip(heads, each, strict=False)
    corrected = [row._replace(p_holm=p, tests=len(heads)) for row, p in pairs_of]
    title = f"{lead.task}, the leader and each other model: {pick}"
    about = "A minus B on the items that both have. A count opens its items."
    table = table_of(title, lines, task=lead.task, pick=pick, about=about)
    return corrected, [table], notes


def _difference(page: PageParts, row: Row, pairing: Pairing, runs: Sequence[int]) -> Line:
    """A line of differences; each count names its samples."""
    items = pairing.items
    items = items if row.group == ALL else items[items["group"] == row.group]
    views = pairing.sides
    variants = dict.fromkeys(name for one in views for name in members(one.file, one.variant))
    missing = (("in A", row.missing_a), ("in B", row.missing_b))
    facts = {
        "other": page.text(row.signature_b),
        "missing": [(page.text(side), count) for side, count in missing if count],
        "runs": runs,
        "variants": page.places(variants),
        "judge": page.text(row.judge_a) if row.judge_a == row.judge_b else NONE,
        "group": NONE if row.group == ALL else page.text(row.group),
    }

    def behind(**more: object) -> int:
        return page.behind(row.signature_a, (row.n, row.clusters), **facts, **more)

    place = behind()
    line: dict[str, Value] = {"A": row.model_a, "B": row.model_b, "group": row.group}
    line["n"] = (row.n, None, None, place)
    for name, (words, rights) in _COUNTS.items() if row.both is not None else ():
        if rights is None:
            own = read_items(items).drop(decided_items(items).index)
        else:
            own = items[(items["a"] == rights[0]) & (items["b"] == rights[1])]
        listed = page.listed(runs, own["id"])
        line[words] = (getattr(row, name), None, None, behind(chosen=listed))
    right = (row.both or 0) + (row.only_a or 0)
    line["A - B"] = (row.value, row.low, row.high, place)
    line["B right if A is"] = (row.both or 0) / right if right else None
    return line | {"p (Holm)": row.p_holm}


def costs(page: PageParts) -> PageTable:
    """Calls, tokens and dollars of each run; a cost that is not all known is missing."""
    lines: list[Line] = []
    for facts, file in zip(page.runs, page.files, strict=True):
        line: dict[str, Value] = {"task": file.run.task, "run": str(facts["label"])}
        if (found := file.costs) is not None:
            total, tokens = found.total, found.total.reported
            line |= {"calls": total.calls, "tokens in": tokens.prompt_tokens}
            line |= {"tokens out": tokens.completion_tokens, "total USD": total.cost_usd}
        lines.append(line)
    return table_of("Cost of each run", lines)


_ANSWERED = {
    Mode.CHOOSE: "chosen by log-probability",
    Mode.CHOOSE_TOKEN: "chosen by the log-probabilities of the likeliest next tokens",
    Mode.GENERATE: "written",
}
ALARMING_CUT = 0.1  # the share of a model's answers that were cut, above which that is an alarm


def asked(files: Sequence[RunFile], called: Sequence[str] = ()) -> Iterator[str]:
    """Sentences a task: what it is about, its data, variants, models, ways of answering, judges.

    `called` has the tag and the day of each run.
    """
    for task in dict.fromkeys(file.run.task for file in files):
        own = [file for file in files if file.run.task == task]
        parts: dict[str, Iterable[str]] = {
            "Data": _sources(own),
            "Variants": dict.fromkeys(name for file in own for name in file.run.variants),
            "Models": dict.fromkeys(file.model.name for file in own),
            "Answers": _answered(own),
            "Judges": dict.fromkeys(judge.name for file in own for judge in file.judges),
        }
        days = {day for file, day in zip(files, called, strict=False) if file.run.task == task}
        parts |= {"Dates": sorted(days)} if days else {}
        said = [f"{name}: {', '.join(found) or 'none'}." for name, found in parts.items()]
        yield " ".join([f"{task}: {own[0].task.about}", *said])


def _answered(files: Sequence[RunFile]) -> list[str]:
    """How answers were given; where models differ in it, by which of them."""
    ways: dict[str, dict[str, None]] = {}
    for file in files:
        is_label = file.model.kind in CLASSIFIERS
        way = "labels of a classifier" if is_label else _ANSWERED[file.task.mode]
        ways.setdefault(way, {})[file.model.name] = None
    return [f"{way} ({', '.join(own)})" if len(ways) > 1 else way for way, own in ways.items()]


def _sources(files: Sequence[RunFile]) -> list[str]:
    """How many samples of what; the label of the data only where words are the same."""
    made: dict[tuple[str, str], None] = {}
    for file in files:
        scorer = file.data.label.partition("+")[2].partition("@")[0]
        said = data_words(file).removesuffix(" samples")
        said += ", for trying and not for measuring" * is_trial(file)
        said = f"{file.samples} samples of {said}"
        made[f"{said}, implicitness by {scorer}" if scorer else said, file.data.label] = None
    alike = Counter(said for said, _ in made)
    return [f"{said} ({label})" if alike[said] > 1 else said for said, label in made]


def unranked(boards: Sequence[Board]) -> list[str]:
    """The tasks of boards on which no model is ranked, and why: a line a reason."""
    tasks: dict[str, dict[str, None]] = {}
    for board, head, _ in boards:
        is_any = not board["is_control"].all()
        why = board_notes(board, has_ends=False) if is_any else ["Only controls have answered."]
        tasks.setdefault(" ".join(why), {})[head.task] = None
    return [f"No model is ranked on {', '.join(own)}. {why}" for why, own in tasks.items()]


def headline(board: Board, compared: Sequence[Row]) -> str:
    """Who leads a board that ranks a model, and by how much, in words.

    `compared` has the leader less each other model; its p are corrected for all of them.
    """
    lines = best(board.rows)
    where, by = f"On {board.head.task} ({board.name})", board.head.ranked_by
    if len(lines) == 1:
        return f"{where} one model is ranked. {_alone(lines[0])}"
    # Differences are of verdicts, whatever ranks.
    metric = f"in {board.head.metric}, " * (by in RANKING)
    facts = [
        metric + difference_words(row, (row.model_a, row.model_b)) for row in compared[:1]
    ] or [f"{lines[0].model} has the highest value; no difference was computed"]
    if len(top := [row.model for row in lines if row.rank_best == 1]) > 2:
        ranking = f" by {RANKING[by]}" if by in RANKING else ""
        facts.append(f"{len(top)} models may be the best{ranking}: {', '.join(top)}")
    return f"{where}, {'; '.join(facts)}."


def _alone(row: Row) -> str:
    low, high, by = known(row.low), known(row.high), row.ranked_by
    said = f"{row.model} has {_metric(row)} {row.value:.3f}"
    chance = 0.0 if by == RATES else None if by in RANKING else known(row.chance)
    said += "" if low is None else f" ({low:.3f} to {high:.3f})"
    if chance is None or low is None or high is None:
        return f"{said}."
    side = "below" if high < chance else "not significantly different from"
    return f"{said}: {'above' if low > chance else side} chance, which is {chance:.3f}."


def alarms(made: PageParts, fitness: DataFrame) -> Iterator[str]:
    """What makes a number untrustworthy: constant, cut or missing answers, and unfit judges."""
    for alarm in alarms_of(made.scores).itertuples():
        yield f"{_where(made.files, alarm)}: {alarm.words}."
    for one in fitness[fitness["finding"] != "fit"].itertuples():
        yield f"Judge {one.judge} {one.words}: {one.task}, {one.variant}."
    for file, (cut, answers) in zip(made.files, made.cut, strict=True):
        where = f"{file.model.name} on {file.run.task}"
        if cut > ALARMING_CUT * answers:
            yield (
                f"{where}: {cut} of {answers} answers reached their token limit and were "
                "cut; they are judged as they are."
            )
        for gap in file.missing or ():
            what = f"verdicts by {gap.judge}" if gap.judge else "answers"
            said = f" (most often: {gap.said[0].message})" if gap.said else ""
            yield f"{where}: {gap.count} {what} are missing, {gap.reason}{said}."


def trained_on(files: Sequence[RunFile], folders: Sequence[RunFolder]) -> Iterator[str]:
    """Which classifiers are tested on texts that they were trained on, or on near copies."""
    for folder, file in zip(folders, files, strict=True):
        if file.model.kind in CLASSIFIERS:
            rows = load([folder], "answers", ["row"])["row"]
            if near := sum(lessons(folder, rows).values()):
                yield (
                    f"{file.model.name} on {file.run.task}: {near} of {len(rows)} texts share six "
                    "in ten words or more with one that it was trained on, so this says little of "
                    "new texts."
                )


def _where(files: Sequence[RunFile], row: Row) -> str:
    """The model, task and variant of a score, and its data where the task was asked on several."""
    own = [file for file in files if file.run.task == row.task]
    data: Mapping[str, str] = {file.data.label: data_words(file) for file in own}
    more = f", {data.get(row.data, '')}" if len(data) > 1 else ""
    return f"{row.model} on {row.task}, {row.variant}{more}"
