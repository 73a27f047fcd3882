"""Samples to samples with the implicitness of their texts, from a scorer or a table's column.

Scales of scorers differ, so the scorer's name and digest join the data's label, which stands in
every signature. A text without a score is flagged; nothing here asks a model.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from msgspec import structs

from harness.core import Sample
from harness.data.readers.labelled_table import IMPLICITNESS
from harness.errors import DataError, SpecError
from harness.implicitness.scorer import is_known, overlap_message
from harness.specs.tasks import ImplicitnessSpec, TaskSpec
from harness.stats.classification import PUBLISHED_EDGES
from harness.storage.runs import DataEntry

_log = logging.getLogger(__name__)
NONE, COLUMN, TRAINED_ON = "none", "column", "scorer_trained_on"


class TextScore(Protocol):
    """A scorer's result for one text: a value, or the reason for none in `flag`."""

    @property
    def value(self) -> float | None:
        """The implicitness; None where it has none."""

    @property
    def flag(self) -> str | None:
        """Why there is no value, or what the value leaves out; None without remark."""


class TextScorer(Protocol):
    """Anything that scores the implicitness of texts."""

    @property
    def signature(self) -> str:
        """Its name and digest."""

    @property
    def seen(self) -> frozenset[str]:
        """The fingerprints of the texts it was trained on, as far as anybody knows."""

    def score(self, texts: Sequence[object]) -> Sequence[TextScore]:
        """Score texts, in their order."""


def with_options(task: TaskSpec, *, name: str, table: str | None, scorer: str | None) -> TaskSpec:
    """Replace the task's column map and its scorer where the options name others.

    A named scorer takes precedence over a table's own column; `none` turns scores and bins off.
    """
    if table is not None:
        if task.data.map is None:
            raise SpecError(f"--map {table}: task {name} reads no table of labelled texts")
        task = structs.replace(task, data=structs.replace(task.data, map=table))
    if scorer is None:
        return task
    if task.implicitness is None:
        raise SpecError(f"--scorer {scorer}: task {name} reports nothing by implicitness")
    spec = structs.replace(task.implicitness, scorer=scorer, prefers_column=scorer == COLUMN)
    return structs.replace(task, implicitness=spec)


def add_implicitness(
    samples: Sequence[Sample],
    data: DataEntry,
    *,
    spec: ImplicitnessSpec | None,
    scorer: Callable[[str], TextScorer],
) -> tuple[tuple[Sample, ...], DataEntry]:
    """Add the implicitness of each sample, and the scorer's signature to the data's label.

    `scorer` opens a scorer by its name; it is called only if the samples bring no score.
    """
    if spec is None:
        return tuple(samples), data
    if spec.scorer == NONE:
        return tuple(map(_without, samples)), data
    if spec.prefers_column and any(IMPLICITNESS in sample.references for sample in samples):
        _warn_missing(samples, "the table's column")
        return tuple(samples), replace(data, label=f"{data.label}+{COLUMN}")
    if spec.scorer == COLUMN:
        raise DataError(
            "--scorer column: the table has no column of implicitness; name it in the column map, "
            "as `implicitness: COLUMN`, or name a scorer"
        )
    opened = scorer(spec.scorer)
    measured = opened.score([sample.fields.get(spec.of) for sample in samples])
    scored = _flagged([*map(_with, samples, measured)], opened.seen, of=spec.of)
    _warn_missing(scored, opened.signature)
    label = f"{data.label}+{opened.signature}"
    data = replace(data, label=label, is_training_known=bool(opened.seen))
    if line := overlap_line(data, scored):
        _log.warning("%s", line)
    return scored, data


def overlap_line(data: DataEntry, samples: Sequence[Sample]) -> str:
    """Describe how many measured samples the scorer was trained on, in one line.

    Empty if there are none.
    """
    texts = {sample.id: TRAINED_ON in sample.flags for sample in samples}
    overlap = None if data.is_training_known is False else sum(texts.values())
    message = overlap_message(data.label.partition("+")[2], overlap, len(texts))
    remedy = f" (flag {TRAINED_ON}); leave them out, or run with another --scorer"
    return message + (remedy if overlap else "")


def _without(sample: Sample) -> Sample:
    references = {n: texts for n, texts in sample.references.items() if n != IMPLICITNESS}
    return replace(sample, references=references)


def _with(sample: Sample, measured: TextScore) -> Sample:
    flags = sample.flags + ((f"implicitness_{measured.flag}",) if measured.flag else ())
    references = dict(_without(sample).references)
    if measured.value is not None:
        # Beyond the sixth decimal it depends on what else was encoded beside it.
        references[IMPLICITNESS] = (repr(round(measured.value, 6)),)
    return replace(sample, references=references, flags=flags)


def _warn_missing(samples: Sequence[Sample], by: str) -> None:
    """Warn of texts without a score, and of scores beyond the published bins."""
    found = [sample.references.get(IMPLICITNESS) for sample in samples]
    values = [float(texts[0]) for texts in found if texts]
    if lost := len(samples) - len(values):
        fact = "have no implicitness by %s: they are in no bin and on no curve"
        _log.warning(f"%d of %d texts {fact}", lost, len(samples), by)
    low, high = PUBLISHED_EDGES[0], PUBLISHED_EDGES[-1]
    if beyond := sum(not low <= value <= high for value in values):
        fact = "by %s lie outside %g to %g: they are in no published bin"
        _log.warning(f"%d of %d values {fact}", beyond, len(values), by, low, high)


def _flagged(samples: Sequence[Sample], seen: frozenset[str], *, of: str) -> tuple[Sample, ...]:
    return tuple(
        replace(sample, flags=(*sample.flags, TRAINED_ON))
        if is_known(sample.fields.get(of), seen)
        else sample
        for sample in samples
    )
