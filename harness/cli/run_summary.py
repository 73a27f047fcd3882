"""What is missing of a run, and why, in lines for a person."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import floor, fsum, log10
from typing import TYPE_CHECKING, TypeVar

from harness.cli.output import echo, echo_json, echo_table
from harness.judges.label import JudgeLabel
from harness.parts import Reason

if TYPE_CHECKING:
    from harness.specs.tasks import VariantSpec
    from harness.storage.runs import MissingCount, RunFile

if TYPE_CHECKING:
    from harness.models.client.pricing import Budget
    from harness.pipeline.dry_run import CallSummary
    from harness.storage.runs import Cost, Costs

if TYPE_CHECKING:
    from harness.models.client.cached import CallPolicy
    from harness.pipeline.dry_run import CallSummary


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


def price_line(asked: "Sequence[CallSummary]", *, is_batch: bool) -> str:
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


def budget_line(asked: "Sequence[CallSummary]", budget: "Budget") -> str:
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


IMPORTED = "replay"
"""The kind of a model whose answers other people stored: it is never asked."""


def gap_lines(file: "RunFile", *, has_remedy: bool) -> Iterator[str]:
    """A line for each thing that is missing, and below it what most calls behind it ended in.

    With `has_remedy` a line ends in what to do.
    """
    for gap in file.missing or ():
        remedy = _remedy(gap, file) if has_remedy else ""
        yield f"{_named(gap)}{remedy and f'; {remedy}'}"
        for said in gap.said:
            yield f"  {said.count} of {gap.count}: {said.message}"


def cut_line(file: "RunFile", cut: int) -> str:
    """How many answers were cut, at how many tokens, and where that is set."""
    steps = [variant.steps[-1].max_tokens for variant in _variants(file)]
    drawn = [part.max_tokens for part in file.run.decodings]
    limits = {limit for step in steps for limit in ([step] if step else drawn)}
    told = " or ".join(map(str, sorted(limits)))
    where = "steps and decodings" if any(steps) else "decodings"
    return (
        f"{cut} of {file.planned} answers were cut at max_tokens (stop: length), which is {told}: "
        f"set it among the {where} in tasks/{file.run.task}.yaml of your own folder"
    )


def _variants(file: "RunFile") -> "list[VariantSpec]":
    return [file.task.variants[name] for name in file.run.variants]


def _named(gap: "MissingCount") -> str:
    if not gap.judge:
        return f"no answer to judge: {gap.count} {gap.reason}"
    what = "reply" if gap.is_reply else "answer"
    verdicts = "verdict" if gap.count == 1 else "verdicts"
    return f"judge {gap.judge}: {gap.count} {verdicts} missing, {what} {gap.reason}"


def _remedy(gap: "MissingCount", file: "RunFile") -> str:
    """What to do about what is missing; empty where nothing is known to help."""
    if not gap.judge and file.model.kind == IMPORTED:
        return ""
    match gap.reason:
        case Reason.FAILED if gap.is_reply or not gap.judge:
            return "repeat the command to ask these again"
        case Reason.REFUSED | Reason.FILTERED if gap.is_reply or not gap.judge:
            return "such a reply stands; --retry all asks these again"
        case Reason.UNPARSED if gap.is_reply:
            plain = JudgeLabel.parse(gap.judge).name
            return (
                "such a reply stands, also with --retry all: have another model judge (--judge "
                f"{plain}/MODEL), or word a judge of your own (docs/adding.md)"
            )
        case Reason.TRUNCATED:
            return f"give it more room: {_room(gap, file)}"
        case _:
            return ""


def _room(gap: "MissingCount", file: "RunFile") -> str:
    """Where the tokens of a reply that was cut are set."""
    if gap.judge:
        plain = JudgeLabel.parse(gap.judge).name
        return f"max_tokens in configs/judges/{plain}.yaml of your own folder"
    return (
        f"max_tokens in tasks/{file.run.task}.yaml, or for a model that reasons "
        f"reasoning_max_tokens in configs/models/{file.model.name}.yaml, of your own folder"
    )


HEAD = ("for", "variant", "step", "calls", "stored", "prompt tokens", "answer tokens (max)")


def put_dry_runs(
    runs: "Mapping[str, Sequence[CallSummary]]",
    *,
    is_json: bool,
    terms: "CallPolicy",
) -> int:
    """Print what each run, by its title, would ask; as JSON a list, or a list of several."""
    told, is_batch = list(runs.values()), terms.is_batch
    if is_json:
        echo_json(told if len(told) > 1 else told[0])
        return 0
    every = [part for asked in told for part in asked]
    _put_examples(every)
    for title, asked in runs.items():
        _put_sizes(title, asked)
        echo(f"{'' if len(runs) == 1 else f'{title}: '}{_sum(asked, is_batch=is_batch)}")
    if len(runs) > 1:
        echo(f"in all: {_sum(every, is_batch=is_batch)}")
    if waiting := sum(part.waiting for part in every):
        what = (
            "collected, not paid for again" if is_batch else "asked and paid for anew; add --batch"
        )
        echo(f"{waiting} of these calls wait in a batch already handed in: they would be {what}")
    if terms.budget is not None:
        echo(budget_line(every, terms.budget))
    return 0


def _put_examples(every: "Sequence[CallSummary]") -> None:
    """An example of each kind of call, whichever model it is first put to."""
    first: dict[tuple[str, str, str], CallSummary] = {}
    for part in (part for part in every if part.example):
        first.setdefault((part.asker, part.variant, part.step), part)
    for part in first.values():
        where = ", ".join(word for word in (part.asker, part.variant, part.step) if word != "-")
        echo(f"--- {where}: an example")
        for message in part.example:
            echo(f"[{message.role}]\n{message.content}\n")
        if part.choices:
            echo(f"[choices]\n{' '.join(map(repr, part.choices))}\n")


def _put_sizes(title: str, asked: "Sequence[CallSummary]") -> None:
    has_price = any(part.most_usd is not None for part in asked)
    head = (*HEAD, "USD for what is not stored") if has_price else HEAD
    lines = [(*_cells(part), _span(part)) if has_price else _cells(part) for part in asked]
    echo_table(f"{title}: calls to be made at most", head, lines)
    if any(part.is_estimate for part in asked):
        echo("~ estimated from characters, four a token")


def _sum(asked: "Sequence[CallSummary]", *, is_batch: bool) -> str:
    calls = sum(part.calls for part in asked)
    return f"{calls} calls at most; {price_line(asked, is_batch=is_batch)}"


def _cells(part: "CallSummary") -> tuple[str, ...]:
    return (
        part.asker,
        part.variant,
        part.step,
        str(part.calls),
        "-" if part.stored is None else str(part.stored),
        f"{'~' * part.is_estimate}{part.prompt_tokens}",
        str(part.max_tokens),
    )


def _span(part: "CallSummary") -> str:
    known = part.least_usd is not None and part.most_usd is not None
    return f"{usd(part.least_usd)} to {usd(part.most_usd)}" if known else "-"
