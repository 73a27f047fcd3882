"""What a run would ask: prompts, calls and sizes, before anything is asked.

Makes no call of a model. Prompts of later steps depend on answers: they are counted at the
most tokens an answer may have.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.core import Request, Response
from harness.jobs import Prepared
from harness.ledger import Ledger
from harness.parts import Message
from harness.planning import Cell, Plan, request
from harness.specs.tasks import StepSpec

# English prose runs at about four characters a token; said as an estimate wherever it is shown.
CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Asked:
    """One kind of call: how many, how many of them stored, and their sizes in characters.

    `stored` is null where the prompts depend on answers not drawn yet; `max_tokens` bounds the
    tokens of all answers together.
    """

    asker: str
    variant: str
    step: str
    calls: int
    stored: int | None
    prompt_characters: int
    max_tokens: int
    example: tuple[Message, ...]

    @property
    def prompt_tokens_estimate(self) -> int:
        """Prompt tokens, estimated from characters."""
        return self.prompt_characters // CHARACTERS_A_TOKEN


def dry_run(ready: Prepared, ledger: Ledger) -> list[Asked]:
    """Every kind of call of a run, those of its judges last."""
    plan = ready.plan
    found = [
        _step(plan, variant, step=step, place=place, ledger=ledger)
        for variant in plan.run.variants
        for place, step in enumerate(plan.task.variants[variant].steps)
    ]
    for seat in ready.seats:
        cells = plan.cells
        asked = [seat.judge.ask(cell.sample, _longest(plan, cell)) for cell in cells]
        if questions := [question for part in asked for question in part]:
            found.append(_asked(seat.judge.name, questions, stored=None))
    return found


def _step(plan: Plan, variant: str, *, step: StepSpec, place: int, ledger: Ledger) -> Asked:
    cells = [cell for cell in plan.cells if cell.variant == variant]
    earlier = plan.task.variants[variant].steps[:place]
    asked = [
        request(
            plan,
            cell,
            step=step,
            earlier={part.name: _filler(plan, cell, step=part) for part in earlier},
        )
        for cell in cells
    ]
    stored = None if earlier else _stored(ledger, asked)
    return _asked(plan.run.task, asked, stored=stored)


def _asked(asker: str, asked: Sequence[Request], *, stored: int | None) -> Asked:
    return Asked(
        asker=asker,
        variant=asked[0].variant,
        step=asked[0].step,
        calls=len(asked),
        stored=stored,
        prompt_characters=sum(len(m.content) for question in asked for m in question.messages),
        max_tokens=sum(question.decoding.max_tokens * question.decoding.n for question in asked),
        example=asked[0].messages,
    )


def _stored(ledger: Ledger, asked: Sequence[Request]) -> int:
    found = ledger.find([question.key for question in asked])
    return sum(response.failure is None for response in found.values())


def _filler(plan: Plan, cell: Cell, *, step: StepSpec) -> str:
    """A stand-in for an answer not drawn yet, as long as the longest one allowed."""
    tokens = step.max_tokens or cell.decoding.max_tokens
    return f"({step.name})".ljust(tokens * CHARACTERS_A_TOKEN, ".")


def _longest(plan: Plan, cell: Cell) -> Response:
    last = plan.task.variants[cell.variant].steps[-1]
    return Response(key="not asked", texts=(_filler(plan, cell, step=last),))
