"""Requests to Responses through Anthropic's API, one by one or in message batches."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from harness.core import Request, Response
from harness.models.client import batches, replies
from harness.models.client.endpoint import Endpoint
from harness.models.client.hosted import HostedModel
from harness.models.client.http import Connection, HttpError
from harness.models.client.retry import PermanentError, attach_usage
from harness.parts import UNCHARGED, Mode, Reason, digest
from harness.specs.models import AnthropicSpec

FORM = "reply"  # the name of the one tool that a reply in a given form is a call of
CUT = frozenset({"max_tokens", "model_context_window_exceeded"})
BATCHES = "/v1/messages/batches"
PROMPT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def message_body(request: Request, spec: AnthropicSpec) -> dict[str, Any]:
    """A request as the body of a message."""
    turns = [(m.role, m.content) for m in request.messages]
    body: dict[str, Any] = {
        "model": spec.model,
        "max_tokens": request.decoding.max_tokens + spec.reasoning_max_tokens,
        "messages": [{"role": role, "content": text} for role, text in turns if role != "system"],
    }
    if system := "\n\n".join(text for role, text in turns if role == "system"):
        body["system"] = system
    if spec.sends_temperature:
        body["temperature"] = request.decoding.temperature
    body |= spec.extra_body
    if request.schema is not None and spec.is_structured_output:
        if spec.form == "tool":
            tools = [{"name": FORM, "input_schema": dict(request.schema)}]
            return {"tools": tools, "tool_choice": {"type": "tool", "name": FORM}} | body
        form = {"type": "json_schema", "schema": _unbounded(request.schema)}
        body["output_config"] = {**(body.get("output_config") or {}), "format": form}
    return body


def _unbounded(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in schema.items() if name not in ("minimum", "maximum")}
    if "properties" in kept:
        kept["properties"] = {name: _unbounded(p) for name, p in kept["properties"].items()}
    return kept


class _Block(Struct):
    type: str
    text: str = ""
    name: str = ""
    input: dict[str, Any] | None = None


def read_reply(content: bytes, request: Request, server: Endpoint) -> Response:
    """The response in the body of a message, or why there is none."""
    body = replies.read_body(content, server)
    usage = replies.read_usage(
        body, *PROMPT, completion="output_tokens", reasoning="thinking_tokens"
    )
    with attach_usage(usage):
        blocks = replies.read_list(body, "content", _Block, server, least=0)
    text = "".join(block.text for block in blocks if block.type == "text")
    forms = [b.input for b in blocks if b.type == "tool_use" and b.name == FORM]
    if request.schema is not None and forms and forms[0] is not None:
        text = json.dumps(forms[0], ensure_ascii=False)
    stop, refusal, details = body.get("stop_reason"), None, body.get("stop_details")
    if stop == "refusal":
        why = details.get("explanation") if isinstance(details, dict) else None
        refusal = "the model refused (stop_reason refusal)"
        refusal += f": {why}" if isinstance(why, str) else ""
    stop = replies.bounded(stop) if isinstance(stop, str) else None
    stop = "length" if stop in CUT else stop
    return replies.response_of(
        replies.Reply(text, usage, replies.read_served(body), stop, refusal=refusal),
        request,
        server,
    )


def is_filtered(words: str) -> bool:
    """Whether an error's words say that a filter held the answer, or the prompt, back."""
    return "content filtering policy" in words.lower()


class AnthropicModel(HostedModel[AnthropicSpec]):
    """A model behind Anthropic's API, or a server that speaks its language."""

    kind = "anthropic"
    models_path = "/v1/models"
    modes = frozenset({Mode.GENERATE})
    rate_limits = frozenset({429, 529})
    is_one_by_one = True

    def _identity_parts(self) -> list[str]:
        spec, parts = self.spec, [self.kind, self.spec.model]
        if spec.extra_body or not spec.sends_temperature:
            parts.append(f"body={digest((spec.extra_body, spec.sends_temperature))[:12]}")
        parts += [] if spec.is_structured_output else ["unstructured"]
        parts += [] if spec.form == "tool" else [f"form={spec.form}"]
        parts += [f"reasoning={spec.reasoning_max_tokens}"] if spec.reasoning_max_tokens else []
        return parts

    @property
    def headers(self) -> dict[str, str]:
        """The headers that carry the key."""
        key = self.server.key
        return {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}

    def is_filtered(self, error: HttpError) -> bool:
        """Whether an error says that a filter held the prompt or the answer back."""
        return is_filtered(error.words)

    def _remedy(self, error: HttpError, words: str, *, has_form: bool) -> str | None:
        if error.status == 400:
            if "credit balance" in words:
                return "see the account's credit, then repeat the command"
            if has_form and ("tool" in words or "output_config" in words):
                settings = "form: schema or is_structured_output: false"
                return f"if it cannot be made to, set {settings} for {self.model!r}"
            if "temperature" in words:
                return f"or set sends_temperature: false for {self.model!r}"
        return super()._remedy(error, words, has_form=has_form)

    @property
    def _hint(self) -> str:
        address = self.server.address
        cut = address.removesuffix("/v1")  # the paths have it
        return "" if cut == address else f" to {cut}, without /v1, which is put behind it"

    async def _reply(self, connection: Connection, request: Request) -> Response:
        body = message_body(request, self.spec)
        content = await connection.request("POST", "/v1/messages", body)
        return read_reply(content, request, self.server)


class _Batch(Struct):
    id: str
    processing_status: str
    request_counts: dict[str, int]
    archived_at: str | None = None


class AnthropicBatches(batches.BatchServer[AnthropicSpec]):
    """The message batches of the account of an Anthropic model.

    Limits from Anthropic's guide "Batch processing": 100,000 requests or 256 MB.
    """

    kind = "anthropic"
    most_entries, most_bytes = 100_000, 256_000_000

    def path(self, request: Request) -> str | None:
        """The path of messages."""
        return "/v1/messages" if request.mode is Mode.GENERATE else None

    def entry(self, request: Request, name: str) -> bytes:
        """A message with its name."""
        params = message_body(request, self.hosted.spec)
        return json.dumps({"custom_id": name, "params": params}).encode()

    def submit(self, entries: Sequence[bytes], *, path: str, nonce: str) -> str:
        """Submit a batch."""
        body = b'{"requests": [' + b",".join(entries) + b"]}"
        return self.ask_for(_Batch, "POST", BATCHES, body).id

    def status(self, name: str) -> batches.BatchStatus:
        """The progress of a batch."""
        path = f"{BATCHES}/{quote(name, safe='')}"
        batch = self.ask_for(_Batch, "GET", path)
        if batch.archived_at is not None:
            until = self._server.quote(batch.archived_at)
            raise batches.BatchExpired(f"its results were kept until {until}")
        counts, word = batch.request_counts, self._server.quote(batch.processing_status)
        total = sum(counts.values())
        done = total - counts.get("processing", 0)
        # Not from where the server says that they are: the key would go there.
        results = (f"{path}/results",)
        return batches.BatchStatus(word, word == "ended", done, total, results)

    def response(self, line: batches.BatchLine, request: Request) -> Response:
        """The response in one result."""
        result = line.result or {}
        if result.get("type") == "succeeded":
            return read_reply(json.dumps(result.get("message")).encode(), request, self._server)
        error = result.get("error")
        words = batches.words_of(error.get("error") if isinstance(error, dict) else None)
        reason = Reason.FILTERED if is_filtered(words) else Reason.FAILED
        message = self._server.quote(f"in a batch: {result.get('type')}: {words}")
        raise PermanentError(reason, message, usage=UNCHARGED)
