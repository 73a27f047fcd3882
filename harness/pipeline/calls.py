"""The calls behind a run as one frame, and what they cost: each once, however many share it.

What is unknown is never zero. Of calls with one key the last counts, with the earlier calls that it
replaced.

A row is a call of an answer or of a judge: `row`, the place of the answer; `judge`, "" for calls of
the answer itself; `step`; `key`, a hash of 64 bits; `part`, 0, or from 1 for calls replaced;
`prompt_tokens`, `completion_tokens` and `cost_usd`, NaN where unknown; `unanswered`, how many calls
broke off before; `is_redrawn`, whether it was a reply without an answer that was asked for again.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from math import fsum
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.lazy import ArrowTable, DataFrame, Series, compute, pandas
from harness.parts import NO_REPLY, Usage
from harness.pipeline.verdict_frame import Files
from harness.storage.read_tables import arrow_table, opened, step_usages, trusted
from harness.storage.runs import Cost, Costs, JudgeEntry, RunFile

UNPAID = frozenset({"scripted", "transformers", "vllm", "sklearn", "classifier"})
"""The kinds of models that nobody pays by the call: controls, and checkpoints on this machine."""
_COUNTS = ("prompt_tokens", "completion_tokens", "cost_usd")
_CHARGED = ["row", "key", "part", "cost_usd", "unanswered"]
_KINDS: dict[str, Any] = {
    **{"row": "int32", "judge": object, "step": object, "key": object, "part": "int32"},
    **dict.fromkeys(_COUNTS, "float64"),
    **{"unanswered": "int32", "is_redrawn": bool},
}


def call_frame(files: Files) -> DataFrame:
    """The calls of a run, those of answers first, in the order of the plan."""
    with trusted(files["answers"]):
        return pandas.concat([*_answer_calls(files), _judge_calls(files)], ignore_index=True)


def _answer_calls(files: Files) -> Iterator[DataFrame]:
    first = 0
    with opened(files["answers"]) as file:
        # All keys as texts would take more room than everything else.
        for place in range(file.num_row_groups):
            table = file.read_row_group(place, ["step", "key", *_COUNTS, "earlier", "more"])
            yield _calls_of(table, first)
            first += len(table)


def _calls_of(table: ArrowTable, first: int) -> DataFrame:
    """The calls of some answers; `first` is the row of the first."""
    rows, zeros = np.arange(first, first + len(table), dtype=np.int32), np.zeros(len(table))
    step, key, *counts = (table.column(name).to_numpy() for name in ("step", "key", *_COUNTS))
    frame = _framed((rows, np.full(len(table), ""), step, key, zeros, *counts, zeros, zeros))
    is_odd = compute.or_(table.column("earlier").is_valid(), table.column("more").is_valid())
    places = np.flatnonzero(is_odd.to_numpy())
    if not len(places):
        return frame
    columns = (column.to_pylist() for column in table.take(places).columns)
    parsed = (
        (row, "", step, key, *cells)
        for row, *own in zip(rows[places].tolist(), *columns, strict=True)
        for step, key, usage, _ in step_usages(own)
        for cells in _parts(usage)
    )
    rest = frame[~is_odd.to_numpy()]
    whole = pandas.concat([rest, _framed(zip(*parsed, strict=True))], ignore_index=True)
    return whole.sort_values("row", kind="stable", ignore_index=True)


def _judge_calls(files: Files) -> DataFrame:
    table = arrow_table(files["verdicts"], ["row", "judge", "keys", "usages"], dictionary=["judge"])
    table = table.filter(table.column("keys").is_valid())
    decoder = msgspec.json.Decoder(tuple[Usage, ...])
    columns = (table.column(name).to_pylist() for name in table.column_names)
    calls = (
        (row, judge, "", key, *cells)
        for row, judge, keys, usages in zip(*columns, strict=True)
        # The usage is unknown if none was stored.
        for key, usage in zip(
            keys, decoder.decode(usages) if usages else (Usage(),) * len(keys), strict=True
        )
        for cells in _parts(usage)
    )
    return _framed(tuple(zip(*calls, strict=True)) or ((),) * len(_KINDS))


def _parts(usage: Usage) -> Iterator[tuple[object, ...]]:
    """The cells of a call, and of each that it replaced."""
    reasons = [None, *(part.reason for part in usage.superseded or ())]
    for part, (one, why) in enumerate(zip(usage.with_superseded, reasons, strict=True)):
        counts = (getattr(one, name) for name in _COUNTS)
        yield part, *counts, one.unanswered or 0, why is not None and why not in NO_REPLY


def _framed(columns: Iterable[Any]) -> DataFrame:
    """A frame of these columns, each of its own kind, with the keys as numbers."""
    kinds = zip(_KINDS.items(), columns, strict=True)
    series = {name: pandas.Series(column, dtype=kind) for (name, kind), column in kinds}
    series["key"] = pandas.Series(pandas.util.hash_array(series["key"].to_numpy()))
    return pandas.DataFrame(series, copy=False)


def _once(calls: DataFrame) -> DataFrame:
    """Each call once: the last one of each key."""
    return calls.drop_duplicates(["key", "part"], keep="last")


def is_unpaid(identity: str | None) -> bool:
    """Whether nobody pays a model of this identity by the call."""
    return re.split("[:@|]", identity or "", maxsplit=1)[0] in UNPAID


def unpaid_parts(file: RunFile) -> list[str]:
    """The parts of a run that nobody pays by the call, or that this machine serves."""
    models = {"answers": file.model.identity}
    models |= {f"judge {one.name}": one.identity or "" for one in file.judges if one.asks}
    return [
        name
        for name, identity in models.items()
        if is_unpaid(identity) or (identity.startswith("openai|") and "|host=" not in identity)
    ]


def charged(calls: DataFrame, run: RunFile) -> dict[str, DataFrame]:
    """The calls behind each judge's verdicts that somebody pays for.

    A judge of an earlier step has no part in the calls after it.
    """
    return {judge.name: _charged(calls, run, judge) for judge in run.judges}


def _charged(calls: DataFrame, run: RunFile, judge: JudgeEntry) -> DataFrame:
    keys, is_own, is_reply = calls["key"], calls["judge"] == "", calls["judge"] == judge.name
    own = calls.loc[is_own, ["row", "step"]]
    if (is_read := own["step"] == judge.step).any():
        at = own.groupby("row", sort=False).cumcount()
        last = own["row"].map(at[is_read].groupby(own["row"][is_read]).max())
        is_own[own.index] = at <= last.fillna(np.inf)
    free = _free([(keys[is_own], run.model.identity), (keys[is_reply], judge.identity)])
    return calls.loc[(is_own | is_reply) & ~keys.isin(free), _CHARGED]


def dollars(calls: DataFrame, verdicts: DataFrame) -> float | None:
    """What the calls behind some verdicts cost, each once; None if unknown or without a call."""
    found = _once(calls[calls["row"].isin(verdicts.loc[verdicts["is_own"], "row"])])
    known, is_whole = _sum(found, "cost_usd")
    return Usage(cost_usd=known).cost_usd if is_whole else None


def redrawn(calls: DataFrame) -> int:
    """How many replies without an answer were asked for again."""
    return int(_once(calls[calls["part"] > 0])["is_redrawn"].sum())


def costs(calls: DataFrame, run: RunFile) -> Costs:
    """What they cost: all, those for answers, and those of each judge that asks."""
    answers = _once(calls[calls["judge"] == ""])
    asking = {judge.name: judge.identity for judge in run.judges if judge.asks is not None}
    asked = {name: _once(calls[calls["judge"] == name]) for name in asking}
    paid_by = [(side["key"], asking[name]) for name, side in asked.items()]
    free = _free([(answers["key"], run.model.identity), *paid_by])
    return Costs(
        total=_cost(_once(pandas.concat([answers, *asked.values()], ignore_index=True)), free),
        answers=_cost(answers, free),
        judges={name: _cost(side, free) for name, side in asked.items()},
    )


def _free(sides: Sequence[tuple["Series[Any]", str | None]]) -> NDArray[np.uint64]:
    """The keys of the calls that nobody pays for; each side has the identity of who answered."""
    found = [keys.to_numpy() for keys, identity in sides if is_unpaid(identity)]
    return np.concatenate([np.zeros(0, np.uint64), *found])


def _cost(calls: DataFrame, free: NDArray[np.uint64]) -> Cost:
    """The tokens and US dollars of calls that are here once; of free ones alone no dollars."""
    prompts, completions = _sum(calls, _COUNTS[0]), _sum(calls, _COUNTS[1])
    spent = _sum(calls[~calls["key"].isin(free)], "cost_usd")
    counts = [None if known is None else int(known) for known, _ in (prompts, completions)]
    known = Usage(counts[0], counts[1], spent[0])
    return Cost(
        calls=len(calls),
        prompt_tokens=known.prompt_tokens if prompts[1] else None,
        completion_tokens=known.completion_tokens if completions[1] else None,
        cost_usd=known.cost_usd if spent[1] else None,
        reported=known,
        unanswered=int(calls["unanswered"].sum()),
    )


def _sum(calls: DataFrame, name: str) -> tuple[float | None, bool]:
    """The sum of what is known, None if nothing is, and whether all is known."""
    values = calls[name].to_numpy(float)
    known = values[values >= 0].tolist()  # NaN is not
    is_whole = len(known) == len(values) and not calls["unanswered"].any()
    return fsum(known) if known else None, is_whole
