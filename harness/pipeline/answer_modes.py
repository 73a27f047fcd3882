"""How choices are answered: by log-probability, by the likeliest next tokens, or in writing.

Each mode has a column of its own in tables, under its name. Pure: a task that a model cannot
answer is refused here, before the first call.
"""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import structs

from harness.errors import SpecError
from harness.parts import Mode
from harness.specs.tasks import DecodingSpec, TaskSpec, VariantSpec

SCORED = (Mode.CHOOSE, Mode.CHOOSE_TOKEN)


class AnswerMode(StrEnum):
    """A way of answering choices, as options and tables name it; exact ones come first."""

    LOGPROB = "logprob"
    TOP_LOGPROBS = "top_logprobs"
    WRITTEN = "written"

    @property
    def mode(self) -> Mode:
        """What a model is asked for."""
        return _MODES[self][0]

    @property
    def ability(self) -> str:
        """What a model must be able to do, after `can`."""
        return _MODES[self][1]


_MODES = {
    AnswerMode.LOGPROB: (Mode.CHOOSE, "tell the log-probability of any choice"),
    AnswerMode.TOP_LOGPROBS: (
        Mode.CHOOSE_TOKEN,
        "tell the log-probabilities of the likeliest next tokens",
    ),
    AnswerMode.WRITTEN: (Mode.GENERATE, "write answers"),
}


def with_mode(
    task: TaskSpec, modes: frozenset[Mode], wanted: AnswerMode | None, *, model: str
) -> TaskSpec:
    """The task as a model with these modes is asked: as `wanted`, or as exactly as it can.

    Answers in writing are taken only where they are wanted.
    """
    if not task.has_choices:
        if wanted is not None:
            raise SpecError(f"--answers {wanted} is for tasks with choices; leave it out")
        if Mode.GENERATE not in modes:
            raise SpecError(f"model {model} writes no answers; name one that does")
        return task
    able = [part for part in AnswerMode if part.mode in modes]
    chosen = wanted or next((part for part in able if part is not AnswerMode.WRITTEN), None)
    if chosen is None or chosen not in able:
        ability = (chosen or AnswerMode.LOGPROB).ability
        raise SpecError(f"model {model} cannot {ability}; {_remedy(able)}")
    variants = {name: _asked(spec, chosen) for name, spec in task.variants.items()}
    return structs.replace(task, mode=chosen.mode, variants=variants)


def decoding_label(task: TaskSpec, decoding: DecodingSpec) -> str:
    """The name in tables of how answers are drawn: T0.3, or how choices are answered."""
    if task.has_choices:
        return str(next(part for part in AnswerMode if part.mode is task.mode))
    return f"T{decoding.temperature:g}"


def _remedy(able: Sequence[AnswerMode]) -> str:
    """What works: other ways of this model, in a column of their own, or other models."""
    others = "a model of kind transformers or vllm, or a server that echoes log-probabilities"
    if not able:
        return f"what works: {others}"
    ways = f"--answers {' or '.join(able)}, in a column of its own"
    is_exact = AnswerMode.LOGPROB in able
    return f"what works: {ways}" if is_exact else f"what works: {ways}; or {others}"


def _asked(variant: VariantSpec, chosen: AnswerMode) -> VariantSpec:
    if chosen is not AnswerMode.WRITTEN:
        return variant
    steps = tuple(step for step in variant.steps if not step.is_unconditional)
    return structs.replace(variant, steps=steps)
