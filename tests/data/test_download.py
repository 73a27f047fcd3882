"""Files of a source on this machine: their digest, their state, whether they are all there."""

import hashlib
from pathlib import Path

import pytest

from harness.data.download import check, is_complete, sha256
from harness.errors import DataError
from harness.specs.data import FileSpec, SourceSpec

# From FIPS 180-2, appendix B.1.
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def source(*names: str) -> SourceSpec:
    files = tuple(FileSpec(path=f"data/{name}", name=name, sha256=ABC) for name in names)
    return SourceSpec(
        about="", repository="maker/toys", commit="0", licence="", citation="", files=files
    )


def test_the_digest_is_sha256(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    assert sha256(tmp_path / "abc") == ABC


@pytest.mark.parametrize("name", ["absent", "folder"])
def test_a_file_that_cannot_be_read_is_named_with_the_remedy(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=f"{name}: cannot be read .*data fetch.*--data"):
        sha256(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "state", "found"),
    [
        (b"abc", "ok", ABC),
        (b"abd", "differs", hashlib.sha256(b"abd").hexdigest()),
        (None, "missing", None),
    ],
)
def test_a_file_is_compared_with_its_stated_digest(
    tmp_path: Path, content: bytes | None, state: str, found: str | None
) -> None:
    path = tmp_path / "toys/a.csv"
    path.parent.mkdir()
    if content is not None:
        path.write_bytes(content)

    (checked,) = check("toys", source("a.csv"), tmp_path)

    assert (checked.path, checked.state, checked.found) == (path, state, found)


@pytest.mark.parametrize(("there", "complete"), [((), False), (("a",), False), (("a", "b"), True)])
def test_a_source_is_complete_where_every_file_is_there(
    tmp_path: Path, there: tuple[str, ...], complete: bool
) -> None:
    (tmp_path / "toys").mkdir()
    for name in there:
        (tmp_path / "toys" / name).touch()

    assert is_complete("toys", source("a", "b"), tmp_path) is complete
