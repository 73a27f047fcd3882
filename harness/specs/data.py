"""What the YAML of a data source, and of an overlay of corrections, may say."""

from harness.specs.checked import Spec


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
    """One correction of released data: which row, why, and the columns as they should be."""

    row: dict[str, str]
    defect: str
    set: dict[str, str]


class OverlaySpec(Spec, frozen=True, kw_only=True):
    """Named corrections of one released file."""

    about: str
    repairs: tuple[Repair, ...]
