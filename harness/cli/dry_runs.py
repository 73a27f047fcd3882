"""What a dry run finds, as a person reads it: prompts, sizes and prices."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.cli.money import price_line, usd
from harness.cli.screen import put, put_json, put_table

if TYPE_CHECKING:
    from harness.dryrun import Asked

HEAD = ("for", "variant", "step", "calls", "stored", "prompt tokens", "answer tokens (max)")


def put_dry_runs(
    runs: "Sequence[Sequence[Asked]]", *, is_json: bool, is_batch: bool = False
) -> int:
    """Print what each run would ask; as JSON a list, or a list of several."""
    if is_json:
        put_json(runs if len(runs) > 1 else runs[0])
        return 0
    for asked in runs:
        _put_examples(asked)
        _put_sizes(asked, is_batch=is_batch)
    return 0


def _put_examples(asked: "Sequence[Asked]") -> None:
    for part in asked:
        where = ", ".join(word for word in (part.asker, part.variant, part.step) if word != "-")
        put(f"--- {where}: an example")
        for message in part.example:
            put(f"[{message.role}]\n{message.content}\n")
        if part.choices:
            put(f"[choices]\n{' '.join(map(repr, part.choices))}\n")


def _put_sizes(asked: "Sequence[Asked]", *, is_batch: bool) -> None:
    has_price = any(part.most_usd is not None for part in asked)
    head = (*HEAD, "USD for what is not stored") if has_price else HEAD
    lines = [(*_cells(part), _span(part)) if has_price else _cells(part) for part in asked]
    put_table("calls that a run would make at most", head, lines)
    if any(part.is_estimate for part in asked):
        put("~ estimated from characters, four a token")
    calls = sum(part.calls for part in asked)
    put(f"{calls} calls at most; {price_line(asked, is_batch=is_batch)}")


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
