"""Invented training pairs, by the dozen, and tables of them."""

import json
from pathlib import Path

from harness.implicitness.pairs import TrainingPair
from harness.storage.tables import FileFormat, Table, read_table

THINGS = (
    *("window", "kettle", "ladder", "garden", "violin", "bicycle", "letter", "bakery"),
    *("lantern", "harbour", "blanket", "orchard", "saddle", "chimney", "pencil", "meadow"),
)


def invented(groups: int = 16, each: int = 4, *, graded: bool = True) -> list[TrainingPair]:
    """Pairs about one thing a group: explicit sides demand, implicit ones wonder."""
    return [
        TrainingPair(
            implicit=f"one wonders {about(thing, 'i', n)}",
            explicit=f"I demand {about(thing, 'e', n)}",
            source=thing,
            group=thing,
            meaning=str(n),
            levels=levels(thing, n) if graded and n % 2 else (),
        )
        for thing in THINGS[:groups]
        for n in range(each)
    ]


def levels(thing: str, n: int) -> tuple[str, ...]:
    """Three sentences, the first of which demands and the last of which wonders."""
    return (
        f"I demand I demand {about(thing, 'low', n)}",
        f"I demand one wonders {about(thing, 'mid', n)}",
        f"one wonders one wonders {about(thing, 'high', n)}",
    )


def about(thing: str, side: str, n: int) -> str:
    return " ".join(f"{thing}{side}{n}{end}" for end in "abcd")


def table(*rows: dict[str, object]) -> Table:
    lines = "\n".join(json.dumps(row) for row in rows)
    return read_table("pairs.jsonl", lines.encode(), FileFormat.JSONL)


def write(path: Path, pairs: list[TrainingPair]) -> Path:
    rows = [
        {
            "topic": pair.group,
            "intention": pair.meaning,
            "implicit": pair.implicit,
            "explicit": pair.explicit,
            "levels": list(pair.levels) or None,
        }
        for pair in pairs
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path
