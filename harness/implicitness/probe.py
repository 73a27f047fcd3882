"""Probe sentences that ship to which kinds of implicitness a scorer separates from plain text.

A set has eleven sentences about one topic in one register, matched in length: three plain kinds,
which say just what they say, and eight implicit ones. Nobody may train on them.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from harness.errors import DataError
from harness.implicitness.scorer import Head, embedded_texts
from harness.lazy import DataFrame, pandas
from harness.models.encoders.encoders import Encoder
from harness.models.vectors import Progress
from harness.stats.classification import PUBLISHED_EDGES, auc, auc_gap
from harness.stats.estimate import Clusters, Estimate, Floats
from harness.stats.intervals import mean_interval
from harness.storage.cells import decode_json
from harness.storage.frames import records
from harness.text.dedup import fingerprint

PLAIN: Final = ("statement", "request", "evaluation")
IMPLICIT: Final = (
    *("indirectness", "irony", "implicature_answer", "understatement"),
    *("metaphor", "euphemism", "presupposition", "rhetorical_question"),
)
ALL_PLAIN, ALL_IMPLICIT = "all plain", "all implicit"
WEAK: Final = 0.7
"""An AUC whose interval begins below it is weak: the scorer does not surely know that kind."""
EDGES: Final = PUBLISHED_EDGES[1:-1]
"""The inner edges of the published bins."""
COLUMNS: Final = (
    *("figure", "kind", "against", "at_least", "value", "low", "high"),
    *("n", "sets", "is_weak", "scorer"),
)
_KINDS: Final = (
    {kind: (kind,) for kind in PLAIN} | {ALL_PLAIN: PLAIN},
    {kind: (kind,) for kind in IMPLICIT} | {ALL_IMPLICIT: IMPLICIT},
)


@cache
def probes() -> DataFrame:
    """All probe sentences, set by set: cluster (the set), topic, register, writer, kind, text."""
    lines = (Path(__file__).parent / "data/probes.jsonl").read_bytes().splitlines()
    sets = [{"cluster": f"{place}", **decode_json(line)} for place, line in enumerate(lines, 1)]
    own = ["cluster", "topic", "register", "writer"]
    found = pandas.DataFrame(sets).set_index(own)[[*PLAIN, *IMPLICIT]].stack()
    return found.rename_axis([*own, "kind"]).reset_index(name="text")


def probe_texts() -> list[str]:
    """The probe sentences, in the order in which `probe_figures` takes their scores."""
    return [*probes()["text"]]


@cache
def word_scores() -> Floats:
    """How far the words alone speak for an implicit sentence, of each probe: log-odds.

    Of a logistic regression on counts of words and pairs of words (tf-idf), trained on the pairs
    that ship: what a scorer has to beat. docs/generate.py writes the file.
    """
    text = (Path(__file__).parent / "data/probe_words.json").read_bytes()
    return np.array(decode_json(text), dtype=np.float64)


def refuse_probes(texts: Iterable[str], *, where: str) -> None:
    """Raise DataError if texts to train on have the words of a probe sentence."""
    known = set(map(fingerprint, probe_texts()))
    if shared := [text for text in dict.fromkeys(texts) if fingerprint(text) in known]:
        raise DataError(
            f"{where}: {len(shared)} of its sentences are probes, on which no head may be trained, "
            f"such as {shared[0]!r}; leave their pairs out"
        )


def probe_figures(scores: Sequence[float], *, scorer: str = "") -> DataFrame:
    """All figures of some scores of `probe_texts()`, in that order: a row a figure.

    docs/impscore.md has the columns. An AUC is of each implicit kind, and all of them, over each
    plain kind and all; over all also that of `words` alone, and the `gain` over it; a `share` for
    each inner edge of the published bins. Weak is an AUC whose interval begins below WEAK or, over
    all plain kinds, whose gain does not begin above 0.
    """
    known = probes()
    known = known.assign(score=scores, words=word_scores())
    found = pandas.DataFrame(_figures(known)).assign(scorer=scorer)
    least = found["low"].fillna(found["value"])
    beaten = set(found.loc[(found["figure"] == "gain") & (least <= 0), "kind"])
    is_beaten = found["kind"].isin(beaten) & (found["against"] == ALL_PLAIN)
    is_weak = (found["figure"] == "auc") & ((least < WEAK) | is_beaten)
    return found.assign(is_weak=is_weak)[[*COLUMNS]]


def _figures(known: DataFrame) -> Iterator[dict[str, Any]]:
    plain, implicit = (
        {name: known[known["kind"].isin(kinds)] for name, kinds in side.items()} for side in _KINDS
    )
    for kind, above in implicit.items():
        for against, below in plain.items():
            truth = np.arange(len(above) + len(below)) < len(above)
            both = pandas.concat([above, below])
            sides = [both[name].to_numpy(dtype=np.float64) for name in ("score", "words")]
            clusters = Clusters.named([*both["cluster"]])
            found = {"auc": auc(sides[0], truth, clusters)}
            if against == ALL_PLAIN:
                found["words"] = auc(sides[1], truth, clusters)
                found["gain"] = auc_gap(sides[0], sides[1], truth, clusters)
            for figure, one in found.items():
                yield _figure(figure, kind, one) | {"against": against}
    for kind, own in (plain | implicit).items():
        mean = mean_interval([*own["score"]], [*own["cluster"]], is_share=False)
        yield _figure("mean", kind, mean)
    for kind, own in (plain | implicit).items():
        for edge in EDGES:
            reached = [*(own["score"] >= edge).astype(float)]
            share = mean_interval(reached, [*own["cluster"]], is_share=True)
            yield _figure("share", kind, share) | {"at_least": edge}


def _figure(figure: str, kind: str, found: Estimate) -> dict[str, Any]:
    return {
        **{"figure": figure, "kind": kind, "value": found.value},
        **{"low": found.low, "high": found.high, "n": found.n, "sets": found.clusters},
    }


def card_figures(scores: Sequence[float]) -> dict[str, float | None]:
    """The figures of some scores of `probe_texts()`, in that order, for the card of a head."""
    rows = records(probe_figures(scores))
    areas = [row for row in rows if row.figure == "auc"]
    found: dict[str, float | None] = {"probe sets": rows[0].sets}
    for row in (one for one in areas if one.against == ALL_PLAIN):
        of = "" if row.kind == ALL_IMPLICIT else f" {words(row.kind)}"
        found[f"probe auc{of}"] = row.value
    words_alone = {row.kind: row.value for row in rows if row.figure == "words"}
    found["probe auc words"] = words_alone[ALL_IMPLICIT]
    found["probe weak"] = len({row.kind for row in areas if row.is_weak} - {ALL_IMPLICIT})
    means = {row.kind: row.value for row in rows if row.figure == "mean"}
    shares = {
        row.at_least: row.value for row in rows if (row.figure, row.kind) == ("share", ALL_PLAIN)
    }
    found["probe plain mean"] = means[ALL_PLAIN]
    found["probe implicit mean"] = means[ALL_IMPLICIT]
    return found | {f"probe plain above {edge:g}": shares[edge] for edge in EDGES}


def words(kind: str) -> str:
    """The name of a kind in words."""
    return kind.replace("_", " ")


def scores_of(scorer: Any) -> list[float]:  # noqa: ANN401 - whatever has `score`
    """Score the probe sentences, in their order, for `probe_figures`."""
    return [one.value for one in scorer.score(probe_texts()) if one.value is not None]


def head_figures(head: Head, encoder: Encoder, progress: Progress) -> dict[str, float | None]:
    """Score the probes by a head over its encoder: the figures for its card."""
    embedded = embedded_texts(probe_texts(), encoder, progress, stage="probes")
    scores = head.implicitness(embedded.vectors)
    return card_figures([float(scores[embedded.places[text]]) for text in probe_texts()])
