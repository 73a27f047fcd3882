"""The tables of runs as pandas frames: samples, answers, verdicts and scores.

Missing numbers are NaN, missing texts None; names are categories. Nothing here computes a score.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from harness.errors import SpecError
from harness.storage.runs import COLUMNS, RunFile, RunFolder, SampleRecord, StoredRows, cells_of

if TYPE_CHECKING:
    from pandas import DataFrame

Table = Literal["samples", "answers", "verdicts", "scores"]
RUN = ("task", "model", "run")
"""The columns that every loaded frame begins with; `run` is the digest that names the folder."""
SAMPLE = ("sample", "cluster", "group", "gold", "choices", "fields", "references", "flags")
ANSWER = (
    *("row", "sample", "variant", "decoding", "answer", "stop", "reason", "note", "served"),
    *("steps", "prompt_tokens", "completion_tokens", "cost_usd"),
)
VERDICT = (
    *("row", "sample", "cluster", "group", "variant", "decoding", "judge", "value", "reason"),
    *("note", "served", "model_served", "probabilities", "keys"),
)
"""The columns of every frame of verdicts; each detail that a judge gives is a further one."""
_NAMES = frozenset(
    {
        *RUN,
        *("sample", "cluster", "group", "variant", "decoding", "judge", "reason", "stop"),
        *("served", "model_served", "metric"),
    }
)
_NUMBERS = frozenset({"value", "low", "high", "chance", "cost_usd"})


def load(
    folders: Iterable[RunFolder], table: Table, columns: Sequence[str] | None = None
) -> "DataFrame":
    """One table of some runs, with the columns `task`, `model` and `run` first.

    `columns` chooses some of the others, in that order; a detail that no verdict has is all NaN.
    StoreError where a file of a run was changed since it was written.
    """
    import pandas

    frames = []
    for folder in folders:
        file = folder.read()
        found = pandas.DataFrame(_ROWS[table](folder, file))
        if columns is not None:
            found = found.reindex(columns=list(columns))
        names = dict(zip(RUN, (file.run.task, file.model.name, folder.path.name), strict=True))
        for place, (name, value) in enumerate(names.items()):
            if name not in found.columns:
                found.insert(place, name, value)
        frames.append(found)
    if not frames:
        raise SpecError(f"{table}: no run to load")
    made = pandas.concat(frames, ignore_index=True)
    kinds = {name: "category" for name in made.columns if name in _NAMES}
    kinds |= {name: "float64" for name in made.columns if name in _NUMBERS}
    return made.astype(kinds)


def _samples(folder: RunFolder, file: RunFile) -> list[dict[str, Any]]:
    found = {record.sample.id: record.sample for record in StoredRows(folder)}
    return [
        dict(
            zip(
                SAMPLE,
                (s.id, s.cluster, s.group, s.gold, s.choices, dict(s.fields), dict(s.references)),
                strict=False,
            )
        )
        | {"flags": s.flags}
        for s in found.values()
    ]


def _answers(folder: RunFolder, file: RunFile) -> list[dict[str, Any]]:
    return [_answer(row, record) for row, record in enumerate(StoredRows(folder))]


def _answer(row: int, record: SampleRecord) -> dict[str, Any]:
    last = record.steps[-1]
    return {
        "row": row,
        "sample": record.sample.id,
        "variant": record.variant,
        "decoding": record.decoding,
        "answer": record.answer,
        "stop": last.stop,
        "reason": last.reason and str(last.reason),
        "note": last.note,
        "served": record.served,
        "steps": msgspec.to_builtins(record.steps),
        "prompt_tokens": last.usage.prompt_tokens,
        "completion_tokens": last.usage.completion_tokens,
        "cost_usd": last.usage.cost_usd,
    }


def _verdicts(folder: RunFolder, file: RunFile) -> list[dict[str, Any]]:
    return [
        {
            "row": row,
            "sample": record.sample.id,
            "cluster": record.sample.cluster,
            "group": record.sample.group,
            "variant": record.variant,
            "decoding": record.decoding,
            "judge": judge,
            "value": verdict.value,
            "reason": verdict.reason and str(verdict.reason),
            "note": verdict.note,
            "served": verdict.served,
            "model_served": record.served,
            "probabilities": verdict.shares or None,
            "keys": verdict.keys,
            **verdict.detail,
        }
        for row, record in enumerate(StoredRows(folder))
        for judge, verdict in record.verdicts.items()
    ]


def _scores(folder: RunFolder, file: RunFile) -> list[dict[str, Any]]:
    return [dict(zip(COLUMNS, cells_of(row), strict=True)) for row in folder.read_scores()]


_ROWS: dict[Table, Callable[[RunFolder, RunFile], list[dict[str, Any]]]] = {
    "samples": _samples,
    "answers": _answers,
    "verdicts": _verdicts,
    "scores": _scores,
}
