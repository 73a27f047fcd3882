"""How choices are answered: by log-probability, by the likeliest next tokens, or in writing.

Each way has a column of its own, named in `decoding`. Pure: a task that a model cannot answer is
refused here, before the first call.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import structs

from harness.errors import SpecError
from harness.parts import Mode
from harness.specs.tasks import DecodingSpec, TaskSpec, VariantSpec

AnswerMode = Literal["logprob", "top_logprobs", "written"]
MODES: Mapping[AnswerMode, Mode] = {
    "logprob": Mode.CHOOSE,
    "top_logprobs": Mode.CHOOSE_TOKEN,
    "written": Mode.GENERATE,
}
_WHAT = {
    "logprob": "tell the log-probability of any choice",
    "top_logprobs": "tell the log-probabilities of the likeliest next tokens",
    "written": "write answers",
}
SCORED = (Mode.CHOOSE, Mode.CHOOSE_TOKEN)


def with_mode(
    task: TaskSpec, modes: frozenset[Mode], wanted: AnswerMode | None, *, model: str
) -> TaskSpec:
    """The task as a model with these modes is asked: exactly where it can, as `wanted` if told.

    An answer in writing is never the way unless it is asked for.
    """
    if not task.has_choices:
        if wanted is not None:
            raise SpecError(f"--answers {wanted} is for tasks with choices; leave it out")
        if Mode.GENERATE not in modes:
            raise SpecError(f"model {model} writes no answers; name one that does")
        return task
    able = [way for way, mode in MODES.items() if mode in modes]
    way = wanted or next((way for way in able if way != "written"), None)
    if way is None or way not in able:
        raise SpecError(f"model {model} cannot {_WHAT[way or 'logprob']}; {_remedy(able)}")
    mode = MODES[way]
    return structs.replace(
        task, mode=mode, variants={n: _asked(v, mode) for n, v in task.variants.items()}
    )


def decoding_label(task: TaskSpec, decoding: DecodingSpec) -> str:
    """The name in tables of how answers are drawn: T0.3, or the way choices are answered."""
    if task.has_choices:
        return next(way for way, mode in MODES.items() if mode == task.mode)
    return f"T{decoding.temperature:g}"


def _remedy(able: Sequence[AnswerMode]) -> str:
    """What works: other ways of this model, in a column of their own, or other models."""
    others = "a model of kind transformers or vllm, or a server that echoes log-probabilities"
    if not able:
        return f"what works: {others}"
    ways = f"--answers {' or '.join(able)}, in a column of its own"
    return f"what works: {ways}" if "logprob" in able else f"what works: {ways}; or {others}"


def _asked(variant: VariantSpec, mode: Mode) -> VariantSpec:
    """A variant without the steps that only log-probabilities have a use for."""
    if mode is not Mode.GENERATE:
        return variant
    return structs.replace(
        variant, steps=tuple(step for step in variant.steps if not step.is_unconditional)
    )
