"""What `extra_body` in a model's YAML may not say: the fields that each request decides itself.

Such a field would override the request: prices, budgets and signatures would then describe a
request that was never sent.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from harness.specs.schema import Spec

_DRAWN = "the decoding in the YAML of the task or judge"
_ROOM = f"max_tokens of {_DRAWN}, reasoning_max_tokens here"
_TIMES = "replies of the judge's YAML, sends_n here"
_FORM = "is_structured of the judge's YAML, or is_structured_output here"
_WHOLE = "not at all: replies are read whole"
_NO_TOOLS = "not at all: answers are texts"
_PROMPTS = "prompts/ of your folder"

_ALL: Mapping[str, str] = {
    "model": "model here",
    "messages": _PROMPTS,
    "max_tokens": _ROOM,
    "temperature": f"temperature of {_DRAWN}, sends_temperature here",
    "tools": _NO_TOOLS,
    "tool_choice": _NO_TOOLS,
    "stream": _WHOLE,
}
_OPENAI: Mapping[str, str] = {
    **_ALL,
    "best_of": _TIMES,
    "encoding_format": "not at all: vectors are read as numbers",
    "functions": _NO_TOOLS,
    "function_call": _NO_TOOLS,
    "logprobs": "choices here",
    "max_completion_tokens": f"{_ROOM}, or token_field",
    "n": _TIMES,
    "prompt": _PROMPTS,
    "response_format": _FORM,
    "seed": "--seed, sends_seed here",
    "stop": "cut of the task's YAML",
    "stream_options": _WHOLE,
    "top_logprobs": "choices here",
}
_RESPONSES: Mapping[str, str] = {
    **_OPENAI,
    "input": _PROMPTS,
    "instructions": _PROMPTS,
    "max_output_tokens": _ROOM,
    "store": "not at all: nothing is kept by the server",
    "text.format": _FORM,
}
_ANTHROPIC: Mapping[str, str] = {
    **_ALL,
    "output_config.format": _FORM,
    "stop_sequences": "cut of the task's YAML",
    "system": _PROMPTS,
}
_BELONGS: Mapping[str, Mapping[str, str]] = {
    "chat": {**_OPENAI, "input": _PROMPTS, "max_output_tokens": _ROOM},
    "responses": _RESPONSES,
    "anthropic": _ANTHROPIC,
}


def check_body(extra: Mapping[str, Any], api: Literal["chat", "responses", "anthropic"]) -> None:
    """Refuse further fields of a request that are its own, with where each belongs."""
    inner = {
        f"{name}.{part}"
        for name, value in extra.items()
        if isinstance(value, dict)
        for part in value
    }
    belongs = _BELONGS[api]
    if found := sorted(belongs.keys() & (extra.keys() | inner)):
        places = "; ".join(f"{name} ({belongs[name]})" for name in found)
        fact = "extra_body would override what each request says"
        raise ValueError(f"{fact}; leave out, and set instead: {places}")


Usd = Annotated[float, Meta(ge=0)]


class PriceSpec(Spec, frozen=True, kw_only=True):
    """US dollars a million tokens of one model; null where no price was read.

    `read` is the day it stood at `source`. `batch_share` is what a call costs in a batch, as a
    share of its price by itself.
    """

    input_usd: Usd | None = None
    output_usd: Usd | None = None
    batch_share: Annotated[float, Meta(gt=0, le=1)] | None = None
    read: str | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        values = (self.input_usd, self.output_usd, self.read, self.source)
        if len({value is None for value in values}) > 1:
            raise ValueError("give input_usd, output_usd, read and source, or none of them")


class PricesSpec(Spec, frozen=True, kw_only=True):
    """Prices by the name a provider calls a model by."""

    about: str = ""
    prices: dict[str, PriceSpec] = field(default_factory=dict)
