"""Stored verdicts to flagged texts: as the model answered, or from a score on.

Verdicts without an answer, or without the score, are missing: they never count as unflagged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, inf, isfinite, nan, nextafter
from typing import Any

import numpy as np

from harness.data.choices import LABELS
from harness.errors import SpecError, StoreError, did_you_mean
from harness.lazy import DataFrame, Series, pandas
from harness.parts import digest
from harness.pipeline import choice_scores
from harness.pipeline.choice_scores import IMPLICITNESS
from harness.pipeline.score import signed_blocks
from harness.pipeline.verdict_frame import details, verdict_frame
from harness.storage.frames import load
from harness.storage.read_tables import arrow_table, step_usages
from harness.storage.runs import RunFolder

PROBABILITY, GROUP, AND = "probability", "group", "+"
Columns = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Further columns of samples, by the sample's id; the texts of a cell, none if it is empty."""
BLOCK = ("task", "model", "variant", "decoding", "judge", "signature")


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """From which score on a text is flagged; None flags as the model answered.

    `score` is probability, implicitness, or a further number of the answer or the verdict. With
    `fpr` the least threshold is chosen under which the FPR is no greater, on the run `chosen_on`,
    or on one half of the benign originals, drawn by the seed, which is then not measured.
    """

    score: str = PROBABILITY
    threshold: float | None = None
    fpr: float | None = None
    chosen_on: RunFolder | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.threshold is not None and self.fpr is not None:
            raise SpecError("--threshold and --fpr: give one of the two")
        if self.fpr is not None and not 0 < self.fpr < 1:
            raise SpecError(f"--fpr {self.fpr:g}: give a rate between 0 and 1, such as 0.05")
        if self.threshold is not None and not isfinite(self.threshold):
            raise SpecError(f"--threshold {self.threshold}: give a finite score")
        if self.chosen_on is not None and self.fpr is None:
            raise SpecError("--chosen-on: goes with --fpr, whose threshold is chosen there")


@dataclass(frozen=True, slots=True)
class RateQuery:
    """What rates are split by, by which judge and variants, and at which operating point.

    `by` names columns; `one+other` crosses two. `positive` are the labels to detect, by default
    the task's. Without `is_paired` each group is compared with the texts of all other groups.
    `columns` are those that the run did not keep. A gap needs `least` originals on each side.
    """

    by: tuple[str, ...] = ()
    judge: str = "gold"
    variants: tuple[str, ...] = ()
    positive: tuple[str, ...] = ()
    point: OperatingPoint | None = None
    is_paired: bool = False
    least: int = 10
    columns: Columns = field(default_factory=dict)


def sample_cells(folder: RunFolder, columns: Columns | None = None) -> DataFrame:
    """The columns of a run's samples by which rates can be split, by the sample's id.

    A cell is a tuple of texts: `group`, the references but labels and implicitness, and `columns`.
    """
    found = load([folder], "samples", ["sample", "group", "references"])
    rows = []
    for name, group, references in found[["sample", "group", "references"]].itertuples(index=False):
        kept = {key: tuple(texts) for key, texts in references.items()}
        rows.append({GROUP: (group,), **kept, **(columns or {}).get(name, {})})
    cells = pandas.DataFrame(rows, index=found["sample"].astype(object), dtype=object)
    cells = cells.drop(columns=[LABELS, IMPLICITNESS], errors="ignore")
    cells = cells[[GROUP, *sorted(set(cells.columns) - {GROUP})]]
    return cells.map(lambda cell: cell if isinstance(cell, tuple) else ())


def known_columns(folder: RunFolder) -> list[str]:
    """The columns that the samples of a run keep, by which rates can be split."""
    return list(sample_cells(folder).columns)


def unknown_columns(folder: RunFolder, by: Sequence[str]) -> list[str]:
    """The columns of `--by` that the samples of a run do not keep."""
    known = known_columns(folder)
    wanted = dict.fromkeys(part for name in by for part in crossed(name, known))
    return [name for name in wanted if name not in known]


def crossed(name: str, known: Sequence[str]) -> list[str]:
    """The columns that a name of `--by` means: itself, or those that a plus crosses."""
    return [name] if name in known else name.split(AND)


def positive_labels(folder: RunFolder) -> tuple[str, ...]:
    """The labels that a task is to detect; SpecError if its YAML names none."""
    file = folder.read()
    labels, task = _labels(folder), file.task
    if not labels:
        raise SpecError(
            f"task {file.run.task}: its samples have no labels, so that there are no hits and "
            "no false alarms; name a run of hate_speech, or of another task of labelled texts"
        )
    named = task.implicitness.positive if task.implicitness else ()
    named = named or (task.classes.missed if task.classes else ())
    if not named:
        raise SpecError(f"--positive: name the labels to detect, of {', '.join(labels)}")
    return named


def _labels(folder: RunFolder) -> list[str]:
    references = load([folder], "samples", ["references"])["references"]
    return list(dict.fromkeys(label for own in references for label in own.get(LABELS, ())))


def flags(folder: RunFolder, query: RateQuery) -> DataFrame:
    """The texts of a run, flagged at an operating point: a row an answer.

    The columns BLOCK; `row`, `sample` and `cluster`; `is_positive`; `flagged`, 1, 0 or a tie's
    share, NaN if missing; `score` value, NaN without one; `implicitness`; `weight`, how many texts
    it counts for; `is_measured`, false for originals on which the threshold was chosen, which have
    no part in rates; and, equal in all rows of a signature, `score_name`, `threshold`, `chosen_on`,
    `texts`, `measured` and `benign_weight` as in RATE_COLUMNS. StoreError if there is no answer.
    """
    positive, labels = query.positive or positive_labels(folder), _labels(folder)
    if unknown := [name for name in positive if name not in labels]:
        raise SpecError(f"--positive {unknown[0]}: no such label{did_you_mean(unknown[0], labels)}")
    found = [_at_point(part, query, positive) for part in _parts(folder, query, positive)]
    if not found:
        file = folder.read()
        under = f" under variant {', '.join(query.variants)}" if query.variants else ""
        judges = ", ".join(entry.name for entry in file.judges) or "none"
        raise StoreError(
            f"run {file.digest[:16]}: judge {query.judge} has read none of its answers{under}; "
            f"its judges: {judges}"
        )
    return pandas.concat(found, ignore_index=True)


def _parts(folder: RunFolder, query: RateQuery, positive: tuple[str, ...]) -> Iterator[DataFrame]:
    """The answers of each variant, decoding and snapshot, as the model flagged them."""
    file = folder.read()
    entry = next((one for one in file.judges if one.name == query.judge), None)
    if entry is None:
        return
    verdicts = verdict_frame(folder.tables(), file.task)
    names = load([folder], "verdicts", ["sample", "cluster"])
    verdicts["sample_id"] = names["sample"].astype(object)
    verdicts["sample_cluster"] = names["cluster"].astype(object)
    for made, block in signed_blocks(file, entry, verdicts, has_groups=False):
        if not block.is_average and (not query.variants or block.variant in query.variants):
            way = (block.variant, block.decoding, entry.name, made)
            point = query.point or OperatingPoint()
            yield _part(folder, block.verdicts, point.score, positive).assign(
                **dict(zip(BLOCK, (file.run.task, file.model.name, *way), strict=True))
            )


def _part(
    folder: RunFolder, verdicts: DataFrame, score: str, positive: tuple[str, ...]
) -> DataFrame:
    found = choice_scores.flags(verdicts, positive).rename(columns={"at": IMPLICITNESS})
    found["cluster"] = verdicts["sample_cluster"].to_numpy()
    found["sample"] = verdicts["sample_id"].to_numpy()
    found["row"] = verdicts["row"].to_numpy()
    known = {PROBABILITY: found["sure"], IMPLICITNESS: found[IMPLICITNESS]}
    known |= {name: verdicts[name].set_axis(found.index) for name in details(verdicts)}
    if score not in known:
        known |= _answer_numbers(folder, found["row"])
    found["score"] = known.get(score, np.nan)
    found["weight"], found["is_measured"] = 1.0, True
    found.attrs["scores"] = sorted(known)
    return found.drop(columns="sure")


def _answer_numbers(folder: RunFolder, rows: "Series[int]") -> dict[str, Any]:
    """The further numbers of the answers at some rows, such as moderation categories."""
    columns = ["step", "key", "prompt_tokens", "completion_tokens", "cost_usd", "earlier", "more"]
    table = arrow_table(folder.tables()["answers"], columns).take(rows.to_numpy())
    cells = zip(*(column.to_pylist() for column in table.columns), strict=True)
    details = [list(step_usages(row))[-1][3] for row in cells]
    frame = pandas.DataFrame(details, index=rows.index)
    return {str(name): frame[name].astype(float) for name in frame}


def _at_point(part: DataFrame, query: RateQuery, positive: tuple[str, ...]) -> DataFrame:
    point, known = query.point, part.attrs.pop("scores")
    facts = {"score_name": "", "threshold": nan, "chosen_on": "", "texts": 0, "measured": 0}
    part = part.assign(**facts, benign_weight=1.0)
    if point is None:
        return part.assign(score=part["score"])
    if part["score"].isna().all():
        model = part["model"].iloc[0]
        raise SpecError(
            f"--score {point.score}: no answer of {model} has it"
            f"{did_you_mean(point.score, known)}; answers in writing have no probability"
        )
    part = part.assign(score_name=point.score)
    if point.fpr is None:
        return _flagged_from(part, point.threshold or 0.0)
    return _chosen(part, query, positive)


def _flagged_from(part: DataFrame, threshold: float) -> DataFrame:
    """The texts as a threshold flags them; those without a score are missing."""
    said = (part["score"] >= threshold).astype(float).where(part["score"].notna())
    return part.assign(flagged=said, threshold=threshold)


def _chosen(part: DataFrame, query: RateQuery, positive: tuple[str, ...]) -> DataFrame:
    """The texts at the least threshold that keeps the FPR where it is chosen."""
    point, half = query.point or OperatingPoint(), set[str]()
    if point.chosen_on is not None:
        others = _other_texts(part, point.chosen_on, query, positive)
        whose = f"run {point.chosen_on.read().digest[:16]}"
        tuned = others[~others["is_positive"] & others["score"].notna()]
        if shared := int(part["sample"].isin(tuned["sample"]).sum()):
            raise SpecError(
                f"--chosen-on: {shared} texts of {whose} are measured too; choose the threshold on "
                "other texts, or leave it out to halve this run"
            )
    else:
        ordered = sorted(_drawn_from(part), key=lambda name: digest((point.seed, name)))
        half = set(ordered[::2])
        whose = f"half of this run, by seed {point.seed}"
        tuned = part[part["cluster"].isin(half) & ~part["is_positive"] & part["score"].notna()]
    scores = sorted(tuned["score"].tolist(), reverse=True)
    if not scores:
        raise StoreError(f"--fpr: no benign text of {whose} has a score to choose a threshold by")
    most = floor((point.fpr or 0.0) * len(scores) + 1e-9)
    chosen_on = f"{len(scores)} benign texts of {tuned['cluster'].nunique()} originals ({whose})"
    if most == 0:
        chosen_on += f", too few for an FPR of {point.fpr:g} above 0: none of them is flagged"
    return _weighted(_flagged_from(part, nextafter(scores[most], inf)), half).assign(
        chosen_on=chosen_on, texts=len(part)
    )


def _other_texts(
    part: DataFrame, folder: RunFolder, query: RateQuery, positive: tuple[str, ...]
) -> DataFrame:
    names = ["task", "model", "variant", "decoding"]
    own = part[names].iloc[0]
    for other in _parts(folder, query, positive):
        if (other[names].iloc[0] == own).all():
            return other
    raise SpecError(
        f"--chosen-on {folder.read().digest[:16]}: no answers of {own['model']} to {own['task']}, "
        f"variant {own['variant']}, {own['decoding']}; name a run of the same model and task"
    )


def _drawn_from(part: DataFrame) -> list[str]:
    """The originals with a benign text that has a score."""
    benign = part[~part["is_positive"] & part["score"].notna()]
    return list(benign["cluster"].unique())


def _weighted(part: DataFrame, half: set[str]) -> DataFrame:
    """The texts, those outside a half weighted as all of them.

    Each text of an original that the half was drawn from counts as often as there are benign texts
    to one that is measured (Horvitz & Thompson 1952, JASA 47:663); all others count once.
    """
    is_measured = ~part["cluster"].isin(half)
    is_counted = ~part["is_positive"] & part["flagged"].notna()
    counts = int(is_counted.sum()), int((is_counted & is_measured).sum())
    weight = counts[0] / counts[1] if half and counts[1] else 1.0
    drawn = part["cluster"].isin(_drawn_from(part)) & is_measured
    return part.assign(
        weight=np.where(drawn, weight, 1.0),
        is_measured=is_measured,
        measured=int(is_measured.sum()),
        benign_weight=weight,
    )
