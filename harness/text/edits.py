"""A text to the text that a perturbation makes of it by word lists, or to None without a change."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, TypeVar

from harness.specs import tasks
from harness.text.dedup import normal

_T = TypeVar("_T")
_PIECE = re.compile(r"(\s*)([@#]?\w+(?:['\u2019\-]\w+)*|[^\w\s])")
_VOWELS: Final = "aeiou"
_AN_BEFORE = re.compile(r"honou?r|honest|hour|heir", re.IGNORECASE)
_A_BEFORE = re.compile(r"one(?!r)|once|u(?:ni(?!n|m)|s[eu]|til|top|ran|kr)|eu|ew", re.IGNORECASE)
_ARTICLES = ("a", "an")
_ASKING = ("what", "why", "how", "where", "when", "who", "which", "whose")


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

    @property
    def base(self) -> str:
        """The word without a possessive ending."""
        return self.word[:-2] if self.plain.endswith("'s") and len(self.word) > 2 else self.word


def split_pieces(text: str) -> tuple[list[Piece], str]:
    """The pieces of a text, and the white space after the last one."""
    pieces = [Piece(*match.groups()) for match in _PIECE.finditer(text)]
    return pieces, text[len(join_pieces(pieces)) :]


def join_pieces(pieces: Sequence[Piece], end: str = "") -> str:
    """The text of pieces, with the white space after the last one."""
    return "".join(piece.space + piece.word for piece in pieces) + end


def takes_an(word: str) -> bool:
    """Whether "an" goes before a word: by its first letter, with the commonest exceptions."""
    if _AN_BEFORE.match(word):
        return True
    return word[:1].casefold() in _VOWELS and not _A_BEFORE.match(word)


def _match_case(word: str, like: str) -> str:
    """A word with the capitals of another one: all letters, the first letter, or unchanged."""
    if len(like) > 1 and like.isupper():
        return word.upper()
    return word[0].upper() + word[1:] if like[0].isupper() else word


def _put(pieces: Sequence[Piece], at: int, end: int, new: Piece) -> list[Piece]:
    """The pieces with a new one in place of some, and "a" or "an" before it as it needs."""
    edited = [*pieces[:at], new, *pieces[end:]]
    if at > 0 and edited[at - 1].plain in _ARTICLES:
        article = "an" if takes_an(new.word) else "a"
        if edited[at - 1].word[0].isupper():
            article = article.upper() if new.is_shouted else article.capitalize()
        edited[at - 1] = replace(edited[at - 1], word=article)
    return edited


def _found(
    plain: Sequence[str], known: Mapping[tuple[str, ...], _T]
) -> Iterator[tuple[int, int, _T]]:
    """Where known expressions are, the longest first: start, end, and what is known of each."""
    at, longest = 0, max(map(len, known), default=0)
    while at < len(plain):
        ends = range(min(at + longest, len(plain)), at, -1)
        end = next((end for end in ends if tuple(plain[at:end]) in known), None)
        if end is not None:
            yield at, end, known[tuple(plain[at:end])]
        at = end or at + 1


_Edited = list[Piece] | None
_Span = tuple[int, int, tuple[str, ...]]
"""The start and the end of some pieces, and the expressions that may replace them."""


def edit_text(text: str, spec: tasks.LocalSpec, draw: Random) -> str | None:
    """The text as a perturbation changes it; None where nothing in it can be changed."""
    pieces, end = split_pieces(text)
    if isinstance(spec, tasks.GroupNamesSpec):
        pair = group_exchange(text, spec, draw)
        edited = pair and split_pieces(with_group_exchanged(text, pair))[0]
    else:
        edited = _WAYS[type(spec)](pieces, spec, draw)
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
            return _put(pieces, at, at, Piece(" ", draw.choice(spec.middle)))
        case "start":
            first, adverb = pieces[0], draw.choice(spec.start)
            small = first.word[0].lower() + first.word[1:]
            is_small = first.plain in spec.small and not first.word[1:].isupper()
            rest = Piece(" ", small if is_small else first.word)
            opening = Piece(first.space, _match_case(adverb, first.word[0]))
            return [opening, Piece("", ","), rest, *pieces[1:]]
        case _:
            at = words[-1] + 1
            added = [Piece("", ","), Piece(" ", draw.choice(spec.end))]
            return [*pieces[:at], *added, *pieces[at:]]


def _after_auxiliaries(pieces: Sequence[Piece], spec: tasks.InsertSpec) -> Iterator[int]:
    """The indices after auxiliaries where an adverb can be; a question has none."""
    for at in (at for at in range(1, len(pieces) - 1) if pieces[at].plain in spec.after):
        follower, before = pieces[at + 1], [piece.word for piece in pieces[:at]]
        while before and before[-1] in "\"'\u201c\u2018([*":
            before.pop()
        opens = not before or before[-1] in ".!?:;\u2026"
        is_free = follower.is_word and follower.plain not in (*spec.not_before, *spec.middle)
        if is_free and not opens and pieces[at - 1].plain not in _ASKING:
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
    return _put(pieces, at, at, Piece(" ", modifier))


def _swap_expression(pieces: list[Piece], spec: tasks.SwapSpec, draw: Random) -> _Edited:
    spans = [
        span
        for span in _expressions(pieces, spec.groups, spec.into)
        if span[1] == len(pieces) or pieces[span[1]].plain not in spec.not_before
    ]
    return _replace_span(pieces, draw.choice(spans), draw) if spans else None


def _expressions(
    pieces: Sequence[Piece], groups: Sequence[Sequence[str]], into: Sequence[str] = ()
) -> Iterator[_Span]:
    """Each expression of a group, the longest first, with the others of its group, or `into`."""
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    for group in groups:
        for expression in group:
            others = tuple(other for other in into or group if other != expression)
            known.setdefault(tuple(expression.casefold().split()), others)
    return _found([piece.plain for piece in pieces], known)


def _replace_span(pieces: list[Piece], span: _Span, draw: Random) -> list[Piece]:
    at, end, others = span
    old, new = pieces[at], draw.choice(others)
    like = old.word
    if old.is_shouted and not all(piece.is_shouted for piece in pieces[at:end]):
        like = old.word[0]
    word = new if old.plain == "i" else _match_case(new, like)
    return _put(pieces, at, end, Piece(old.space, word))


GroupPair = tuple[tasks.GroupName, tasks.GroupName]
"""A group that is named, and the one that is named in its place."""


def group_exchange(text: str, spec: tasks.GroupNamesSpec, draw: Random) -> GroupPair | None:
    """One of the groups that a text names, and another of its kind and shape; None without one."""
    pieces, _ = split_pieces(text)
    pairs = []
    for kind in dict.fromkeys((*spec.groups, *spec.found)):
        own = spec.groups.get(kind, ())
        for group in (*own, *spec.found.get(kind, ())):
            if _group_spans(pieces, group):
                alike = [o for o in own if [*map(o.index, o)] == [*map(group.index, group)]]
                others = [other for other in alike if not _group_spans(pieces, other)]
                pairs += [(group, others)] if others else []
    if not pairs:
        return None
    group, others = draw.choice(pairs)
    return group, draw.choice(others)


def with_group_exchanged(text: str, pair: GroupPair) -> str:
    """A text with every form of the first group's name in that form of the second's."""
    pieces, end = split_pieces(text)
    for at, stop, number in reversed(_group_spans(pieces, pair[0])):
        run, new = pieces[at:stop], pair[1][number]
        if all(piece.word.islower() for piece in run):
            new = new.lower()
        elif all(piece.is_shouted for piece in run):
            new = new.upper()
        ending = run[-1].word[len(run[-1].base) :]
        pieces = _put(pieces, at, stop, Piece(run[0].space, new + ending))
    return join_pieces(pieces, end)


def _group_spans(pieces: Sequence[Piece], group: tasks.GroupName) -> list[tuple[int, int, int]]:
    """Where each form of a name is: start, end, and the form's number."""
    forms: dict[tuple[str, ...], int] = {}
    for number, form in enumerate(group):
        forms.setdefault(tuple(piece.plain for piece in split_pieces(form)[0]), number)
    return [*_found([replace(piece, word=piece.base).plain for piece in pieces], forms)]


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
            edited = _put(edited, at, at, Piece(" ", draw.choice(span[2])))
    return edited


_WAYS: Mapping[type, Callable[..., _Edited]] = {
    tasks.InsertSpec: _insert_adverb,
    tasks.DegreeSpec: _change_degree,
    tasks.SwapSpec: _swap_expression,
    tasks.RandomSpec: _edit_at_random,
}
