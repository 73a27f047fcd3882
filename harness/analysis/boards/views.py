"""Boards side by side as people see them: models by variants, seeds together; and notes on ranks.

Boards are in one matrix where their signatures differ in nothing but model, seed, variant and the
words that the variant asks in. Nothing here ranks, prints or writes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from harness.analysis.boards.alarms import Row, missing_words, three
from harness.analysis.boards.ranked import in_order, unranked
from harness.analysis.boards.scores import HEADLINES, headlines
from harness.lazy import DataFrame
from harness.stats.estimate import LEAST_CLUSTERS, NoValue
from harness.storage.find_runs import data_words
from harness.storage.runs import RunFile
from harness.storage.signature import Signature, short_labels


def matrices(
    boards: DataFrame, files: Mapping[str, RunFile], *, is_all: bool = False
) -> list[DataFrame]:
    """The rows of `standings` for each task, data, decoding, judge and version.

    `files` are the runs' by name. `attrs` of each: `variants`, its columns from left to right;
    `averaged`, the variants that are left out because a column is the average over them, none with
    `is_all`; `label`, what differs from others of the same task and judge. The task's own judge
    comes first.
    """
    parts: dict[tuple[str, str], list[dict[str, tuple[str, list[int]]]]] = {}
    firsts = boards.drop_duplicates("board")
    for row in firsts.itertuples():
        # The same variant in other words has a matrix of its own.
        alike = parts.setdefault((row.task, _rest(row.signature)), [])
        own: tuple[str, list[int]] = (row.prompts, [])
        free = (p for p in alike if p.get(row.variant, own)[0] == row.prompts)
        if (part := next(free, None)) is None:
            alike.append(part := {})
        part.setdefault(row.variant, own)[1].append(row.board)
    found = [
        _matrix(boards, {name: own[1] for name, own in part.items()}, files, is_all=is_all)
        for alike in parts.values()
        for part in alike
    ]
    _label(found, files)
    return sorted(found, key=lambda one: _place(one, files))


def _rest(signature: str) -> str:
    made = Signature.parse(signature)
    return replace(made, seed="").without("model", "prompts", "variant")


def _place(matrix: DataFrame, files: Mapping[str, RunFile]) -> tuple[str, int]:
    task, judge, run = (matrix[name].iat[0] for name in ("task", "judge", "run"))
    names = list(files[run].task.judges)
    name = judge.partition("@")[0]
    return task, names.index(name) if name in names else len(names)


def _matrix(
    boards: DataFrame,
    part: Mapping[str, Sequence[int]],
    files: Mapping[str, RunFile],
    *,
    is_all: bool,
) -> DataFrame:
    own = boards[boards["board"].isin([number for some in part.values() for number in some])]
    pools = {
        name: files[run].task.variants[name].averaged_over
        for run in dict.fromkeys(own["run"])
        for name in files[run].run.variants
    }
    order = [*pools.values(), *pools]
    averaged = [name for name in part if pools.get(name) in part and not is_all]
    shown = sorted(
        (name for name in part if name not in averaged),
        key=lambda name: order.index(name) if name in order else len(order),
    )
    found = own[own["variant"].isin(shown)].reset_index(drop=True)
    found.attrs |= boards.attrs | {"variants": shown, "averaged": averaged, "label": ""}
    return found


def _label(found: Sequence[DataFrame], files: Mapping[str, RunFile]) -> None:
    alike: dict[tuple[str, str], list[DataFrame]] = {}
    for one in found:
        alike.setdefault((one["task"].iat[0], one["judge"].iat[0]), []).append(one)
    for members in alike.values():
        firsts = [(one["signature"].iat[0], one["run"].iat[0]) for one in members]
        for one, label in zip(members, recipe_labels(firsts, files), strict=True):
            one.attrs["label"] = label


def recipe_labels(recipes: Iterable[tuple[str, str]], files: Mapping[str, RunFile]) -> list[str]:
    """What differs between the recipes of some signatures and their runs, apart from models."""
    plain = [
        (
            str(replace(Signature.parse(name), model="", kind="", version="", variant="", seed="")),
            run,
        )
        for name, run in recipes
    ]
    labels = short_labels({name: data_words(files[run]) for name, run in plain})
    return [labels[name].removeprefix(", ") for name, _ in plain]


Lines = Sequence[tuple[str, Sequence[Sequence[Row]]]]
"""The name of each model with its rows in each column: one a seed."""


def lines_of(matrix: DataFrame, sort: str = "") -> Lines:
    """Each model of a matrix with its rows in each column: one a seed, none where it was not run.

    In the order of the column that `sort` names, by default the first; or of the names, where it
    is `model`. Of several seeds the means count.
    """
    variants = matrix.attrs["variants"]
    found: dict[str, list[list[Row]]] = {}
    for place in sorted(range(len(variants)), key=lambda at: variants[at] != sort):
        rows: dict[str, list[Row]] = {}
        for row in matrix[matrix["variant"] == variants[place]].itertuples():
            rows.setdefault(row.tested, []).append(row)
        names = list(rows)
        if any(len(own) > 1 for own in rows.values()):
            names.sort(key=lambda name: (rows[name][0].is_constant, -mean_of(rows[name])))
        for name in names:
            found.setdefault(name, [[] for _ in variants])[place] = rows[name]
    models = [next(own[0].model for own in columns if own) for columns in found.values()]
    pairs = zip(models, found.items(), strict=True)
    made = [(m if models.count(m) == 1 else full, columns) for m, (full, columns) in pairs]
    return sorted(made, key=lambda line: line[0]) if sort == "model" else made


def mean_of(rows: Iterable[Row]) -> float:
    """The mean value of some rows; minus infinity where none has one."""
    known = [row.value for row in rows if not np.isnan(row.value)]
    return float(np.mean(known)) if known else -np.inf


def plain_boards(
    scores: DataFrame, metric: str | None, group: str, *, constant: Collection[str] = ()
) -> DataFrame:
    """Boards of another metric or of one group, as `standings`: the best first, without ranks.

    The runs of the signatures in `constant` come last.
    """
    heads = headlines(scores, HEADLINES if metric is None else {metric}, group)
    return in_order(unranked(heads, constant))


def board_notes(board: DataFrame) -> list[str]:
    """Why models, other than controls, have no rank, and why values have no interval: sentences."""
    open_ = board[board["value"].notna() & board["low"].isna()]
    ends = ((row.model, _without_bounds(row)) for row in open_.itertuples())
    return [*rank_notes(board), *_sentences("No interval", ends)]


def rank_notes(board: DataFrame) -> list[str]:
    """Why models, other than controls, have no rank: a sentence a reason."""
    is_open, has_ranks = board["rank"].isna(), bool(board["rank"].notna().any())
    rows = board[is_open & ~board["is_control"]].itertuples()
    return _sentences("No rank", ((r.model, _without_rank(r, has_ranks=has_ranks)) for r in rows))


def _sentences(what: str, found: Iterable[tuple[str, str]]) -> list[str]:
    """A sentence a reason, with the names of those that have it."""
    models: dict[str, list[str]] = {}
    for model, reason in found:
        models.setdefault(reason, []).append(model)
    return [f"{what} for {', '.join(own)}: {reason}." for reason, own in models.items() if reason]


def _without_rank(row: Row, *, has_ranks: bool) -> str:
    if row.is_constant:
        rates = [(row.tpr, "TPR"), (row.fpr, "FPR")]
        shown = ", ".join(f"{name} {three(value)}" for value, name in rates if row.has_rates)
        facts = ["all texts, or nearly all, get one label", shown]
        return f"a constant answer ({'; '.join(filter(None, facts))})"
    if np.isnan(row.value) and row.n == 0:
        return f"nothing could be read ({missing_words(row)})"
    if np.isnan(row.value) and row.ranked_by == "tpr_at_fpr":
        return "it gives no probability or score, or there are no texts of one kind"
    if np.isnan(row.value):
        return "there are no texts of one kind, or they were not read"
    return "it has too few of the verdicts that others have" if has_ranks else ""


def _without_bounds(row: Row) -> str:
    match row.why or (NoValue.TOO_FEW if row.clusters < LEAST_CLUSTERS else None):
        case NoValue.TOO_FEW:
            return f"too few independent items ({row.clusters})"
        case None if row.has_rates:
            return "its verdicts were not read"
        case None | NoValue.CONSTANT:
            return "all answers of a kind are alike, so that nothing shows how far they may vary"
        case other:
            return str(other)
