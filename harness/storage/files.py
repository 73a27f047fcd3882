"""Bytes to whole files: a reader sees the old file or the new one, never a part of one."""

import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from errno import EISDIR
from hashlib import file_digest
from os.path import isfile
from pathlib import Path
from secrets import token_hex
from typing import Final, TypeVar

import msgspec

from harness.errors import DataError, SpecError, StoreError
from harness.storage.cells import decode_json

READ: Final = ContextVar[frozenset[Path]]("READ", default=frozenset())
"""The files that the words of a command name, apart from those that it writes."""

LONGEST_PART = 200  # how many bytes a part of a path may have; most file systems take 255
MOST_UNPACKED = 1 << 29  # bytes of a zip


def write_whole(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Replace a file at once, by bytes or blocks of them; StoreError where it cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not from tempfile, whose files only their owner can read.
        part = path.with_name(f".{path.name}.{token_hex(4)}")
        try:
            with part.open("xb") as file:
                file.writelines([data] if isinstance(data, bytes) else data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written ({error.strerror}); free some space or choose another "
            "--results or -o, then repeat the command"
        ) from error


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder, which one thread of one process at a time does; others wait.

    A process that ends lets go, however it ends.
    """
    file = None
    # Some disks have no locks; and where the folder cannot be made, writing into it says so.
    with suppress(OSError, ImportError):
        from fcntl import LOCK_EX, flock

        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(folder, os.O_RDONLY)
        flock(file, LOCK_EX)
    try:
        yield
    finally:
        if file is not None:
            os.close(file)


def refuse_unwritable(folder: Path, names: Iterable[str]) -> None:
    """Raise StoreError where files of these names cannot be written into a folder, made or not."""
    blocking = [folder / name for name in names if (folder / name).is_dir()]
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    probe = nearest / f".probe.{token_hex(4)}"
    try:
        if blocking:
            raise IsADirectoryError(EISDIR, f"{blocking[0].name} is a folder")
        # Rights do not decide: a disk may be read-only, or full.
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise StoreError(
            f"{nearest}: runs cannot be written there ({error.strerror}); set right what lies "
            "there, or choose another --results"
        ) from error


def sum_of(path: Path) -> str:
    """The sha256, in hex, of a file; OSError where it cannot be read."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def inside(folder: Path, name: str) -> Path:
    """A file of a folder by its name; FileNotFoundError for what is none, or leads out of it."""
    if not (folder / name).is_file() or folder.resolve() not in (folder / name).resolve().parents:
        raise FileNotFoundError(f"{name!r} is no file in it")
    return folder / name


def is_part(name: str) -> bool:
    """Whether a name can be one part of a path: no separators, no controls, not too long."""
    is_plain = name.isprintable() and not {"/", "\\"} & {*name} and name not in ("", ".", "..")
    return is_plain and len(name.encode("utf-8", "replace")) <= LONGEST_PART


def write_new(path: Path, data: bytes) -> None:
    """Write a file that people will edit; raises StoreError rather than replace other content."""
    if path.is_file() and path.read_bytes() != data:
        fact = f"{path}: holds something else already, perhaps somebody's work"
        raise StoreError(f"{fact}; choose another -o, or move it away")
    write_whole(path, data)


def refuse_source(out: Path, sources: Iterable[Path] = ()) -> None:
    """Raise StoreError where a file to write is one that the command reads: READ, or `sources`."""
    if out.resolve() in READ.get().union(map(Path.resolve, sources)):
        raise StoreError(f"{out}: is the file that is read; choose another -o, so it stays")


def refuse_file(folder: Path) -> None:
    """Raise StoreError for an output folder that is a file, or is below one."""
    nearest = next((path for path in (folder, *folder.parents) if path.exists()), None)
    if nearest is not None and not nearest.is_dir():
        raise StoreError(f"{nearest}: is a file, and -o names a folder here; choose another -o")


def files_named(values: Iterable[object]) -> frozenset[Path]:
    """The files that some options and arguments of a command name."""
    named = (one for value in values for one in (value if isinstance(value, list) else [value]))
    texts = (str(one) for one in named if isinstance(one, str | Path))
    return frozenset(Path(text).resolve() for text in texts if isfile(text))


def check_output(out: object, endings: Sequence[str]) -> None:
    """Refuse what a command cannot or may not write, before it computes anything.

    Without endings a path is a folder; an empty ending allows a name without any.
    """
    if not isinstance(out, Path):
        return
    if not endings:
        return refuse_file(out)
    if out.is_dir():
        raise SpecError(f"-o {out}: is a folder; name a file in it")
    known = [end for end in endings if end]
    if not out.name.lower().endswith(tuple(known)) and (out.suffix or known == [*endings]):
        raise SpecError(f"-o {out}: end its name in {', '.join(known)}")
    refuse_source(out)


_T = TypeVar("_T")


def found_sum(path: Path) -> str:
    """The sha256 of a file in hex; "none" where there is no plain one that can be read."""
    with suppress(OSError):
        return sum_of(path) if path.is_file() else "none"
    return "none"


def read_bytes(path: Path) -> bytes:
    """All of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise refused(f"{path}: cannot be read ({error.strerror})") from error


def decoded(data: bytes, kind: type[_T], *, where: str) -> _T:
    """What some bytes hold; StoreError where that is damaged."""
    try:
        found: _T = decode_json(data, kind)
    except (msgspec.DecodeError, ValueError) as error:
        raise refused(f"{where}: damaged ({error})") from error
    return found


def refused(fact: str) -> StoreError:
    """The error of a file that is not to be believed."""
    return StoreError(f"{fact}; repeat the run to rebuild it")


def refuse_swollen(path: Path, *, most: int = MOST_UNPACKED) -> None:
    """Raise DataError for a zip, whatever it is called, that unpacks to more than `most` bytes."""
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        if (size := sum(entry.file_size for entry in archive.infolist())) > most:
            fact = f"unpacks to {size:,} bytes, more than {most:,}"
            raise DataError(f"{path}: {fact}; split it into several files")
