"""Pure text to a value, or to the reason why there is none.

One small anchored function a grammar. Nothing here searches prose for a lone letter, evaluates
text, or guesses; what does not follow the grammar is unparsed.
"""

import re
from collections.abc import Callable, Mapping

from harness.parts import Reason

# An optional lead-in, an optional opening mark, then the number; "1.5", "12" and "1st" are others.
_OPTION = re.compile(
    r"(?:(?:the )?(?:answer|option|choice|response)(?: is)?)? ?[:#]? ?(?:option ?)?"
    r"[*_`\"'(\[]{0,3}([0-9]+)(?![^\W_]|[.,][0-9])",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![0-9.,])([0-9]+)(?![0-9]|[.,][0-9])")


def option_number(text: str, count: int) -> int | Reason:
    """The option, 1 to `count`, that a reply opens with.

    A reply that goes on to name another option has not chosen: it is unparsed.
    """
    words = " ".join(text.split())  # long runs of spaces would be costly to match
    if not words:
        return Reason.EMPTY
    match, options = _OPTION.match(words), {str(number) for number in range(1, count + 1)}
    if match is None or match[1] not in options:
        return Reason.UNPARSED
    if options.intersection(_NUMBER.findall(words, match.end())) - {match[1]}:
        return Reason.UNPARSED
    return int(match[1])


def whole(text: str) -> str:
    """The answer as it stands, without surrounding white space."""
    return text.strip()


def first_paragraph(text: str) -> str:
    """The answer up to its first blank line; blank lines before it do not count."""
    return re.split(r"\n[^\S\n]*\n", text.strip(), maxsplit=1)[0].strip()


CUTS: Mapping[str, Callable[[str], str]] = {"none": whole, "blank_line": first_paragraph}
