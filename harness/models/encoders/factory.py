"""Specs of encoders to encoders, one of each kind and setting in a process; and their cache."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from harness.models.encoders.encoders import CharNgrams, Encoder, MiniLM, SentenceTransformers
from harness.models.vectors import Progress, Vectors, reported_chunks, row_of_each
from harness.parts import digest
from harness.specs import encoders
from harness.storage.files import write_whole


@cache
def encoder_of(spec: encoders.LocalEncoderSpec) -> Encoder:
    """Build the encoder of a spec; its weights are loaded once, at its first text."""
    match spec:
        case encoders.MiniLMSpec():
            return MiniLM(layers=spec.layers)
        case encoders.CharNgramsSpec():
            return CharNgrams()
        case encoders.SentenceTransformerSpec():
            return SentenceTransformers(spec.model, spec.revision)
        case encoders.Llm2VecSpec():
            from harness.models.encoders import llm2vec

            kind = llm2vec.Llm2Vec if spec.engine == "native" else llm2vec.Llm2VecPackage
            return kind(
                spec.base,
                spec.adapters,
                revision=spec.revision,
                instruction=spec.instruction,
                max_length=spec.max_length,
                dtype=spec.dtype,
            )


BATCH = 2048
"""Texts that are encoded together and stored in one file."""


@dataclass(frozen=True, slots=True)
class CachedEncoder:
    """An encoder that stores its rows in a folder and reads them from there the next time.

    `progress` counts distinct texts.
    """

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
        """Encode texts into unit-norm rows, in their order; a stored row is not computed again."""
        return row_of_each(texts, self._rows)

    def _rows(self, texts: list[str]) -> Vectors:
        # By length, so that texts that are encoded together are about equally long.
        order = sorted(range(len(texts)), key=lambda at: (len(texts[at]), texts[at]))
        batches = reported_chunks(order, BATCH, self.progress)
        found = np.concatenate([self._batch([texts[at] for at in batch]) for batch in batches])
        rows = np.empty_like(found)
        rows[order] = found
        return rows

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
