"""What the client library of OpenAI raises to what it amounts to: asked again, missing, or the end.

The one place where such an error is read. Nothing here asks or retries.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from harness.errors import ModelError
from harness.models.client.endpoint import Endpoint
from harness.models.client.retry import PermanentError, RetryableError, retry_after_seconds
from harness.models.client.transport import describe, usage_of
from harness.parts import UNCHARGED, Reason

if TYPE_CHECKING:
    import aiohttp
    import openai

PASSING = frozenset({408, 409, 425, 429})
NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
FILTERED = frozenset(
    {
        "bio_policy",
        "content_filter",
        "content_policy_violation",
        "data_inspection_failed",
        "invalid_prompt",
        "misalignment_policy_violation",
        "moderation_blocked",
        "ResponsibleAIPolicyViolation",
    }
)
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
"""By the field that a model does not take: what its YAML can say instead."""


def translated(
    error: "openai.OpenAIError | aiohttp.ClientError",
    server: Endpoint,
    *,
    model: str,
    has_form: bool = False,
) -> Exception:
    """What an exception of the client library amounts to: Transient, Refused or ModelError.

    So does one of aiohttp's, below it, that it has no name for. `has_form` says that the server
    was asked to hold the reply to a JSON schema.
    """
    import aiohttp
    import openai

    if isinstance(error, openai.APIStatusError):
        return _of_status(error, server, model=model, has_form=has_form)
    is_below = isinstance(error, aiohttp.ClientError)
    message = f"{server.address}: {server.told(describe(error))}"
    if is_below or isinstance(error, openai.APIConnectionError | openai.APIResponseValidationError):
        return RetryableError(message, usage=usage_of(error))
    if isinstance(error, openai.ContentFilterFinishReasonError):
        return PermanentError(Reason.FILTERED, message)
    if isinstance(error, openai.LengthFinishReasonError):
        return PermanentError(Reason.FAILED, message)
    return ModelError(f"{message}; see the settings of model {model}")


def _of_status(
    error: "openai.APIStatusError", server: Endpoint, *, model: str, has_form: bool
) -> Exception:
    """What an HTTP status, and the code in its body, amount to."""
    body = error.body if isinstance(error.body, dict) else {}
    told = server.told(str(body.get("message") or error.message))
    message = f"{server.address} answered {error.status_code}: {told}"
    if error.status_code < 500 and is_filtered(body):
        return PermanentError(Reason.FILTERED, message, usage=UNCHARGED)
    if error.status_code == 429 and NO_CREDIT & _codes(body):
        return ModelError(f"{message}; see the account's limits, then repeat the command")
    if ONE_ALONE in told.lower():
        return ModelError(f"{message}; set sends_n: false for {model!r}")
    if error.status_code in PASSING or error.status_code >= 500:
        retry_after = error.response.headers.get("retry-after")
        wait_s = retry_after_seconds(retry_after, datetime.now(UTC))
        is_turned_away = error.status_code == 429
        return RetryableError(message, wait_s, is_turned_away=is_turned_away, usage=UNCHARGED)
    if error.status_code in (400, 422) and (setting := _setting(body)):
        return ModelError(f"{message}; set {setting} for {model!r}")
    if has_form and error.status_code in (400, 422):
        message += f"; if it knows no JSON schemas, set is_structured_output: false for {model!r}"
        named = f"{told} {body.get('param')}"
        if "response_format" in named or "text.format" in named:
            return ModelError(message)
    if remedy := _remedies(error, server, model=model).get(error.status_code):
        return ModelError(f"{message}; {remedy}")
    return PermanentError(Reason.FAILED, message, usage=UNCHARGED)


def _remedies(error: "openai.APIStatusError", server: Endpoint, *, model: str) -> dict[int, str]:
    """By status, what to do where another request would fare no better."""
    found = {
        401: server.key_remedy,
        402: "see the account's credit, then repeat the command",
        403: f"check that the key in {server.key_env} may use model {model!r}"
        if server.key_env
        else server.key_remedy,
        404: f"check that there is a model {model!r}, or {server.remedy}{server.hint}",
    }
    path = error.request.url.path if hasattr(error, "request") else ""
    if path.endswith("/responses"):
        found |= dict.fromkeys((404, 405, 501), f"{found[404]}, or set api: chat")
    elif "v1/responses" in error.message:
        found |= dict.fromkeys((400, 404), f"set api: responses for {model!r}")
    return found


def _setting(body: Mapping[str, Any]) -> str | None:
    """What the model's YAML can say where the model does not take a field."""
    return SETTINGS.get(str(body.get("param"))) if NOT_TAKEN & _codes(body) else None


def is_filtered(body: Mapping[str, Any]) -> bool:
    """Whether an error says that a filter held the prompt back, in the dialects we know."""
    inner, metadata = body.get("innererror"), body.get("metadata")
    codes = _codes(body) | (_codes(inner) if isinstance(inner, dict) else set())
    return bool(codes & FILTERED) or (isinstance(metadata, dict) and "flagged_input" in metadata)


def _codes(body: Mapping[str, Any]) -> set[str]:
    """What an error calls itself."""
    return {str(body.get("code")), str(body.get("type"))}
