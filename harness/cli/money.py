"""What calls came to, and what they may come to, as a person reads it."""

from collections.abc import Callable, Mapping, Sequence
from math import floor, fsum, log10
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from harness.models.client.budget import Budget
    from harness.pipeline.dry_run import Asked
    from harness.storage.runs import Cost, Costs

_T = TypeVar("_T")
UNKNOWN = "unknown"


def usd(value: float | None) -> str:
    """US dollars: four decimals, more where these would leave less than two digits."""
    if not value:
        return "-" if value is None else "0"
    places = 4 if value >= 0.001 else 1 - floor(log10(value))
    return f"{value:.{places}f}"


def cost_line(costs: "Costs | None") -> str | None:
    """What a run came to, in one line; tokens alone without a price, null where nobody tells."""
    if costs is None:
        return None
    parts = {"answers": costs.answers} | {f"judge {n}": c for n, c in costs.judges.items()}
    said = []
    if costs.total.told.cost_usd is not None:
        said.append(f"cost: {_usd(costs.total)} USD{_each(parts, _usd)}")
    if costs.total.told.prompt_tokens is not None or costs.total.told.completion_tokens is not None:
        said.append(f"tokens in/out: {_tokens(costs.total)}{_each(parts, _tokens)}")
    if count := costs.total.unanswered:
        calls = "1 call" if count == 1 else f"{count} calls"
        said.append(f"{calls} broke off without an answer: nobody tells what that cost")
    return "; ".join(said) or None


def price_line(asked: "Sequence[Asked]", *, is_batch: bool) -> str:
    """What is left to pay in all, from the least to the most, and whose price is not known."""
    hosted = [part for part in asked if part.is_hosted]
    unknown = {part.model: part.priced_as for part in hosted if part.most_usd is None}
    groups: dict[str, list[tuple[float, float]]] = {}
    for part in hosted:
        if part.model not in unknown:
            who = "answers" if part.variant != "-" else f"judge {part.asker}"
            groups.setdefault(who, []).append((part.least_usd or 0.0, part.most_usd or 0.0))
    said = []
    if groups:
        each = ", ".join(f"{who} {_range(spans)}" for who, spans in groups.items())
        whole = _range([span for spans in groups.values() for span in spans])
        has_parts = len(groups) > 1 or unknown or len(hosted) < len(asked)
        said.append(f"price: {whole} USD" + (f": {each}" if has_parts else ""))
    if unknown:
        where = "in batches: put it, with its batch_share," if is_batch else "(tokens only): put it"
        names, keys = ", ".join(unknown), ", ".join(map(repr, dict.fromkeys(unknown.values())))
        said.append(
            f"no price known of {names} {where} under {keys} into configs/prices.yaml of your "
            "folder"
        )
    return "; ".join(said) or "tokens only: no model here is paid by the call"


def budget_line(asked: "Sequence[Asked]", budget: "Budget") -> str:
    """Whether what is left to pay stays within a budget, with what was paid before."""
    most = fsum(part.most_usd or 0.0 for part in asked)
    told = (
        f"--budget {budget.cap_usd:g}: {usd(budget.spent_usd)} USD are spent on what is stored, "
        f"and the rest comes to at most {usd(most)}"
    )
    if budget.spent_usd + most <= budget.cap_usd:
        return f"{told}: within it"
    least = fsum(part.least_usd or 0.0 for part in asked)
    is_sure = budget.spent_usd + least > budget.cap_usd
    return f"{told}: the calls {'will' if is_sure else 'may'} stop before their end"


def _range(spans: Sequence[tuple[float, float]]) -> str:
    """What several calls come to, from the least to the most."""
    least, most = (fsum(span[end] for span in spans) for end in range(2))
    return f"{usd(least)} to {usd(most)}"


def _each(parts: "Mapping[str, Cost]", said: "Callable[[Cost], str]") -> str:
    """Who it was spent on, where there are several."""
    if len(parts) < 2:
        return ""
    return ": " + ", ".join(f"{name} {said(part)}" for name, part in parts.items())


def _usd(cost: "Cost") -> str:
    return _least(cost.cost_usd, cost.told.cost_usd, usd)


def _tokens(cost: "Cost") -> str:
    told = cost.told
    prompts = _least(cost.prompt_tokens, told.prompt_tokens, str)
    return f"{prompts}/{_least(cost.completion_tokens, told.completion_tokens, str)}"


def _least(whole: _T | None, told: _T | None, said: Callable[[_T], str]) -> str:
    """A sum; where not all tell, what is told of it."""
    if whole is not None:
        return said(whole)
    return UNKNOWN if told is None else f"at least {said(told)}"
