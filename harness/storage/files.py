"""Bytes to whole files: a reader sees the old file or the new one, never half of one."""

import os
from pathlib import Path
from secrets import token_hex

from harness.errors import StoreError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that readers see the old one or the whole new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not of tempfile's making: those can be read by their owner alone.
        part = path.with_name(f".{path.name}.{token_hex(4)}")
        try:
            with part.open("xb") as file:
                file.write(data)
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


def write_new(path: Path, data: bytes) -> None:
    """Write a file that people go on to work in: what it holds already is never replaced."""
    if path.is_file() and path.read_bytes() != data:
        raise StoreError(
            f"{path}: holds something else already, perhaps somebody's work; choose another -o, "
            "or move it away"
        )
    write_whole(path, data)


def refuse_source(out: Path, source: Path) -> None:
    """Refuse to write over the file that is read."""
    if out.resolve() == source.resolve():
        raise StoreError(f"{out}: is the file that is read; choose another -o, so that it stays")


def refuse_file(folder: Path) -> None:
    """Refuse a folder to write into that is a file, or would lie below one."""
    there = next((part for part in (folder, *folder.parents) if part.exists()), None)
    if there is not None and not there.is_dir():
        raise StoreError(f"{there}: is a file, and -o names a folder here; choose another -o")
