"""Runs and dry runs to lines and tables: scores, costs, prices, and what is missing and why."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import TypeVar

from harness.analysis.headlines import headlines
from harness.cli.board_screen import log_run_alarms
from harness.cli.boards import put_joint_boards
from harness.cli.options import ExitCode, Shown, warn_about_keys
from harness.judges.custom import JudgeLabel
from harness.models.client.cached import Budget
from harness.parts import Reason
from harness.pipeline.calls import is_unpaid
from harness.pipeline.choice_scores import EFFECTIVE, FALSE_ALARMS, HITS, MACRO, PERMUTED
from harness.pipeline.execute import RunResult
from harness.pipeline.preview import CallSummary, dry_runs
from harness.pipeline.resolve import JudgePlan, RunPlan
from harness.pipeline.score import ALL, all_scores
from harness.present.screen import (
    p_value,
    say,
    show_json,
    show_records,
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


def put_runs(
    runs: Iterable[RunResult], shown: Shown, *, is_all: bool = False, is_several: bool = False
) -> int:
    """Print each run as it ends, then those of one task together; as JSON one, or a list.

    `is_all`: calls whose reply had no answer were retried (--retry all). `is_several`: more than
    one run is to come, so the scores are those of the joint table.
    """
    has_all = shown.has_all_metrics
    if shown.is_json:
        return _put_json(list(runs), has_all=has_all)
    ended, codes = [], []
    for done in runs:
        ended.append(done.folder)
        codes.append(
            _put_run(done, is_all=is_all, has_all=has_all, is_brief=is_several and not has_all)
        )
    if len(ended) > 1:
        say("")
        put_joint_boards(ended)
    if not has_all:
        say("groups and more metrics: --metrics all")
    return max(codes)


def _put_json(ended: Sequence[RunResult], *, has_all: bool) -> int:
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
    return max(ExitCode.of(done.missing) for done in ended)


def _put_run(done: RunResult, *, is_all: bool, has_all: bool, is_brief: bool) -> int:
    if not is_brief:
        scores = all_scores(done.folder) if has_all else done.scores
        put_scores(done.file, scores, has_all=has_all)
    log_run_alarms(done.folder, done.scores)
    if (line := cost_line(done.file.costs, _unpriced(done.file))) is not None:
        say(line, is_prose=True)
    say(f"run {done.folder.path}")
    if done.truncated:
        say(_cut_line(done.file, done.truncated), is_prose=True)
    if done.again and is_all:
        say(f"{done.again} calls whose reply had no answer were retried (--retry all)")
    for line in gap_lines(done.file, has_remedy=True):
        warn(line)
    return ExitCode.of(done.missing)


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


def cost_line(costs: Costs | None, unpriced: Mapping[str, str] | None = None) -> str | None:
    """The tokens of a run and, where prices are known, its cost; None if nothing is known.

    `unpriced` says why answers, or a judge, have no price, by the name of the part.
    """
    if costs is None:
        return None
    known, facts = costs.total.reported, list[str]()
    parts = {"answers": costs.answers} | {f"judge {n}": c for n, c in costs.judges.items()}
    if known.cost_usd is not None:
        silent = {
            n for n, one in parts.items() if one.reported.cost_usd is None and not one.unanswered
        }
        why = {name: said for name, said in (unpriced or {}).items() if name in silent}
        paid = [part for name, part in parts.items() if name not in why]
        is_whole = bool(why) and all(part.cost_usd is not None for part in paid)
        whole = replace(costs.total, cost_usd=known.cost_usd) if is_whole else costs.total
        each = [f"{name} {why.get(name) or _dollars(part)}" for name, part in parts.items()]
        facts.append(f"cost: {_dollars(whole)} USD" + (f": {', '.join(each)}" * bool(costs.judges)))
    if known.prompt_tokens is not None or known.completion_tokens is not None:
        each = [f"{name} {_tokens(part)}" for name, part in parts.items()]
        facts.append(
            f"tokens in/out: {_tokens(costs.total)}" + f": {', '.join(each)}" * bool(costs.judges)
        )
    if calls := costs.total.unanswered:
        facts.append(
            f"{calls} call{'s' * (calls != 1)} broke off without an answer, at an unknown cost"
        )
    return "; ".join(facts) or None


def _unpriced(file: RunFile) -> dict[str, str]:
    """Why a part of a run has no price: nobody pays it by the call, or this machine serves it."""
    models = {"answers": file.model.identity}
    models |= {f"judge {one.name}": one.identity or "" for one in file.judges if one.asks}
    found = {}
    for name, identity in models.items():
        if is_unpaid(identity):
            found[name] = "unpaid"
        elif identity.startswith("openai|") and "|host=" not in identity:
            found[name] = "on this machine"
    return found


def _dollars(cost: Cost) -> str:
    return _least(cost.cost_usd, cost.reported.cost_usd, usd)


def _tokens(cost: Cost) -> str:
    known = cost.reported
    prompts = _least(cost.prompt_tokens, known.prompt_tokens, str)
    return f"{prompts}/{_least(cost.completion_tokens, known.completion_tokens, str)}"


def _least(whole: _T | None, known: _T | None, shown: Callable[[_T], str]) -> str:
    """A sum; where some summands are unknown, the sum of the others."""
    if whole is not None:
        return shown(whole)
    return UNKNOWN if known is None else f"at least {shown(known)}"


def gap_lines(file: RunFile, *, has_remedy: bool) -> Iterator[str]:
    """A line for each thing that is missing, and below it the most frequent errors behind it.

    With `has_remedy` a line ends in what to do.
    """
    alike: dict[tuple[object, ...], list[MissingCount]] = {}
    for gap in file.missing or ():
        # Judges that ask one model lack the same for the same reasons.
        key = (bool(gap.judge), gap.is_reply, gap.reason, gap.count, gap.said)
        alike.setdefault(key if gap.said else (*key, gap.judge), []).append(gap)
    for gaps in alike.values():
        gap = gaps[0]
        remedy = _remedy(gap, file) if has_remedy else ""
        yield f"{_gap_line(gaps)}; {remedy}" if remedy else _gap_line(gaps)
        for error in gap.said:
            yield f"  {error.count} of {gap.count}: {error.message}"


def _gap_line(gaps: Sequence[MissingCount]) -> str:
    gap, judges = gaps[0], ", ".join(gap.judge for gap in gaps)
    if not gap.judge:
        return f"no answer to judge: {gap.count} {gap.reason}"
    what = "reply" if gap.is_reply else "answer"
    verdicts = "verdict" if gap.count == 1 else "verdicts"
    subject, each = ("judge", "") if len(gaps) == 1 else ("judges", " each")
    return f"{subject} {judges}: {gap.count} {verdicts} missing{each}, {what} {gap.reason}"


def _remedy(gap: MissingCount, file: RunFile) -> str:
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
        case Reason.TRUNCATED if gap.is_reply:
            return f"raise max_tokens in configs/judges/{plain}.yaml of your own folder"
        case Reason.TRUNCATED:
            return (
                f"raise max_tokens in tasks/{file.run.task}.yaml, or for a model that reasons "
                f"reasoning_max_tokens in configs/models/{file.model.name}.yaml, of your own folder"
            )
        case _:
            return ""


def _cut_line(file: RunFile, cut: int) -> str:
    steps = [file.task.variants[name].steps[-1].max_tokens for name in file.run.variants]
    default = [part.max_tokens for part in file.run.decodings]
    limits = {limit for step in steps for limit in ([step] if step else default)}
    where = "steps and decodings" if any(steps) else "decodings"
    return (
        f"{cut} of {file.planned} answers reached the limit of "
        f"{' or '.join(map(str, sorted(limits)))} tokens and were cut; to raise it, set max_tokens "
        f"under {where} in tasks/{file.run.task}.yaml of your own folder"
    )


def put_dry_runs(plans: Sequence[RunPlan | JudgePlan], space: Workspace, *, is_json: bool) -> int:
    """Print the planned calls of each run; as JSON a list, or a list of several."""
    each, terms = dry_runs(plans), space.terms
    models = [plan.client.model.name for plan in plans if isinstance(plan, RunPlan)]
    warn_about_keys(space.registry, models, [one for plan in plans for one in plan.judges])
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
    def price(part: CallSummary) -> str:
        is_known = part.least_usd is not None and part.most_usd is not None
        return f"{usd(part.least_usd)} to {usd(part.most_usd)}" if is_known else "-"

    show_records(
        f"{title}: planned calls, at most",
        calls,
        "for=asker, variant, step, calls, stored, prompt tokens=tokens, answer tokens "
        "(max)=max_tokens"
        + (", USD for what is not stored=price" if any(part.is_priced for part in calls) else ""),
        tokens=lambda part: f"{'~' * part.is_estimate}{part.prompt_tokens}",
        price=price,
    )
    if any(part.is_estimate for part in calls):
        say("~ estimated: four characters are one token")


def sum_line(calls: Sequence[CallSummary], *, is_batch: bool) -> str:
    """How many calls there are, and for how much."""
    count, hosted = sum(part.calls for part in calls), [part for part in calls if part.priced_as]
    unknown = {part.model: part.priced_as for part in hosted if part.most_usd is None}
    groups: dict[str, list[tuple[float, float]]] = {}
    for part in hosted:
        if part.model not in unknown:
            payer = "answers" if part.variant != "-" else f"judge {part.asker}"
            groups.setdefault(payer, []).append((part.least_usd or 0.0, part.most_usd or 0.0))
    stored = sum(part.stored or 0 for part in calls)
    facts = [f"{count} call{'s' * (count != 1)} at most"]
    if stored:
        facts = [f"{count - stored} of {count} calls to ask at most, {stored} are stored"]
    if stored == count > 0:
        return f"nothing to ask: all {count} calls are stored"
    if groups:
        each = ", ".join(f"{payer} {usd_range(spans)}" for payer, spans in groups.items())
        whole = usd_range([span for spans in groups.values() for span in spans])
        has_parts = len(groups) > 1 or unknown or len(hosted) < len(calls)
        facts.append(f"price: {whole} USD" + (f": {each}" if has_parts else ""))
    if unknown:
        names, keys = ", ".join(unknown), ", ".join(map(repr, dict.fromkeys(unknown.values())))
        kind, entry = (" in batches", " with batch_share") if is_batch else ("", "")
        facts.append(
            f"no price for {names}{kind}, so only tokens are counted; add {keys}{entry} to "
            "configs/prices.yaml of your own folder"
        )
    if not hosted:
        facts.append("tokens only: no model here is paid by the call")
    return "; ".join(facts)


def budget_line(calls: Sequence[CallSummary], budget: Budget, *, name: str = "--budget") -> str:
    """Whether the calls stay within a budget, by the name of its option or key."""
    most = fsum(part.most_usd or 0.0 for part in calls)
    facts = (
        f"{name} {budget.cap_usd:g}: stored calls have cost {usd(budget.spent_usd)} USD, and the "
        f"others cost at most {usd(most)}"
    )
    if budget.spent_usd + most <= budget.cap_usd:
        return f"{facts}: within the budget"
    least = fsum(part.least_usd or 0.0 for part in calls)
    is_sure = budget.spent_usd + least > budget.cap_usd
    return f"{facts}: the calls {'will' if is_sure else 'may'} stop before their end"
