"""A scorer's measures kept on disk: a text is encoded once, whatever runs it is in.

One file a scorer's digest, of hashes of texts and never of texts. It can be deleted at any time;
of two processes that write at once one's new lines are lost and made again.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.errors import StoreError
from harness.implicitness import Measure, Measured
from harness.runs import write_whole

_log = logging.getLogger(__name__)


class Kept(msgspec.Struct, frozen=True):
    """One line: the sha256 of a text, its measure, and what is to be said of it."""

    key: str
    value: float | None
    flag: str | None = None


@dataclass(frozen=True, slots=True)
class Remembered:
    """A scorer that asks another one for those texts alone that the folder does not know."""

    scorer: Measure
    folder: Path

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
        if new:
            found = self.scorer.score(list(new.values()))
            pairs = zip(new, found, strict=True)
            known |= {key: Kept(key, part.value, part.flag) for key, part in pairs}
            self._write(known)
        return [known[key] for key in keys]

    @property
    def _path(self) -> Path:
        return self.folder / f"{self.signature.rpartition('@')[2]}.jsonl"

    def _read(self) -> dict[str, Kept]:
        """What is known; nothing where the file is not there, or is damaged."""
        try:
            lines = self._path.read_bytes().splitlines()
            held = [msgspec.json.decode(line, type=Kept) for line in lines]
        except (OSError, msgspec.MsgspecError):
            return {}
        return {part.key: part for part in held}

    def _write(self, known: dict[str, Kept]) -> None:
        """Keep it, where there is room: it only saves time."""
        lines = b"".join(msgspec.json.encode(part) + b"\n" for part in known.values())
        try:
            write_whole(self._path, lines)
        except StoreError as error:
            _log.warning("%s; the texts will be measured again", error)


def _key(text: object) -> str:
    """The sha256 of a text, or of what stands where there is none."""
    said = repr(text) if not isinstance(text, str) else f"text:{text}"
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
