"""What the YAML of data may say: sources, corrections, column maps and published numbers."""

import re
from collections import Counter
from fnmatch import fnmatchcase
from math import isfinite
from typing import Annotated, Literal

from msgspec import Meta, field

from harness.specs.schema import Spec

PositiveInt = Annotated[int, Meta(ge=1)]


class FileSpec(Spec, frozen=True, kw_only=True):
    """One file of a source: its path in the repository, its name in the data folder."""

    path: str
    name: str
    sha256: str


class SourceSpec(Spec, frozen=True, kw_only=True):
    """A released data set: its repository and commit, the sha256 of its files, its licence."""

    about: str
    repository: str
    commit: str
    licence: str
    citation: str
    files: tuple[FileSpec, ...]
    url: str = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"


class Repair(Spec, frozen=True, kw_only=True):
    """One correction of released data: the row, the defect and the right values of its columns.

    `set` gives the whole cell; `swap` gives fragments of it, each followed by its replacement;
    `take` gives the number, from 1, of the row's cell under no column name that belongs there.
    """

    row: dict[str, str]
    defect: str
    set: dict[str, str] = field(default_factory=dict)
    swap: dict[str, tuple[str, ...]] = field(default_factory=dict)
    take: dict[str, PositiveInt] = field(default_factory=dict)


class OverlaySpec(Spec, frozen=True, kw_only=True):
    """Named corrections of one released file."""

    about: str
    repairs: tuple[Repair, ...]


POSITIVE, NEGATIVE = "hateful", "benign"


class LabelSpec(Spec, frozen=True, kw_only=True):
    """How a row gets its label: from the values of a column, or from a threshold on its number.

    `classes` names each label and the values that mean it, "" an empty cell. With `at_least` a row
    is hateful from this number on, and benign below. Rows with a value of `left_out` are no
    samples; another value is an error.
    """

    column: str
    classes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    at_least: float | None = None
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.classes) == (self.at_least is not None):
            raise ValueError(f"give `classes` or `at_least` of column {self.column!r}, not both")
        if self.at_least is not None and not isfinite(self.at_least):
            raise ValueError(f"`at_least` is {self.at_least}; give a number that texts can reach")
        named = [value for part in self.classes.values() for value in part] + [*self.left_out]
        if twice := sorted({value for value in named if named.count(value) > 1}):
            raise ValueError(f"value {twice[0]!r} is given to two labels; give it to one")

    @property
    def names(self) -> tuple[str, ...]:
        """All possible labels."""
        return tuple(self.classes) or (POSITIVE, NEGATIVE)


class OriginalsSpec(Spec, frozen=True, kw_only=True):
    """Which rows were derived from others: all rows without `value` in `column`.

    They are samples only if `with_made` is true. Each then joins the cluster of the most similar
    original with the same label, if the Jaccard similarity of their words is at least `likeness`
    (null: none). A derived row with an empty label cell has no label.
    """

    column: str
    value: str
    with_made: bool = False
    likeness: Annotated[float, Meta(gt=0, le=1)] | None = 0.6


class TableSpec(Spec, frozen=True, kw_only=True):
    """A table of labelled texts by its columns.

    `source` names the folder in the data folder, `files` its files, by default all tables in it.
    `train` are the files that a classifier is trained on. `group` is what scores are given for in
    addition to all rows, `origin` where a text comes from, `keep` further columns by the names they
    are kept under. `cluster` names what rows of one original share. Columns of `optional` may be
    absent. `rows: ratings`: rows of equal text are one item, labelled by their mean or majority.
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
            raise ValueError("`rows: ratings` joins equal texts; leave out `duplicates: keep`")
        reserved = {"label", "labels", "subtlety", "properties", "origin", "implicitness", "text"}
        if taken := sorted(reserved & set(self.keep)):
            raise ValueError(f"`keep` may not name {taken[0]!r}, which has a key of its own")
        if unknown := sorted(set(self.optional) - set(self.columns)):
            raise ValueError(f"`optional` names {unknown[0]!r}, which no other key does")

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that the map names, each once."""
        made = self.originals.column if self.originals else None
        single = (self.group, self.implicitness, self.subtlety, self.properties, self.origin)
        named = (self.text, self.label.column, *single, self.cluster, made, *self.keep.values())
        return tuple(dict.fromkeys(name for name in named if name is not None))


Columns = Annotated[tuple[str, ...], Meta(min_length=1)]


class PairMapSpec(Spec, frozen=True, kw_only=True):
    """Where the tables of a public data set have sentences that imply something.

    `sentence` has the columns of the sentence, `counterpart` those of the text that says the same
    outright; texts of several columns are joined by a blank. `job` is the build job that writes a
    counterpart where there is none, and `fields` names further columns that it shows. Rows with
    other values than those of `where` in its columns, or with lower numbers than those of
    `at_least`, are left out. `cluster` names what rows of one original share. `lettered` is the
    column with the letter of the option, such as (A), that is taken out of the sentence's column.
    `tried` says what the map was tried on.
    """

    about: str
    licence: str
    tried: str
    sentence: Columns
    counterpart: tuple[str, ...] = ()
    fields: dict[str, str] = field(default_factory=dict)
    where: dict[str, Columns] = field(default_factory=dict)
    at_least: dict[str, float] = field(default_factory=dict)
    lettered: str | None = None
    cluster: str | None = None
    job: str = ""
    quotes: Literal["standard", "none"] = "standard"

    def __post_init__(self) -> None:
        if bool(self.counterpart) == bool(self.job):
            raise ValueError("give `counterpart`, or the `job` that writes one, and not both")
        if taken := sorted({"sentence", "explicit"} & set(self.fields)):
            raise ValueError(f"`fields` may not name {taken[0]!r}, which has a key of its own")

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that the map names, each once."""
        more = (*self.where, *self.at_least, *filter(None, (self.lettered, self.cluster)))
        named = (*self.sentence, *self.counterpart, *self.fields.values(), *more)
        return tuple(dict.fromkeys(named))


class SampleColumns(Spec, frozen=True, kw_only=True):
    """The columns that identify the sample: its id; some fields, with its group; or its prompt."""

    id: str | None = None
    fields: dict[str, str] = field(default_factory=dict)
    group: str | None = None
    prompt: str | None = None

    def __post_init__(self) -> None:
        ways = [name for name in ("id", "fields", "prompt") if getattr(self, name)]
        if len(ways) != 1:
            raise ValueError(f"give one of `id`, `fields` and `prompt`, not {ways or 'none'}")
        if self.group is not None and not self.fields:
            raise ValueError("`group` goes with `fields`; leave it out")


class AnswerSpec(Spec, frozen=True, kw_only=True):
    """What answers a prompt: a `text`, the `chosen` choice, or a number for each choice.

    `column` has the text, the number or the text of the choice, or a JSON list or object of
    numbers; `columns` has those of one choice each. A list, and columns, go by `order`; numbers of
    choices, also as keys of an object, count from `counted_from`. `probabilities` lie in [0, 1],
    `logprobs` are in nats.
    """

    kind: Literal["text", "chosen", "probabilities", "logprobs"]
    column: str | None = None
    columns: tuple[str, ...] = ()
    order: Literal["shown", "own"] = "shown"
    counted_from: Literal[0, 1] = 1

    def __post_init__(self) -> None:
        if (self.column is None) == (not self.columns):
            raise ValueError("give `column`, or `columns` with one for each choice, not both")
        if self.columns and not self.is_scored:
            raise ValueError(f"`columns` is of numbers; a {self.kind} is in one `column`")

    @property
    def is_scored(self) -> bool:
        """Whether there is a number for each choice."""
        return self.kind in ("probabilities", "logprobs")


Temperature = Annotated[float, Meta(ge=0)]


class MapSpec(Spec, frozen=True, kw_only=True):
    """A file of stored answers by its columns.

    In JSON lines and Parquet a column is a path such as `doc.id`. Logs (`lm_eval`, `inspect`)
    contain prompts and answers; for them a map states only the model. `variant` is that of
    all rows, `variant_column` has it for each, `variants` its names by what that column says; by
    default the prompt or the task's only variant says it. Rows with other
    values than those of `where` in its columns are left out. `prompt` is the column of what was
    asked, null where it is not known; `temperature` that of written answers.
    """

    about: str
    format: Literal["csv", "jsonl", "parquet", "lm_eval", "inspect"]
    sample: SampleColumns | None = None
    variant: str | None = None
    variants: dict[str, str] = field(default_factory=dict)
    variant_column: str | None = None
    where: dict[str, Columns] = field(default_factory=dict)
    prompt: str | None = None
    answer: AnswerSpec | None = None
    temperature: Temperature | None = None

    def __post_init__(self) -> None:
        is_log = self.format in ("lm_eval", "inspect")
        if is_log and (self.answer or self.prompt):
            raise ValueError(f"a log of {self.format} has both; leave out `prompt` and `answer`")
        if not is_log and not (self.answer and self.sample):
            raise ValueError(f"a file in format {self.format} needs `sample` and `answer`")


NOBODY = "none"
COUNTED, DERIVED = "counted", "derived"
# A number as it is printed: in quotes where it has decimals, for YAML drops its last noughts.
Printed = int | Annotated[str, Meta(pattern=r"^[+-]?[0-9]*\.[0-9]+$")]


def decimals(printed: Printed) -> int:
    """The number of digits after the point."""
    return len(printed.partition(".")[2]) if isinstance(printed, str) else 0


def half_unit(printed: Printed) -> float:
    """Half a unit of the last printed digit: the largest rounding error."""
    return 0.5 * 10.0 ** -decimals(printed)


class Way(Spec, frozen=True, kw_only=True):
    """How a published number is recomputed, or the `reason` why it is a target alone.

    `recompute` and `value` name what is made of files. `rule` makes it of the published numbers of
    other cells, or of inputs: `of` has their names, where `*` is any text and a `-` in front
    subtracts. With both, the rule serves where the files are not at hand. `known_difference` says
    why the recomputed value is `found` and not the published one.

    A run's number is what the `layout` has under the names of `here` (patterns; the file's `names`
    stand for printed ones), times what makes it one of the paper's unit.
    """

    recompute: str = NOBODY
    value: str | None = None
    rule: str | None = None
    of: tuple[str, ...] = ()
    tolerance: float | None = None
    reason: str | None = None
    known_difference: str | None = None
    found: Printed | None = None
    layout: str | None = None
    here: dict[str, str] = field(default_factory=dict)
    times: float = 1.0


class CellSpec(Way, frozen=True, kw_only=True):
    """One published number. `table` names the place that prints it.

    It is DERIVED where no place does but it follows from printed numbers, COUNTED where it was
    counted in the released files.
    """

    table: str
    cell: str
    published: Printed

    def __post_init__(self) -> None:
        has_files, has_rule = self.recompute != NOBODY, self.rule is not None
        if (has_files or has_rule) != (self.reason is None) or has_files != (
            self.value is not None
        ):
            raise ValueError(
                f"cell {self.cell!r}: give `recompute` and `value`, a `rule`, or a `reason`"
            )


class PrintedTable(Spec, frozen=True, kw_only=True):
    """A printed table, or a `part` of one: a list of numbers a column, a number a row.

    `ways` are of the columns that fit their patterns, the first that does. In what they say
    `{row}`, `{part}` and `{column}` stand for a cell's own names, in `recompute` and `value`
    in lower case with underscores.
    """

    table: str
    part: str = ""
    rows: tuple[str, ...]
    columns: dict[str, tuple[Printed, ...]]
    ways: dict[str, Way]

    def cells(self, names: dict[str, str]) -> tuple[CellSpec, ...]:
        """Every cell, column by column; `names` are words of `here` for printed ones."""
        return tuple(
            self._cell({"row": row, "column": name, "part": self.part}, value, names)
            for name, values in self.columns.items()
            for row, value in zip(self.rows, values, strict=True)
        )

    def _cell(self, words: dict[str, str], published: Printed, names: dict[str, str]) -> CellSpec:
        fitting = (way for name, way in self.ways.items() if fnmatchcase(words["column"], name))
        way = next(fitting, Way())
        named = {name: names.get(word, word) for name, word in words.items()}
        keys = {name: re.sub(r"\W+", "_", word.lower()) for name, word in words.items()}
        given = {name: getattr(way, name) for name in way.__struct_fields__}
        return CellSpec(
            **given
            | {
                "table": self.table,
                "cell": ", ".join(filter(None, words.values())),
                "published": published,
                "recompute": filled(way.recompute, keys),
                "value": way.value and filled(way.value, keys),
                "of": tuple(filled(one, words) for one in way.of),
                "here": {name: filled(one, named) for name, one in way.here.items()},
            }
        )


def filled(text: str, words: dict[str, str]) -> str:
    """A text with each `{name}` replaced by its word."""
    for name, word in words.items():
        text = text.replace(f"{{{name}}}", word)
    return text


class GoldenSpec(Spec, frozen=True, kw_only=True):
    """The published numbers of one paper or source, and why those `unlisted` are not here."""

    paper: str
    about: str
    cells: tuple[CellSpec, ...] = ()
    printed: tuple[PrintedTable, ...] = ()
    unlisted: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, tuple[float, ...]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counts = Counter(cell.cell for cell in self.all_cells)
        if twice := [name for name, count in counts.items() if count > 1]:
            raise ValueError(f"cell {twice[0]!r} is given twice")

    @property
    def all_cells(self) -> tuple[CellSpec, ...]:
        """The cells of the printed tables, then the others."""
        printed = (cell for table in self.printed for cell in table.cells(self.names))
        return (*printed, *self.cells)

    @property
    def figures(self) -> dict[str, tuple[float, ...]]:
        """The published number of each cell, and the numbers of each input, by name."""
        return {one.cell: (float(one.published),) for one in self.all_cells} | self.inputs
