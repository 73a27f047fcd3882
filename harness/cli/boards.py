"""The command leaderboard: models by variants for each task and judge, on one screen.

A task with one variant has a table with a column for each fact. With several variants a cell has
the value, a letter for its group, and the interval; where a terminal is too narrow for that the
interval stands below the value.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.analysis import leaderboard as scores
from harness.analysis.findings import board_notes, constant_words, fitness_words
from harness.analysis.fitness import ControlFinding, JudgeFitness, judge_fitness
from harness.analysis.leaderboard import (
    BoardRow,
    constant_alarms,
    constant_runs,
    headlines,
    place_alarms,
)
from harness.analysis.matrices import BoardMatrix, board_matrices, plain_tables, recipe_labels
from harness.analysis.operating import operating_tables
from harness.analysis.standings import (
    BoardVerdicts,
    JudgeMatrix,
    RankedBy,
    RankedTable,
    Standing,
    board_of,
    judge_matrices,
    placed,
    ranked_tables,
    verdicts_of,
)
from harness.cli import options
from harness.cli.options import RESULTS, AsJson, ExitCode, Results, argument, option
from harness.cli.output import (
    Cell,
    Marked,
    cell,
    echo,
    echo_json,
    echo_records,
    echo_table,
    folded,
    log,
    screen_width,
    usd,
)
from harness.errors import SpecError, StoreError, did_you_mean
from harness.pipeline.score import ALL
from harness.storage.files import write_whole
from harness.storage.find_runs import data_words, find_runs, run_folders
from harness.storage.runs import RunFile, RunFolder, ScoreRow

RANKING = {
    RankedBy.MACRO_F1: "macro F1",
    RankedBy.INFORMEDNESS: "TPR-FPR",
    RankedBy.TPR_AT_FPR: "TPR",
}
GAP = 2  # between columns


@dataclass(frozen=True, kw_only=True)
class BoardChoice:
    """What of all scores is printed, and in which order."""

    runs: list[str] | None = argument(
        "RUN",
        options.SOME_RUNS + " Default: all runs.",
        None,
    )
    task: str | None = option("Print these tasks only, comma-separated. Default: all.", None)
    variant: str | None = option("Print these variants only, comma-separated. Default: all.", None)
    judge: str | None = option("Print these judges only, comma-separated. Default: all.", None)
    metric: str | None = option("Print this metric. Default: the one that is ranked by.", None)
    in_group: str | None = option(
        "Print this group of samples. Default: all samples.", None, flags="--group"
    )
    decoding: str | None = option("Print this decoding, as T0.3. Default: all together.", None)
    sort: str = option("Order by this variant, or by `model`. Default: the first variant.", "")
    is_all: bool = option(
        "Print variants that an average stands for, and judges side by side for every variant.",
        False,
        flags="--all",
    )
    fpr: float | None = option(
        "Rank by the TPR at the threshold that keeps the FPR at this rate, as in `rates`.", None
    )
    has_recipes: bool = option("Print the whole signatures.", False, flags="--recipes")

    def filtered(self, rows: list[BoardRow]) -> list[BoardRow]:
        """The rows that are asked for; SpecError for a name that none has."""
        if self.fpr is not None and (self.metric or self.in_group):
            raise SpecError(
                "--fpr: ranks by the TPR of all samples; leave out --metric and --group"
            )
        rows = _chosen(rows, "task", self.task, lambda row: row.task)
        of_task = f" of task {self.task}" if self.task else ""
        rows = _chosen(rows, "variant", self.variant, lambda row: row.score.variant, of_task)
        rows = _chosen(rows, "judge", self.judge, lambda row: row.score.judge, of_task)
        rows = _chosen(rows, "decoding", self.decoding, lambda row: row.score.decoding, of_task)
        if self.sort not in ("", "model", *(row.score.variant for row in rows)):
            raise SpecError(f"--sort {self.sort!r}: give `model`, or a variant that is printed")
        return rows

    def of_metric(self, rows: list[BoardRow]) -> list[BoardRow]:
        """The rows of the metric and the group that are asked for, of all where none is."""
        rows = _chosen(rows, "metric", self.metric, lambda row: row.score.metric)
        return _chosen(rows, "group", self.in_group, lambda row: row.score.group)


def leaderboard(choice: BoardChoice, results: Results = RESULTS, is_json: AsJson = False) -> int:
    """Collect the scores of all runs in leaderboard.csv, and print the main ones.

    Two models are ranked in one table only if the rest of their signatures is equal, on the items
    that all models have. Not all within a group are told apart. Controls have no rank. The file
    has all rows, also those that are not printed. With RUNs these alone are ranked, without a file.
    """
    named = find_runs(results, choice.runs or ())
    if not (folders := named or run_folders(results)):
        raise StoreError(f"no runs below {results}/runs; `harness run` makes one, or see --results")
    tables = {folder: scores.whole_scores(folder) for folder in folders}
    rows, verdicts, left_out = board_of(tables)
    rows = placed(rows, ranked_tables(rows, verdicts))
    table, total = results / "leaderboard.csv", len(rows)
    if not named:
        write_whole(table, scores.board_text(rows).encode())
    rows, every = choice.filtered(rows), rows
    by_name = {folder.path.name: folder for folder in folders}
    shown = BoardScreen(choice, by_name)
    if choice.fpr is not None:
        at_fpr = operating_tables(by_name, rows, choice.fpr)
        if is_json:
            echo_json([line for board in at_fpr for line in board.lines])
        else:
            shown.put(at_fpr)
        return ExitCode.of(left_out)
    special = choice.of_metric(rows)
    if is_json:
        echo_json(special)
        return ExitCode.of(left_out)
    if choice.decoding is not None:
        verdicts = verdicts_of([f for f in folders if f not in left_out], rows)
    if choice.metric is None and choice.in_group in (None, ALL):
        shown.put(ranked_tables(rows, verdicts))
        shown.put_judges(rows, verdicts)
    else:
        group, constant = choice.in_group or ALL, constant_runs(every)
        shown.put(plain_tables(special, choice.metric, group, constant=constant))
    log_alarms(rows)
    if not named:
        echo(f"wrote {total} rows to {table}")
    return ExitCode.of(left_out)


def _chosen(
    rows: list[BoardRow],
    what: str,
    wanted: str | None,
    of: Callable[[BoardRow], str],
    where: str = "",
) -> list[BoardRow]:
    # A group's name may have a comma in it.
    alone = (wanted,) if what == "group" and wanted else None
    known, names = sorted({of(row) for row in rows}), alone or options.names(wanted, f"--{what}")
    for name in (name for name in names if name not in known):
        if what == "task" and name in options.registry(Path()).names("tasks"):
            raise SpecError(f"no run of task {name} yet; `harness run --task {name}` makes one")
        raise SpecError(f"no run{where} has a {what} {name!r}{did_you_mean(name, known)}")
    return [row for row in rows if not names or of(row) in names]


def put_joint_boards(folders: Sequence[RunFolder], *, is_whole: bool = False) -> None:
    """Print the boards of some runs alone, those of one task together.

    `is_whole`: with their judges side by side and all alarms, which nothing else has told.
    """
    rows = scores.collect(folders)
    verdicts = verdicts_of(folders, rows)
    shown = BoardScreen(BoardChoice(), {folder.path.name: folder for folder in folders})
    shown.put(ranked_tables(rows, verdicts))
    if is_whole:
        shown.put_judges(rows, verdicts)
        log_alarms(rows)


class BoardScreen:
    """Prints boards; `folders` are those of the runs, by name."""

    def __init__(self, choice: BoardChoice, folders: Mapping[str, RunFolder]) -> None:
        """Nothing is printed yet."""
        self._choice, self._folders = choice, folders
        self._files: dict[str, RunFile] = {}

    def put(self, boards: Sequence[RankedTable]) -> None:
        """Print a matrix a task and judge."""
        for name in {row.run for board in boards for row in board.rows} - {*self._files}:
            self._files[name] = self._folders[name].read()
        for matrix in board_matrices(boards, self._files, is_all=self._choice.is_all):
            self._put_matrix(matrix)

    def put_judges(self, rows: Sequence[BoardRow], verdicts: Mapping[str, BoardVerdicts]) -> None:
        """Print the judges side by side, what they owe to what was swapped, and their fitness."""
        boards = ranked_tables(rows, verdicts)
        matrices = board_matrices(boards, self._files, is_all=self._choice.is_all)
        first = {(one.row.task, one.row.score.variant) for one in matrices}
        shown = [b for b in boards if self._choice.is_all or _at(b.rows[0]) in first]
        _put_side_by_side(judge_matrices(shown), self._files)
        _put_sensitivities(scores.pair_sensitivities(rows))
        log_unfit(judge_fitness(boards, verdicts))

    def _put_matrix(self, matrix: BoardMatrix) -> None:
        title = "\n".join([*_titles(matrix), self._words(matrix), *_ranked_on(matrix)])
        if len(matrix.columns) == 1:
            _put_board(title, matrix, self._choice.sort)
        else:
            _put_columns(title, matrix, self._choice.sort)
        _put_notes(matrix)
        if matrix.averaged:
            count = len(matrix.averaged)
            echo(f"--all prints the {count} variants that averages stand for\n", is_prose=True)
        if self._choice.has_recipes:
            echo("\n".join(dict.fromkeys(board.recipe for board in matrix.columns)) + "\n")

    def _words(self, matrix: BoardMatrix) -> str:
        """The recipe in words: data, decoding and seed."""
        row, file = matrix.row, self._files[matrix.row.run]
        made = row.parsed
        whole = file.samples if made.limit == "all" else f"limit {made.limit}"
        _, _, scorer = made.data.partition("+")
        facts = [
            f"data: {data_words(file)} ({whole})",
            f"answers: {made.decoding}",
            f"seed {made.seed}",
        ]
        facts[1] += f", {made.repeats} each" if made.repeats not in ("", "1") else ""
        if not _missing_count(_standings(matrix)):
            facts.append("nothing missing")
        elif len(matrix.columns) > 1:
            facts.append("*: verdicts are missing")
        if matrix.columns[0].ranked_by is RankedBy.TPR_AT_FPR:
            facts.append(
                f"thresholds that keep FPR at {self._choice.fpr:g} on half the benign texts"
            )
        if scorer:
            facts.insert(1, f"implicitness: {scorer.partition('@')[0]}")
        return "; ".join(facts)


def _at(row: BoardRow) -> tuple[str, str]:
    return row.task, row.score.variant


def _titles(matrix: BoardMatrix) -> list[str]:
    row, board = matrix.row, matrix.columns[0]
    variant = f", {row.score.variant}" if len(matrix.columns) == 1 else ""
    metric = RANKING.get(board.ranked_by, row.score.metric)
    group = "" if row.score.group == ALL else f", {row.score.group}"
    label = f" ({matrix.label})" if matrix.label else ""
    return [f"{row.task}{variant}: {metric}{group} by {row.score.judge}{label}"]


def _ranked_on(matrix: BoardMatrix) -> list[str]:
    """On what models are ranked, in each column alike or from the least to the most."""
    boards = [board for board in matrix.columns if len(board.ranked) > 1]
    known = [board for board in boards if board.items is not None]
    if boards and not known:
        return ["verdicts are not at hand: ranked by value alone, no group is known"]
    if not boards:
        is_empty = any(board.items == 0 for board in matrix.columns)
        return ["no rank: no item that all have"] if is_empty else []
    count = max(len(board.ranked) for board in known)
    models = "both" if count == 2 else f"all {count}"
    pairs = "" if count == 2 else f", Holm over {count * (count - 1) // 2} pairs"
    groups = "models of one group are not" if count == 2 else "not all within a group are"
    items = _range([board.items or 0 for board in known])
    clusters = _range([board.clusters or 0 for board in known])
    is_one = len(matrix.columns) == 1
    return [
        f"{'' if is_one else 'a, b, ...: groups in a column, '}ranked on the {items} verdicts that "
        f"{models} have, of {clusters} independent items; {groups} told apart "
        f"(clusters swapped{pairs})"
    ]


def _range(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return str(least) if least == most else f"{least} to {most}"


def _put_board(title: str, matrix: BoardMatrix, sort: str) -> None:
    """A board of one variant: a column for each fact, controls and chance below a line."""
    [board] = matrix.columns
    ordered = [line for _, (line,) in matrix.lines(sort) if line is not None]
    chance = _chance(board)
    columns: list[tuple[str, Callable[[Standing], Cell]]] = [
        ("rank", lambda line: line.rank or "-"),
        ("model", _model),
        (RANKING.get(board.ranked_by, "value"), lambda line: line.value),
        ("95% interval", lambda line: (line.low, line.high)),
    ]
    if any(line.shared not in (None, line.value) for line in board.lines):
        columns.append(("on shared items", lambda line: line.shared))
    if board.ranked_by is RankedBy.INFORMEDNESS:
        columns.append(("TPR", lambda line: line.rates and line.rates[0]))
    if board.ranked_by in (RankedBy.INFORMEDNESS, RankedBy.TPR_AT_FPR):
        columns.append(("FPR", lambda line: line.rates and line.rates[1]))
    is_ranked_by_mean = board.ranked_by is RankedBy.MEAN
    if is_ranked_by_mean and chance is None and any(r.chance is not None for r in board.rows):
        columns.append(("chance", lambda line: line.row.chance))
    columns.append(("n", lambda line: line.row.score.n))
    if _missing_count(board.lines):
        columns.append(("missing", lambda line: _missing_count([line])))
    if len(board.ranked) > 1:
        columns.append(("group", lambda line: _letter(line) or "-"))
    if any(row.cost_usd is not None for row in board.rows):
        columns.append(("cost USD", lambda line: usd(line.row.cost_usd)))
    rows = [([of(line) for _, of in columns], line.is_apart) for line in ordered]
    floor: list[Cell] = ["", "chance", chance, *[""] * (len(columns) - 3)]
    last = [floor] if chance is not None else []
    echo_table(title, [name for name, _ in columns], _with_floor(rows, last), keys=2)


def _model(line: Standing) -> str:
    return f"{line.row.model}{' (constant answer)' * (line.is_constant and not line.is_control)}"


def _put_notes(matrix: BoardMatrix) -> None:
    """Why some have no rank or no interval, each reason with the variants that it is of."""
    variants: dict[str, list[str]] = {}
    for variant, board in zip(matrix.variants, matrix.columns, strict=True):
        for note in board_notes(board):
            variants.setdefault(note, []).append(variant)
    for note, own in variants.items():
        is_of_all = len(own) == len(matrix.columns)
        echo(note if is_of_all else f"{', '.join(own)}: {note}", is_prose=True)
    if variants:
        echo("")


def _with_floor(
    rows: Sequence[tuple[Sequence[Cell], bool]], floor: Iterable[Sequence[Cell]]
) -> list[Sequence[Cell] | None]:
    """The rows of models, then below a line those of chance and of controls."""
    models = [row for row, is_control in rows if not is_control]
    below = [*floor, *(row for row, is_control in rows if is_control)]
    return [*models, *([None] if models and below else []), *below]


def _chance(board: RankedTable) -> float | None:
    """The chance level of a board's rows; None where none is known, or they differ."""
    found = _levels(board)
    return found.pop() if len(found) == 1 else None


def _levels(board: RankedTable) -> set[float]:
    """The chance levels of a board's rows: of the headline, not of what ranks in its place."""
    if board.ranked_by is not RankedBy.MEAN:
        return set()
    return {round(row.chance, 3) for row in board.rows if row.chance is not None}


def _standings(matrix: BoardMatrix) -> Iterator[Standing]:
    return (line for board in matrix.columns for line in board.lines)


def _missing_count(lines: Iterable[Standing]) -> Cell:
    lost = sum(sum(line.row.score.missing.values()) for line in lines)
    return Marked(lost) if lost else 0


def _letter(line: Standing) -> str:
    """The letter of a group: a for the best one."""
    return "" if line.group is None else _letters(line.group)


def _letters(group: int) -> str:
    rest, place = divmod(group - 1, 26)
    return (_letters(rest) if rest else "") + chr(ord("a") + place)


def _put_columns(title: str, matrix: BoardMatrix, sort: str) -> None:
    """A board of several variants: the intervals beside the values, or below them if too wide."""
    lines = matrix.lines(sort)
    is_tall = _is_too_wide(lines, matrix)
    has_gaps = bool(_missing_count(_standings(matrix)))
    head = ["model", *matrix.variants, *(["missing"] if has_gaps else [])]
    rows: list[tuple[Sequence[Cell], bool]] = []
    for name, cells in lines:
        there = [line for line in cells if line is not None]
        is_control = there[0].is_apart
        values = [_value(line, has_interval=not is_tall) for line in cells]
        rows.append(([name, *values, _missing_count(there)], is_control))
        if is_tall and any(_ends(line) for line in there):
            rows.append((["", *(_ends(line) if line else "" for line in cells), ""], is_control))
    levels = [_chance(board) for board in matrix.columns]
    floor: list[Sequence[Cell]] = [["chance", *("" if c is None else c for c in levels), ""]]
    cut = [(row[: len(head)], is_control) for row, is_control in rows]
    below = [row[: len(head)] for row in floor] if any(levels) else []
    echo_table(title, head, _with_floor(cut, below))
    each = zip(matrix.variants, map(_levels, matrix.columns), strict=True)
    if told := ", ".join(f"{name} {min(f):.3f} to {max(f):.3f}" for name, f in each if len(f) > 1):
        echo(f"chance differs by model, for each lacks other verdicts: {told}", is_prose=True)


def _is_too_wide(
    lines: Sequence[tuple[str, Sequence[Standing | None]]], matrix: BoardMatrix
) -> bool:
    """Whether values and intervals side by side are wider than the terminal."""
    room = screen_width()
    if room is None:
        return False
    widths = [max(len(name) for name, _ in lines), len("missing")]
    for place, variant in enumerate(matrix.variants):
        column = [cell(_value(cells[place], has_interval=True)) for _, cells in lines]
        widths.append(max(map(len, (variant, *column))))
    return sum(widths) + GAP * (len(widths) - 1) > room


def _value(line: Standing | None, *, has_interval: bool) -> Cell:
    if line is None:
        return ""
    group = _letter(line)
    shown = " ".join(filter(None, (cell(line.value), group, _ends(line) if has_interval else "")))
    return Marked(f"{shown} *") if sum(line.row.score.missing.values()) else shown


def _ends(line: Standing) -> str:
    """An interval in two decimals, without the noughts before them: .53-.76."""
    if line.low is None or line.high is None:
        return ""
    low, high = (_short(end) for end in (line.low, line.high))
    return f"{low} to {high}" if "-" in low + high else f"{low}-{high}"


def _short(value: float) -> str:
    text = f"{value:.2f}"
    return "1.0" if text == "1.00" else text.replace("0.", ".", 1) if abs(value) < 1 else text


def _put_side_by_side(tables: Sequence[JudgeMatrix], files: Mapping[str, RunFile]) -> None:
    shown = [one for one in tables if len(one.judges) > 1]
    rows = [next(s.row for _, line in one.lines for s in line if s) for one in shown]
    for table, row in zip(shown, rows, strict=True):
        lines = []
        for model, ranks in table.lines:
            cells = ("" if s is None else f"{cell(s.value)} ({s.rank or '-'})" for s in ranks)
            lines.append((model, *cells))
        alike = [one for one in rows if _at(one) == _at(row)]
        label = recipe_labels(alike, files)[alike.index(row)]
        where = ", ".join(filter(None, (*_at(row), label)))
        title = f"judges side by side, value (rank): {where}"
        echo_table(title, ("model", *table.judges), lines)


def _put_sensitivities(found: Sequence[scores.PairSensitivity]) -> None:
    for recipe in dict.fromkeys(part.recipe for part in found):
        members = [part for part in found if part.recipe == recipe]
        judge = members[0].judge
        words, _, variant, *_ = recipe.split("|")
        where = f"{words.rpartition(':')[0]}, {variant}"
        title = f"sensitivity to emphasis, {judge} minus {judge}:swapped: {where}"
        columns = f"model, {judge}=value, {judge}:swapped=swapped, difference"
        echo_records(title, members, columns)


def log_alarms(rows: Sequence[ScoreRow]) -> None:
    """Warn of runs whose answers do not depend on what is asked, or are as good as a constant."""
    names = _run_names(rows)
    for alarm in place_alarms(rows):
        log(f"alarm: {names[alarm.row.signature]}: {alarm.words}")
    for constant in constant_alarms(rows, headlines(rows)):
        log(f"alarm: {names[constant.row.signature]}: {constant_words(constant)}")


def _run_names(rows: Sequence[ScoreRow]) -> dict[str, str]:
    runs: dict[str, tuple[str, str]] = {}
    for row in rows:
        data = row.parsed.fields["data"]
        runs[row.signature] = (f"{row.model} on {row.task}, {row.score.variant}", data)
    shared = Counter(name for name, _ in set(runs.values()))
    return {
        signature: f"{name}, {data}" if shared[name] > 1 else name
        for signature, (name, data) in runs.items()
    }


def log_unfit(found: Iterable[JudgeFitness]) -> None:
    """Warn of judges that are not fit: the first variant with its numbers, the others by name."""
    alike: dict[tuple[str, str, ControlFinding], list[JudgeFitness]] = {}
    for one in (one for one in found if one.finding is not ControlFinding.FIT):
        key = (one.recipe.partition(":")[0], one.ceiling.judge, one.finding)
        alike.setdefault(key, []).append(one)
    for (task, judge, _), members in alike.items():
        first, *rest = [one.ceiling.variant for one in members]
        others = f"; likewise {folded(list(dict.fromkeys(rest)))}" if rest else ""
        log(f"judge {judge} {fitness_words(members[0])}: {task}, {first}{others}")
