"""Requests to stored responses: the ledger, and the only place that calls a model."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import fsum
from threading import Lock
from typing import Literal, Self

from msgspec import json

from harness.core import Model, Request, Response
from harness.errors import BudgetReached, ModelError, NoServerError, SpecError, StoreError, of_model
from harness.parts import NO_REPLY, Mode, Reason, Usage, possible
from harness.specs.models import PriceSpec
from harness.storage.ledger import Ledger

MILLION = 1_000_000
MESSAGE_TOKENS = 16  # what a chat format may put around a message, at most
# What a provider may put around a form, at most: Anthropic's page on tool use has up to 530.
FORM_TOKENS = 600
Retry = Literal["failed", "all", "none"]
HOSTED = frozenset({"openai", "anthropic"})  # the kinds of models whose calls have a price


def price_of(spec: PriceSpec, *, reasoning_max_tokens: int = 0) -> "Price | None":
    """The price in a model's YAML; None where it has none."""
    if spec.input_usd is None:
        return None
    usd = spec.input_usd, spec.output_usd or 0.0
    return Price(*usd, spec.batch_share, reasoning_max_tokens)


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars a million tokens, and the share of the full price that a batch costs.

    A reply may have `reasoning_max_tokens` in addition to the max_tokens of its decoding.
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
        # A prompt may be paid for with each reply, and precedes each choice that is echoed.
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
        """Count a call that has ended; where its cost is None, the highest it may have cost."""
        with self._lock:
            most = self._reserved.pop(key, 0.0)
            self._reserved_usd = self._reserved_usd - most if self._reserved else 0.0
            self._counted.add(key)
            known = possible(cost_usd)  # nothing is ever given back
            self.spent_usd += most if known is None else known

    def record_stored(self, key: str, cost_usd: float) -> None:
        """Count a call that was stored before; once, however often it is recorded."""
        with self._lock:
            if key not in self._counted:
                self._counted.add(key)
                self.spent_usd += possible(cost_usd) or 0.0


# Receives the words of a stage, how many calls of how many are stored, then, if known, how many of
# these got no reply, and what those made now have cost in US dollars (None: no price).
Progress = Callable[..., None]


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """What a command may call, for how much.

    Of stored failures those without a reply are asked again (`retry`: `failed`), also those that
    were refused, filtered or cut (`all`), or none. `is_dry`: calls are counted, and none is made.
    """

    is_offline: bool = False
    retry: Retry = "failed"
    budget: Budget | None = None
    is_batch: bool = False
    is_dry: bool = False


@dataclass(frozen=True, slots=True)
class CachedClient:
    """One model with the ledger of its calls, its price if known, and the policy for new calls.

    `priced_as` is what prices.yaml calls the model, None for one that is not paid by the call.
    `waiting` are the keys of its calls in batches that are not collected yet.
    """

    model: Model
    ledger: Ledger
    progress: Progress
    terms: CallPolicy = field(default_factory=CallPolicy)
    price: Price | None = None
    is_batch: bool = False
    priced_as: str | None = None
    waiting: frozenset[str] = frozenset()

    def __enter__(self) -> Self:
        """Open nothing: a ledger segment begins with its first record."""
        return self

    def __exit__(self, *_: object) -> None:
        """Write to disk what was answered."""
        self.ledger.close()

    def answer(self, requests: Iterable[Request], *, stage: str) -> dict[str, Response]:
        """The response to each request, by key: stored ones, and the missing ones asked now."""
        planned = {request.key: request for request in requests}
        self.ledger.take(planned)
        in_ledger = self.ledger.find(planned)
        final = self._final(in_ledger)
        missing = {key: request for key, request in planned.items() if key not in final}
        self.progress(stage, len(final), len(planned), _count_failed(final.values()))
        self._record_stored(planned, in_ledger)
        if not missing:
            return in_ledger
        if self.terms.is_offline:
            fact = f"{stage}: {len(missing)} of {len(planned)} calls are not stored"
            raise StoreError(f"{fact}; repeat the command without --offline to make them")
        try:
            self._ask(missing, final, stage=stage)
        except ModelError as error:
            raise ModelError(of_model(self.model.name, error)) from error
        return self.ledger.find(planned)

    def stored(self, requests: Iterable[Request]) -> dict[str, Response]:
        """The stored responses to some requests, without those that would be asked for again."""
        keys = [request.key for request in requests]
        found = [one.find(keys) for one in (*self.ledger.alike, self.ledger)]
        return self._final({key: one for part in found for key, one in part.items()})

    def count(self, requests: Iterable[Request]) -> None:
        """Count what is stored of some requests against the budget, before others are made."""
        planned = {request.key: request for request in requests}
        if self.terms.budget and self.price:
            self._record_stored(planned, self.ledger.find(planned))

    def _final(self, responses: Mapping[str, Response]) -> dict[str, Response]:
        """The responses that are not asked for again: answers, and failures by the policy."""
        # A reply without an answer is final too: asked for until it answers, it would be selected.
        again = {"none": frozenset[Reason](), "failed": NO_REPLY, "all": frozenset(Reason)}
        asked = again["none" if self.terms.is_offline else self.terms.retry]
        found = responses.items()
        return {k: r for k, r in found if not r.failure or r.failure.reason not in asked}

    def _ask(
        self, missing: Mapping[str, Request], stored: Mapping[str, Response], *, stage: str
    ) -> None:
        self.ledger.check()
        left, failed = dict(missing), _count_failed(stored.values())
        total = len(missing) + len(stored)
        budget, price, spent = self.terms.budget, self.price, 0.0
        while left:
            before, planned = len(left), iter([*left.values()])  # `left` changes meanwhile
            if budget and price:
                planned = budget.within(planned, price)
            for response in self.model.answer(planned):
                if not isinstance(response, Response) or response.key not in left:
                    said = "answer gives one Response, with its key, to each request"
                    raise SpecError(f"model {self.model.name}: {said}; not {response!r:.80}")
                request, priced = left.pop(response.key), response
                if price:
                    cost = price.cost(response.usage, is_batch=self.is_batch)
                    priced = replace(response, usage=replace(response.usage, cost_usd=cost))
                    spent += cost or 0.0
                self.ledger.add(request, priced)
                if budget and price:
                    budget.record(priced.key, _worst_case_cost(priced.usage, request, price))
                failed += _count_failed([response])
                self.progress(stage, total - len(left), total, failed, spent if price else None)
            if len(left) == before:
                raise self._budget_error(left.values(), stage)

    def _record_stored(
        self, planned: Mapping[str, Request], responses: Mapping[str, Response]
    ) -> None:
        """Count earlier payments against the budget, also for calls that were since replaced."""
        if self.terms.budget is None or self.price is None:
            return
        for key, response in responses.items():
            usages = (*response.usage.with_superseded, *self.ledger.twice.get(key, ()))
            costs = [_worst_case_cost(usage, planned[key], self.price) for usage in usages]
            self.terms.budget.record_stored(key, fsum(costs))

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


@dataclass(frozen=True, slots=True, weakref_slot=True)
class OfflineModel:
    """A model known by its stored calls alone; `why` it is not asked, unless that was wished."""

    name: str
    kind: str
    identity: str
    modes: frozenset[Mode]
    revision: str | None = None
    why: str = ""

    def resolve(self) -> None:
        """Do nothing: the identity is that of the stored calls."""

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Refuse: there is only what is stored."""
        if self.why:
            raise NoServerError(self.why)
        raise StoreError(f"model {self.name}: asked for {len(list(requests))} answers offline")


def _count_failed(responses: Iterable[Response]) -> int:
    return sum(r.failure is not None and r.failure.reason in NO_REPLY for r in responses)


def _worst_case_cost(usage: Usage, request: Request, price: Price) -> float:
    """What a call counts against a budget, in US dollars: its cost, where it is known."""
    # At full price where only its tokens are known; the highest it may be where these are not.
    cost = price.cost(usage) if usage.cost_usd is None else usage.cost_usd
    most = price.most(request)
    return (most if cost is None else cost) + (usage.unanswered or 0) * most
