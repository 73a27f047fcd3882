"""Requests to stored responses: a cache over the ledger that calls a model for what is missing.

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
    """Receives how far a stage is."""

    def __call__(self, stage: str, done: int, total: int, failed: int = 0, /) -> None:
        """`done` of `total` calls are stored, of which `failed` got no reply."""


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """What a command may call: nothing at all, what of the stored failures again, for how much.

    `retry` says which stored failures are asked again: `failed` those without a reply, `all` also
    those that were refused, filtered or cut, `none` none. With `is_batch`, hosted models are called
    in their providers' batches.
    """

    is_offline: bool = False
    retry: Retry = "failed"
    budget: Budget | None = None
    is_batch: bool = False


@dataclass(frozen=True, slots=True)
class CachedClient:
    """One model with the ledger of its calls, its price if known, and the policy for new calls."""

    model: Model
    ledger: Ledger
    progress: Progress
    terms: CallPolicy = field(default_factory=CallPolicy)
    price: Price | None = None
    is_batch: bool = False

    def __enter__(self) -> "CachedClient":
        """Open nothing: a ledger segment begins with its first record."""
        return self

    def __exit__(self, *_: object) -> None:
        """Write to disk what was answered."""
        self.ledger.close()

    def answer(self, requests: Iterable[Request], *, stage: str) -> dict[str, Response]:
        """The response to each request, by key: stored ones, and the missing ones asked now."""
        planned = {request.key: request for request in requests}
        in_ledger = self.ledger.find(planned)
        final = self._final(in_ledger)
        missing = {key: request for key, request in planned.items() if key not in final}
        self.progress(stage, len(final), len(planned), _count_failed(final.values()))
        self._record_stored(planned, in_ledger)
        if not missing:
            return in_ledger
        if self.terms.is_offline:
            raise StoreError(
                f"{stage}: {len(missing)} of {len(planned)} calls are not stored; "
                "repeat the command without --offline to make them"
            )
        try:
            self._ask(missing, final, stage=stage)
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
            self._record_stored(planned, self.ledger.find(planned))

    def _final(self, responses: Mapping[str, Response]) -> dict[str, Response]:
        """The responses that are not asked for again: answers, and failures by the policy.

        A reply without an answer is final too: asked for until it answers, it would be selected.
        """
        if self.terms.is_offline or self.terms.retry == "none":
            return dict(responses)
        again = frozenset(Reason) if self.terms.retry == "all" else NO_REPLY
        return {
            key: response
            for key, response in responses.items()
            if not response.failure or response.failure.reason not in again
        }

    def _ask(
        self, missing: Mapping[str, Request], stored: Mapping[str, Response], *, stage: str
    ) -> None:
        """Ask for what is missing, in rounds until the budget lets no request through."""
        self.ledger.check()
        left, failed = dict(missing), _count_failed(stored.values())
        total = len(missing) + len(stored)
        while left:
            before = len(left)
            for response in self.model.answer(self._within_budget(left.values())):
                priced, request = self._with_cost(response), left.pop(response.key)
                self.ledger.add(request, priced)
                self._record_cost(request, priced)
                failed += _count_failed([response])
                self.progress(stage, total - len(left), total, failed)
            if len(left) == before:
                raise self._budget_error(left.values(), stage)

    def _within_budget(self, requests: Iterable[Request]) -> Iterator[Request]:
        """The requests there is money for; all of a model without a price."""
        planned = list(requests)  # the caller changes the mapping while these are taken
        if self.terms.budget is None or self.price is None:
            return iter(planned)
        return self.terms.budget.within(planned, self.price)

    def _with_cost(self, response: Response) -> Response:
        if self.price is None:
            return response
        cost = self.price.cost(response.usage, is_batch=self.is_batch)
        return replace(response, usage=replace(response.usage, cost_usd=cost))

    def _record_stored(
        self, planned: Mapping[str, Request], responses: Mapping[str, Response]
    ) -> None:
        """Count earlier payments against the budget, also for calls that were since replaced."""
        if self.terms.budget is None or self.price is None:
            return
        for key, response in responses.items():
            request, price = planned[key], self.price
            costs = [
                _worst_case_cost(usage, request, price) for usage in response.usage.with_superseded
            ]
            self.terms.budget.record_stored(key, fsum(costs))

    def _record_cost(self, request: Request, response: Response) -> None:
        if self.terms.budget is not None and self.price is not None:
            cost = _worst_case_cost(response.usage, request, self.price)
            self.terms.budget.record(response.key, cost)

    def _budget_error(self, left: Collection[Request], stage: str) -> Exception:
        budget, price, count = self.terms.budget, self.price, len(left)
        if budget is None or price is None:
            return StoreError(f"{stage}: model {self.model.name} left {count} requests unanswered")
        most = fsum(map(price.most, left))
        return BudgetReached(
            f"{stage}: {count} calls are left, which may cost {most:.4f} USD at most, and the next "
            f"might bring the {budget.spent_usd:.4f} USD spent above --budget {budget.cap_usd:g}; "
            "what was answered is stored: raise the budget and repeat the command to go on"
        )


def _count_failed(responses: Iterable[Response]) -> int:
    """How many responses are failures without a reply."""
    return sum(r.failure is not None and r.failure.reason in NO_REPLY for r in responses)


def _worst_case_cost(usage: Usage, request: Request, price: Price) -> float:
    """What a call counts against a budget, in US dollars: its cost, where it is known.

    At full price where only its tokens are known; the highest it may be where these are not.
    """
    cost = price.cost(usage) if usage.cost_usd is None else usage.cost_usd
    most = price.most(request)
    return (most if cost is None else cost) + (usage.unanswered or 0) * most
