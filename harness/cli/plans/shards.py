"""The option --shard: which part of the calls is made, and what was stored."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from harness.cli.options import Calling, ExitCode, Shown
from harness.errors import SpecError
from harness.present.screen import say, show_json

if TYPE_CHECKING:
    from harness.pipeline.studies.shards import Shard, ShardResult


def part_of(text: str | None, calling: Calling, *, is_dry: bool) -> "Shard | None":
    """The shard of the options; None for all calls. SpecError where options exclude each other."""
    if text is None:
        return None
    from harness.pipeline.studies.shards import Shard

    if calling.is_batch or is_dry:
        raise SpecError("--shard: not with --batch or --dry-run, which are of all calls of a run")
    return Shard.parse(text)


def put_parts(parts: "Iterable[ShardResult]", shown: Shown) -> int:
    """Print what a shard has stored of each run; as JSON a list."""
    ended: list[ShardResult] = []
    for part in parts:
        ended.append(part)
        if not shown.is_json:
            say(f"{part.task}, {part.model}: {part_line(part)}", is_prose=True)
    if shown.is_json:
        show_json(ended)
    else:
        put_next(ended)
    return ExitCode.of(any(part.missing for part in ended))


def part_line(part: "ShardResult") -> str:
    """What a shard has stored of a run, in words."""
    asked = f", {part.questions} questions of judges" if part.questions else ""
    lost = f", {part.missing} without an answer" if part.missing else ""
    return f"shard {part.shard}, {part.answers} answers{asked} stored{lost}"


def put_next(ended: "Sequence[ShardResult]") -> None:
    """Say what is to be done when all shards have ended."""
    for count in {part.shard.partition("/")[2] for part in ended}:
        then = "`harness merge`, or of judges `harness judge --offline`, makes it of them"
        say(f"no run is written: when all {count} shards are done, {then}", is_prose=True)
