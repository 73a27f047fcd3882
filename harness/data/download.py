"""Released data sets to files in the data folder: downloads them and checks their sha256."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.errors import DataError
from harness.specs.data import SourceSpec

State = Literal["ok", "missing", "differs"]


@dataclass(frozen=True, slots=True)
class Checked:
    """One file of a source, its state and its sha256; `found` is None for a missing file."""

    source: str
    path: Path
    state: State
    found: str | None


def sha256(path: Path) -> str:
    """The sha256 of a file, in hex."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        remedy = "fetch it with `harness data fetch`, or name another folder with --data"
        raise DataError(f"{path}: cannot be read ({error.strerror}); {remedy}") from error


def check(name: str, spec: SourceSpec, folder: Path) -> list[Checked]:
    """The state of each file of a source below a data folder."""
    results = []
    for file in spec.files:
        path = folder / name / file.name
        found = sha256(path) if path.is_file() else None
        state: State = "missing" if found is None else "ok" if found == file.sha256 else "differs"
        results.append(Checked(name, path, state, found))
    return results


def is_complete(name: str, spec: SourceSpec, folder: Path) -> bool:
    """Whether every file of a source is below a folder."""
    return all((folder / name / file.name).is_file() for file in spec.files)


def fetch(name: str, spec: SourceSpec, folder: Path) -> list[Path]:
    """Download a source's files by commit; keep only files with the stated sha256."""
    import pooch

    pooch.get_logger().setLevel("WARNING")  # the caller reports what is fetched
    paths = []
    for file in spec.files:
        url = spec.url.format(repository=spec.repository, commit=spec.commit, path=file.path)
        try:
            path = pooch.retrieve(
                url, known_hash=f"sha256:{file.sha256}", fname=file.name, path=folder / name
            )
        except (OSError, ValueError) as error:
            fact = f"{name}: {file.name} could not be fetched ({_root(error)})"
            remedy = f"check the connection, or put {url} into {folder / name} yourself"
            raise DataError(f"{fact}; {remedy}") from error
        paths.append(Path(path))
    return paths


def _root(error: BaseException) -> str:
    """What the network said, without who passed it on."""
    return _root(error.__context__) if error.__context__ else " ".join(str(error).split())
