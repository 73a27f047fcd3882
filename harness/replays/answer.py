"""What a layout finds in a file: an answer somebody else's model gave, and to what."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.parts import Message


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The texts one prompt was answered with; `fields` and `group` say about which sample.

    `place` is the file and item, as errors name it.
    """

    place: str
    fields: Mapping[str, str]
    group: str
    variant: str
    messages: tuple[Message, ...]
    texts: tuple[str, ...]
