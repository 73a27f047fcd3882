"""Requests to as many of them as a sum of money allows.

A request is let through where what is spent, what those in flight may cost at most and what it may
cost itself stay within the cap. Nothing here asks or stores.
"""

from collections.abc import Iterable, Iterator
from threading import Lock

from harness.core import Request
from harness.models.client.pricing import Price


class Budget:
    """US dollars that all calls of a command together may cost, those stored before included."""

    def __init__(self, cap_usd: float) -> None:
        """Nothing is spent yet."""
        self.cap_usd = cap_usd
        self.spent_usd = 0.0
        self._reserved: dict[str, float] = {}
        self._reserved_usd = 0.0
        self._counted: set[str] = set()
        self._lock = Lock()  # requests are drawn in another thread than that of the answers

    def admitted(self, requests: Iterable[Request], price: Price) -> Iterator[Request]:
        """The requests up to the first that there is no money for; those are in flight then."""
        for request in requests:
            with self._lock:
                most = price.most(request)
                if self.spent_usd + self._reserved_usd + most > self.cap_usd:
                    return
                self._reserved[request.key] = most
                self._reserved_usd += most
            yield request

    def settle(self, key: str, cost_usd: float | None) -> None:
        """A call has ended; where its cost is not told it counts with all that it may have cost.

        It counts beside an earlier attempt at it that was stored as a failure.
        """
        with self._lock:
            most = self._reserved.pop(key, 0.0)
            self._reserved_usd = self._reserved_usd - most if self._reserved else 0.0
            self._counted.add(key)
            self.spent_usd += most if cost_usd is None else cost_usd

    def count(self, key: str, cost_usd: float) -> None:
        """A call was stored before; it counts once, however often it is found."""
        with self._lock:
            if key not in self._counted:
                self._counted.add(key)
                self.spent_usd += cost_usd
