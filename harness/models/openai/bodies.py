"""Requests to bodies of OpenAI-compatible calls; bodies of replies and errors to what they mean.

Chat completions, embeddings and the responses API, whose calls give one reply each. Pure: what
cannot be read raises RetryableError where another attempt may help, else PermanentError.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import Struct

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.client import replies
from harness.models.client.endpoint import Endpoint
from harness.models.client.hosted import passing_error
from harness.models.client.http import HttpError
from harness.models.client.replies import (
    endless,
    error_in,
    merge,
    no_answer,
    read_as,
    read_json,
    read_object,
    read_served,
    truncated,
)
from harness.models.client.retry import PermanentError, RetryableError, attach_usage
from harness.parts import UNCHARGED, Reason, Usage, vector_fault
from harness.specs.models import OpenAISpec
from harness.text.cleanup import repair_surrogates

POLICY_CODES = frozenset(
    {
        *("bio_policy", "content_filter", "content_policy_violation", "data_inspection_failed"),
        *("invalid_prompt", "misalignment_policy_violation", "moderation_blocked"),
        "ResponsibleAIPolicyViolation",
    }
)
"""Codes of errors that say that a filter held a prompt or an answer back."""
ENDED = frozenset(
    {
        *("stop", "eos", "eos_token", "stop_sequence", "end_turn", "complete", "normal"),
        *("tool_calls", "tool_use", "function_call", "repetition"),
    }
)
"""Servers' words, in small letters, for a reply that the model or its settings ended."""
CUT = frozenset({"length", "max_tokens", "model_length", "model_context_window_exceeded"})
FILTER_STOPS = frozenset({"content_filter", "safety", "sensitive"})
IGNORES_N = "the server ignores n; set sends_n: false in the model's YAML"
LEAST_TOKENS = 16
"""The API refuses a smaller max_output_tokens."""
PASSING = frozenset({"server_error", "rate_limit_exceeded"})
UNFINISHED = frozenset({"queued", "in_progress", "cancelled"})
OURS = "of the responses API"
NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
ONE_ALONE = "only one completion choice"
"""What llama.cpp said with status 500 before it knew n."""
NOT_TAKEN = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter"})
SETTINGS: Mapping[str, str] = {
    "logprobs": "choices: none",
    "n": "sends_n: false",
    "max_tokens": "token_field: max_completion_tokens",
    "max_completion_tokens": "token_field: max_tokens",
    "reasoning": "another reasoning_effort, or none",
    "reasoning.effort": "another reasoning_effort, or none",
    "reasoning_effort": "another reasoning_effort, or none",
    "response_format": "is_structured_output: false",
    "seed": "sends_seed: false",
    "temperature": "sends_temperature: false",
    "text.format": "is_structured_output: false",
    "top_logprobs": "choices: none",
}
"""By the field that a model does not take: the setting of its YAML that leaves the field out."""


class TooFewRepliesError(Exception):
    """Fewer replies came than were asked for; `response` is the failure, with its usage."""

    def __init__(self, response: Response) -> None:
        """Keep what is to be stored."""
        super().__init__(response.failure.message if response.failure else IGNORES_N)
        self.response = response


class _Message(Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(Struct):
    message: _Message
    index: int | None = None
    finish_reason: str | None = None


class _Embedding(Struct):
    embedding: tuple[float, ...]


def read_usage(usage: object) -> Usage:
    """The token counts of a chat completion or an embedding."""
    return replies.read_usage(usage, "prompt_tokens")


def chat_body(request: Request, model: str, spec: OpenAISpec) -> dict[str, Any]:
    """A request for texts as the body of a chat completion."""
    decoding = request.decoding
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        spec.token_field: decoding.max_tokens + spec.reasoning_max_tokens,
    }
    if spec.reasoning_effort is not None:
        body["reasoning_effort"] = spec.reasoning_effort
    if spec.sends_temperature:
        body["temperature"] = decoding.temperature
    if decoding.n > 1:
        body["n"] = decoding.n
    if decoding.seed is not None and spec.sends_seed:
        body["seed"] = decoding.seed
    if request.schema is not None and spec.is_structured_output:
        form = {"name": "reply", "strict": True, "schema": dict(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    return body | spec.extra_body


def embedding_body(request: Request, model: str, spec: OpenAISpec) -> dict[str, Any]:
    """A request for a vector as the body of an embedding."""
    text = "\n".join(message.content for message in request.messages)
    return {"model": model, "input": text, "encoding_format": "float"} | spec.extra_body


def read_reply(content: bytes, request: Request, server: Endpoint) -> Response:
    """The response in the body of a chat completion, or why there is none."""
    body = read_object(content, server, key="choices", usage_of=read_usage)
    usage, served = read_usage(body.get("usage")), read_served(body)
    with attach_usage(usage):
        choices = read_as(list[_Choice], body["choices"], what="a chat completion")
    count = request.decoding.n
    if len(choices) < count:
        fact = f"{count} answers were asked for and {len(choices)} came: {IGNORES_N}"
        response = no_answer(request, Reason.FAILED, fact, usage=usage, served=served)
        raise TooFewRepliesError(response)
    choices.sort(key=lambda choice: choice.index or 0)
    paid = Response(request.key, ("",), usage=usage, served=served)
    answers = [_read_choice(choice, request, server, paid=paid) for choice in choices[:count]]
    if count == 1:
        return answers[0]
    return replace(merge(request, answers), usage=usage)


def _read_choice(
    choice: _Choice, request: Request, server: Endpoint, *, paid: Response
) -> Response:
    """One reply; `paid` has what all replies of a call share: usage and snapshot."""
    stop = (choice.finish_reason or "stop").lower()
    text = repair_surrogates(choice.message.content or "")
    failure = partial(no_answer, request, usage=paid.usage, served=paid.served)
    if too_long := endless(text, request, server, usage=paid.usage, served=paid.served):
        return too_long
    if stop in FILTER_STOPS:
        return failure(Reason.FILTERED, "the answer was held back by a content filter")
    if choice.message.refusal:
        return failure(Reason.REFUSED, server.quote(choice.message.refusal))
    if stop not in ENDED | CUT:
        fact = f"the answer did not come to its end (finish_reason {choice.finish_reason})"
        return failure(Reason.FAILED, server.quote(fact))
    if stop in CUT and not text:
        return truncated(request, usage=paid.usage, served=paid.served)
    return replace(paid, texts=(text,), stop="length" if stop in CUT else choice.finish_reason)


def read_vector(content: bytes, request: Request, server: Endpoint) -> Response:
    """The response in the body of an embedding: one vector that is not all zeros."""
    body = read_object(content, server, key="data", usage_of=read_usage)
    # Servers report no completion tokens here, and there are none.
    usage = Usage(read_usage(body.get("usage")).prompt_tokens, 0)
    with attach_usage(usage):
        vector = read_as(_Embedding, body["data"][0], what="an embedding").embedding
        if fault := vector_fault(vector):
            raise PermanentError(Reason.FAILED, f"the vector of {len(vector)} numbers is {fault}")
    return Response(request.key, vectors=(vector,), usage=usage, served=read_served(body))


class _Part(Struct):
    type: str
    text: str = ""
    refusal: str = ""


class _Item(Struct):
    type: str
    content: Any = None
    phase: str | None = None


class _Body(Struct):
    output: list[_Item] = []
    status: str | None = None
    error: dict[str, Any] | None = None
    incomplete_details: dict[str, Any] | None = None


def response_body(request: Request, model: str, spec: OpenAISpec) -> dict[str, Any]:
    """A request as the body of a call of the responses API, which knows neither seed nor n."""
    most_tokens = request.decoding.max_tokens + spec.reasoning_max_tokens
    body: dict[str, Any] = {
        "model": model,
        "input": [{"role": m.role, "content": m.content} for m in request.messages],
        "max_output_tokens": max(LEAST_TOKENS, most_tokens),
        "store": False,
    }
    if spec.sends_temperature:
        body["temperature"] = request.decoding.temperature
    if spec.reasoning_effort is not None:
        body["reasoning"] = {"effort": spec.reasoning_effort}
    if request.schema is not None and spec.is_structured_output:
        form = {"name": "reply", "strict": True, "schema": dict(request.schema)}
        text = spec.extra_body.get("text") or {}
        body["text"] = {**text, "format": {"type": "json_schema", **form}}
    return {**spec.extra_body, **body}


def read_response(content: bytes, request: Request, server: Endpoint) -> Response:
    """The response in the body of a reply of the responses API, or why there is none."""
    body = _output_of(content, server)
    served = read_served(body)
    usage = replies.read_usage(body.get("usage"), "input_tokens", completion="output_tokens")
    read = read_as(_Body, {**body, "output": body.get("output") or []}, what=OURS)
    why_cut = (read.incomplete_details or {}).get("reason")
    with attach_usage(usage):
        if read.status == "failed" or read.status in UNFINISHED:
            raise _error_of(read, server)
        # Without a model's thoughts and its remarks on the way.
        messages = [i for i in read.output if i.type == "message" and i.phase != "commentary"]
        items = messages if why_cut != "content_filter" else []
        parts = [
            part for item in items for part in read_as(list[_Part], item.content or [], what=OURS)
        ]
    failure = partial(no_answer, request, usage=usage, served=served)
    if why_cut == "content_filter":
        return failure(Reason.FILTERED, "the answer was held back by a content filter")
    if refusal := next((part.refusal for part in parts if part.type == "refusal"), None):
        return failure(Reason.REFUSED, server.quote(refusal))
    text = "".join(part.text for part in parts if part.type == "output_text")
    if too_long := endless(text, request, server, usage=usage, served=served):
        return too_long
    is_cut = why_cut == "max_output_tokens"
    if read.status == "incomplete" and not is_cut:
        fact = f"the answer did not come to its end (incomplete: {why_cut})"
        return failure(Reason.FAILED, server.quote(fact))
    if is_cut and not text:
        return truncated(request, usage=usage, served=served)
    return Response(
        key=request.key,
        texts=(repair_surrogates(text),),
        stop="length" if is_cut else "stop",
        usage=usage,
        served=served,
    )


def _output_of(content: bytes, server: Endpoint) -> dict[str, Any]:
    body = read_json(content, server)
    if not isinstance(body, dict):
        raise RetryableError(f"{server.address} sent no output")
    if not isinstance(body.get("output"), list) and body.get("status") != "failed":
        raise RetryableError(f"{server.address} sent no output{error_in(body, server)}")
    return body


def _error_of(read: _Body, server: Endpoint) -> Exception:
    code, why = ((read.error or {}).get(name) for name in ("code", "message"))
    words = server.quote(f"{code or read.status}: {why or 'it does not say why'}")
    message = f"{server.address} did not answer: {words}"
    if str(code) in PASSING:
        return RetryableError(message)
    if str(code) in POLICY_CODES:
        return PermanentError(Reason.FILTERED, message)
    if read.status != "failed":
        message += "; leave background out of extra_body"
    return PermanentError(Reason.FAILED, message)


def status_error(error: HttpError, server: Endpoint, *, model: str, has_form: bool) -> Exception:
    """Our error for an HTTP status and the code in the reply's body."""
    body, status = error.problem, error.status
    words = server.quote(str(body.get("message") or error.text))
    message = f"{server.address} answered {status}: {words}"
    if status < 500 and is_filtered(body):
        return PermanentError(Reason.FILTERED, message, usage=UNCHARGED)
    if status == 429 and NO_CREDIT & _codes(body):
        return ModelError(f"{message}; see the account's limits, then repeat the command")
    if ONE_ALONE in words.lower():
        return ModelError(f"{message}; set sends_n: false for {model!r}")
    if passing := passing_error(error, message):
        return passing
    setting = SETTINGS.get(str(body.get("param"))) if NOT_TAKEN & _codes(body) else None
    if status in (400, 422) and setting:
        return ModelError(f"{message}; set {setting} for {model!r}")
    if has_form and status in (400, 422):
        message += f"; if it knows no JSON schemas, set is_structured_output: false for {model!r}"
        named = f"{words} {body.get('param')}"
        if "response_format" in named or "text.format" in named:
            return ModelError(message)
    if remedy := _remedies(error, server, model=model).get(status):
        return ModelError(f"{message}; {remedy}")
    return PermanentError(Reason.FAILED, message, usage=UNCHARGED)


def _remedies(error: HttpError, server: Endpoint, *, model: str) -> dict[int, str]:
    """What to do, by HTTP status, if another request would fail in the same way."""
    remedies = server.remedies(model, hint=server.hint)
    if error.path.endswith("/responses"):
        remedies |= dict.fromkeys((404, 405, 501), f"{remedies[404]}, or set api: chat")
    elif "v1/responses" in error.text:
        remedies |= dict.fromkeys((400, 404), f"set api: responses for {model!r}")
    return remedies


def is_filtered(body: Mapping[str, Any]) -> bool:
    """Whether an error says, in any dialect we know, that a filter held the prompt back."""
    inner, metadata = body.get("innererror"), body.get("metadata")
    codes = _codes(body) | (_codes(inner) if isinstance(inner, dict) else set())
    return bool(codes & POLICY_CODES) or (
        isinstance(metadata, dict) and "flagged_input" in metadata
    )


def _codes(body: Mapping[str, Any]) -> set[str]:
    return {str(body.get("code")), str(body.get("type"))}
