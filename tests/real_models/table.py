"""Prints the table of the README: what a model did on each task, with intervals and alarms.

Usage: python table.py RESULTS [MODEL]. Reads stored runs and asks nothing.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.analysis.boards.scores import alarms, board_scores, score_text
from harness.pipeline.choice_scores import AUC, FALSE_ALARMS, HITS, MACRO, PERMUTED
from harness.pipeline.score import headlines
from harness.storage.find_runs import run_folders
from harness.storage.runs import RunFolder, ScoreRow, read_table

ALSO = (PERMUTED, "accuracy_pmi", HITS, FALSE_ALARMS, AUC, MACRO)
"""Metrics that stand below the headline, where a run has them."""
HEAD = "| task | asked | metric | value | 95 % interval | n | independent | chance | missing |"


def main(results: Path, model: str) -> None:
    """Print the table, then the alarms and the cut answers as a list."""
    runs = [run for run in run_folders(results) if run.read().model.name == model]
    print(HEAD, "|---" * HEAD.count(" |") + "|", sep="\n")
    for run in runs:
        print(*map(line, shown(scores_of(run))), sep="\n")
    print()
    print(*(f"- {words}" for run in runs for words in remarks(run)), sep="\n")


def scores_of(run: RunFolder) -> list[ScoreRow]:
    """The scores of a run; none where it is left out."""
    text = score_text(run)
    return read_table(run.scores, text) if text else []


def shown(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """The headline rows of one run and its further metrics; of averaged variants the average."""
    heads = headlines(rows)
    averaged = {row.signature for row in rows if row.score.metric == PERMUTED}
    found = []
    for head in heads:
        if averaged and head.signature not in averaged:
            continue
        own = {row.score.metric: row for row in rows if same_answers(row, head)}
        found += [head, *(own[metric] for metric in ALSO if metric in own)]
    return found


def same_answers(row: ScoreRow, head: ScoreRow) -> bool:
    """Whether a row is an overall one of the same answers, read by the same judge."""
    return row.signature == head.signature and row.score.group == "all"


def line(row: ScoreRow) -> str:
    """One row of the table."""
    score = row.score
    missing = ", ".join(f"{reason} {count}" for reason, count in score.missing.items() if count)
    low, high = number(score.low), number(score.high)
    cells = (
        *(
            row.task,
            f"{score.variant}, {score.decoding}",
            metric_of(score.metric, score.judge),
            number(score.value),
        ),
        "-" if score.low is None else f"{low} to {high}",
        *(score.n, score.clusters, number(chance_of(row)), missing or 0),
    )
    return f"| {' | '.join(map(str, cells))} |"


def metric_of(metric: str, judge: str) -> str:
    """A metric, with its judge where that is not the comparison with the right choice."""
    return metric if judge == "gold" else f"{metric}, {judge}"


def chance_of(row: ScoreRow) -> float | None:
    """The chance level of a headline; that of rates and areas is not the task's."""
    return row.chance if row.score.metric.startswith("accuracy") else None


def number(value: float | None) -> str:
    """Three digits behind the point, or - for none."""
    return "-" if value is None else f"{value:.3f}"


def remarks(run: RunFolder) -> Iterator[str]:
    """What the program says of a run: its alarms, and answers that a limit has cut."""
    task = run.read().run.task
    for alarm in alarms(board_scores({run.path.name: score_text(run)})).itertuples():
        yield f"`{task}`, {alarm.variant}: {alarm.words}."
    written = [row.steps[-1].stop for row in run.read_rows() if row.steps and row.steps[-1].text]
    if cut := written.count("length"):
        yield f"`{task}`: {cut} of {len(written)} answers ended at the limit of their tokens."


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python table.py RESULTS [MODEL]")
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "gemma-270m")
