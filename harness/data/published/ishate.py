"""ISHate: the agreement of annotators, and the messages by split, layer, source and property."""

from pathlib import Path

from harness.data.published import Recomputation, Values
from harness.lazy import DataFrame, pandas
from harness.stats.agreement import alpha, cohen_kappa

ROUNDS = "annotation_agreement_all_its.parquet.gzip"
TRAIN, DEV, TEST = (f"ishate_{part}.parquet.gzip" for part in ("train", "dev", "test"))
METHODS = ("aav", "eda", "rsa", "rne", "ri", "bt", "ra", "gm", "gm_revised")
_ORIGINAL = "orig"
_IMPLICIT, _EXPLICIT, _SUBTLE = "Implicit HS", "Explicit HS", "Subtle"
SOURCES = ("ihc", "mconan", "wsf", "toxigen", "hateval", "youtube", "conan")
PROPERTIES = (
    *("Inference", "Context", "Sentiment", "Exaggeration", "Irony", "Extralinguistic knowledge"),
    *("Rhetorical question", "Black humor", "Humiliation", "Visual signs", "Antithesis"),
    *("Metaphor", "Sarcasm", "Fallacy", "Euphemism", "Circumlocution", "Metonymy", "Synecdoche"),
)
_LABELS = {
    "non_hateful": ("hateful_layer", "Non-HS"),
    "explicit": ("implicit_layer", _EXPLICIT),
    "implicit": ("implicit_layer", _IMPLICIT),
    "subtle": ("subtlety_layer", _SUBTLE),
    "non_subtle": ("subtlety_layer", "Non-Subtle"),
}


def rounds(folder: Path) -> Values:
    """Two annotators' agreement in each of the rounds, numbered from 1."""
    rows = pandas.read_parquet(folder / ROUNDS)
    values: dict[str, float | None] = {"sources": rows["source"].nunique()}
    for number, (_, own) in enumerate(rows.groupby("iteration"), 1):
        name, by = f"round_{number}", own.pivot(index="message_id", columns="coder")
        implicit, subtle = (
            by[layer].eq(label).astype(float).where(by[layer].notna()).to_numpy()
            for layer, label in (("implicit_layer", _IMPLICIT), ("subtlety_layer", _SUBTLE))
        )
        both = 2 * implicit + subtle
        kappas = {"implicit": implicit, "subtle": subtle, "combined": both}
        values |= {f"{name}_kappa_{n}": cohen_kappa(one).value for n, one in kappas.items()}
        values |= {f"{name}_alpha_{s}": alpha(both, s).value for s in ("ordinal", "nominal")}
        values[f"{name}_messages"] = len(both)
    return values


def train(folder: Path) -> Values:
    """The training split: originals by layer, augmented rows by method, duplicates."""
    rows = _splits(folder, TRAIN)
    explicit = int(rows["implicit_layer"].eq(_EXPLICIT).sum())
    implicit = rows[rows["implicit_layer"] == _IMPLICIT]
    subtle = rows[rows["subtlety_layer"] == _SUBTLE]
    values = {**_by_layer(_originals(rows)), "rows_with_augmented": len(rows)}
    values["explicit_with_augmented"] = explicit
    values["with_an_implicit_layer"] = explicit + len(implicit)
    classes = ("a", "implicit", "explicit", implicit), ("b", "subtle", "non_subtle", subtle)
    for task, name, other, own in classes:
        made = own["aug_method"].value_counts().reindex([_ORIGINAL, *METHODS], fill_value=0)
        added = {method: int(made[method]) for method in METHODS}
        added["all"] = sum(added.values())
        values |= {f"{name}_{method}": count for method, count in added.items()}
        values |= {f"{name}_orig": int(made[_ORIGINAL]), f"{name}_with_augmented": int(made.sum())}
        counts = {label: values[label] or 0.0 for label in ("non_hateful", other, name)}
        # The shares of a task's labels among originals, with the rows of one method, and of all.
        for method, count in {_ORIGINAL: 0, **added}.items():
            now = counts | {name: counts[name] + count}
            total = max(1.0, sum(now.values()))
            values |= {f"share_{task}_{n}_{method}": one / total for n, one in now.items()}
    return values | {"implicit_duplicates": len(implicit) - _texts(implicit).nunique()}


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
    names = {f"property_{name.lower().replace(' ', '_')}": name for name in PROPERTIES}
    return values | {key: int(properties.eq(name).sum()) for key, name in names.items()}


def _splits(folder: Path, *files: str) -> DataFrame:
    """The messages of some splits; without methods of augmentation they are originals."""
    read = [pandas.read_parquet(folder / name) for name in files]
    return pandas.concat(
        [one if "aug_method" in one else one.assign(aug_method=_ORIGINAL) for one in read]
    )


def _originals(rows: DataFrame) -> DataFrame:
    return rows[rows["aug_method"] == _ORIGINAL]


def _texts(rows: DataFrame) -> "pandas.Series[str]":
    lower = rows["text"].astype(str).str.lower()
    return lower.str.replace(r"[^a-z0-9]+", " ", regex=True).str.strip()


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
