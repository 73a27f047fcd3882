"""Stored answers and printed numbers to accuracies, correlations and tests, by source.

Hu et al. 2022: prompts, stored answers and people's answers. Topical-Chat: people's ratings and a
judge's stored replies, whose score is their first digit, as in the scripts of Chiang and Lee.
Emphasized-Talk: the printed ranks of its systems. Last: worked examples of the papers that define
our statistics.
"""

from ast import literal_eval
from collections.abc import Sequence
from functools import partial
from math import isfinite, nan
from pathlib import Path
from statistics import fmean
from typing import TypeVar, get_args

import msgspec
import numpy as np

from harness.analysis.published import FromFiles, FromInputs, Inputs, Values, read_json
from harness.errors import DataError
from harness.parts import Reason
from harness.stats.agreement import Scale, alpha
from harness.stats.comparison import williams_test
from harness.stats.correlation import (
    calibrated_acc_eq,
    dataset_pearson,
    discordant_pairs,
    document_tau,
    fisher_interval,
    pearson,
    permutation_p,
    spearman,
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
PEOPLE = tuple(f"human_data/fj/Human_{name}.csv" for name in PHENOMENA.values())


def prompt_files() -> tuple[str, ...]:
    """The released prompts of Hu et al., with and without the stories."""
    names = (*PHENOMENA.values(), *(f"{name}_no-story" for name in _WITHOUT_STORIES))
    return tuple(f"prompts/{n}_prompts_seed{s}_examples0.csv" for n in names for s in _SEEDS)


def answer_files(model: str) -> tuple[str, ...]:
    """The stored answers of a model, each phenomenon in five orders of the options."""
    names = PHENOMENA.values()
    return tuple(f"model_data/{n}_{model}_seed{s}_examples0.csv" for n in names for s in _SEEDS)


def prompts(folder: Path) -> Values:
    """Items by phenomenon, and the rows of the control without stories."""
    rows = {name: read_rows(folder / name, ["item_id"]) for name in prompt_files()}
    items = {group: set[str]() for group in PHENOMENA}
    for group, name in PHENOMENA.items():
        own = [rows[path] for path in rows if path.startswith(f"prompts/{name}_prompts_")]
        items[group] = {row.cells["item_id"] for part in own for row in part}
    return {
        "items": sum(map(len, items.values())),
        **{f"items_{group}": len(own) for group, own in items.items()},
        "rows_without_stories": sum(len(part) for n, part in rows.items() if "_no-story_" in n),
    }


def people(folder: Path) -> Values:
    """The number of people and of their answers, and the share that is right."""
    rows = {group: _people(folder, name) for group, name in PHENOMENA.items()}
    everyone = {row.cells["pKey"] for part in rows.values() for row in part}
    return {
        "participants": len(everyone),
        "answers": sum(map(len, rows.values())),
        **{f"accuracy_{group}": _mean(part, "Correct") for group, part in rows.items()},
    }


def answers(folder: Path, *, model: str) -> Values:
    """A model's accuracy over items and orders, and how often it answers 1.

    In points: `swing`, the most accurate of the five orders less the least accurate; `gain`, the
    accuracy won by averaging the probability of each option over the orders before choosing one.
    """
    rows = {group: _answers(folder, name, model) for group, name in PHENOMENA.items()}
    every = [row for part in rows.values() for row in part]
    values: dict[str, float | None] = {
        "rows": len(every),
        "accuracy": _mean(every, "correct"),
        "answers_of_one": sum(_number(row, "answer") == 1 for row in every),
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
    """Pearson's r by phenomenon of a model's probability of the right option and people's share."""
    values: dict[str, float | None] = {}
    for group, name in PHENOMENA.items():
        model_means = _by_item(_answers(folder, name, model), "item_id", "prob_true_answer")
        means = _by_item(_people(folder, name), "itemNum", "Correct")
        common = sorted(model_means.keys() & means.keys())
        sides = [model_means[item] for item in common], [means[item] for item in common]
        values[f"pearson_{group}"] = pearson(*sides).value
    known = [abs(value) for value in values.values() if value is not None]
    return values | {"largest": max(known, default=None)}


def _people(folder: Path, name: str) -> list[TableRow]:
    return read_rows(folder / f"human_data/fj/Human_{name}.csv", ["pKey", "itemNum", "Correct"])


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
    """Pearson's r of all cells and the mean tau-b of the conversations (their two methods)."""
    rated = read_json(folder / CHAT_PEOPLE, list[_Rated])
    documents, systems = (
        list(dict.fromkeys(names))
        for names in ([one.source for one in rated], [one.system_id for one in rated])
    )
    tables: Floats = np.full((2, len(documents), len(systems)), nan)
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
        value = mean([score for score in scores if not isinstance(score, Reason)])
        tables[(1, *cells[key])] = nan if value is None else value
    r, tau = dataset_pearson(*tables), document_tau(*tables)
    return {"pearson": r.value, "tau_b": tau.value, "replies": r.n}


JUDGES = {"bertf1": "BERTf1", "auto_gpt4_gt": "auto-gpt4-gt", "auto_gpt4": "auto-gpt4"}


def ranking(inputs: Inputs) -> Values:
    """The agreement of each judge of Emphasized-Talk's Table 1 with the mean opinion scores."""
    opinions, values = inputs["MOS"], dict[str, float | None]()
    for name, column in JUDGES.items():
        judge = inputs[column]
        order = spearman(judge, opinions)
        span = fisher_interval(order.value or 0.0, order.n)
        values |= {
            f"{name}_spearman": order.value,
            f"{name}_pearson": pearson(judge, opinions).value,
            f"{name}_discordant": discordant_pairs(judge, opinions).value,
            f"{name}_permutation_p": permutation_p(judge, opinions, "spearman").value,
            f"{name}_fisher_low": span.low,
            f"{name}_fisher_high": span.high,
        }
    return values


def williams(inputs: Inputs) -> Values:
    """Williams' t and p of three correlations, and of three vectors of raw values."""
    first, second, between = inputs["correlations"]
    stated = williams_test(first, second, between, n=int(inputs["n"][0]))
    gold, one, other = (inputs[name] for name in ("gold", "first_metric", "second_metric"))
    first_r, second_r, between_r = (
        pearson(*pair).value or 0.0 for pair in ((gold, one), (gold, other), (one, other))
    )
    raw = williams_test(first_r, second_r, between_r, n=len(gold), alternative="greater")
    return {
        "t_of_correlations": stated.statistic,
        "p_of_correlations": stated.p,
        "first_r": first_r,
        "second_r": second_r,
        "one_sided_p": raw.p,
    }


def tie_calibration(inputs: Inputs) -> Values:
    """The best tie threshold and the accuracy there, of one metric with two sets of ratings."""
    metric, values = [inputs["metric"]], dict[str, float | None]()
    for name in ("without_ties", "with_ties"):
        best = calibrated_acc_eq([inputs[name]], metric)
        values |= {
            f"{name}_epsilon": best.epsilons[0] if best.epsilons else None,
            f"{name}_accuracy": best.estimate.value,
        }
    return values


def krippendorff(inputs: Inputs) -> Values:
    """Krippendorff's alpha of four observers, some of whose values are missing, by scale."""
    observers = ("observer_a", "observer_b", "observer_c", "observer_d")
    ratings = np.array([inputs[name] for name in observers]).T
    return {scale: alpha(ratings, scale).value for scale in get_args(Scale)}


def _topical_chat(attribute: str, replies: str) -> FromFiles:
    compute = partial(correlations, attribute=attribute, replies=replies)
    return FromFiles("topical_chat", (CHAT_PEOPLE, replies), compute)


RECOMPUTATIONS: dict[str, FromFiles | FromInputs] = {
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
    "emphasized_talk_ranking": FromInputs(ranking),
    "williams": FromInputs(williams),
    "tie_calibration": FromInputs(tie_calibration),
    "krippendorff": FromInputs(krippendorff),
}
