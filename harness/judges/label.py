"""The label of a judge: its name, the model it asks in place of its own, and a mark.

Printed as `choice`, `choice/beta` or `choice/beta:swapped`.
"""

from dataclasses import dataclass
from typing import Final, Self

_THROUGH: Final = "/"
_SWAPPED: Final = ":swapped"


@dataclass(frozen=True, slots=True)
class JudgeLabel:
    """What a judge is called: the name of its YAML, and what differs from the YAML.

    `model` is the one asked in place of the judge's own, None for its own. `is_swapped` says that
    it reads each answer under another sample.
    """

    name: str
    model: str | None = None
    is_swapped: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """The label that is printed so."""
        plain = text.removesuffix(_SWAPPED)
        name, _, model = plain.partition(_THROUGH)
        return cls(name, model or None, is_swapped=plain != text)

    def __str__(self) -> str:
        """The label as files, tables and the command line have it."""
        model = f"{_THROUGH}{self.model}" if self.model else ""
        return f"{self.name}{model}{_SWAPPED if self.is_swapped else ''}"
