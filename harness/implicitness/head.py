"""A trained head of the metric: its matrices, its card, and its two files.

NAME.safetensors holds the matrices, NAME.json beside it everything a reader of scores should
know. An ensemble is several heads in one file, whose scores are averaged. Nothing here encodes or
trains.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.errors import ModelError
from harness.implicitness.formula import (
    PUBLISHED,
    Maps,
    Matrix,
    features,
    implicitness,
    pragmatic_distance,
)
from harness.models.extras import require
from harness.models.vectors import Vectors
from harness.parts import digest
from harness.specs.encoders import LocalEncoderSpec
from harness.specs.implicitness import Direction, Form
from harness.specs.schema import Spec, load_spec
from harness.storage.files import write_whole
from harness.text.dedup import HASH_LENGTH

FORMAT: Final = "impscore-head/1"
SEEN: Final = "seen"
Numbers = NDArray[np.float64]


class HeadCard(Spec, frozen=True, kw_only=True):
    """What a head was trained on, how, and how well it did; nothing in it changes a score.

    `data_digest` is of the sentences used, `split` describes their split, `seeds` has one seed a
    member. A metric is None where it was not measured.
    """

    data: str
    data_digest: str
    split: str
    seeds: tuple[int, ...]
    settings: dict[str, bool | int | float | str]
    metrics: dict[str, float | None]
    licence: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Head:
    """Matrices that turn embeddings [n, width] of one encoder into scores.

    `members` has one set of float32 matrices, or several whose scores are averaged. `card` is
    None where nobody wrote one, as for published weights. `seen` has the fingerprints of the texts
    that it was trained on; empty where nobody knows. It changes no score.
    """

    name: str
    members: tuple[Maps[Matrix], ...]
    encoder: LocalEncoderSpec
    encoder_digest: str
    form: Form = PUBLISHED
    card: HeadCard | None = None
    seen: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if len({maps.semantic.shape for maps in self.members}) != 1:
            raise ValueError(f"head {self.name}: one or more members, all of one shape")
        for maps in self.members:
            if (maps.transfer_semantic is None) == (self.form.direction is Direction.THIRD):
                raise ValueError(f"head {self.name}: two maps in the third space, else one")
            if not all(np.isfinite(matrix).all() for _, matrix in _named(maps)):
                raise ValueError(f"head {self.name}: its matrices have values that are no numbers")

    @property
    def width(self) -> int:
        """The length of the embeddings it takes."""
        return int(self.members[0].semantic.shape[0])

    @property
    def digest(self) -> str:
        """Digest of all that changes a score: encoder, form and matrices, not name or card."""
        return digest((FORMAT, self.encoder_digest, _form(self.form), _checksums(self.members)))

    def implicitness(self, embeddings: Vectors) -> Numbers:
        """Score n embeddings [n, width]: the implicitness [n], the mean over the members.

        In [0, 2] where the form's distance is cosine; computed in float64.
        """
        rows = self._checked(embeddings)
        scores = [implicitness(features(rows, m), m, self.form) for m in self._doubles()]
        return np.asarray(np.mean(scores, axis=0))

    def pragmatic_distance(self, first: Vectors, second: Vectors) -> Numbers:
        """Measure n pairs of embeddings: the pragmatic distance [n], the members' mean."""
        pair = self._checked(first), self._checked(second)
        distances = [
            pragmatic_distance(features(pair[0], m), features(pair[1], m), self.form)
            for m in self._doubles()
        ]
        return np.asarray(np.mean(distances, axis=0))

    def _checked(self, embeddings: Vectors) -> Numbers:
        """The embeddings in float64; another width than the head's is an error."""
        if embeddings.ndim != 2 or embeddings.shape[1] != self.width:
            raise ModelError(
                f"head {self.name} takes embeddings [n, {self.width}], got "
                f"{list(embeddings.shape)}; use the encoder that it was trained on"
            )
        return embeddings.astype(np.float64)

    def _doubles(self) -> list[Maps[Matrix]]:
        return [
            Maps(**{name: matrix.astype(np.float64) for name, matrix in _named(maps)})
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
    """Write NAME.safetensors and NAME.json, NAME being that of `path` less either ending.

    Equal heads are equal bytes. Returns the path of the JSON file.
    """
    require("safetensors", extra="embed")
    from safetensors.numpy import save

    weights, described = _files(path)
    tensors: dict[str, Matrix] = {
        f"{place}.{name}": np.ascontiguousarray(matrix, dtype=np.float32)
        for place, maps in enumerate(head.members)
        for name, matrix in _named(maps)
    }
    tensors[SEEN] = np.array(sorted(int(one, 16) for one in head.seen), dtype=np.uint64)
    write_whole(weights, save(tensors))
    write_whole(described, msgspec.json.format(msgspec.json.encode(_file(head)), indent=2) + b"\n")
    return described


def load_head(path: Path) -> Head:
    """Read NAME.json and NAME.safetensors; `path` names either, or neither ending."""
    require("safetensors", extra="embed")
    from safetensors import SafetensorError
    from safetensors.numpy import load

    weights, described = _files(path)
    file = _read_file(described)
    try:
        tensors = load(_read(weights))
    except SafetensorError as error:
        raise ModelError(f"{weights}: not a safetensors file ({error}); copy it again") from error
    try:
        members = tuple(_member(tensors, place) for place in range(file.members))
        head = Head(
            name=file.name,
            members=members,
            encoder=file.encoder,
            encoder_digest=file.encoder_digest,
            form=file.form,
            card=file.card,
            seen=frozenset(f"{one:0{HASH_LENGTH}x}" for one in tensors[SEEN].tolist()),
        )
    except (KeyError, ValueError) as error:
        raise ModelError(f"{weights}: not the matrices of {described}: {error}") from error
    if head.digest != file.digest:
        raise ModelError(
            f"{weights} and {described} do not belong together: digest {head.digest[:12]}, "
            f"expected {file.digest[:12]}; copy both files again"
        )
    return head


def _file(head: Head) -> _File:
    return _File(
        format=FORMAT,
        name=head.name,
        width=head.width,
        features=int(head.members[0].semantic.shape[1]),
        members=len(head.members),
        form=head.form,
        encoder=head.encoder,
        encoder_digest=head.encoder_digest,
        digest=head.digest,
        card=head.card,
    )


def _read_file(path: Path) -> _File:
    try:
        content = msgspec.json.decode(_read(path))
    except msgspec.DecodeError as error:
        raise ModelError(f"{path}: not JSON ({error}); copy it again") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelError(f"{path}: not a head of the metric: its `format` is not {FORMAT!r}")
    file: _File = load_spec(content, _File, where=str(path))
    return file


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"{path}: cannot be read ({error.strerror}); a head is two files side by side, "
            "NAME.safetensors and NAME.json"
        ) from error


def _files(path: Path) -> tuple[Path, Path]:
    stem = path.with_suffix("") if path.suffix in (".json", ".safetensors") else path
    return stem.with_name(f"{stem.name}.safetensors"), stem.with_name(f"{stem.name}.json")


def _member(tensors: dict[str, Matrix], place: int) -> Maps[Matrix]:
    return Maps(
        semantic=tensors[f"{place}.semantic"],
        pragmatic=tensors[f"{place}.pragmatic"],
        transfer=tensors[f"{place}.transfer"],
        transfer_semantic=tensors.get(f"{place}.transfer_semantic"),
    )


def _named(maps: Maps[Matrix]) -> list[tuple[str, Matrix]]:
    names = ("semantic", "pragmatic", "transfer", "transfer_semantic")
    return [(name, getattr(maps, name)) for name in names if getattr(maps, name) is not None]


def _checksums(members: Sequence[Maps[Matrix]]) -> list[list[str]]:
    """The sha256 of each matrix of each member, as little-endian float32."""
    return [
        [hashlib.sha256(matrix.astype("<f4").tobytes()).hexdigest() for _, matrix in _named(maps)]
        for maps in members
    ]


def _form(form: Form) -> tuple[str, str, str]:
    return form.direction.value, form.implicitness.value, form.pragmatic.value
