"""ISHate: the released Parquet files to the rounds' agreement and to counts of their layers.

Duplicates are texts that are equal in lower case, every run of other characters than a-z and 0-9
as one space.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.analysis.verify import FromFiles
from harness.errors import DataError
from harness.stats.agreement import alpha, cohen_kappa
from harness.stats.estimate import Floats

ROUNDS = ("annotation_agreement_all_its.parquet.gzip",)
TRAIN, DEV, TEST = (f"ishate_{part}.parquet.gzip" for part in ("train", "dev", "test"))
METHODS = ("aav", "eda", "rsa", "rne", "ri", "bt", "ra", "gm", "gm_revised")
_ORIGINAL, _CODERS = "orig", 2
_IMPLICIT, _EXPLICIT, _NONE = "Implicit HS", "Explicit HS", "Non-HS"
_SUBTLE, _NOT_SUBTLE = "Subtle", "Non-Subtle"
SOURCES = ("ihc", "mconan", "wsf", "toxigen", "hateval", "youtube", "conan")
PROPERTIES = ("Inference", "Context", "Sentiment", "Exaggeration", "Irony")


@dataclass(frozen=True, slots=True)
class _Row:
    """One message with its layers; a layer that it lacks is some other word."""

    text: str
    source: str
    hateful: str
    implicit: str
    subtle: str
    method: str
    properties: tuple[str, ...]


def agreement(folder: Path) -> Mapping[str, float | None]:
    """Two annotators' agreement in each of the rounds, numbered from 1.

    The combined layers are 2 x implicit + subtle.
    """
    columns = ("message_id", "iteration", "coder", "implicit_layer", "subtlety_layer", "source")
    rows = _columns(folder / ROUNDS[0], columns)
    values: dict[str, float | None] = {"sources": len(set(rows["source"]))}
    for iteration in range(3):
        implicit, subtle = _layers(rows, iteration)
        if implicit.shape[1] != _CODERS:
            raise DataError(
                f"{folder / ROUNDS[0]}: round {iteration + 1} has {implicit.shape[1]} annotators, "
                f"not {_CODERS}; fetch it again"
            )
        both = 2 * implicit + subtle
        name = f"round_{iteration + 1}"
        values |= {
            f"{name}_kappa_implicit": cohen_kappa(implicit).value,
            f"{name}_kappa_subtle": cohen_kappa(subtle).value,
            f"{name}_kappa_combined": cohen_kappa(both).value,
            f"{name}_alpha_ordinal": alpha(both, "ordinal").value,
            f"{name}_alpha_nominal": alpha(both, "nominal").value,
            f"{name}_messages": len(both),
        }
    return values


def train_split(folder: Path) -> Mapping[str, float]:
    """The training split: originals by layer, augmented rows by method, duplicates."""
    rows = _rows(folder / TRAIN)
    original = [row for row in rows if row.method == _ORIGINAL]
    implicit = [row for row in rows if row.implicit == _IMPLICIT]
    methods = Counter(row.method for row in implicit)
    subtle = Counter(row.method for row in rows if row.subtle == _SUBTLE)
    return {
        **_counted(original),
        "rows_with_augmented": len(rows),
        "explicit_with_augmented": sum(row.implicit == _EXPLICIT for row in rows),
        "subtle_with_augmented": subtle.total(),
        "implicit_with_augmented": len(implicit),
        "implicit_augmented": len(implicit) - methods[_ORIGINAL],
        "with_an_implicit_layer": sum(row.implicit in (_IMPLICIT, _EXPLICIT) for row in rows),
        **{f"implicit_{method}": methods[method] for method in METHODS},
        **{f"subtle_{method}": subtle[method] for method in METHODS},
        "implicit_duplicates": len(implicit) - len({_normalised(row.text) for row in implicit}),
    }


def dev_split(folder: Path) -> Mapping[str, float]:
    """The development split by layer."""
    return _counted(_rows(folder / DEV))


def test_split(folder: Path) -> Mapping[str, float]:
    """The test split by layer."""
    return _counted(_rows(folder / TEST))


def leakage(folder: Path) -> Mapping[str, float]:
    """The development rows whose text an original of the training split has."""
    rows = [row for row in _rows(folder / TRAIN) if row.method == _ORIGINAL]
    seen, tried = {_normalised(row.text) for row in rows}, _rows(folder / DEV)
    return {"dev_in_train": sum(_normalised(row.text) in seen for row in tried)}


def originals(folder: Path) -> Mapping[str, float]:
    """All originals, over the three splits."""
    rows = [row for name in (TRAIN, DEV, TEST) for row in _rows(folder / name)]
    return _counted([row for row in rows if row.method == _ORIGINAL])


def _counted(rows: Sequence[_Row]) -> Mapping[str, float]:
    implicit = [row for row in rows if row.implicit == _IMPLICIT]
    sources = Counter(row.source for row in implicit)
    properties = Counter(name for row in implicit for name in row.properties)
    every = Counter(row.source for row in rows)
    return {
        "rows": len(rows),
        "not_hateful": sum(row.hateful == _NONE for row in rows),
        "explicit": sum(row.implicit == _EXPLICIT for row in rows),
        "implicit": len(implicit),
        "subtle": sum(row.subtle == _SUBTLE for row in rows),
        "not_subtle": sum(row.subtle == _NOT_SUBTLE for row in rows),
        **{f"from_{name}": every[name] for name in SOURCES},
        **{f"implicit_{name}": sources[name] for name in SOURCES},
        **{f"property_{name.lower()}": properties[name] for name in PROPERTIES},
    }


def _layers(rows: Mapping[str, list[Any]], iteration: int) -> tuple[Floats, Floats]:
    """The two layers of one round as messages x annotators, 1 for implicit and for subtle."""
    places = [place for place, number in enumerate(rows["iteration"]) if number == iteration]
    messages = list(dict.fromkeys(rows["message_id"][place] for place in places))
    coders = sorted({str(rows["coder"][place]) for place in places})
    implicit = np.full((len(messages), len(coders)), np.nan)
    subtle = implicit.copy()
    for place in places:
        cell = messages.index(rows["message_id"][place]), coders.index(str(rows["coder"][place]))
        implicit[cell] = rows["implicit_layer"][place] == _IMPLICIT
        subtle[cell] = rows["subtlety_layer"][place] == _SUBTLE
    return implicit, subtle


def _rows(path: Path) -> list[_Row]:
    """The messages of a split; those of a file without methods of augmentation are originals."""
    names = ("text", "source", "hateful_layer", "implicit_layer", "subtlety_layer")
    table = _columns(path, (*names, "implicit_props_layer"))
    methods = table.get("aug_method", [_ORIGINAL] * len(table["text"]))
    columns: list[list[Any]] = [[str(cell) for cell in table[name]] for name in names]
    columns += [methods, [tuple(own or ()) for own in table["implicit_props_layer"]]]
    return [_Row(*cells) for cells in zip(*columns, strict=True)]


def _columns(path: Path, required: Sequence[str]) -> dict[str, list[Any]]:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path}: not a Parquet file ({error}); fetch it again") from error
    if missing := [name for name in required if name not in table.column_names]:
        raise DataError(f"{path}: no column {', '.join(missing)}; fetch the file again")
    columns: dict[str, list[Any]] = table.to_pydict()
    return columns


def _normalised(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


RECOMPUTATIONS = {
    "ishate_rounds": FromFiles(ROUNDS, agreement),
    "ishate_train": FromFiles((TRAIN,), train_split),
    "ishate_dev": FromFiles((DEV,), dev_split),
    "ishate_test": FromFiles((TEST,), test_split),
    "ishate_leakage": FromFiles((TRAIN, DEV), leakage),
    "ishate_originals": FromFiles((TRAIN, DEV, TEST), originals),
}
