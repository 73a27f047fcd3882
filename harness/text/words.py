"""A text to its words with what stands between them, and back to the very same text.

Also what a word takes on from its place: capitals, and the article before it. Pure.
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
        """Whether it is no mark, and no name or tag of a network."""
        return self.word[0].isalnum()

    @property
    def plain(self) -> str:
        """The word without capitals and with straight apostrophes."""
        return self.word.casefold().replace("\u2019", "'")


def pieces_of(text: str) -> tuple[list[Piece], str]:
    """The pieces of a text, and the white space behind the last one."""
    found = [Piece(*match.groups()) for match in _PIECE.finditer(text)]
    return found, text[len(joined(found)) :]


def joined(pieces: Sequence[Piece], end: str = "") -> str:
    """The text of some pieces."""
    return "".join(piece.space + piece.word for piece in pieces) + end


def cased(word: str, like: str) -> str:
    """A word with the capitals of another: all, the first, or its own."""
    if len(like) > 1 and like.isupper():
        return word.upper()
    return word[0].upper() + word[1:] if like[0].isupper() else word


def agreeing(pieces: Sequence[Piece], at: int) -> list[Piece]:
    """The pieces, an indefinite article before the one at a place as its sound wants it."""
    found = list(pieces)
    if not 0 < at < len(found) or found[at - 1].plain not in ("a", "an"):
        return found
    old = found[at - 1].word
    article = "an" if takes_an(found[at].word) else "a"
    if old[0].isupper():
        is_shouted = len(found[at].word) > 1 and found[at].word.isupper()
        article = article.upper() if is_shouted else article.capitalize()
    found[at - 1] = replace(found[at - 1], word=article)
    return found


def takes_an(word: str) -> bool:
    """Whether "an" goes before a word: by its letters, and the commonest exceptions."""
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
_LETTERS: Final = {"adjective": ("a", "s"), "adverb": ("r",), "noun": ("n",), "verb": ("v",)}
_REMEDY: Final = (
    "install one (`pip install nltk`, then `python -m nltk.downloader wordnet`; or `pip install "
    "wn`, then `python -m wn download oewn:2024`), or leave the perturbation out"
)


def is_installed() -> bool:
    """Whether a package that reads WordNet is installed; its data may still be missing."""
    return any(find_spec(name) is not None for name in ("nltk", "wn"))


def synonyms(part: PartOfSpeech) -> Callable[[str], tuple[str, ...]]:
    """What gives a word's synonyms as this part of speech, sorted, without the word itself."""
    lookup = _nltk() if find_spec("nltk") is not None else _wn()

    @cache
    def found(word: str) -> tuple[str, ...]:
        lemmas = {
            lemma.replace("_", " ") for letter in _LETTERS[part] for lemma in lookup(word, letter)
        }
        return tuple(sorted(lemma for lemma in lemmas if lemma.casefold() != word.casefold()))

    return found


def _nltk() -> Callable[[str, str], list[str]]:
    """Lemmas out of nltk's corpus."""
    from nltk.corpus import wordnet

    try:
        wordnet.ensure_loaded()
    except LookupError as error:
        raise SpecError(f"nltk is installed without its corpus wordnet; {_REMEDY}") from error

    def lemmas(word: str, letter: str) -> list[str]:
        found = wordnet.synsets(word, pos=letter)
        return [name for synset in found for name in synset.lemma_names()]

    return lemmas


def _wn() -> Callable[[str, str], list[str]]:
    """Lemmas out of the English lexicons that wn has."""
    if find_spec("wn") is None:
        raise SpecError(f"no WordNet is installed; {_REMEDY}")
    import wn

    try:
        lexicons = wn.Wordnet(lang="en")
    except wn.Error as error:
        raise SpecError(f"wn is installed without an English WordNet; {_REMEDY}") from error

    def lemmas(word: str, letter: str) -> list[str]:
        return [name for synset in lexicons.synsets(word, pos=letter) for name in synset.lemmas()]

    return lemmas
