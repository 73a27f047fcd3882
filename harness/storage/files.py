"""Bytes to whole files: a reader sees the old file or the new one, never a part of one."""

import os
from pathlib import Path
from secrets import token_hex

from harness.errors import StoreError


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file at once; raises StoreError where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not from tempfile, whose files only their owner can read.
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
    """Write a file that people will edit; raises StoreError rather than replace other content."""
    if path.is_file() and path.read_bytes() != data:
        raise StoreError(
            f"{path}: holds something else already, perhaps somebody's work; choose another -o, "
            "or move it away"
        )
    write_whole(path, data)


def refuse_source(out: Path, source: Path) -> None:
    """Raise StoreError where the output would replace the file that is read."""
    if out.resolve() == source.resolve():
        raise StoreError(f"{out}: is the file that is read; choose another -o, so that it stays")


def refuse_file(folder: Path) -> None:
    """Raise StoreError for an output folder that is a file, or is below one."""
    nearest = next((path for path in (folder, *folder.parents) if path.exists()), None)
    if nearest is not None and not nearest.is_dir():
        raise StoreError(f"{nearest}: is a file, and -o names a folder here; choose another -o")
