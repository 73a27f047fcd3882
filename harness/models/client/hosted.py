"""What the models of all providers share: an endpoint, one check of it, and calls with retries.

A provider's class adds how requests are worded, how replies are read and what its errors mean.
"""

import json
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.client.endpoint import Endpoint, is_permission_error
from harness.models.client.retry import Call, RetryPolicy, send_all
from harness.models.client.transport import ClientLibrary
from harness.models.custom import ModelContext
from harness.models.identity import Resolvable
from harness.specs.models import HostedSpec, ModerationSpec

_Spec = TypeVar("_Spec", bound=HostedSpec | ModerationSpec)
PREFLIGHT_S = 10.0


class HostedModel(Resolvable, Generic[_Spec]):
    """A model behind a provider's API, or behind a server with the same API."""

    library: ClassVar[ClientLibrary]

    def __init__(self, name: str, spec: _Spec, environ: Mapping[str, str]) -> None:
        """Keep the settings; nothing is read or called yet."""
        self.name = name
        self.spec = spec
        self._environ = environ
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
        return send_all(requests, self._connect, RetryPolicy.of(self.spec))

    def check(self) -> None:
        """Check, once, that a server is there and accepts the key; ModelError if not."""
        module = self.library.module
        try:
            if not self._is_checked:
                self._list_models()
        except module.APIConnectionError as error:
            if type(error.__cause__).__name__ == "ConnectError":
                raise self._no_server(error) from None
        except module.AuthenticationError as error:
            if not is_permission_error(error.status_code, error.message):
                raise self._translated(error) from None
        except (self.library.error, ValueError):
            pass  # many a server, or a key of few rights, lists nothing and answers well
        self._is_checked = True

    @contextmanager
    def translating(self, *, has_form: bool = False) -> Iterator[None]:
        """Turn errors of the client library into ours; `has_form` as in `_translated`."""
        import aiohttp

        try:
            yield
        except (self.library.error, aiohttp.ClientError) as error:
            # The library's message may repeat the key: it is not chained.
            raise self._translated(error, has_form=has_form) from None

    def _identify(self) -> tuple[str, str | None]:
        """Kind, model, what is sent beside the request, and the host unless it is this machine."""
        host = self.server.remote_host
        return "|".join([*self._identity_parts(), *([f"host={host}"] if host else [])]), None

    @abstractmethod
    def _identity_parts(self) -> list[str]:
        """The parts of the identity before the host."""

    @abstractmethod
    def _translated(self, error: Exception, *, has_form: bool = False) -> Exception:
        """An error of the client library as RetryableError, PermanentError or ModelError.

        `has_form` says that the server was asked to hold the reply to a JSON schema.
        """

    @abstractmethod
    def _call(self, client: Any) -> Call:  # noqa: ANN401 - the library's asynchronous client
        """How one attempt at one request is made with an open client."""

    def _list_models(self) -> list[dict[str, Any]]:
        """The models that the server lists; ValueError where the reply holds no such list."""
        timeout_s = min(PREFLIGHT_S, self.spec.timeout_s)
        with self.library.client(self.server, timeout_s=timeout_s) as client:
            reply = client.models.with_raw_response.list()
        body = self.server.mask(json.loads(reply.http_response.content))
        entries = body.get("data") if isinstance(body, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ValueError("the reply holds no list of models")
        return entries

    def _no_server(self, error: Exception) -> ModelError:
        server = self.server
        cause = server.quote(str(error.__cause__ or error))
        return ModelError(f"no server at {server.address} ({cause}): start it, or {server.remedy}")

    def _connect(self) -> AbstractAsyncContextManager[Call]:
        self.check()
        return self._session()

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Call]:
        """One client, opened and closed inside the loop that uses it."""
        spec = self.spec
        async with self.library.async_client(
            self.server, timeout_s=spec.timeout_s, connections=spec.concurrency
        ) as client:
            yield self._call(client)
