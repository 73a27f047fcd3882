"""What is missing of a run, and why, in lines for a person."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.parts import Reason

if TYPE_CHECKING:
    from harness.specs.tasks import VariantSpec
    from harness.storage.runs import Gap, RunFile

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


def _named(gap: "Gap") -> str:
    if not gap.judge:
        return f"no answer to judge: {gap.count} {gap.reason}"
    what = "reply" if gap.is_reply else "answer"
    verdicts = "verdict" if gap.count == 1 else "verdicts"
    return f"judge {gap.judge}: {gap.count} {verdicts} missing, {what} {gap.reason}"


def _remedy(gap: "Gap", file: "RunFile") -> str:
    """What to do about what is missing; empty where nothing is known to help."""
    if not gap.judge and file.model.kind == IMPORTED:
        return ""
    match gap.reason:
        case Reason.FAILED if gap.is_reply or not gap.judge:
            return "repeat the command to ask these again"
        case Reason.REFUSED | Reason.FILTERED if gap.is_reply or not gap.judge:
            return "such a reply stands; --retry all asks these again"
        case Reason.UNPARSED if gap.is_reply:
            plain = gap.judge.partition("/")[0].partition(":")[0]
            return (
                "such a reply stands, also with --retry all: have another model judge (--judge "
                f"{plain}/MODEL), or word a judge of your own (docs/adding.md)"
            )
        case Reason.TRUNCATED:
            return f"give it more room: {_room(gap, file)}"
        case _:
            return ""


def _room(gap: "Gap", file: "RunFile") -> str:
    """Where the tokens of a reply that was cut are set."""
    if gap.judge:
        plain = gap.judge.partition("/")[0].partition(":")[0]
        return f"max_tokens in configs/judges/{plain}.yaml of your own folder"
    return (
        f"max_tokens in tasks/{file.run.task}.yaml, or for a model that reasons "
        f"reasoning_max_tokens in configs/models/{file.model.name}.yaml, of your own folder"
    )
