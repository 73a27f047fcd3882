"""ISHate: the agreement of its annotators, and its messages by split, layer, source and property.

Duplicates are texts that are equal in lower case, every run of other characters than a-z and 0-9
as one space.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.analysis.published import Recomputation, Values
from harness.errors import DataError
from harness.lazy import DataFrame, pandas, pyarrow
from harness.stats.agreement import alpha, cohen_kappa

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


def rounds(folder: Path) -> Values:
    """Two annotators' agreement in each of the rounds, numbered from 1.

    The combined layers are 2 x implicit + subtle.
    """
    columns = ("message_id", "iteration", "coder", "implicit_layer", "subtlety_layer", "source")
    rows = _read(folder / ROUNDS, columns)
    values: dict[str, float | None] = {"sources": rows["source"].nunique()}
    for iteration in range(3):
        own, name = rows[rows["iteration"] == iteration], f"round_{iteration + 1}"
        by = own.pivot(index="message_id", columns="coder")
        if len(coders := own["coder"].unique()) != _CODERS:
            raise DataError(
                f"{folder / ROUNDS}: round {iteration + 1} has {len(coders)} annotators, not "
                f"{_CODERS}; fetch it again"
            )
        implicit, subtle = (
            by[layer].eq(label).astype(float).where(by[layer].notna()).to_numpy()
            for layer, label in (("implicit_layer", _IMPLICIT), ("subtlety_layer", _SUBTLE))
        )
        both = 2 * implicit + subtle
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
    rows = _splits(folder, TRAIN)
    layers = rows["implicit_layer"].value_counts()
    implicit = rows[rows["implicit_layer"] == _IMPLICIT]
    methods, subtle = (
        own["aug_method"].value_counts().reindex([_ORIGINAL, *METHODS], fill_value=0)
        for own in (implicit, rows[rows["subtlety_layer"] == _SUBTLE])
    )
    originals = _by_layer(_originals(rows))
    return {
        **originals,
        **_shares(originals, "explicit", "implicit", methods.to_dict()),
        **_shares(originals, "not_subtle", "subtle", subtle.to_dict()),
        "rows_with_augmented": len(rows),
        "explicit_with_augmented": int(layers.get(_EXPLICIT, 0)),
        "subtle_with_augmented": int(subtle.sum()),
        "implicit_with_augmented": len(implicit),
        "implicit_augmented": len(implicit) - int(methods[_ORIGINAL]),
        "subtle_augmented": int(subtle.sum() - subtle[_ORIGINAL]),
        "with_an_implicit_layer": int(layers.get(_EXPLICIT, 0)) + len(implicit),
        **{f"implicit_{method}": int(methods[method]) for method in METHODS},
        **{f"subtle_{method}": int(subtle[method]) for method in METHODS},
        "implicit_duplicates": len(implicit) - _texts(implicit).nunique(),
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
    return _by_layer(_originals(_splits(folder, *names)))


def leakage(folder: Path) -> Values:
    """The development rows whose text an original of the training split has."""
    seen = _texts(_originals(_splits(folder, TRAIN)))
    return {"dev_in_train": int(_texts(_splits(folder, DEV)).isin(seen.unique()).sum())}


def implicit_rows(folder: Path) -> Values:
    """The implicit rows of all splits, the augmented ones with them."""
    rows = _splits(folder, TRAIN, DEV, TEST)
    return {"rows": int(rows["implicit_layer"].eq(_IMPLICIT).sum())}


def _by_layer(rows: DataFrame) -> Values:
    properties = rows.loc[rows["implicit_layer"] == _IMPLICIT, "implicit_props_layer"].explode()
    values: dict[str, float | None] = {"rows": len(rows)}
    values |= {f"from_{name}": int(rows["source"].eq(name).sum()) for name in SOURCES}
    for label, (layer, value) in _LABELS.items():
        own = rows.loc[rows[layer] == value, "source"]
        values |= {label: len(own)} | {f"{label}_{n}": int(own.eq(n).sum()) for n in SOURCES}
    counts = properties.value_counts().reindex(PROPERTIES, fill_value=0)
    return values | {
        f"property_{name.lower().replace(' ', '_')}": int(counts[name]) for name in PROPERTIES
    }


def _splits(folder: Path, *files: str) -> DataFrame:
    """The messages of some splits; without methods of augmentation they are originals."""
    names = ("text", "source", "hateful_layer", "implicit_layer", "subtlety_layer")
    read = [_read(folder / name, (*names, "implicit_props_layer")) for name in files]
    return pandas.concat(
        [one if "aug_method" in one else one.assign(aug_method=_ORIGINAL) for one in read]
    )


def _originals(rows: DataFrame) -> DataFrame:
    return rows[rows["aug_method"] == _ORIGINAL]


def _texts(rows: DataFrame) -> "pandas.Series[str]":
    lower = rows["text"].astype(str).str.lower()
    return lower.str.replace(r"[^a-z0-9]+", " ", regex=True).str.strip()


def _read(path: Path, required: Sequence[str]) -> DataFrame:
    try:
        rows = pandas.read_parquet(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path}: not a Parquet file ({error}); fetch it again") from error
    if missing := [name for name in required if name not in rows]:
        raise DataError(f"{path}: no column {', '.join(missing)}; fetch the file again")
    return rows


def _ishate(*names: str) -> Recomputation:
    return Recomputation(lambda folder: split(folder, *names), "ishate", names)


RECOMPUTATIONS = {
    "ishate_rounds": Recomputation(rounds, "ishate", (ROUNDS,)),
    "ishate_train": Recomputation(train, "ishate", (TRAIN,)),
    "ishate_dev": _ishate(DEV),
    "ishate_test": _ishate(TEST),
    "ishate_leakage": Recomputation(leakage, "ishate", (TRAIN, DEV)),
    "ishate_originals": _ishate(TRAIN, DEV, TEST),
    "ishate_implicit": Recomputation(implicit_rows, "ishate", (TRAIN, DEV, TEST)),
}
