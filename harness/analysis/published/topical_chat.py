"""Topical-Chat: people's ratings and a judge's stored replies to their correlations.

The score of a reply is its first digit, as in the scripts of Chiang and Lee.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import nan
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from harness.analysis.verify import FromFiles
from harness.errors import DataError
from harness.parts import Reason
from harness.stats.correlation import dataset_pearson, document_tau
from harness.stats.estimate import Floats, mean
from harness.storage.tables import read_text
from harness.text.parsers import first_digit

PEOPLE = "topical_chat.json"
_LOW, _HIGH = 1, 3  # of naturalness and coherence, the attributes with published cells here


class _Reply(msgspec.Struct):
    source: str
    system_id: str
    system_output: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.source, self.system_id, self.system_output


class _Rated(_Reply):
    scores: dict[str, float]


class _Judged(_Reply):
    all_responses: list[str]


_R = TypeVar("_R", _Rated, _Judged)


def correlations(folder: Path, *, attribute: str, replies: str) -> Mapping[str, float | None]:
    """Pearson's r of all cells and the mean tau-b of the conversations (their two methods)."""
    rated = _items(folder / PEOPLE, _Rated)
    judged = _items(folder / replies, _Judged)
    people, judge = _tables(rated, judged, attribute=attribute, where=folder / replies)
    r, tau = dataset_pearson(people, judge), document_tau(people, judge)
    return {"pearson": r.value, "tau_b": tau.value, "replies": r.n}


def _items(path: Path, kind: type[_R]) -> list[_R]:
    try:
        return msgspec.json.decode(read_text(path), type=list[kind])  # type: ignore[valid-type]  # known when it runs
    except msgspec.DecodeError as error:
        raise DataError(f"{path}: not the released layout: {error}; fetch it again") from error


def _tables(
    rated: Sequence[_Rated], judged: Sequence[_Judged], *, attribute: str, where: Path
) -> tuple[Floats, Floats]:
    """Both sides' ratings as conversations x systems; NaN where no reply has a score."""
    documents, systems = _order(p.source for p in rated), _order(p.system_id for p in rated)
    people = np.full((len(documents), len(systems)), nan)
    judge = people.copy()
    cells = {one.key: (documents[one.source], systems[one.system_id]) for one in rated}
    for one in rated:
        people[cells[one.key]] = one.scores.get(attribute, nan)
    for other in judged:
        if other.key not in cells:
            raise DataError(f"{where}: a reply that {PEOPLE} does not hold; fetch both again")
        judge[cells[other.key]] = _mean(other.all_responses)
    return people, judge


def _order(names: Iterable[str]) -> Mapping[str, int]:
    return {name: place for place, name in enumerate(dict.fromkeys(names))}


def _mean(texts: Sequence[str]) -> float:
    """The mean score of the replies, NaN where none has one."""
    scores = [first_digit(text, low=_LOW, high=_HIGH) for text in texts]
    value = mean([score for score in scores if not isinstance(score, Reason)])
    return nan if value is None else value


def _recomputation(attribute: str, short: str, prompt: str) -> FromFiles:
    replies = f"results/gpt3.5_{short}_{prompt}.json"
    return FromFiles((PEOPLE, replies), partial(correlations, attribute=attribute, replies=replies))


RECOMPUTATIONS = {
    f"topical_chat_{attribute}_{prompt}": _recomputation(attribute, short, prompt)
    for attribute, short in (("naturalness", "nat"), ("coherence", "coh"))
    for prompt in ("geval", "llm_eval_no_cot", "analyze_rate")
}
