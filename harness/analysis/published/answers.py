"""Stored answers to accuracies and correlations, by source.

Hu et al. 2022: prompts, stored answers and people's answers. Topical-Chat: people's ratings and a
judge's stored replies, whose score is their first digit, as in the scripts of Chiang and Lee.
"""

from ast import literal_eval
from collections.abc import Sequence
from functools import lru_cache, partial
from math import isfinite, nan
from pathlib import Path
from statistics import fmean
from typing import TypeVar

import msgspec
import numpy as np

from harness.analysis.published import FromFiles, Values, read_json
from harness.errors import DataError
from harness.parts import Reason
from harness.stats.correlation import (
    dataset_pearson,
    document_tau,
    pearson,
)
from harness.stats.estimate import Floats, mean
from harness.storage.tables import TableRow, read_rows
from harness.text.parsers import first_digit

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
_PEOPLE_FILE = "human_data/fj/Human_{}.csv"
PEOPLE = tuple(_PEOPLE_FILE.format(name) for name in PHENOMENA.values())


def prompt_files() -> tuple[str, ...]:
    """The released prompts of Hu et al., with and without the stories."""
    names = (*PHENOMENA.values(), *(f"{name}_no-story" for name in _WITHOUT_STORIES))
    return tuple(f"prompts/{n}_prompts_seed{s}_examples0.csv" for n in names for s in _SEEDS)


def answer_files(model: str) -> tuple[str, ...]:
    """The stored answers of a model, each phenomenon in five orders of the options."""
    names = PHENOMENA.values()
    return tuple(f"model_data/{n}_{model}_seed{s}_examples0.csv" for n in names for s in _SEEDS)


def prompts(folder: Path) -> Values:
    """Items and options by phenomenon, and the rows of the control without stories.

    `rows_changed` are those of the control whose text is not that of the item with its story.
    """
    columns = ("item_id", "content", "randomized_option_order")
    rows = {name: read_rows(folder / name, columns) for name in prompt_files()}
    values: dict[str, float | None] = {}
    for group, name in PHENOMENA.items():
        own = [row for path in rows if f"/{name}_prompts_" in path for row in rows[path]]
        values[f"items_{group}"] = len({row.cells["item_id"] for row in own})
        values[f"options_{group}"] = max(
            (len(_literal(row, "randomized_option_order", list)) for row in own), default=None
        )
    control = {name: part for name, part in rows.items() if "_no-story_" in name}
    said = {
        name: {row.cells["item_id"]: row.cells["content"] for row in part}
        for name, part in rows.items()
    }
    return values | {
        "items": sum(values[f"items_{group}"] or 0 for group in PHENOMENA),
        "rows_without_stories": sum(map(len, control.values())),
        "rows_changed": sum(
            said[name.replace("_no-story", "")].get(row.cells["item_id"]) != row.cells["content"]
            for name, part in control.items()
            for row in part
        ),
    }


def people(folder: Path) -> Values:
    """The number of people and of their answers, and the share that is right."""
    rows = {g: _people(folder / _PEOPLE_FILE.format(name)) for g, name in PHENOMENA.items()}
    everyone = {row.cells["pKey"] for part in rows.values() for row in part}
    return {
        "participants": len(everyone),
        "answers": sum(map(len, rows.values())),
        **{f"accuracy_{group}": _mean(part, "Correct") for group, part in rows.items()},
    }


def answers(folder: Path, *, model: str) -> Values:
    """A model's accuracy over items and orders, and how often it answers 1 and 2.

    In points: `swing`, the most accurate of the five orders less the least accurate; `gain`, the
    accuracy won by averaging the probability of each option over the orders before choosing one.
    """
    rows = {group: _answers(folder, name, model) for group, name in PHENOMENA.items()}
    every = [row for part in rows.values() for row in part]
    values: dict[str, float | None] = {
        "rows": len(every),
        "accuracy": _mean(every, "correct"),
        "answers_of_one": sum(_number(row, "answer") == 1 for row in every),
        "answers_of_two": sum(_number(row, "answer") == 2 for row in every),
    }
    for group, part in rows.items():
        by_seed, accuracy = _by_item(part, "seed", "correct").values(), _mean(part, "correct")
        values |= {
            f"accuracy_{group}": accuracy,
            f"swing_{group}": 100 * (max(by_seed) - min(by_seed)),
            f"gain_{group}": 100 * (_permuted(part) - accuracy),
        }
    return values


def answers_and_people(folder: Path, *, model: str) -> Values:
    """Pearson's r by phenomenon of a model's probability of the right option and people's share.

    `people` is the mean of the people's shares over the items that the model was asked.
    """
    values: dict[str, float | None] = {}
    for group, name in PHENOMENA.items():
        model_means = _by_item(_answers(folder, name, model), "item_id", "prob_true_answer")
        path = folder / _PEOPLE_FILE.format(name)
        means = _shares_right(path, path.stat().st_mtime_ns)
        common = sorted(model_means.keys() & means.keys())
        sides = [model_means[item] for item in common], [means[item] for item in common]
        values[f"pearson_{group}"] = pearson(*sides).value
        values[f"people_{group}"] = mean(sides[1])
    found = [values[f"pearson_{group}"] for group in PHENOMENA]
    return values | {"largest": max((abs(r) for r in found if r is not None), default=None)}


def _people(path: Path) -> list[TableRow]:
    return read_rows(path, ["pKey", "itemNum", "Correct"])


@lru_cache(maxsize=len(PHENOMENA))
def _shares_right(path: Path, changed: int) -> dict[int, float]:
    """The share of people that are right, by item; kept, as each model is compared with them."""
    return _by_item(_people(path), "itemNum", "Correct")


def _answers(folder: Path, name: str, model: str) -> list[TableRow]:
    paths = [folder / path for path in answer_files(model) if f"/{name}_" in path]
    return [row for path in paths for row in read_rows(path, _ANSWER_COLUMNS)]


def _by_item(rows: Sequence[TableRow], key: str, value: str) -> dict[int, float]:
    grouped: dict[int, list[float]] = {}
    for row in rows:
        grouped.setdefault(int(_number(row, key)), []).append(_number(row, value))
    return {item: fmean(values) for item, values in grouped.items()}


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
    text = row.cells[column].strip()
    try:
        number = float({"True": "1", "False": "0"}.get(text, text))
    except ValueError:
        number = nan
    if not isfinite(number):
        raise DataError(f"{row.place}: {column} says {text!r}, not a number; fetch the file again")
    return number


CHAT_PEOPLE = "topical_chat.json"


class _Reply(msgspec.Struct):
    source: str
    system_id: str
    system_output: str


class _Rated(_Reply):
    scores: dict[str, float]


class _Judged(_Reply):
    all_responses: list[str]


def correlations(folder: Path, *, attribute: str, replies: str) -> Values:
    """Pearson's r of all cells and the mean tau-b of the conversations (their two methods).

    `tau_b_with_zeros` takes replies that cannot be read for zeros, as one of their scripts does.
    """
    rated = read_json(folder / CHAT_PEOPLE, list[_Rated])
    documents, systems = (
        list(dict.fromkeys(names))
        for names in ([one.source for one in rated], [one.system_id for one in rated])
    )
    tables: Floats = np.full((3, len(documents), len(systems)), nan)
    cells = {}
    for one in rated:
        place = documents.index(one.source), systems.index(one.system_id)
        cells[one.source, one.system_id, one.system_output] = place
        tables[(0, *place)] = one.scores.get(attribute, nan)
    for other in read_json(folder / replies, list[_Judged]):
        if (key := (other.source, other.system_id, other.system_output)) not in cells:
            raise DataError(
                f"{folder / replies}: a reply that {CHAT_PEOPLE} does not hold; fetch both again"
            )
        scores = [first_digit(text) for text in other.all_responses]
        read = [score for score in scores if not isinstance(score, Reason)]
        tables[(1, *cells[key])] = fmean(read) if read else nan
        tables[(2, *cells[key])] = sum(read) / len(scores) if scores else nan
    human, judge, zeros = tables
    r, tau = dataset_pearson(human, judge), document_tau(human, judge)
    with_zeros = document_tau(human, zeros).value
    return {"pearson": r.value, "tau_b": tau.value, "replies": r.n, "tau_b_with_zeros": with_zeros}


def _topical_chat(attribute: str, replies: str) -> FromFiles:
    compute = partial(correlations, attribute=attribute, replies=replies)
    return FromFiles("topical_chat", (CHAT_PEOPLE, replies), compute)


RECOMPUTATIONS = {
    "hu2022_prompts": FromFiles("hu2022", prompt_files(), prompts),
    "hu2022_people": FromFiles("hu2022", PEOPLE, people),
    **{
        f"hu2022_{model}": FromFiles("hu2022", answer_files(model), partial(answers, model=model))
        for model in _MODELS
    },
    **{
        f"hu2022_{model}_and_people": FromFiles(
            "hu2022", (*answer_files(model), *PEOPLE), partial(answers_and_people, model=model)
        )
        for model in _MODELS
    },
    **{
        f"topical_chat_{attribute}_{prompt}": _topical_chat(
            attribute, f"results/gpt3.5_{short}_{prompt}.json"
        )
        for attribute, short in (("naturalness", "nat"), ("coherence", "coh"))
        for prompt in ("geval", "llm_eval_no_cot", "analyze_rate")
    },
}
