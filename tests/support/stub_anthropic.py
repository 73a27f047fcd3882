"""What a stub server answers in Anthropic's shape: messages, forms filled in, errors.

Pure. Texts and faults come from the script, as for the other APIs.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from support.stub_script import Reply, Script, Shape, as_json, digest_of, prompt_of

KINDS: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}

# What a fault changes in a message; what of its content, given the text it would have had.
MESSAGES: Mapping[str, dict[str, Any]] = {
    "refusal": {"stop_reason": "refusal", "content": []},
    "length": {"stop_reason": "max_tokens"},
    "thought-away": {
        "stop_reason": "max_tokens",
        "content": [THOUGHT],
        "usage": {
            "input_tokens": 2,
            "output_tokens": 64,
            "output_tokens_details": {"thinking_tokens": 64},
        },
    },
    "window": {"stop_reason": "model_context_window_exceeded"},
    "empty": {"content": []},
    "null": {"content": None},
    "not-text": {"content": [{"type": "text", "text": {"parts": [1, 2]}}]},
    "surrogate": {"content": [{"type": "text", "text": "half an emoji: \ud83d"}]},
    "huge": {"content": [{"type": "text", "text": "so " * 3_500_000}]},
    "thinking": {"content": [THOUGHT, {"type": "text", "text": "In short: "}]},
    "other-tool": {"content": [{"type": "tool_use", "id": "t", "name": "other", "input": {}}]},
    "usage-null": {"usage": None},
    "usage-odd": {"usage": {"input_tokens": "many"}},
    "cached": {
        "usage": {
            "input_tokens": 2,
            "cache_creation_input_tokens": 30,
            "cache_read_input_tokens": 400,
            "output_tokens": 6,
        }
    },
}


def anthropic_answer(script: Script, asked: dict[str, Any], fault: str) -> dict[str, Any]:
    """The body of a message; where a tool must be called, a call with the text as its input."""
    text = script.text(prompt_of(asked), digest_of(asked))
    content: list[dict[str, Any]] = [{"type": "text", "text": text}]
    tool = (asked.get("tool_choice") or {}).get("name")
    if tool is not None and fault != "untooled":
        filled = json.loads(text) if text.startswith("{") else {"text": text}
        content = [{"type": "tool_use", "id": "toolu_1", "name": tool, "input": filled}]
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"]}
    body |= {"content": content, "stop_reason": "tool_use" if tool else "end_turn"}
    words = len(prompt_of(asked).split())
    body |= {"stop_sequence": None, "usage": {"input_tokens": words, "output_tokens": 6}}
    body |= MESSAGES.get(fault, {})
    if fault == "thinking":
        body["content"] = [*body["content"], *content]
    return body


def as_anthropic(reply: Reply) -> Reply:
    if reply.status < 400:
        return reply
    told = json.loads(reply.body)["error"]["message"]
    error = {"type": KINDS.get(reply.status, "api_error"), "message": told}
    body = as_json(reply.status, {"type": "error", "error": error, "request_id": "req_1"}).body
    return replace(reply, body=body)


ANTHROPIC_SHAPES: Mapping[str, Shape] = {"/v1/messages": anthropic_answer}
