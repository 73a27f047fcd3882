"""What the YAML of a data source, and of an overlay of corrections, may say."""

from typing import Annotated

from msgspec import Meta, field

from harness.specs.schema import Spec

PositiveInt = Annotated[int, Meta(ge=1)]


class FileSpec(Spec, frozen=True, kw_only=True):
    """One file of a source: its path in the repository, its name in the data folder."""

    path: str
    name: str
    sha256: str


class SourceSpec(Spec, frozen=True, kw_only=True):
    """A released data set: where it is fetched from, what it must hash to, its licence."""

    about: str
    repository: str
    commit: str
    licence: str
    citation: str
    files: tuple[FileSpec, ...]
    url: str = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"


class Repair(Spec, frozen=True, kw_only=True):
    """One correction of released data: which row, why, and what its columns should say.

    A column is mended in one way: `set` gives the whole cell; `swap` gives fragments of the
    released cell, each followed by what should stand there; `take` gives the number, from 1, of
    the row's cell under no column name that belongs there.
    """

    row: dict[str, str]
    defect: str
    set: dict[str, str] = field(default_factory=dict)
    swap: dict[str, tuple[str, ...]] = field(default_factory=dict)
    take: dict[str, PositiveInt] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError(f"the repair of {self.row} changes nothing; give set, swap or take")
        for column in self.columns:
            if self.columns.count(column) > 1:
                raise ValueError(f"column {column!r} is mended in two ways; choose one")
        for column, texts in self.swap.items():
            if not texts or len(texts) % 2 or "" in texts[::2]:
                raise ValueError(
                    f"swap of column {column!r} says {list(texts)}; give a fragment as released, "
                    "then as it should be"
                )

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column the repair changes."""
        return (*self.set, *self.swap, *self.take)


class OverlaySpec(Spec, frozen=True, kw_only=True):
    """Named corrections of one released file."""

    about: str
    repairs: tuple[Repair, ...]
