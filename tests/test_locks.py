"""An install from requirements/*.lock: all that pyproject.toml asks for, at one version, hashed."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LOCKS = {"core": "", "local": "local", "dev": "dev"}
"""The extra of pyproject.toml that each lock installs."""


def asked(extra: str) -> list[Requirement]:
    """What an extra asks for, with what the extras that it names ask for, and the core's."""
    found = [Requirement(line) for line in PROJECT["dependencies"]]
    names = [extra] if extra else []
    for name in names:  # grows meanwhile
        for part in map(Requirement, PROJECT["optional-dependencies"][name]):
            names += part.extras if part.name == PROJECT["name"] else ()
            found += [] if part.name == PROJECT["name"] else [part]
    return found


def entries(name: str) -> dict[str, tuple[Requirement, list[str]]]:
    """The requirement and the hashes of each package of a lock."""
    text = (ROOT / "requirements" / f"{name}.lock").read_text("utf-8").replace("\\\n", " ")
    found: dict[str, tuple[Requirement, list[str]]] = {}
    for line in text.splitlines():
        pinned, *hashes = re.split(r"\s+--hash=", line.strip())
        requirement = Requirement(pinned)
        found[canonicalize_name(requirement.name)] = (requirement, hashes)
    return found


def version(requirement: Requirement) -> str:
    return str(requirement.specifier).removeprefix("==")


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_every_dependency_at_a_version_that_fits(name: str) -> None:
    locked = entries(name)

    wanted = [one for one in asked(LOCKS[name]) if one.name != "torch"]
    lacking = [str(one) for one in wanted if canonicalize_name(one.name) not in locked]
    odd = [
        f"{one} is locked at {version(locked[canonicalize_name(one.name)][0])}"
        for one in wanted
        if str(one) not in lacking
        and not one.specifier.contains(version(locked[canonicalize_name(one.name)][0]))
    ]

    assert (len(wanted) >= 14, lacking, odd) == (True, [], []), "`make lock` writes it anew"


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_of_a_lock_has_one_version_and_its_hashes(name: str) -> None:
    wrong = [
        str(one)
        for one, hashes in entries(name).values()
        if not re.fullmatch(r"==[\w.+!]+", str(one.specifier))
        or not hashes
        or not all(re.fullmatch("sha256:[0-9a-f]{64}", value) for value in hashes)
    ]

    assert wrong == []


def test_the_locks_and_the_constraints_name_one_version_of_each_package() -> None:
    locked, core, local = (
        {key: str(one.specifier) for key, (one, _) in entries(name).items()}
        for name in ("dev", "core", "local")
    )
    pins = {
        canonicalize_name(one.name): str(one.specifier)
        for one in map(Requirement, (ROOT / "constraints.txt").read_text("utf-8").split())
    }

    assert core.items() <= local.items() <= locked.items()
    assert {name: pin for name, pin in pins.items() if locked.get(name, pin) != pin} == {}
    assert "torch" in pins
    assert "torch" not in locked


def test_a_lock_names_no_place_that_files_come_from() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "requirements").iterdir()]

    found = [re.findall(r"https?:|file:|--index|--extra-index|--find-links", one) for one in texts]
    assert [hit for hits in found for hit in hits] == []
