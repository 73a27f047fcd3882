"""Tokens to US dollars, where a price is known. Pure; a missing price is never zero."""

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
    """The price that was read; null where none was."""
    if spec.input_usd is None:
        return None
    return Price(spec.input_usd, spec.output_usd or 0.0, spec.batch_share, reasoning_max_tokens)


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars a million tokens, and the share of it that a batch costs.

    `reasoning_max_tokens` are those a reply may have beside the most of its decoding.
    """

    input_usd: float
    output_usd: float
    batch_share: float | None = None
    reasoning_max_tokens: int = 0

    def cost(self, usage: Usage, *, is_batch: bool = False) -> float | None:
        """What some tokens cost; null where a count or the batch's price is missing."""
        prompt, completion = usage.prompt_tokens, usage.completion_tokens
        if prompt is None or completion is None:
            return None
        full = (prompt * self.input_usd + completion * self.output_usd) / MILLION
        return self.shared(full, is_batch=is_batch)

    def shared(self, full_usd: float, *, is_batch: bool) -> float | None:
        """A full price as it is charged; null for a batch whose share of it is not known."""
        share = self.batch_share if is_batch else 1.0
        return None if share is None else share * full_usd

    def most(self, request: Request) -> float:
        """What a request costs at most: no token is shorter than a byte."""
        words = sum(len(m.content.encode()) + MESSAGE_TOKENS for m in request.messages)
        if request.schema is not None:
            words += len(json.encode(request.schema)) + FORM_TOKENS
        # A prompt may be paid for with each reply, and is behind each choice that is echoed.
        times = len(request.choices) if request.mode is Mode.CHOOSE else request.decoding.n
        echoed = sum(len(choice.encode()) for choice in request.choices)
        drawn = (request.decoding.max_tokens + self.reasoning_max_tokens) * times
        return ((times * words + echoed) * self.input_usd + drawn * self.output_usd) / MILLION

    def least(self, request: Request, prompt_tokens: int) -> float:
        """What a request costs whose replies are a token each; vectors take none."""
        drawn = 0 if request.mode is Mode.EMBED else request.decoding.n
        return (prompt_tokens * self.input_usd + drawn * self.output_usd) / MILLION


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
