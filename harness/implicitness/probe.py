"""Probe sentences that ship to which kinds of implicitness a scorer separates from plain text.

A set has eleven sentences about one topic in one register, matched in length: three plain kinds,
which say just what they say, and eight implicit ones. Nobody may train on them. Scores in, figures
out; nothing here writes a file.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Final, Literal, Protocol, cast, get_args

import msgspec
import numpy as np

from harness.errors import SpecError
from harness.implicitness.scorer import Head, Scored, embedded_texts
from harness.models.encoders.encoders import Encoder
from harness.models.vectors import Progress
from harness.stats.classification import PUBLISHED_EDGES, auc
from harness.stats.estimate import Clusters, Estimate, mean_interval
from harness.storage.cells import decode_json
from harness.text.dedup import fingerprint

Figure = Literal["auc", "mean", "share"]
By = Literal["register", "writer"]
PLAIN: Final = ("statement", "request", "evaluation")
IMPLICIT: Final = (
    *("indirectness", "irony", "implicature_answer", "understatement"),
    *("metaphor", "euphemism", "presupposition", "rhetorical_question"),
)
ALL: Final = "all"
ALL_PLAIN, ALL_IMPLICIT = "all plain", "all implicit"
WEAK: Final = 0.7
"""An AUC whose interval begins below it is weak: the scorer does not surely know that kind."""
EDGES: Final = PUBLISHED_EDGES[1:-1]
"""The inner edges of the published bins."""
UPPER: Final = 1.0
"""The middle of the published scale, from which on plain text has no place."""
LEAST_SHARE: Final = 0.005
PLAIN_MEAN, IMPLICIT_MEAN = "probe plain mean", "probe implicit mean"
_FILE: Final = Path(__file__).parent / "data/probes.jsonl"


class _Set(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic: str
    register: str
    writer: str
    statement: str
    request: str
    evaluation: str
    indirectness: str
    irony: str
    implicature_answer: str
    understatement: str
    metaphor: str
    euphemism: str
    presupposition: str
    rhetorical_question: str


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe sentence, of a set whose name is its cluster."""

    cluster: str
    topic: str
    register: str
    writer: str
    kind: str
    text: str

    @property
    def is_plain(self) -> bool:
        """Whether it says just what it says."""
        return self.kind in PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFigure:
    """One figure of a scorer on the probes, with its 95 % interval over sets.

    `auc` is the chance that a sentence of `kind` scores above one of `against`, 0 to 1, ties half;
    `mean` the mean implicitness of a kind, 0 to 2 where the scorer's distance is cosine; `share`
    the share of a kind that scores `at_least` or more, 0 to 1. `part` is `all`, or a register or
    writer. Bounds are None without an interval; `n` counts sentences (of both kinds), `sets` sets.
    `is_weak` marks an AUC whose interval (without one: whose value) begins below WEAK.
    """

    figure: Figure
    part: str
    kind: str
    against: str | None = None
    at_least: float | None = None
    value: float | None
    low: float | None
    high: float | None
    n: int
    sets: int
    is_weak: bool = False
    scorer: str = ""


@cache
def probes() -> tuple[Probe, ...]:
    """All probe sentences, set by set."""
    found: list[Probe] = []
    for place, line in enumerate(_FILE.read_bytes().splitlines(), 1):
        row: _Set = decode_json(line, _Set)
        found += [
            Probe(f"{place}", row.topic, row.register, row.writer, kind, getattr(row, kind))
            for kind in (*PLAIN, *IMPLICIT)
        ]
    return tuple(found)


def probe_texts() -> list[str]:
    """The probe sentences, in the order in which `probe_figures` takes their scores."""
    return [probe.text for probe in probes()]


def shared_with_probes(texts: Sequence[str]) -> list[str]:
    """The texts that have the words of a probe sentence, each once: nobody may train on them."""
    known = set(map(fingerprint, probe_texts()))
    return [text for text in dict.fromkeys(texts) if fingerprint(text) in known]


@dataclass(frozen=True, slots=True)
class _Part:
    """Some probes and their scores."""

    name: str
    probes: Sequence[Probe]
    scores: Sequence[float]

    def of(self, kinds: Sequence[str]) -> tuple[list[float], list[str]]:
        """The scores of some kinds, and the cluster of each."""
        rows = zip(self.probes, self.scores, strict=True)
        kept = [(score, probe.cluster) for probe, score in rows if probe.kind in kinds]
        return [score for score, _ in kept], [cluster for _, cluster in kept]


def probe_figures(
    scores: Sequence[float], *, by: By | None = None, scorer: str = ""
) -> list[ProbeFigure]:
    """All figures of some scores of `probe_texts()`, in that order; by register or writer too.

    AUC: each implicit kind, and all of them, over each plain kind and all of them; then the mean of
    each kind, and its share from each inner edge of the published bins on. `scorer` names the
    scorer in each row. ValueError for a wrong number of scores, and for one that is not finite.
    """
    known = probes()
    if len(scores) != len(known):
        raise ValueError(f"{len(scores)} scores for {len(known)} probe sentences")
    names = [ALL if by is None else getattr(probe, by) for probe in known]
    parts = [_Part(ALL, known, scores)]
    for name in dict.fromkeys(names) if by else ():
        kept = [place for place, one in enumerate(names) if one == name]
        parts.append(_Part(name, [known[at] for at in kept], [scores[at] for at in kept]))
    return [row for part in parts for row in _of_part(part, scorer)]


def _of_part(part: _Part, scorer: str) -> Iterator[ProbeFigure]:
    plain, implicit = (
        (*_own(PLAIN), (ALL_PLAIN, PLAIN)),
        (*_own(IMPLICIT), (ALL_IMPLICIT, IMPLICIT)),
    )
    row = partial(_row, part.name, scorer)
    for kind, kinds in implicit:
        for against, others in plain:
            yield replace(row("auc", kind, _auc(part, kinds, others)), against=against)
    for kind, kinds in (*plain, *implicit):
        yield row("mean", kind, mean_interval(*part.of(kinds), is_share=False))
    for kind, kinds in (*plain, *implicit):
        values, clusters = part.of(kinds)
        for edge in EDGES:
            reached = [float(value >= edge) for value in values]
            found = mean_interval(reached, clusters, is_share=True)
            yield replace(row("share", kind, found), at_least=edge)


def _own(kinds: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    return [(kind, (kind,)) for kind in kinds]


def _auc(part: _Part, kinds: Sequence[str], others: Sequence[str]) -> Estimate:
    above, below = part.of(kinds), part.of(others)
    truth = [True] * len(above[0]) + [False] * len(below[0])
    return auc(np.array(above[0] + below[0]), truth, Clusters.named(above[1] + below[1]))


def _row(part: str, scorer: str, figure: Figure, kind: str, found: Estimate) -> ProbeFigure:
    least = found.value if found.low is None else found.low
    return ProbeFigure(
        figure=figure,
        part=part,
        kind=kind,
        value=found.value,
        low=found.low,
        high=found.high,
        n=found.n,
        sets=found.clusters,
        is_weak=figure == "auc" and least is not None and least < WEAK,
        scorer=scorer,
    )


def card_figures(scores: Sequence[float]) -> dict[str, float | None]:
    """The figures of some scores of `probe_texts()`, in that order, for the card of a head.

    `probe sets`; `probe auc` of all implicit kinds over all plain ones, and `probe auc KIND` of one
    implicit kind; `probe weak`, how many of the kinds are weak against some plain kind; `probe
    plain mean` and `probe implicit mean`; and `probe plain above EDGE`, the share of plain probes
    that score EDGE or more.
    """
    rows = probe_figures(scores)
    found: dict[str, float | None] = {"probe sets": rows[0].sets}
    for row in rows:
        if row.figure == "auc" and row.against == ALL_PLAIN:
            of = "" if row.kind == ALL_IMPLICIT else f" {words(row.kind)}"
            found[f"probe auc{of}"] = row.value
    found["probe weak"] = len({row.kind for row in rows if row.is_weak} - {ALL_IMPLICIT})
    for row in (one for one in rows if one.figure == "mean"):
        if row.kind in (ALL_PLAIN, ALL_IMPLICIT):
            found[PLAIN_MEAN if row.kind == ALL_PLAIN else IMPLICIT_MEAN] = row.value
    for row in rows:
        if row.figure == "share" and row.kind == ALL_PLAIN and row.at_least is not None:
            found[share_key(row.at_least)] = row.value
    return found


def share_key(edge: float) -> str:
    """The key, on a card, of the share of plain probes that score `edge` or more."""
    return f"probe plain above {edge:g}"


def words(kind: str) -> str:
    """The name of a kind in words."""
    return kind.replace("_", " ")


def scale_line(metrics: Mapping[str, float | None]) -> str:
    """How to read single scores of a head: by the means of the probes on its card."""
    plain, implicit = metrics.get(PLAIN_MEAN), metrics.get(IMPLICIT_MEAN)
    means = ""
    if plain is not None and implicit is not None:
        means = (
            f"; plain probe sentences score {plain:.2f} on average, implicit ones {implicit:.2f}"
        )
    return f"0 says just what it means{means}; compare groups of texts, not single sentences"


def plain_line(metrics: Mapping[str, float | None], bins: Collection[float]) -> str:
    """Say which share of plain probes reaches the reported bins of the upper half, in one line.

    `metrics` are those of a head's card, `bins` where the reported bins begin. Empty where no bin
    of the upper half is reported or reached by 1 in 200, and where the card has no such figure.
    """
    found = [(edge, metrics.get(share_key(edge))) for edge in EDGES if edge >= UPPER]
    shares = [(edge, share) for edge, share in found if share is not None and edge in bins]
    reached = [(edge, share) for edge, share in shares if share >= LEAST_SHARE]
    if not reached:
        return ""
    (edge, share), *rest = reached
    more = "".join(f", {part:.0%} those from {at:g} on" for at, part in rest)
    return (
        f"{share:.0%} of plain probe sentences reach the bins from {edge:g} on{more}: these bins "
        "hold plain texts too (harness impscore probe)"
    )


def parts_of(by: str | None) -> By | None:
    """By what figures are split, of a user's word for it; None or an empty one: by nothing."""
    for known in get_args(By):
        if by == known:
            return cast(By, known)  # get_args has no types
    if by:
        raise SpecError(f"by {by!r}: give {' or '.join(get_args(By))}")
    return None


class _Scores(Protocol):
    def score(self, texts: Sequence[object]) -> Sequence[Scored]: ...


def scores_of(scorer: _Scores) -> list[float]:
    """Score the probe sentences, in their order, for `probe_figures`."""
    return [one.value for one in scorer.score(probe_texts()) if one.value is not None]


def head_figures(head: Head, encoder: Encoder, progress: Progress) -> dict[str, float | None]:
    """Score the probes by a head over its encoder: the figures for its card."""
    embedded = embedded_texts(probe_texts(), encoder, progress, stage="probes")
    scores = head.implicitness(embedded.vectors)
    return card_figures([float(scores[embedded.places[text]]) for text in probe_texts()])
