"""What a model's YAML may add to the bodies of its requests, and what each request says itself.

`check_body` refuses in `extra_body` what each request decides itself: else prices, budgets and
signatures would describe a request that was never sent.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

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
    **dict.fromkeys(("tools", "tool_choice"), _NO_TOOLS),
    "stream": _WHOLE,
}
_OPENAI: Mapping[str, str] = {
    **_ALL,
    "best_of": _TIMES,
    "encoding_format": "not at all: vectors are read as numbers",
    **dict.fromkeys(("functions", "function_call"), _NO_TOOLS),
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
    """Refuse further fields that no JSON can hold, or that are the request's own."""
    try:
        json.dumps(extra, allow_nan=False)
    except (TypeError, ValueError) as error:  # .nan, .inf, a date
        fact = f"extra_body cannot be sent ({error})"
        raise ValueError(f"{fact}; write finite numbers, texts, true, false and null") from error
    nested = {name: value for name, value in extra.items() if isinstance(value, dict)}
    inner = {f"{name}.{part}" for name, value in nested.items() for part in value}
    belongs = _BELONGS[api]
    if found := sorted(belongs.keys() & (extra.keys() | inner)):
        places = "; ".join(f"{name} ({belongs[name]})" for name in found)
        fact = "extra_body would override what each request says"
        raise ValueError(f"{fact}; leave out, and set instead: {places}")
