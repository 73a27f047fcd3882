"""A text to the text that a perturbation makes of it by word lists, or to None without a change.

Only the random generator decides what is drawn. Grammar covers capitals, "a" or "an", and the
positions that a list allows for its words; nothing here reads a file or asks a model.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from itertools import groupby
from random import Random
from typing import Final, Literal

from harness.errors import SpecError
from harness.specs import tasks
from harness.text.dedup import normal

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
    def is_shouted(self) -> bool:
        """Whether it is a word of several letters, all of them capitals."""
        return len(self.word) > 1 and self.word.isupper()

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
        article = article.upper() if fitted[at].is_shouted else article.capitalize()
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


def is_wordnet_installed() -> bool:
    """Whether the package wn, which reads WordNet, is installed; its data may still be missing."""
    return find_spec("wn") is not None


def synonyms(part: PartOfSpeech) -> Callable[[str], tuple[str, ...]]:
    """A function from a word to its synonyms as this part of speech, sorted, without the word.

    Looks them up in the English lexicons of wn. Raises SpecError where wn or its data is missing.
    """
    if not is_wordnet_installed():
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


Synonyms = Callable[[str], Sequence[str]]
_Names = tuple[str, ...]
_Edited = list[Piece] | None
_Span = tuple[int, int, tuple[str, ...]]
"""The start and the end of some pieces, and the expressions that may replace them."""
_ARTICLES = ("a", "an")
_ASKING = ("what", "why", "how", "where", "when", "who", "which", "whose")


def edit_text(text: str, spec: tasks.LocalSpec, draw: Random, *, wordnet: Synonyms) -> str | None:
    """The text as a perturbation changes it; None where nothing in it can be changed."""
    pieces, end = split_pieces(text)
    match spec:
        case tasks.InsertSpec():
            edited = _insert_adverb(pieces, spec, draw)
        case tasks.DegreeSpec():
            edited = _change_degree(pieces, spec, draw)
        case tasks.SwapSpec():
            edited = _swap_expression(pieces, spec, draw)
        case tasks.NamesSpec():
            edited = _replace_name(pieces, spec, draw)
        case tasks.GroupNamesSpec():
            pair = group_exchange(text, spec, draw)
            edited = None if pair is None else _with_group(pieces, *pair)
        case tasks.RandomSpec():
            edited = _edit_at_random(pieces, spec, draw)
        case tasks.WordNetSpec():
            edited = _replace_by_wordnet(pieces, wordnet, draw)
    made = join_pieces(edited, end) if edited is not None else text
    return None if normal(made) == normal(text) else made


def _insert_adverb(pieces: list[Piece], spec: tasks.InsertSpec, draw: Random) -> _Edited:
    words = [at for at, piece in enumerate(pieces) if piece.is_word]
    middle = list(_after_auxiliaries(pieces, spec))
    known = {*spec.start, *spec.middle, *spec.end}
    ways = ["middle"] * bool(middle)
    if pieces and (first := pieces[0]).is_word and first.plain not in spec.start:
        # The first word must need no capital after the adverb.
        is_settled = first.word[0].islower() or first.plain.split("'")[0] == "i"
        ways += ["start"] * (is_settled or first.plain in spec.small)
    ways += ["end"] * bool(words and pieces[words[-1]].plain not in known)
    if not ways:
        return None
    match draw.choice(ways):
        case "middle":
            at = draw.choice(middle)
            return [*pieces[:at], Piece(" ", draw.choice(spec.middle)), *pieces[at:]]
        case "start":
            first, adverb = pieces[0], draw.choice(spec.start)
            small = first.word[0].lower() + first.word[1:]
            is_small = first.plain in spec.small and not first.word[1:].isupper()
            rest = Piece(" ", small if is_small else first.word)
            opening = Piece(first.space, match_case(adverb, first.word[0]))
            return [opening, Piece("", ","), rest, *pieces[1:]]
        case _:
            at = words[-1] + 1
            added = [Piece("", ","), Piece(" ", draw.choice(spec.end))]
            return [*pieces[:at], *added, *pieces[at:]]


def _after_auxiliaries(pieces: Sequence[Piece], spec: tasks.InsertSpec) -> Iterator[int]:
    """The indices after auxiliaries where an adverb can be; a question has none."""
    for at in range(1, len(pieces) - 1):
        follower = pieces[at + 1]
        is_asking = starts_sentence(pieces, at) or pieces[at - 1].plain in _ASKING
        is_free = follower.is_word and follower.plain not in (*spec.not_before, *spec.middle)
        if pieces[at].plain in spec.after and is_free and not is_asking:
            yield at + 1


def _change_degree(pieces: list[Piece], spec: tasks.DegreeSpec, draw: Random) -> _Edited:
    before = {at for at, piece in enumerate(pieces) if piece.plain in spec.adjectives}
    spans = [
        span
        for span in _expressions(pieces, (*spec.groups, *spec.anywhere))
        if any(span[2][0] in group for group in spec.anywhere) or span[1] in before
    ]
    if spans:
        return _replace_span(pieces, draw.choice(spans), draw)
    # An adjective follows a word of the list, or is between an article and a word.
    behind = [
        at
        for at in sorted(before - {0})
        if (word := pieces[at - 1].plain) in spec.behind
        or (word in _ARTICLES and at + 1 < len(pieces) and pieces[at + 1].is_word)
    ]
    if not behind:
        return None
    at = draw.choice(behind)
    modifier = draw.choice(spec.groups[0])
    modifier = modifier.upper() if pieces[at].is_shouted else modifier
    return fix_article([*pieces[:at], Piece(" ", modifier), *pieces[at:]], at)


def _swap_expression(pieces: list[Piece], spec: tasks.SwapSpec, draw: Random) -> _Edited:
    spans = [
        span
        for span in _expressions(pieces, spec.groups)
        if span[1] == len(pieces) or pieces[span[1]].plain not in spec.not_before
    ]
    return _replace_span(pieces, draw.choice(spans), draw) if spans else None


def _expressions(pieces: Sequence[Piece], groups: Sequence[Sequence[str]]) -> Iterator[_Span]:
    """Each expression of a group, the longest ones first, with the others of its group."""
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    for group in groups:
        for expression in group:
            others = tuple(other for other in group if other != expression)
            known.setdefault(tuple(expression.casefold().split()), others)
    longest = max(map(len, known), default=0)
    plain = [piece.plain for piece in pieces]
    at = 0
    while at < len(pieces):
        ends = range(min(at + longest, len(pieces)), at, -1)
        end = next((end for end in ends if tuple(plain[at:end]) in known), None)
        if end is not None:
            yield at, end, known[tuple(plain[at:end])]
        at = end or at + 1


def _replace_span(pieces: list[Piece], span: _Span, draw: Random) -> list[Piece]:
    at, end, others = span
    old, new = pieces[at], draw.choice(others)
    like = old.word
    if old.is_shouted and not all(piece.is_shouted for piece in pieces[at:end]):
        like = old.word[0]
    word = new if old.plain == "i" else match_case(new, like)
    return fix_article([*pieces[:at], Piece(old.space, word), *pieces[end:]], at)


def _replace_name(pieces: list[Piece], spec: tasks.NamesSpec, draw: Random) -> _Edited:
    if not (named := list(_names(pieces, spec))):
        return None
    name, pool = draw.choice(named)
    there = {piece.word for piece in pieces}
    new = draw.choice([word for word in pool if word.split()[0] not in there])
    edited, at = list[Piece](), 0
    while at < len(pieces):
        run = pieces[at : at + len(name)]
        if tuple(_base(piece) for piece in run) == name:
            ending = run[-1].word[len(_base(run[-1])) :]
            edited = fix_article([*edited, Piece(run[0].space, new + ending)], len(edited))
            at += len(name)
        else:
            edited.append(pieces[at])
            at += 1
    return edited


def _names(pieces: Sequence[Piece], spec: tasks.NamesSpec) -> Iterator[tuple[_Names, _Names]]:
    runs = groupby(range(len(pieces)), key=lambda at: _is_capitalised(pieces[at], spec))
    for at, end in [(at, at + len([*rest]) + 1) for is_name, (at, *rest) in runs if is_name]:
        follower = pieces[end].plain if end < len(pieces) else ""
        pool = _invented_names(pieces, at, end, spec=spec)
        if pool and follower not in spec.not_before:
            start = at + (_base(pieces[at]).casefold() in spec.titles)
            yield tuple(_base(piece) for piece in pieces[start:end]), pool


def _is_capitalised(piece: Piece, spec: tasks.NamesSpec) -> bool:
    word = _base(piece)
    is_title = word[0].isupper() and word[1:].islower()
    return piece.is_word and is_title and word.casefold() not in spec.not_names


def _invented_names(
    pieces: Sequence[Piece], at: int, end: int, *, spec: tasks.NamesSpec
) -> _Names | None:
    words = [_base(piece).casefold() for piece in pieces[at:end]]
    before = pieces[at - 1].plain if at else ""
    if before == "." and at > 1:  # "Dr. Smith"
        before = pieces[at - 2].plain
    if len(words) > 1 and words[-1] in spec.ends:
        return spec.organisations
    if words[0] in spec.titles:
        return spec.people if len(words) > 1 else None
    if before in spec.titles or words[0] in spec.known_people:
        return spec.people
    is_whole = end == len(pieces) or not pieces[end].is_word
    is_whole = is_whole or pieces[end].plain in spec.places_before
    return spec.places if before in spec.near and is_whole else None


GroupPair = tuple[tasks.GroupName, tasks.GroupName]
"""A group that is named, and the one that is named in its place."""


def group_exchange(text: str, spec: tasks.GroupNamesSpec, draw: Random) -> GroupPair | None:
    """One of the groups that a text names, and another of its kind and shape; None without one."""
    pieces, _ = split_pieces(text)
    pairs = []
    for kind in dict.fromkeys((*spec.groups, *spec.found)):
        own = spec.groups.get(kind, ())
        for group in (*own, *spec.found.get(kind, ())):
            if _is_named(pieces, group):
                alike = [o for o in own if [*map(o.index, o)] == [*map(group.index, group)]]
                others = [other for other in alike if not _is_named(pieces, other)]
                pairs += [(group, others)] if others else []
    if not pairs:
        return None
    group, others = draw.choice(pairs)
    return group, draw.choice(others)


def with_group_exchanged(text: str, pair: GroupPair) -> str:
    """A text with every form of the first group's name in that form of the second's."""
    pieces, end = split_pieces(text)
    return join_pieces(_with_group(pieces, *pair), end)


def _is_named(pieces: Sequence[Piece], group: tasks.GroupName) -> bool:
    return next(_group_spans(pieces, group), None) is not None


def _group_spans(pieces: Sequence[Piece], group: tasks.GroupName) -> Iterator[tuple[int, int, int]]:
    """Where each form of a name is, the longest first: start, end, and the form's number."""
    forms: dict[tuple[str, ...], int] = {}
    for number, form in enumerate(group):
        forms.setdefault(tuple(piece.plain for piece in split_pieces(form)[0]), number)
    plain = [_base(piece).casefold().replace("\u2019", "'") for piece in pieces]
    at, longest = 0, max(map(len, forms))
    while at < len(pieces):
        ends = range(min(at + longest, len(pieces)), at, -1)
        end = next((end for end in ends if tuple(plain[at:end]) in forms), None)
        if end is not None:
            yield at, end, forms[tuple(plain[at:end])]
        at = end or at + 1


def _with_group(
    pieces: Sequence[Piece], group: tasks.GroupName, other: tasks.GroupName
) -> list[Piece]:
    edited = list(pieces)
    for at, end, number in reversed([*_group_spans(pieces, group)]):
        run, new = pieces[at:end], other[number]
        if all(piece.word.islower() for piece in run):
            new = new.lower()
        elif all(piece.is_shouted for piece in run):
            new = new.upper()
        ending = run[-1].word[len(_base(run[-1])) :]
        edited[at:end] = [Piece(run[0].space, new + ending)]
        edited = fix_article(edited, at)
    return edited


def _base(piece: Piece) -> str:
    return piece.word[:-2] if piece.plain.endswith("'s") and len(piece.word) > 2 else piece.word


def _edit_at_random(pieces: list[Piece], spec: tasks.RandomSpec, draw: Random) -> _Edited:
    """Applies one operation of EDA (Wei and Zou 2019) to a share of the words."""
    words = [at for at, piece in enumerate(pieces) if piece.is_word]
    if len(words) < 2:
        return None
    count = max(1, round(spec.share * len(words)))
    match spec.operation:
        case "deletion":
            gone = {at for at in words if draw.random() < spec.share} or {draw.choice(words)}
            kept = [piece for at, piece in enumerate(pieces) if at not in gone]
            kept[:1] = [replace(piece, space=pieces[0].space) for piece in kept[:1]]
            return kept if len(gone) < len(words) else None
        case "swap":
            edited = list(pieces)
            for _ in range(count):
                one, other = draw.sample(words, 2)
                first, second = edited[one], edited[other]
                edited[one] = replace(first, word=second.word)
                edited[other] = replace(second, word=first.word)
            return edited
        case _:
            return _with_synonyms(pieces, spec, draw, count=count)


def _with_synonyms(
    pieces: list[Piece], spec: tasks.RandomSpec, draw: Random, *, count: int
) -> _Edited:
    spans = [span for span in _expressions(pieces, spec.groups) if span[1] == span[0] + 1]
    chosen = sorted(draw.sample(spans, min(count, len(spans))), reverse=True)
    if not chosen:
        return None
    edited = list(pieces)
    for span in chosen:
        if spec.operation == "synonyms":
            edited = _replace_span(edited, span, draw)
        else:
            at = draw.randrange(1, len(edited) + 1)
            added = Piece(" ", draw.choice(span[2]))
            edited = fix_article([*edited[:at], added, *edited[at:]], at)
    return edited


def _replace_by_wordnet(pieces: list[Piece], wordnet: Synonyms, draw: Random) -> _Edited:
    others = {at: tuple(wordnet(p.plain)) for at, p in enumerate(pieces) if p.is_word}
    if not (known := [at for at, words in others.items() if words]):
        return None
    at = draw.choice(known)
    return _replace_span(pieces, (at, at + 1, others[at]), draw)
