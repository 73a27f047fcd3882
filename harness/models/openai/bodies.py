"""Requests to bodies of OpenAI-compatible calls; bodies of replies and errors to what they mean.

What cannot be read raises RetryableError where another attempt may help, else PermanentError.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from msgspec import Struct

from harness.core import Request, Response
from harness.models.client import replies
from harness.models.client.endpoint import Endpoint
from harness.models.client.retry import PermanentError, RetryableError, attach_usage, merge
from harness.parts import Mode, Reason, Usage, vector_fault
from harness.specs.models import OpenAISpec

# Codes of errors that say that a filter held a prompt or an answer back.
POLICY_CODES = frozenset(
    {
        *("bio_policy", "content_filter", "content_policy_violation", "data_inspection_failed"),
        *("invalid_prompt", "misalignment_policy_violation", "moderation_blocked"),
        "ResponsibleAIPolicyViolation",
    }
)
# Servers' words, in small letters, for a reply that the model or its settings ended.
ENDED = frozenset(
    {
        *("stop", "eos", "eos_token", "stop_sequence", "end_turn", "complete", "normal"),
        *("tool_calls", "tool_use", "function_call", "repetition"),
    }
)
CUT = frozenset({"length", "max_tokens", "model_length", "model_context_window_exceeded"})
FILTER_STOPS = frozenset({"content_filter", "safety", "sensitive"})
IGNORES_N = "the server ignores n; set sends_n: false in the model's YAML"
LEAST_TOKENS = 16  # the API refuses a smaller max_output_tokens
PASSING = frozenset({"server_error", "rate_limit_exceeded"})
UNFINISHED = frozenset({"queued", "in_progress", "cancelled"})


class _Message(Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(Struct):
    message: _Message
    index: int | None = None
    finish_reason: str | None = None


class _Part(Struct):
    type: str
    text: str = ""
    refusal: str = ""


class _Item(Struct):
    type: str
    content: Any = None
    phase: str | None = None


class _Output(Struct):
    output: list[_Item] = []
    status: str | None = None
    error: dict[str, Any] | None = None
    incomplete_details: dict[str, Any] | None = None


def path_of(request: Request, spec: OpenAISpec) -> str:
    """Where a request for texts or vectors goes, below the server's address."""
    if request.mode is Mode.EMBED:
        return "/embeddings"
    return "/responses" if spec.api == "responses" else "/chat/completions"


def body_of(request: Request, model: str, spec: OpenAISpec) -> dict[str, Any]:
    """A request for texts or vectors as the body of a call."""
    if request.mode is Mode.EMBED:
        text = "\n".join(message.content for message in request.messages)
        return {"model": model, "input": text, "encoding_format": "float"} | spec.extra_body
    is_chat, decoding = spec.api == "chat", request.decoding
    turns = [{"role": m.role, "content": m.content} for m in request.messages]
    body: dict[str, Any] = {"model": model, "messages" if is_chat else "input": turns}
    tokens = decoding.max_tokens + spec.reasoning_max_tokens
    if spec.sends_temperature:
        body["temperature"] = decoding.temperature
    form = None
    if request.schema is not None and spec.is_structured_output:
        form = {"name": "reply", "strict": True, "schema": dict(request.schema)}
    if is_chat:
        body[spec.token_field] = tokens
        body |= {"reasoning_effort": spec.reasoning_effort} if spec.reasoning_effort else {}
        body |= {"n": decoding.n} if decoding.n > 1 else {}
        body |= {"seed": decoding.seed} if decoding.seed is not None and spec.sends_seed else {}
        wrapped = {"type": "json_schema", "json_schema": form}
        return body | ({"response_format": wrapped} if form else {}) | spec.extra_body
    body |= {"max_output_tokens": max(LEAST_TOKENS, tokens), "store": False}
    body |= {"reasoning": {"effort": spec.reasoning_effort}} if spec.reasoning_effort else {}
    if form:
        own = spec.extra_body.get("text") or {}
        body["text"] = {**own, "format": {"type": "json_schema", **form}}
    return {**spec.extra_body, **body}


def read_response(
    content: bytes, request: Request, server: Endpoint, *, spec: OpenAISpec
) -> Response:
    """The response in the body of a reply with texts or a vector, or why there is none."""
    body = replies.read_body(content, server)
    if request.mode is Mode.EMBED:
        return _read_vector(body, request, server)
    if spec.api == "responses":
        return replies.response_of(_read_output(body, server), request, server)
    return read_chat(body, request, server)


def read_chat(body: Mapping[str, Any], request: Request, server: Endpoint) -> Response:
    """The response in the body of a chat completion, or why there is none."""
    usage, served, count = replies.read_usage(body), replies.read_served(body), request.decoding.n
    with attach_usage(usage):
        choices = replies.read_list(body, "choices", _Choice, server)
        if len(choices) < count:
            fact = f"{count} answers were asked for and {len(choices)} came: {IGNORES_N}"
            raise PermanentError(Reason.FAILED, fact)
    choices.sort(key=lambda choice: choice.index or 0)
    found = [
        replies.response_of(_read_choice(choice, usage, served), request, server)
        for choice in choices[:count]
    ]
    return found[0] if count == 1 else replace(merge(request, found), usage=usage)


def _read_choice(choice: _Choice, usage: Usage, served: str | None) -> replies.Reply:
    word, message = (choice.finish_reason or "stop").lower(), choice.message
    is_known = word in ENDED | CUT | FILTER_STOPS
    return replies.Reply(
        *(message.content or "", usage, served),
        stop="length" if word in CUT else choice.finish_reason,
        is_filtered=word in FILTER_STOPS,
        refusal=message.refusal or None,
        unended=None if is_known else f"finish_reason {choice.finish_reason}",
    )


def _read_vector(body: Mapping[str, Any], request: Request, server: Endpoint) -> Response:
    # Servers report no completion tokens here, and there are none.
    usage = Usage(replies.read_usage(body).prompt_tokens, 0)
    with attach_usage(usage):
        entry = replies.read_list(body, "data", dict[str, Any], server)[0]
        vector = replies.read_as(tuple[float, ...], entry.get("embedding"), what="an embedding")
        if fault := vector_fault(vector):
            raise PermanentError(Reason.FAILED, f"the vector of {len(vector)} numbers is {fault}")
    return Response(request.key, vectors=(vector,), usage=usage, served=replies.read_served(body))


def _read_output(body: Mapping[str, Any], server: Endpoint) -> replies.Reply:
    """What a reply of the responses API says."""
    usage = replies.read_usage(body, "input_tokens", completion="output_tokens")
    with attach_usage(usage):
        if body.get("status") != "failed":
            replies.read_list(body, "output", object, server, least=0)
        read = replies.read_as(
            _Output, {**body, "output": body.get("output") or []}, what="a response"
        )
        if read.status == "failed" or read.status in UNFINISHED:
            raise _error_of(read, server)
        # Without a model's thoughts and its remarks on the way.
        items = [i for i in read.output if i.type == "message" and i.phase != "commentary"]
        contents = [replies.read_as(list[_Part], i.content or [], what="a response") for i in items]
    parts = [part for content in contents for part in content]
    why_cut = (read.incomplete_details or {}).get("reason")
    is_cut, is_filtered = why_cut == "max_output_tokens", why_cut == "content_filter"
    is_unended = read.status == "incomplete" and not is_cut
    return replies.Reply(
        *("".join(part.text for part in parts if part.type == "output_text"), usage),
        served=replies.read_served(body),
        stop="length" if is_cut else "stop",
        is_filtered=is_filtered,
        refusal=next((part.refusal for part in parts if part.type == "refusal"), "") or None,
        unended=f"incomplete: {why_cut}" if is_unended else None,
    )


def _error_of(read: _Output, server: Endpoint) -> Exception:
    code, why = ((read.error or {}).get(name) for name in ("code", "message"))
    words = server.quote(f"{code or read.status}: {why or 'it does not say why'}")
    message = f"{server.address} did not answer: {words}"
    if str(code) in PASSING:
        return RetryableError(message)
    if read.status != "failed":
        message += "; leave background out of extra_body"
    reason = Reason.FILTERED if str(code) in POLICY_CODES else Reason.FAILED
    return PermanentError(reason, message)


def is_filtered(problem: Mapping[str, Any]) -> bool:
    """Whether an error says, in any dialect we know, that a filter held the prompt back."""
    inner, metadata = problem.get("innererror"), problem.get("metadata")
    codes = codes_of(problem) | (codes_of(inner) if isinstance(inner, dict) else set())
    has_input = isinstance(metadata, dict) and "flagged_input" in metadata
    return bool(codes & POLICY_CODES) or has_input


def codes_of(problem: Mapping[str, Any]) -> set[str]:
    """The code and the type of an error."""
    return {str(problem.get("code")), str(problem.get("type"))}
