"""Requests to stored responses: what is stored already is not asked, what is asked is stored.

The only place that calls a model. Nothing here knows a task, a judge or a back end.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import fsum
from typing import Literal, Protocol

from harness.core import Model, Request, Response
from harness.errors import BudgetReached, ModelError, StoreError
from harness.models.client.pricing import Budget, Price
from harness.parts import NO_REPLY, Reason, Usage
from harness.storage.ledger import Ledger

Retry = Literal["failed", "all", "none"]


class Progress(Protocol):
    """Is told how far a stage is."""

    def __call__(self, stage: str, done: int, total: int, failed: int = 0, /) -> None:
        """`done` of `total` calls are stored, of which `failed` got no reply."""


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """On what terms a command may call: not at all, what again, for how much money.

    `retry` says what is asked again of what has no answer: `failed` what got no reply, `all` what
    was refused, filtered or cut as well, `none` nothing. `is_batch` has hosted models asked in
    their providers' batches.
    """

    is_offline: bool = False
    retry: Retry = "failed"
    budget: Budget | None = None
    is_batch: bool = False


@dataclass(frozen=True, slots=True)
class CachedClient:
    """Where calls are made and kept: one model, its ledger, its price if known, and the terms."""

    model: Model
    ledger: Ledger
    progress: Progress
    terms: CallPolicy = field(default_factory=CallPolicy)
    price: Price | None = None
    is_batch: bool = False

    def __enter__(self) -> "CachedClient":
        """Nothing to open: a ledger segment begins with its first record."""
        return self

    def __exit__(self, *_: object) -> None:
        """Bring to disk what was answered."""
        self.ledger.close()

    def answer(self, requests: Iterable[Request], *, stage: str) -> dict[str, Response]:
        """The response to each request, by key: stored ones, and the missing ones asked now."""
        planned = {request.key: request for request in requests}
        found = self.ledger.find(planned)
        stored = self._final(found)
        missing = {key: value for key, value in planned.items() if key not in stored}
        self.progress(stage, len(stored), len(planned), _without_reply(stored))
        self._count(planned, found)
        if not missing:
            return found
        if self.terms.is_offline:
            raise StoreError(
                f"{stage}: {len(missing)} of {len(planned)} calls are not stored; "
                "repeat the command without --offline to make them"
            )
        try:
            self._ask(missing, stored, stage=stage)
        except ModelError as error:
            raise ModelError(f"model {self.model.name}: {error}") from error
        return self.ledger.find(planned)

    def stored(self, requests: Iterable[Request]) -> dict[str, Response]:
        """The stored responses to some requests, without those that would be asked for again."""
        return self._final(self.ledger.find([request.key for request in requests]))

    def count(self, requests: Iterable[Request]) -> None:
        """Count what is stored of some requests against the budget, before others are made."""
        if self.terms.budget is not None and self.price is not None:
            planned = {request.key: request for request in requests}
            self._count(planned, self.ledger.find(planned))

    def _final(self, found: Mapping[str, Response]) -> dict[str, Response]:
        """What is not asked again: answers, and what stands in place of one on these terms.

        A reply without an answer is one: asked for again until it answers, it would be chosen.
        """
        if self.terms.is_offline or self.terms.retry == "none":
            return dict(found)
        again = frozenset(Reason) if self.terms.retry == "all" else NO_REPLY
        return {k: v for k, v in found.items() if not v.failure or v.failure.reason not in again}

    def _ask(
        self, missing: Mapping[str, Request], stored: Mapping[str, Response], *, stage: str
    ) -> None:
        """Ask for what is missing, in as many rounds as the budget takes to run out."""
        self.ledger.check()
        left, failed = dict(missing), _without_reply(stored)
        total = len(missing) + len(stored)
        while left:
            before = len(left)
            for response in self.model.answer(self._admitted(left.values())):
                priced, asked = self._priced(response), left.pop(response.key)
                self.ledger.add(asked, priced)
                self._settle(asked, priced)
                failed += _without_reply({response.key: response})
                self.progress(stage, total - len(left), total, failed)
            if len(left) == before:
                raise self._stopped(left.values(), stage)

    def _admitted(self, requests: Iterable[Request]) -> Iterator[Request]:
        """The requests there is money for; all of a model that has no price."""
        planned = list(requests)  # answers are taken off the mapping while it is drawn from
        if self.terms.budget is None or self.price is None:
            return iter(planned)
        return self.terms.budget.admitted(planned, self.price)

    def _priced(self, response: Response) -> Response:
        """A response with what it cost, where that is known."""
        if self.price is None:
            return response
        cost = self.price.cost(response.usage, is_batch=self.is_batch)
        return replace(response, usage=replace(response.usage, cost_usd=cost))

    def _count(self, planned: Mapping[str, Request], found: Mapping[str, Response]) -> None:
        """Count what was paid before against the budget, also for what was since asked again."""
        if self.terms.budget is None or self.price is None:
            return
        for key, response in found.items():
            paid = [
                _counted(part, planned[key], self.price) for part in response.usage.with_superseded
            ]
            self.terms.budget.count(key, fsum(paid))

    def _settle(self, asked: Request, response: Response) -> None:
        if self.terms.budget is not None and self.price is not None:
            cost = _counted(response.usage, asked, self.price)
            self.terms.budget.settle(response.key, cost)

    def _stopped(self, left: Collection[Request], stage: str) -> Exception:
        budget, price, count = self.terms.budget, self.price, len(left)
        if budget is None or price is None:
            return StoreError(f"{stage}: model {self.model.name} left {count} requests unanswered")
        most = fsum(map(price.most, left))
        return BudgetReached(
            f"{stage}: {count} calls are left, which may cost {most:.4f} USD at most, and the next "
            f"might bring the {budget.spent_usd:.4f} USD spent above --budget {budget.cap_usd:g}; "
            "what was answered is stored: raise the budget and repeat the command to go on"
        )


def _without_reply(found: Mapping[str, Response]) -> int:
    return sum(r.failure is not None and r.failure.reason in NO_REPLY for r in found.values())


def _counted(usage: Usage, asked: Request, price: Price) -> float:
    """What a call counts against a budget: what it cost, at full price where only its tokens are
    told, at its most where not even these are.
    """
    cost = price.cost(usage) if usage.cost_usd is None else usage.cost_usd
    most = price.most(asked)
    return (most if cost is None else cost) + (usage.unanswered or 0) * most
