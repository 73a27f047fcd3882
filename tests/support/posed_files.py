"""Multiple-choice prompts of our own words in the released layout, five orders of the options."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.quiz import Quiz

STORY = 'Ola has every window open. Pia says: "Fresh, this." '
WITHOUT = 'Pia says: "Fresh, this."'
QUESTION = "What does she mean?"
OPTIONS = ("The air is fresh, isn't it.", "She is cold.", 'Someone said "shut the door".')
LABELS = ("IncorrectLiteral", "CorrectNonLiteral", "IncorrectAssociate")
ORDERS = ((3, 1, 2), (2, 1, 3), (1, 2, 3), (3, 2, 1), (1, 3, 2))
Cells = dict[str, str]


def posed(
    seed: int,
    content: str = STORY + QUESTION,
    *,
    options: Sequence[str] = OPTIONS,
    labels: Sequence[str] = LABELS,
    order: Sequence[int] | None = None,
) -> Cells:
    """One row: an item with its options in the order of a seed."""
    order = order or ORDERS[seed]
    shown = [labels[number - 1] for number in order]
    lines = "\n".join(f"{at}) {options[number - 1]}" for at, number in enumerate(order, 1))
    return {
        "phenomenon": "IV",
        "item_id": "7",
        "content": content,
        "randomized_option_order": repr(list(order)),
        "randomized_labels_complex": repr(shown),
        "randomized_true_answer": str(shown.index("CorrectNonLiteral") + 1),
        "original_labels_complex": repr(list(labels)),
        "is_example": "False",
        "prompt": f"Task: choose.\n\nScenario: {content}\nOptions:\n{lines}\nAnswer: ",
        "seed": str(seed),
    }


def write(path: Path, *rows: Mapping[str, str]) -> Path:
    """A CSV file of rows, its lines ended by CR and LF."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def release(folder: Path, rows: Sequence[Mapping[str, str]], *, kind: str = "") -> list[Path]:
    """A file for each row, as the release has one a seed; `kind` may be "_no-story"."""
    return [
        write(folder / f"prompts/Irony{kind}_prompts_seed{place}_examples0.csv", row)
        for place, row in enumerate(rows)
    ]


PAIR, PAIR_LABELS = ("Coherent", "Incoherent"), ("Correct", "IncorrectIncoherent")
PAIR_ORDERS = ((2, 1), (1, 2), (2, 1), (1, 2), (2, 1))
SAME, SPACED = "Pia reads and yawns. " + QUESTION, "Pia waits. " + QUESTION
CHANCES = (0.1, 0.7, 0.2)


def answered(seed: int, shares: Sequence[float] = CHANCES, **cells: str) -> Cells:
    """A row of item 7 with its story, and what the model made of it."""
    return _answered(posed(seed), shares, **cells)


def pair(seed: int, shares: Sequence[float] = (0.25, 0.75), **cells: str) -> Cells:
    row = _row_of_pair(PAIR_ORDERS[seed]) | {"seed": str(seed)}
    return _answered(row, shares, **cells)


def build(folder: Path) -> Quiz:
    """A home folder whose samples are these items, for the task intent_detection."""
    quiz = Quiz(folder)
    quiz.put("home/tasks/samples/intent_detection.jsonl", [dict(part) for part in _samples()])
    return quiz


def _answered(row: Cells, shares: Sequence[float], **cells: str) -> Cells:
    best = str(max(range(len(shares)), key=lambda at: shares[at]) + 1)
    said = {
        "generation": best,
        "generation_isvalid": "True",
        "distribution": repr({str(at): share for at, share in enumerate(shares, 1)}),
        "prob_true_answer": "",
        "answer": best,
        "correct": str(best == row["randomized_true_answer"]),
        "model": "small",
    }
    return {**row, **said, **cells}


def _row_of_pair(order: Sequence[int]) -> Cells:
    labels = [PAIR_LABELS[number - 1] for number in order]
    lines = "\n".join(f"{at}) {PAIR[number - 1]}" for at, number in enumerate(order, 1))
    content = "It rained. The street is wet. "
    return posed(0) | {
        "phenomenon": "CIV",
        "item_id": "1",
        "content": content,
        "randomized_option_order": repr(list(order)),
        "randomized_labels_complex": repr(labels),
        "randomized_true_answer": str(labels.index("Correct") + 1),
        "original_labels_complex": repr(list(PAIR_LABELS)),
        "prompt": f"Task: choose.\n\nScenario: {content}\nOptions:\n{lines}\nAnswer: ",
    }


def _samples() -> list[Mapping[str, object]]:
    return [
        _sample("irony-7", STORY + QUESTION, {"without_story": f"{WITHOUT} {QUESTION}"}),
        _sample("irony-8", SAME, {}),
        _sample("irony-9", SPACED, {"without_story": SPACED}),
        {
            "id": "coherence_inference-1",
            "group": "coherence_inference",
            "fields": {"scenario": "It rained. The street is wet."},
            "choices": PAIR,
            "gold": "Coherent",
            "references": {"labels": PAIR_LABELS, **_orders(PAIR_ORDERS)},
        },
    ]


def _sample(name: str, scenario: str, more: Mapping[str, str]) -> Mapping[str, object]:
    return {
        "id": name,
        "group": "irony",
        "fields": {"scenario": scenario, **more},
        "choices": OPTIONS,
        "gold": OPTIONS[LABELS.index("CorrectNonLiteral")],
        "references": {"labels": LABELS, **_orders(ORDERS)},
    }


def _orders(orders: Sequence[Sequence[int]]) -> dict[str, list[str]]:
    return {f"order{seed}": [str(place) for place in order] for seed, order in enumerate(orders)}
