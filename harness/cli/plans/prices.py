"""Planned calls to what a dry run prints: examples, sizes, prices, and whether a budget holds."""

from collections.abc import Sequence
from math import fsum

from harness.models.client.cached import CallPolicy
from harness.pipeline.preview import ANY, CallSummary
from harness.present.screen import Cell, say, show_rows, usd, usd_range


def put_calls(title: str, calls: Sequence[CallSummary]) -> None:
    """Print an example of each kind of call of a run, and their counts and sizes."""
    first: dict[tuple[str, str, str], CallSummary] = {}
    for part in (part for part in calls if part.example):
        first.setdefault((part.asker, part.variant, part.step), part)
    for kind, part in first.items():
        say(f"--- {', '.join(word for word in kind if word != '-')}: an example")
        for message in part.example:
            say(f"[{message.role}]\n{message.content}\n")
        if part.choices:
            say(f"[choices]\n{' '.join(map(repr, part.choices))}\n")
    has_price = any(part.is_priced for part in calls)
    head = ["for", "variant", "step", "calls", "stored", "prompt tokens", "answer tokens (max)"]
    head += ["USD for what is not stored"] * has_price
    rows = list[list[Cell]]()
    for part in calls:
        prompts = f"{'~' * part.is_estimate}{part.prompt_tokens}"
        is_known = part.least_usd is not None and part.most_usd is not None
        price = f"{usd(part.least_usd)} to {usd(part.most_usd)}" if is_known else "-"
        row: list[Cell] = [part.asker, part.variant, part.step, part.calls, part.stored, prompts]
        rows.append([*row, part.max_tokens, *([price] * has_price)])
    show_rows(f"{title}: planned calls, at most", head, rows)
    if any(part.is_estimate for part in calls):
        say("~ estimated: four characters are one token")


def put_sums(
    calls: Sequence[CallSummary], terms: CallPolicy, *, start: str = "", cap: str = "--budget"
) -> None:
    """Print how many calls there are, for how much, and whether they stay within the budget.

    `cap` is the option or key that the budget comes from.
    """
    say(start + _sum(calls, is_batch=terms.is_batch), is_prose=bool(start))
    if waiting := sum(part.waiting for part in calls):
        again = "made and paid again; add --batch to collect them"
        fate = "collected, and not paid again" if terms.is_batch else again
        say(f"{waiting} of these calls wait in a batch already sent: they would be {fate}")
    if (budget := terms.budget) is None:
        return
    least, most = (fsum(end or 0.0 for end in ends) for ends in _ends(calls))
    end = "the calls will stop before their end"
    if budget.spent_usd + least <= budget.cap_usd:
        end = "the calls may stop before their end"
    if budget.spent_usd + most <= budget.cap_usd:
        end = "within the budget"
    fact = f"{cap} {budget.cap_usd:g}: stored calls have cost {usd(budget.spent_usd)} USD, and the"
    say(f"{fact} others cost at most {usd(most)}: {end}", is_prose=bool(start))


def _ends(calls: Sequence[CallSummary]) -> tuple[list[float | None], list[float | None]]:
    return [part.least_usd for part in calls], [part.most_usd for part in calls]


def _sum(calls: Sequence[CallSummary], *, is_batch: bool) -> str:
    count, hosted = sum(part.calls for part in calls), [part for part in calls if part.priced_as]
    stored = sum(part.stored or 0 for part in calls)
    if stored == count > 0:
        return f"nothing to ask: all {count} calls are stored"
    facts = [f"{count} call{'s' * (count != 1)} at most"]
    if stored:
        facts = [f"{count - stored} of {count} calls to ask at most, {stored} are stored"]
    unknown = {part.model: part.priced_as for part in hosted if part.most_usd is None}
    groups: dict[str, list[tuple[float, float]]] = {}
    for part in (part for part in hosted if part.model not in unknown):
        payer = "answers" if part.variant != ANY else f"judge {part.asker}"
        groups.setdefault(payer, []).append((part.least_usd or 0.0, part.most_usd or 0.0))
    if groups:
        each = ", ".join(f"{payer} {usd_range(spans)}" for payer, spans in groups.items())
        whole = usd_range([span for spans in groups.values() for span in spans])
        has_parts = len(groups) > 1 or unknown or len(hosted) < len(calls)
        facts.append(f"price: {whole} USD" + (f": {each}" if has_parts else ""))
    if unknown:
        keys = ", ".join(map(repr, dict.fromkeys(unknown.values())))
        kind, entry = (" in batches", " with batch_share") if is_batch else ("", "")
        facts.append(
            f"no price for {', '.join(unknown)}{kind}, so only tokens are counted; add "
            f"{keys}{entry} to configs/prices.yaml of your own folder"
        )
    if not hosted:
        facts.append("tokens only: no model here is paid by the call")
    return "; ".join(facts)
