"""How far long work is, on stderr: one live line on a terminal, else a plain line now and then."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING, TypeVar

from harness.cli.output import ERASE, screen_width
from harness.text.cleanup import without_controls

if TYPE_CHECKING:
    from harness.models.client.cached import Stage

_T = TypeVar("_T")
EVERY_S, LIVE_EVERY_S = 10.0, 0.1


class ProgressLine:
    """Shows the progress of a stage; a live line is erased when its stage ends."""

    def __init__(self, verb: str = "stored") -> None:
        """Nothing is shown before the first call; `verb` follows counts: `2 of 3 stored`."""
        self._verb = verb
        self._shown = self._began = 0.0
        self._stage, self._run, self._first = "", "", 0
        self._spent: dict[str, float] = {}
        self._is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def each(self, names: Sequence[str], runs: Iterable[_T]) -> Iterator[_T]:
        """The runs of some names as they end; meanwhile a live line says which one it is of."""
        ended = iter(runs)
        for place, name in enumerate(names, 1):
            self._run = f"[{place}/{len(names)} {name}] "
            yield next(ended)

    def __call__(
        self,
        stage: "Stage | str",
        done: int,
        total: int,
        failed: int = 0,
        spent_usd: float | None = None,
    ) -> None:
        """Show that `done` of the `total` calls or texts of a stage are done, `failed` of them.

        `spent_usd` is what the calls of this stage have cost so far.
        """
        now, name = time.monotonic(), f"{self._run}{stage}"
        if name != self._stage:
            self._began, self._first = now, done
        elif done < total and now - self._shown < (LIVE_EVERY_S if self._is_live else EVERY_S):
            return
        self._stage, self._shown = name, now
        self._spent[name] = spent_usd or 0.0
        lost = f", {failed} failed" if failed else ""
        if not self._is_live:
            line = f"{stage}: {done - failed} of {total} {self._verb}{lost}"
            print(without_controls(line), file=sys.stderr, flush=True)
            return
        line = f"{self._live(stage, done, total)}{lost}" if done < total else ""
        room = (screen_width(sys.stderr) or 80) - 1
        print(f"{ERASE}{without_controls(line)[:room]}", end="", file=sys.stderr, flush=True)

    def _live(self, stage: "Stage | str", done: int, total: int) -> str:
        words = stage if isinstance(stage, str) else stage.short
        facts = [f"{self._run}{words} {done}/{total}"]
        if done > self._first:
            rate = (done - self._first) / max(self._shown - self._began, 1e-9)
            facts.append(f"{rate:.0f}/s" if rate >= 1 else f"{60 * rate:.0f}/min")
            facts.append(f"{duration((total - done) / rate)} left")
        if spent := sum(self._spent.values()):
            facts.append(f"{spent:.2f} USD")
        return "  ".join(facts)


def duration(seconds: float) -> str:
    """A time to wait in its two largest units: 55 s, 3 min 20 s, 2 h 5 min."""
    whole = ceil(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes < 10 and rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
