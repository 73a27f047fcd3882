"""A plan to the calls it would take: prompts, sizes and prices, before anything is asked.

Makes no call. Where a prompt shows an answer that is not there yet, a stand-in takes its place,
once at its longest and once at its shortest. A call that two cells share is counted once, as it is
asked; what is stored already is counted, and not paid for again.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import fsum
from pathlib import Path
from typing import Any, Self

from harness.core import Request, Response
from harness.models.client.cached import HOSTED, CachedClient
from harness.models.labels import ReadsText
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
from harness.pipeline.setup import JudgeSetup
from harness.pipeline.walk import Call, case_of, cases_of, questions, sample_record, walk
from harness.specs.models import LocalSpec
from harness.specs.tasks import StepSpec
from harness.storage.run_tables import SampleRecord

MOST_HELD = 8_000
"""The planned responses that are looked at together."""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call; both are one request where every word of its prompt is known."""

    longest: Request
    shortest: Request

    @property
    def is_open(self) -> bool:
        """Whether its prompt shows an answer that is not there yet."""
        return self.longest is not self.shortest


@dataclass(frozen=True, slots=True)
class CallSequence:
    """The calls of a planned response, and its records by the longest and shortest stand-ins.

    `is_open` says whether a call is not stored, so that there are stand-ins.
    """

    cell: PlannedResponse
    calls: tuple[PlannedCall, ...]
    longest: SampleRecord
    shortest: SampleRecord
    is_open: bool


def preview(
    plan: Plan, client: CachedClient | None, *, cells: Sequence[PlannedResponse] | None = None
) -> list[CallSequence]:
    """The calls of every planned response, or of some; without a client none counts as stored."""
    planned = plan.cells if cells is None else cells
    known: dict[str, Response] = {}
    made: dict[tuple[object, ...], Request] = {}

    def ask(cell: PlannedResponse, step: StepSpec, earlier: Mapping[str, str]) -> Request:
        place = (cell.sample.id, cell.variant, cell.decoding, step.name, *earlier.items())
        if place not in made:  # prompts are rendered once, though there are two walks
            made[place] = request(plan, cell, step=step, earlier=earlier)
        return made[place]

    def longest(asked: Sequence[Request], wave: int) -> dict[str, Response]:
        known.update(client.stored(asked) if client else {})
        return {r.key: known.get(r.key) or _stand_in(r, r.decoding.max_tokens) for r in asked}

    def shortest(asked: Sequence[Request], wave: int) -> dict[str, Response]:
        return {r.key: known.get(r.key) or _stand_in(r, 0) for r in asked}

    long = walk(plan.task, planned, ask=ask, answer=longest)
    is_open = [any(asked.key not in known for asked, _ in calls) for calls in long]
    left = [cell for cell, part in zip(planned, is_open, strict=True) if part]
    others = iter(walk(plan.task, left, ask=ask, answer=shortest))
    return [
        _sequence(plan, cell, calls, next(others) if part else None)
        for cell, calls, part in zip(planned, long, is_open, strict=True)
    ]


def _sequence(
    plan: Plan, cell: PlannedResponse, long: Sequence[Call], short: Sequence[Call] | None
) -> CallSequence:
    pairs = zip(long, long if short is None else short, strict=True)
    calls = tuple(_planned_call(one, other) for (one, _), (other, _) in pairs)
    longest = sample_record(cell, long, plan.task)
    shortest = longest if short is None else sample_record(cell, short, plan.task)
    return CallSequence(cell, calls, longest, shortest, is_open=short is not None)


def _planned_call(longest: Request, shortest: Request) -> PlannedCall:
    # What shows no answer, such as a reference to embed, is the same in both.
    return PlannedCall(longest, longest if longest.key == shortest.key else shortest)


def planned_requests(plan: Plan, cell: PlannedResponse) -> tuple[Request, ...]:
    """The request of each step of a planned response, stand-ins for the earlier answers."""
    [sequence] = preview(plan, None, cells=[cell])
    return tuple(call.longest for call in sequence.calls)


def judge_calls(
    plan: Plan, sequences: Sequence[CallSequence], setup: JudgeSetup
) -> Iterator[PlannedCall]:
    """The questions a judge would ask about planned responses."""
    for sequence in sequences:
        longest = _questions(plan, sequence.longest, setup)
        shortest = _questions(plan, sequence.shortest, setup) if sequence.is_open else longest
        yield from map(_planned_call, longest, shortest)


def _questions(plan: Plan, record: SampleRecord, setup: JudgeSetup) -> tuple[Request, ...]:
    case = case_of(record, plan.task, step=setup.entry.step)
    return questions(case, setup.judge) if case else ()


def stored_questions(
    plan: JudgePlan, setup: JudgeSetup
) -> Iterator[list[tuple[SampleRecord, Request]]]:
    """The questions a judge asks about stored answers, each with its record, in chunks."""
    for records in parted(plan.records, MOST_HELD):
        responses = plan.responses(records)
        cases = cases_of(records, plan.task, step=setup.entry.step, responses=responses)
        yield [
            (records[place], question)
            for place, case in cases.items()
            for question in questions(case, setup.judge)
        ]


def charge_stored_calls(plan: Plan, client: CachedClient, judges: Sequence[JudgeSetup]) -> None:
    """Count all that is stored of a run against the budget before its first new call.

    Replies to judges, or to later steps, would else count only after new calls of earlier ones.
    """
    if client.terms.budget is None:
        return
    for cells in plan.chunks(MOST_HELD):
        sequences = preview(plan, client, cells=cells)
        client.count([call.longest for sequence in sequences for call in sequence.calls])
        for setup in judges:
            if setup.client is not None:
                setup.client.count([call.longest for call in judge_calls(plan, sequences, setup)])


def charge_stored_replies(plan: JudgePlan) -> None:
    """Count stored replies to the judges of a plan before any of them asks something new."""
    for setup in plan.judges:
        if setup.client is not None and setup.client.terms.budget is not None:
            for asked in stored_questions(plan, setup):
                setup.client.count([question for _, question in asked])


def _stand_in(asked: Request, tokens: int) -> Response:
    """A stand-in for an answer that is not there yet: as long as so many tokens, and its own."""
    shortest = f"({asked.step} {asked.key[:8]})"
    # The longest is never the shortest: where both are alike, a prompt shows neither.
    length = max(tokens * CHARACTERS_A_TOKEN, len(shortest) + 1)
    return Response(asked.key, texts=(shortest.ljust(length, ".") if tokens else shortest,))


_STAND_IN = re.compile(r"\((?P<step>[^()\n]+) [0-9a-f]{8}\)\.+")


def _explained(message: Message) -> Message:
    """A message of an example whose stand-ins say what they replace, in place of their dots."""

    def words(found: re.Match[str]) -> str:
        tokens = len(found[0]) // CHARACTERS_A_TOKEN
        return f"(here the model's {found['step']}, at most {tokens} tokens)"

    return Message(message.role, _STAND_IN.sub(words, message.content))


ANY = "-"


@dataclass(frozen=True, slots=True)
class CallSummary:
    """One kind of call: how many, how many of them stored, their sizes, and the price of the rest.

    `variant` is - for a judge, which reads all of them. `stored` is None where all prompts show
    missing answers; in sizes these are as long as they may be. `prompt_tokens` are by the
    model's tokenizer, or estimated from characters. `max_tokens` bounds the tokens of all answers
    together. The price is that of what is not stored, from an answer of one token and earlier
    ones as short, to the most that it can be; None where none is known, as of every model that is
    not hosted. `choices` are those of the example, where there is something to choose. `waiting`
    counts the calls, among those that are not stored, that wait in a batch already handed in;
    `priced_as` is what prices.yaml calls the model, None for one that is not paid by the call: not
    hosted, or without a key and a price on a server of this machine. Of a model that reads texts
    and no prompt the example is a text alone, and there are no tokens.
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
        known = [one.stored for one in (self, more) if one.calls] or [0]
        return replace(
            self,
            calls=self.calls + more.calls,
            stored=None if known.count(None) == len(known) else sum(n or 0 for n in known),
            prompt_characters=self.prompt_characters + more.prompt_characters,
            prompt_tokens=self.prompt_tokens + more.prompt_tokens,
            max_tokens=self.max_tokens + more.max_tokens,
            least_usd=_plus(self.least_usd, more.least_usd),
            most_usd=_plus(self.most_usd, more.most_usd),
            example=self.example or more.example,
            choices=self.choices or more.choices,
            waiting=self.waiting + more.waiting,
        )


def dry_runs(plans: Sequence[RunPlan]) -> list[list[CallSummary]]:
    """Every kind of call of some runs, one list a run; a call that two share is the first one's.

    What is stored of them counts against the budget.
    """
    seen: set[str] = set()
    for plan in plans:
        charge_stored_calls(plan.plan, plan.client, plan.judges)
    return [dry_run(plan, seen) for plan in plans]


def dry_judges(plan: JudgePlan) -> list[CallSummary]:
    """Every kind of call of judges that are to read a stored run; what is stored is counted."""
    charge_stored_replies(plan)
    seen = set[str]()
    return _summed(
        summary
        for setup in plan.judges
        for asked in stored_questions(plan, setup)
        for summary in _judging(setup, [PlannedCall(q, q) for _, q in asked], seen=seen)
    )


def dry_run(run: RunPlan, seen: set[str]) -> list[CallSummary]:
    """Every kind of call of one run that is not `seen` yet; its calls are added to these."""
    chunks = run.plan.chunks(MOST_HELD)
    return _summed(one for cells in chunks for one in _dry_run(run, cells, seen))


def _dry_run(
    run: RunPlan, cells: Sequence[PlannedResponse], seen: set[str]
) -> Iterator[CallSummary]:
    plan, client = run.plan, run.client
    sequences = preview(plan, client, cells=cells)
    stored = _stored(client, [call for sequence in sequences for call in sequence.calls])
    for variant in plan.run.variants:
        members = [part.calls for part in sequences if part.cell.variant == variant]
        for place, step in enumerate(plan.task.variants[variant].steps):
            calls = [part[place] for part in members if len(part) > place]
            names = (plan.run.task, variant, step.name)
            yield _summary(client, names, calls, stored=stored, seen=seen)
    for setup in run.judges:
        yield from _judging(setup, list(judge_calls(plan, sequences, setup)), seen=seen)


def _summed(parts: Iterable[CallSummary]) -> list[CallSummary]:
    """The summaries of some chunks, one a kind."""
    found: dict[tuple[str, str, str], CallSummary] = {}
    for part in parts:
        kind = (part.asker, part.variant, part.step)
        found[kind] = found[kind].plus(part) if kind in found else part
    return list(found.values())


def _plus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _judging(
    setup: JudgeSetup, asked: Sequence[PlannedCall], *, seen: set[str]
) -> Iterator[CallSummary]:
    if setup.client is None:
        return
    stored = _stored(setup.client, asked)
    for step in dict.fromkeys(call.longest.step for call in asked):
        calls = [call for call in asked if call.longest.step == step]
        names = (setup.judge.name, ANY, step)
        yield _summary(setup.client, names, calls, stored=stored, seen=seen)


def _stored(client: CachedClient, calls: Sequence[PlannedCall]) -> frozenset[str]:
    return frozenset(client.stored([call.longest for call in calls if not call.is_open]))


def _summary(
    client: CachedClient,
    names: tuple[str, str, str],
    calls: Sequence[PlannedCall],
    *,
    stored: frozenset[str],
    seen: set[str],
) -> CallSummary:
    # `names` are those of who asks, of the variant and of the step.
    model, planned = client.model, {call.longest.key: call for call in calls}
    new = [call for key, call in planned.items() if key not in seen]
    seen.update(planned)
    summary = partial(CallSummary, *names, model.name, is_hosted=model.kind in HOSTED)
    if isinstance(model, ReadsText):
        all_texts = {call.longest.key: model.text_of(call.longest) for call in new}
        texts = {key: text for key, text in all_texts.items() if text is not None}
        return summary(
            calls=len(texts),
            stored=len(stored & set(texts)),
            prompt_characters=sum(map(len, texts.values())),
            example=tuple(Message("user", text) for text in [*texts.values()][:1]),
        )
    size = model.prompt_size if isinstance(model, MeasuresPrompts) else estimated
    sizes = {call.shortest.key: size(call.shortest) for call in new}
    left = [call for call in new if call.longest.key not in stored]
    least, most = _price(left, sizes, client)
    return summary(
        calls=len(new),
        stored=None if new and all(call.is_open for call in new) else len(new) - len(left),
        prompt_characters=sum(characters(call.longest) for call in new),
        prompt_tokens=sum(  # a missing answer that a prompt shows has as many as it may have
            sizes[call.shortest.key]
            + (characters(call.longest) - characters(call.shortest)) // CHARACTERS_A_TOKEN
            for call in new
        ),
        is_estimate=not isinstance(model, MeasuresPrompts),
        max_tokens=sum(c.longest.decoding.max_tokens * c.longest.decoding.n for c in new),
        least_usd=least,
        most_usd=most,
        example=_example(calls[0]) if calls else (),
        choices=calls[0].longest.choices if calls else (),
        waiting=len(client.waiting & {call.longest.key for call in left}),
        priced_as=client.priced_as,
    )


def _example(call: PlannedCall) -> tuple[Message, ...]:
    messages = call.longest.messages
    return tuple(map(_explained, messages)) if call.is_open else messages


def _price(
    left: Sequence[PlannedCall], sizes: Mapping[str, int], client: CachedClient
) -> tuple[float | None, float | None]:
    if client.model.kind not in HOSTED:
        return None, None
    if not left:
        return 0.0, 0.0
    if (price := client.price) is None:
        return None, None
    least = fsum(price.least(call.shortest, sizes[call.shortest.key]) for call in left)
    most = fsum(price.most(call.longest) for call in left)
    charged = [price.shared(full, is_batch=client.is_batch) for full in (least, most)]
    return charged[0], charged[1]


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
