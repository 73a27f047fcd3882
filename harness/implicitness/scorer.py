"""Texts to implicitness, pairs of texts to pragmatic distance, by one head and its encoder.

A head is trained matrices (NAME.safetensors) with a card (NAME.json); an ensemble is several heads
in one file, whose scores are averaged. A scorer encodes each distinct text once, the short ones
first; a text that cannot be scored has a flag and no number.
"""

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import compress
from pathlib import Path
from typing import Final, get_args

import msgspec
import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from harness.errors import ModelError
from harness.implicitness.formula import PUBLISHED, Maps, Matrix, distance, features, implicitness
from harness.models.encoders.encoders import Encoder, TokenEncoder
from harness.models.local.heads import read_arrays, write_arrays
from harness.models.vectors import Progress, Vectors, chunks, reported_chunks
from harness.parts import digest
from harness.specs.implicitness import Form, LocalEncoderSpec, Role
from harness.specs.schema import Spec, load_spec
from harness.storage.cells import decode_json
from harness.storage.files import write_whole
from harness.text.dedup import HASH_LENGTH, fingerprint
from harness.text.languages import is_one_word

FORMAT: Final = "impscore-head/1"
SEEN: Final = "seen"
AT_ONCE: Final = 1024  # texts between two reports of progress
UNSEEN: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})  # categories that leave no mark
Numbers = NDArray[np.float64]


class HeadCard(Spec, frozen=True, kw_only=True):
    """What a head was trained on, how, and how well it did; nothing in it changes a score."""

    data: str
    data_digest: str
    split: str
    seeds: tuple[int, ...]
    settings: dict[str, bool | int | float | str]
    metrics: dict[str, float | None]
    licence: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """Matrices that turn embeddings [n, width] of one encoder into scores.

    `members` are sets of float32 matrices. `card` is None where nobody wrote one, as for published
    weights; `seen` has the fingerprints of the texts trained on, empty where nobody knows.
    """

    name: str
    members: tuple[Maps[Matrix], ...]
    encoder: LocalEncoderSpec
    encoder_digest: str
    form: Form = PUBLISHED
    card: HeadCard | None = None
    seen: frozenset[str] = frozenset()

    @property
    def width(self) -> int:
        """The length of the embeddings it takes."""
        return int(self.members[0].semantic.shape[0])

    @property
    def digest(self) -> str:
        """Digest of all that changes a score: encoder, form and matrices, not name or card."""
        sums = [
            [hashlib.sha256(m.astype("<f4").tobytes()).hexdigest() for m in _named(maps).values()]
            for maps in self.members
        ]
        return digest((FORMAT, self.encoder_digest, structs.astuple(self.form), sums))

    def implicitness(self, embeddings: Vectors) -> Numbers:
        """The implicitness of embeddings [n, width], the members' mean; in [0, 2] where cosine."""
        each = zip(self._features(embeddings), self._doubles(), strict=True)
        return np.asarray(np.mean([implicitness(f, maps, self.form) for f, maps in each], axis=0))

    def pragmatic_distance(self, first: Vectors, second: Vectors) -> Numbers:
        """Measure n pairs of embeddings: the pragmatic distance [n], the members' mean."""
        both = zip(self._features(first), self._features(second), strict=True)
        found = [distance(a[1], b[1], self.form.pragmatic) for a, b in both]
        return np.asarray(np.mean(found, axis=0))

    def features(self, embeddings: Vectors) -> tuple[Matrix, Matrix]:
        """The semantic and the pragmatic features of n embeddings, each [n, members x k]."""
        semantic, pragmatic = zip(*self._features(embeddings), strict=True)
        return np.concatenate(semantic, axis=1), np.concatenate(pragmatic, axis=1)

    def _features(self, embeddings: Vectors) -> list[tuple[Matrix, Matrix]]:
        """The features of each member."""
        if embeddings.ndim != 2 or embeddings.shape[1] != self.width:
            fact = f"takes embeddings [n, {self.width}], got {list(embeddings.shape)}"
            raise ModelError(f"head {self.name} {fact}; use the encoder that it was trained on")
        rows = embeddings.astype(np.float64)
        return [features(rows, maps) for maps in self._doubles()]

    def _doubles(self) -> list[Maps[Matrix]]:
        return [
            Maps(**{name: matrix.astype(np.float64) for name, matrix in _named(maps).items()})
            for maps in self.members
        ]


class _File(Spec, frozen=True, kw_only=True):
    format: str
    name: str
    width: int
    features: int
    members: int
    form: Form
    encoder: LocalEncoderSpec
    encoder_digest: str
    digest: str
    card: HeadCard | None = None


def save_head(head: Head, path: Path) -> Path:
    """Write NAME.safetensors and NAME.json, equal bytes of equal heads; the path of the latter."""
    weights, described = _files(path)
    tensors = {
        f"{place}.{name}": matrix.astype(np.float32)
        for place, maps in enumerate(head.members)
        for name, matrix in _named(maps).items()
    }
    seen = np.array(sorted(int(one, 16) for one in head.seen), dtype=np.uint64)
    write_arrays(weights, tensors | {SEEN: seen})
    same = ("name", "width", "form", "encoder", "encoder_digest", "digest", "card")
    file = _File(
        format=FORMAT,
        features=int(head.members[0].semantic.shape[1]),
        members=len(head.members),
        **{name: getattr(head, name) for name in same},
    )
    write_whole(described, msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n")
    return described


def load_head(path: Path) -> Head:
    """Read NAME.json and NAME.safetensors; `path` names either, or neither ending."""
    weights, described = _files(path)
    try:
        content = decode_json(described.read_bytes())
    except OSError as error:
        raise ModelError(
            f"{described}: cannot be read ({error.strerror}); a head is two files side by side, "
            "NAME.safetensors and NAME.json"
        ) from error
    except msgspec.DecodeError as error:
        raise ModelError(f"{described}: not JSON ({error}); copy it again") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelError(f"{described}: not a head of the metric: its `format` is not {FORMAT!r}")
    file: _File = load_spec(content, _File, where=str(described))
    tensors = read_arrays(weights, remedy=f"copy it again, next to {described.name}")
    try:
        parts = [f"{at}." for at in range(file.members)]
        members = tuple(
            Maps(**{name.removeprefix(of): m for name, m in tensors.items() if name.startswith(of)})
            for of in parts
        )
        seen = frozenset(f"{one:0{HASH_LENGTH}x}" for one in tensors[SEEN].tolist())
        facts = file.name, members, file.encoder, file.encoder_digest, file.form, file.card, seen
        head = Head(*facts)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{weights}: not the matrices of {described}: {error}") from error
    if head.digest != file.digest:
        raise ModelError(
            f"{weights} and {described} do not belong together: digest {head.digest[:12]}, "
            f"expected {file.digest[:12]}; copy both files again"
        )
    return head


def _files(path: Path) -> tuple[Path, Path]:
    stem = path.with_suffix("") if path.suffix in (".json", ".safetensors") else path
    return stem.with_name(f"{stem.name}.safetensors"), stem.with_name(f"{stem.name}.json")


def _named(maps: Maps[Matrix]) -> dict[str, Matrix]:
    every = {name: getattr(maps, name) for name in get_args(Role)}
    return {name: matrix for name, matrix in every.items() if matrix is not None}


class Flag(StrEnum):
    """Why a text has no score, or what limits its score (LIMITS): docs/impscore.md.

    UNSCORED is that of a text to which a scorer of one's own gives no number.
    """

    ABSENT = "absent"
    NOT_TEXT = "not_text"
    EMPTY = "empty"
    NUL = "nul"
    UNSCORED = "unscored"
    CUT = "cut"
    THIN = "thin"


LIMITS: Final = (Flag.CUT, Flag.THIN)  # flags of scores


@dataclass(frozen=True, slots=True)
class Scored:
    """A text's implicitness or a pair's distance; None with the reason in `flag`, else a limit."""

    value: float | None
    flag: Flag | None = None

    def __post_init__(self) -> None:
        if (self.value is None) != (self.flag not in (None, *LIMITS)):
            raise ValueError(f"give a value, or the reason for none: {self!r}")


@dataclass(frozen=True, slots=True)
class Scorer:
    """A head with the encoder it was trained on, under the user's name for it."""

    name: str
    head: Head
    encoder: Encoder

    def __post_init__(self) -> None:
        if self.encoder.digest != self.head.encoder_digest:
            own, other = self.head.encoder_digest[:12], self.encoder.digest[:12]
            raise ModelError(
                f"scorer {self.name}: its head was trained on the encoder of digest {own}, and "
                f"{self.encoder.name} has {other}; name that encoder, or train a head on this one"
            )

    @property
    def signature(self) -> str:
        """Name and digest, as signatures have them: scales of scorers differ."""
        return f"{self.name}@{self.head.digest[:8]}"

    @property
    def seen(self) -> frozenset[str]:
        """The fingerprints of the texts its head was trained on; empty if not known."""
        return self.head.seen

    def overlap(self, groups: Iterable[Iterable[object]]) -> int | None:
        """Count the groups with a text its head was trained on; None if not known."""
        if not self.seen:
            return None
        return sum(any(is_known(text, self.seen) for text in group) for group in groups)

    def score(self, texts: Sequence[object], progress: Progress | None = None) -> list[Scored]:
        """Score the implicitness of each text, in their order; in [0, 2] where the form is cosine.

        A value depends on its text alone, but for float noise below 1e-5.
        """
        reads = [text_of(text) for text in texts]
        distinct = distinct_texts(read for read in reads if not isinstance(read, Flag))
        values: dict[str, float] = {}
        for batch in reported_chunks(distinct, AT_ONCE, progress):
            scores = self.head.implicitness(self.encoder.encode(batch))
            values.update(zip(batch, scores.tolist(), strict=True))
        limits = self.limits(distinct)
        return [
            Scored(None, read) if isinstance(read, Flag) else Scored(values[read], limits.get(read))
            for read in reads
        ]

    def distances(
        self, pairs: Sequence[tuple[object, object]], progress: Progress | None = None
    ) -> list[Scored]:
        """Measure the pragmatic distance of the two texts of each pair, in the order of the pairs.

        0 or more; at most 2 where the form measures it by cosine. A pair has the flag of the
        first of its texts that has one.
        """
        reads = [(text_of(first), text_of(second)) for first, second in pairs]
        flags = [next((text for text in pair if isinstance(text, Flag)), None) for pair in reads]
        wanted = list(dict.fromkeys(p for p, flag in zip(reads, flags, strict=True) if not flag))
        embedded = embedded_texts((t for pair in wanted for t in pair), self.encoder, progress)
        found = [v for some in chunks(wanted, AT_ONCE) for v in embedded.apart(some, self.head)]
        values, limits = dict(zip(wanted, found, strict=True)), self.limits(list(embedded.places))
        return [
            Scored(None, flag)
            if flag
            else Scored(values[pair], limits.get(pair[0]) or limits.get(pair[1]))
            for pair, flag in zip(reads, flags, strict=True)
        ]

    def limits(self, texts: Sequence[str]) -> dict[str, Flag]:
        """Flag the texts whose score says little: CUT, or THIN, which also a cut text may be."""
        found: dict[str, Flag] = {}
        if isinstance(self.encoder, TokenEncoder):
            found |= dict.fromkeys(compress(texts, self.encoder.cut(texts)), Flag.CUT)
            found |= dict.fromkeys(compress(texts, self.encoder.unread(texts)), Flag.THIN)
        return found | dict.fromkeys(filter(is_one_word, texts), Flag.THIN)


def is_known(text: object, seen: frozenset[str]) -> bool:
    """Whether a text has one of some fingerprints; a value that is no text has none."""
    return isinstance(text, str) and bool(seen) and fingerprint(text) in seen


def overlap_message(signature: str, overlap: int | None, total: int, *, what: str = "texts") -> str:
    """Describe how many texts a scorer was trained on (None: not known); empty if none."""
    if overlap is None:
        return (
            f"nobody knows which texts scorer {signature} was trained on, and these may be among "
            "them; of published weights, `trained_on:` in the scorer's YAML names them"
        )
    message = f"scorer {signature} was trained on {overlap} of the {total} {what}"
    return f"{message}: it has not measured them unseen" if overlap else ""


def text_of(value: object) -> str | Flag:
    """Return the value as a text, or the flag that says why it cannot be scored."""
    if value is None:
        return Flag.ABSENT
    if not isinstance(value, str):
        return Flag.NOT_TEXT
    if "\0" in value:
        return Flag.NUL
    is_empty = all(unicodedata.category(character) in UNSEEN for character in value)
    return Flag.EMPTY if is_empty else value


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """The vector of each text: a row of `vectors` [n, dim] at its place."""

    vectors: Vectors
    places: Mapping[str, int]

    def apart(self, pairs: Sequence[tuple[str, str]], head: Head) -> list[float]:
        """The pragmatic distance of each pair of its texts."""
        first, second = ([self.places[pair[side]] for pair in pairs] for side in (0, 1))
        found: list[float] = head.pragmatic_distance(
            self.vectors[first], self.vectors[second]
        ).tolist()
        return found


def embedded_texts(
    texts: Iterable[str], encoder: Encoder, progress: Progress | None, *, stage: str = "texts"
) -> Embedded:
    """Encode each distinct text, the short ones first."""
    order = distinct_texts(texts)
    parts = [encoder.encode(b) for b in reported_chunks(order, AT_ONCE, progress, stage=stage)]
    vectors = np.concatenate(parts) if parts else np.empty((0, 0), np.float32)
    return Embedded(vectors, {text: place for place, text in enumerate(order)})


def distinct_texts(texts: Iterable[str]) -> list[str]:
    """Sort the distinct texts, the short ones first, in an order independent of theirs."""
    return sorted(set(texts), key=lambda text: (len(text), text))
