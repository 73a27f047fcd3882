"""The texts a server gives its tokens to the characters that each stands for.

Servers tell texts and not places, and some of the texts are not what stands in the prompt: spaces
are trimmed off, characters cut into bytes. Places are found only where the texts, one behind the
other, spell the whole prompt; else there are none, for a guess would score other tokens than
those of a choice. Pure.
"""

import re
from collections.abc import Sequence

Places = list[tuple[int, int]]

_AS_THEY_ARE = (*range(33, 127), *range(161, 173), *range(174, 256))
_OTHERS = (byte for byte in range(256) if byte not in _AS_THEY_ARE)
BYTES = {chr(byte): byte for byte in _AS_THEY_ARE}
BYTES |= {chr(256 + place): byte for place, byte in enumerate(_OTHERS)}
"""The byte that each letter of a byte-level vocabulary stands for, as GPT-2 has it."""


def written(texts: Sequence[str]) -> list[bytes]:
    """Tokens as a server writes them for people to read."""
    return [text.encode("utf-8", "surrogatepass") for text in texts]


def spellings(pieces: Sequence[str]) -> tuple[list[bytes], list[bytes]]:
    """Tokens as a vocabulary writes them, read letter by byte and as SentencePiece has it."""
    return [_by_letters(piece) for piece in pieces], [_by_pieces(piece) for piece in pieces]


def places(tokens: Sequence[bytes], prompt: str) -> Places | None:
    """First character of each token and the one after its last, null where they spell another text.

    An empty token is one that ends inside a character: it stands where the next does. Markers
    before the prompt are at (0, 0).
    """
    data = prompt.encode("utf-8", "surrogatepass")
    owners = [at for at, letter in enumerate(prompt) for _ in written([letter])[0]]
    found: Places = []
    end = len(data)
    for token in reversed(tokens):
        start = _start(token, data, end)
        if start is None or not (token or found):
            return None
        if start < end:
            found.append((owners[start], owners[end - 1] + 1))
        else:
            found.append((0, 0) if token else found[-1])
        end = start
    return None if end else found[::-1]


def are_alike(spelled: Sequence[bytes], texts: Sequence[str]) -> bool:
    """Whether the texts, as far as they are whole, are those of the tokens so spelled.

    There may be one text more: what was drawn behind the prompt.
    """
    return len(texts) - len(spelled) in (0, 1) and all(map(_is_alike, spelled, texts))


def _is_alike(token: bytes, text: str) -> bool:
    """Whether a text is that of a token, but for the spaces around it."""
    try:
        word = token.decode("utf-8").strip()
    except UnicodeDecodeError:
        return True
    return text.strip() in ("", word) or "\ufffd" in text


def _start(token: bytes, data: bytes, end: int) -> int | None:
    """Where a token begins that ends at `end`, null where it does not stand there.

    A tokenizer's own space before a prompt is not the prompt's.
    """
    if not end or data.endswith(token, 0, end):
        return max(end - len(token), 0)
    return 0 if token.removeprefix(b" ") == data[:end] else None


def _by_letters(piece: str) -> bytes:
    """The bytes of a token whose letters stand for one each; of another, its text."""
    if all(letter in BYTES for letter in piece):
        return bytes(BYTES[letter] for letter in piece)
    return piece.encode("utf-8", "surrogatepass")


def _by_pieces(piece: str) -> bytes:
    """The bytes of a token that has a space as a low line, or is a byte."""
    if byte := re.fullmatch("<0x([0-9A-F]{2})>", piece):
        return bytes([int(byte[1], 16)])
    return piece.replace("\u2581", " ").encode("utf-8", "surrogatepass")
