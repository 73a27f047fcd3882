"""A plan to the calls it would take: prompts, sizes and prices, before anything is asked.

Makes no call. Where a prompt shows an answer that is not there yet, a stand-in takes its place,
once at its longest and once at its shortest. A call that two cells share is counted once, as it is
asked; what is stored already is counted, and not paid for again.
"""

import re
from array import array
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import fsum
from pathlib import Path

from harness.core import Request, Response
from harness.models.client.cached import HOSTED, CachedClient
from harness.models.labels import ReadsText
from harness.models.local.checkpoints import open_spec
from harness.models.local.tokenization import (
    CHARACTERS_A_TOKEN,
    MeasuresPrompts,
    TokenReport,
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
from harness.storage.runs import SampleRecord

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
    """A message of an example in which a stand-in says what it stands for, in place of its dots."""

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
    seen, found = set[str](), list[CallSummary]()
    for setup in plan.judges:
        if setup.client is not None:
            kinds = _Kinds(setup.client, seen)
            for asked in stored_questions(plan, setup):
                kinds.add(_judging(setup, (PlannedCall(r, r) for _, r in asked)))
            found += kinds.summaries()
    return found


def dry_run(run: RunPlan, seen: set[str]) -> list[CallSummary]:
    """Every kind of call of one run that is not `seen` yet; its calls are added to these."""
    plan, task = run.plan, run.plan.run.task
    answers = _Kinds(run.client, seen)
    for variant in plan.run.variants:
        answers.expect((task, variant, step.name) for step in plan.task.variants[variant].steps)
    asking = [(setup, _Kinds(setup.client, seen)) for setup in run.judges if setup.client]
    for cells in plan.chunks(MOST_HELD):
        sequences = preview(plan, run.client, cells=cells)
        answers.add(
            ((task, part.cell.variant, call.longest.step), call)
            for part in sequences
            for call in part.calls
        )
        for setup, kinds in asking:
            kinds.add(_judging(setup, judge_calls(plan, sequences, setup)))
    return [
        one for kinds in (answers, *(kinds for _, kinds in asking)) for one in kinds.summaries()
    ]


_Names = tuple[str, str, str]
"""Who asks, of which variant and in which step."""


def _judging(
    setup: JudgeSetup, asked: Iterable[PlannedCall]
) -> Iterator[tuple[_Names, PlannedCall]]:
    return (((setup.judge.name, ANY, call.longest.step), call) for call in asked)


class _Kinds:
    """Calls of one client by kind, counted as they come; what was `seen` before is not."""

    def __init__(self, client: CachedClient, seen: set[str]) -> None:
        self._client, self._seen = client, seen
        self._made: dict[_Names, _Kind] = {}

    def expect(self, each: Iterable[_Names]) -> None:
        """Have a summary of some kinds, in this order, though no call may be of them."""
        self._made |= {names: _Kind(self._client) for names in each}

    def add(self, calls: Iterable[tuple[_Names, PlannedCall]]) -> None:
        """Count some calls, of which those that are stored are looked up together."""
        parts: dict[_Names, list[PlannedCall]] = {}
        for names, call in calls:
            parts.setdefault(names, []).append(call)
        known = [c.longest for part in parts.values() for c in part if not c.is_open]
        stored = self._client.stored(known)
        for names, part in parts.items():
            kind = self._made.setdefault(names, _Kind(self._client))
            kind.first = kind.first or part[0]
            new = {c.longest.key: c for c in part if c.longest.key not in self._seen}
            self._seen.update(new)
            kind.add([*new.values()], stored)

    def summaries(self) -> list[CallSummary]:
        """Every kind."""
        return [kind.summary(names) for names, kind in self._made.items()]


class _Kind:
    """One kind of call: what is counted of it, and the prices of what is not stored."""

    def __init__(self, client: CachedClient) -> None:
        self._client = client
        self.first: PlannedCall | None = None
        self._counts = Counter[str]()
        self._text: str | None = None
        self._least, self._most = array("d"), array("d")  # summed at the end, exactly

    def add(self, new: Sequence[PlannedCall], stored: Container[str]) -> None:
        """Count calls that were not counted before."""
        model = self._client.model
        if isinstance(model, ReadsText):
            self._add_texts(
                [(call.longest.key, model.text_of(call.longest)) for call in new], stored
            )
            return
        size = model.prompt_size if isinstance(model, MeasuresPrompts) else estimated
        for call in new:
            longest, shortest, tokens = call.longest, call.shortest, size(call.shortest)
            more = characters(longest) - characters(shortest)
            self._counts["calls"] += 1
            self._counts["open"] += call.is_open
            self._counts["characters"] += characters(longest)
            # A missing answer that a prompt shows has as many tokens as it may have.
            self._counts["tokens"] += tokens + more // CHARACTERS_A_TOKEN
            self._counts["max_tokens"] += longest.decoding.max_tokens * longest.decoding.n
            if longest.key in stored:
                self._counts["stored"] += 1
                continue
            self._counts["waiting"] += longest.key in self._client.waiting
            if (price := self._client.price) is not None and model.kind in HOSTED:
                self._least.append(price.least(shortest, tokens))
                self._most.append(price.most(longest))

    def _add_texts(self, texts: Iterable[tuple[str, str | None]], stored: Container[str]) -> None:
        for key, text in texts:
            if text is not None:
                self._text = text if self._text is None else self._text
                self._counts["calls"] += 1
                self._counts["stored"] += key in stored
                self._counts["characters"] += len(text)

    def summary(self, names: _Names) -> CallSummary:
        """What was counted; `names` are those of the kind."""
        client, counts = self._client, self._counts
        model, first = client.model, self.first
        summary = partial(
            CallSummary,
            *(*names, model.name),
            is_hosted=model.kind in HOSTED,
            calls=counts["calls"],
            prompt_characters=counts["characters"],
        )
        if isinstance(model, ReadsText):
            example = () if self._text is None else (Message("user", self._text),)
            return summary(stored=counts["stored"], example=example)
        least, most = self._price(counts["calls"] - counts["stored"])
        is_open = 0 < counts["calls"] == counts["open"]
        return summary(
            stored=None if is_open else counts["stored"],
            prompt_tokens=counts["tokens"],
            is_estimate=not isinstance(model, MeasuresPrompts),
            max_tokens=counts["max_tokens"],
            least_usd=least,
            most_usd=most,
            example=_example(first) if first else (),
            choices=first.longest.choices if first else (),
            waiting=counts["waiting"],
            priced_as=client.priced_as,
        )

    def _price(self, left: int) -> tuple[float | None, float | None]:
        if self._client.model.kind not in HOSTED:
            return None, None
        if not left:
            return 0.0, 0.0
        if (price := self._client.price) is None:
            return None, None
        charged = [fsum(part) for part in (self._least, self._most)]
        least, most = (price.shared(full, is_batch=self._client.is_batch) for full in charged)
        return least, most


def _example(call: PlannedCall) -> tuple[Message, ...]:
    messages = call.longest.messages
    return tuple(map(_explained, messages)) if call.is_open else messages


def check_tokens(plan: Plan, spec: LocalSpec, checkpoints: Path) -> dict[str, TokenReport]:
    """How the tokenizer of a local model reads a task's choices, by variant.

    `checkpoints` is the folder of fetched checkpoints.
    """
    tokenizer = open_spec(spec, checkpoints).tokenizer
    asked: dict[str, list[Request]] = {name: [] for name in plan.run.variants}
    for cell in plan.cells:
        asked[cell.variant] += planned_requests(plan, cell)
    is_chat = spec.choice_prompt == "chat"
    return {name: token_report(part, tokenizer, is_chat=is_chat) for name, part in asked.items()}
