"""Names and paths to scorers of implicitness: a YAML, a head's file, or a published checkpoint."""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from harness.errors import SpecError, did_you_mean
from harness.implicitness.bins import TextScore, TextScorer
from harness.implicitness.examples import trained_on
from harness.implicitness.head import load_head
from harness.implicitness.published import published_scorer
from harness.implicitness.scorer import Scorer
from harness.models.encoders.encoders import Encoder
from harness.specs.encoders import LocalEncoderSpec
from harness.specs.implicitness import HeadSpec, PublishedSpec, ScorerSpec
from harness.specs.schema import load_spec, read_yaml

SHIPPED: Final = Path(__file__).parent / "heads"
Encoders = Callable[[LocalEncoderSpec], Encoder]


def open_scorer(
    name: str, file: Callable[[str], Path], *, encoders: Encoders, kept: Path
) -> Scorer:
    """The scorer of a name, whose YAML `file` finds, or of a path.

    A path is that of a scorer's YAML, of a head (NAME.json or NAME.safetensors), or of a folder
    with published weights (./NAME in the working folder). Encoders load at the first text.
    `kept` is the folder of the fingerprints of `trained_on` tables.
    """
    path = Path(name).expanduser()
    if path.suffix in (".json", ".safetensors"):
        head = load_head(path)
        return Scorer(head.name, head, encoders(head.encoder))
    if path.suffix in (".yaml", ".yml"):
        return _of_yaml(path.stem, path, encoders=encoders, kept=kept)
    if len(path.parts) > 1 or name.startswith("."):
        spec = PublishedSpec(about="published weights", model=str(path.resolve()))
        return published_scorer(path.resolve().name, spec)
    return _of_yaml(name, file(name), encoders=encoders, kept=kept)


def _of_yaml(name: str, path: Path, *, encoders: Encoders, kept: Path) -> Scorer:
    """The scorer that a YAML describes."""
    spec: ScorerSpec = load_spec(read_yaml(path), ScorerSpec, where=str(path))
    match spec:
        case HeadSpec(head=file, encoder=encoder):
            head = load_head(_head_file(file, path))
            return Scorer(name, head, encoders(encoder or head.encoder))
        case PublishedSpec(trained_on=str(table)):
            seen = trained_on(path.parent / Path(table).expanduser(), kept)
            return published_scorer(name, spec, seen=seen)
        case PublishedSpec():
            return published_scorer(name, spec)


def _head_file(head: str, path: Path) -> Path:
    """The JSON file of a head that a YAML names: beside it, or one that ships."""
    beside = path.parent / Path(head).expanduser()
    if beside.with_name(f"{beside.name.removesuffix('.json')}.json").is_file():
        return beside
    shipped = SHIPPED / f"{head}.json"
    if shipped.is_file():
        return shipped
    known = sorted(found.stem for found in SHIPPED.glob("*.json"))
    raise SpecError(f"{path}: no head {head!r} beside it{did_you_mean(head, known)}")


AT_ONCE: Final = 2048  # texts between two writes
MEASURES: Final = "implicitness"
"""The folder of the measures, below that of the cache."""
_log = logging.getLogger(__name__)


class StoredScore(msgspec.Struct, frozen=True):
    """One line: the sha256 of a text, its measure, and what is to be said of it."""

    key: str
    value: float | None
    flag: str | None = None


@dataclass(frozen=True, slots=True)
class CachedScorer:
    """A scorer that asks another one for those texts alone that the folder does not know.

    `progress` hears how many of them are measured and kept.
    """

    scorer: TextScorer
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

    def score(self, texts: Sequence[object]) -> list[TextScore]:
        """One measure a text, in their order."""
        known = self._read()
        keys = [_key(text) for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        for some in self._shares(list(new)):
            found = self.scorer.score([new[key] for key in some])
            pairs = zip(some, found, strict=True)
            kept = {key: StoredScore(key, part.value, part.flag) for key, part in pairs}
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

    def _read(self) -> dict[str, StoredScore]:
        """What is known; a line that is damaged, as what was killed leaves it, says nothing."""
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError:
            return {}
        return {part.key: part for line in lines if (part := _kept(line)) is not None}

    def _add(self, kept: Iterable[StoredScore]) -> None:
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


def _kept(line: bytes) -> StoredScore | None:
    """What a line says; null where it is damaged."""
    try:
        return msgspec.json.decode(line, type=StoredScore)
    except msgspec.MsgspecError:
        return None


def _key(text: object) -> str:
    """The sha256 of a text, or of what stands where there is none."""
    said = repr(text) if not isinstance(text, str) else f"text:{text}"
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
