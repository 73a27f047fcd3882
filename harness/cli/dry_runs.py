"""What a dry run finds, as a person reads it: prompts, sizes and prices."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.cli.money import budget_line, price_line, usd
from harness.cli.output import put, put_json, put_table

if TYPE_CHECKING:
    from harness.models.client.cached import Terms
    from harness.pipeline.dry_run import Asked

HEAD = ("for", "variant", "step", "calls", "stored", "prompt tokens", "answer tokens (max)")


def put_dry_runs(
    runs: "Mapping[str, Sequence[Asked]]",
    *,
    is_json: bool,
    terms: "Terms",
) -> int:
    """Print what each run, by its title, would ask; as JSON a list, or a list of several."""
    told, is_batch = list(runs.values()), terms.is_batch
    if is_json:
        put_json(told if len(told) > 1 else told[0])
        return 0
    every = [part for asked in told for part in asked]
    _put_examples(every)
    for title, asked in runs.items():
        _put_sizes(title, asked)
        put(f"{'' if len(runs) == 1 else f'{title}: '}{_sum(asked, is_batch=is_batch)}")
    if len(runs) > 1:
        put(f"in all: {_sum(every, is_batch=is_batch)}")
    if waiting := sum(part.waiting for part in every):
        what = (
            "collected, not paid for again" if is_batch else "asked and paid for anew; add --batch"
        )
        put(f"{waiting} of these calls wait in a batch already handed in: they would be {what}")
    if terms.budget is not None:
        put(budget_line(every, terms.budget))
    return 0


def _put_examples(every: "Sequence[Asked]") -> None:
    """An example of each kind of call, whichever model it is first put to."""
    first: dict[tuple[str, str, str], Asked] = {}
    for part in (part for part in every if part.example):
        first.setdefault((part.asker, part.variant, part.step), part)
    for part in first.values():
        where = ", ".join(word for word in (part.asker, part.variant, part.step) if word != "-")
        put(f"--- {where}: an example")
        for message in part.example:
            put(f"[{message.role}]\n{message.content}\n")
        if part.choices:
            put(f"[choices]\n{' '.join(map(repr, part.choices))}\n")


def _put_sizes(title: str, asked: "Sequence[Asked]") -> None:
    has_price = any(part.most_usd is not None for part in asked)
    head = (*HEAD, "USD for what is not stored") if has_price else HEAD
    lines = [(*_cells(part), _span(part)) if has_price else _cells(part) for part in asked]
    put_table(f"{title}: calls to be made at most", head, lines)
    if any(part.is_estimate for part in asked):
        put("~ estimated from characters, four a token")


def _sum(asked: "Sequence[Asked]", *, is_batch: bool) -> str:
    calls = sum(part.calls for part in asked)
    return f"{calls} calls at most; {price_line(asked, is_batch=is_batch)}"


def _cells(part: "Asked") -> tuple[str, ...]:
    return (
        part.asker,
        part.variant,
        part.step,
        str(part.calls),
        "-" if part.stored is None else str(part.stored),
        f"{'~' * part.is_estimate}{part.prompt_tokens}",
        str(part.max_tokens),
    )


def _span(part: "Asked") -> str:
    known = part.least_usd is not None and part.most_usd is not None
    return f"{usd(part.least_usd)} to {usd(part.most_usd)}" if known else "-"
