"""What the column map of a table of labelled texts may say: which column is what."""

from math import isfinite
from typing import Annotated, Literal

from msgspec import Meta, field

from harness.specs.schema import Spec

POSITIVE, NEGATIVE = "hateful", "benign"


class LabelSpec(Spec, frozen=True, kw_only=True):
    """What a row's label is: by the values of a column, or by a number from which on.

    `classes` names each label and the values that mean it; an empty value, "", is an empty cell.
    With `at_least` a row is hateful from this number on, and benign below. Rows with a value of
    `left_out` are not asked about; a value that is named nowhere is an error.
    """

    column: str
    classes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    at_least: float | None = None
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.classes) == (self.at_least is not None):
            raise ValueError(
                f"the label in column {self.column!r} is given by `classes` or by `at_least`, one "
                "of the two; give that one"
            )
        if self.at_least is not None and not isfinite(self.at_least):
            raise ValueError(f"`at_least` is {self.at_least}; give a number that texts can reach")
        named = [value for part in self.classes.values() for value in part] + [*self.left_out]
        if twice := sorted({value for value in named if named.count(value) > 1}):
            raise ValueError(f"value {twice[0]!r} is given to two labels; give it to one")

    @property
    def names(self) -> tuple[str, ...]:
        """Every label there may be."""
        return tuple(self.classes) or (POSITIVE, NEGATIVE)


class OriginalsSpec(Spec, frozen=True, kw_only=True):
    """Which rows were made of others: all that do not have `value` in `column`.

    They are asked about only where `with_made` says so, and each then goes into the cluster of the
    original of its label whose words it shares most, if the two share `likeness` of their words
    (Jaccard) or more; else, and where `likeness` is null, it is a cluster of its own. A made row
    with an empty cell for a label has none: released augmentations bring one layer of labels each.
    """

    column: str
    value: str
    with_made: bool = False
    likeness: Annotated[float, Meta(gt=0, le=1)] | None = 0.6


class TableSpec(Spec, frozen=True, kw_only=True):
    """A table of labelled texts by its columns.

    `source` names the folder below a data folder, `files` the files in it; without names all
    tables there. `train` are the files that a classifier is trained on. `group` is what scores
    are given for beside all rows, `origin` where a text comes from, `keep` further columns by the
    names they are kept under. `cluster` names what rows of one original share. Of columns in
    `optional` a file may lack some; any other that is named must be there. `rows: ratings`: each
    row is one rater's, and rows of equal text are one item, labelled by their mean or majority.
    `duplicates: drop` keeps the first of texts with the same words.
    """

    about: str
    source: str
    text: str
    label: LabelSpec
    files: tuple[str, ...] = ()
    train: tuple[str, ...] = ()
    group: str | None = None
    implicitness: str | None = None
    subtlety: str | None = None
    properties: str | None = None
    origin: str | None = None
    cluster: str | None = None
    keep: dict[str, str] = field(default_factory=dict)
    originals: OriginalsSpec | None = None
    optional: tuple[str, ...] = ()
    rows: Literal["texts", "ratings"] = "texts"
    duplicates: Literal["drop", "keep"] = "drop"
    quotes: Literal["standard", "none"] = "standard"

    def __post_init__(self) -> None:
        if self.rows == "ratings" and self.duplicates == "keep":
            raise ValueError(
                "`rows: ratings` makes one item of rows of equal text; leave out `duplicates: keep`"
            )
        reserved = {"label", "labels", "subtlety", "properties", "origin", "implicitness", "text"}
        if taken := sorted(reserved & set(self.keep)):
            raise ValueError(f"`keep` may not name {taken[0]!r}, which has a key of its own")
        if unknown := sorted(set(self.optional) - set(self.columns)):
            raise ValueError(
                f"`optional` names {unknown[0]!r}, which no other key does; correct it"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is named, each once."""
        made = self.originals.column if self.originals else None
        single = (self.group, self.implicitness, self.subtlety, self.properties, self.origin)
        named = (self.text, self.label.column, *single, self.cluster, made, *self.keep.values())
        return tuple(dict.fromkeys(name for name in named if name is not None))
