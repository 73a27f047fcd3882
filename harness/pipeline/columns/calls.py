"""The calls behind records, as columns, and what they cost: each once, however many share it.

What is unknown is never zero. Of calls with one key, the last one counts, with the earlier calls
that it replaced. Asks nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from harness.parts import NO_REPLY, UNBATCHED, UnbatchedCheck, Usage
from harness.pipeline.columns.arrays import Codes, Grown, Keys, Kinds, among, last_of_each
from harness.stats.estimate import Bools, Floats, Indices
from harness.storage.runs import Cost, Costs, JudgeEntry, SampleRecord

UNPAID = frozenset({"scripted", "transformers", "vllm", "sklearn", "classifier"})
"""The kinds of models that nobody pays by the call: controls, and checkpoints on this machine."""
_UNKNOWN = -1
_Tokens = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Calls:
    """Some calls: the row of each, its key, its tokens and its cost in US dollars.

    `prompts` and `completions` are -1 where they are unknown, `costs` NaN. `others` has the whole
    usage, by place, of those few that replaced others or broke off before.
    """

    rows: Codes
    keys: NDArray[np.uint64]
    prompts: _Tokens
    completions: _Tokens
    costs: Floats
    others: Mapping[int, Usage]

    def __len__(self) -> int:
        """How many there are, equal ones more than once."""
        return len(self.rows)

    def at(self, places: Indices | Bools) -> "Calls":
        """Those at some places, in order."""
        found = np.flatnonzero(places) if places.dtype == bool else places
        kept: dict[int, Usage] = {}
        if self.others:
            known = np.flatnonzero(np.isin(found, list(self.others)))
            kept = {at: self.others[int(found[at])] for at in known.tolist()}
        return Calls(
            rows=self.rows[found],
            keys=self.keys[found],
            prompts=self.prompts[found],
            completions=self.completions[found],
            costs=self.costs[found],
            others=kept,
        )

    def of_rows(self, rows: Indices) -> "Calls":
        """Those of some rows, which ascend as those of the calls do."""
        starts, ends = (np.searchsorted(self.rows, rows, side=side) for side in ("left", "right"))
        counts = ends - starts
        inside = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.at(np.repeat(starts, counts) + inside)

    @property
    def once(self) -> "Calls":
        """Each call once."""
        return self.at(last_of_each(self.keys))

    @property
    def redrawn(self) -> int:
        """How many replies without an answer were asked for again; of calls that are here once."""
        parts = [part for usage in self.others.values() for part in usage.superseded or ()]
        return sum(part.reason is not None and part.reason not in NO_REPLY for part in parts)

    def dollars(self) -> float | None:
        """What they cost, of calls that are here once; None where that is unknown."""
        used = [*self.others.values(), *self._replaced]
        told = _Sum.of(self.costs, [usage.cost_usd for usage in self._replaced])
        is_lost = told.is_lacking or any(usage.unanswered for usage in used)
        return None if is_lost else Usage(cost_usd=told.told).cost_usd

    def cost(self, is_unpaid: Bools) -> Cost:
        """Their tokens and US dollars, of calls that are here once.

        A sum is None where a call does not report it. Those that are unpaid cost nothing; where
        all are, the cost is None.
        """
        paid, replaced = self.at(~is_unpaid), self._replaced
        prompts = _Sum.of(self.prompts, [usage.prompt_tokens for usage in replaced])
        completions = _Sum.of(self.completions, [usage.completion_tokens for usage in replaced])
        costs = _Sum.of(paid.costs, [usage.cost_usd for usage in paid._replaced])
        known = Usage(prompts.whole, completions.whole, costs.told)
        unanswered, lost = self._unanswered, paid._unanswered
        return Cost(
            calls=len(self) + len(replaced),
            prompt_tokens=None if unanswered or prompts.is_lacking else known.prompt_tokens,
            completion_tokens=None
            if unanswered or completions.is_lacking
            else known.completion_tokens,
            cost_usd=None if lost or costs.is_lacking else known.cost_usd,
            told=known,
            unanswered=unanswered,
        )

    @property
    def _replaced(self) -> list[Usage]:
        return [part.usage for usage in self.others.values() for part in usage.superseded or ()]

    @property
    def _unanswered(self) -> int:
        return sum(usage.unanswered or 0 for usage in [*self.others.values(), *self._replaced])


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum of what is known; None where nothing is."""

    told: float | None
    is_lacking: bool

    @property
    def whole(self) -> int | None:
        """The sum as a whole number."""
        return None if self.told is None else int(self.told)

    @classmethod
    def of(cls, column: _Tokens | Floats, more: Sequence[float | None]) -> "_Sum":
        is_known = column >= 0  # NaN is not
        known = [part for part in more if part is not None]
        is_lacking = not is_known.all() or len(known) < len(more)
        if not is_known.any() and not known:
            return cls(None, is_lacking)
        parts = [*column[is_known].tolist(), *known]
        return cls(fsum(parts) if column.dtype == np.float64 else sum(parts), is_lacking)


def joined(parts: Sequence[Calls]) -> Calls:
    """The calls of several columns, those of the last counting where keys are alike."""
    others, start = dict[int, Usage](), 0
    for part in parts:
        others |= {start + at: usage for at, usage in part.others.items()}
        start += len(part)
    return Calls(
        np.concatenate([np.zeros(0, np.int32), *(part.rows for part in parts)]),
        np.concatenate([np.zeros((0, 2), np.uint64), *(part.keys for part in parts)]),
        np.concatenate([np.zeros(0, np.int64), *(part.prompts for part in parts)]),
        np.concatenate([np.zeros(0, np.int64), *(part.completions for part in parts)]),
        np.concatenate([np.zeros(0), *(part.costs for part in parts)]),
        others,
    )


class CallColumns:
    """Calls that are added by and by."""

    def __init__(self) -> None:
        """Hold none yet."""
        self._rows, self._keys = Grown(np.int32), Keys()
        self._prompts, self._completions = Grown(np.int64), Grown(np.int64)
        self._costs, self._others = Grown(np.float64), dict[int, Usage]()

    def add(self, rows: Sequence[int], keys: Sequence[str], usages: Sequence[Usage]) -> None:
        """Add some calls: the row behind which each stands, its key, and what it was charged."""
        count, start = len(keys), len(self._keys)
        self._rows.add(rows, count)
        self._keys.add(keys)
        self._prompts.add(_known([usage.prompt_tokens for usage in usages]), count)
        self._completions.add(_known([usage.completion_tokens for usage in usages]), count)
        costs = (np.nan if u.cost_usd is None else u.cost_usd for u in usages)
        self._costs.add(costs, count)
        for at, usage in enumerate(usages):
            if usage.superseded or usage.unanswered:
                self._others[start + at] = usage

    @property
    def calls(self) -> Calls:
        """All of them."""
        columns = (self._prompts.array, self._completions.array, self._costs.array)
        return Calls(self._rows.array, self._keys.array, *columns, self._others)


def _known(counts: Sequence[int | None]) -> Iterator[int]:
    return (_UNKNOWN if count is None else count for count in counts)


class RunCalls:
    """The calls behind records that are added by and by: for answers, and of each judge."""

    def __init__(self) -> None:
        """Hold none yet."""
        self._answers, self._replies = CallColumns(), dict[str, CallColumns]()
        self._steps, self._ordinals = Kinds[tuple[str, ...]](), Grown(np.int16)
        self._unbatched = dict[str, float]()

    def add(self, start: int, records: Sequence[SampleRecord]) -> None:
        """Add those of some records, the first of which has this number."""
        self._steps.add([tuple(step.step for step in record.steps) for record in records])
        asked = [
            (start + at, ordinal, step)
            for at, record in enumerate(records)
            for ordinal, step in enumerate(record.steps)
        ]
        self._ordinals.add((ordinal for _, ordinal, _ in asked), len(asked))
        steps = [step for _, _, step in asked]
        self._unbatched |= {s.key: s.detail[UNBATCHED] for s in steps if UNBATCHED in s.detail}
        self._answers.add(
            [row for row, _, _ in asked], [s.key for s in steps], [s.usage for s in steps]
        )
        for name in dict.fromkeys(name for record in records for name in record.verdicts):
            self._add_replies(name, start, records)

    def _add_replies(self, judge: str, start: int, records: Sequence[SampleRecord]) -> None:
        found = [
            (start + at, key, usage)
            for at, record in enumerate(records)
            if (verdict := record.verdicts.get(judge)) and verdict.keys
            # The usage is unknown where an older record has none.
            for key, usage in zip(
                verdict.keys, verdict.usages or (Usage(),) * len(verdict.keys), strict=True
            )
        ]
        if found:
            columns = self._replies.setdefault(judge, CallColumns())
            columns.add(*([one[at] for one in found] for at in range(3)))  # type: ignore[arg-type]

    def answers(self, step: str | None = None) -> Calls:
        """The calls behind answers, or behind the earlier step that a judge reads."""
        calls = self._answers.calls
        ends = [names.index(step) if step in names else len(names) for names in self._steps.kinds]
        if step is None or not ends:
            return calls
        last = np.array(ends)[self._steps.codes[calls.rows]]
        return calls.at(self._ordinals.array <= last)

    def replies(self, judge: str) -> Calls:
        """The calls of one judge."""
        return self._replies.get(judge, CallColumns()).calls

    @property
    def unbatched_check(self) -> UnbatchedCheck | UnsetType:
        """How far choices are from those that were also scored one by one; UNSET for none."""
        apart = self._unbatched.values()
        return UnbatchedCheck(len(apart), max(apart)) if apart else UNSET

    @property
    def redrawn(self) -> int:
        """How many replies without an answer were asked for again."""
        parts = [self._answers.calls, *(column.calls for column in self._replies.values())]
        return joined(parts).once.redrawn if any(part.others for part in parts) else 0

    def costs(self, judges: Sequence[JudgeEntry], model: str = "") -> Costs:
        """What they cost: all, those for answers, and those of each judge that asks.

        `model` is the identity of the model under test.
        """
        answers = self.answers().once
        asked = {e.name: self.replies(e.name).once for e in judges if e.asks is not None}
        sides = [
            (answers, model),
            *((asked[e.name], e.identity) for e in judges if e.name in asked),
        ]
        free = joined([calls for calls, identity in sides if is_unpaid(identity)]).keys
        return Costs(
            total=_cost(joined([answers, *asked.values()]).once, free),
            answers=_cost(answers, free),
            judges={name: _cost(calls, free) for name, calls in asked.items()},
        )


def _cost(calls: Calls, free: NDArray[np.uint64]) -> Cost:
    return calls.cost(among(calls.keys, free))


def is_unpaid(identity: str | None) -> bool:
    """Whether nobody pays a model of this identity by the call."""
    return re.split("[:@|]", identity or "", maxsplit=1)[0] in UNPAID


@dataclass(frozen=True, slots=True)
class ChargedCalls:
    """The calls behind one judge's readings that somebody pays for."""

    answers: Calls
    replies: Calls

    @classmethod
    def of(cls, calls: RunCalls, judge: JudgeEntry, model: str) -> "ChargedCalls":
        """Those of a judge; `model` is the identity of the model under test."""
        answers, replies = calls.answers(judge.step), calls.replies(judge.name)
        sides = ((answers, model), (replies, judge.identity))
        free = joined([side for side, identity in sides if is_unpaid(identity)]).keys
        return cls(*(side.at(~among(side.keys, free)) for side, _ in sides))

    def dollars(self, rows: Indices) -> float | None:
        """What those of some records cost, each once; None where that is unknown, or nothing is."""
        found = joined([self.answers.of_rows(rows), self.replies.of_rows(rows)])
        return found.once.dollars() if len(found) else None
