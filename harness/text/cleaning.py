"""Texts of social media to cleaned texts, by named steps in a fixed order."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import unescape
from typing import Final
from unicodedata import category

from harness.errors import SpecError, did_you_mean
from harness.text.cleanup import is_blank

_URL = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
_MENTION = re.compile(r"(?<![\w.@])@(\w+)")
_HASHTAG = re.compile(r"(?<![\w&#])#(\w+)")
_NUMBER = re.compile(r"(?<!\w)\d+(?:[.,:]\d+)*(?!\w)")
_PICTURE = (
    r"[\U0001F000-\U0001FAFF\u2600-\u27BF\u231A\u231B\u23E9-\u23FA\u25AA-\u25FE\u2B05-\u2B55"
    r"\u3030\u303D\u3297\u3299]"
)
# With what follows a picture: its colour, its form, and further pictures that a joiner ties to it.
_EMOJI = re.compile(
    rf"{_PICTURE}[\uFE0E\uFE0F\U0001F3FB-\U0001F3FF\U000E0020-\U000E007F]*"
    rf"(?:\u200D{_PICTURE}[\uFE0E\uFE0F\U0001F3FB-\U0001F3FF]*)*|[0-9#*]\uFE0F?\u20E3"
)
_LONG = re.compile(r"([^\W\d_])\1{2,}", re.IGNORECASE)
_ROMAN = re.compile(r"[IVXLCDM]+|www|xxx", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_THEIRS = "it|he|she|that|there|what|who"
_PAST = r"\s+(?:been|got|had|done|gone|become|always been|never been)\b"
_CONTRACTIONS: Final = tuple(
    (re.compile(rf"\b{short}\b", re.IGNORECASE), long)
    for short, long in (
        (r"(ca) ?n['\u2019]t", r"\1nnot"),
        (r"(w)o ?n['\u2019]t", r"\1ill not"),
        (r"(sha) ?n['\u2019]t", r"\1ll not"),
        (r"(?!ai ?n)([^\W\d_]+?) ?n['\u2019]t", r"\1 not"),  # "ain't" is not one word's
        (r"([^\W\d_]+)['\u2019]re", r"\1 are"),
        (r"([^\W\d_]+)['\u2019]ve", r"\1 have"),
        (r"([^\W\d_]+)['\u2019]ll", r"\1 will"),
        (r"([^\W\d_]+)['\u2019]m", r"\1 am"),
        (rf"({_THEIRS})['\u2019]s(?={_PAST})", r"\1 has"),
        (rf"({_THEIRS}|here|where|how|when)['\u2019]s(?!\s+own\b|{_PAST})", r"\1 is"),
        (r"(let)['\u2019]s", r"\1 us"),
    )
)


Cleaned = tuple[str | None, str | None, tuple[str, ...]]
"""A cleaned text, why there is none, and the steps that changed it."""


def clean(text: str, steps: Sequence[str]) -> Cleaned:
    """Take the steps, which are names in STEPS, in the order of STEPS."""
    if is_blank(text):
        return None, "empty", ()
    changed: list[str] = []
    for name in (name for name in STEPS if name in steps):
        before, text = text, STEPS[name](text)
        changed += [name] if text != before else []
        if is_blank(text):
            return None, f"emptied by {name}", tuple(changed)
    return text, None, tuple(changed)


def chosen_steps(names: Sequence[str]) -> tuple[str, ...]:
    """The steps of these names in their order; without any those of the released cleaning."""
    if unknown := [name for name in names if name not in STEPS]:
        raise SpecError(f"--steps {unknown[0]}: no such step{did_you_mean(unknown[0], [*STEPS])}")
    return tuple(name for name in STEPS if name in (names or RELEASED_STEPS))


def _expanded(text: str) -> str:
    """Contractions that can mean one thing alone; possessives, and 'd for had or would, stay."""
    for short, long in _CONTRACTIONS:
        text = short.sub(partial(_spelled_out, long), text)
    return text


def _spelled_out(long: str, found: re.Match[str]) -> str:
    made = found.expand(long)
    return made.upper() if found[0].isupper() else made


def _shortened(text: str) -> str:
    return _WORD.sub(lambda m: m[0] if _ROMAN.fullmatch(m[0]) else _LONG.sub(r"\1", m[0]), text)


def _set_apart(text: str) -> str:
    text = re.sub(r"([!?,])\1+", r"\1", re.sub(r"&|\.\.\.", "", text))
    return re.sub(r"([.,!?:#%*=`])", r" \1 ", re.sub(r"[/\-_'\"();]", " ", text))


# Tokens of tweets: an address, a face, a tag, letters with inner ' - _, a word, dots, a sign.
_TOKEN = re.compile(
    r"(?<!@)\b[a-z0-9]+(?:[.\-][a-z0-9]+)*\.[a-z]{2,13}\b/?(?!@)"
    r"|[<>]?[:;=8][-o*']?[)\](\[dp/:}{@|\\]|#+\w+[\w'-]*\w|[\w.+-]+@[\w-]+\.(?:[\w-]\.?)+[\w-]"
    r"|[^\W\d_](?:[^\W\d_]|['\-_])+[^\W\d_]|\w+|\.(?:\s*\.)+|\S"
)
_PARTS = {"'ve": " have ", "'d": " would ", "'ll": " will ", "ca not": "cannot", "nazi": "nazy"}
_SMILES = (":)", ";)", ":d", ":p", ":-)", "8)")
_DO = ("are", "could", "did", "does", "do", "had", "has", "have", "is", "might", "must", "should")
_WHO = ("he", "it", "she", "that", "there", "what", "where", "who")
_SPELLED: Final[Mapping[str, str]] = {
    **dict.fromkeys(_SMILES, " smile ") | dict.fromkeys((":(", ":')", ":s"), " sad "),
    **{":/": " worry ", "yay": " good ", "lol": "laugh out loud", "lolol": "laugh out loud"},
    **{"stfu": "shut the fuck up", "lil": "little", "dm": "direct message", "ho": "hoe"},
    **{"ye": "you", "im": "i am", "i'm": "I am", "its": "it is", "doesnt": "does not"},
    **{"can't": "cannot", "won't": "will not", "let's": "let us", "ain't": "have not"},
    **{f"{word}n't": f"{word} not" for word in (*_DO, "was", "were", "would")},
    **{f"{word}'s": f"{word} is" for word in _WHO},
    **{f"{word}'re": f"{word} are" for word in ("they", "we", "what", "who", "you")},
}
"""What the released column spells out: whole tokens alone, also where it is wrong ("its toy")."""


def _as_released(text: str) -> str:
    """The rule that ISHate's column cleaned_text shows, with all its defects.

    Of 24,748 texts 24,737 become the released ones, 49 of them but for blanks.
    """
    text = re.sub(r"[\r\n]+", " . ", text.lower().replace("\t", " "))
    text = re.sub(r"(?:(?:https?)?://|www)[\w./?=&%-]*\b", "", text)
    for short, long in {**_PARTS, "wtf": "what the fuck"}.items():
        text = text.replace(short, long)
    for width in range(1, 20):  # what comes three times or more in a row comes once
        text = re.sub(rf"(\S{{{width}}})\1{{2,}}", r"\1", text)
    text = re.sub("[&@0-9]", "", text)
    text = " ".join(_SPELLED.get(token, token) for token in _TOKEN.findall(text))
    return re.sub(r"['\"/\-_(){};|]", " ", text).encode("ascii", "ignore").decode().strip()


STEPS: Final[Mapping[str, Callable[[str], str]]] = {
    "released": _as_released,  # all that ISHate's released column shows, with its defects
    "entities": unescape,  # &amp; and the like become the signs they stand for
    "urls": lambda text: _URL.sub("", text),  # addresses of pages go
    "mentions": lambda text: _MENTION.sub("", text),  # @name goes
    "mention_marks": lambda text: _MENTION.sub(r"\1", text),  # @name becomes name
    "hashtag_marks": lambda text: _HASHTAG.sub(r"\1", text),  # #word becomes word
    "emojis": lambda text: _EMOJI.sub("", text),  # emojis go
    "contractions": _expanded,  # don't becomes do not; possessives and 'd stay
    "elongations": _shortened,  # three or more of one letter become one
    "numbers": lambda text: _NUMBER.sub("", text),  # numbers go
    "signs": _set_apart,  # & and ... go, quotes and dashes become spaces, others get spaces around
    # punctuation and symbols become spaces
    "marks": lambda text: "".join(" " if category(one)[0] in "PS" else one for one in text),
    "lowercase": str.lower,  # capitals become small letters
    "spaces": lambda text: " ".join(text.split()),  # one space between words
}
"""All steps in the order in which they are taken."""
RELEASED_STEPS: Final = (
    *("urls", "mention_marks", "emojis", "contractions", "elongations", "numbers", "signs"),
    *("lowercase", "spaces"),
)
"""What the released column of cleaned texts shows to have been done, without its defects.

Of the 4,367 development texts 2,373 become the released ones, and 3,235 but for blanks."""
