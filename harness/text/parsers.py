"""A reply's text to the value it states, or to the reason why it states none.

One small anchored function for each grammar, which never searches prose for a lone letter.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite, nan
from typing import Any
from unicodedata import normalize

from harness.parts import Reason
from harness.text.cleanup import is_blank, without_lead_in

# An optional lead-in, an optional opening mark, then the number; "1.5", "12" and "1st" are others.
_OPTION = re.compile(
    r"(?:(?:the )?(?:answer|option|choice|response)(?: is)?)? ?[:#]? ?(?:option ?)?"
    r"[*_`\"'(\[]{0,3}([0-9]+)(?![^\W_]|[.,][0-9])",
    re.IGNORECASE,
)
# What takes the choice before it back: "1 is incorrect", "1 isn't", "1: wrong.", "1? No."
_SUBJECT = r"(?!because|since|as|for|so)[a-z]+ (?:[a-z]+ )?"
_DENIED = re.compile(
    rf"[*_`\"')\]]{{0,4}}(?:\?| (?:{_SUBJECT})?(?:not|never|cannot|[a-z]+n['\u2019]t)\b"
    rf"| {_SUBJECT}(?:incorrect|wrong|false)\b"
    r"|[ .,:;(\u2013\u2014-]{1,3}(?:no|not|incorrect|wrong|false)(?=[.,!?)]|\Z))",
    re.IGNORECASE,
)
# A number needs its mark: a sentence may open with "3 of us".
_LIST_MARK = re.compile(r"\A\s*(?:[-*\u2022]\s+|\(?[0-9]{1,2}[.):]\s+)")
_QUOTED_LINE = re.compile(r'\A["\u201c]([^"\u201c\u201d]+)["\u201d]\Z')
_LEAD = re.compile(r"(?:the |my )?(?:answer|option|choice|response)(?: is)? ")
_NUMBER = re.compile(r"(?<![0-9.,])([0-9]+)(?![0-9]|[.,][0-9])")

# Ratings in free text: a number, perhaps "of" the highest; a colon, perhaps after the scale.
_RATING = (
    r"[\"'(\[]{0,2}([0-9]+)(?:\.0+)?(?: ?(?:/|(?:out )?of) ?([0-9]+))?"
    r"(?![^\W_]|[.,/][0-9]|\.?\s?-? ?[0-9])"
)
_COLON = r"(?: ?\([^()]{0,20}\))? ?[:=](?: ?|\n(?=[0-9]+\s*\Z))"
_AFTER_LABEL = re.compile(_RATING)
_LABEL = re.compile(rf"\b(?:rating|score){_COLON}\s?", re.IGNORECASE)
_NO_NOT = r"(?!(?:[a-z]+ ){0,2}(?:not|no|never|but|isn't)\b)"
_OPENING = re.compile(
    rf"(?:- )?(?:(?:[0-9]+[.)] )?{_NO_NOT}[a-z]+(?: [a-z]+){{0,2}}{_COLON})?{_RATING}",
    re.IGNORECASE,
)
_CLOSING = re.compile(rf"[.!?\"']\s{_NO_NOT}[a-z]+{_COLON}{_RATING}\W*\Z", re.IGNORECASE)
# What may follow a rating: an end, a mark, a reason; other words make a sentence of it.
_ENDED = re.compile(
    r"[)\]\"']{0,3}(?: (?:points?|stars?)\b)?"
    r"(?:\s*\Z|\n|\s?[.,;:!?]+(?=\s|\Z|[)\]\"'])| ?[-\u2013\u2014(\[] ?(?![0-9])"
    r"| (?:because|since|as)\b)"
)
# What is taken from a rating or put to it, and scales that have another top.
_SUM = re.compile(
    r"[ ,;:.(\[\u2013\u2014]*(?:[-+\u2212] ?[0-9]|(?:minus|plus|less|times|add|subtract|deduct)"
    r" (?:[0-9]|(?:one|two|half|a half|a point)\b))",
    re.IGNORECASE,
)
_TOP = re.compile(r"(?:\bof|/|(?<=[0-9]) ?-|\u2013|\bto|\bmax(?:imum)?:?) ?([0-9]+)")
_BRACKET = re.compile(r" ?\(([^()\n]{0,40})\)")
_NEGATED = re.compile(r"(?:\b(?:not|no|never)|n't)(?: [a-z]+){0,3} \Z", re.IGNORECASE)
# What makes an echo of the label after it in a sentence, and what may open one that corrects.
_ECHOED = re.compile(
    r"\w.*[\"\u201c\u2018']\Z|\b(?:ask(?:s|ed|ing)?|t(?:ells?|old)|says|said|(?:out)?puts?|writes?|wrote|prints?"
    r"|wants?|demands?|instruct(?:s|ed|ions?)?|ignor(?:es?|ed|ing)|quot(?:es?|ed|ing))\b",
    re.IGNORECASE,
)
_CORRECTING = re.compile(
    r"(?:\W|\b(?:my|the|so|final|overall|total|new|revised|on|reflection|in|sum|and)\b)*\Z",
    re.IGNORECASE,
)
_ITEM = re.compile(r"[.)] (?=[^\W\d])")
_CAPITAL = re.compile(r" [A-Z]")
_SCALE = re.compile(
    r"[0-9]+ ?(?:-|\u2013|to) ?[0-9]+|(?:out of|/) ?[0-9]+|^[0-9]+[.)] (?=\w)", re.MULTILINE
)
_OTHER = re.compile(
    r"(?<![0-9.,])([0-9]+(?:\.[0-9]+)?)(?![0-9]|[.,][0-9])"
    r"[)\]\"']{0,3}\s?(?=[.,;:!?)\]\n\u2013\u2014/-]|\Z)"
)

# How replies open that decline to answer; the few tokens that a short limit leaves are enough.
_REGRET = r"(?:(?:i'm|i am) (?:so |very )?sorry|sorry|i apologi[sz]e|my apologies)"
_UNWILLING = (
    r"i (?:(?:can't|cannot|can not|could not|couldn't|won't|will not|am unable|am not able)"
    r"|(?:don't|do not) feel comfortable|must decline|decline|refuse)"
    r"|i'm (?:unable|not able|not comfortable|not going to)|as an ai"
)
_REFUSAL = re.compile(rf"(?:{_REGRET}|unfortunately (?:{_UNWILLING})|{_UNWILLING})(?![\w'])")
_NO_BUT_REFUSED = re.compile(
    r"no (?:(?:i'm|i am) sorry )?(?:but )?i(?:'m| am)? "
    r"(?:can't|cannot|can not|won't|will not|unable to|not able to) "
    r"(?:answer|assist|help|judge|provide|comply|engage|evaluate|assess|say|do that|fulfill)(?!\w)"
)

_NO_I = re.compile(r"no (?:i|i'm|i am|sorry|but i)\Z")

Grammar = Callable[..., float | Reason]
"""A way of reading a rating on a scale from `low` to `high`: a whole number."""


def option_number(text: str, count: int) -> int | Reason:
    """The number of the option, 1 to `count`, that a reply opens with.

    A reply that also names another option later has not chosen, nor has one that denies or doubts
    its own ("1 is incorrect", "1?"): it is UNPARSED.
    """
    words = " ".join(text.split())  # long runs of spaces would be costly to match
    if is_blank(words):
        return Reason.EMPTY
    match, options = _OPTION.match(words), {str(number) for number in range(1, count + 1)}
    if match is None or match[1] not in options or _DENIED.match(words, match.end()):
        return Reason.UNPARSED
    if options.intersection(_NUMBER.findall(words, match.end())) - {match[1]}:
        return Reason.UNPARSED
    return int(match[1])


def choice_text(text: str, choices: Sequence[str]) -> int | Reason:
    """The number, from 1, of the choice whose words a reply opens with, complete and in order.

    Case, white space, marks and a lead-in such as "The answer is" are ignored. Where one choice
    begins with the words of another, the longer one counts. A reply is UNPARSED where it also names
    another choice later, denies its own, or opens with words that two choices share.
    """
    if is_blank(text):
        return Reason.EMPTY
    plain = [_plain(choice) for choice in choices]
    words = _plain(text)
    own = _opening(words, plain)
    if own is None and (lead := _LEAD.match(words)):
        words = words[lead.end() :]
        own = _opening(words, plain)
    if own is None or plain.count(own) > 1:
        return Reason.UNPARSED
    rest = f"{words[len(own) :]} "
    if _DENIED.match(rest.rstrip()) or any(
        f" {choice} " in rest for choice in plain if choice != own
    ):
        return Reason.UNPARSED
    return plain.index(own) + 1


def is_refusal(text: str) -> bool:
    """Whether a reply opens by declining to answer: "I'm sorry", "I can't", "No, I cannot help"."""
    words = _plain(text)
    return bool(_REFUSAL.match(words) or _NO_BUT_REFUSED.match(words))


def listed_lines(text: str) -> tuple[str, ...]:
    """The lines of a reply that have a word, without a number, bullet or quotes around each."""
    lines = (_LIST_MARK.sub("", line).strip() for line in text.splitlines())
    return tuple(_QUOTED_LINE.sub(r"\1", line) for line in lines if re.search(r"\w", line))


def is_cut_no(text: str) -> bool:
    """Whether a truncated reply may be a no or the start of a refusal, as "No, I" may be."""
    return bool(_NO_I.match(_plain(text)))


def _opening(words: str, choices: Sequence[str]) -> str | None:
    opening = [choice for choice in choices if choice and f"{words} ".startswith(f"{choice} ")]
    return max(opening, key=len, default=None)


def _plain(text: str) -> str:
    """The words of a text in lower case, with single spaces and no marks between them."""
    straight = normalize("NFKC", text).casefold().replace("\u2019", "'")
    # Not by one pattern with an end of its own, which takes the square of a row of hyphens.
    runs = (run.rstrip("'-") for run in re.findall(r"[\w'-]+", straight))
    return " ".join(filter(None, runs))


def rating(text: str, *, low: int, high: int) -> float | Reason:
    """The `score` of the JSON object in a reply, which may have fences or prose around it.

    Of several objects with the same keys the last one counts. Where their keys differ, one may
    quote the rated text, so their scores must agree. A malformed object makes the whole reply
    UNPARSED, since what follows may be inside it. 4.0 is the whole number 4.
    """
    if is_blank(text):
        return Reason.EMPTY
    try:
        objects = [one for one in _objects(text) if "score" in one]
    except (ValueError, RecursionError):
        return Reason.UNPARSED
    scores = [_on_scale(one["score"], low, high) for one in objects]
    is_one_form = len({frozenset(one) for one in objects}) == 1
    return scores[-1] if scores and (is_one_form or len(set(scores)) == 1) else Reason.UNPARSED


def _objects(text: str) -> list[dict[str, Any]]:
    decoder = json.JSONDecoder(
        strict=False, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant
    )
    objects, start = [], text.find("{")
    while start >= 0:
        one, end = decoder.raw_decode(text, start)
        objects.append(one)
        start = text.find("{", end)
    return objects


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is given twice")
    return dict(pairs)


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _on_scale(value: object, low: int, high: int) -> float | Reason:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Reason.UNPARSED
    is_rating = low <= value <= high and float(value).is_integer()
    return float(value) if is_rating else Reason.UNPARSED


def stated_rating(text: str, *, low: int, high: int) -> float | Reason:
    """The rating that free text states: after its last "Rating:" or "Score:", or at its start.

    Without these labels the reply may also open or close with another one, as in "Coherence: 2".
    A number does not count if it is not whole, not on the scale, next to another number, or part of
    a sentence ("2 people agree"), of a sum or of a numbered list, or if a bracket next to it
    names another scale. A reply that also states another rating on the scale, or doubts its own,
    states none, and so does one whose last label is an echo: "asked me to write Rating: 5".
    """
    lines = (" ".join(line.split()) for line in re.sub(r"[*_`]+", "", text).splitlines())
    words = "\n".join(filter(None, lines))
    if is_blank(words):
        return Reason.EMPTY
    labels = list(_LABEL.finditer(words))
    if labels and _is_echo(words, labels):
        return Reason.UNPARSED
    if labels:
        match = _AFTER_LABEL.match(words, labels[-1].end())
    else:
        match = _OPENING.match(words) or _CLOSING.search(words)
    if match is None or match[2] not in (None, str(high)):
        return Reason.UNPARSED
    start = labels[-1].start() if labels else match.start()
    if _is_other(words, start, match, high) or (not labels and _is_listed(words, match)):
        return Reason.UNPARSED
    is_ended = _ENDED.match(words, match.end()) or (labels and _CAPITAL.match(words, match.end()))
    is_on_scale = match[1] in map(str, range(low, high + 1))
    found = float(match[1]) if is_on_scale else Reason.UNPARSED
    others = _OTHER.findall(_SCALE.sub(" ", words[match.end() :]))
    is_other = any(low <= float(other) <= high and float(other) != found for other in others)
    return found if is_ended and not is_other else Reason.UNPARSED


def _is_other(words: str, start: int, match: re.Match[str], high: int) -> bool:
    """Whether a number behind a label is no rating, or one on another scale."""
    behind = _BRACKET.match(words, match.end())
    tops = _TOP.findall(words[start : match.start(1)]) + _TOP.findall(behind[1] if behind else "")
    is_scaled = bool(tops) and max(tops, key=lambda top: (len(top), top)) != str(high)
    is_negated = _NEGATED.search(words, max(0, start - 60), start)
    is_asked = words.startswith("?", match.end())
    return bool(is_scaled or is_negated or is_asked or _SUM.match(words, match.end()))


def _is_echo(words: str, labels: Sequence[re.Match[str]]) -> bool:
    """Whether the last label is said by others, or in prose behind one with another number."""
    start = labels[-1].start()
    sentence = re.split(r"[.;!?]\s|\n", words[max(0, start - 200) : start])[-1]
    numbers = {match[1] for one in labels if (match := _AFTER_LABEL.match(words, one.end()))}
    is_prose = len(numbers) > 1 and not _CORRECTING.match(sentence)
    return bool(is_prose or _ECHOED.search(sentence))


def _is_listed(words: str, match: re.Match[str]) -> bool:
    """Whether the number that opens a reply counts an item, since a later line has the next."""
    item, after = _ITEM.match(words, match.end()), f"\n{int(match[1][:9]) + 1}"
    return bool(item and (f"{after}. " in words or f"{after}) " in words))


def first_digit(text: str) -> float | Reason:
    """The first digit after the last "rating:", else of the whole reply, whatever the scale.

    `parse_output` of Chiang and Lee (2023, "A Closer Look into Automatic Evaluation Using Large
    Language Models", meta_eval_summeval.py) reads replies like this: "2.5" is 2, "10" is 1, and so
    is a year its first digit; the mention "1-3" is ignored. Only for their replies, since it takes
    digits out of prose.
    """
    if is_blank(text):
        return Reason.EMPTY
    rest = text.lower().replace("\n", " ").replace("1-3", " ").rsplit("rating:", 1)[-1]
    if match := re.search("[0-9]", rest):
        return float(match[0])
    # Without one, a number in the digits of another script counts where it opens the rest.
    number = re.match(r" ?([\d.]+)", rest)
    try:
        value = float(number[1]) if number else nan
    except ValueError:
        value = nan
    return value if isfinite(value) else Reason.UNPARSED


STATED: Mapping[str, Grammar] = {
    "strict": stated_rating,
    "first_digit": lambda text, **_scale: first_digit(text),
}


def first_paragraph(text: str) -> str:
    """The answer up to its first blank line, not counting blank lines before it."""
    return re.split(r"\n[^\S\n]*\n", text.strip(), maxsplit=1)[0].strip()


_ANSWER = re.compile(r"^[ \t>#*_`]*answer[ \t]*[*_`]*[ \t]*:[*_`]*", re.IGNORECASE | re.MULTILINE)


def has_answer_line(text: str) -> bool:
    """Whether a line of the text begins with `Answer:`, whatever its case and marks of emphasis."""
    return bool(_ANSWER.search(text))


def answer_line(text: str) -> str:
    """What follows the last line that begins with `Answer:`, up to a blank line."""
    *before, last = _ANSWER.split(text.strip())
    return first_paragraph(last) if before or "\n" not in last else ""


POSTPROCESSORS: Mapping[str, Callable[[str], str]] = {
    "none": str.strip,
    "blank_line": first_paragraph,
    "lead_in": without_lead_in,
    "answer_line": answer_line,
}


def closing_yes_no(text: str) -> bool | Reason:
    """Whether a reply ends in a line that is yes or no and nothing else."""
    lines = [line.strip().strip("*_`\"'.! ").casefold() for line in text.splitlines()]
    words = [line for line in lines if line]
    if not words:
        return Reason.EMPTY
    return {"yes": True, "no": False}.get(words[-1], Reason.UNPARSED)
