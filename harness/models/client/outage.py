"""What becomes of calls, one after the other, to a word about a server that answers none of them.

Nothing here knows a server, a retry or a clock.
"""

import logging

from harness.core import Response
from harness.errors import ModelError
from harness.parts import Reason

_log = logging.getLogger(__name__)
TOLD = 8
"""So many calls in a row that bring no reply are told of."""
LEAST = 20
"""So many requests in a row that fail end the asking, or as many as may be in flight."""


class Outage:
    """Counts what fails in a row, over all requests; a response of any other kind ends the row."""

    def __init__(self, concurrency: int) -> None:
        """Nothing has failed yet."""
        self._most = max(LEAST, concurrency)
        self._calls = self._requests = 0

    def broke(self, error: Exception) -> None:
        """Count a call without a reply, which is made again; tell where many have been."""
        self._calls += 1
        if self._calls == TOLD:
            _log.warning(
                "%d calls in a row got no reply, the last: %s; each is made again for a while, and "
                "what was answered is stored",
                TOLD,
                error,
            )

    def finished(self, response: Response) -> ModelError | None:
        """Count what a request came to; an error once so many have failed that none may succeed."""
        if response.failure is None or response.failure.reason is not Reason.FAILED:
            self._calls = self._requests = 0
            return None
        self._requests += 1
        if self._requests < self._most:
            return None
        return ModelError(
            f"the last {self._requests} requests failed one after the other, the last with: "
            f"{response.failure.message}; nothing more was asked, and what was answered is stored: "
            "mend that and repeat the command, which asks them again (--retry none leaves them out)"
        )
