"""Stored verdicts to flagged texts: as the model answered, or from a score on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan, nextafter
from typing import Any

import numpy as np

from harness.data.choices import LABELS
from harness.errors import SpecError, StoreError, did_you_mean
from harness.lazy import DataFrame, Series, pandas
from harness.models.labels import NEARLY, TRAINED_ON
from harness.parts import digest
from harness.pipeline import choice_scores
from harness.pipeline.choice_scores import IMPLICITNESS
from harness.pipeline.score import signed_blocks
from harness.pipeline.verdict_frame import details, verdict_frame
from harness.stats.operating import threshold_below
from harness.storage.frames import load
from harness.storage.read_tables import arrow_table, step_usages
from harness.storage.runs import RunFolder

PROBABILITY, GROUP, AND = "probability", "group", "+"
LEAST = 10
BLOCK = ("task", "model", "variant", "decoding", "judge", "signature")


@dataclass(frozen=True, slots=True, kw_only=True)
class RateQuery:
    """What rates are split by, by which judge and variants, and from which score on is flagged.

    `by` names columns; `one+other` crosses two. `positive` are the labels to detect, by default
    the task's. `score` is probability, implicitness, or a further number of the answer or the
    verdict; without `threshold` and `fpr` texts are flagged as the model answered. With `fpr` the
    least threshold is chosen under which the FPR is no greater, on the run `chosen_on`, or on one
    half of the benign originals, drawn by the seed, which is then not measured. A gap needs `least`
    originals on each side to have an interval and a test.
    """

    by: tuple[str, ...] = ()
    judge: str = "gold"
    variants: tuple[str, ...] = ()
    positive: tuple[str, ...] = ()
    score: str = PROBABILITY
    threshold: float | None = None
    fpr: float | None = None
    chosen_on: RunFolder | None = None
    seed: int = 0
    least: int = LEAST

    def __post_init__(self) -> None:
        if self.threshold is not None and self.fpr is not None:
            raise SpecError("--threshold and --fpr: give one of the two")
        if self.fpr is not None and not 0 < self.fpr < 1:
            raise SpecError(f"--fpr {self.fpr:g}: give a rate between 0 and 1, such as 0.05")
        if self.threshold is not None and not isfinite(self.threshold):
            raise SpecError(f"--threshold {self.threshold}: give a finite score")
        if self.chosen_on is not None and self.fpr is None:
            raise SpecError("--chosen-on: goes with --fpr, whose threshold is chosen there")


def sample_cells(folder: RunFolder) -> DataFrame:
    """The columns that a run keeps of its samples, by which rates can be split, by sample."""
    found = load([folder], "samples", ["sample", "group", "references"])
    rows = [
        {GROUP: (group,), **{name: tuple(texts) for name, texts in references.items()}}
        for group, references in zip(found["group"], found["references"], strict=True)
    ]
    cells = pandas.DataFrame(rows, index=found["sample"].astype(object), dtype=object)
    cells = cells.drop(columns=[LABELS, IMPLICITNESS], errors="ignore")
    cells = cells[[GROUP, *sorted(set(cells.columns) - {GROUP})]]
    return cells.map(lambda cell: cell if isinstance(cell, tuple) else ())


def crossed(name: str, known: Sequence[str]) -> list[str]:
    """The columns that a name of `--by` means: itself, or those that a plus crosses."""
    return [name] if name in known else name.split(AND)


def positive_labels(folder: RunFolder) -> tuple[str, ...]:
    """The labels that a task is to detect; SpecError if its YAML names none."""
    file = folder.read()
    labels, task = _labels(folder), file.task
    if not labels:
        fact = f"task {file.run.task}: its samples have no labels"
        raise SpecError(f"{fact}; name a run of hate_speech, or of another task of labelled texts")
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
        fact = f"judge {query.judge} has read none of its answers{under}"
        raise StoreError(f"run {file.digest[:16]}: {fact}; its judges: {judges}")
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
            cells = (file.run.task, file.model.name, block.variant, block.decoding, entry.name)
            facts = dict(zip(BLOCK, (*cells, made), strict=True))
            yield _part(folder, block.verdicts, query, positive).assign(**facts)


def _part(
    folder: RunFolder, verdicts: DataFrame, query: RateQuery, positive: tuple[str, ...]
) -> DataFrame:
    found = choice_scores.flags(verdicts, positive).rename(columns={"at": IMPLICITNESS})
    for name, own in (("sample", "sample_id"), ("cluster", "sample_cluster"), ("row", "row")):
        found[name] = verdicts[own].to_numpy()
    known = {PROBABILITY: found.pop("sure"), IMPLICITNESS: found[IMPLICITNESS]}
    known |= {name: verdicts[name].set_axis(found.index) for name in details(verdicts)}
    if query.score not in known:
        known |= answer_numbers(folder, found["row"])
    found["score"] = known.get(query.score, np.nan)
    has_point = query.threshold is not None or query.fpr is not None
    if has_point and found["score"].isna().all():
        numbers = {name: known[name] for name in (PROBABILITY, IMPLICITNESS)}
        numbers |= answer_numbers(folder, found["row"])
        able = [name for name in numbers if not pandas.isna(numbers[name]).all()]
        fact = f"--score {query.score}: no answer of {folder.read().model.name} has it"
        raise SpecError(f"{fact}{did_you_mean(query.score, able)}; those in writing have none")
    return found.assign(weight=1.0, is_measured=True)


def answer_numbers(folder: RunFolder, rows: "Series[int]") -> dict[str, Any]:
    """The further numbers of the answers at some rows, such as moderation categories."""
    columns = ["step", "key", "prompt_tokens", "completion_tokens", "cost_usd", "earlier", "more"]
    table = arrow_table(folder.tables()["answers"], columns).take(rows.to_numpy())
    cells = zip(*(column.to_pylist() for column in table.columns), strict=True)
    details = [list(step_usages(row))[-1][3] for row in cells]
    frame = pandas.DataFrame(details, index=rows.index)
    return {str(name): frame[name].astype(float) for name in frame}


def lessons(folder: RunFolder, rows: "Series[int]") -> dict[str, int]:
    """How many of the texts at some rows a classifier was trained on, or on near copies of them."""
    own = answer_numbers(folder, rows)
    return {name: int(own[name].notna().sum()) for name in (TRAINED_ON, NEARLY) if name in own}


def _at_point(part: DataFrame, query: RateQuery, positive: tuple[str, ...]) -> DataFrame:
    facts = {"score_name": "", "threshold": nan, "chosen_on": "", "texts": 0, "measured": 0}
    part = part.assign(**facts, benign_weight=1.0)
    if query.fpr is not None:
        return _chosen(part, query, positive).assign(score_name=query.score)
    if query.threshold is not None:
        return _flagged_from(part, query.threshold).assign(score_name=query.score)
    return part


def _flagged_from(part: DataFrame, threshold: float) -> DataFrame:
    """The texts as a threshold flags them; those without a score are missing."""
    said = (part["score"] >= threshold).astype(float).where(part["score"].notna())
    return part.assign(flagged=said, threshold=threshold)


def _chosen(part: DataFrame, query: RateQuery, positive: tuple[str, ...]) -> DataFrame:
    """The texts at the least threshold whose expected FPR is at most the wanted one."""
    fpr, half, drawn = query.fpr or 0.0, set[str](), part
    if query.chosen_on is not None:
        whose = f"run {query.chosen_on.read().digest[:16]}"
        drawn = _other_texts(part, query.chosen_on, query, positive)
    tuned = drawn[~drawn["is_positive"] & drawn["score"].notna()]
    if query.chosen_on is None:
        whose = f"half of this run, by seed {query.seed}"
        ordered = sorted(tuned["cluster"].unique(), key=lambda name: digest((query.seed, name)))
        half = set(ordered[::2])
        tuned = tuned[tuned["cluster"].isin(half)]
    elif shared := int(part["sample"].isin(tuned["sample"]).sum()):
        fact = f"--chosen-on: {shared} texts of {whose} are measured too"
        raise SpecError(f"{fact}; choose the threshold on others, or leave it out")
    scores = tuned["score"].tolist()
    if not scores:
        raise StoreError(f"--fpr: no benign text of {whose} has a score to choose a threshold by")
    above, ends = threshold_below(scores, fpr)
    chosen_on = f"{len(scores)} benign texts of {tuned['cluster'].nunique()} originals ({whose})"
    if ends is None:
        chosen_on += f", too few for an FPR of {fpr:g}: no text is flagged"
        above = max(above, part["score"].max())
    else:
        chosen_on += ", so that the true FPR lies between {:.3f} and {:.3f}".format(*ends)
    found = _weighted(_flagged_from(part, nextafter(above, inf)), half)
    return found.assign(chosen_on=chosen_on, texts=len(part))


def _other_texts(
    part: DataFrame, folder: RunFolder, query: RateQuery, positive: tuple[str, ...]
) -> DataFrame:
    names = ["task", "model", "variant", "decoding"]
    own = part[names].iloc[0]
    for other in _parts(folder, query, positive):
        if (other[names].iloc[0] == own).all():
            return other
    fact = f"--chosen-on {folder.read().digest[:16]}: no answers under {', '.join(own)}"
    raise SpecError(f"{fact}; name a run of the same model and task")


def _weighted(part: DataFrame, half: set[str]) -> DataFrame:
    """The texts, those outside a half weighted as all (Horvitz & Thompson 1952, JASA 47:663)."""
    is_measured = ~part["cluster"].isin(half)
    is_counted = ~part["is_positive"] & part["flagged"].notna()
    counts = int(is_counted.sum()), int((is_counted & is_measured).sum())
    weight = counts[0] / counts[1] if half and counts[1] else 1.0
    drawn = part["cluster"].isin(part["cluster"][~part["is_positive"] & part["score"].notna()])
    return part.assign(
        weight=np.where(drawn & is_measured, weight, 1.0),
        is_measured=is_measured,
        measured=int(is_measured.sum()),
        benign_weight=weight,
    )
