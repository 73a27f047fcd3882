"""Runs to lines and tables: scores, costs, and what is missing and why."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from harness.analysis.boards.scores import OF_ALARMS, board_scores, shown_decoding
from harness.cli.boards import warn_of_alarms
from harness.cli.options import ExitCode
from harness.judges.custom import JudgeLabel
from harness.parts import Reason
from harness.pipeline.calls import unpaid_parts
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS, MACRO, PERMUTED
from harness.pipeline.execute import RunResult
from harness.pipeline.score import ALL, headlines
from harness.present.screen import Cell, say, show_json, show_rows, usd, warn
from harness.specs.models import IMPORTED
from harness.storage.runs import Costs, MissingCount, RunFile, ScoreRow, table_text

_T = TypeVar("_T")
RANKED = (HITS, FALSE_ALARMS, MACRO, PERMUTED)
"""What the leaderboard ranks by where it is not the headline, and accuracy without orders."""


def facts_of(done: RunResult) -> dict[str, Any]:
    """A run for JSON."""
    facts = {name: getattr(done.file, name) for name in ("costs", "redrawn", "missing")}
    return {"folder": str(done.folder.path), "scores": done.scores, **facts}


def put_run(done: RunResult, *, is_json: bool, tag: str | None = None) -> int:
    """Print a run: its scores, alarms, cost and folder, and what is missing or was cut."""
    file = done.file
    if tag is not None:
        done.folder.write_tag(tag)
    show_json(facts_of(done), is_json)
    put_scores(file, done.scores)
    if any(row.score.metric.startswith(OF_ALARMS) for row in done.scores):
        warn_of_alarms(board_scores({"": table_text(done.scores)}))
    if (line := cost_line(file.costs, unpaid_parts(file))) is not None:
        say(line)
    say(f"run {done.folder.path}")
    if done.truncated:
        fact = f"{done.truncated} of {file.planned} answers reached their limit of tokens and were"
        how = f"to raise it, set max_tokens in tasks/{file.run.task}.yaml of your own folder"
        say(f"{fact} cut; {how}")
    for line in gap_lines(file, has_remedy=True):
        warn(line)
    say("groups and more metrics: harness leaderboard --metrics")
    return ExitCode.of(done.missing)


def put_scores(file: RunFile, rows: Sequence[ScoreRow]) -> None:
    """Print a run's headline scores, what is missing of them, and those that boards rank by."""
    heads = headlines(rows)
    signatures = {head.signature for head in heads}
    signatures |= {row.signature for row in rows if row.score.metric == PERMUTED}
    others = [
        row
        for row in rows
        if row.signature in signatures and row not in heads
        if row.score.metric in RANKED and row.score.group == ALL
    ]
    judges = list(dict.fromkeys(head.score.judge for head in heads))
    shown = sorted([*heads, *others], key=lambda row: judges.index(row.score.judge))
    facts = {
        "metric": [row.score.metric for row in shown],
        "decoding": [shown_decoding(row.score.decoding, row.signature) for row in shown],
    }
    alike = {name: own[0] for name, own in facts.items() if len(set(own)) == 1}
    keys = ["variant", "judge", *(name for name in facts if name not in alike)]

    def cells(place: int, row: ScoreRow) -> list[Cell]:
        score, own = row.score, [facts[name][place] for name in keys[2:]]
        ends = (score.value, (score.low, score.high), row.chance, score.n)
        missing = ", ".join(f"{why} {count}" for why, count in score.missing.items() if count)
        return [score.variant, score.judge, *own, *ends, missing or 0]

    title = f"{file.run.task}, {file.model.name}: {', '.join(alike.values())}"
    scores = [row.score for row in shown if row.score.metric in RANKED[:2]]
    kinds = {one.metric: one.n + sum(one.missing.values()) for one in scores}
    if kinds:  # not chance: with texts of two kinds in other numbers a constant answer has more
        constant = max(kinds.values()) / max(1, sum(kinds.values()))
        title += f"; the better constant answer has accuracy {constant:.3f}"
    head = [*keys, "value", "95% interval", "chance", "n", "missing"]
    show_rows(title, head, [cells(*pair) for pair in enumerate(shown)], len(keys))


def cost_line(costs: Costs | None, free: Iterable[str] = ()) -> str | None:
    """The tokens of a run and, where prices are known, its cost; None if nothing is known."""
    if costs is None:
        return None
    parts = {"answers": costs.answers} | {f"judge {n}": c for n, c in costs.judges.items()}
    silent = {n for n, c in parts.items() if c.reported.cost_usd is None and not c.unanswered}
    unpaid, facts = silent.intersection(free), list[str]()
    total, known = costs.total, costs.total.reported
    if known.cost_usd is not None:
        is_whole = all(c.cost_usd is not None for n, c in parts.items() if n not in unpaid)
        paid = _least(known.cost_usd if is_whole else None, known.cost_usd, usd)
        each = ", ".join(
            f"{n} {'unpaid' if n in unpaid else _least(c.cost_usd, c.reported.cost_usd, usd)}"
            for n, c in parts.items()
        )
        facts.append(f"cost: {paid} USD" + f": {each}" * bool(costs.judges))
    if known.prompt_tokens is not None or known.completion_tokens is not None:
        # What nobody pays for and reports no tokens, such as a control, has none.
        own = [c for n, c in parts.items() if n not in free or c.reported.prompt_tokens is not None]
        sums = [_sum(c.prompt_tokens for c in own), _sum(c.completion_tokens for c in own)]
        prompts = _least(sums[0], known.prompt_tokens, str)
        replies = _least(sums[1], known.completion_tokens, str)
        facts.append(f"tokens in/out: {prompts}/{replies}")
    if calls := total.unanswered:
        many = "s" * (calls != 1)
        facts.append(f"{calls} call{many} broke off without an answer, at an unknown cost")
    return "; ".join(facts) or None


def _sum(counts: Iterable[int | None]) -> int | None:
    """A sum; None where a summand is unknown."""
    found = [*counts]
    return None if None in found else sum(filter(None, found))


def _least(whole: _T | None, known: _T | None, shown: Callable[[_T], str]) -> str:
    """A sum; where some summands are unknown, the sum of the others."""
    if whole is not None:
        return shown(whole)
    return "unknown" if known is None else f"at least {shown(known)}"


def gap_lines(file: RunFile, *, has_remedy: bool) -> Iterator[str]:
    """A line for each thing that is missing, and below it the most frequent errors behind it."""
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
    is_called = gap.is_reply or not (gap.judge or file.model.kind == IMPORTED)
    match gap.reason:
        case Reason.TRUNCATED if gap.judge or is_called:
            place = f"configs/judges/{plain}" if gap.is_reply else f"tasks/{file.run.task}"
            return f"raise max_tokens in {place}.yaml"
        case Reason.UNPARSED if gap.is_reply:
            other = f"let another model judge (--judge {plain}/MODEL)"
            return f"such replies are kept: {other}, or write a judge of your own (docs/adding.md)"
        case Reason.FAILED if is_called:
            return "run the command again to retry these calls"
        case Reason.REFUSED | Reason.FILTERED if is_called:
            return "such replies are kept; --retry all retries these calls"
    return ""
