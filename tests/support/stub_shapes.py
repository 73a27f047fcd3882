"""What a stub server answers in the shape of OpenAI's responses API.

Pure. Texts and faults come from the script, as for the other APIs. It is as strict as the API in
what it takes: a field of another API, or too small a room for a reply, is a 400 in the body.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from support.stub_script import Reply, Script, Shape, as_json, digest_of, prompt_of

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


# What a fault changes in the one result of a reply.
RESULTS: Mapping[str, dict[str, Any]] = {
    "nan-score": {"category_scores": {"hate": float("nan")}},
    "text-score": {"category_scores": {"hate": "high"}},
    "null-category": {"categories": {"hate": False, "illicit": None}},
    "flag-alone": {"flagged": False, "categories": {"hate": False, "violence": True}},
    "many-categories": {"category_scores": {f"c{number}": 0.5 for number in range(300)}},
    "escaped-category": {"category_scores": {"\x1b[2J": 0.5}},
    "long-category": {"categories": {"c" * 900: True}},
    "bare-flag": {"categories": {}, "category_scores": {}},
}


def moderation(script: Script, asked: dict[str, Any], fault: str) -> dict[str, Any]:
    is_flagged = "FLAG" in asked["input"]
    result = {
        "flagged": is_flagged,
        "categories": {"hate": is_flagged, "violence": False},
        "category_scores": {"hate": 0.91 if is_flagged else 0.02, "violence": 0.25},
    }
    body: dict[str, Any] = {"id": "modr-stub", "model": f"{asked['model']}-2024"}
    results = [] if fault == "no-results" else [result | RESULTS.get(fault, {})]
    return body | {"results": results}


MODERATION_SHAPES: Mapping[str, Shape] = {"/v1/moderations": moderation}


KINDS: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
HIDDEN = {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}

# What a fault changes in a message; what of its content, given the text it would have had.
MESSAGES: Mapping[str, dict[str, Any]] = {
    "refusal": {"stop_reason": "refusal", "content": []},
    "length": {"stop_reason": "max_tokens"},
    "thought-away": {
        "stop_reason": "max_tokens",
        "content": [HIDDEN],
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
    "thinking": {"content": [HIDDEN, {"type": "text", "text": "In short: "}]},
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
