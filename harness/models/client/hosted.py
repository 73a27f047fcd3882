"""What the models of all providers share: a server, its client library, calls with retries.

At 200 calls in flight aiohttp costs a client about half of what httpx does. A request's body is
sent as it is: the libraries' typed methods would walk through it once more, at twice the cost of a
call. Of the calls that succeed the libraries word the first alone, which saves a quarter of the
cost of the others.
"""

import json
import logging
import sys
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from importlib import import_module
from typing import Any, ClassVar, Generic, Self, TypeVar

from harness.core import Request, Response
from harness.errors import ModelError, NoServerError
from harness.models.client.endpoint import Endpoint, is_permission_error
from harness.models.client.http import (
    ReplyGuard,
    handed_over,
    http_client,
    http_of,
    without_settings,
)
from harness.models.client.pool import ServerStates
from harness.models.client.retry import (
    Call,
    Connect,
    PermanentError,
    RetryableError,
    RetryPolicy,
    retry_after_seconds,
    send_all,
)
from harness.models.custom import ModelContext, Resolvable
from harness.parts import UNCHARGED, UNKNOWN_USAGE, Usage
from harness.specs.models import HostedSpec, ModerationSpec

PASSING = frozenset({408, 409, 425, 429})
"""HTTP statuses below 500 that may pass."""


@dataclass(frozen=True, slots=True)
class ClientLibrary:
    """A provider's client library, imported when it is first used: its package and class prefix.

    `status_error` gives our error for one with an HTTP status; its arguments are `translate`'s.
    """

    package: str
    prefix: str
    status_error: Callable[..., Exception]

    @property
    def module(self) -> Any:  # noqa: ANN401 - openai or anthropic
        """The module of the package."""
        return import_module(self.package)

    @property
    def error(self) -> type[Exception]:
        """The class of all its errors."""
        error: type[Exception] = getattr(self.module, f"{self.prefix}Error")
        return error

    def client(
        self,
        server: Endpoint,
        *,
        timeout_s: float,
        connections: int = 0,
        guard: ReplyGuard | None = None,
    ) -> Any:  # noqa: ANN401 - see `module`
        """A synchronous client, or an asynchronous one of so many connections.

        Its own retries are off. ModelError where the key is missing, and at a redirect.
        """
        guard = guard or self.guard(server)
        is_local = server.remote_host is None
        options = {
            "api_key": server.key or "none",
            "base_url": server.url,
            "default_headers": server.headers,
            "http_client": http_client(self.module, connections, guard, is_local=is_local),
            "max_retries": 0,
            "timeout": timeout_s,
        }
        kind = f"Async{self.prefix}" if connections else self.prefix
        with without_settings(self.package.upper()):
            client = getattr(self.module, kind)(**options)
        client.sender = options["http_client"]  # for `post`
        return client

    def guard(self, server: Endpoint) -> ReplyGuard:
        """What reads the replies of a server."""
        return ReplyGuard(server.address, server.remedy, http_of(self.module))

    def translate(
        self, error: Exception, server: Endpoint, *, model: str, has_form: bool = False
    ) -> Exception:
        """An error of the library, or of aiohttp below it, as one of ours.

        `has_form` says that the server was asked to hold the reply to a JSON schema.
        """
        import aiohttp

        module = self.module
        # Anthropic's library takes what our guard raises for an error of the connection.
        ours = (ModelError, PermanentError, RetryableError)
        if own := next((cause for cause in _causes(error) if isinstance(cause, ours)), None):
            return own
        if isinstance(error, module.APIStatusError):
            return self.status_error(error, server, model=model, has_form=has_form)
        message = f"{server.address}: {server.quote(describe(error))}"
        broken = (module.APIConnectionError, module.APIResponseValidationError, aiohttp.ClientError)
        if isinstance(error, broken):
            return RetryableError(message, usage=usage_of(error))
        return ModelError(f"model {model}: {message}; see its settings in configs/models/")


async def post(
    client: Any,  # noqa: ANN401 - openai's or anthropic's asynchronous client
    path: str,
    arguments: Mapping[str, Any],
) -> bytes:
    """The body of the reply to a call with these arguments.

    The library makes the first call of a path. What it has put around that body is put around the
    later ones; where one of them fails, the library is handed what came, and words its error.
    """
    http = http_of(sys.modules[type(client).__module__.partition(".")[0]])
    sender = getattr(client, "sender", None)
    # A whole address: the library would put one together, and take it apart, for each call.
    url, body = str(client.base_url).rstrip("/") + path, json_body(arguments)
    call = partial(client.post, url, body=body, cast_to=http.Response)
    if sender is None or (request := sender.like_earlier(url, body)) is None:
        reply = await call()
    else:
        try:
            reply = await sender.send(request)
        except http.RequestError as error:
            with handed_over(error):
                reply = await call()
        if not reply.is_success:
            with handed_over(reply):
                reply = await call()
    content: bytes = reply.content
    return content


def json_body(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a client library as one JSON body: `extra_body` overrides the rest."""
    own = {name: value for name, value in arguments.items() if name != "extra_body"}
    return own | (arguments.get("extra_body") or {})


def _causes(error: BaseException) -> Iterator[BaseException]:
    while True:
        yield error
        if error.__cause__ is None:
            return
        error = error.__cause__


def usage_of(error: BaseException) -> Usage:
    """The usage of a call that ended in a connection error.

    Nothing was charged where no connection was made. Where one broke, or sent what cannot be read,
    the server may have answered: the counts are None.
    """
    from aiohttp import ClientConnectorError, ConnectionTimeoutError

    unmade = (ClientConnectorError, ConnectionTimeoutError)
    is_unmade = any(isinstance(cause, unmade) for cause in _causes(error))
    return UNCHARGED if is_unmade else UNKNOWN_USAGE


def describe(error: BaseException) -> str:
    """The words for a connection error, also where the libraries call it a time-out."""
    import aiohttp

    for cause in _causes(error):
        if isinstance(cause, aiohttp.ServerDisconnectedError | ConnectionResetError):
            return f"the connection was closed ({cause})"
        if isinstance(cause, aiohttp.ClientConnectorError):
            # aiohttp says it of plain HTTP, too
            return f"Connection error. ({str(cause).replace(' ssl:default', '')})"
        if isinstance(cause, aiohttp.ClientPayloadError) and "not completed" in str(cause):
            return "the connection was closed before the reply had ended"
    if isinstance(error, aiohttp.ClientError):
        return f"Connection error. ({error})"
    return f"{error} ({error.__cause__})" if error.__cause__ else f"{error}"


def passing_error(
    error: Any,  # noqa: ANN401 - openai's or anthropic's APIStatusError
    message: str,
    *,
    rate_limits: frozenset[int] = frozenset({429}),
) -> RetryableError | None:
    """The error that an HTTP status which may pass becomes; None for another status."""
    status = error.status_code
    if status not in PASSING and status < 500:
        return None
    wait_s = retry_after_seconds(error.response.headers.get("retry-after"), datetime.now(UTC))
    return RetryableError(message, wait_s, is_rate_limited=status in rate_limits, usage=UNCHARGED)


_Spec = TypeVar("_Spec", bound=HostedSpec | ModerationSpec)
_log = logging.getLogger(__name__)
PREFLIGHT_S = 10.0
POLLING_S = 0.5
"""Between two looks at a server that is waited for."""
STARTING = frozenset({502, 503, 504})
"""HTTP statuses of a server, or of what stands before it, that is not ready yet."""


class HostedModel(Resolvable, Generic[_Spec]):
    """A model behind a provider's API, or behind servers with the same API.

    `patience_s` is for how long a server is waited for that cannot be reached yet.
    """

    library: ClassVar[ClientLibrary]

    def __init__(self, name: str, spec: _Spec, environ: Mapping[str, str]) -> None:
        """Keep the settings; nothing is read or called yet."""
        self.name = name
        self.spec = spec
        self._environ = environ
        self._is_checked = False
        self.patience_s = 0.0
        self._has_waited = False
        self._states = ServerStates()

    @classmethod
    def build(cls, name: str, spec: _Spec, context: ModelContext) -> Self:
        """Build the model of a spec; a provider's key is looked for in the environment."""
        return cls(name, spec, context.environ)

    @cached_property
    def server(self) -> Endpoint:
        """The address of the server, the first of several, and its key."""
        return self.servers[0]

    @cached_property
    def servers(self) -> tuple[Endpoint, ...]:
        """The addresses of all servers of the model, and the key."""
        return Endpoint.all_of(self.spec, self._environ, name=self.name)

    @property
    def model(self) -> str:
        """The model's name in a request."""
        return self.spec.model

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once, in the order in which the answers come."""
        return send_all(requests, self.connects(), RetryPolicy.of(self.spec), self._states)

    def connects(self) -> dict[str, Connect]:
        """How each server is connected to, by its address."""
        return {server.address: partial(self._connect, server) for server in self.servers}

    def check(self) -> None:
        """Check, once, that a server is there and accepts the key; ModelError if not.

        Of several servers one is enough; those that cannot be reached are logged.
        """
        if self._is_checked:
            return
        self.wait_for_servers()
        unreached = [error for server in self.servers if (error := self._check(server))]
        if len(unreached) == len(self.servers):
            raise self._no_server(unreached)
        for fact in unreached:
            _log.warning("no server at %s; the other servers are asked", fact)
        self._is_checked = True

    def wait_for_servers(self) -> None:
        """Wait, once, until each server answers, whatever it says; `patience_s` for all together.

        ModelError where none does by then.
        """
        end_s, patience_s = time.monotonic() + self.patience_s, self.patience_s
        if self._has_waited or patience_s <= 0:
            return
        self._has_waited = True
        waiting = [*filter(self._is_away, self.servers)]
        if waiting:
            names = ", ".join(server.address for server in waiting)
            _log.warning("waiting for %s, %g s at most", names, patience_s)
        while waiting and (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(POLLING_S, left_s))
            waiting = [*filter(self._is_away, waiting)]
        if waiting and len(waiting) == len(self.servers):
            raise NoServerError(
                f"no server at {names} answered within {patience_s:g} s: see whether it has "
                f"started, give --wait-for-server more seconds, or {self.server.remedy}"
            )

    def _is_away(self, server: Endpoint) -> bool:
        """Whether a server cannot be reached, or says that it is still starting (502 to 504)."""
        try:
            self._list_models(server)
        except self.library.module.APIConnectionError as error:
            return not isinstance(error.__cause__, ModelError)
        except self.library.module.APIStatusError as error:
            return error.status_code in STARTING
        except (self.library.error, RetryableError, PermanentError, ValueError):
            pass
        return False

    def _check(self, server: Endpoint) -> str | None:
        """What is wrong where a server cannot be reached; ModelError where it refuses the key."""
        module = self.library.module
        try:
            self._list_models(server)
        except module.APIConnectionError as error:
            if isinstance(error.__cause__, ModelError):
                raise error.__cause__ from None
            if type(error.__cause__).__name__ == "ConnectError":
                return self._unreached(error, server)
        except module.AuthenticationError as error:
            is_alone = len(self.servers) == 1  # else another may take the key
            if is_alone and not is_permission_error(error.status_code, error.message):
                raise self._translated(error, server) from None
        except (self.library.error, RetryableError, PermanentError, ValueError):
            pass  # many a server, or a key of few rights, lists nothing and answers well
        return None

    @contextmanager
    def translating(
        self, server: Endpoint | None = None, *, has_form: bool = False
    ) -> Iterator[None]:
        """Turn errors of the client library into ours, as `ClientLibrary.translate` does."""
        import aiohttp

        try:
            yield
        except (self.library.error, aiohttp.ClientError) as error:
            # The library's message may repeat the key: it is not chained.
            raise self._translated(error, server or self.server, has_form=has_form) from None

    def _identify(self) -> tuple[str, str | None]:
        """Kind, model, what is sent beside the request, and the host unless it is this machine.

        Several servers of one model are no part of it: they may change while answers are wanted.
        """
        is_many = len(self.servers) > 1 or bool(getattr(self.spec, "base_urls", ()))
        host = None if is_many else self.server.remote_host
        return "|".join([*self._identity_parts(), *([f"host={host}"] if host else [])]), None

    @abstractmethod
    def _identity_parts(self) -> list[str]:
        """The parts of the identity before the host."""

    def _translated(
        self, error: Exception, server: Endpoint, *, has_form: bool = False
    ) -> Exception:
        return self.library.translate(error, server, model=self.model, has_form=has_form)

    @abstractmethod
    def _call(
        self,
        client: Any,  # noqa: ANN401 - the library's asynchronous client
        server: Endpoint,
    ) -> Call:
        """How one attempt at one request is made with an open client of a server."""

    def _list_models(self, server: Endpoint) -> list[dict[str, Any]]:
        timeout_s = min(PREFLIGHT_S, self.spec.timeout_s)
        with self.library.client(server, timeout_s=timeout_s) as client:
            reply = client.models.with_raw_response.list()
        body = server.mask(json.loads(reply.http_response.content))
        entries = body.get("data") if isinstance(body, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ValueError("the reply holds no list of models")
        return entries

    def _unreached(self, error: Exception, server: Endpoint) -> str:
        return f"{server.address} ({server.quote(str(error.__cause__ or error))})"

    def _no_server(self, unreached: Sequence[str]) -> NoServerError:
        return NoServerError(
            f"no server at {', '.join(unreached)}: start it, or {self.server.remedy}; "
            "`run` and `judge` wait for one that is starting with --wait-for-server SECONDS"
        )

    def _connect(self, server: Endpoint) -> AbstractAsyncContextManager[Call]:
        self.check()
        return self._session(server)

    @asynccontextmanager
    async def _session(self, server: Endpoint) -> AsyncIterator[Call]:
        spec = self.spec
        async with self.library.client(
            server, timeout_s=spec.timeout_s, connections=spec.concurrency
        ) as client:
            yield self._call(client, server)
