"""Texts to the vectors of an encoder, kept in a folder: what was encoded once is read back.

Kept some texts at a time, by a digest of these texts and the encoder; the folder may be thrown
away at any time. Nothing here encodes by itself.
"""

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from harness.models.encoders.encoders import Encoder
from harness.models.vectors import Vectors, row_of_each
from harness.parts import digest
from harness.storage.runs import write_whole

TOGETHER = 2048
"""Texts that are encoded and kept together."""
Told = Callable[[str, int, int], None]


def embedded(
    texts: Sequence[str], encoder: Encoder, folder: Path, progress: Told | None = None
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
