"""The calls behind a run as one frame, and what they cost: each once, however many share it.

What is unknown is never zero. Of calls with one key the last counts, with the earlier calls that it
replaced. Asks nothing.

A row is a call of an answer or of a judge: `row`, the place of the answer; `judge`, "" for calls of
the answer itself; `step`; `key`, a hash of 64 bits; `prompt_tokens`, `completion_tokens` and
`cost_usd`, NaN where unknown; `usage`, the whole usage of those few that replaced others or were
interrupted before, else None.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from math import fsum
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.lazy import DataFrame, Series, pandas
from harness.parts import NO_REPLY, Usage
from harness.pipeline.verdict_frame import Files
from harness.stats.estimate import Bools
from harness.storage.read_tables import arrow_table, step_usages
from harness.storage.runs import Cost, Costs, JudgeEntry, RunFile

UNPAID = frozenset({"scripted", "transformers", "vllm", "sklearn", "classifier"})
"""The kinds of models that nobody pays by the call: controls, and checkpoints on this machine."""
_NO_KEYS = np.zeros(0, np.uint64)
_COUNTS = ("prompt_tokens", "completion_tokens", "cost_usd")
_COLUMNS = ("row", "judge", "step", "key", *_COUNTS, "usage")


def call_frame(files: Files) -> DataFrame:
    """The calls of a run, those of answers first, in the order of the plan."""
    return pandas.concat([_answer_calls(files), _judge_calls(files)], ignore_index=True)


def _answer_calls(files: Files) -> DataFrame:
    from pyarrow import compute

    names = ["step", "key", *_COUNTS, "earlier", "more"]
    table = arrow_table(files["answers"], names, dictionary=["step"])
    frame = table.select(["step", *_COUNTS]).to_pandas()
    frame[list(_COUNTS)] = frame[list(_COUNTS)].astype(float)
    frame["row"] = np.arange(len(frame), dtype=np.int32)
    frame["judge"], frame["usage"] = "", None
    # Chunk by chunk: all keys as texts would take more room than everything else.
    chunks = table.column("key").chunks
    frame["key"] = np.concatenate([_NO_KEYS, *(_hashed(chunk.to_pylist()) for chunk in chunks)])
    odd = compute.or_(table.column("earlier").is_valid(), table.column("more").is_valid())
    places = np.flatnonzero(odd.to_numpy())
    if not len(places):
        return frame[list(_COLUMNS)]
    columns = (column.to_pylist() for column in table.take(places).columns)
    parsed = (
        [row, "", step, key, *_cells(usage)]
        for row, *cells in zip(places.tolist(), *columns, strict=True)
        for step, key, usage, _ in step_usages(cells)
    )
    rest = frame[~odd.to_numpy()][list(_COLUMNS)]
    whole = pandas.concat([rest, _framed(parsed)], ignore_index=True)
    return whole.sort_values("row", kind="stable", ignore_index=True)


def _judge_calls(files: Files) -> DataFrame:
    table = arrow_table(files["verdicts"], ["row", "judge", "keys", "usages"], dictionary=["judge"])
    table = table.filter(table.column("keys").is_valid())
    decoder = msgspec.json.Decoder(tuple[Usage, ...])
    columns = (table.column(name).to_pylist() for name in table.column_names)
    return _framed(
        [row, judge, "", key, *_cells(usage)]
        for row, judge, keys, usages in zip(*columns, strict=True)
        # The usage is unknown if none was stored.
        for key, usage in zip(
            keys, decoder.decode(usages) if usages else (Usage(),) * len(keys), strict=True
        )
    )


def _cells(usage: Usage) -> list[object]:
    known = [getattr(usage, name) for name in _COUNTS]
    return [*known, usage if usage.superseded or usage.unanswered else None]


def _framed(rows: Iterator[list[object]]) -> DataFrame:
    frame = pandas.DataFrame(list(rows), columns=list(_COLUMNS))
    frame["key"] = _hashed(frame["key"])
    kinds = dict.fromkeys(_COUNTS, "float64") | {"row": "int32"}
    return frame.astype(kinds)


def _hashed(keys: Iterable[str]) -> NDArray[np.uint64]:
    return np.asarray(pandas.util.hash_array(np.array(list(keys), dtype=object)))


def once(calls: DataFrame) -> DataFrame:
    """Each call once: the last one of each key."""
    return calls.drop_duplicates("key", keep="last")


def is_unpaid(identity: str | None) -> bool:
    """Whether nobody pays a model of this identity by the call."""
    return re.split("[:@|]", identity or "", maxsplit=1)[0] in UNPAID


def charged(calls: DataFrame, run: RunFile, judge: JudgeEntry) -> DataFrame:
    """The calls behind one judge's verdicts that somebody pays for.

    A judge of an earlier step has no part in the calls after it.
    """
    own, replies = calls[calls["judge"] == ""], calls[calls["judge"] == judge.name]
    if judge.step is not None:
        own = _until(own, judge.step)
    free = _free([(own, run.model.identity), (replies, judge.identity)])
    sides = [side[~side["key"].isin(free)] for side in (own, replies)]
    return pandas.concat(sides, ignore_index=True)


def _until(own: DataFrame, step: str) -> DataFrame:
    """The calls of each answer up to the step that a judge reads; all, without such a step."""
    at = own.groupby("row", sort=False).cumcount()
    last = at[own["step"] == step].set_axis(own["row"][own["step"] == step])
    return own[at.to_numpy() <= own["row"].map(last).fillna(np.inf).to_numpy()]


def dollars(calls: DataFrame, verdicts: DataFrame) -> float | None:
    """What the calls behind some verdicts cost, each once; None if unknown or without a call."""
    rows = verdicts["row"].to_numpy()[verdicts["is_own"].to_numpy()]
    used = np.zeros(int(calls["row"].max()) + 1 if len(calls) else 0, dtype=bool)
    used[rows[rows < len(used)]] = True
    found = once(calls[used[calls["row"]]])
    if found.empty:
        return None
    whole = _usages(found)
    is_lost = any(usage.unanswered for usage in whole)
    known, is_partial = _sum(found["cost_usd"], [u.cost_usd for u in _replaced(whole)])
    return None if is_lost or is_partial else Usage(cost_usd=known).cost_usd


def redrawn(calls: DataFrame) -> int:
    """How many replies without an answer were asked for again."""
    odd = _usages(once(calls)) if calls["usage"].notna().any() else []
    parts = [part for usage in odd for part in usage.superseded or ()]
    return sum(part.reason is not None and part.reason not in NO_REPLY for part in parts)


def costs(calls: DataFrame, run: RunFile) -> Costs:
    """What they cost: all, those for answers, and those of each judge that asks."""
    answers = once(calls[calls["judge"] == ""])
    asked = {
        judge.name: once(calls[calls["judge"] == judge.name])
        for judge in run.judges
        if judge.asks is not None
    }
    identities = {judge.name: judge.identity for judge in run.judges}
    paid_by = [(side, identities[name]) for name, side in asked.items()]
    free = _free([(answers, run.model.identity), *paid_by])
    return Costs(
        total=_cost(once(pandas.concat([answers, *asked.values()], ignore_index=True)), free),
        answers=_cost(answers, free),
        judges={name: _cost(side, free) for name, side in asked.items()},
    )


def _free(sides: Sequence[tuple[DataFrame, str | None]]) -> NDArray[np.uint64]:
    """The keys of the calls that nobody pays for; each side has the identity of who answered."""
    found = [side["key"].to_numpy() for side, identity in sides if is_unpaid(identity)]
    return np.concatenate([_NO_KEYS, *found])


def _cost(calls: DataFrame, free: NDArray[np.uint64]) -> Cost:
    """The tokens and US dollars of calls that are here once.

    A sum is None where a call does not report it. Those that are free cost nothing; where all are,
    the cost is None.
    """
    is_paid = np.asarray(~calls["key"].isin(free), bool)
    whole, paid = _usages(calls), _usages(calls[is_paid])
    replaced = _replaced(whole)
    prompts, completions = (
        _sum(calls[name], [getattr(u, name) for u in replaced]) for name in _COUNTS[:2]
    )
    spent = _sum(calls["cost_usd"][is_paid], [u.cost_usd for u in _replaced(paid)])
    counts = [None if known is None else int(known) for known, _ in (prompts, completions)]
    known = Usage(counts[0], counts[1], spent[0])
    unanswered, lost = _unanswered(whole), _unanswered(paid)
    return Cost(
        calls=len(calls) + len(replaced),
        prompt_tokens=None if unanswered or prompts[1] else known.prompt_tokens,
        completion_tokens=None if unanswered or completions[1] else known.completion_tokens,
        cost_usd=None if lost or spent[1] else known.cost_usd,
        reported=known,
        unanswered=unanswered,
    )


def _usages(calls: DataFrame) -> list[Usage]:
    found: list[Usage] = calls["usage"].dropna().tolist()
    return found


def _replaced(usages: Sequence[Usage]) -> list[Usage]:
    return [part.usage for usage in usages for part in usage.superseded or ()]


def _unanswered(usages: Sequence[Usage]) -> int:
    return sum(usage.unanswered or 0 for usage in [*usages, *_replaced(usages)])


def _sum(column: "Series[Any]", more: Sequence[float | None]) -> tuple[float | None, bool]:
    """The sum of what is known, None if nothing is, and whether anything is unknown."""
    values = column.to_numpy(float)
    is_known: Bools = values >= 0  # NaN is not
    known = [*values[is_known].tolist(), *(part for part in more if part is not None)]
    return fsum(known) if known else None, len(known) < len(values) + len(more)
