"""ISHate: the agreement of its annotators, and its messages by split, layer, source and property.

Duplicates are texts that are equal in lower case, every run of other characters than a-z and 0-9
as one space.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.analysis.published import FromFiles, Values
from harness.errors import DataError
from harness.lazy import pyarrow
from harness.stats.agreement import alpha, cohen_kappa
from harness.stats.estimate import Floats

ROUNDS = "annotation_agreement_all_its.parquet.gzip"
TRAIN, DEV, TEST = (f"ishate_{part}.parquet.gzip" for part in ("train", "dev", "test"))
METHODS = ("aav", "eda", "rsa", "rne", "ri", "bt", "ra", "gm", "gm_revised")
_ORIGINAL, _CODERS = "orig", 2
_IMPLICIT, _EXPLICIT, _SUBTLE = "Implicit HS", "Explicit HS", "Subtle"
SOURCES = ("ihc", "mconan", "wsf", "toxigen", "hateval", "youtube", "conan")
PROPERTIES = (
    *("Inference", "Context", "Sentiment", "Exaggeration", "Irony", "Extralinguistic knowledge"),
    *("Rhetorical question", "Black humor", "Humiliation", "Visual signs", "Antithesis"),
    *("Metaphor", "Sarcasm", "Fallacy", "Euphemism", "Circumlocution", "Metonymy", "Synecdoche"),
)
_LABELS = {
    "not_hateful": ("hateful_layer", "Non-HS"),
    "explicit": ("implicit_layer", _EXPLICIT),
    "implicit": ("implicit_layer", _IMPLICIT),
    "subtle": ("subtlety_layer", _SUBTLE),
    "not_subtle": ("subtlety_layer", "Non-Subtle"),
}
_Rows = Sequence[Mapping[str, Any]]


def rounds(folder: Path) -> Values:
    """Two annotators' agreement in each of the rounds, numbered from 1.

    The combined layers are 2 x implicit + subtle.
    """
    columns = ("message_id", "iteration", "coder", "implicit_layer", "subtlety_layer", "source")
    rows = _parquet(folder / ROUNDS, columns)
    values: dict[str, float | None] = {"sources": len({row["source"] for row in rows})}
    for iteration in range(3):
        implicit, subtle = _layers([row for row in rows if row["iteration"] == iteration])
        name, both = f"round_{iteration + 1}", 2 * implicit + subtle
        if implicit.shape[1] != _CODERS:
            raise DataError(
                f"{folder / ROUNDS}: round {iteration + 1} has {implicit.shape[1]} annotators, "
                f"not {_CODERS}; fetch it again"
            )
        values |= {
            f"{name}_kappa_implicit": cohen_kappa(implicit).value,
            f"{name}_kappa_subtle": cohen_kappa(subtle).value,
            f"{name}_kappa_combined": cohen_kappa(both).value,
            f"{name}_alpha_ordinal": alpha(both, "ordinal").value,
            f"{name}_alpha_nominal": alpha(both, "nominal").value,
            f"{name}_messages": len(both),
        }
    return values


def train(folder: Path) -> Values:
    """The training split: originals by layer, augmented rows by method, duplicates."""
    rows = _split(folder / TRAIN)
    layers = Counter(row["implicit_layer"] for row in rows)
    implicit = [row for row in rows if row["implicit_layer"] == _IMPLICIT]
    methods = Counter(row["aug_method"] for row in implicit)
    subtle = Counter(row["aug_method"] for row in rows if row["subtlety_layer"] == _SUBTLE)
    originals = _by_layer(_originals(rows))
    return {
        **originals,
        **_shares(originals, "explicit", "implicit", methods),
        **_shares(originals, "not_subtle", "subtle", subtle),
        "rows_with_augmented": len(rows),
        "explicit_with_augmented": layers[_EXPLICIT],
        "subtle_with_augmented": subtle.total(),
        "implicit_with_augmented": len(implicit),
        "implicit_augmented": len(implicit) - methods[_ORIGINAL],
        "subtle_augmented": subtle.total() - subtle[_ORIGINAL],
        "with_an_implicit_layer": layers[_IMPLICIT] + layers[_EXPLICIT],
        **{f"implicit_{method}": methods[method] for method in METHODS},
        **{f"subtle_{method}": subtle[method] for method in METHODS},
        "implicit_duplicates": len(implicit) - len(_texts(implicit)),
    }


def _shares(originals: Values, other: str, label: str, made: Mapping[str, int]) -> Values:
    """The shares of a task's three labels in the training split with the rows of one method.

    `orig` is the split without made rows, `all` that with the rows of every method.
    """
    counts = {name: originals[name] or 0.0 for name in ("not_hateful", other, label)}
    added = {"orig": 0, **{name: made[name] for name in METHODS}}
    values: dict[str, float | None] = {}
    for method, rows in (added | {"all": sum(added.values())}).items():
        now = counts | {label: counts[label] + rows}
        total = max(1.0, sum(now.values()))
        values |= {f"{label}_task_{name}_{method}": count / total for name, count in now.items()}
    return values


def split(folder: Path, *names: str) -> Values:
    """The originals of some splits by layer."""
    return _by_layer([row for name in names for row in _originals(_split(folder / name))])


def leakage(folder: Path) -> Values:
    """The development rows whose text an original of the training split has."""
    seen = _texts(_originals(_split(folder / TRAIN)))
    return {"dev_in_train": sum(bool(_texts([row]) & seen) for row in _split(folder / DEV))}


def implicit_rows(folder: Path) -> Values:
    """The implicit rows of all splits, the augmented ones with them."""
    rows = [row for name in (TRAIN, DEV, TEST) for row in _split(folder / name)]
    return {"rows": sum(row["implicit_layer"] == _IMPLICIT for row in rows)}


def _by_layer(rows: _Rows) -> Values:
    implicit = [row for row in rows if row["implicit_layer"] == _IMPLICIT]
    properties = Counter(name for row in implicit for name in row["implicit_props_layer"] or ())
    values: dict[str, float | None] = {"rows": len(rows)}
    values |= {f"from_{name}": sum(row["source"] == name for row in rows) for name in SOURCES}
    for label, (layer, value) in _LABELS.items():
        found = Counter(row["source"] for row in rows if row[layer] == value)
        values |= {label: found.total(), **{f"{label}_{name}": found[name] for name in SOURCES}}
    return values | {
        f"property_{name.lower().replace(' ', '_')}": properties[name] for name in PROPERTIES
    }


def _layers(rows: _Rows) -> Floats:
    """The two layers of a round x messages x annotators, 1 for implicit and for subtle."""
    messages = list(dict.fromkeys(row["message_id"] for row in rows))
    coders = sorted({str(row["coder"]) for row in rows})
    layers = np.full((2, len(messages), len(coders)), np.nan)
    for row in rows:
        place = messages.index(row["message_id"]), coders.index(str(row["coder"]))
        is_so = row["implicit_layer"] == _IMPLICIT, row["subtlety_layer"] == _SUBTLE
        layers[:, place[0], place[1]] = is_so
    return layers


def _split(path: Path) -> _Rows:
    """The messages of a split; those of a file without methods of augmentation are originals."""
    names = ("text", "source", "hateful_layer", "implicit_layer", "subtlety_layer")
    rows = _parquet(path, (*names, "implicit_props_layer"))
    return [{"aug_method": _ORIGINAL, **row} for row in rows]


def _originals(rows: _Rows) -> _Rows:
    return [row for row in rows if row["aug_method"] == _ORIGINAL]


def _texts(rows: _Rows) -> set[str]:
    return {re.sub(r"[^a-z0-9]+", " ", str(row["text"]).lower()).strip() for row in rows}


def _parquet(path: Path, required: Sequence[str]) -> _Rows:
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path}: not a Parquet file ({error}); fetch it again") from error
    if missing := [name for name in required if name not in table.column_names]:
        raise DataError(f"{path}: no column {', '.join(missing)}; fetch the file again")
    rows: _Rows = table.to_pylist()
    return rows


def _ishate(*names: str) -> FromFiles:
    return FromFiles("ishate", names, lambda folder: split(folder, *names))


RECOMPUTATIONS = {
    "ishate_rounds": FromFiles("ishate", (ROUNDS,), rounds),
    "ishate_train": FromFiles("ishate", (TRAIN,), train),
    "ishate_dev": _ishate(DEV),
    "ishate_test": _ishate(TEST),
    "ishate_leakage": FromFiles("ishate", (TRAIN, DEV), leakage),
    "ishate_originals": _ishate(TRAIN, DEV, TEST),
    "ishate_implicit": FromFiles("ishate", (TRAIN, DEV, TEST), implicit_rows),
}
