"""Small stored runs with known verdicts, and people's ratings of them, for tests of agreement."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pandas
from msgspec import structs

from harness.analysis.panels import AgreementQuery, Panel, panels
from harness.core import Sample
from harness.parts import Reason
from harness.storage.run_tables import VerdictRecord
from harness.storage.runs import JudgeEntry, ModelEntry, RunFolder, StoredRun
from support.sketches import lost, right, row, run_file

# Samples by models; judge values by sample and model; two people's ratings of the same.
SAMPLES, MODELS = ("s1", "s2", "s3", "s4"), ("ant", "bee", "cat")
NEAR = ((1.0, 2.0, 3.0), (2.0, 2.0, 4.0), (5.0, 1.0, 3.0), (0.0, 1.0, 2.0))
FAR = ((3.0, 2.0, 1.0), (1.0, 2.0, 3.0), (4.0, 1.0, 2.0), (2.0, 1.0, 0.0))
ANN = ((1.0, 3.0, 4.0), (2.0, 3.0, 3.0), (4.0, 2.0, 3.0), (1.0, 0.0, 2.0))
BOB = ((2.0, 2.0, 4.0), (1.0, 3.0, 5.0), (5.0, 2.0, 2.0), (1.0, 1.0, 3.0))
Table = Sequence[Sequence[float | None]]


class Rating(NamedTuple):
    task: str
    sample_id: str
    model: str
    rater: str
    value: float | None
    scale: str
    place: str = ""


def judged(value: float | None, served: str | None = None) -> VerdictRecord:
    made = lost(Reason.UNPARSED) if value is None else right(value)
    return replace(made, served=served if value is not None else None)


def run(
    model: str, judges: Mapping[str, Sequence[float | None]], *, decoding: str = "T0.3"
) -> StoredRun:
    """A run of `base` by one model, its verdicts by judge in the order of the samples."""
    entries = tuple(JudgeEntry(name, "mean_rating", f"{name}:00|way") for name in sorted(judges))
    file = run_file(
        model=ModelEntry(model, "scripted", f"{model}@1", "r1"), judges=entries, planned=4
    )
    rows = [
        replace(
            row(right(0.0)),
            sample=Sample(name, {"topic": "tea"}, cluster=f"c{place // 2}"),
            decoding=decoding,
            verdicts={judge: judged(values[place]) for judge, values in judges.items()},
        )
        for place, name in enumerate(SAMPLES)
    ]
    return StoredRun(file, rows)


def runs(**judges: Table) -> list[StoredRun]:
    return [
        run(model, {name: [line[place] for line in table] for name, table in judges.items()})
        for place, model in enumerate(MODELS)
    ]


def ratings(scale: str = "quality", **raters: Table) -> list[Rating]:
    return [
        Rating("toy", sample, model, rater, table[n][m], scale, f"r.csv:{n}{m}")
        for rater, table in raters.items()
        for n, sample in enumerate(SAMPLES)
        for m, model in enumerate(MODELS)
    ]


def group_runs(**models: Table) -> list[StoredRun]:
    """A run of each model that rated systems: samples are a document's systems, by group."""
    made = []
    for name, table in models.items():
        base = run(name, {"stated": [0.0] * 4})
        task = structs.replace(base.file.task, document="cluster", system="group")
        rows = [
            replace(
                base.rows[0],
                sample=Sample(f"{document}-{system}", {}, group=system, cluster=document),
                verdicts={"stated": judged(table[n][m])},
            )
            for n, document in enumerate(SAMPLES)
            for m, system in enumerate(MODELS)
        ]
        made.append(StoredRun(replace(base.file, task=task), rows))
    return made


def panels_of(
    runs: Sequence[StoredRun], people: Sequence[Rating], query: AgreementQuery
) -> list[Panel]:
    """The panels of runs that are stored and read back."""
    with TemporaryDirectory() as place:
        folders = []
        for number, run in enumerate(runs):
            folders.append(RunFolder(Path(place) / run.file.model.name / f"{number:02}"))
            folders[-1].write(run.file, run.rows)
        return [*panels(pandas.DataFrame(people), folders, query)]
