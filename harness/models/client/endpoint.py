"""A server's address and key, and its words as messages and files may hold them.

Every word of a server passes `Endpoint.quote`, and every reply `Endpoint.read`.
"""

import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote, quote_plus, urlsplit

from harness.errors import ModelError
from harness.specs.models import HostedSpec, ModerationSpec, is_usual_variable

LONGEST_QUOTE = 400  # in characters
# In characters: of an address in a message, and of one that is taken.
LONGEST_ADDRESS, LONGEST_URL = 200, 2_000
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
# A shorter key, or a shorter one of letters alone, may be a word of an answer: it is no secret.
LEAST_SECRET, LEAST_LETTERS = 8, 16


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
    """A server's base URL, the variables of its URL and key, and room for its reasoning."""

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
        """The endpoint of a model, at the environment's URL or the YAML's; ModelError if none."""
        own = environ.get(spec.base_url_env, "").strip() if spec.base_url_env else ""
        url, owner = own or spec.base_url, f"configs/models/{name}.yaml"
        reasoning = 0 if isinstance(spec, ModerationSpec) else spec.reasoning_max_tokens
        server = cls(
            *(url, spec.base_url_env, spec.key_env, environ, owner, spec.headers_env, reasoning)
        )
        if not _is_address(url) or "@" in urlsplit(url).netloc or re.search(r"[?#]", url):
            shown = server.quote(re.split(r"[?#]", url)[0].rpartition("@")[2][:LONGEST_ADDRESS])
            raise ModelError(
                f"{shown!r} is no server address, or holds a user, a password or a query; "
                f"{server.remedy} to one like http://localhost:8000/v1: a key belongs into the "
                "variable that key_env names, other fields into extra_body or headers_env"
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
        text = self.masked(text)
        line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return line if len(line) <= LONGEST_QUOTE else f"{line[:LONGEST_QUOTE]}..."

    def masked(self, text: str) -> str:
        """A text of a server without the key, also where an address spells it with %."""
        for secret, mask in self._secrets.items():
            for own in (secret, quote(secret, safe=""), quote_plus(secret)):
                text = text.replace(own, mask)
        return text

    def read(self, content: bytes) -> Any:  # noqa: ANN401 - any JSON
        """The JSON of a reply with the key masked in all of its texts; ValueError if it is none.

        A key that may be a word of an answer stays: an answer is never changed for nothing.
        """
        body = json.loads(content)
        # A backslash may hide any letter, and a zero another encoding than UTF-8.
        is_plain = b"\\" not in content and b"\0" not in content
        for secret, mask in self._secrets.items():
            is_word = secret.isalpha() and len(secret) < LEAST_LETTERS
            is_absent = is_plain and secret.encode() not in content
            if len(secret) >= LEAST_SECRET and not (is_word or is_absent):
                text = json.dumps(body, ensure_ascii=False)
                body = json.loads(text.replace(json.dumps(secret)[1:-1], mask))
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
