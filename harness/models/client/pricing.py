"""Token counts to US dollars, where a price is known, and a budget of dollars for all calls.

A missing price is never zero.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from threading import Lock

from msgspec import json

from harness.core import Request
from harness.parts import Mode, Usage
from harness.specs.hosted import PriceSpec

MILLION = 1_000_000
MESSAGE_TOKENS = 16
"""What a chat format may put around a message, at most."""
FORM_TOKENS = 600
"""What a provider may put around a form, at most: Anthropic's page on tool use has up to 530."""


def price_of(spec: PriceSpec, *, reasoning_max_tokens: int = 0) -> "Price | None":
    """The price in a model's YAML; None where it has none."""
    if spec.input_usd is None:
        return None
    return Price(spec.input_usd, spec.output_usd or 0.0, spec.batch_share, reasoning_max_tokens)


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars a million tokens, and the share of the full price that a batch costs.

    `reasoning_max_tokens` are the reasoning tokens that a reply may have beside the max_tokens of
    its decoding.
    """

    input_usd: float
    output_usd: float
    batch_share: float | None = None
    reasoning_max_tokens: int = 0

    def cost(self, usage: Usage, *, is_batch: bool = False) -> float | None:
        """The cost of some tokens in US dollars; None where a count or the batch's price is."""
        prompt, completion = usage.prompt_tokens, usage.completion_tokens
        if prompt is None or completion is None:
            return None
        full = (prompt * self.input_usd + completion * self.output_usd) / MILLION
        return self.shared(full, is_batch=is_batch)

    def shared(self, full_usd: float, *, is_batch: bool) -> float | None:
        """A full price as it is charged; None for a batch whose share of it is unknown."""
        share = self.batch_share if is_batch else 1.0
        return None if share is None else share * full_usd

    def most(self, request: Request) -> float:
        """The highest cost of a request in US dollars: no token is shorter than a byte."""
        words = sum(len(m.content.encode()) + MESSAGE_TOKENS for m in request.messages)
        if request.schema is not None:
            words += len(json.encode(request.schema)) + FORM_TOKENS
        # A prompt may be paid for with each reply, and stands before each choice that is echoed.
        times = len(request.choices) if request.mode is Mode.CHOOSE else request.decoding.n
        echoed = sum(len(choice.encode()) for choice in request.choices)
        generated = (request.decoding.max_tokens + self.reasoning_max_tokens) * times
        return ((times * words + echoed) * self.input_usd + generated * self.output_usd) / MILLION

    def least(self, request: Request, prompt_tokens: int) -> float:
        """The cost of a request whose replies are one token each; vectors take none."""
        generated = 0 if request.mode is Mode.EMBED else request.decoding.n
        return (prompt_tokens * self.input_usd + generated * self.output_usd) / MILLION


class Budget:
    """US dollars that all calls of a command may cost together, stored calls included."""

    def __init__(self, cap_usd: float) -> None:
        """Nothing is spent yet."""
        self.cap_usd = cap_usd
        self.spent_usd = 0.0
        self._reserved: dict[str, float] = {}
        self._reserved_usd = 0.0
        self._counted: set[str] = set()
        self._lock = Lock()  # another thread takes the requests than the one with the answers

    def within(self, requests: Iterable[Request], price: Price) -> Iterator[Request]:
        """The requests before the first that is too expensive; the cost of each is reserved."""
        for request in requests:
            with self._lock:
                most = price.most(request)
                if self.spent_usd + self._reserved_usd + most > self.cap_usd:
                    return
                self._reserved[request.key] = most
                self._reserved_usd += most
            yield request

    def record(self, key: str, cost_usd: float | None) -> None:
        """Count a call that has ended; where its cost is None, the highest it may have cost.

        It counts beside an earlier attempt at it that was stored as a failure.
        """
        with self._lock:
            most = self._reserved.pop(key, 0.0)
            self._reserved_usd = self._reserved_usd - most if self._reserved else 0.0
            self._counted.add(key)
            self.spent_usd += most if cost_usd is None else cost_usd

    def record_stored(self, key: str, cost_usd: float) -> None:
        """Count a call that was stored before; once, however often it is recorded."""
        with self._lock:
            if key not in self._counted:
                self._counted.add(key)
                self.spent_usd += cost_usd
