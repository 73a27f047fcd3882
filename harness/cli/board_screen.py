"""Boards to tables on the screen: models by facts, or by variants; and warnings of alarms.

A task with one variant has a table with a column for each fact. With several variants a cell has
the value, a letter for its group, and the interval, which is below the value where a terminal is
too narrow. Runs that differ in their seeds alone share a line: their mean and their spread.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from harness.analysis.boards import scores as scores_of
from harness.analysis.boards import views
from harness.analysis.boards.alarms import Row, alarms, judge_fitness, sensitivities
from harness.analysis.boards.ranked import RANKING
from harness.lazy import DataFrame
from harness.pipeline.score import ALL
from harness.present.screen import (
    Cell,
    Marked,
    cell,
    folded,
    say,
    screen_width,
    show_json,
    show_records,
    show_rows,
    usd,
    warn,
)
from harness.storage.find_runs import data_words
from harness.storage.runs import RunFile, RunFolder, ScoreRow

GAP = 2  # between columns
MOST_MODELS, MOST_ALARMS = 12, 2
"""How many lines and alarms are printed without --all."""


class BoardScreen:
    """Prints boards; `folders` are those of the runs, by name."""

    def __init__(
        self,
        folders: Mapping[str, RunFolder],
        *,
        sort: str = "",
        is_all: bool = False,
        has_recipes: bool = False,
    ) -> None:
        """Nothing is printed yet; `sort` names a variant, or is `model`."""
        self.folders, self._sort, self._is_all = folders, sort, is_all
        self._has_recipes = has_recipes
        self._files: dict[str, RunFile] = {}
        self._left: list[str] = []

    @property
    def rest(self) -> str:
        """What --all prints besides, to follow a sentence; empty for nothing."""
        return f"; --all prints {' and '.join(self._left)}" if self._left else ""

    def put(self, boards: DataFrame, *, is_json: bool = False, has_tasks: bool = False) -> None:
        """Print the matrix of the first task and its own judge, of all tasks, or all matrices."""
        if is_json:
            show_json(scores_of.records(boards))
            return
        for name in {*boards["run"]} - {*self._files}:
            self._files[name] = self.folders[name].read()
        made = views.matrices(boards, self._files, is_all=self._is_all)
        firsts = {matrix["task"].iat[0]: matrix for matrix in reversed(made)}
        shown = [*reversed(firsts.values())] if has_tasks else made[:1]
        for matrix in made if self._is_all else shown:
            self._put_matrix(matrix)
        names = {_name(matrix) for matrix in shown}
        others = [name for name in map(_name, made) if name not in names]
        if others and not self._is_all:
            self._left.append(f"{len(others)} more boards ({folded(list(dict.fromkeys(others)))})")

    def put_judges(self, found: DataFrame, boards: DataFrame, verdicts: DataFrame) -> None:
        """Print the judges side by side and what swapping changed; warn of unfit judges."""
        is_swapped = boards["judge"].astype(str).str.endswith(":swapped")
        sides = boards[~is_swapped]
        if self._is_all:
            self._put_side_by_side(sides)
            _put_sensitivities(sensitivities(found))
        elif sides["judge"].nunique() > 1:
            self._left.append("the judges side by side")
        log_unfit(judge_fitness(boards, verdicts))

    def _put_matrix(self, matrix: DataFrame) -> None:
        title = "\n".join([_title(matrix), self._words(matrix), *_ranked_on(matrix)])
        lines = views.lines_of(matrix, self._sort)
        if not self._is_all:
            lines = self._fitting(matrix, lines)
        if len(matrix.attrs["variants"]) == 1 and not _has_seeds(lines):
            _put_board(title, matrix, [own[0] for _, [own] in lines])
        else:
            _put_columns(title, matrix, lines)
        _put_notes(matrix)
        if averaged := matrix.attrs["averaged"]:
            self._left.append(f"the {len(averaged)} variants that are averaged")
        if self._has_recipes:
            say("\n".join(dict.fromkeys(matrix["recipe"])) + "\n")

    def _fitting(self, matrix: DataFrame, lines: views.Lines) -> views.Lines:
        """The columns and lines that fit one screen; the first ones."""
        variants, room = matrix.attrs["variants"], screen_width()
        is_tall = len(variants) > 1 and _is_too_wide(lines, variants)
        if room is not None and is_tall:
            widths = _widths(lines, variants, has_interval=False)
            count = next((at for at in range(len(widths), 1, -1) if _total(widths[:at]) <= room), 2)
            if count <= len(variants):
                self._left.append(f"{len(variants) + 1 - count} more variants")
                matrix.attrs["variants"] = variants[: count - 1]
                lines = [(name, own[: count - 1]) for name, own in lines]
                lines = [line for line in lines if any(line[1])]
        if (left := len(lines) - MOST_MODELS // (1 + is_tall)) > 0:
            self._left.append(f"{left} more models")
            lines = lines[:-left]
        return lines

    def _words(self, matrix: DataFrame) -> str:
        """The recipe in words: data, decoding and seed."""
        row, file = next(matrix.itertuples()), self._files[matrix["run"].iat[0]]
        whole = file.samples if row.limit == "all" else f"limit {row.limit}"
        drawn, repeats, _ = row.signature.split("|")[4].rsplit(",", 2)
        seeds = sorted(set(matrix["seed"]), key=lambda name: (len(name), name))
        facts = [
            f"data: {data_words(file)} ({whole})",
            f"answers: {drawn}" + (f", {repeats[1:]} each" if repeats not in ("n", "n1") else ""),
            f"seed{'s' * (len(seeds) > 1)} {folded(seeds)}",
        ]
        if not _missing_count(matrix.itertuples()):
            facts.append("nothing missing")
        elif len(matrix.attrs["variants"]) > 1:
            facts.append("*: verdicts are missing")
        if row.ranked_by == "tpr_at_fpr":
            facts.append(
                f"thresholds that keep FPR at {matrix.attrs['at_fpr']:g} on half the benign texts"
            )
        if scorer := row.data.partition("+")[2]:
            facts.insert(1, f"implicitness: {scorer.partition('@')[0]}")
        return "; ".join(facts)

    def _put_side_by_side(self, boards: DataFrame) -> None:
        """Models by judges, for each task, data, variant, decoding and version."""
        for one in views.by_judge(boards, self._files):
            lines = [
                (m, *("" if r is None else f"{_shown(r.value)} ({_number(r.rank)})" for r in rows))
                for m, rows in one.lines
            ]
            title = f"judges side by side, value (rank): {one.title}"
            show_rows(title, ("model", *one.judges), lines)


def _name(matrix: DataFrame) -> str:
    return f"{matrix['task'].iat[0]} by {matrix['judge'].iat[0]}"


def _title(matrix: DataFrame) -> str:
    row, variants, label = (
        next(matrix.itertuples()),
        matrix.attrs["variants"],
        matrix.attrs["label"],
    )
    variant = f", {row.variant}" if len(variants) == 1 else ""
    metric = RANKING.get(row.ranked_by, row.metric)
    group = "" if row.group == ALL else f", {row.group}"
    return f"{row.task}{variant}: {metric}{group} by {row.judge}{f' ({label})' if label else ''}"


def _ranked_on(matrix: DataFrame) -> list[str]:
    """On what models are ranked, in each column alike or from the least to the most."""
    ranked = matrix[matrix["rank"].notna()].groupby("board")
    sizes = ranked["rank"].size()
    several = matrix[matrix["board"].isin(sizes.index[sizes > 1])]
    known = several[several["rank_items"].notna()]
    if len(several) and not len(known):
        return ["verdicts were not read: ranked by value alone, no group is known"]
    if not len(several):
        return ["no rank: no item that all have"] if (matrix["rank_items"] == 0).any() else []
    count = int(sizes.max())
    models = "both" if count == 2 else f"all {count}"
    pairs = "" if count == 2 else f", Holm over {count * (count - 1) // 2} pairs"
    groups = "models of one group are not" if count == 2 else "not all within a group are"
    items, clusters = (_range(known[name]) for name in ("rank_items", "rank_clusters"))
    is_one = len(matrix.attrs["variants"]) == 1
    return [
        f"{'' if is_one else 'a, b, ...: groups in a column, '}ranked on the {items} verdicts that "
        f"{models} have, of {clusters} independent items; {groups} significantly different "
        f"(clusters swapped{pairs})"
    ]


def _range(counts: Iterable[float]) -> str:
    found = {int(count) for count in counts}
    return str(min(found)) if len(found) == 1 else f"{min(found)} to {max(found)}"


def _put_board(title: str, matrix: DataFrame, rows: Sequence[Row]) -> None:
    """A board of one variant: a column for each fact, controls and chance below a line."""
    by, levels = rows[0].ranked_by, _levels(rows)
    chance = levels.pop() if len(levels) == 1 else None
    columns: list[tuple[str, Callable[[Row], Cell]]] = [
        ("rank", lambda row: _number(row.rank)),
        ("model", _model),
        (RANKING.get(by, "value"), lambda row: _value(row.value)),
        ("95% interval", lambda row: (_value(row.low), _value(row.high))),
    ]
    if any(not np.isnan(row.shared) and row.shared != row.value for row in rows):
        columns.append(("on shared items", lambda row: _value(row.shared)))
    if by == "tpr_less_fpr":
        columns.append(("TPR", lambda row: _value(row.tpr)))
    if by in ("tpr_less_fpr", "tpr_at_fpr"):
        columns.append(("FPR", lambda row: _value(row.fpr)))
    if by == "mean" and chance is None and any(not np.isnan(row.chance) for row in rows):
        columns.append(("chance", lambda row: _value(row.chance)))
    columns.append(("n", lambda row: row.n))
    if _missing_count(rows):
        columns.append(("missing", lambda row: _missing_count([row])))
    if sum(not np.isnan(row.rank) for row in rows) > 1:
        columns.append(("group", lambda row: _letter(row) or "-"))
    if any(not np.isnan(row.cost_usd) for row in rows):
        columns.append(("cost USD", lambda row: usd(_value(row.cost_usd))))
    lines = [([of(row) for _, of in columns], row.is_control or row.is_constant) for row in rows]
    floor: list[Cell] = ["", "chance", chance, *[""] * (len(columns) - 3)]
    last = [floor] if chance is not None else []
    show_rows(title, [name for name, _ in columns], _with_floor(lines, last), keys=2)


def _number(value: float) -> Cell:
    return "-" if np.isnan(value) else int(value)


def _value(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _shown(value: float) -> str:
    return cell(_value(value))


def _model(row: Row) -> str:
    return f"{row.model}{' (constant answer)' * (row.is_constant and not row.is_control)}"


def _put_notes(matrix: DataFrame) -> None:
    """Why some have no rank or no interval, each reason with the variants that it is of."""
    variants: dict[str, list[str]] = {}
    for _, board in matrix.groupby("board", sort=False):
        for note in views.board_notes(board):
            own = variants.setdefault(note, [])
            own += {board["variant"].iat[0]} - {*own}
    for note, own in variants.items():
        is_of_all = len(own) == len(matrix.attrs["variants"])
        say(note if is_of_all else f"{', '.join(own)}: {note}", is_prose=True)
    if variants:
        say("")


def _with_floor(
    rows: Sequence[tuple[Sequence[Cell], bool]], floor: Iterable[Sequence[Cell]]
) -> list[Sequence[Cell] | None]:
    """The rows of models, then below a line those of chance and of controls."""
    models = [row for row, is_apart in rows if not is_apart]
    below = [*floor, *(row for row, is_apart in rows if is_apart)]
    return [*models, *([None] if models and below else []), *below]


def _levels(rows: Iterable[Row]) -> set[float]:
    """The chance levels of some rows: of the headline, not of what ranks in its place."""
    known = (row.chance for row in rows if row.ranked_by == "mean" and not np.isnan(row.chance))
    return {round(chance, 3) for chance in known}


def _missing_count(rows: Iterable[Row]) -> Cell:
    lost = int(sum(row.missing for row in rows))
    return Marked(lost) if lost else 0


def _letter(row: Row) -> str:
    """The letter of a group: a for the best one."""
    return "" if np.isnan(row.rank_group) else _letters(int(row.rank_group))


def _letters(group: int) -> str:
    rest, place = divmod(group - 1, 26)
    return (_letters(rest) if rest else "") + chr(ord("a") + place)


def _has_seeds(lines: views.Lines) -> bool:
    return any(len(own) > 1 for _, columns in lines for own in columns)


def _put_columns(title: str, matrix: DataFrame, lines: views.Lines) -> None:
    """A board of several variants: the intervals next to the values, or below them if too wide."""
    variants = matrix.attrs["variants"]
    is_tall = _is_too_wide(lines, variants)
    has_gaps = bool(_missing_count(matrix.itertuples()))
    head = ["model", *variants, *(["missing"] if has_gaps else [])]
    rows: list[tuple[Sequence[Cell], bool]] = []
    for name, columns in lines:
        there = [row for own in columns for row in own]
        is_apart = there[0].is_control or there[0].is_constant
        values = [_cell(own, has_interval=not is_tall) for own in columns]
        rows.append(([name, *values, _missing_count(there)], is_apart))
        if is_tall and any(map(_ends, columns)):
            rows.append((["", *map(_ends, columns), ""], is_apart))
    levels = [_levels(matrix[matrix["variant"] == name].itertuples()) for name in variants]
    floor: list[Cell] = ["chance", *(min(own) if len(own) == 1 else "" for own in levels), ""]
    cut = [(row[: len(head)], is_apart) for row, is_apart in rows]
    below = [floor[: len(head)]] if any(len(own) == 1 for own in levels) else []
    show_rows(title, head, _with_floor(cut, below))
    each = zip(variants, levels, strict=True)
    spans = [f"{name} {min(own):.3f} to {max(own):.3f}" for name, own in each if len(own) > 1]
    if spans:
        words = "chance differs by model, for each model other verdicts are missing"
        say(f"{words}: {', '.join(spans)}", is_prose=True)


def _is_too_wide(lines: views.Lines, variants: Sequence[str]) -> bool:
    """Whether values and intervals side by side are wider than the terminal."""
    if (room := screen_width()) is None:
        return False
    return _total([*_widths(lines, variants, has_interval=True), len("missing")]) > room


def _widths(lines: views.Lines, variants: Sequence[str], *, has_interval: bool) -> list[int]:
    """The widths of the models' names and of each variant's column."""
    widths = [max(len(name) for name, _ in lines)]
    for place, variant in enumerate(variants):
        column = [cell(_cell(columns[place], has_interval=has_interval)) for _, columns in lines]
        ends = (_ends(columns[place]) for _, columns in lines)
        widths.append(max(map(len, (variant, *column, *ends))))
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _cell(rows: Sequence[Row], *, has_interval: bool) -> Cell:
    """The value of one run, or the mean of several seeds."""
    if not rows:
        return ""
    value = cell(None if np.isinf(mean := views.mean_of(rows)) else mean)
    letter = _letter(rows[0]) if len(rows) == 1 else ""
    shown = " ".join(filter(None, (value, letter, _ends(rows) if has_interval else "")))
    return Marked(f"{shown} *") if _missing_count(rows) else shown


def _ends(rows: Sequence[Row]) -> str:
    """An interval in two decimals, without leading zeros: .53-.76; the sd of several seeds."""
    if len(rows) > 1:
        known = [row.value for row in rows if not np.isnan(row.value)]
        return f"sd {_short(float(np.std(known, ddof=1)))}" if len(known) > 1 else ""
    if not rows or np.isnan([rows[0].low, rows[0].high]).any():
        return ""
    low, high = _short(rows[0].low), _short(rows[0].high)
    return f"{low} to {high}" if "-" in low + high else f"{low}-{high}"


def _short(value: float) -> str:
    text = f"{value:.2f}"
    return "1.0" if text == "1.00" else text.replace("0.", ".", 1) if abs(value) < 1 else text


def _put_sensitivities(found: DataFrame) -> None:
    for _, own in found.groupby("recipe", sort=False, observed=True):
        first, judge = own.iloc[0], own["judge"].iat[0]
        title = f"sensitivity to emphasis, {judge} minus {judge}:swapped"
        columns = f"model, {judge}=value, {judge}:swapped=swapped, difference"
        show_records(f"{title}: {first['task']}, {first['variant']}", own.itertuples(), columns)


def log_alarms(scores: DataFrame, *, most: int | None = None) -> None:
    """Warn of runs whose answers do not depend on what is asked, or are as good as a constant.

    At most so many alarms are printed, and how many there are.
    """
    found = alarms(scores)
    words = [f"{row.model} on {row.task}, {row.variant}" for row in found.itertuples()]
    runs = scores_of.headlines(scores)
    shared = Counter(
        f"{model} on {task}, {variant}"
        for model, task, variant, *_ in {
            *zip(*(runs[n] for n in ("model", "task", "variant", "data", "limit")), strict=True)
        }
    )
    for name, row in list(zip(words, found.itertuples(), strict=True))[:most]:
        warn(f"alarm: {name}{f', {row.data}' if shared[name] > 1 else ''}: {row.words}")
    if most is not None and len(found) > most:
        warn(f"alarm: {len(found) - most} more alarms: --all")


def log_run_alarms(folder: RunFolder, rows: Sequence[ScoreRow]) -> None:
    """Warn of the alarms of one run's scores."""
    log_alarms(scores_of.board_scores({folder: rows}))


def log_unfit(found: DataFrame) -> None:
    """Warn of judges that are not fit: the first variant with its numbers, the others by name."""
    unfit = found[found["finding"] != "fit"]
    for (task, judge, _), own in unfit.groupby(["task", "judge", "finding"], sort=False):
        first, *rest = own["variant"]
        others = f"; likewise {folded(list(dict.fromkeys(rest)))}" if rest else ""
        warn(f"judge {judge} {own['words'].iat[0]}: {task}, {first}{others}")
