"""A server's address and key, and its words as messages and files may hold them.

Every word of a server passes `Endpoint.quote` before it enters a message (no key, no control
character, no endless page), and `Endpoint.mask` before it is stored.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from harness.errors import ModelError
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

    `reasoning_max_tokens` are those that a reply may have in addition to the request's max_tokens.
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

        ModelError where it is no HTTP address, or holds a user, a password or a query.
        """
        own = environ.get(spec.base_url_env, "").strip() if spec.base_url_env else ""
        url, owner = own or spec.base_url, f"configs/models/{name}.yaml"
        reasoning = 0 if isinstance(spec, ModerationSpec) else spec.reasoning_max_tokens
        server = cls(
            *(url, spec.base_url_env, spec.key_env, environ, owner, spec.headers_env, reasoning)
        )
        if not _is_address(url):
            shown = re.split(r"[?#]", url)[0].rpartition("@")[2][:LONGEST_ADDRESS]
            raise ModelError(
                f"{server.quote(shown)!r} is no server address; {server.remedy} to one like "
                "http://localhost:8000/v1"
            )
        found = "a user or a password" if "@" in urlsplit(url).netloc else None
        if (
            found := "a query, or a mark of one" if "?" in url or "#" in url else found
        ) is not None:
            raise ModelError(
                f"the address of {server.address} holds {found}; {server.remedy} to it without "
                "them: a key belongs into the variable that key_env names, and other fields into "
                "extra_body or headers_env"
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
        """What to add to an address without a version; empty for one that has it."""
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
        key = self.environ.get(self.key_env, "").strip()
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

    def mask(self, body: Any, content: bytes = b"\\") -> Any:  # noqa: ANN401 - any JSON
        """The JSON of a reply with the key masked in all of its texts.

        A key that may be a word of an answer stays: an answer is never changed for nothing. What
        is not in the `content` that was read is not looked for: a backslash there may hide any
        letter, and a zero another encoding than UTF-8.
        """
        is_open = b"\\" not in content and b"\0" not in content
        for secret, mask in self._secrets.items():
            is_word = secret.isalpha() and len(secret) < LEAST_LETTERS
            is_absent = is_open and secret.encode() not in content
            if len(secret) >= LEAST_SECRET and not (is_word or is_absent):
                body = _replaced(body, secret, new=mask)
        return body

    @property
    def _secrets(self) -> dict[str, str]:
        """What no message and no file may hold, and what replaces it."""
        names = [*self.headers_env.values(), *([self.key_env] if self.key_env else [])]
        found = {self.environ.get(name, "").strip(): f"[{name}]" for name in names}
        return {secret: mask for secret, mask in found.items() if secret}


def shown_address(url: str) -> str:
    """An address, damaged or not, as a message may show it: no user, no password, no query."""
    plain = url.partition("?")[0].partition("#")[0]
    start, slashes, rest = plain.partition("//")
    host, slash, path = rest.partition("/")
    line = f"{start}{slashes}{host.rpartition('@')[2]}{slash}{path}"
    return "".join(letter for letter in line if letter.isprintable())[:LONGEST_ADDRESS]


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
