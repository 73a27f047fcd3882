"""What software computed a run's numbers and how that of two runs differs; where its data lay."""

import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

import msgspec

from harness.storage.files import write_whole
from harness.storage.runs import RunFolder

PYTHON, DATA_PATHS = "python", "data_paths.json"
PACKAGES = (
    *("aiohttp", "bert-score", "llm2vec", "numpy", "peft", "scikit-learn", "scipy"),
    *("sentence-transformers", "tokenizers", "torch", "transformers", "vllm"),
)
"""What may change a number of a run."""
_version = cache(metadata.version)


def other_versions(
    first: Mapping[str, str], second: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """The packages that both name in different versions, each with its first and second one."""
    both = sorted(first.keys() & second.keys())
    return [(name, first[name], second[name]) for name in both if first[name] != second[name]]


def versions_here(names: Iterable[str] = (PYTHON, *PACKAGES)) -> dict[str, str]:
    """The versions of some packages, and of Python, as far as they are installed here."""
    found = dict[str, str]()
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            is_python = name == PYTHON
            found[name] = platform.python_version() if is_python else _version(name)
    return found


def write_data_paths(folder: RunFolder, paths: Sequence[Path]) -> None:
    """Note where the files of a run's data lie; nothing where it read none, or it is known."""
    found = tuple(path.resolve() for path in paths)
    if found and found != read_data_paths(folder):
        write_whole(folder.path / DATA_PATHS, msgspec.json.encode([*map(str, found)]) + b"\n")


def read_data_paths(folder: RunFolder) -> tuple[Path, ...]:
    """The paths as they were written; none without a file that can be read."""
    try:
        return tuple(
            map(Path, msgspec.json.decode((folder.path / DATA_PATHS).read_bytes(), type=list[str]))
        )
    except (OSError, msgspec.DecodeError):
        return ()
