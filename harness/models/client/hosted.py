"""What the models of all providers share: a server, its key and models, calls with retries."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, Self, TypeVar
from urllib.parse import urlsplit

from harness.core import Request, Response
from harness.errors import ModelError, NoServerError
from harness.models.client import retry
from harness.models.client.endpoint import Endpoint
from harness.models.client.http import Connection, HttpError, connected, wait_for
from harness.models.client.retry import PermanentError, RetryableError
from harness.models.custom import ModelContext, Resolvable
from harness.parts import UNCHARGED, Mode, Reason
from harness.specs.models import HostedSpec, ModerationSpec

PASSING = frozenset({408, 409, 425, 429})  # HTTP statuses below 500 that may pass
PREFLIGHT_S = 10.0
_Spec = TypeVar("_Spec", bound=HostedSpec | ModerationSpec)


class HostedModel(Resolvable, Generic[_Spec]):
    """A model behind a provider's API."""

    kind: str
    models_path = "/models"
    rate_limits = frozenset({429})
    refusals: ClassVar[frozenset[int]] = frozenset({401})  # of the list of models
    is_one_by_one = False  # whether several replies are as many calls
    other_ways = "use kind: openai, transformers or vllm"  # where it is not asked for something

    def __init__(self, name: str, spec: _Spec, environ: Mapping[str, str]) -> None:
        """Keep the arguments."""
        self.name, self.spec, self._environ = name, spec, environ
        self._is_checked = False

    @classmethod
    def build(cls, name: str, spec: _Spec, context: ModelContext) -> Self:
        """Build the model of a spec; a provider's key is looked for in the environment."""
        return cls(name, spec, context.environ)

    @cached_property
    def server(self) -> Endpoint:
        """The address of the server, and its key."""
        return Endpoint.of(self.spec, self._environ, name=self.name)

    @property
    def model(self) -> str:
        """The model's name in a request."""
        return self.spec.model

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once, in the order in which the answers come."""
        spec = self.spec
        policy = retry.RetryPolicy(
            *(spec.concurrency, spec.attempts, spec.timeout_s),
            total_s=spec.total_s,
            is_one_by_one=self.is_one_by_one,
        )
        return retry.send_all(requests, self.connect, policy)

    def connect(self) -> AbstractAsyncContextManager[retry.Call]:
        """How one attempt at a request is made, once the server is checked."""
        self.check()
        return self._session()

    def check(self) -> None:
        """Check, once, that the server is there and accepts the key; ModelError if not."""
        if self._is_checked:
            return
        found = self.listed()
        if isinstance(found, HttpError) and found.status in self.refusals:
            words = found.text.lower()  # a key may be good for other calls alone
            if "permission" not in words and "scope" not in words:
                raise self.translated(found)
        # Many a server, or a key of few rights, lists nothing and answers well.
        self._is_checked = True

    def listed(self) -> list[dict[str, Any]] | Exception:
        """The models that the server lists, or why it lists none; NoServerError without one."""
        timeout_s, address = min(PREFLIGHT_S, self.spec.timeout_s), self.server.address

        async def call() -> bytes:
            async with self.connected() as connection, asyncio.timeout(timeout_s):
                return await connection.request("GET", self.models_path)

        try:
            body = self.server.read(wait_for(call()))
        except TimeoutError:
            return RetryableError(f"{address}: no answer within {timeout_s:g} s")
        except (HttpError, RetryableError, PermanentError, ValueError, RecursionError) as error:
            if isinstance(error, RetryableError) and error.usage == UNCHARGED:
                why = str(error).removeprefix(f"{address}: ")
                raise NoServerError(
                    f"no server at {address} ({why}): start it, or {self.server.remedy}"
                ) from None
            return error
        entries = body.get("data") if isinstance(body, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            return ValueError("the reply holds no list of models")
        return entries

    def translated(self, error: HttpError, *, has_form: bool = False) -> Exception:
        """Our error for one with an HTTP status; `has_form` if a reply was held to a schema."""
        status, words = error.status, self.server.quote(error.words)
        message = f"{self.server.address} answered {status}: {words}"
        if self.is_filtered(error):
            return PermanentError(Reason.FILTERED, message, usage=UNCHARGED)
        if remedy := self._remedy(error, words, has_form=has_form):
            return ModelError(f"{message}; {remedy}")
        if status in PASSING or status >= 500:
            wait_s = retry.retry_after_seconds(error.headers.get("retry-after"), datetime.now(UTC))
            is_limited = status in self.rate_limits
            return RetryableError(message, wait_s, is_rate_limited=is_limited, usage=UNCHARGED)
        return PermanentError(Reason.FAILED, message, usage=UNCHARGED)

    @property
    @abstractmethod
    def modes(self) -> frozenset[Mode]:
        """The kinds of answer it can give."""

    @abstractmethod
    def is_filtered(self, error: HttpError) -> bool:
        """Whether an error says that a filter held the prompt or the answer back."""

    def _remedy(self, error: HttpError, words: str, *, has_form: bool) -> str | None:
        """What to do, where another request would fail in the same way."""
        server, model = self.server, repr(self.model)
        key = f"name the variable that holds a key as key_env, now null, in {server.owner}"
        rights = key
        if server.key_env:
            key = f"check the key in {server.key_name}"
            rights = f"check that the key in {server.key_name} may use model {model}"
        return {
            401: key,
            402: "see the account's credit, then repeat the command",
            403: rights,
            404: f"check that there is a model {model}, or {server.remedy}{self._hint}",
        }.get(error.status)

    @property
    def _hint(self) -> str:
        """What to add to an address without a version; empty for one that has it."""
        has_version = any(
            part.startswith("v") for part in urlsplit(self.server.url).path.split("/")
        )
        return "" if has_version else f"; most such servers answer at {self.server.address}/v1"

    @property
    @abstractmethod
    def headers(self) -> dict[str, str]:
        """The headers that carry the key."""

    @abstractmethod
    async def _reply(self, connection: Connection, request: Request) -> Response:
        """Make one attempt at one request with an open connection."""

    @abstractmethod
    def _identity_parts(self) -> list[str]:
        """The parts of the identity before the host."""

    def _identify(self) -> tuple[str, str | None]:
        """Kind, model, what is sent in addition to a request, and the host unless it is local."""
        host = self.server.remote_host
        return "|".join([*self._identity_parts(), *([f"host={host}"] if host else [])]), None

    def connected(self, *, most: int = 1) -> AbstractAsyncContextManager[Connection]:
        """At most so many connections to the server, with the headers that it wants."""
        return connected(self.server, {**self.headers, **self.server.headers}, most=most)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[retry.Call]:
        async with self.connected(most=self.spec.concurrency) as connection:
            yield partial(self._attempt, connection)

    async def _attempt(self, connection: Connection, request: Request) -> Response:
        if request.mode not in self.modes:
            fact = f"this server is not asked to {request.mode}; {self.other_ways}"
            raise PermanentError(Reason.UNSUPPORTED, fact, usage=UNCHARGED)
        try:
            return await self._reply(connection, request)
        except HttpError as error:
            # The reply may repeat the key: it is not chained.
            raise self.translated(error, has_form=request.schema is not None) from None
