"""A plan to the calls it would take: prompts, sizes and prices, before anything is asked.

Where a prompt shows an answer that is not there yet, a stand-in takes its place, once at its
shortest and once at its longest. A call that two cells share is counted once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import nan
from pathlib import Path
from typing import NamedTuple

from harness.core import Request, Response, Sample
from harness.lazy import DataFrame, pandas
from harness.models.client.cached import HOSTED, Budget, CachedClient
from harness.models.labels import TextLabeller
from harness.models.local import tokenization
from harness.models.local.checkpoints import open_spec
from harness.models.local.tokenization import CHARACTERS_A_TOKEN, characters, token_report
from harness.models.vectors import chunks
from harness.parts import Message
from harness.pipeline.plan import Plan, PlannedResponse, request
from harness.pipeline.resolve import JudgePlan, RunPlan
from harness.pipeline.walk import Call, case_of, questions, sample_record, walk
from harness.specs.models import LocalSpec

MOST_HELD = 8_000  # the planned responses that are looked at together
ANY = "-"  # the variant of a judge's calls, which reads all of them
KIND = ("asker", "variant", "step", "model", "is_hosted", "is_estimate", "priced_as")
COUNTS = ("calls", "prompt_characters", "prompt_tokens", "max_tokens", "waiting")
USD, SHOWN = ("least_usd", "most_usd"), ("example", "choices")
CALLS = (*KIND, *COUNTS, "stored", *USD, *SHOWN)
"""The columns of a dry run."""


class Asked(NamedTuple):
    """A call that a run would make; its requests are one where the whole prompt is known."""

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
    """The calls of some planned responses, with short stand-ins for answers that are not stored."""

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
    for before, response in earlier:
        words, size = _stand_in(before), before.decoding.max_tokens * CHARACTERS_A_TOKEN
        if response.texts == (words,):
            long = words.ljust(max(size, len(words) + 1), ".")
            turns = (replace(t, content=t.content.replace(words, long)) for t in asked.messages)
            messages = tuple(turns)
            asked = asked if messages == asked.messages else replace(asked, messages=messages)
    return asked


def planned_requests(plan: Plan, cell: PlannedResponse) -> list[Request]:
    """The request of each step of a planned response, stand-ins for the earlier answers."""
    return [longest for longest, _ in requests_of(preview(plan, None, [cell])[0])]


def planned_calls(plan: RunPlan | JudgePlan) -> Iterator[tuple[CachedClient, list[Asked]]]:
    """Every call of a run, or of judges that are to read a stored one: by its client, in chunks."""
    for asked in _call_chunks(plan):
        found: dict[int, list[Asked]] = {}
        for one in asked:
            found.setdefault(id(one.client), []).append(one)
        yield from ((own[0].client, own) for own in found.values())


def _call_chunks(plan: RunPlan | JudgePlan) -> Iterator[list[Asked]]:
    asking = [(setup, setup.client) for setup in plan.judges if setup.client is not None]
    if isinstance(plan, JudgePlan):
        for records in chunks(plan.records, MOST_HELD) if asking else ():
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


def budget_of(plan: RunPlan | JudgePlan) -> Budget | None:
    """The budget of the calls of a run or of judges; None without one."""
    return next((one.terms.budget for one in plan.clients if one.terms.budget), None)


def charge_stored(plan: RunPlan | JudgePlan) -> None:
    """Count all that is stored of a run against the budget before its first new call."""
    for client, asked in planned_calls(plan) if budget_of(plan) else ():
        client.count([one.longest for one in asked])


def dry_run(plan: RunPlan | JudgePlan, seen: set[str]) -> DataFrame:
    """Every kind of call of one run, a row each; calls that are `seen` are not counted again.

    Columns: CALLS. `stored` is empty if all prompts show missing answers, which count as long as
    they may be. `prompt_tokens` are by the model's tokenizer, or `is_estimate`; `max_tokens` bounds
    all answers together. Prices are of what is not stored, and empty where none is known;
    `priced_as` is empty for a model that is not paid by the call. Who reads texts has no tokens.
    """
    parts = []
    if isinstance(plan, RunPlan):  # no answer to an earlier step: a later one has no call
        run, variants = plan.plan.run, plan.plan.task.variants
        steps = [(name, step.name) for name in run.variants for step in variants[name].steps]
        usd = 0.0 if plan.client.model.kind in HOSTED else nan
        none = dict.fromkeys(COUNTS, 0) | dict.fromkeys(USD, usd)
        kinds = [_kind(plan.client, run.task, *pair) | none for pair in steps]
        parts = [pandas.DataFrame(kinds, columns=CALLS)]
    for client, asked in planned_calls(plan):
        parts.append(_summed(pandas.DataFrame(_counted(client, asked, seen), columns=CALLS)))
    return _summed(pandas.concat(parts)) if parts else pandas.DataFrame(columns=CALLS)


def _kind(client: CachedClient, asker: str, variant: str, step: str) -> dict[str, object]:
    model = client.model
    is_estimate = not (hasattr(model, "prompt_size") or isinstance(model, TextLabeller))
    facts = (model.name, model.kind in HOSTED, is_estimate, client.priced_as)
    return dict(zip(KIND, (asker, variant, step, *facts), strict=True))


def _counted(
    client: CachedClient, calls: Sequence[Asked], seen: set[str]
) -> Iterator[dict[str, object]]:
    """A row of `dry_run` for each of some calls; one that is seen counts nothing."""
    model = client.model
    size = getattr(model, "prompt_size", tokenization.estimated)
    stored = client.stored([call.longest for call in calls if not call.is_open]).keys()
    for call in calls:
        asked, row = call.longest, dict[str, object]()
        is_new = asked.key not in seen
        seen.add(asked.key)
        if isinstance(model, TextLabeller):
            if (text := model.text_of(asked)) is None:
                continue
            row = {"prompt_characters": is_new * len(text), "example": (Message("user", text),)}
            row |= {"prompt_tokens": 0, "max_tokens": 0, "choices": None}
        is_left = is_new and asked.key not in stored
        tokens = size(call.shortest) if is_new and not row else 0
        least, most = _price(client, call, tokens) if is_left else (0.0, 0.0)
        is_hosted, longer = model.kind in HOSTED, characters(asked) - characters(call.shortest)
        yield {
            **_kind(client, call.asker, call.variant, asked.step),
            "calls": int(is_new),
            "prompt_characters": is_new * characters(asked),
            # A missing answer that a prompt shows has as many tokens as it may have.
            "prompt_tokens": is_new * (tokens + longer // CHARACTERS_A_TOKEN),
            "max_tokens": is_new * asked.decoding.max_tokens * asked.decoding.n,
            "waiting": int(is_left and asked.key in client.waiting),
            "stored": int(not is_left) if is_new and not call.is_open else nan,
            "least_usd": least if is_hosted else nan,
            "most_usd": most if is_hosted else nan,
            "example": call.shortest.messages,
            "choices": asked.choices,
            **row,
        }


def _price(client: CachedClient, call: Asked, tokens: int) -> tuple[float, float]:
    """What a call whose prompt has so many tokens costs at least and at most, NaN if unknown."""
    if (price := client.price) is None:
        return nan, nan
    ends = price.least(call.shortest, tokens), price.most(call.longest)
    least, most = (price.shared(end, is_batch=client.is_batch) for end in ends)
    return nan if least is None else least, nan if most is None else most


def _summed(rows: DataFrame) -> DataFrame:
    by = rows.groupby([*KIND], sort=False, dropna=False)
    found = by[[*COUNTS]].sum()
    stored = by["stored"].sum(min_count=1).where(found["calls"] > 0, 0)
    found["stored"] = stored.astype("Int64")
    for name in USD:
        found[name] = by[name].agg(lambda own: own.sum(skipna=False))
    return found.join(by[[*SHOWN]].first()).reset_index()


def check_tokens(plan: Plan, spec: LocalSpec, checkpoints: Path) -> dict[str, dict[str, float]]:
    """How the tokenizer of a local model reads a task's choices, by variant."""
    tokenizer = open_spec(spec, checkpoints).tokenizer
    asked: dict[str, list[Request]] = {name: [] for name in plan.run.variants}
    for cell in plan.cells:
        asked[cell.variant] += planned_requests(plan, cell)
    is_chat = spec.choice_prompt == "chat"
    return {name: token_report(part, tokenizer, is_chat=is_chat) for name, part in asked.items()}
