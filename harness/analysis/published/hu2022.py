"""Hu et al. 2022: prompts, stored answers and people's answers to counts and accuracies."""

from ast import literal_eval
from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite, nan
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from harness.analysis.verify import FromFiles
from harness.errors import DataError
from harness.stats.correlation import pearson
from harness.storage.tables import TableRow, read_rows

_T = TypeVar("_T")
PHENOMENA = {
    "deceits": "Deceits",
    "indirect_speech": "IndirectSpeech",
    "irony": "Irony",
    "maxims": "Maxims",
    "metaphor": "Metaphor",
    "humour": "Humour",
    "coherence_inference": "CoherenceInference",
}
_WITHOUT_STORIES = ("Deceits", "IndirectSpeech", "Irony", "Maxims", "Metaphor")
_SEEDS = range(5)
_ANSWER_COLUMNS = (
    *("item_id", "seed", "answer", "correct", "prob_true_answer"),
    *("distribution", "randomized_option_order", "randomized_true_answer"),
)
_MODELS = ("gpt2", "tk-instruct-3b-def-pos", "flan-t5-base", "flan-t5-xl", "text-ada-001")
PEOPLE = tuple(f"human_data/fj/Human_{name}.csv" for name in PHENOMENA.values())


def prompt_files() -> tuple[str, ...]:
    """The released prompts, with and without the stories."""
    names = (*PHENOMENA.values(), *(f"{name}_no-story" for name in _WITHOUT_STORIES))
    return tuple(f"prompts/{n}_prompts_seed{s}_examples0.csv" for n in names for s in _SEEDS)


def answer_files(model: str) -> tuple[str, ...]:
    """The stored answers of a model, each phenomenon in five orders of the options."""
    return tuple(
        f"model_data/{name}_{model}_seed{seed}_examples0.csv"
        for name in PHENOMENA.values()
        for seed in _SEEDS
    )


def prompts(folder: Path) -> Mapping[str, float]:
    """Items by phenomenon, and the rows of the control without stories."""
    rows = {name: read_rows(folder / name, ["item_id"]) for name in prompt_files()}
    items = {
        group: len(
            {r.cells["item_id"] for n, part in rows.items() if _is_of(n, name) for r in part}
        )
        for group, name in PHENOMENA.items()
    }
    return {
        "items": sum(items.values()),
        **{f"items_{group}": count for group, count in items.items()},
        "rows_without_stories": sum(len(part) for n, part in rows.items() if "_no-story_" in n),
    }


def people(folder: Path) -> Mapping[str, float]:
    """The number of people and of their answers, and the share that is right."""
    rows = {group: _people(folder, name) for group, name in PHENOMENA.items()}
    everyone = {row.cells["pKey"] for part in rows.values() for row in part}
    return {
        "participants": len(everyone),
        "answers": sum(map(len, rows.values())),
        **{f"accuracy_{group}": _mean(part, "Correct") for group, part in rows.items()},
    }


def answers(folder: Path, *, model: str) -> Mapping[str, float]:
    """A model's accuracy over items and orders, and how often it answers 1.

    In points: `swing`, the most accurate of the five orders less the least accurate; `gain`, the
    accuracy won by averaging the probability of each option over the orders before choosing one.
    """
    rows = {group: _answers(folder, name, model) for group, name in PHENOMENA.items()}
    every = [row for part in rows.values() for row in part]
    return {
        "rows": len(every),
        "accuracy": _mean(every, "correct"),
        "answers_of_one": sum(_number(row, "answer") == 1 for row in every),
        **{f"accuracy_{group}": _mean(part, "correct") for group, part in rows.items()},
        **{f"swing_{group}": 100 * _swing(part) for group, part in rows.items()},
        **{
            f"gain_{group}": 100 * (_permuted(part) - _mean(part, "correct"))
            for group, part in rows.items()
        },
    }


def answers_and_people(folder: Path, *, model: str) -> Mapping[str, float | None]:
    """Pearson's r by phenomenon of a model's probability of the right option and people's share."""
    values: dict[str, float | None] = {}
    for group, name in PHENOMENA.items():
        model_means = _by_item(_answers(folder, name, model), "item_id", value="prob_true_answer")
        means = _by_item(_people(folder, name), "itemNum", value="Correct")
        common = sorted(model_means.keys() & means.keys())
        sides = [model_means[item] for item in common], [means[item] for item in common]
        values[f"pearson_{group}"] = pearson(*sides).value
    known = [abs(value) for value in values.values() if value is not None]
    return values | {"largest": max(known, default=None)}


def _is_of(path: str, name: str) -> bool:
    return path.startswith(f"prompts/{name}_prompts_")


def _people(folder: Path, name: str) -> list[TableRow]:
    return read_rows(folder / f"human_data/fj/Human_{name}.csv", ["pKey", "itemNum", "Correct"])


def _answers(folder: Path, name: str, model: str) -> list[TableRow]:
    paths = [folder / path for path in answer_files(model) if f"/{name}_" in path]
    return [row for path in paths for row in read_rows(path, _ANSWER_COLUMNS)]


def _by_item(rows: Sequence[TableRow], key: str, *, value: str) -> Mapping[int, float]:
    """The mean of a column over the rows of each item."""
    grouped: dict[int, list[float]] = {}
    for row in rows:
        grouped.setdefault(int(_number(row, key)), []).append(_number(row, value))
    return {item: fmean(values) for item, values in grouped.items()}


def _swing(rows: Sequence[TableRow]) -> float:
    by_seed = _by_item(rows, "seed", value="correct")
    return max(by_seed.values()) - min(by_seed.values())


def _permuted(rows: Sequence[TableRow]) -> float:
    """Accuracy where each option's probability is first summed over the orders it is shown in."""
    totals: dict[str, dict[int, float]] = {}
    gold: dict[str, int] = {}
    for row in rows:
        item, order = row.cells["item_id"], _literal(row, "randomized_option_order", list)
        gold[item] = order[int(_number(row, "randomized_true_answer")) - 1]
        own = totals.setdefault(item, dict.fromkeys(order, 0.0))
        for place, probability in _literal(row, "distribution", dict).items():
            own[order[int(place) - 1]] += probability
    return fmean(max(own, key=own.__getitem__) == gold[item] for item, own in totals.items())


def _literal(row: TableRow, column: str, kind: type[_T]) -> _T:
    """A cell that holds a list or a mapping in Python's notation; nothing in it is evaluated."""
    try:
        value = literal_eval(row.cells[column])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise DataError(f"{row.place}: {column} holds no {kind.__name__}; fetch the file again")
    return value


def _mean(rows: Sequence[TableRow], column: str) -> float:
    return fmean(_number(row, column) for row in rows)


def _number(row: TableRow, column: str) -> float:
    """A cell as a number; True is 1 and False 0."""
    text = row.cells[column].strip()
    try:
        number = float({"True": "1", "False": "0"}.get(text, text))
    except ValueError:
        number = nan
    if not isfinite(number):
        raise DataError(f"{row.place}: {column} says {text!r}, not a number; fetch the file again")
    return number


RECOMPUTATIONS = {
    "hu2022_prompts": FromFiles(prompt_files(), prompts),
    "hu2022_people": FromFiles(PEOPLE, people),
    **{
        f"hu2022_{model}": FromFiles(answer_files(model), partial(answers, model=model))
        for model in _MODELS
    },
    **{
        f"hu2022_{model}_and_people": FromFiles(
            (*answer_files(model), *PEOPLE), partial(answers_and_people, model=model)
        )
        for model in _MODELS
    },
}
