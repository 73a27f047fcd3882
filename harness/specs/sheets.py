"""What the YAML of a sheet may say: how people rate answers, in which steps they label texts."""

from typing import Annotated, Literal

from msgspec import Meta, field

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
    a set; likewise) or `choices` (each next to the field sentence). `item` shows a sample as people
    read it, and `question` asks of its answer; both are Jinja templates, which see the sample's
    fields and the references in `shows`, one text a line. The marks of the `scale` are its rubric.
    Raters read `guide` before they begin, then the scale and `fill`, in which {marks} are what they
    may write.
    """

    about: str
    of: Literal["answers", "pairs", "rankings", "sentences", "choices"] = "answers"
    item: str
    question: str
    scale: Annotated[tuple[MarkSpec, ...], Meta(min_length=2)]
    shows: tuple[str, ...] = ()
    guide: str = ""
    fill: str = (
        "Write {marks} into the last column of each row. Leave it blank where you cannot say. "
        "Change nothing else."
    )

    def __post_init__(self) -> None:
        values = [mark.value for mark in self.scale]
        words = [mark.text.casefold() for mark in self.scale]
        if len(set(values)) < len(values) or len(set(words)) < len(words):
            fact = f"two marks of `scale` are alike ({', '.join(words)})"
            raise ValueError(f"{fact}; give each a value and, if any, a word of its own")


class StepLabel(Spec, frozen=True, kw_only=True):
    """One label that people may give in a step, and in plain words what it `means`."""

    word: Annotated[str, Meta(pattern=r"^[^\s;,](?:[^;,]*[^\s;,])?$")]
    means: str


class AnnotationStep(Spec, frozen=True, kw_only=True):
    """One step of labelling a text; `name` is its column.

    It is taken where the earlier steps of `when` were given one of these labels. With
    `is_several` any number of labels may be given, else one.
    """

    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*$")]
    question: str
    labels: Annotated[tuple[StepLabel, ...], Meta(min_length=2)]
    when: dict[str, tuple[str, ...]] = field(default_factory=dict)
    is_several: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The labels, as people write them."""
        return tuple(label.word for label in self.labels)

    @property
    def condition(self) -> str:
        """In words, when the step is taken."""
        return " and ".join(f"{name} is {' or '.join(words)}" for name, words in self.when.items())


class AnnotationSpec(Spec, frozen=True, kw_only=True):
    """In which steps people label texts, each after those that it depends on.

    People read `guide` before they begin.
    """

    about: str
    steps: Annotated[tuple[AnnotationStep, ...], Meta(min_length=1)]
    guide: str = ""

    def __post_init__(self) -> None:
        known: dict[str, tuple[str, ...]] = {}
        for step in self.steps:
            if step.name in known or step.name in ("row", "text", "coder", "annotator"):
                raise ValueError(f"step {step.name!r}: the name is taken; give another")
            if len({word.casefold() for word in step.words}) < len(step.words):
                raise ValueError(f"step {step.name!r}: two labels are alike; rename one")
            for name, words in step.when.items():
                if unknown := [word for word in words if word not in known.get(name, ())]:
                    raise ValueError(
                        f"step {step.name!r}: `when` names {name}: {unknown[0]}, which no earlier "
                        "step has"
                    )
            known[step.name] = step.words
