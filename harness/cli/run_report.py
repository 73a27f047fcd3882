"""Runs and dry runs to lines and tables: scores, costs, prices, and what is missing and why."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import fsum
from typing import TypeVar

from harness.cli.boards import put_joint_boards, warn_of_run
from harness.cli.options import ExitCode, Shown
from harness.judges.custom import JudgeLabel
from harness.models.client.cached import Budget
from harness.parts import Reason
from harness.pipeline.calls import is_unpaid
from harness.pipeline.choice_scores import EFFECTIVE, FALSE_ALARMS, HITS, MACRO, PERMUTED
from harness.pipeline.execute import RunResult
from harness.pipeline.preview import ANY, CallSummary, dry_runs
from harness.pipeline.resolve import JudgePlan, RunPlan
from harness.pipeline.score import ALL, all_scores, headlines
from harness.present.screen import (
    Cell,
    p_value,
    say,
    show_json,
    show_records,
    show_rows,
    usd,
    usd_range,
    warn,
)
from harness.specs.models import CLASSIFIERS
from harness.storage.runs import Cost, Costs, MissingCount, RunFile, ScoreRow
from harness.storage.signature import Signature
from harness.workspace import Workspace

_T = TypeVar("_T")
UNKNOWN = "unknown"
IMPORTED = "replay"
"""The kind of a model whose answers other people stored: it is never asked."""
LABEL = "label"
"""What tables on screen call how classifiers answer."""
RANKED = (HITS, FALSE_ALARMS, MACRO, PERMUTED)
"""What the leaderboard ranks by where it is not the headline, and accuracy without orders."""
FACTS = ("metric", "decoding")


def shown_decoding(decoding: str, signature: str) -> str:
    """How the answers of a signature were drawn, for the screen.

    A classifier neither draws nor scores tokens. What is stored has the label of the other models
    of its task, with which it is ranked.
    """
    return LABEL if Signature.parse(signature).kind in CLASSIFIERS else decoding


def put_runs(runs: Iterable[RunResult], shown: Shown, *, is_several: bool = False) -> int:
    """Print each run as it ends, then those of one task together; as JSON one, or a list.

    `is_several`: more than one run is to come, so the scores are those of the joint table.
    """
    has_all, ended = shown.has_all_metrics, list[RunResult]()
    for done in runs:
        ended.append(done)
        if not shown.is_json:
            if has_all or not is_several:
                scores = all_scores(done.folder) if has_all else done.scores
                put_scores(done.file, scores, has_all=has_all)
            _put_end(done)
    if shown.is_json:
        _put_json(ended, has_all=has_all)
    elif len(ended) > 1:
        say("")
        put_joint_boards([done.folder for done in ended])
    if not shown.is_json and not has_all:
        say("groups and more metrics: --metrics all")
    return ExitCode.of(any(done.missing for done in ended))


def _put_json(ended: Sequence[RunResult], *, has_all: bool) -> None:
    results = [
        {
            "folder": str(done.folder.path),
            "scores": all_scores(done.folder) if has_all else done.scores,
            "costs": done.file.costs,
            "redrawn": done.file.redrawn,
            "missing": done.file.missing,
        }
        for done in ended
    ]
    show_json(results if len(results) > 1 else results[0])


def _put_end(done: RunResult) -> None:
    """Print the alarms of a run, its cost, its folder, and what is missing or was cut."""
    file = done.file
    warn_of_run(done.scores)
    if (line := cost_line(file.costs, _unpaid(file))) is not None:
        say(line, is_prose=True)
    say(f"run {done.folder.path}")
    if done.truncated:
        say(
            f"{done.truncated} of {file.planned} answers reached their limit of tokens and were "
            f"cut; to raise it, set max_tokens in tasks/{file.run.task}.yaml of your own folder",
            is_prose=True,
        )
    for line in gap_lines(file, has_remedy=True):
        warn(line)


def put_scores(file: RunFile, rows: Sequence[ScoreRow], *, has_all: bool = False) -> None:
    """Print a run's headline scores, what is missing of them, and those that boards rank by.

    With `has_all` every metric and group of the same answers. What all rows share is in the title.
    """
    heads = headlines(rows)
    judges = list(dict.fromkeys(head.score.judge for head in heads))
    signatures = {head.signature for head in heads}
    signatures |= {row.signature for row in rows if row.score.metric == PERMUTED}
    others = [row for row in rows if row.signature in signatures and row not in heads]
    others = [row for row in others if not row.score.metric.startswith(EFFECTIVE.format(""))]
    if not has_all:
        others = [r for r in others if r.score.metric in RANKED and r.score.group == ALL]
    shown = sorted([*heads, *others], key=lambda row: judges.index(row.score.judge))
    of: dict[str, Callable[[ScoreRow], str]] = {
        "variant": lambda row: row.score.variant,
        "judge": lambda row: row.score.judge,
        "metric": lambda r: r.score.metric + f", {r.score.group}" * (r.score.group != ALL),
        "decoding": lambda row: shown_decoding(row.score.decoding, row.signature),
    }
    found = {name: [*dict.fromkeys(map(value, shown))] for name, value in of.items()}
    alike = [name for name, own in found.items() if len(own) == 1 and (has_all or name in FACTS)]
    columns = ", ".join(name for name in of if name not in alike)

    def missing(counts: Mapping[Reason, int]) -> int | str:
        """How many, and why where there is room."""
        lost = {why: count for why, count in counts.items() if count}
        words = ", ".join(f"{why} {count}" for why, count in lost.items())
        return words if words and not has_all else sum(lost.values())

    show_records(
        f"{file.run.task}, {file.model.name}: {', '.join(found[name][0] for name in alike)}",
        shown,
        f"{columns}; value, interval, {'' if has_all else 'chance, '}score.n, missing",
        value=lambda r: p_value(r.score.value) if r.score.metric.endswith("_p") else r.score.value,
        interval=lambda row: (row.score.low, row.score.high),
        missing=lambda row: missing(row.score.missing),
        **of,
    )


def cost_line(costs: Costs | None, unpaid: Iterable[str] = ()) -> str | None:
    """The tokens of a run and, where prices are known, its cost; None if nothing is known.

    `unpaid` are the parts that nobody pays by the call.
    """
    if costs is None:
        return None
    parts = {"answers": costs.answers} | {f"judge {n}": c for n, c in costs.judges.items()}
    unpaid = {name for name in unpaid if _is_silent(parts[name])}
    known, facts = costs.total.reported, list[str]()
    if known.cost_usd is not None:
        paid = [part for name, part in parts.items() if name not in unpaid]
        is_whole = all(part.cost_usd is not None for part in paid)
        total = usd(known.cost_usd) if is_whole else f"at least {usd(known.cost_usd)}"
        each = [f"{n} {'unpaid' if n in unpaid else _usd(part)}" for n, part in parts.items()]
        facts.append(f"cost: {total} USD" + (f": {', '.join(each)}" * bool(costs.judges)))
    if known.prompt_tokens is not None or known.completion_tokens is not None:
        each = [f"{name} {_tokens(part)}" for name, part in parts.items()]
        shown = f": {', '.join(each)}" * bool(costs.judges)
        facts.append(f"tokens in/out: {_tokens(costs.total)}{shown}")
    if calls := costs.total.unanswered:
        many = "s" * (calls != 1)
        facts.append(f"{calls} call{many} broke off without an answer, at an unknown cost")
    return "; ".join(facts) or None


def _unpaid(file: RunFile) -> list[str]:
    """The parts of a run that nobody pays by the call, or that this machine serves."""
    models = {"answers": file.model.identity}
    models |= {f"judge {one.name}": one.identity or "" for one in file.judges if one.asks}
    return [
        name
        for name, identity in models.items()
        if is_unpaid(identity) or (identity.startswith("openai|") and "|host=" not in identity)
    ]


def _is_silent(part: Cost) -> bool:
    return part.reported.cost_usd is None and not part.unanswered


def _usd(part: Cost) -> str:
    return _least(part.cost_usd, part.reported.cost_usd, usd)


def _tokens(part: Cost) -> str:
    known = part.reported
    prompts = _least(part.prompt_tokens, known.prompt_tokens, str)
    return f"{prompts}/{_least(part.completion_tokens, known.completion_tokens, str)}"


def _least(whole: _T | None, known: _T | None, shown: Callable[[_T], str]) -> str:
    """A sum; where some summands are unknown, the sum of the others."""
    if whole is not None:
        return shown(whole)
    return UNKNOWN if known is None else f"at least {shown(known)}"


def gap_lines(file: RunFile, *, has_remedy: bool) -> Iterator[str]:
    """A line for each thing that is missing, and below it the most frequent errors behind it.

    With `has_remedy` a line ends in what to do.
    """
    for gap in file.missing or ():
        what, verdicts = "reply" if gap.is_reply else "answer", "verdict" + "s" * (gap.count != 1)
        line = f"judge {gap.judge}: {gap.count} {verdicts} missing, {what} {gap.reason}"
        line = line if gap.judge else f"no answer to judge: {gap.count} {gap.reason}"
        remedy = _remedy(gap, file) if has_remedy else ""
        yield f"{line}; {remedy}" if remedy else line
        for error in gap.said:
            yield f"  {error.count} of {gap.count}: {error.message}"


def _remedy(gap: MissingCount, file: RunFile) -> str:
    plain = JudgeLabel.parse(gap.judge).name if gap.judge else ""
    is_called = gap.is_reply or (not gap.judge and file.model.kind != IMPORTED)
    if gap.reason is Reason.TRUNCATED and not (gap.judge == "" and file.model.kind == IMPORTED):
        task = (
            f"tasks/{file.run.task}.yaml, or reasoning_max_tokens in the YAML of {file.model.name}"
        )
        return f"raise max_tokens in {f'configs/judges/{plain}.yaml' if gap.is_reply else task}"
    if gap.reason is Reason.UNPARSED and gap.is_reply:
        return (
            f"such replies are kept: let another model judge (--judge {plain}/MODEL), or write a "
            "judge of your own (docs/adding.md)"
        )
    if gap.reason is Reason.FAILED and is_called:
        return "run the command again to retry these calls"
    is_kept = gap.reason in (Reason.REFUSED, Reason.FILTERED) and is_called
    return "such replies are kept; --retry all retries these calls" if is_kept else ""


def put_dry_runs(plans: Sequence[RunPlan | JudgePlan], space: Workspace, *, is_json: bool) -> int:
    """Print the planned calls of each run; as JSON a list, or a list of several."""
    each, terms = dry_runs(plans), space.terms
    if is_json:
        show_json(each if len(each) > 1 else each[0])
        return ExitCode.DONE
    every = [part for calls in each for part in calls]
    _put_examples(every)
    for plan, calls in zip(plans, each, strict=True):
        title = f"{plan.file.run.task}, {plan.file.model.name}"
        _put_sizes(title, calls)
        name = "" if len(plans) == 1 else f"{title}: "
        say(f"{name}{sum_line(calls, is_batch=terms.is_batch)}")
    if len(plans) > 1:
        say(f"in all: {sum_line(every, is_batch=terms.is_batch)}")
    if waiting := sum(part.waiting for part in every):
        again = "made and paid again; add --batch to collect them"
        fate = "collected, and not paid again" if terms.is_batch else again
        say(f"{waiting} of these calls wait in a batch already sent: they would be {fate}")
    if terms.budget is not None:
        say(budget_line(every, terms.budget))
    return ExitCode.DONE


def _put_examples(every: Sequence[CallSummary]) -> None:
    first: dict[tuple[str, str, str], CallSummary] = {}
    for part in (part for part in every if part.example):
        first.setdefault((part.asker, part.variant, part.step), part)
    for kind, part in first.items():
        say(f"--- {', '.join(word for word in kind if word != '-')}: an example")
        for message in part.example:
            say(f"[{message.role}]\n{message.content}\n")
        if part.choices:
            say(f"[choices]\n{' '.join(map(repr, part.choices))}\n")


def _put_sizes(title: str, calls: Sequence[CallSummary]) -> None:
    has_price = any(part.is_priced for part in calls)
    head = ["for", "variant", "step", "calls", "stored", "prompt tokens", "answer tokens (max)"]
    rows = list[list[Cell]]()
    for part in calls:
        prompts = f"{'~' * part.is_estimate}{part.prompt_tokens}"
        is_known = part.least_usd is not None and part.most_usd is not None
        price = f"{usd(part.least_usd)} to {usd(part.most_usd)}" if is_known else "-"
        row: list[Cell] = [part.asker, part.variant, part.step, part.calls, part.stored, prompts]
        rows.append([*row, part.max_tokens, *([price] * has_price)])
    head += ["USD for what is not stored"] * has_price
    show_rows(f"{title}: planned calls, at most", head, rows)
    if any(part.is_estimate for part in calls):
        say("~ estimated: four characters are one token")


def sum_line(calls: Sequence[CallSummary], *, is_batch: bool) -> str:
    """How many calls there are, and for how much."""
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


def budget_line(calls: Sequence[CallSummary], budget: Budget, *, name: str = "--budget") -> str:
    """Whether the calls stay within a budget, by the name of its option or key."""
    least = fsum(part.least_usd or 0.0 for part in calls)
    most = fsum(part.most_usd or 0.0 for part in calls)
    end = "the calls will stop before their end"
    if budget.spent_usd + least <= budget.cap_usd:
        end = "the calls may stop before their end"
    if budget.spent_usd + most <= budget.cap_usd:
        end = "within the budget"
    return (
        f"{name} {budget.cap_usd:g}: stored calls have cost {usd(budget.spent_usd)} USD, and the "
        f"others cost at most {usd(most)}: {end}"
    )
