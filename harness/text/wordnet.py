"""Words to their synonyms in a WordNet that is installed on this machine, through nltk or wn.

Nothing is fetched. Without one it is an error that says what to install; senses are not told
apart, so that a synonym may be of another sense than the text's.
"""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Final, Literal

from harness.errors import SpecError

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
