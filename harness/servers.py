"""Where a model is reached over a network, with which key, and what may be told of both.

Every word a server says passes `Server.told` before it enters a message: no key, no control
character, no endless page. Nothing here opens a connection.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from harness.errors import ModelError

LONGEST_TOLD = 400


@dataclass(frozen=True, slots=True)
class Server:
    """A server's base URL, the variable that may override it, and the one that holds its key."""

    url: str
    url_env: str | None
    key_env: str | None
    environ: Mapping[str, str] = field(repr=False)
    owner: str = "the model's YAML"

    @classmethod
    def found(
        cls,
        url: str,
        environ: Mapping[str, str],
        *,
        url_env: str | None,
        key_env: str | None,
        owner: str = "the model's YAML",
    ) -> Self:
        """The server the environment names, else the one at `url`; `owner` says where to mend."""
        url = (environ.get(url_env, "").strip() if url_env else "") or url
        server = cls(url, url_env, key_env, environ, owner)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ModelError(
                f"{server.address!r} is no server address; {server.remedy} to one like "
                "http://localhost:8000/v1"
            )
        return server

    @property
    def address(self) -> str:
        """The URL as it may be told: no user, no password, no query."""
        parts = urlsplit(self.url)
        start = f"{parts.scheme}://" if parts.scheme else ""
        return f"{start}{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"

    @property
    def remedy(self) -> str:
        """How its address is set."""
        return "set base_url" + (f" or {self.url_env}" if self.url_env else "")

    @property
    def hint(self) -> str:
        """What an address without a version may lack; empty for one that has it."""
        has_version = any(part.startswith("v") for part in urlsplit(self.url).path.split("/"))
        return "" if has_version else f"; most such servers answer at {self.address}/v1"

    @property
    def remote_host(self) -> str | None:
        """The host's name; null for this machine, however it is spelled."""
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
        """The key; null for a server that wants none."""
        if self.key_env is None:
            return None
        key = self.environ.get(self.key_env, "").strip()
        if not key:
            raise ModelError(
                f"the environment variable {self.key_env} is not set: put the key for "
                f"{self.address} there, or set key_env: null in {self.owner} if the server "
                "wants none"
            )
        if not (key.isascii() and key.isprintable()):
            raise ModelError(f"{self.key_env} holds characters that no key has; copy it again")
        return key

    def told(self, text: str) -> str:
        """A server's words as they may stand in a message: one short line without the key."""
        key = self.environ.get(self.key_env, "").strip() if self.key_env else ""
        if key:
            text = text.replace(key, f"[{self.key_env}]")
        line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return line if len(line) <= LONGEST_TOLD else f"{line[:LONGEST_TOLD]}..."
