"""Stored answers to accuracies and correlations, by source."""

from ast import literal_eval
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from math import nan
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import numpy as np

from harness.data.published import Recomputation, Values, read_csvs
from harness.data.readers.released import read_json
from harness.lazy import DataFrame
from harness.parts import Reason
from harness.stats.correlation import dataset_pearson, document_tau, pearson
from harness.stats.estimate import Floats, mean
from harness.text.parsers import first_digit

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


def answer_files(model: str, names: Iterable[str] = PHENOMENA.values()) -> tuple[str, ...]:
    """The stored answers of a model, each phenomenon in five orders of the options."""
    return tuple(f"model_data/{n}_{model}_seed{s}_examples0.csv" for n in names for s in _SEEDS)


def prompts(folder: Path) -> Values:
    """Items and options by phenomenon, and the rows of the control without stories."""
    rows = read_csvs(folder, prompt_files(), ("item_id", "content", "randomized_option_order"))
    is_control = rows["file"].str.contains("_no-story_", regex=False)
    rows["file"] = rows["file"].str.replace("_no-story", "", regex=False)
    stories, control = rows[~is_control], rows[is_control]
    values: dict[str, float | None] = {}
    for group, name in PHENOMENA.items():
        own = stories[stories["file"].str.contains(f"/{name}_prompts_", regex=False)]
        values[f"items_{group}"] = own["item_id"].nunique()
        orders = own["randomized_option_order"].map(literal_eval)
        values[f"options_{group}"] = orders.map(len).max() if len(orders) else None
    both = control.merge(stories, on=["file", "item_id"], how="left", suffixes=("", "_story"))
    return values | {
        "items": sum(values[f"items_{group}"] or 0 for group in PHENOMENA),
        "rows_without_stories": len(control),
        "rows_changed": int((both["content"] != both["content_story"]).sum()),
    }


def people(folder: Path) -> Values:
    """The number of people and of their answers, and the share that is right."""
    rows = {g: _people(folder, _PEOPLE_FILE.format(name)) for g, name in PHENOMENA.items()}
    return {
        "participants": len({name for part in rows.values() for name in part["pKey"]}),
        "answers": sum(map(len, rows.values())),
        **{f"accuracy_{group}": fmean(part["Correct"]) for group, part in rows.items()},
    }


def answers(folder: Path, *, model: str) -> Values:
    """A model's accuracy over items and orders, and how often it answers 1 and 2.

    In points: `swing`, the best of the five orders less the worst; `gain`, by averaging over them.
    """
    rows = {group: _answers(folder, name, model) for group, name in PHENOMENA.items()}
    every = [value for part in rows.values() for value in part["correct"]]
    said = [value for part in rows.values() for value in part["answer"]]
    values: dict[str, float | None] = {"rows": len(every), "accuracy": fmean(every)}
    values |= {"answers_of_one": said.count(1), "answers_of_two": said.count(2)}
    for group, part in rows.items():
        by_seed, accuracy = _means(part, "seed", "correct").values(), fmean(part["correct"])
        values |= {
            f"accuracy_{group}": accuracy,
            f"swing_{group}": 100 * (max(by_seed) - min(by_seed)),
            f"gain_{group}": 100 * (_permuted(part) - accuracy),
        }
    return values


def answers_and_people(folder: Path, *, model: str) -> Values:
    """Pearson's r by phenomenon of a model's probability of the right option and people's share."""
    values: dict[str, float | None] = {}
    for group, name in PHENOMENA.items():
        model_means = _means(_answers(folder, name, model), "item_id", "prob_true_answer")
        path = _PEOPLE_FILE.format(name)
        means = _shares_right(folder, path, (folder / path).stat().st_mtime_ns)
        common = sorted(model_means.keys() & means.keys())
        sides = [model_means[item] for item in common], [means[item] for item in common]
        values |= {f"pearson_{group}": pearson(*sides).value, f"people_{group}": mean(sides[1])}
    found = [abs(r) for group in PHENOMENA if (r := values[f"pearson_{group}"]) is not None]
    return values | {"largest": max(found, default=None)}


def _people(folder: Path, name: str) -> DataFrame:
    rows = read_csvs(folder, [name], ["pKey", "itemNum", "Correct"])
    return _with_numbers(rows, ("itemNum", "Correct"))


@lru_cache(maxsize=len(PHENOMENA))
def _shares_right(folder: Path, name: str, changed: int) -> dict[int, float]:
    """The share of people that are right, by item; kept, as each model is compared with them."""
    return _means(_people(folder, name), "itemNum", "Correct")


def _answers(folder: Path, name: str, model: str) -> DataFrame:
    rows = read_csvs(folder, answer_files(model, [name]), _ANSWER_COLUMNS)
    numbers = ("item_id", "seed", "answer", "correct", "prob_true_answer", "randomized_true_answer")
    return _with_numbers(rows, numbers)


def _means(rows: DataFrame, key: str, value: str) -> dict[int, float]:
    return {int(item): fmean(own) for item, own in rows.groupby(key, sort=False)[value]}


def _permuted(rows: DataFrame) -> float:
    """Accuracy where each option's probability is first summed over the orders it is shown in."""
    totals: dict[float, dict[int, float]] = {}
    gold: dict[float, int] = {}
    orders, shares = (
        rows[n].map(literal_eval) for n in ("randomized_option_order", "distribution")
    )
    places = zip(rows["item_id"], orders, shares, rows["randomized_true_answer"], strict=True)
    for item, order, distribution, right in places:
        gold[item] = order[int(right) - 1]
        own = totals.setdefault(item, dict.fromkeys(order, 0.0))
        for place, probability in distribution.items():
            own[order[int(place) - 1]] += probability
    return fmean(max(own, key=own.__getitem__) == gold[item] for item, own in totals.items())


def _with_numbers(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The rows with numbers in place of the texts of some columns; True and False are 1 and 0."""
    words = {"True": "1", "False": "0"}
    return rows.assign(**{name: rows[name].replace(words).astype(float) for name in columns})


CHAT_PEOPLE, _LAYOUT = "topical_chat.json", "a list of replies"


class _Reply(msgspec.Struct):
    source: str
    system_id: str
    system_output: str
    scores: dict[str, float] = {}
    all_responses: list[str] = []


def correlations(folder: Path, *, attribute: str, replies: str) -> Values:
    """Pearson's r of all cells and the mean tau-b of the conversations (their two methods)."""
    rated = read_json(folder / CHAT_PEOPLE, list[_Reply], _LAYOUT)
    documents = list(dict.fromkeys(one.source for one in rated))
    systems = list(dict.fromkeys(one.system_id for one in rated))
    tables: Floats = np.full((3, len(documents), len(systems)), nan)
    cells = {}
    for one in rated:
        place = documents.index(one.source), systems.index(one.system_id)
        cells[one.source, one.system_id, one.system_output] = place
        tables[(0, *place)] = one.scores.get(attribute, nan)
    for other in read_json(folder / replies, list[_Reply], _LAYOUT):
        key = other.source, other.system_id, other.system_output
        scores = [first_digit(text) for text in other.all_responses]
        read = [score for score in scores if not isinstance(score, Reason)]
        tables[(1, *cells[key])] = fmean(read) if read else nan
        tables[(2, *cells[key])] = sum(read) / len(scores) if scores else nan
    human, judge, zeros = tables
    r, tau = dataset_pearson(human, judge), document_tau(human, judge)
    with_zeros = document_tau(human, zeros).value
    return {"pearson": r.value, "tau_b": tau.value, "replies": r.n, "tau_b_with_zeros": with_zeros}


def _hu(compute: Any, model: str, *files: str) -> Recomputation:  # noqa: ANN401 - a function above
    return Recomputation(partial(compute, model=model), "hu2022", (*answer_files(model), *files))


RECOMPUTATIONS = {
    "hu2022_prompts": Recomputation(prompts, "hu2022", prompt_files()),
    "hu2022_people": Recomputation(people, "hu2022", PEOPLE),
    **{f"hu2022_{model}": _hu(answers, model) for model in _MODELS},
    **{f"hu2022_{model}_and_people": _hu(answers_and_people, model, *PEOPLE) for model in _MODELS},
    **{
        f"topical_chat_{attribute}_{prompt}": Recomputation(
            partial(correlations, attribute=attribute, replies=replies),
            *("topical_chat", (CHAT_PEOPLE, replies)),
        )
        for attribute, short in (("naturalness", "nat"), ("coherence", "coh"))
        for prompt in ("geval", "llm_eval_no_cot", "analyze_rate")
        for replies in [f"results/gpt3.5_{short}_{prompt}.json"]
    },
}
