"""Multiple-choice prompts of our own words in the released layout, five orders of the options."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

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
