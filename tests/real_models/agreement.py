"""How far one model agrees with itself through several engines: texts and log-probabilities.

Usage: python agreement.py RESULTS. Prints the table of the README from runs of `capitals`.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from harness.storage.find_runs import run_folders
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import RunFolder

TASK, FIRST = "capitals", "gemma-270m"
OTHERS = ("gemma-270m-vllm", "gemma-270m-llamacpp", "gemma-270m-q4")
WRITTEN, SCORED = ("T0", "written"), ("logprob", "top_logprobs")
"""What runs call their decoding, by the way of answering."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """What two engines gave for the same requests.

    `texts` greedy texts were compared, `alike` of them are equal; `begun_alike` begin with the same
    four letters. `apart` are the differences of log-probabilities, in nats, of all choices whose
    values are exact in both.
    """

    texts: int
    alike: int
    begun_alike: int
    apart: tuple[float, ...]


def agreement(results: Path, one: str, other: str) -> Agreement:
    """Compare two models, run on the task capitals by choice and in writing."""
    first, second = (texts_of(run_of(results, name, WRITTEN)) for name in (one, other))
    pairs = list(zip(first, second, strict=True))
    scored = [scores_of(run_of(results, name, SCORED)) for name in (one, other)]
    apart = [abs(scored[0][key] - scored[1][key]) for key in scored[0].keys() & scored[1].keys()]
    return Agreement(
        len(pairs),
        sum(text == again for text, again in pairs),
        sum(text[:4] == again[:4] for text, again in pairs),
        tuple(sorted(apart)),
    )


def run_of(results: Path, model: str, ways: tuple[str, ...]) -> list[SampleRecord]:
    """The answers of a model's largest run in one way, by sample."""
    runs = [run for run in run_folders(results) if is_of(run, model, ways)]
    if not runs:
        raise SystemExit(f"no run of {TASK} by {model} answered {' or '.join(ways)}: {results}")
    largest = max(runs, key=lambda run: run.read().samples)
    return sorted(largest.read_rows(), key=lambda row: row.sample.id)


def is_of(run: RunFolder, model: str, ways: tuple[str, ...]) -> bool:
    """Whether a run is one of a model, answered in one of some ways."""
    file = run.read()
    if (file.run.task, file.model.name) != (TASK, model):
        return False
    return any(row.score.decoding in ways for row in run.read_scores())


def texts_of(rows: list[SampleRecord]) -> list[str]:
    """The greedy texts."""
    return [row.steps[-1].text or "" for row in rows]


def scores_of(rows: list[SampleRecord]) -> dict[tuple[str, str, int], float]:
    """Each exact log-probability, by sample, step and place of the choice."""
    return {
        (row.sample.id, step.step, place): score.logprob
        for row in rows
        for step in row.steps
        for place, score in enumerate(step.choice_scores)
        if not score.is_bound
    }


def main(results: Path) -> None:
    """Print a line for each engine."""
    print("| beside transformers | greedy texts alike | choices compared | largest | median |")
    print("|---|---|---|---|---|")
    for name in OTHERS:
        told = agreement(results, FIRST, name)
        cells = (f"{told.alike} of {told.texts}", len(told.apart))
        spread = (f"{max(told.apart):.1g}", f"{median(told.apart):.1g}")
        print(f"| `{name}` | {' | '.join(map(str, cells + spread))} |")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python agreement.py RESULTS")
    main(Path(sys.argv[1]))
