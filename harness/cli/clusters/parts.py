"""The option --shard: which part of the calls is made, and what was stored."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.cli.options import Calling, ExitCode, Shown
from harness.errors import SpecError
from harness.present.screen import say, show_json, warn

if TYPE_CHECKING:
    from pathlib import Path

    from harness.pipeline.studies.shards import Shard, ShardResult
    from harness.workspace import Workspace


def part_of(text: str | None, calling: Calling, *, is_dry: bool) -> "Shard | None":
    """The shard of the options; None for all calls. SpecError where options exclude each other."""
    if text is None:
        return None
    from harness.pipeline.studies.shards import Shard

    if calling.is_batch:
        raise SpecError("--shard: not with --batch; hand a run's batches in by one command")
    if is_dry:
        raise SpecError("--shard: not with --dry-run, which counts the calls of all shards")
    return Shard.parse(text)


def on_part(space: "Workspace", part: "Shard | None") -> "Workspace":
    """The workspace in which a shard stores its calls in segments of its own."""
    return space if part is None else replace(space, shard=(part.number, part.count))


def gathered(sources: "Sequence[Path]", results: "Path", models: "Iterable[str]") -> None:
    """Copy what other machines have stored of some models' calls; say how much of it is new.

    It comes before the runs are resolved: the stored calls say which model `auto` was.
    """
    from harness.pipeline.studies import shards

    if sources:
        copied = shards.gather(sources, results, models)
        warn(f"{copied} segments of stored calls copied to {results / 'calls'}")


def put_parts(parts: "Iterable[ShardResult]", shown: Shown) -> int:
    """Print what a shard has stored of each run; as JSON a list."""
    ended: list[ShardResult] = []
    for part in parts:
        ended.append(part)
        if not shown.is_json:
            say(f"{part.task}, {part.model}: {part_line(part)}", is_prose=True)
    if shown.is_json:
        show_json(ended)
    elif ended:
        say(after_words(ended), is_prose=True)
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
