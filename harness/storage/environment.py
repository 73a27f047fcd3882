"""What software computed a run's numbers and how that of two runs differs; where its data lay.

Which packages are named depends on the run alone, by the table here, and not on what a command
happened to load: a run that was killed and resumed names the same as one that was not.
"""

import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

import msgspec

from harness.storage.files import write_whole
from harness.storage.runs import RunFile, RunFolder

PYTHON = "python"
_SCORES = ("numpy", "scipy")
_CHECKPOINTS = ("torch", "transformers", "tokenizers", "peft")
_OF_KIND: Mapping[str, tuple[str, ...]] = {
    "openai": ("aiohttp",),
    "moderation": ("aiohttp",),
    "anthropic": ("aiohttp",),
    "transformers": _CHECKPOINTS,
    "classifier": _CHECKPOINTS,
    "vllm": ("vllm", *_CHECKPOINTS),
    "sklearn": ("scikit-learn", *_CHECKPOINTS),
}
"""What may change the answers of a kind of model."""
_OF_TEXTS = (*_CHECKPOINTS, "sentence-transformers", "bert-score", "llm2vec")
"""What may change vectors of texts, and so verdicts by similarity and implicitness."""
_PLAIN_WAY = re.compile("char-ngrams|strict-|first_digit-|ratings-|raw$|per_|pmi$")
"""The ways of judging that open no network."""


def packages_of(run: RunFile) -> dict[str, str]:
    """The version of Python, and of each installed package that can change a number of this run."""
    kinds = [run.model.identity, *(judge.identity for judge in run.judges if judge.asks)]
    names = {*_SCORES}
    for kind in (re.split("[:@|]", identity or "", maxsplit=1)[0] for identity in kinds):
        names |= {*_OF_KIND.get(kind, ())}
    ways = [judge.recipe.partition("|")[2] for judge in run.judges if judge.asks is None]
    if run.task.implicitness or not all(map(_PLAIN_WAY.match, ways)):
        names |= {*_OF_TEXTS}
    return versions_here([PYTHON, *sorted(names)])


def other_versions(
    first: Mapping[str, str], second: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """The packages that both name in different versions, each with its first and second one."""
    both = sorted(first.keys() & second.keys())
    return [(name, first[name], second[name]) for name in both if first[name] != second[name]]


def versions_here(names: Iterable[str]) -> dict[str, str]:
    """The versions of some packages, and of Python, that are installed here."""
    here = {PYTHON: platform.python_version()}
    found = {name: here.get(name) or _version(name) for name in names}
    return {name: version for name, version in found.items() if version}


@cache
def _version(name: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


DATA_PATHS = "data_paths.json"


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
