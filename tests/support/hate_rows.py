"""Rows of texts that are flagged or not, at some implicitness, drawn by hand or from a line."""

import atexit
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from msgspec import structs

from harness.core import Sample
from harness.parts import Reason
from harness.specs.tasks import ChoiceSpec, ImplicitnessSpec, StepSpec, TaskSpec, VariantSpec
from harness.storage.run_tables import SampleRecord, VerdictRecord
from harness.storage.runs import RunFile, RunFolder, StoredRun
from support.choice_cases import choice_run
from support.choice_cases import task as choices
from support.sketches import row

SPEC = ImplicitnessSpec(scorer="standin")
VARIANT = VariantSpec(
    about="", steps=(StepSpec(name="answer", template="toy/ask"),), choice=ChoiceSpec()
)


def task(spec: ImplicitnessSpec = SPEC) -> TaskSpec:
    return structs.replace(choices({"base": VARIANT}), implicitness=spec)


def run_of(
    rows: Sequence[SampleRecord], spec: ImplicitnessSpec = SPEC, **changes: object
) -> RunFile:
    return choice_run(task(spec), len(rows), **changes)


def stored(
    rows: Sequence[SampleRecord], spec: ImplicitnessSpec = SPEC, **changes: object
) -> StoredRun:
    return StoredRun(run_of(rows, spec, **changes), rows)


_PLACE, _COUNT = TemporaryDirectory(), count()
atexit.register(_PLACE.cleanup)


def written(
    rows: Sequence[SampleRecord], spec: ImplicitnessSpec = SPEC, **changes: object
) -> RunFolder:
    """Such a run in a folder, which goes when the tests end."""
    folder = RunFolder(Path(_PLACE.name) / str(next(_COUNT)))
    folder.write(run_of(rows, spec, **changes), rows)
    return folder


def text(
    name: str,
    *,
    is_hateful: bool,
    at: float | None,
    said: float | Reason | None,
    sure: float | None = None,
    cluster: str = "",
) -> SampleRecord:
    """A row of one text; `said` is how far it was flagged, or why nobody knows."""
    references: dict[str, tuple[str, ...]] = {"labels": ("hateful", "benign")}
    if at is not None:
        references["implicitness"] = (repr(at),)
    sample = Sample(
        name,
        {"text": f"A text, {name}."},
        references,
        ("yes", "no"),
        "yes" if is_hateful else "no",
        cluster=cluster,
    )
    verdict = _verdict(said, is_hateful=is_hateful, sure=sure)
    return row(verdict, sample=sample, decoding="logprob", verdicts={"gold": verdict})


def _verdict(said: float | Reason | None, *, is_hateful: bool, sure: float | None) -> VerdictRecord:
    if said is None or isinstance(said, Reason):
        return VerdictRecord(None, said or Reason.FAILED)
    detail = {"chosen_label_hateful": said, "chosen_label_benign": 1 - said}
    detail |= {"chosen_place_1": said, "chosen_place_2": 1 - said}
    if sure is not None:
        detail |= {"prob_label_hateful": sure, "prob_label_benign": 1 - sure}
    return VerdictRecord(said if is_hateful else 1 - said, detail=detail)


LABELS = ("non", "open", "hidden")


def labelled(name: str, gold: str, chosen: str) -> SampleRecord:
    """A row of a text of one of these labels that is given another, or the same."""
    sample = Sample(name, {"text": name}, {"labels": LABELS}, LABELS, gold)
    detail = {f"chosen_label_{label}": float(label == chosen) for label in LABELS}
    detail |= {f"chosen_place_{at}": float(n == chosen) for at, n in enumerate(LABELS, 1)}
    verdict = VerdictRecord(float(gold == chosen), detail=detail)
    return row(verdict, sample=sample, decoding="logprob", verdicts={"gold": verdict})


def constant(said: float, texts: int = 40) -> list[SampleRecord]:
    """One answer to half hateful and half benign texts between 0 and 1."""
    return [text(f"t{n}", is_hateful=n % 2 == 0, at=n / texts, said=said) for n in range(texts)]


def planted(texts: int = 1200, *, slope: float = -2.0, seed: int = 3) -> list[SampleRecord]:
    """A model that finds hateful texts the less, the more implicit they are.

    Log-odds are 2 + slope x for hateful texts, -2 throughout for benign ones.
    """
    draw = np.random.default_rng(seed)
    rows = []
    for n, at in enumerate(draw.uniform(0, 2, texts).round(6).tolist()):
        is_hateful = n % 2 == 0
        odds = 2 + slope * at if is_hateful else -2.0
        sure = float(1 / (1 + np.exp(-odds)))
        said = float(draw.random() < sure)
        rows.append(text(f"t{n}", is_hateful=is_hateful, at=at, said=said))
    return rows
