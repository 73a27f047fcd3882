"""Tokens to US dollars, where a price is known. Pure; a missing price is never zero."""

from dataclasses import dataclass

from harness.core import Request
from harness.parts import Usage

MILLION = 1_000_000
MESSAGE_TOKENS = 16
"""What a chat format may put around a message, at most."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars a million tokens, and the share of it that a batch costs."""

    input_usd: float
    output_usd: float
    batch_share: float | None = None

    def cost(self, usage: Usage, *, is_batch: bool = False) -> float | None:
        """What some tokens cost; null where a count or the batch's price is missing."""
        share = self.batch_share if is_batch else 1.0
        prompt, completion = usage.prompt_tokens, usage.completion_tokens
        if prompt is None or completion is None or share is None:
            return None
        return share * (prompt * self.input_usd + completion * self.output_usd) / MILLION

    def most(self, request: Request) -> float:
        """What a request costs at most: no token is shorter than a byte."""
        words = sum(len(m.content.encode()) + MESSAGE_TOKENS for m in request.messages)
        drawn = request.decoding.max_tokens * request.decoding.n
        return (words * self.input_usd + drawn * self.output_usd) / MILLION
