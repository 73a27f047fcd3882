"""A plan to the calls it would take: prompts, sizes and prices, before anything is asked.

Makes no call. Where a prompt shows an answer that is not there yet, a stand-in takes its place,
once at its shortest and once at its longest. A call that two cells share is counted once, as it is
asked; what is stored already is counted, and not paid for again.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import fsum
from pathlib import Path
from typing import Any, NamedTuple, Self

from harness.core import Request, Response, Sample
from harness.models.client.cached import HOSTED, Budget, CachedClient
from harness.models.labels import TextLabeller
from harness.models.local.checkpoints import open_spec
from harness.models.local.tokenization import (
    CHARACTERS_A_TOKEN,
    MeasuresPrompts,
    characters,
    estimated,
    token_report,
)
from harness.parts import Message
from harness.pipeline.plan import Plan, PlannedResponse, parted, request
from harness.pipeline.resolve import JudgePlan, RunPlan
from harness.pipeline.walk import Call, case_of, questions, sample_record, walk
from harness.specs.models import LocalSpec

MOST_HELD = 8_000
"""The planned responses that are looked at together."""
ANY = "-"
"""The variant of a judge's calls, which reads all of them."""


class Asked(NamedTuple):
    """A call that a run would make: of whose model, for whom, in what variant, of what sample.

    `longest` and `shortest` are one request where every word of its prompt is known.
    """

    client: CachedClient
    asker: str
    variant: str
    sample: Sample
    longest: Request
    shortest: Request

    @property
    def is_open(self) -> bool:
        """Whether its prompt shows an answer that is not there yet."""
        return self.longest is not self.shortest


def preview(
    plan: Plan, client: CachedClient | None, cells: Sequence[PlannedResponse]
) -> list[list[Call]]:
    """The calls of some planned responses, with short stand-ins for answers that are not stored.

    Without a client none is stored.
    """

    def answer(asked: Sequence[Request], wave: int) -> dict[str, Response]:
        known = client.stored(asked) if client else {}
        return {r.key: known.get(r.key) or Response(r.key, texts=(_stand_in(r),)) for r in asked}

    return walk(plan.task, cells, ask=partial(request, plan), answer=answer)


def _stand_in(asked: Request) -> str:
    return f"({asked.step} {asked.key[:8]})"


def requests_of(calls: Sequence[Call]) -> list[tuple[Request, Request]]:
    """Each call of a planned response, at its longest and at its shortest."""
    return [(_at_longest(asked, calls[:place]), asked) for place, (asked, _) in enumerate(calls)]


def _at_longest(asked: Request, earlier: Sequence[Call]) -> Request:
    """A request in which stand-ins for earlier answers are as long as these may be."""
    padded = {
        words: words.ljust(
            max(before.decoding.max_tokens * CHARACTERS_A_TOKEN, len(words) + 1), "."
        )
        for before, response in earlier
        if response.texts == ((words := _stand_in(before)),)
    }
    shown = [words for words in padded if any(words in turn.content for turn in asked.messages)]
    for words in shown:
        turns = (
            replace(t, content=t.content.replace(words, padded[words])) for t in asked.messages
        )
        asked = replace(asked, messages=tuple(turns))
    return asked


def planned_requests(plan: Plan, cell: PlannedResponse) -> list[Request]:
    """The request of each step of a planned response, stand-ins for the earlier answers."""
    return [longest for longest, _ in requests_of(preview(plan, None, [cell])[0])]


def planned_calls(plan: RunPlan | JudgePlan) -> Iterator[list[Asked]]:
    """Every call of a run, or of judges that are to read a stored one, in chunks."""
    asking = [(setup, setup.client) for setup in plan.judges if setup.client is not None]
    if isinstance(plan, JudgePlan):
        for records in parted(plan.records, MOST_HELD) if asking else ():
            responses = plan.responses(records)
            yield [
                Asked(client, setup.judge.name, ANY, record.sample, one, one)
                for setup, client in asking
                for record in records
                if (case := case_of(record, plan.task, step=setup.entry.step, responses=responses))
                for one in questions(case, setup.judge)
            ]
        return
    made = plan.plan
    for cells in made.chunks(MOST_HELD):
        foreseen = [*zip(cells, preview(made, plan.client, cells), strict=True)]
        yield [
            *(
                Asked(plan.client, made.run.task, cell.variant, cell.sample, *pair)
                for cell, calls in foreseen
                for pair in requests_of(calls)
            ),
            *(
                Asked(client, setup.judge.name, ANY, cell.sample, _at_longest(one, calls), one)
                for setup, client in asking
                for cell, calls in foreseen
                if (record := sample_record(cell, calls, made.task))
                if (case := case_of(record, made.task, step=setup.entry.step))
                for one in questions(case, setup.judge)
            ),
        ]


def by_client(asked: Iterable[Asked]) -> list[tuple[CachedClient, list[Asked]]]:
    """Some calls by the client that makes them."""
    found: dict[int, tuple[CachedClient, list[Asked]]] = {}
    for one in asked:
        found.setdefault(id(one.client), (one.client, []))[1].append(one)
    return list(found.values())


def budget_of(plan: RunPlan | JudgePlan) -> Budget | None:
    """The budget of the calls of a run or of judges; None without one."""
    return next((one.terms.budget for one in plan.clients if one.terms.budget), None)


def charge_stored(plan: RunPlan | JudgePlan) -> None:
    """Count all that is stored of a run against the budget before its first new call.

    Replies to judges, or to later steps, would else count only after new calls of earlier ones.
    """
    for asked in planned_calls(plan) if budget_of(plan) else ():
        for client, own in by_client(asked):
            client.count([one.longest for one in own])


_STAND_IN = re.compile(r"\((?P<step>[^()\n]+) [0-9a-f]{8}\)\.+")


def _explained(message: Message) -> Message:
    """A message of an example whose stand-ins say what they replace, in place of their dots."""

    def words(found: re.Match[str]) -> str:
        tokens = len(found[0]) // CHARACTERS_A_TOKEN
        return f"(here the model's {found['step']}, at most {tokens} tokens)"

    return Message(message.role, _STAND_IN.sub(words, message.content))


@dataclass(frozen=True, slots=True)
class CallSummary:
    """One kind of call: how many, how many of them stored, their sizes, and the price of the rest.

    `stored` is None if all prompts show missing answers; in sizes these are as long as they may
    be. `prompt_tokens` are by the model's tokenizer, or an estimate from characters. `max_tokens`
    bounds the tokens of all answers together. The price of what is not stored, from the shortest
    answers to the longest, is None where none is known. `waiting` calls are in a batch handed in.
    `priced_as` is the model's name in prices.yaml, None for one that is not paid by the call. Of a
    model that reads texts and no prompt the example is a text alone, and there are no tokens.
    """

    asker: str
    variant: str
    step: str
    model: str
    is_hosted: bool
    calls: int
    stored: int | None
    prompt_characters: int
    prompt_tokens: int = 0
    is_estimate: bool = False
    max_tokens: int = 0
    least_usd: float | None = None
    most_usd: float | None = None
    example: tuple[Message, ...] = ()
    choices: tuple[str, ...] = ()
    waiting: int = 0
    priced_as: str | None = None

    @property
    def is_priced(self) -> bool:
        """Whether these calls are paid for, at a price that is known."""
        return self.priced_as is not None and self.most_usd is not None

    def plus(self, more: Self) -> Self:
        """The summary of these and more calls of the same kind."""
        counts = ("calls", "prompt_characters", "prompt_tokens", "max_tokens", "waiting")
        sums: dict[str, Any] = {n: getattr(self, n) + getattr(more, n) for n in counts}
        for name in ("least_usd", "most_usd"):
            ends = getattr(self, name), getattr(more, name)
            sums[name] = None if None in ends else sum(ends)
        known = [one.stored for one in (self, more) if one.calls] or [0]
        sums["stored"] = None if known.count(None) == len(known) else sum(n or 0 for n in known)
        example, choices = self.example or more.example, self.choices or more.choices
        return replace(self, example=example, choices=choices, **sums)


def dry_run(plan: RunPlan | JudgePlan, seen: set[str]) -> list[CallSummary]:
    """Every kind of call of one run that is not `seen` yet; its calls are added to these."""
    found: dict[tuple[str, str, str], CallSummary] = {}
    if isinstance(plan, RunPlan):  # no answer to an earlier step: a later one has no call
        for variant in plan.plan.run.variants:
            for step in plan.plan.task.variants[variant].steps:
                names = (plan.plan.run.task, variant, step.name)
                found[names] = _summary(plan.client, names, [], seen)
    for asked in planned_calls(plan):
        kinds: dict[tuple[str, str, str], list[Asked]] = {}
        for one in asked:
            kinds.setdefault((one.asker, one.variant, one.longest.step), []).append(one)
        for names, own in kinds.items():
            summary = _summary(own[0].client, names, own, seen)
            found[names] = found[names].plus(summary) if names in found else summary
    return list(found.values())


def _summary(
    client: CachedClient, names: tuple[str, str, str], calls: Sequence[Asked], seen: set[str]
) -> CallSummary:
    # `names` are those of who asks, of the variant and of the step.
    model, planned = client.model, {call.longest.key: call for call in calls}
    new = [call for key, call in planned.items() if key not in seen]
    seen.update(planned)
    stored = client.stored([call.longest for call in new if not call.is_open]).keys()
    summary = partial(CallSummary, *names, model.name, is_hosted=model.kind in HOSTED)
    if isinstance(model, TextLabeller):
        all_texts = {call.longest.key: model.text_of(call.longest) for call in new}
        texts = {key: text for key, text in all_texts.items() if text is not None}
        return summary(
            calls=len(texts),
            stored=len(stored & texts.keys()),
            prompt_characters=sum(map(len, texts.values())),
            example=tuple(Message("user", text) for text in [*texts.values()][:1]),
        )
    size = model.prompt_size if isinstance(model, MeasuresPrompts) else estimated
    sizes = [size(call.shortest) for call in new]
    longer = [characters(call.longest) - characters(call.shortest) for call in new]
    left = [place for place, call in enumerate(new) if call.longest.key not in stored]
    least, most = _price(client, [(new[place], sizes[place]) for place in left])
    return summary(
        calls=len(new),
        stored=None if new and all(call.is_open for call in new) else len(new) - len(left),
        prompt_characters=sum(characters(call.longest) for call in new),
        # A missing answer that a prompt shows has as many tokens as it may have.
        prompt_tokens=sum(sizes) + sum(more // CHARACTERS_A_TOKEN for more in longer),
        is_estimate=not isinstance(model, MeasuresPrompts),
        max_tokens=sum(c.longest.decoding.max_tokens * c.longest.decoding.n for c in new),
        least_usd=least,
        most_usd=most,
        example=tuple(map(_explained, calls[0].longest.messages)) if calls else (),
        choices=calls[0].longest.choices if calls else (),
        waiting=len(client.waiting & {new[place].longest.key for place in left}),
        priced_as=client.priced_as,
    )


def _price(
    client: CachedClient, left: Sequence[tuple[Asked, int]]
) -> tuple[float | None, float | None]:
    """What calls with prompts of so many tokens cost at least and at most, where it is known."""
    if client.model.kind not in HOSTED:
        return None, None
    if not left:
        return 0.0, 0.0
    if (price := client.price) is None:
        return None, None
    least = fsum(price.least(call.shortest, size) for call, size in left)
    most = fsum(price.most(call.longest) for call, _ in left)
    shared = partial(price.shared, is_batch=client.is_batch)
    return shared(least), shared(most)


def check_tokens(plan: Plan, spec: LocalSpec, checkpoints: Path) -> dict[str, dict[str, Any]]:
    """How the tokenizer of a local model reads a task's choices, by variant.

    `checkpoints` is the folder of fetched checkpoints.
    """
    tokenizer = open_spec(spec, checkpoints).tokenizer
    asked: dict[str, list[Request]] = {name: [] for name in plan.run.variants}
    for cell in plan.cells:
        asked[cell.variant] += planned_requests(plan, cell)
    is_chat = spec.choice_prompt == "chat"
    return {name: token_report(part, tokenizer, is_chat=is_chat) for name, part in asked.items()}
