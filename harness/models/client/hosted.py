"""What the models of all providers share: a server, its key and models, calls with retries."""

import asyncio
import json
import logging
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from harness.core import Request, Response
from harness.errors import ModelError, NoServerError
from harness.models.client.endpoint import Endpoint, is_permission_error
from harness.models.client.http import (
    Connection,
    ConnectionFailed,
    HttpError,
    connected,
    wait_for,
)
from harness.models.client.limiter import Limiter
from harness.models.client.retry import (
    Call,
    PermanentError,
    RetryableError,
    RetryPolicy,
    retry_after_seconds,
    send_all,
)
from harness.models.custom import ModelContext, Resolvable
from harness.parts import UNCHARGED
from harness.specs.models import HostedSpec, ModerationSpec

PASSING = frozenset({408, 409, 425, 429})
"""HTTP statuses below 500 that may pass."""
STARTING = frozenset({502, 503, 504})
"""HTTP statuses of a server, or of a proxy before it, that is not ready yet."""
PREFLIGHT_S = 10.0
POLLING_S = 0.5
"""Between two looks at a server that is waited for."""
_log = logging.getLogger(__name__)
_Spec = TypeVar("_Spec", bound=HostedSpec | ModerationSpec)


def passing_error(
    error: HttpError, message: str, *, rate_limits: frozenset[int] = frozenset({429})
) -> RetryableError | None:
    """The error that an HTTP status which may pass becomes; None for another status."""
    if error.status not in PASSING and error.status < 500:
        return None
    wait_s = retry_after_seconds(error.headers.get("retry-after"), datetime.now(UTC))
    is_limited = error.status in rate_limits
    return RetryableError(message, wait_s, is_rate_limited=is_limited, usage=UNCHARGED)


class HostedModel(Resolvable, Generic[_Spec]):
    """A model behind a provider's API, or behind a server with the same API.

    `patience_s` is for how long a server is waited for that cannot be reached yet.
    """

    models_path = "/models"

    def __init__(self, name: str, spec: _Spec, environ: Mapping[str, str]) -> None:
        """Keep the settings; nothing is read or called yet."""
        self.name = name
        self.spec = spec
        self._environ = environ
        self._is_checked = False
        self.patience_s = 0.0
        self._limiter = Limiter(spec.concurrency)

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
        return send_all(requests, self.connect, RetryPolicy.of(self.spec), self._limiter)

    def connect(self) -> AbstractAsyncContextManager[Call]:
        """How one attempt at a request is made, once the server is checked."""
        self.check()
        return self._session()

    def check(self) -> None:
        """Check, once, that the server is there and accepts the key; ModelError if not."""
        if self._is_checked:
            return
        self.wait_for_server()
        try:
            self._list_models()
        except ConnectionFailed as error:
            if error.is_unmade:
                raise self._no_server(error) from None
        except HttpError as error:
            is_refused = error.status == 401 and not is_permission_error(401, error.text)
            if is_refused:
                raise self.translated(error) from None
        except (RetryableError, PermanentError, ValueError, RecursionError):
            pass  # many a server, or a key of few rights, lists nothing and answers well
        self._is_checked = True

    def wait_for_server(self) -> None:
        """Wait, once, until the server answers, whatever it says; ModelError after `patience_s`."""
        patience_s, self.patience_s = self.patience_s, 0.0
        if patience_s <= 0 or not self._is_away():
            return
        address = self.server.address
        _log.warning("waiting for %s, %g s at most", address, patience_s)
        waiting = Retrying(
            retry=retry_if_result(bool),
            stop=stop_after_delay(patience_s),
            wait=wait_fixed(POLLING_S),
        )
        try:
            waiting(self._is_away)
        except RetryError:
            raise NoServerError(
                f"no server at {address} answered within {patience_s:g} s: see whether it has "
                f"started, give --wait-for-server more seconds, or {self.server.remedy}"
            ) from None

    @contextmanager
    def translating(self, *, has_form: bool = False) -> Iterator[None]:
        """Turn errors with an HTTP status into ours.

        `has_form` says that the server was asked to hold the reply to a JSON schema.
        """
        try:
            yield
        except HttpError as error:
            # The reply may repeat the key: it is not chained.
            raise self.translated(error, has_form=has_form) from None

    @property
    @abstractmethod
    def headers(self) -> dict[str, str]:
        """The headers that carry the key."""

    @abstractmethod
    def translated(self, error: HttpError, *, has_form: bool = False) -> Exception:
        """Our error for one with an HTTP status."""

    @abstractmethod
    def _call(self, connection: Connection) -> Call:
        """How one attempt at one request is made with an open connection."""

    @abstractmethod
    def _identity_parts(self) -> list[str]:
        """The parts of the identity before the host."""

    def _identify(self) -> tuple[str, str | None]:
        """Kind, model, what is sent in addition to a request, and the host unless it is local."""
        host = self.server.remote_host
        return "|".join([*self._identity_parts(), *([f"host={host}"] if host else [])]), None

    def _connected(self, *, most: int = 1) -> AbstractAsyncContextManager[Connection]:
        return connected(self.server, {**self.headers, **self.server.headers}, most=most)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Call]:
        async with self._connected(most=self.spec.concurrency) as connection:
            yield self._call(connection)

    def _list_models(self) -> list[dict[str, Any]]:
        timeout_s = min(PREFLIGHT_S, self.spec.timeout_s)

        async def call() -> bytes:
            async with self._connected() as connection:
                try:
                    async with asyncio.timeout(timeout_s):
                        return await connection.request("GET", self.models_path)
                except TimeoutError:
                    fact = f"{self.server.address}: no answer within {timeout_s:g} s"
                    raise ConnectionFailed(fact, is_unmade=False) from None

        body = self.server.mask(json.loads(wait_for(call())))
        entries = body.get("data") if isinstance(body, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ValueError("the reply holds no list of models")
        return entries

    def _is_away(self) -> bool:
        """Whether the server cannot be reached, or says that it is still starting (502 to 504)."""
        try:
            self._list_models()
        except ConnectionFailed:
            return True
        except HttpError as error:
            return error.status in STARTING
        except (ModelError, RetryableError, PermanentError, ValueError, RecursionError):
            pass
        return False

    def _no_server(self, error: ConnectionFailed) -> NoServerError:
        address = self.server.address
        why = str(error).removeprefix(f"{address}: ")
        return NoServerError(
            f"no server at {address} ({why}): start it, or {self.server.remedy}; "
            "`run` and `judge` wait for one that is starting with --wait-for-server SECONDS"
        )
