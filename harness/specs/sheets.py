"""What the YAML of a rating sheet may say: what people see of a sample, and what they are asked."""

from typing import Annotated, Literal

from msgspec import Meta

from harness.specs.schema import Spec


class MarkSpec(Spec, frozen=True, kw_only=True):
    """One mark of a scale: the number it counts as, and in plain words what it `means`.

    Raters write the `word`, such as yes, or without one the `value`.
    """

    value: float
    means: str
    word: Annotated[str, Meta(pattern=r"^[^\s=]+$")] | None = None

    @property
    def text(self) -> str:
        """What raters write."""
        return self.word or f"{self.value:g}"


class SheetSpec(Spec, frozen=True, kw_only=True):
    """How people rate the answers to the task of the same name, or sentences of a file.

    `of` says what a row asks of: `answers` of runs; or of a file `pairs` (fields implicit and
    explicit), `rankings` (whole sets of graded sentences; field topic), `sentences` (each of such
    a set; likewise) or `choices` (each beside the field sentence). `item` shows a sample as people
    read it, and `question` asks of its answer; both are Jinja templates, which see the sample's
    fields and the references in `shows`, one text a line. The marks of the `scale` are its rubric.
    Raters read `guide` before they begin.
    """

    about: str
    of: Literal["answers", "pairs", "rankings", "sentences", "choices"] = "answers"
    item: str
    question: str
    scale: Annotated[tuple[MarkSpec, ...], Meta(min_length=2)]
    shows: tuple[str, ...] = ()
    guide: str = ""

    def __post_init__(self) -> None:
        values = [mark.value for mark in self.scale]
        words = [mark.text.casefold() for mark in self.scale]
        if len(set(values)) < len(values) or len(set(words)) < len(words):
            raise ValueError(
                f"two marks of `scale` are alike ({', '.join(words)}); give each a value and, if "
                "any, a word of its own"
            )
