"""Published numbers and the data at hand to what our own code makes of them, cell by cell.

Nothing is fetched, asked or printed. What recomputes a cell is looked up by name in one literal
table; what was published stands in configs/golden/ alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from harness.analysis.published import (
    emphasized_talk,
    hu2022,
    intent_resolution,
    ishate,
    ludwig,
    statistics,
    topical_chat,
)
from harness.errors import DataError, SpecError, did_you_mean
from harness.specs.published import NOBODY, CellSpec, GoldenSpec, half_unit

Values = Mapping[str, float | None]
Locate = Callable[[str], Path | None]
"""Where the folder of a source is; null where it is not at hand."""

_ROUNDING = 1e-9  # of half a unit, which is no exact binary number
_MODELS = ("gpt2", "tk-instruct-3b-def-pos", "flan-t5-base", "flan-t5-xl", "text-ada-001")
_PROMPTS = ("geval", "llm_eval_no_cot", "analyze_rate")


class CellStatus(StrEnum):
    """What became of a cell."""

    OK = "ok"
    DIFFERS = "differs"
    KNOWN = "known difference"
    LOST = "not recomputable"
    NO_DATA = "no data"


@dataclass(frozen=True, slots=True)
class VerifiedCell:
    """One published number beside the recomputed one, null where there is none."""

    paper: str
    table: str
    cell: str
    published: float
    recomputed: float | None
    tolerance: float
    status: CellStatus
    reason: str | None = None

    @property
    def difference(self) -> float | None:
        """Recomputed less published."""
        return None if self.recomputed is None else self.recomputed - self.published


@dataclass(frozen=True, slots=True)
class FromFiles:
    """A recomputation from files of a source, which `compute` takes the folder of."""

    source: str
    files: tuple[str, ...]
    compute: Callable[[Path], Values]


@dataclass(frozen=True, slots=True)
class FromInputs:
    """A recomputation from numbers that stand beside the cells."""

    compute: Callable[[Mapping[str, Sequence[float]]], Values]


@dataclass(frozen=True, slots=True)
class PaperResult:
    """What a recomputation gave: values, or the status of all its cells and why."""

    values: Values
    status: CellStatus = CellStatus.OK
    reason: str | None = None


RECOMPUTATIONS: Mapping[str, FromFiles | FromInputs] = {
    "emphasized_talk": FromFiles("emphasized_talk", emphasized_talk.FILES, emphasized_talk.counts),
    "emphasized_talk_ranking": FromInputs(emphasized_talk.ranking),
    "intent_resolution": FromFiles(
        "intent_resolution", intent_resolution.FILES, intent_resolution.counts
    ),
    **{
        f"topical_chat_{attribute}_{prompt}": FromFiles(
            "topical_chat",
            (topical_chat.PEOPLE, f"results/gpt3.5_{short}_{prompt}.json"),
            partial(
                topical_chat.correlations,
                attribute=attribute,
                replies=f"results/gpt3.5_{short}_{prompt}.json",
            ),
        )
        for attribute, short in (("naturalness", "nat"), ("coherence", "coh"))
        for prompt in _PROMPTS
    },
    "ludwig": FromFiles("ludwig", ludwig.FILES, ludwig.people),
    "ishate_rounds": FromFiles("ishate", ishate.ROUNDS, ishate.agreement),
    "ishate_train": FromFiles("ishate", (ishate.TRAIN,), ishate.train_split),
    "ishate_dev": FromFiles("ishate", (ishate.DEV,), ishate.dev_split),
    "ishate_test": FromFiles("ishate", (ishate.TEST,), ishate.test_split),
    "ishate_leakage": FromFiles("ishate", (ishate.TRAIN, ishate.DEV), ishate.leakage),
    "ishate_originals": FromFiles(
        "ishate", (ishate.TRAIN, ishate.DEV, ishate.TEST), ishate.originals
    ),
    "hu2022_prompts": FromFiles("hu2022", hu2022.prompt_files(), hu2022.prompts),
    "hu2022_people": FromFiles("hu2022", hu2022.PEOPLE, hu2022.people),
    **{
        f"hu2022_{model}": FromFiles(
            "hu2022", hu2022.answer_files(model), partial(hu2022.answers, model=model)
        )
        for model in _MODELS
    },
    **{
        f"hu2022_{model}_and_people": FromFiles(
            "hu2022",
            (*hu2022.answer_files(model), *hu2022.PEOPLE),
            partial(hu2022.answers_and_people, model=model),
        )
        for model in _MODELS
    },
    "williams": FromInputs(statistics.williams),
    "tie_calibration": FromInputs(statistics.tie_calibration),
    "krippendorff": FromInputs(statistics.krippendorff),
}


def verify(papers: Mapping[str, GoldenSpec], locate: Locate) -> list[VerifiedCell]:
    """Every cell of some papers, in their order; each recomputation is made once a paper."""
    return [cell for name, spec in papers.items() for cell in _of_paper(name, spec, locate)]


def _of_paper(paper: str, spec: GoldenSpec, locate: Locate) -> list[VerifiedCell]:
    outcomes: dict[str, PaperResult] = {}
    for name in dict.fromkeys(part.recompute for part in spec.all_cells):
        if name != NOBODY:
            outcomes[name] = _outcome(name, spec, locate)
    return [_cell(paper, part, outcomes.get(part.recompute)) for part in spec.all_cells]


def _outcome(name: str, spec: GoldenSpec, locate: Locate) -> PaperResult:
    """What the recomputation of a name gives with the numbers and files at hand."""
    if name not in RECOMPUTATIONS:
        raise SpecError(f"no recomputation {name!r}{did_you_mean(name, [*RECOMPUTATIONS, NOBODY])}")
    match RECOMPUTATIONS[name]:
        case FromInputs(compute):
            return _of_inputs(name, compute, spec)
        case FromFiles(source, files, compute):
            return _of_files(source, files, compute=compute, folder=locate(source))


def _of_inputs(
    name: str, compute: Callable[[Mapping[str, Sequence[float]]], Values], spec: GoldenSpec
) -> PaperResult:
    try:
        return PaperResult(compute(spec.numbers))
    except KeyError as error:
        raise SpecError(
            f"{spec.paper}: recomputation {name} needs an input {error}; "
            f"given: {', '.join(spec.numbers) or 'none'}"
        ) from None


def _of_files(
    source: str, files: Sequence[str], *, compute: Callable[[Path], Values], folder: Path | None
) -> PaperResult:
    """The values of files; where one cannot be read the cells differ, for something is amiss."""
    if folder is None:
        return PaperResult({}, CellStatus.NO_DATA, f"no folder {source!r} in the data")
    if missing := [name for name in files if not (folder / name).is_file()]:
        return PaperResult({}, CellStatus.NO_DATA, f"no file {source}/{missing[0]}")
    try:
        return PaperResult(compute(folder))
    except DataError as error:
        return PaperResult({}, CellStatus.DIFFERS, str(error))


def _cell(paper: str, spec: CellSpec, outcome: PaperResult | None) -> VerifiedCell:
    """A cell, judged by what its recomputation gave; null where nobody can recompute it."""
    outcome = outcome or PaperResult({}, CellStatus.LOST, spec.reason)
    found, status, reason = None, outcome.status, outcome.reason
    if status == CellStatus.OK:
        found = _value(spec, outcome.values)
        status, reason = _judged(spec, found)
    return VerifiedCell(
        paper=paper,
        table=spec.table,
        cell=spec.cell,
        published=float(spec.published),
        recomputed=found,
        tolerance=_tolerance(spec),
        status=status,
        reason=reason,
    )


def _value(spec: CellSpec, values: Values) -> float | None:
    if spec.value is None or spec.value not in values:
        raise SpecError(
            f"recomputation {spec.recompute} has no value {spec.value!r}"
            f"{did_you_mean(str(spec.value), list(values))}"
        )
    return values[spec.value]


def _judged(spec: CellSpec, found: float | None) -> tuple[CellStatus, str | None]:
    """Whether a recomputed value is the published one, the one a reason explains, or neither."""
    if found is None:
        return CellStatus.DIFFERS, "the data at hand gives no value"
    if abs(found - float(spec.published)) <= _tolerance(spec) + _ROUNDING:
        return CellStatus.OK, None
    if spec.found is not None and abs(found - float(spec.found)) <= half_unit(spec.found):
        return CellStatus.KNOWN, spec.known_difference
    return CellStatus.DIFFERS, None


def _tolerance(spec: CellSpec) -> float:
    return half_unit(spec.published) if spec.tolerance is None else spec.tolerance
