"""Runs and dry runs to lines and tables: scores, costs, prices, and what is missing and why."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import floor, fsum, log10
from typing import TYPE_CHECKING, TypeVar

from harness.cli.command import ExitCode
from harness.cli.output import echo, echo_json, echo_table, log
from harness.cli.run_details import log_alarms, put_details
from harness.judges.label import JudgeLabel
from harness.parts import Reason

if TYPE_CHECKING:
    from harness.models.client.cached import Budget, CallPolicy
    from harness.pipeline.execute import RunResult
    from harness.pipeline.preview import CallSummary
    from harness.storage.runs import Cost, Costs, MissingCount, RunFile

_T = TypeVar("_T")
UNKNOWN = "unknown"


def put_runs(runs: "Iterable[RunResult]", *, is_json: bool, is_all: bool = False) -> int:
    """Print each run as it ends; as JSON an object, or a list of several.

    `is_all`: calls whose reply had no answer were retried (--retry all).
    """
    if not is_json:
        return max(_put_run(done, is_all=is_all) for done in runs)
    ended = list(runs)
    results = [
        {
            "folder": str(done.folder.path),
            "scores": done.scores,
            "costs": done.file.costs,
            "redrawn": done.file.redrawn,
            "missing": done.file.missing,
        }
        for done in ended
    ]
    echo_json(results if len(results) > 1 else results[0])
    return max(ExitCode.of(done.missing) for done in ended)


def _put_run(done: "RunResult", *, is_all: bool) -> int:
    from harness.analysis.leaderboard import headlines

    head = ("variant", "judge", "metric", "decoding", "value", "95% interval", "chance", "n")
    table = []
    for row in headlines(done.scores):
        score = row.score
        missing = ", ".join(f"{reason} {n}" for reason, n in score.missing.items() if n) or "0"
        what = (score.variant, score.judge, score.metric, score.decoding, score.value)
        table.append((*what, (score.low, score.high), row.chance, score.n, missing))
    echo_table(f"{done.file.run.task}, {done.file.model.name}", (*head, "missing"), table)
    put_details(done.scores)
    log_alarms(done.scores)
    if (line := cost_line(done.file.costs)) is not None:
        echo(line)
    echo(f"run {done.folder.path}")
    if done.truncated:
        echo(cut_line(done.file, done.truncated))
    if done.again and is_all:
        echo(f"{done.again} calls whose reply had no answer were retried (--retry all)")
    for line in gap_lines(done.file, has_remedy=True):
        log(line)
    return ExitCode.of(done.missing)


def usd(value: float | None) -> str:
    """US dollars: four decimals, more where these would leave less than two digits."""
    if not value:
        return "-" if value is None else "0"
    places = 4 if value >= 0.001 else 1 - floor(log10(value))
    return f"{value:.{places}f}"


def cost_line(costs: "Costs | None") -> str | None:
    """The tokens of a run and, where prices are known, its cost; None if nothing is known."""
    if costs is None:
        return None
    parts = {"answers": costs.answers} | {f"judge {n}": c for n, c in costs.judges.items()}
    known, facts = costs.total.told, []
    if known.cost_usd is not None:
        facts.append(f"cost: {_usd(costs.total)} USD{_each(parts, _usd)}")
    if known.prompt_tokens is not None or known.completion_tokens is not None:
        facts.append(f"tokens in/out: {_tokens(costs.total)}{_each(parts, _tokens)}")
    if calls := costs.total.unanswered:
        facts.append(
            f"{calls} call{'s' * (calls != 1)} broke off without an answer, at an unknown cost"
        )
    return "; ".join(facts) or None


def price_line(calls: "Sequence[CallSummary]", *, is_batch: bool) -> str:
    """The least and the most that calls can still cost, and the models without a known price."""
    hosted = [part for part in calls if part.is_hosted]
    unknown = {part.model: part.priced_as for part in hosted if part.most_usd is None}
    groups: dict[str, list[tuple[float, float]]] = {}
    for part in hosted:
        if part.model not in unknown:
            payer = "answers" if part.variant != "-" else f"judge {part.asker}"
            groups.setdefault(payer, []).append((part.least_usd or 0.0, part.most_usd or 0.0))
    facts = []
    if groups:
        each = ", ".join(f"{payer} {_range(spans)}" for payer, spans in groups.items())
        whole = _range([span for spans in groups.values() for span in spans])
        has_parts = len(groups) > 1 or unknown or len(hosted) < len(calls)
        facts.append(f"price: {whole} USD" + (f": {each}" if has_parts else ""))
    if unknown:
        names, keys = ", ".join(unknown), ", ".join(map(repr, dict.fromkeys(unknown.values())))
        kind = " in batches" if is_batch else ""
        what = "it and its batch_share" if is_batch else "it"
        facts.append(
            f"no price known of {names}{kind}, only tokens are counted: put {what} under {keys} "
            "into configs/prices.yaml of your folder"
        )
    return "; ".join(facts) or "tokens only: no model here is paid by the call"


def budget_line(calls: "Sequence[CallSummary]", budget: "Budget") -> str:
    """Whether planned calls, with those that are stored, stay within a budget."""
    most = fsum(part.most_usd or 0.0 for part in calls)
    facts = (
        f"--budget {budget.cap_usd:g}: stored calls have cost {usd(budget.spent_usd)} USD, and the "
        f"others cost at most {usd(most)}"
    )
    if budget.spent_usd + most <= budget.cap_usd:
        return f"{facts}: within the budget"
    least = fsum(part.least_usd or 0.0 for part in calls)
    is_sure = budget.spent_usd + least > budget.cap_usd
    return f"{facts}: the calls {'will' if is_sure else 'may'} stop before their end"


def _range(spans: Sequence[tuple[float, float]]) -> str:
    least, most = (fsum(span[end] for span in spans) for end in range(2))
    return f"{usd(least)} to {usd(most)}"


def _each(parts: "Mapping[str, Cost]", shown: "Callable[[Cost], str]") -> str:
    """The share of answers and of each judge; empty where there is one share only."""
    if len(parts) < 2:
        return ""
    return ": " + ", ".join(f"{name} {shown(part)}" for name, part in parts.items())


def _usd(cost: "Cost") -> str:
    return _least(cost.cost_usd, cost.told.cost_usd, usd)


def _tokens(cost: "Cost") -> str:
    known = cost.told
    prompts = _least(cost.prompt_tokens, known.prompt_tokens, str)
    return f"{prompts}/{_least(cost.completion_tokens, known.completion_tokens, str)}"


def _least(whole: _T | None, known: _T | None, shown: Callable[[_T], str]) -> str:
    """A sum; where some summands are unknown, the sum of the others."""
    if whole is not None:
        return shown(whole)
    return UNKNOWN if known is None else f"at least {shown(known)}"


IMPORTED = "replay"
"""The kind of a model whose answers other people stored: it is never asked."""


def gap_lines(file: "RunFile", *, has_remedy: bool) -> Iterator[str]:
    """A line for each thing that is missing, and below it the most frequent errors behind it.

    With `has_remedy` a line ends in what to do.
    """
    for gap in file.missing or ():
        remedy = _remedy(gap, file) if has_remedy else ""
        yield f"{_named(gap)}{remedy and f'; {remedy}'}"
        for error in gap.said:
            yield f"  {error.count} of {gap.count}: {error.message}"


def cut_line(file: "RunFile", cut: int) -> str:
    """How many answers were cut, at how many tokens, and where that limit is set."""
    steps = [file.task.variants[name].steps[-1].max_tokens for name in file.run.variants]
    default = [part.max_tokens for part in file.run.decodings]
    limits = {limit for step in steps for limit in ([step] if step else default)}
    where = "steps and decodings" if any(steps) else "decodings"
    return (
        f"{cut} of {file.planned} answers were cut at max_tokens = "
        f"{' or '.join(map(str, sorted(limits)))} (stop: length): raise it in the {where} of "
        f"tasks/{file.run.task}.yaml in your own folder"
    )


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
    plain = JudgeLabel.parse(gap.judge).name if gap.judge else ""
    match gap.reason:
        case Reason.FAILED if gap.is_reply or not gap.judge:
            return "run the command again to retry these calls"
        case Reason.REFUSED | Reason.FILTERED if gap.is_reply or not gap.judge:
            return "such replies are kept; --retry all retries these calls"
        case Reason.UNPARSED if gap.is_reply:
            return (
                "such replies are kept, also with --retry all: let another model judge (--judge "
                f"{plain}/MODEL), or write a judge of your own (docs/adding.md)"
            )
        case Reason.TRUNCATED if gap.judge:
            return f"raise max_tokens in configs/judges/{plain}.yaml of your own folder"
        case Reason.TRUNCATED:
            return (
                f"raise max_tokens in tasks/{file.run.task}.yaml, or for a model that reasons "
                f"reasoning_max_tokens in configs/models/{file.model.name}.yaml, of your own folder"
            )
        case _:
            return ""


HEAD = ("for", "variant", "step", "calls", "stored", "prompt tokens", "answer tokens (max)")


def put_dry_runs(
    runs: "Mapping[str, Sequence[CallSummary]]", *, is_json: bool, terms: "CallPolicy"
) -> int:
    """Print the planned calls of each run, by its title; as JSON a list, or a list of several."""
    each, is_batch = list(runs.values()), terms.is_batch
    if is_json:
        echo_json(each if len(each) > 1 else each[0])
        return ExitCode.DONE
    every = [part for calls in each for part in calls]
    _put_examples(every)
    for title, calls in runs.items():
        _put_sizes(title, calls)
        echo(f"{'' if len(runs) == 1 else f'{title}: '}{_sum(calls, is_batch=is_batch)}")
    if len(runs) > 1:
        echo(f"in all: {_sum(every, is_batch=is_batch)}")
    if waiting := sum(part.waiting for part in every):
        fate = (
            "collected, and not paid again"
            if is_batch
            else "made and paid again; add --batch to collect them"
        )
        echo(f"{waiting} of these calls wait in a batch already sent: they would be {fate}")
    if terms.budget is not None:
        echo(budget_line(every, terms.budget))
    return ExitCode.DONE


def _put_examples(every: "Sequence[CallSummary]") -> None:
    """An example of each kind of call, from the first model that gets it."""
    first: dict[tuple[str, str, str], CallSummary] = {}
    for part in (part for part in every if part.example):
        first.setdefault((part.asker, part.variant, part.step), part)
    for kind, part in first.items():
        echo(f"--- {', '.join(word for word in kind if word != '-')}: an example")
        for message in part.example:
            echo(f"[{message.role}]\n{message.content}\n")
        if part.choices:
            echo(f"[choices]\n{' '.join(map(repr, part.choices))}\n")


def _put_sizes(title: str, calls: "Sequence[CallSummary]") -> None:
    has_price = any(part.most_usd is not None for part in calls)
    head = (*HEAD, "USD for what is not stored") if has_price else HEAD
    lines = []
    for part in calls:
        is_known = part.least_usd is not None and part.most_usd is not None
        price = f"{usd(part.least_usd)} to {usd(part.most_usd)}" if is_known else "-"
        tokens = f"{'~' * part.is_estimate}{part.prompt_tokens}"
        cells = (part.asker, part.variant, part.step, part.calls, part.stored, tokens)
        lines.append((*cells, part.max_tokens, *([price] if has_price else [])))
    echo_table(f"{title}: calls to be made at most", head, lines)
    if any(part.is_estimate for part in calls):
        echo("~ estimated: four characters are one token")


def _sum(calls: "Sequence[CallSummary]", *, is_batch: bool) -> str:
    return f"{sum(part.calls for part in calls)} calls at most; " + price_line(
        calls, is_batch=is_batch
    )
