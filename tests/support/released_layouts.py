"""Small files of our own words in the layouts of released data, for recomputations to read."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.data.readers.intent_resolution import COLUMNS, FIELDS, REFERENCES

MINUTES = "0: are you coming?<br>1: in a minute"
DIALOGUES = {
    MINUTES: {
        "current": "0: he said he is here",
        "emphasis": {"he": ["nobody else said it"], "here": ["not there", "not there"]},
    },
    "1: where is my hat?": {
        "current": "0: on the red chair",
        "emphasis": {"red chair": ["not the green one", "on a red chair", "not on a table"]},
    },
    "0: good night": {"current": "", "emphasis": {}},
}


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), "utf-8")


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])


def write_parquet(path: Path, columns: Mapping[str, Sequence[object]]) -> None:
    import pyarrow
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table({name: list(cells) for name, cells in columns.items()}), path)


def write_dialogues(folder: Path) -> None:
    """Three dialogues: of two fragments, of one, of none."""
    write_json(folder / "data.json", DIALOGUES)


def write_stories(folder: Path, stories: Sequence[tuple[str, str, str]]) -> None:
    """Stories by phenomenon, reply to the true and reply to the literal intention."""
    known = {FIELDS["prefix"]: "Ann says: ", FIELDS["utterance"]: "It is cold."}
    rows = []
    for number, (task, true, literal) in enumerate(stories, 1):
        own = {"item_id": number, "task": task, REFERENCES["turn2_true"]: true}
        own[REFERENCES["turn2_literal"]] = literal
        rows.append([{**known, **own}.get(name, "some words") for name in COLUMNS])
    write_csv(folder / "hu_gpt4augmented_turn2_data.csv", COLUMNS, rows)


def write_people(folder: Path, answers: Sequence[tuple[str, str]]) -> None:
    """Gold answers and five people's answers as letters, such as ("Yes", "YYNYY"); four files."""
    raters = [f"Annotator {number}" for number in range(1, 6)]
    names = {"Y": "Yes", "N": "No"}
    rows = [
        [f"q{place}", gold, *map(names.get, said), "x"]
        for place, (gold, said) in enumerate(answers)
    ]
    for part, own in (("1-150", rows[:1]), ("151-300", rows[1:2]), ("301-450", rows[2:3])):
        odd = ["136", "0,9066"] if part == "1-150" else []
        columns = ["Utterance", "Ground truth", *raters, "Question", *odd]
        write_csv(folder / f"human_eval_{part}.csv", columns, [[*row, *odd] for row in own])
    columns = ["Utterance", "Ground truth", *raters, "Question"]
    write_csv(folder / "human_eval_451-600.csv", columns, rows[3:])


def write_rounds(folder: Path, labels: Sequence[tuple[str, str]]) -> None:
    """Labels of two annotators, alike in three rounds: E explicit, I implicit; X, S subtle too."""
    rows = [
        {
            "message_id": f"{iteration}-{place}",
            "source": ("ihc", "wsf")[place % 2],
            "implicit_layer": "Explicit HS" if letter in "EX" else "Implicit HS",
            "subtlety_layer": "Subtle" if letter in "SX" else "Non-Subtle",
            "iteration": iteration,
            "coder": coder,
        }
        for iteration in range(3)
        for coder, letters in enumerate(zip(*labels, strict=True), 1)
        for place, letter in enumerate(letters)
    ]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    write_parquet(folder / "annotation_agreement_all_its.parquet.gzip", columns)


def write_split(folder: Path, name: str, rows: Sequence[tuple[str, str, str]]) -> None:
    """Messages as text, layer (N, E, I, S: implicit and subtle) and method; no method column in
    the splits other than train."""
    layers = {"N": None, "E": "Explicit HS", "I": "Implicit HS", "S": "Implicit HS"}
    subtlety = {"N": None, "E": "Non-Subtle", "I": "Non-Subtle", "S": "Subtle"}
    columns: dict[str, list[object]] = {
        "text": [text for text, _, _ in rows],
        "source": ["wsf" for _ in rows],
        "hateful_layer": ["Non-HS" if layer == "N" else "HS" for _, layer, _ in rows],
        "implicit_layer": [layers[layer] for _, layer, _ in rows],
        "subtlety_layer": [subtlety[layer] for _, layer, _ in rows],
        "implicit_props_layer": [["Irony"] if layer in "IS" else None for _, layer, _ in rows],
    }
    if name == "train":
        columns["aug_method"] = [method for _, _, method in rows]
    write_parquet(folder / f"ishate_{name}.parquet.gzip", columns)
