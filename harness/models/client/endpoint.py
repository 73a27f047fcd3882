"""A model's YAML and the environment to the address of its server and its key.

Every word of a server passes `Endpoint.quote` before it enters a message (no key, no control
character, no endless page), and `Endpoint.mask` before it is stored. Nothing here opens a
connection.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from harness.errors import ModelError
from harness.specs.models import HostedSpec, ModerationSpec

LONGEST_QUOTE = 400
"""In characters."""
LEAST_SECRET, LEAST_LETTERS = 8, 16
"""A shorter key, or a shorter one of letters alone, may be a word of an answer: it is no secret."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server's base URL, the variable that may override it, and the one that holds its key."""

    url: str
    url_env: str | None
    key_env: str | None
    environ: Mapping[str, str] = field(repr=False)
    owner: str = "the model's YAML"

    @classmethod
    def of(
        cls, spec: HostedSpec | ModerationSpec, environ: Mapping[str, str], *, name: str
    ) -> Self:
        """The endpoint of the model `name`: the environment's URL if it has one, else the YAML's.

        ModelError where that is no HTTP address, or holds a user or a password.
        """
        url_env, key_env, owner = spec.base_url_env, spec.key_env, f"configs/models/{name}.yaml"
        url = (environ.get(url_env, "").strip() if url_env else "") or spec.base_url
        server = cls(url, url_env, key_env, environ, owner)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ModelError(
                f"{server.address!r} is no server address; {server.remedy} to one like "
                "http://localhost:8000/v1"
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
        parts = urlsplit(self.url)
        start = f"{parts.scheme}://" if parts.scheme else ""
        return f"{start}{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"

    @property
    def remedy(self) -> str:
        """How to set its address."""
        return "set base_url" + (f" or {self.url_env}" if self.url_env else "")

    @property
    def key_remedy(self) -> str:
        """What to do about its key."""
        if self.key_env:
            return f"check the key in {self.key_env}"
        return f"name the variable that holds a key as key_env, now null, in {self.owner}"

    @property
    def hint(self) -> str:
        """What an address without a version may lack; empty for one that has it."""
        has_version = any(part.startswith("v") for part in urlsplit(self.url).path.split("/"))
        return "" if has_version else f"; most such servers answer at {self.address}/v1"

    def remedies(self, model: str, *, hint: str) -> dict[int, str]:
        """What to do, by HTTP status, where another request would fail in the same way."""
        rights = f"check that the key in {self.key_env} may use model {model!r}"
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
    def key(self) -> str | None:
        """The key; None for a server that wants none. ModelError where it is missing or damaged."""
        if self.key_env is None:
            return None
        key = self._stored_key
        if not key:
            raise ModelError(
                f"the environment variable {self.key_env} is not set: put the key for "
                f"{self.address} there, or set key_env: null in {self.owner} if the server "
                "wants none"
            )
        if not (key.isascii() and key.isprintable()):
            raise ModelError(f"{self.key_env} holds characters that no key has; copy it again")
        return key

    def quote(self, text: str) -> str:
        """A server's words as messages may show them: one short line without the key."""
        if key := self._stored_key:
            text = text.replace(key, self._mask)
        line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return line if len(line) <= LONGEST_QUOTE else f"{line[:LONGEST_QUOTE]}..."

    def mask(self, body: Any) -> Any:  # noqa: ANN401 - any JSON
        """The JSON of a reply with the key masked in all of its texts.

        A key that may be a word of an answer stays: an answer is never changed for nothing.
        """
        key = self._stored_key
        is_word = len(key) < LEAST_SECRET or (key.isalpha() and len(key) < LEAST_LETTERS)
        return body if is_word else _replaced(body, key, new=self._mask)

    @property
    def _stored_key(self) -> str:
        return self.environ.get(self.key_env, "").strip() if self.key_env else ""

    @property
    def _mask(self) -> str:
        return f"[{self.key_env}]"


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
