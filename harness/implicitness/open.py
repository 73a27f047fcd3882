"""Names and paths to scorers of implicitness, and their cache.

A name stands for a scorer's YAML; a path for a YAML, a head's files or published weights. Start
with `open_scorer`; `CachedScorer` stores the scores of texts in a folder.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from harness.errors import DataError, SpecError, StoreError, did_you_mean
from harness.implicitness.bins import TextScore, TextScorer
from harness.implicitness.head import load_head
from harness.implicitness.pairs import RELEASED
from harness.implicitness.published import published_scorer
from harness.implicitness.scorer import Scorer
from harness.models.encoders.encoders import Encoder
from harness.models.vectors import Progress, reported_chunks
from harness.specs.encoders import LocalEncoderSpec
from harness.specs.implicitness import HeadSpec, PublishedSpec, PythonScorerSpec, ScorerSpec
from harness.specs.schema import load_spec, read_yaml
from harness.storage.files import write_whole
from harness.storage.tables import Table, detect_format, read_table
from harness.text.dedup import fingerprint

SHIPPED: Final = Path(__file__).parent / "heads"
Encoders = Callable[[LocalEncoderSpec], Encoder]


def open_scorer(
    name: str, file: Callable[[str], Path], *, encoders: Encoders, cache: Path
) -> Scorer:
    """Open the scorer of a name, whose YAML `file` finds, or of a path.

    A path is that of a scorer's YAML, of a head (NAME.json or NAME.safetensors), or of a folder
    with published weights (./NAME in the working folder). Encoders load at the first text.
    `cache` is the folder of the fingerprints of `trained_on` tables.
    """
    path = Path(name).expanduser()
    if path.suffix in (".json", ".safetensors"):
        head = load_head(path)
        return Scorer(head.name, head, encoders(head.encoder))
    if path.suffix in (".yaml", ".yml"):
        return _of_yaml(path.stem, path, encoders=encoders, cache=cache)
    if len(path.parts) > 1 or name.startswith("."):
        spec = PublishedSpec(about="published weights", model=str(path.resolve()))
        return published_scorer(path.resolve().name, spec)
    return _of_yaml(name, file(name), encoders=encoders, cache=cache)


def _of_yaml(name: str, path: Path, *, encoders: Encoders, cache: Path) -> Scorer:
    spec: ScorerSpec = load_spec(read_yaml(path), ScorerSpec, where=str(path))
    match spec:
        case HeadSpec(head=file, encoder=encoder):
            head = load_head(_head_file(file, path))
            return Scorer(name, head, encoders(encoder or head.encoder))
        case PublishedSpec(trained_on=str(table)):
            seen = trained_on(path.parent / Path(table).expanduser(), cache)
            return published_scorer(name, spec, seen=seen)
        case PublishedSpec():
            return published_scorer(name, spec)
        case PythonScorerSpec():
            raise SpecError(f"scorer {name}: kind python scores the texts of tasks alone")


def _head_file(head: str, path: Path) -> Path:
    """The JSON file of the head that a YAML names: beside the YAML, or shipped."""
    beside = path.parent / Path(head).expanduser()
    if beside.with_name(f"{beside.name.removesuffix('.json')}.json").is_file():
        return beside
    shipped = SHIPPED / f"{head}.json"
    if shipped.is_file():
        return shipped
    known = sorted(found.stem for found in SHIPPED.glob("*.json"))
    raise SpecError(f"{path}: no head {head!r} beside it{did_you_mean(head, known)}")


AT_ONCE: Final = 2048
"""Texts between two writes."""
MEASURES: Final = "implicitness"
"""The folder of the scores, below that of the cache."""
_log = logging.getLogger(__name__)


class StoredScore(msgspec.Struct, frozen=True):
    """One line of the cache: the sha256 of a text, its score, and its flag."""

    key: str
    value: float | None
    flag: str | None = None


@dataclass(frozen=True, slots=True)
class CachedScorer:
    """A scorer that stores its scores in a folder and reads them from there the next time.

    `progress` counts the texts that are not stored yet.
    """

    scorer: TextScorer
    folder: Path
    progress: Progress | None = None

    @property
    def signature(self) -> str:
        """Name and digest of the scorer."""
        return self.scorer.signature

    @property
    def seen(self) -> frozenset[str]:
        """The fingerprints of the texts the scorer was trained on."""
        return self.scorer.seen

    def score(self, texts: Sequence[object]) -> list[TextScore]:
        """Score texts, in their order; a stored score is not computed again."""
        known = self._read()
        keys = [_key(text) for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        for batch in reported_chunks(list(new), AT_ONCE, self.progress):
            pairs = zip(batch, self.scorer.score([new[key] for key in batch]), strict=True)
            scores = {key: StoredScore(key, score.value, score.flag) for key, score in pairs}
            self._add(scores.values())
            known |= scores
        return [known[key] for key in keys]

    @property
    def _path(self) -> Path:
        return self.folder / f"{self.signature.rpartition('@')[2]}.jsonl"

    def _read(self) -> dict[str, StoredScore]:
        """The stored scores; a damaged line, as a killed process leaves it, is skipped."""
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError:
            return {}
        return {score.key: score for line in lines if (score := _stored(line)) is not None}

    def _add(self, scores: Iterable[StoredScore]) -> None:
        """Store scores if the folder can be written: they only save time."""
        # A line end goes before them too, so that they never go on with a torn line.
        lines = b"\n".join([b"", *map(msgspec.json.encode, scores), b""])
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(lines)
        except OSError as error:
            _warn_unwritable(self._path, str(error.strerror))


@lru_cache
def _warn_unwritable(path: Path, why: str) -> None:
    _log.warning("%s: cannot be written (%s); the texts will be scored again", path, why)


def _stored(line: bytes) -> StoredScore | None:
    """The score of a line, None where it is damaged."""
    try:
        return msgspec.json.decode(line, type=StoredScore)
    except msgspec.MsgspecError:
        return None


def _key(text: object) -> str:
    """The sha256 of a text, or of the repr of a value that is no text."""
    content = repr(text) if not isinstance(text, str) else f"text:{text}"
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


COLUMNS: Final = (*RELEASED, "implicit", "explicit", "levels", "text")


def trained_on(path: Path, cache: Path) -> frozenset[str]:
    """Fingerprint the texts in a file, or read the fingerprints from the cache folder."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); correct `trained_on:` in the scorer's YAML"
        ) from error
    stored = cache / f"{hashlib.sha256(data).hexdigest()}.txt"
    if stored.is_file():
        return frozenset(stored.read_text("utf-8").split())
    layout = detect_format(path.name, data, has_column=True)
    computed = fingerprints(read_table(str(path), data, layout), where=str(path))
    try:
        write_whole(stored, "".join(f"{one}\n" for one in sorted(computed)).encode())
    except StoreError as error:
        _log.warning("%s; the fingerprints will be computed again", error)
    return computed


def fingerprints(table: Table, *, where: str) -> frozenset[str]:
    """Fingerprint the texts of a table, in whichever of COLUMNS it has.

    The texts of a list count each; cells without a text do not count.
    """
    places = [place for place, name in enumerate(table.columns) if name in COLUMNS]
    cells = [cell for place in places for cell in table.cells(place)]
    parts = [part for cell in cells for part in (cell if isinstance(cell, list) else [cell])]
    texts = {part for part in parts if isinstance(part, str) and part.strip()}
    if not texts:
        raise DataError(
            f"{where}: no texts in any column of {', '.join(COLUMNS)}; call the column of the "
            "texts `text`"
        )
    return frozenset(map(fingerprint, texts))
