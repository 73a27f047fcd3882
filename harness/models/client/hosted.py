"""What the models of all providers share: a server, its client library, calls with retries.

Every word of a server passes `Endpoint.quote` before it enters a message (no key, no control
character, no endless page), and `Endpoint.mask` before it is stored. At 200 calls in flight aiohttp
costs a client about half of what httpx does. A request's body is sent as it is: the libraries'
typed methods would walk through it once more, at twice the cost of a call.
"""

import ipaddress
import json
import re
import sys
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, Generic, Self, TypeVar
from urllib.parse import urlsplit

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.client.http import (
    ReplyGuard,
    http_client,
    http_of,
    shown_address,
    without_settings,
)
from harness.models.client.retry import (
    Call,
    PermanentError,
    RetryableError,
    RetryPolicy,
    retry_after_seconds,
    send_all,
)
from harness.models.custom import ModelContext, Resolvable
from harness.parts import UNCHARGED, UNKNOWN_USAGE, Usage
from harness.specs.models import HostedSpec, ModerationSpec, is_usual_variable

LONGEST_QUOTE = 400
"""In characters."""
LONGEST_ADDRESS, LONGEST_URL = 200, 2_000
"""In characters: of an address in a message, and of one that is taken."""
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
LEAST_SECRET, LEAST_LETTERS = 8, 16
"""A shorter key, or a shorter one of letters alone, may be a word of an answer: it is no secret."""


def _is_address(url: str) -> bool:
    """Whether a text is an HTTP address that the client libraries can take apart."""
    try:
        parts = urlsplit(url)  # drops line ends, which a header would not
        host, is_port = parts.hostname or "", parts.port is None or parts.port > 0
        if ":" in host:
            ipaddress.ip_address(host)
            is_host = parts.netloc.partition("]")[2][:1] in ("", ":")
        else:
            is_host = _HOST.fullmatch(host.rstrip(".").encode("idna").decode()) is not None
    except ValueError:  # also UnicodeError
        return False
    is_text = url.isprintable() and not re.search(r"[\s\\]", url) and len(url) <= LONGEST_URL
    return parts.scheme in ("http", "https") and is_port and is_host and is_text


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server's base URL, the variable that may override it, and the one that holds its key.

    `reasoning_max_tokens` are those that a reply may have beside the request's max_tokens.
    """

    url: str
    url_env: str | None
    key_env: str | None
    environ: Mapping[str, str] = field(repr=False)
    owner: str = "the model's YAML"
    headers_env: Mapping[str, str] = field(default_factory=dict)
    reasoning_max_tokens: int = 0

    @classmethod
    def of(
        cls, spec: HostedSpec | ModerationSpec, environ: Mapping[str, str], *, name: str
    ) -> Self:
        """The endpoint of the model `name`: the environment's URL if it has one, else the YAML's.

        ModelError where that is no HTTP address, or holds a user, a password or a query.
        """
        url_env, key_env, owner = spec.base_url_env, spec.key_env, f"configs/models/{name}.yaml"
        url = (environ.get(url_env, "").strip() if url_env else "") or spec.base_url
        reasoning = 0 if isinstance(spec, ModerationSpec) else spec.reasoning_max_tokens
        server = cls(url, url_env, key_env, environ, owner, spec.headers_env, reasoning)
        if not _is_address(url):
            shown = re.split(r"[?#]", url)[0].rpartition("@")[2][:LONGEST_ADDRESS]
            raise ModelError(
                f"{server.quote(shown)!r} is no server address; {server.remedy} to one like "
                "http://localhost:8000/v1"
            )
        parts = urlsplit(url)
        if parts.query or parts.fragment or url.endswith(("?", "#")):
            raise ModelError(
                f"the address of {server.address} holds a query, or a mark of one; {server.remedy} "
                "to it without them: a key belongs into the variable that key_env names, and other "
                "fields into extra_body or headers_env"
            )
        if "@" in parts.netloc:
            raise ModelError(
                f"the address of {server.address} holds a user or a password; {server.remedy} to "
                "it without them, and have key_env name the variable that holds the key"
            )
        return server

    @property
    def address(self) -> str:
        """The URL as messages may show it: no user, no password, no query."""
        return shown_address(self.url).rstrip("/")

    @property
    def remedy(self) -> str:
        """How to set its address."""
        return "set base_url" + (f" or {self.url_env}" if self.url_env else "")

    @property
    def key_remedy(self) -> str:
        """What to do about its key."""
        if self.key_env:
            return f"check the key in {self.key_name}"
        return f"name the variable that holds a key as key_env, now null, in {self.owner}"

    @property
    def hint(self) -> str:
        """What an address without a version may lack; empty for one that has it."""
        has_version = any(part.startswith("v") for part in urlsplit(self.url).path.split("/"))
        return "" if has_version else f"; most such servers answer at {self.address}/v1"

    def remedies(self, model: str, *, hint: str) -> dict[int, str]:
        """What to do, by HTTP status, where another request would fail in the same way."""
        rights = f"check that the key in {self.key_name} may use model {model!r}"
        return {
            401: self.key_remedy,
            402: "see the account's credit, then repeat the command",
            403: rights if self.key_env else self.key_remedy,
            404: f"check that there is a model {model!r}, or {self.remedy}{hint}",
        }

    @property
    def remote_host(self) -> str | None:
        """The host's name; None for this machine, however it is spelled."""
        host = urlsplit(self.url).hostname or ""
        if host == "localhost" or host.endswith(".localhost"):
            return None
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return host
        return None if address.is_loopback or address.is_unspecified else host

    @property
    def key_name(self) -> str:
        """The variable of the key as messages may show it: some write the key itself there."""
        name = self.key_env or ""
        is_shown = name in self.environ or is_usual_variable(name)
        return name if is_shown else f"that key_env names in {self.owner}"

    @property
    def headers(self) -> dict[str, str]:
        """The headers that the YAML has sent along; ModelError where a variable is not set."""
        found = {name: self.environ.get(env, "").strip() for name, env in self.headers_env.items()}
        for name, value in found.items():
            if not (value and value.isascii() and value.isprintable()):
                raise ModelError(
                    f"the variable that headers_env names for {name} in {self.owner} is not set, "
                    "or holds what no header may; set it, or leave the header out"
                )
        return found

    @property
    def key(self) -> str | None:
        """The key; None for a server that wants none. ModelError where it is missing or damaged."""
        if self.key_env is None:
            return None
        key = self._stored_key
        if not key:
            raise ModelError(
                f"the environment variable {self.key_name} is not set: put the key for "
                f"{self.address} there, or set key_env: null in {self.owner} if the server "
                "wants none"
            )
        if not (key.isascii() and key.isprintable()):
            raise ModelError(f"{self.key_name} holds characters that no key has; copy it again")
        return key

    def quote(self, text: str) -> str:
        """A server's words as messages may show them: one short line without the key."""
        for secret, mask in self._secrets.items():
            text = text.replace(secret, mask)
        line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return line if len(line) <= LONGEST_QUOTE else f"{line[:LONGEST_QUOTE]}..."

    def mask(self, body: Any) -> Any:  # noqa: ANN401 - any JSON
        """The JSON of a reply with the key masked in all of its texts.

        A key that may be a word of an answer stays: an answer is never changed for nothing.
        """
        for secret, mask in self._secrets.items():
            is_word = secret.isalpha() and len(secret) < LEAST_LETTERS
            if len(secret) >= LEAST_SECRET and not is_word:
                body = _replaced(body, secret, new=mask)
        return body

    @property
    def _stored_key(self) -> str:
        return self.environ.get(self.key_env, "").strip() if self.key_env else ""

    @property
    def _secrets(self) -> dict[str, str]:
        """What no message and no file may hold, and what stands in its place."""
        names = [*self.headers_env.values(), *([self.key_env] if self.key_env else [])]
        found = {self.environ.get(name, "").strip(): f"[{name}]" for name in names}
        return {secret: mask for secret, mask in found.items() if secret}


def is_permission_error(status: int, message: str) -> bool:
    """Whether a server refuses a key for one kind of call alone: it may be good for others."""
    words = message.lower()
    return status == 403 or (status == 401 and ("permission" in words or "scope" in words))


def _replaced(value: Any, old: str, *, new: str) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, dict):
        return {
            _replaced(name, old, new=new): _replaced(entry, old, new=new)
            for name, entry in value.items()
        }
    if isinstance(value, list):
        # Vectors are long: their numbers are not worth a call each.
        return [v if isinstance(v, float) else _replaced(v, old, new=new) for v in value]
    return value


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
            return getattr(self.module, kind)(**options)

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
    """The body of the reply to a call with these arguments."""
    http = http_of(sys.modules[type(client).__module__.partition(".")[0]])
    reply = await client.post(path, body=json_body(arguments), cast_to=http.Response)
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
            return f"Connection error. ({cause})"
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
            if isinstance(error.__cause__, ModelError):
                raise error.__cause__ from None
            if type(error.__cause__).__name__ == "ConnectError":
                raise self._no_server(error) from None
        except module.AuthenticationError as error:
            if not is_permission_error(error.status_code, error.message):
                raise self._translated(error) from None
        except (self.library.error, RetryableError, PermanentError, ValueError):
            pass  # many a server, or a key of few rights, lists nothing and answers well
        self._is_checked = True

    @contextmanager
    def translating(self, *, has_form: bool = False) -> Iterator[None]:
        """Turn errors of the client library into ours, as `ClientLibrary.translate` does."""
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

    def _translated(self, error: Exception, *, has_form: bool = False) -> Exception:
        return self.library.translate(error, self.server, model=self.model, has_form=has_form)

    @abstractmethod
    def _call(self, client: Any) -> Call:  # noqa: ANN401 - the library's asynchronous client
        """How one attempt at one request is made with an open client."""

    def _list_models(self) -> list[dict[str, Any]]:
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
        spec = self.spec
        async with self.library.client(
            self.server, timeout_s=spec.timeout_s, connections=spec.concurrency
        ) as client:
            yield self._call(client)
