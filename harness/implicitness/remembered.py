"""A scorer's measures kept on disk: a text is encoded once, whatever runs it is in.

One file a scorer's digest, of hashes of texts and never of texts. It can be deleted at any time.
Lines are appended as they are made: what ends a command loses the texts under way alone.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from harness.implicitness.bins import Measure, Measured

AT_ONCE: Final = 2048  # texts between two writes
MEASURES: Final = "implicitness"
"""The folder of the measures, below that of the cache."""
_log = logging.getLogger(__name__)


class Kept(msgspec.Struct, frozen=True):
    """One line: the sha256 of a text, its measure, and what is to be said of it."""

    key: str
    value: float | None
    flag: str | None = None


@dataclass(frozen=True, slots=True)
class Remembered:
    """A scorer that asks another one for those texts alone that the folder does not know.

    `progress` hears how many of them are measured and kept.
    """

    scorer: Measure
    folder: Path
    progress: Callable[[int, int], None] | None = None

    @property
    def signature(self) -> str:
        """Name and digest of the scorer."""
        return self.scorer.signature

    @property
    def seen(self) -> frozenset[str]:
        """The fingerprints of the texts it was trained on."""
        return self.scorer.seen

    def score(self, texts: Sequence[object]) -> list[Measured]:
        """One measure a text, in their order."""
        known = self._read()
        keys = [_key(text) for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        for some in self._shares(list(new)):
            found = self.scorer.score([new[key] for key in some])
            pairs = zip(some, found, strict=True)
            kept = {key: Kept(key, part.value, part.flag) for key, part in pairs}
            self._add(kept.values())
            known |= kept
        return [known[key] for key in keys]

    def _shares(self, keys: list[str]) -> Iterator[list[str]]:
        """Runs of AT_ONCE, with progress told behind each."""
        for start in range(0, len(keys), AT_ONCE):
            yield keys[start : start + AT_ONCE]
            if self.progress is not None:
                self.progress(min(start + AT_ONCE, len(keys)), len(keys))

    @property
    def _path(self) -> Path:
        return self.folder / f"{self.signature.rpartition('@')[2]}.jsonl"

    def _read(self) -> dict[str, Kept]:
        """What is known; a line that is damaged, as what was killed leaves it, says nothing."""
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError:
            return {}
        return {part.key: part for line in lines if (part := _kept(line)) is not None}

    def _add(self, kept: Iterable[Kept]) -> None:
        """Keep some more, where there is room: it only saves time."""
        # A line end goes before them too, so that they never go on with a torn line.
        lines = b"\n".join([b"", *map(msgspec.json.encode, kept), b""])
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(lines)
        except OSError as error:
            _tell_of_loss(self._path, str(error.strerror))


@cache
def _tell_of_loss(path: Path, why: str) -> None:
    """Warn, once a process, that measures are not kept."""
    _log.warning("%s: cannot be written (%s); the texts will be measured again", path, why)


def _kept(line: bytes) -> Kept | None:
    """What a line says; null where it is damaged."""
    try:
        return msgspec.json.decode(line, type=Kept)
    except msgspec.MsgspecError:
        return None


def _key(text: object) -> str:
    """The sha256 of a text, or of what stands where there is none."""
    said = repr(text) if not isinstance(text, str) else f"text:{text}"
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
