"""Batches handed to a provider, to be collected later: one small JSON file each, and back.

A file is written before its batch is submitted and again, with its id, right after. It names
requests by their keys; no words and no secrets stand in it. Nothing here calls a server.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from harness.errors import StoreError
from harness.storage.runs import write_whole

State = Literal["planned", "submitted", "collected"]


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One batch: `nonce` is our name for it, `id` the provider's, null until it was told.

    `created` is in seconds since 1970; `entries` counts what the provider counts, where one
    request takes several. `failed` are the requests it brought no answer to: where they are
    wanted again, they are asked anew.
    """

    nonce: str
    provider: str
    address: str
    created: float
    keys: tuple[str, ...]
    entries: int
    id: str | None = None
    state: State = "planned"
    failed: tuple[str, ...] = ()


class BatchFiles:
    """The batches of one model, below its calls."""

    def __init__(self, folder: Path) -> None:
        """Use the files in `folder`; reading creates nothing."""
        self._folder = folder

    def path(self, record: BatchRecord) -> Path:
        """Where a record stands."""
        return self._folder / f"{record.nonce}.json"

    def read(self) -> list[BatchRecord]:
        """All records, the oldest first."""
        found = [_read(path) for path in sorted(self._folder.glob("*.json"))]
        return sorted(found, key=lambda record: (record.created, record.nonce))

    def write(self, record: BatchRecord) -> None:
        """Bring a record to disk, in place of what it was."""
        write_whole(self.path(record), msgspec.json.encode(record) + b"\n")
        with suppress(OSError):  # some file systems know no such thing
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def remove(self, record: BatchRecord) -> None:
        """Forget a batch that never was."""
        self.path(record).unlink(missing_ok=True)


def _read(path: Path) -> BatchRecord:
    try:
        return msgspec.json.decode(path.read_bytes(), type=BatchRecord)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be read ({error.strerror}); set right what lies there"
        ) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise StoreError(
            f"{path}: damaged record of a batch ({error}); restore it from a copy, or remove it to "
            "have its requests asked again"
        ) from error
