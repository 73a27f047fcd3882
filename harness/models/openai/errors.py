"""Exceptions of OpenAI's client library to our errors: retry, failure, or the end of the run.

Nothing here calls a server or retries.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.errors import ModelError
from harness.models.client.endpoint import Endpoint
from harness.models.client.retry import PermanentError
from harness.models.client.transport import ClientLibrary, connection_error, passing_error
from harness.parts import UNCHARGED, Reason

if TYPE_CHECKING:
    import openai

LIBRARY = ClientLibrary("openai", "OpenAI")
NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
FILTERED = frozenset(
    {
        *("bio_policy", "content_filter", "content_policy_violation", "data_inspection_failed"),
        *("invalid_prompt", "misalignment_policy_violation", "moderation_blocked"),
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
"""By the field that a model does not take: the setting of its YAML that leaves the field out."""


def translate_error(
    error: Exception, server: Endpoint, *, model: str, has_form: bool = False
) -> Exception:
    """An exception of openai, or of aiohttp below it, as one of our errors.

    `has_form` says that the server was asked to hold the reply to a JSON schema.
    """
    import openai

    if isinstance(error, openai.APIStatusError):
        return _status_error(error, server, model=model, has_form=has_form)
    message = f"{server.address}: {server.quote(str(error))}"
    if isinstance(error, openai.ContentFilterFinishReasonError):
        return PermanentError(Reason.FILTERED, message)
    if isinstance(error, openai.LengthFinishReasonError):
        return PermanentError(Reason.FAILED, message)
    return connection_error(error, server, library=LIBRARY, model=model)


def _status_error(
    error: "openai.APIStatusError", server: Endpoint, *, model: str, has_form: bool
) -> Exception:
    """Our error for an HTTP status and the code in the reply's body."""
    body = error.body if isinstance(error.body, dict) else {}
    words = server.quote(str(body.get("message") or error.message))
    message = f"{server.address} answered {error.status_code}: {words}"
    if error.status_code < 500 and is_filtered(body):
        return PermanentError(Reason.FILTERED, message, usage=UNCHARGED)
    if error.status_code == 429 and NO_CREDIT & _codes(body):
        return ModelError(f"{message}; see the account's limits, then repeat the command")
    if ONE_ALONE in words.lower():
        return ModelError(f"{message}; set sends_n: false for {model!r}")
    if passing := passing_error(error, message):
        return passing
    if error.status_code in (400, 422) and (setting := _setting(body)):
        return ModelError(f"{message}; set {setting} for {model!r}")
    if has_form and error.status_code in (400, 422):
        message += f"; if it knows no JSON schemas, set is_structured_output: false for {model!r}"
        named = f"{words} {body.get('param')}"
        if "response_format" in named or "text.format" in named:
            return ModelError(message)
    if remedy := _remedies(error, server, model=model).get(error.status_code):
        return ModelError(f"{message}; {remedy}")
    return PermanentError(Reason.FAILED, message, usage=UNCHARGED)


def _remedies(error: "openai.APIStatusError", server: Endpoint, *, model: str) -> dict[int, str]:
    """What to do, by HTTP status, where another request would fail in the same way."""
    remedies = server.remedies(model, hint=server.hint)
    path = error.request.url.path if hasattr(error, "request") else ""
    if path.endswith("/responses"):
        remedies |= dict.fromkeys((404, 405, 501), f"{remedies[404]}, or set api: chat")
    elif "v1/responses" in error.message:
        remedies |= dict.fromkeys((400, 404), f"set api: responses for {model!r}")
    return remedies


def _setting(body: Mapping[str, Any]) -> str | None:
    """The setting of the model's YAML that leaves out a field which the model does not take."""
    return SETTINGS.get(str(body.get("param"))) if NOT_TAKEN & _codes(body) else None


def is_filtered(body: Mapping[str, Any]) -> bool:
    """Whether an error says, in any dialect we know, that a filter held the prompt back."""
    inner, metadata = body.get("innererror"), body.get("metadata")
    codes = _codes(body) | (_codes(inner) if isinstance(inner, dict) else set())
    return bool(codes & FILTERED) or (isinstance(metadata, dict) and "flagged_input" in metadata)


def _codes(body: Mapping[str, Any]) -> set[str]:
    return {str(body.get("code")), str(body.get("type"))}
