"""What a run would ask: prompts, calls and sizes, before anything is asked.

Makes no call of a model. Prompts of later steps depend on answers: they are counted at the
most tokens an answer may have. A call that two cells share is counted once, as it is asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.core import Request, Response
from harness.jobs import Prepared
from harness.ledger import Ledger
from harness.parts import Message
from harness.planning import Cell, Plan, request
from harness.seats import Seat

# English prose runs at about four characters a token; said as an estimate wherever it is shown.
CHARACTERS_A_TOKEN = 4
ANY = "-"

Chain = tuple[Cell, tuple[Request, ...]]


@dataclass(frozen=True, slots=True)
class Asked:
    """One kind of call: how many, how many of them stored, and their sizes in characters.

    `stored` is null where the prompts depend on answers not drawn yet; `max_tokens` bounds the
    tokens of all answers together; `variant` is - for a judge, which reads all of them; `choices`
    are those of the example, where there is something to choose.
    """

    asker: str
    variant: str
    step: str
    calls: int
    stored: int | None
    prompt_characters: int
    max_tokens: int
    example: tuple[Message, ...]
    choices: tuple[str, ...] = ()

    @property
    def prompt_tokens_estimate(self) -> int:
        """Prompt tokens, estimated from characters."""
        return self.prompt_characters // CHARACTERS_A_TOKEN


def dry_run(ready: Prepared, ledger: Ledger) -> list[Asked]:
    """Every kind of call of a run, those of its judges last."""
    plan, seen = ready.plan, set[str]()
    chains: list[Chain] = [(cell, planned(plan, cell)) for cell in plan.cells]
    found = []
    for variant in plan.run.variants:
        steps = plan.task.variants[variant].steps
        for place in range(len(steps)):
            asked = [chain[place] for cell, chain in chains if cell.variant == variant]
            new = _new(asked, seen)
            # What follows a step's text is not known yet; a neutral step has none.
            is_open = any(not step.is_neutral for step in steps[:place])
            stored = None if is_open else _stored(ledger, new)
            row = _asked(plan.run.task, new, stored=stored, example=asked[0])
            found.append(replace(row, variant=variant))
    for seat in ready.seats:
        for asked in _questions(seat, chains).values():
            new = _new(asked, seen)
            found.append(_asked(seat.judge.name, new, stored=None, example=asked[0]))
    return found


def planned(plan: Plan, cell: Cell) -> tuple[Request, ...]:
    """The request of each step of a cell, earlier answers stood in for."""
    found: list[Request] = []
    for step in plan.task.variants[cell.variant].steps:
        earlier = {asked.step: _filler(asked) for asked in found}
        found.append(request(plan, cell, step=step, earlier=earlier))
    return tuple(found)


def _questions(seat: Seat, chains: Sequence[Chain]) -> Mapping[str, list[Request]]:
    """What a judge asks about all cells, by step: in both orders of options, say."""
    found: dict[str, list[Request]] = {}
    for cell, chain in chains:
        response = Response(key="not asked", texts=(_filler(chain[-1]),))
        for question in seat.judge.ask(cell.sample, response):
            found.setdefault(question.step, []).append(question)
    return found


def _new(asked: Sequence[Request], seen: set[str]) -> list[Request]:
    """The requests that no cell before has made, each once; they are then seen."""
    planned = {question.key: question for question in asked}
    new = [question for key, question in planned.items() if key not in seen]
    seen.update(planned)
    return new


def _asked(asker: str, asked: Sequence[Request], *, stored: int | None, example: Request) -> Asked:
    return Asked(
        asker=asker,
        variant=ANY,
        step=example.step,
        calls=len(asked),
        stored=stored,
        prompt_characters=sum(len(m.content) for question in asked for m in question.messages),
        max_tokens=sum(question.decoding.max_tokens * question.decoding.n for question in asked),
        example=example.messages,
        choices=example.choices,
    )


def _stored(ledger: Ledger, asked: Sequence[Request]) -> int:
    found = ledger.find([question.key for question in asked])
    return sum(response.failure is None for response in found.values())


def _filler(asked: Request) -> str:
    """A stand-in for an answer not drawn yet: as long as the longest one allowed, and its own."""
    width = asked.decoding.max_tokens * CHARACTERS_A_TOKEN
    return f"({asked.step} {asked.key[:8]})".ljust(width, ".")
