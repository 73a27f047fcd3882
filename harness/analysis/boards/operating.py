"""Stored runs to boards of the share of positive texts found at a fixed rate of false alarms.

Each model has a threshold of its own, chosen as in `rates` on one half of the benign originals,
which is the same half for all models of the same data. Nothing here writes a file.
"""

from collections.abc import Mapping
from contextlib import suppress

from harness.analysis.boards.alarms import Row
from harness.analysis.boards.ranked import ranked, unranked
from harness.analysis.boards.scores import headlines
from harness.analysis.boards.verdicts import PARTS, sorted_names
from harness.analysis.flags import PROBABILITY, OperatingPoint, RateQuery, flags, positive_labels
from harness.analysis.rates import rates
from harness.errors import SpecError, StoreError
from harness.lazy import DataFrame, pandas
from harness.models.labels import SCORE
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS
from harness.storage.runs import RunFolder

_NAMES = ("sample", "variant", "decoding", "cluster")


def operating_boards(folders: Mapping[str, RunFolder], scores: DataFrame, fpr: float) -> DataFrame:
    """The boards of some scores, as `standings`, ranked by the TPR at an FPR of at most `fpr`.

    A model without a probability, or a score of the label to detect, has no value and no rank; one
    that flags all texts or none has no rank. `attrs` has `at_fpr`. StoreError where no run has
    labels to detect.
    """
    heads = unranked(headlines(scores), ()).assign(ranked_by="tpr_at_fpr", has_rates=True)
    able = {name for name in dict.fromkeys(heads["run"]) if _labels(folders[name])}
    heads = heads[heads.groupby("board")["run"].transform(lambda own: own.isin(able).any())]
    if not len(heads):
        raise StoreError("--fpr: none of these runs is of a task with labels to detect")
    rows, verdicts = [], []
    for head in heads.itertuples():
        texts = _texts(head, folders[head.run], fpr)
        rows.append(_rates(head, texts))
        verdicts += _verdicts(texts) if texts is not None else []
    names = ["value", "low", "high", "fpr", "is_constant"]
    found = pandas.DataFrame(rows, columns=names, index=heads.index)
    heads = heads.assign(**{name: found[name] for name in names}, tpr=found["value"])
    heads = heads.astype(dict.fromkeys(("value", "low", "high", "tpr", "fpr"), "float64"))
    kept = pandas.DataFrame(verdicts, columns=["signature", *_NAMES, f"{PARTS}0", f"{PARTS}1"])
    for name in ("signature", *_NAMES):
        kept[name] = sorted_names(kept[name])
    boards = ranked(heads.reset_index(drop=True), kept.assign(parts=2))
    boards.attrs["at_fpr"] = fpr
    return boards


def _labels(folder: RunFolder) -> tuple[str, ...]:
    with suppress(SpecError):
        return positive_labels(folder)
    return ()


def _texts(row: Row, folder: RunFolder, fpr: float) -> DataFrame | None:
    """The texts behind a row, flagged at the threshold; None where there is no score for one."""
    labels = _labels(folder)
    for score in (PROBABILITY, *([SCORE.format(*labels)] if len(labels) == 1 else [])):
        point = OperatingPoint(score, fpr=fpr)
        query = RateQuery(judge=row.judge, variants=(row.variant,), point=point)
        with suppress(SpecError, StoreError):
            found = flags(folder, query)
            own = found[found["signature"] == row.signature]
            return own if len(own) else None
    return None


def _rates(head: Row, texts: DataFrame | None) -> tuple[float | None, ...]:
    """The rates at the threshold, the interval of the first, and whether all flags are equal."""
    if texts is None:
        return None, None, None, None, False
    found = rates(texts, RateQuery(judge=head.judge)).set_index("rate")
    hits = found.loc[HITS]
    is_constant = texts[texts["is_measured"]]["flagged"].nunique() < 2
    return hits["value"], hits["low"], hits["high"], found.loc[FALSE_ALARMS, "value"], is_constant


def _verdicts(texts: DataFrame) -> list[tuple[object, ...]]:
    """What positive texts add to the share of those found: whether it was, and one."""
    known = texts[texts["is_measured"] & texts["is_positive"] & texts["flagged"].notna()]
    known = known.assign(hit=known["flagged"] * known["weight"])
    columns = known[["signature", *_NAMES, "hit", "weight"]]
    return list(columns.itertuples(index=False, name=None))
