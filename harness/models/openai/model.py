"""Requests to Responses through any OpenAI-compatible server, or its moderation endpoint."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote

from msgspec import Struct, field

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models import labels
from harness.models.client import replies
from harness.models.client.batches import BatchLine, BatchRecord, BatchServer, BatchStatus, words_of
from harness.models.client.hosted import HostedModel
from harness.models.client.http import Connection, HttpError
from harness.models.client.retry import PermanentError, attach_usage
from harness.models.openai import bodies
from harness.models.openai.choices import score_choices
from harness.parts import UNCHARGED, Mode, Reason, digest
from harness.specs.models import ModerationSpec, OpenAISpec

CHOICES: Mapping[str, frozenset[Mode]] = {
    "none": frozenset(),
    "echo": frozenset({Mode.CHOOSE}),
    "top_logprobs": frozenset({Mode.CHOOSE_TOKEN}),
}
MOST_CATEGORIES = 100
BATCH_ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
ONE_ALONE = "only one completion choice"  # what llama.cpp said with status 500 before it knew n
NOT_TAKEN = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter"})
_Spec = TypeVar("_Spec", OpenAISpec, ModerationSpec)


class OpenAIServed(HostedModel[_Spec]):
    """A model behind an OpenAI-compatible server: how it is given the key, and words errors."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers that carry the key."""
        return {"Authorization": f"Bearer {key}"} if (key := self.server.key) else {}

    def is_filtered(self, error: HttpError) -> bool:
        """Whether an error says that a filter held the prompt or the answer back."""
        return error.status < 500 and bodies.is_filtered(error.problem)

    def _remedy(self, error: HttpError, words: str, *, has_form: bool) -> str | None:
        status, param, model = error.status, str(error.problem.get("param")), repr(self.model)
        codes = bodies.codes_of(error.problem)
        if status == 429 and NO_CREDIT & codes:
            return "see the account's limits, then repeat the command"
        if ONE_ALONE in words.lower():
            return f"set sends_n: false for {model}"
        if status in (400, 422) and NOT_TAKEN & codes:
            return f"leave {param} out by a setting in the YAML of {model} (docs/models.md)"
        if has_form and status in (400, 422):
            named = f"{words} {param}"
            if "response_format" in named or "text.format" in named:
                return f"if it knows no JSON schemas, set is_structured_output: false for {model}"
        if error.path.endswith("/responses") and status in (404, 405, 501):
            missing = f"check that there is a model {model}, or {self.server.remedy}{self._hint}"
            return f"{missing}, or set api: chat"
        if "v1/responses" in error.text and status in (400, 404):
            return f"set api: responses for {model}"
        return super()._remedy(error, words, has_form=has_form)


class OpenAIModel(OpenAIServed[OpenAISpec]):
    """A model behind an OpenAI-compatible server."""

    kind = "openai"
    other_ways = "set api: chat and `choices` for log-probabilities, or kind: transformers or vllm"

    def __init__(self, name: str, spec: OpenAISpec, environ: Mapping[str, str]) -> None:
        """Keep the arguments."""
        super().__init__(name, spec, environ)
        self._auto: dict[str, Any] = {}
        self.is_one_by_one = spec.is_one_by_one

    @property
    def modes(self) -> frozenset[Mode]:
        """Texts and vectors, and the choices that the YAML says the server can score."""
        choices = self.spec.choices if self.spec.api == "chat" else "none"
        return frozenset({Mode.GENERATE, Mode.EMBED}) | CHOICES[choices]

    @property
    def model(self) -> str:
        """The model's name in a request; for `auto`, the name that the server lists."""
        if self.spec.model == "auto":
            _ = self.identity  # a bug before it is resolved
        return str(self._auto.get("id", self.spec.model))

    def _identity_parts(self) -> list[str]:
        spec = self.spec
        if spec.model == "auto":
            self._auto = self._only_model()
        name, root = str(self._auto.get("id", spec.model)), self._auto.get("root")
        parts = [self.kind, name] + ([] if root in (None, name) else [f"root={root}"])
        if spec.extra_body or not (spec.sends_temperature and spec.sends_seed):
            sent = (spec.extra_body, spec.sends_temperature, spec.sends_seed)
            parts.append(f"body={digest(sent)[:12]}")
        parts += [] if spec.is_structured_output else ["unstructured"]
        parts += [] if spec.api == "chat" else [f"api={spec.api}"]
        parts += [f"effort={spec.reasoning_effort}"] if spec.reasoning_effort else []
        parts += [f"reasoning={spec.reasoning_max_tokens}"] if spec.reasoning_max_tokens else []
        return parts + ([] if spec.sends_n else ["n=1"])

    def _only_model(self) -> dict[str, Any]:
        """The one model that the server lists."""
        server, listed = self.server, self.listed()
        if isinstance(listed, Exception):
            hint = self._hint if isinstance(listed, HttpError) and listed.status == 404 else ""
            fact = f"{server.address} does not list its models ({server.quote(str(listed))}){hint}"
            raise ModelError(f"{fact}; {server.remedy}, or name the model instead of auto")
        names = [str(entry.get("id")) for entry in listed]
        lengths = [len(str(entry.get(key, ""))) for entry in listed for key in ("id", "root")]
        if len(names) != 1 or max(lengths) > replies.LONGEST_NAME:
            raise ModelError(
                f"model: auto needs a server of exactly one model, of a name up to "
                f"{replies.LONGEST_NAME} characters; {server.address} has {len(names)}: "
                f"{server.quote(', '.join(sorted(names))) or 'none'}; name the one that is meant"
            )
        self._is_checked = True
        return listed[0]

    def _remedy(self, error: HttpError, words: str, *, has_form: bool) -> str | None:
        has_form = has_form and self.spec.is_structured_output
        return super()._remedy(error, words, has_form=has_form)

    async def _reply(self, connection: Connection, request: Request) -> Response:
        if request.mode in (Mode.CHOOSE, Mode.CHOOSE_TOKEN):
            return await score_choices(connection, request, self)
        spec, body = self.spec, bodies.body_of(request, self.model, self.spec)
        if spec.api == "responses" and request.mode is Mode.GENERATE:
            body["stream"] = False  # some servers stream here unless asked not to
        content = await connection.request("POST", bodies.path_of(request, spec), body)
        return bodies.read_response(content, request, self.server, spec=spec)


class _Result(Struct):
    """The result for one text; a category that does not apply may be None."""

    flagged: bool
    categories: dict[str, bool | None] = field(default_factory=dict)
    category_scores: dict[str, float | None] = field(default_factory=dict)


class ModerationModel(labels.TextLabeller, OpenAIServed[ModerationSpec]):
    """The moderation endpoint of OpenAI, or of a server that answers as it does."""

    kind = "moderation"
    refusals: ClassVar[frozenset[int]] = frozenset()  # a key for moderation alone may list nothing

    def __init__(
        self,
        name: str,
        spec: ModerationSpec,
        questions: labels.LabelQuestions,
        environ: Mapping[str, str],
    ) -> None:
        """Keep the arguments."""
        super().__init__(name, spec, environ)
        self._questions = questions
        self._negative = labels.other_label(questions.labels, spec.positive, model=name)

    def _labelled(self, asked: Sequence[labels.LabelQuestion]) -> Iterator[Response]:
        return OpenAIServed.answer(self, [question.request for question in asked])

    def _identity_parts(self) -> list[str]:
        return [self.kind, self.spec.model, f"positive={self.spec.positive}"]

    async def _reply(self, connection: Connection, request: Request) -> Response:
        question = self._questions.question(request)
        sent = {"model": self.spec.model, "input": question.text}
        body = replies.read_body(
            await connection.request("POST", "/moderations", sent), self.server
        )
        with attach_usage(replies.read_usage(body)):
            result = replies.read_list(body, "results", _Result, self.server)[0]
        scores = {n: score for n, score in result.category_scores.items() if score is not None}
        categories = {*result.categories, *scores}  # each is a metric of the tables
        most = replies.LONGEST_NAME
        is_odd = any(len(name) > most or not name.isprintable() for name in categories)
        if is_odd or len(categories) > MOST_CATEGORIES or not all(map(isfinite, scores.values())):
            fact = f"the reply has more than {MOST_CATEGORIES} categories, or odd names or scores"
            raise PermanentError(Reason.FAILED, fact)
        is_flagged = result.flagged or any(result.categories.values())
        label = self.spec.positive if is_flagged else self._negative
        flags = {n: float(is_on) for n, is_on in result.categories.items() if is_on is not None}
        numbers = scores | {labels.FLAGGED.format(name): flag for name, flag in flags.items()}
        return replace(labels.chosen(question, label, numbers), served=replies.read_served(body))


class _File(Struct):
    id: str


class _Batch(Struct):
    id: str
    status: str
    created_at: float = 0.0
    metadata: dict[str, str] | None = None
    request_counts: dict[str, int] | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: dict[str, Any] | None = None


NONCE = "harness_nonce"  # the key of our name for a batch in its metadata
CLOCK_S = 24 * 3600.0  # how far a server's clock may be behind ours when a lost batch is looked for


class _Batches(Struct):
    data: list[_Batch]
    has_more: bool = False


class OpenAIBatches(BatchServer[OpenAISpec]):
    """The batches of the server of an OpenAI model.

    Limits from OpenAI's API reference, "Create batch": 50,000 requests, also of embeddings, 200 MB.
    """

    kind = "openai"
    most_entries, most_bytes = 50_000, 200_000_000

    def path(self, request: Request) -> str | None:
        """The path of texts, by the API of the model's YAML, or of vectors."""
        can = request.mode in (Mode.GENERATE, Mode.EMBED)
        return f"/v1{bodies.path_of(request, self.hosted.spec)}" if can else None

    def entry(self, request: Request, name: str) -> bytes:
        """One line of the file."""
        body = bodies.body_of(request, self.hosted.model, self.hosted.spec)
        line = {"custom_id": name, "method": "POST", "url": self.path(request), "body": body}
        return json.dumps(line).encode()

    def submit(self, entries: Sequence[bytes], *, path: str, nonce: str) -> str:
        """Upload the requests, and submit a batch of them that carries our name for it."""
        lines = b"".join(entry + b"\n" for entry in entries)

        def form() -> object:
            import aiohttp

            whole, named = aiohttp.FormData({"purpose": "batch"}), f"{nonce}.jsonl"
            whole.add_field("file", lines, filename=named, content_type="application/jsonl")
            return whole

        with attach_usage(UNCHARGED):  # a lost upload may be repeated
            file = self.ask_for(_File, "POST", "/files", form)
        body = {"input_file_id": file.id, "endpoint": path, "completion_window": "24h"}
        return self.ask_for(_Batch, "POST", "/batches", body | {"metadata": {NONCE: nonce}}).id

    def find(self, record: BatchRecord) -> str | None:
        """The batch that has our name for it, among those of our record's age or younger."""
        after, has_more = "", True
        while has_more:
            page = self.ask_for(_Batches, "GET", f"/batches?limit=100{after}")
            for batch in page.data:
                if (batch.metadata or {}).get(NONCE) == record.nonce:
                    return batch.id
            oldest = min((batch.created_at for batch in page.data), default=0.0)
            has_more = page.has_more and oldest >= record.created - CLOCK_S
            after = f"&after={quote(page.data[-1].id, safe='')}" if page.data else ""
        return None

    def status(self, name: str) -> BatchStatus:
        """The progress of a batch; one that failed was rejected as a whole."""
        batch = self.ask_for(_Batch, "GET", f"/batches/{quote(name, safe='')}")
        counts, has_failed = batch.request_counts or {}, batch.status == "failed"
        files = filter(None, (batch.output_file_id, batch.error_file_id))
        return BatchStatus(
            *(self._server.quote(batch.status), batch.status in BATCH_ENDED),
            *(counts.get("completed", 0) + counts.get("failed", 0), counts.get("total", 0)),
            results=tuple(f"/files/{quote(file, safe='')}/content" for file in files),
            error=self._server.quote(f"{batch.errors}") if has_failed else None,
        )

    def response(self, line: BatchLine, request: Request) -> Response:
        """The response in one result."""
        reply = line.response or {}
        status, body = reply.get("status_code"), reply.get("body")
        if status == 200:
            content = json.dumps(body).encode()
            return bodies.read_response(content, request, self._server, spec=self.hosted.spec)
        error = body.get("error") if isinstance(body, dict) else line.error
        inner = error if isinstance(error, dict) else {}
        reason = Reason.FILTERED if bodies.is_filtered(inner) else Reason.FAILED
        message = f"{self.address} answered {status} in a batch: {words_of(inner) or body}"
        raise PermanentError(reason, self._server.quote(message), usage=UNCHARGED)
