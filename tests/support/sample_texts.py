"""Texts of sample sets and of released data, and which of our own repeat one of them."""

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy
from numpy.typing import NDArray

from harness.core import Sample
from harness.data.readers.samples_jsonl import read

SAMPLES = Path(__file__).parents[2] / "tasks" / "samples"
RUN, SHORT = 8, 4


def words(text: str) -> list[str]:
    """The words of a text, lower-case, without marks."""
    return re.findall(r"[a-z0-9']+", text.lower())


def normal(text: str) -> str:
    """The words of a text with single blanks between them, and one at each end."""
    return f" {' '.join(words(text))} "


def runs(text: str) -> set[str]:
    found = words(text)
    return {" ".join(found[start : start + RUN]) for start in range(len(found) - RUN + 1)}


def texts(sample: Sample) -> list[str]:
    """What a prompt may show of a sample: its fields and its choices."""
    return [*sample.fields.values(), *sample.choices]


def other_texts(task: str) -> list[str]:
    files = [path for path in sorted(SAMPLES.glob("*.jsonl")) if path.stem != task]
    samples = [sample for path in files for sample in read([path], None)]
    referred = [text for s in samples for named in s.references.values() for text in named]
    return [text for sample in samples for text in texts(sample)] + referred


def released_texts(data: Path) -> list[str]:
    """Every cell of the released prompts and implicatures."""
    files = [*(data / "hu2022" / "prompts").glob("*.csv"), *(data / "ludwig").glob("*.csv")]
    cells: set[str] = set()
    for path in files:
        with path.open(encoding="utf-8", newline="") as file:
            cells.update(cell for row in csv.reader(file) for cell in row)
    return sorted(cells)


def repeated(ours: Iterable[str], theirs: Sequence[str]) -> list[str]:
    """Our texts that are one of theirs, stand within one or share a run of RUN words with one.

    A text of up to SHORT words says too little to be found within another by anything but chance.
    """
    equal = {normal(text) for text in theirs}
    whole = "|".join(sorted(equal))
    shared = {run for text in theirs for run in runs(text)}
    return [
        text
        for text in ours
        if normal(text) in equal
        or (len(words(text)) > SHORT and normal(text) in whole)
        or runs(text) & shared
    ]


def presence(shown: Sequence[str]) -> NDArray[Any]:
    """A row a text: which words it has, and a one for the bias."""
    known = sorted({word for text in shown for word in words(text)})
    rows = [[word in words(text) for word in known] + [True] for text in shown]
    return numpy.array(rows, dtype=float)


def fitted(seen: NDArray[Any], is_yes: NDArray[Any]) -> NDArray[Any]:
    """The weights of a logistic regression with a ridge of one, by descent."""
    weights = numpy.zeros(seen.shape[1])
    for _ in range(200):
        excess = 1 / (1 + numpy.exp(-seen @ weights)) - is_yes
        weights -= 0.1 * (seen.T @ excess + weights)
    return weights


def probed(shown: Sequence[str], is_yes: Sequence[bool]) -> float:
    """How often words alone tell the answer of a text that was left out of the fit."""
    seen, truth = presence(shown), numpy.array(is_yes, dtype=float)
    others = [numpy.arange(len(truth)) != left_out for left_out in range(len(truth))]
    said = [seen[i] @ fitted(seen[kept], truth[kept]) > 0 for i, kept in enumerate(others)]
    return mean(float(one == two) for one, two in zip(said, is_yes, strict=True))
