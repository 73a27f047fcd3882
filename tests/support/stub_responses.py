"""What a stub server answers in the shape of OpenAI's responses API.

Pure. Texts and faults come from the script, as for the other APIs. It is as strict as the API in
what it takes: a field of another API, or too small a room for a reply, is a 400 in the body.
"""

from collections.abc import Mapping
from typing import Any

from support.stub_script import Script, Shape, digest_of, prompt_of

KNOWN = {"input", "max_output_tokens", "model", "reasoning", "store", "stream"}
KNOWN |= {"temperature", "text", "top_p"}
THOUGHT = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "c2VjcmV0"}

# What a fault changes in a reply.
REPLIES: Mapping[str, dict[str, Any]] = {
    "content-filter": {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
    "length": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
    "steered": {"status": "incomplete", "incomplete_details": {"reason": "steered"}},
    "unfinished": {"status": "incomplete", "incomplete_details": None},
    "reasoned-away": {
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [THOUGHT],
        "usage": {
            "input_tokens": 2,
            "output_tokens": 64,
            "output_tokens_details": {"reasoning_tokens": 64},
        },
    },
    "failed-server": {
        "status": "failed",
        "error": {"code": "server_error", "message": "The server had an error."},
    },
    "failed-rate": {
        "status": "failed",
        "output": None,
        "error": {"code": "rate_limit_exceeded", "message": "Slow down."},
    },
    "failed-policy": {
        "status": "failed",
        "error": {"code": "invalid_prompt", "message": "Flagged as possibly violating."},
    },
    "failed-image": {
        "status": "failed",
        "error": {"code": "image_parse_error", "message": "No image."},
    },
    "failed-mute": {"status": "failed", "error": None},
    "queued": {"status": "queued", "output": []},
    "cancelled": {"status": "cancelled"},
    "empty": {"output": []},
    "thought-only": {"output": [THOUGHT]},
    "null": {"output": None},
    "usage-null": {"usage": None},
    "usage-odd": {"usage": {"input_tokens": "many"}},
    "usage-bare": {
        "usage": {"input_tokens": 2, "output_tokens": 6, "output_tokens_details": "none"}
    },
    "bare": {"status": None, "usage": None, "model": None},
}

# What a fault makes of the parts of a message.
PARTS: Mapping[str, list[dict[str, Any]]] = {
    "refusal": [{"type": "refusal", "refusal": "I would rather not say."}],
    "half-refusal": [
        {"type": "output_text", "text": "Well, "},
        {"type": "refusal", "refusal": "I would rather not say."},
    ],
    "not-text": [{"type": "output_text", "text": {"parts": [1, 2]}}],
    "huge": [{"type": "output_text", "text": "so " * 3_500_000}],
    "surrogate": [{"type": "output_text", "text": "half an emoji: \ud83d"}],
    "parts": [{"type": "output_text", "text": "The "}, {"type": "output_text", "text": "end."}],
}


def responses_answer(script: Script, asked: dict[str, Any], fault: str) -> dict[str, Any]:
    """The body of a reply: a thought, then a message."""
    if unknown := set(asked) - KNOWN:
        return {"error": {"message": f"Unknown parameter: {sorted(unknown)[0]!r}."}}
    if asked["max_output_tokens"] < 16 or asked["store"] is not False:
        return {"error": {"message": "Invalid 'max_output_tokens' or 'store'."}}
    text = script.text(prompt_of(asked), digest_of({**asked, "stream": False}))
    parts = PARTS.get(fault, [{"type": "output_text", "text": text, "annotations": []}])
    output = [THOUGHT, message(parts)]
    if fault == "commentary":
        remark = [{"type": "output_text", "text": "Let me see."}]
        output.insert(0, message(remark) | {"phase": "commentary"})
    if fault == "tool":
        output.insert(1, {"type": "function_call", "arguments": "{}", "content": "odd"})
    usage: dict[str, Any] = {"input_tokens": len(prompt_of(asked).split()), "output_tokens": 9}
    usage["output_tokens_details"] = {"reasoning_tokens": 3}
    body = {"id": "resp_1", "object": "response", "status": "completed", "model": asked["model"]}
    body |= {"output": output, "usage": usage, "error": None, "incomplete_details": None}
    return body | REPLIES.get(fault, {})


def message(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": parts}


RESPONSES_SHAPES: Mapping[str, Shape] = {"/v1/responses": responses_answer}
