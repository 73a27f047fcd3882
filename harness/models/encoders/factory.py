"""Specs of encoders to encoders, one of each kind and setting in a process."""

import io
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.models.encoders.encoders import Encoder
from harness.models.vectors import Vectors, row_of_each
from harness.parts import digest
from harness.specs import encoders
from harness.storage.files import write_whole

if TYPE_CHECKING:
    from harness.models.encoders.encoders import Encoder


@cache
def encoder_of(spec: encoders.LocalEncoderSpec) -> "Encoder":
    """The encoder of a spec; its weights are loaded at its first text, once."""
    match spec:
        case encoders.MiniLMSpec():
            from harness.models.encoders.encoders import MiniLM

            return MiniLM(layers=spec.layers)
        case encoders.CharNgramsSpec():
            from harness.models.encoders.encoders import CharNgrams

            return CharNgrams()
        case encoders.SentenceTransformerSpec():
            from harness.models.encoders.encoders import SentenceTransformers

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


TOGETHER = 2048
"""Texts that are encoded and kept together."""
EncodingProgress = Callable[[str, int, int], None]


def encode_cached(
    texts: Sequence[str], encoder: Encoder, folder: Path, progress: EncodingProgress | None = None
) -> Vectors:
    """One row a text, in the order of the texts; `progress` hears of texts that differ."""

    def rows(unique: list[str]) -> Vectors:
        # By length, so that texts that are encoded together are about equally long.
        order = sorted(range(len(unique)), key=lambda at: (len(unique[at]), unique[at]))
        parts = []
        for start in range(0, len(order), TOGETHER):
            members = [unique[at] for at in order[start : start + TOGETHER]]
            parts.append(_part(members, encoder, folder))
            if progress is not None:
                progress("texts", start + len(members), len(order))
        found = np.concatenate(parts)
        placed = np.empty_like(found)
        placed[order] = found
        return placed

    return row_of_each(texts, rows)


def _part(texts: Sequence[str], encoder: Encoder, folder: Path) -> Vectors:
    """The rows of some texts, from their file or else encoded now."""
    path = folder / encoder.digest[:16] / f"{digest(texts)[:32]}.npy"
    try:
        kept: Vectors = np.load(path, allow_pickle=False)
        if kept.ndim == 2 and len(kept) == len(texts) and kept.dtype == np.float32:
            return kept
    except (OSError, ValueError, EOFError):
        pass  # not kept yet, or half written by another program: it is encoded again
    rows = encoder.encode(texts)
    out = io.BytesIO()
    np.save(out, rows, allow_pickle=False)
    write_whole(path, out.getvalue())
    return rows
