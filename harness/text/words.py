"""A text to words and marks with the white space before each, and back to the same text.

Also capitals and articles that fit a word's place, and the synonyms of a word in WordNet.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from typing import Final, Literal

from harness.errors import SpecError

_PIECE = re.compile(r"(\s*)([@#]?\w+(?:['\u2019\-]\w+)*|[^\w\s])")
_VOWELS: Final = "aeiou"
_AN_BEFORE = re.compile(r"honou?r|honest|hour|heir", re.IGNORECASE)
_A_BEFORE = re.compile(r"one(?!r)|once|u(?:ni(?!n|m)|s[eu]|til|top|ran|kr)|eu|ew", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Piece:
    """A word or a mark, with the white space before it."""

    space: str
    word: str

    @property
    def is_word(self) -> bool:
        """Whether it is a word: no punctuation mark, and no @name or #tag."""
        return self.word[0].isalnum()

    @property
    def plain(self) -> str:
        """The word without capitals and with straight apostrophes."""
        return self.word.casefold().replace("\u2019", "'")


def split_pieces(text: str) -> tuple[list[Piece], str]:
    """The pieces of a text, and the white space after the last one."""
    pieces = [Piece(*match.groups()) for match in _PIECE.finditer(text)]
    return pieces, text[len(join_pieces(pieces)) :]


def join_pieces(pieces: Sequence[Piece], end: str = "") -> str:
    """The text of pieces, with the white space after the last one."""
    return "".join(piece.space + piece.word for piece in pieces) + end


def match_case(word: str, like: str) -> str:
    """A word with the capitals of another one: all letters, the first letter, or unchanged."""
    if len(like) > 1 and like.isupper():
        return word.upper()
    return word[0].upper() + word[1:] if like[0].isupper() else word


def fix_article(pieces: Sequence[Piece], at: int) -> list[Piece]:
    """The pieces with "a" or "an" before the piece at an index, as that piece needs it."""
    fitted = list(pieces)
    if not 0 < at < len(fitted) or fitted[at - 1].plain not in ("a", "an"):
        return fitted
    article = "an" if takes_an(fitted[at].word) else "a"
    if fitted[at - 1].word[0].isupper():
        is_shouted = len(fitted[at].word) > 1 and fitted[at].word.isupper()
        article = article.upper() if is_shouted else article.capitalize()
    fitted[at - 1] = replace(fitted[at - 1], word=article)
    return fitted


def takes_an(word: str) -> bool:
    """Whether "an" goes before a word: by its first letter, with the commonest exceptions."""
    if _AN_BEFORE.match(word):
        return True
    return word[:1].casefold() in _VOWELS and not _A_BEFORE.match(word)


def starts_sentence(pieces: Sequence[Piece], at: int) -> bool:
    """Whether a piece is the first word of the text or of a sentence in it."""
    before = [piece.word for piece in pieces[:at]]
    while before and before[-1] in "\"'\u201c\u2018([*":
        before.pop()
    return not before or before[-1] in ".!?:;\u2026"


PartOfSpeech = Literal["adjective", "adverb", "noun", "verb"]
_TAGS: Final = {"adjective": ("a", "s"), "adverb": ("r",), "noun": ("n",), "verb": ("v",)}
_REMEDY: Final = (
    "`pip install wn`, then `python -m wn download oewn:2024`, or leave the perturbation out"
)


def is_installed() -> bool:
    """Whether the package wn, which reads WordNet, is installed; its data may still be missing."""
    return find_spec("wn") is not None


def synonyms(part: PartOfSpeech) -> Callable[[str], tuple[str, ...]]:
    """A function from a word to its synonyms as this part of speech, sorted, without the word.

    Looks them up in the English lexicons of wn. Raises SpecError where wn or its data is missing.
    """
    if not is_installed():
        raise SpecError(f"no WordNet is installed; {_REMEDY}")
    import wn

    try:
        lexicons = wn.Wordnet(lang="en")
    except wn.Error as error:
        raise SpecError(f"wn is installed without an English WordNet; {_REMEDY}") from error

    @cache
    def look_up(word: str) -> tuple[str, ...]:
        synsets = [found for tag in _TAGS[part] for found in lexicons.synsets(word, pos=tag)]
        lemmas = {lemma.replace("_", " ") for synset in synsets for lemma in synset.lemmas()}
        return tuple(sorted(lemma for lemma in lemmas if lemma.casefold() != word.casefold()))

    return look_up
