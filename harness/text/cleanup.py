"""Answers as models write them to the answers alone: no lead-ins, wrapping or template residue."""

import re
from unicodedata import category

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
TURNING = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Within a character class: what turns the direction of the text around it."""
# Joiners stay behind letters of scripts that need them, and so do signs of Arabic that show.
_OBEYED = re.compile(
    rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{TURNING}\u00ad\u180e\u200b\u2060-\u2064\u206a-\u206f\ufeff"
    r"\ufff9-\ufffb\U000e0000-\U000e007f]|(?<![^\x00-\x7f])[\u200c\u200d]"
)


def without_controls(text: str) -> str:
    """The text without control characters; tabs and line feeds stay."""
    return _CONTROL.sub("", text)


def for_display(text: str) -> str:
    """The text without what a terminal obeys or hides: controls, turns of direction, no widths."""
    return _OBEYED.sub("", text)


def is_blank(text: str) -> bool:
    """Whether nothing of a text is visible: white space, controls and characters without a form."""
    return all(
        letter in _FORMLESS or category(letter) in _INVISIBLE for letter in text if letter != " "
    )


def repair_surrogates(text: str) -> str:
    """The text with U+FFFD for each lone half of a character, as of an emoji that was cut."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def bare(text: str) -> str:
    """The text without quotation marks around all of it, and without its one full stop."""
    found = " ".join(text.split())
    while (quoted := _QUOTED.fullmatch(found)) is not None:
        found = quoted["inside"]
    ends = found.endswith(".") and not found.endswith("..")
    return (found[:-1].rstrip() if ends else found) or text


_MARKS = '"\u201c\u201d\u201e\u00ab\u00bb'
_QUOTED = re.compile(rf"[{_MARKS}] ?(?P<inside>[^{_MARKS}]+?) ?[{_MARKS}] ?[.,]?")
"""One quotation and nothing else: of two, the outer marks are of different ones."""
_INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
_FORMLESS = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # joiners, fillers, a blank pattern
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0000, 0xE01F0))))
)
"""Letters, marks and selectors that show nothing by themselves."""
_ROLE = "(?:assistant|user|system|model)"
# Special tokens of the chat templates in use; no real answer contains one.
_RESIDUE = re.compile(
    rf"(?:<\|start_header_id\|>{_ROLE}?<\|end_header_id\|>|<\|im_start\|>{_ROLE}?"
    rf"|<start_of_turn>{_ROLE}?|<\|[a-z][a-z0-9_]*\|>|<end_of_turn>|</?s>|<[be]os>"
    r"|\[/?INST\]|<</?SYS>>)+",
    re.IGNORECASE,
)
# The header of an answer whose special tokens a decoder has dropped.
_HEADER = r"(?:assistant|model)[^\S\n]*\n"
_KIND = (
    r"(?:(?:key|main|short|concise|simple|possible|likely|intended|implied|implicit|underlying) )"
)
_NOUN = (
    r"(?:implication(?:s|\(s\))?(?: meaning| sentence)?|meaning|interpretation|answer|response"
    r"|(?:specific |key )?(?:highlighted|emphasi[sz]ed) (?:information|meaning))"
)
_WHOSE = (
    r"(?: (?:of|behind|for|in|conveyed by) (?:the|this|that)"
    r"(?: (?:current|emphasi[sz]ed|stressed|given|above|last|next|speaker's))*"
    r" (?:turn|sentence|turn sentence|emphasis|stress|utterance|statement|line|dialogue|word"
    r"|phrase))"
)
# "Implication:", "The implied meaning of this turn is:", "Here is a short sentence ... meaning:"
_LABEL = (
    rf"(?:(?:the |an? |my )?{_KIND}{{0,2}}{_NOUN}{_WHOSE}?(?: is| would be| could be)?"
    r"|here(?: is|'s|\u2019s)\b[^:.!?\n]{0,120}?\b(?:implications?|meaning|interpretation|answer"
    r"|response|sentence|information|summary)\b[^:.!?\n]{0,80}?)"
)
_PROMISE = (
    r"(?:i(?:'d|\u2019d| would) be (?:happy|glad) to (?:help|assist)(?: you)?"
    r"(?: with (?:that|this))?|i (?:can|will) (?:do that|help(?: you)?(?: with (?:that|this))?)"
    r"|i understand|here you go)"
)
_YES = r"(?:sure(?: thing)?|certainly|of course|absolutely|okay|ok|alright|great)"
# A label may be bold as a whole, with or without its colon, or be a heading.
_BOLD = r"(?:#{1,6} )?(?P<bold>[*_]{1,3})?"
_COLON = r"(?(bold)(?:[*_]{1,3} ?[:\uff1a]|[:\uff1a] ?[*_]{1,3})|[:\uff1a])"
_LEAD_IN = re.compile(
    rf"(?:{_HEADER}"
    rf"|{_BOLD}(?:{_YES}[,!.]? )?{_LABEL}{_COLON}"
    rf"|#{{1,6}} {_LABEL}[ \t]*\n"
    rf"|(?:{_YES}[,!.]? )?{_PROMISE}[.!:]"
    rf"|{_YES}(?:!|[.:,]?[^\S\n]*\n))\s*(?=\S)",
    re.IGNORECASE,
)
_WRAPS = (
    *(("**", "**"), ("*", "*"), ("__", "__"), ("_", "_"), ("`", "`")),
    *(('"', '"'), ("\u201c", "\u201d"), ("\u2018", "\u2019"), ("'", "'")),
)


def without_lead_in(text: str) -> str:
    """The answer without lead-ins, marks around it and special tokens of a chat template."""
    text = _RESIDUE.sub(" ", text)  # a space for each: what is left holds none
    before, span = None, _stripped(text, 0, len(text))
    while span != before:
        before, span = span, _unwrapped(text, *span)
        lead_in = _LEAD_IN.match(text, *span)
        span = (lead_in.end(), span[1]) if lead_in else span
    return text[slice(*span)]


_Span = tuple[int, int]


def _unwrapped(text: str, start: int, end: int) -> _Span:
    """The place of an answer without one pair of marks around it; apostrophes are no marks."""
    for opening, closing in _WRAPS:
        first, last = start + len(opening), end - len(closing)
        is_wrapped = (
            first < last
            and text.startswith(opening, start)
            and text.endswith(closing, start, end)
            and not _is_within(text, closing, first, last)
        )
        if is_wrapped and (inner := _stripped(text, first, last)) != (last, last):
            return inner
    return start, end


def _is_within(text: str, mark: str, start: int, end: int) -> bool:
    """Whether a mark is somewhere in a span; an apostrophe between two letters is none."""
    if mark in "'\u2019":
        return re.compile(rf"(?<!\w){mark}|{mark}(?!\w)").search(text, start, end) is not None
    return text.find(mark, start, end) >= 0


def _stripped(text: str, start: int, end: int) -> _Span:
    """The place of a part of a text without the white space around it."""
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def as_counted(text: str) -> list[tuple[bool, int, str]]:
    """A key to sort names by as people count: H2 before H10."""
    parts = [part for part in re.split(r"(\d+)", text.lower()) if part]
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]
