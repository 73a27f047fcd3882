"""Files to one zip with the same bytes everywhere, and a zip of somebody else's to a folder."""

import io
import re
import signal
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from harness.errors import StoreError

MOST_FILES, MOST_BYTES = 10_000, 2 << 30
_PART = re.compile(r"[^\\/:*?\"<>|\x00-\x1f\x7f]{1,255}")


def pack(files: Mapping[str, bytes]) -> bytes:
    """A zip of some files, by their paths; equal files give equal bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o100644 << 16  # a plain file of Unix
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def unpack(path: Path, folder: Path, *, most_bytes: int = MOST_BYTES) -> None:
    """Unpack a zip into an empty folder; StoreError for what is no zip, or not safe."""
    if not path.is_file():  # a pipe might never end
        raise StoreError(f"{path}: no such file; name a bundle")
    try:
        with zipfile.ZipFile(path) as archive:
            left = most_bytes
            for entry in _checked(path, archive.infolist()):
                left -= _written(archive, entry, folder / entry.filename, left)
    except (OSError, RuntimeError, NotImplementedError) as error:
        raise StoreError(f"{path}: cannot be unpacked ({error}); get it again") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise StoreError(f"{path}: damaged, or no zip ({error}); get it again") from error


def _checked(path: Path, entries: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    if len(entries) > MOST_FILES:
        raise _unsafe(path, f"has {len(entries)} files, more than {MOST_FILES}")
    for entry in entries:
        name, mode = entry.filename, entry.external_attr >> 16
        parts = name.removesuffix("/").split("/")
        if any(not _PART.fullmatch(part) or part in (".", "..") for part in parts):
            raise _unsafe(path, f"names a file {name!r}, which may lead out of its folder")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR if entry.is_dir() else 0):
            raise _unsafe(path, f"{name!r} is a link or no plain file")
    return [entry for entry in entries if not entry.is_dir()]


def _written(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path, left: int) -> int:
    """Unpack one file of at most `left` bytes; how many it had."""
    target.parent.mkdir(parents=True, exist_ok=True)
    size = 0
    with archive.open(entry) as source, target.open("xb") as file:
        while block := source.read(1 << 20):
            if (size := size + len(block)) > left:
                raise _unsafe(archive.filename, f"unpacks to more than {MOST_BYTES >> 20} MiB")
            file.write(block)
    return size


def _unsafe(path: object, fact: str) -> StoreError:
    return StoreError(f"{path}: {fact}; that is no bundle of this program: do not use it")


MOST_MEMORY, MOST_SECONDS = 16 << 30, 1_800


@contextmanager
def limited(what: str, *, most_seconds: int = MOST_SECONDS) -> Iterator[None]:
    """Raise StoreError where a block takes more CPU seconds or memory; `what` names it."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        yield
        return

    def refuse(number: int, frame: FrameType | None) -> None:
        raise StoreError(f"{what}: took more than {most_seconds} s of CPU; do not trust it")

    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = int(used.ru_utime + used.ru_stime) + 1
    wanted = {resource.RLIMIT_CPU: spent + most_seconds, resource.RLIMIT_AS: MOST_MEMORY}
    known = {kind: resource.getrlimit(kind) for kind in wanted}
    before = signal.signal(signal.SIGXCPU, refuse)
    try:
        for kind, (_, hard) in known.items():
            most = wanted[kind] if hard == resource.RLIM_INFINITY else min(wanted[kind], hard)
            resource.setrlimit(kind, (most, hard))
        yield
    except MemoryError as error:
        fact = f"{what}: took more than {MOST_MEMORY >> 30} GB; do not trust it"
        raise StoreError(fact) from error
    finally:
        for kind, limits in known.items():
            resource.setrlimit(kind, limits)
        signal.signal(signal.SIGXCPU, before)
