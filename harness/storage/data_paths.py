"""Where the tables lay that a run read, beside the run: for finding them again, and no more.

Paths are of one machine: no digest depends on them, and no bundle has them.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from harness.storage.files import write_whole
from harness.storage.runs import RunFolder

NAME = "data_paths.json"


def write_data_paths(folder: RunFolder, paths: Sequence[Path]) -> None:
    """Note where the files of a run's data lie; nothing where it read none, or it is known."""
    found = tuple(path.resolve() for path in paths)
    if found and found != read_data_paths(folder):
        write_whole(folder.path / NAME, msgspec.json.encode([*map(str, found)]) + b"\n")


def read_data_paths(folder: RunFolder) -> tuple[Path, ...]:
    """The paths as they were noted; none where nobody did, or the note is not readable."""
    try:
        return tuple(
            map(Path, msgspec.json.decode((folder.path / NAME).read_bytes(), type=list[str]))
        )
    except (OSError, msgspec.DecodeError):
        return ()
