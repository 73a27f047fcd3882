"""What a layout's YAML may say: which numbers a table has, at which place, how they are printed."""

from typing import Annotated, Literal

from msgspec import Meta, field

from harness.specs.schema import Spec

Shown = Literal["value", "interval", "sd", "n", "rank"]
Names = tuple[str, ...]


class CellStyle(Spec, frozen=True, kw_only=True):
    """How a number is printed.

    `shows` lists what a cell has: value, interval (95 %), sd (of numbers that are averaged), n and
    rank. `digits` are those after the point. `percent: true` prints 0.5 as 50.
    """

    shows: tuple[Shown, ...] = ("value",)
    digits: Annotated[int, Meta(ge=0, le=6)] = 3
    percent: bool = False


class TableLayout(Spec, frozen=True, kw_only=True):
    """Rows and columns of a table, and what is printed in its cells.

    `rows`, `columns` and `groups` name what the numbers differ in; each value of `groups` has a
    table of its own, and so has whatever else would put two numbers into one cell. `where` keeps
    some values, by patterns such as `cot*`, for each name. `names` has words for values, in their
    order. `about` is the caption, `note` a further line, `legend` explains values.
    """

    about: str
    rows: Names
    columns: Names = ()
    groups: Names = ()
    where: dict[str, Names] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    cell: CellStyle = CellStyle()
    note: str = ""
    legend: dict[str, str] = field(default_factory=dict)

    @property
    def axes(self) -> Names:
        """All names that rows, columns and groups have."""
        return (*self.rows, *self.columns, *self.groups)

    def __post_init__(self) -> None:
        if repeated := [name for name in self.axes if self.axes.count(name) > 1]:
            raise ValueError(f"{repeated[0]!r} is named twice in `rows`, `columns` and `groups`")
        if not self.rows:
            raise ValueError("`rows` is empty; name what each row is of")
        if not self.cell.shows:
            raise ValueError("`cell.shows` is empty; name what a cell has")


class RunsLayout(TableLayout, frozen=True, kw_only=True, tag="runs", tag_field="kind"):
    """Scores of stored runs, by model, task, variant, level, decoding, group, judge and metric.

    With `statistic` among the axes it is of what `harness agree` prints, in place of scores.

    Where `where` and the axes do not name them, only the main metric is shown, over all samples
    and all decodings together. A level is the number at the end of a variant's name. `people` is
    the heading of a column with the means of people's ratings, `agreement` lists statistics of
    `harness agree` that follow as rows; both need `--ratings`. `controls: false` leaves those out.
    """

    people: str = ""
    agreement: Names = ()
    controls: bool = True


class FilesLayout(TableLayout, frozen=True, kw_only=True):
    """A table that is made of files.

    `source` is a folder in the data folder, `files` the files in it by the names of their splits;
    `needs` says which others `--data FILE` may give. `dims` has, for a name in `rows`, `columns` or
    `where`, the columns it is read from, by default that of its name. `defaults` has the value of
    an empty or absent cell, by column.
    """

    source: str = ""
    needs: str = ""
    files: dict[str, str] = field(default_factory=dict)
    dims: dict[str, Names] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)

    def columns_of(self, name: str) -> Names:
        """The columns that a name is read from."""
        return self.dims.get(name, (name,))


class CountsLayout(FilesLayout, frozen=True, kw_only=True, tag="data", tag_field="kind"):
    """Counts of rows by the values of columns; the name `split` means the file.

    A row counts for each value of a list, and for each column of a name that has several.
    `share_of` prints shares of the rows of data in a row, column or table, each counted once.
    `totals` adds a row, a column or both, in which each row of data counts once. `always` has, for
    a name, the value whose rows are counted under each of its values, as originals are.
    """

    share_of: Literal["row", "column", "table"] | None = None
    totals: tuple[Literal["row", "column"], ...] = ()
    always: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # `super()` without arguments fails in a class that msgspec has made again.
        TableLayout.__post_init__(self)
        if unknown := sorted(set(self.always) - set(self.axes)):
            raise ValueError(f"`always` names {unknown[0]!r}, which is no row, column or group")


class LayerSpec(Spec, frozen=True, kw_only=True):
    """What coders said of a unit, as a number.

    `column` has their words, `values` the number of each, `otherwise` that of others; where it is
    empty the coder was not asked, and the unit does not count. Or `sum` adds up other layers, each
    with a weight.
    """

    column: str = ""
    values: dict[str, float] = field(default_factory=dict)
    otherwise: float = 0.0
    sum: dict[str, float] = field(default_factory=dict)


class CodersLayout(FilesLayout, frozen=True, kw_only=True, tag="coders", tag_field="kind"):
    """Agreement of coders, by `layer`, `statistic` and further columns.

    Each row of data is what one coder said of one unit, both columns; `layers` has what was said.
    Statistics: kappa (two coders), alpha_nominal, alpha_ordinal, alpha_interval, percent.
    """

    unit: str
    coder: str
    layers: dict[str, LayerSpec]


class ValuesLayout(FilesLayout, frozen=True, kw_only=True, tag="file", tag_field="kind"):
    """Numbers of a file, such as one that `harness impscore` wrote.

    `values` names the columns of numbers, as `measure` does; `lengths: true` counts the characters
    of texts instead. A list of numbers counts from 1 in `place`. `records` is the key of the rows
    in a JSON file. `pairs: true` reads the sentence pairs of `impscore train` as rows of source,
    topic, implicit and explicit. Numbers that share a cell are averaged. `mean: true` adds a row of
    the means of each column.
    """

    values: Names
    records: str = ""
    lengths: bool = False
    pairs: bool = False
    mean: bool = False


LayoutSpec = RunsLayout | CountsLayout | CodersLayout | ValuesLayout
