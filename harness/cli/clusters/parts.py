"""The options --shard and --processes: which part of the calls is made, and what is told of it."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from harness.cli.options import Calling, ExitCode, Shown
from harness.cli.output import echo, echo_json, log
from harness.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path

    from harness.cli.clusters.processes import Children
    from harness.core import Model
    from harness.models.client.cached import CallPolicy
    from harness.pipeline.resolve import JudgePlan, RunPlan
    from harness.pipeline.studies.shards import Shard, ShardResult
    from harness.workspace import Workspace

LOADED = frozenset({"transformers", "vllm", "classifier", "sklearn"})
"""The kinds of models whose weights a process of its own would load once more."""


class PartOptions(Protocol):
    """The options that say which part of the calls a command makes."""

    @property
    def shard(self) -> str | None:
        """The part, as i/N."""

    @property
    def processes(self) -> int | None:
        """How many processes share the calls."""

    @property
    def is_dry(self) -> bool:
        """Whether no call is made."""


def part_of(asking: PartOptions, calling: Calling) -> "Shard | None":
    """The shard of the options; None for all calls. SpecError where options exclude each other."""
    if asking.shard is None and asking.processes is None:
        return None
    from harness.pipeline.studies.shards import Shard

    name = "--shard" if asking.shard is not None else "--processes"
    if asking.shard is not None and asking.processes is not None:
        raise SpecError("--shard and --processes: give one; a machine's shard is one process")
    if calling.is_batch:
        raise SpecError(f"{name}: not with --batch; hand a run's batches in by one command")
    if asking.shard is not None and asking.is_dry:
        raise SpecError("--shard: not with --dry-run, which counts the calls of all shards")
    if asking.shard is None:
        return None
    from harness.cli.clusters.processes import end_with_parent

    end_with_parent()
    return Shard.parse(asking.shard)


def wait_to_begin() -> None:
    """In a process that another one started: wait until that has found all in order."""
    from harness.cli.clusters import processes

    processes.wait_to_begin()


def on_part(space: "Workspace", part: "Shard | None") -> "Workspace":
    """The workspace in which a shard stores its calls in segments of its own."""
    return space if part is None else replace(space, shard=(part.number, part.count))


def models_of(plans: "Iterable[RunPlan | JudgePlan]") -> "list[Model]":
    """The models that some runs ask."""
    from harness.pipeline.resolve import RunPlan

    tested = [plan.client.model for plan in plans if isinstance(plan, RunPlan)]
    return tested + [one.client.model for plan in plans for one in plan.judges if one.client]


def children(count: int | None, calling: Calling) -> "AbstractContextManager[Children | None]":
    """The processes that will make the calls of this command as shards; None for this one alone."""
    if count is None or count == 1 or calling.is_offline:
        return nullcontext()
    from harness.cli.clusters.processes import Children

    return Children(count)


def beside(space: "Workspace", others: "Children | None") -> "Workspace":
    """The workspace of a command whose children make its calls."""
    return replace(space, terms=replace(space.terms, others=others))


def begin(terms: "CallPolicy", models: "Iterable[Model]", *, is_waiting: bool = False) -> None:
    """Have the children of a command make its calls; with `is_waiting` until they have ended.

    So too where there is a budget: what they spend counts before a call of this process. What one
    of them leaves, as when it dies, this process does when it goes on.
    """
    if (others := terms.others) is None:
        return
    if heavy := sorted({one.name for one in models if one.kind in LOADED}):
        raise SpecError(
            f"--processes: each process would load {', '.join(heavy)}; leave it out, or "
            "give each machine a --shard"
        )
    others.begin()
    if is_waiting or terms.budget is not None:
        others.wait()


def gathered(sources: "Sequence[Path]", results: "Path", models: "Iterable[str]") -> None:
    """Copy what other machines have stored of some models' calls; say how much of it is new.

    It comes before the runs are resolved: the stored calls tell which model `auto` was.
    """
    from harness.pipeline.studies import shards

    if sources:
        copied = shards.gather(sources, results, models)
        log(f"{copied} segments of stored calls copied to {results / 'calls'}")


def put_parts(parts: "Iterable[ShardResult]", shown: Shown) -> int:
    """Print what a shard has stored of each run; as JSON a list."""
    wait_to_begin()
    ended: list[ShardResult] = []
    for part in parts:
        ended.append(part)
        if not shown.is_json:
            echo(f"{part.task}, {part.model}: {part_line(part)}", is_prose=True)
    if shown.is_json:
        echo_json(ended)
    elif ended:
        echo(after_words(ended), is_prose=True)
    return ExitCode.of(any(part.missing for part in ended))


def part_line(part: "ShardResult") -> str:
    """What a shard has stored of a run, in words."""
    asked = f", {part.questions} questions of judges" if part.questions else ""
    lost = f", {part.missing} without an answer" if part.missing else ""
    return f"shard {part.shard}, {part.answers} answers{asked} stored{lost}"


def after_words(ended: "Sequence[ShardResult]") -> str:
    """What is to be done when all shards have ended."""
    count = ended[0].shard.partition("/")[2]
    return f"no run is written: when all {count} shards are done, `harness merge` makes it of them"
