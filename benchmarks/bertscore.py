"""BERTScore, whole processes in turn: the judge `minilm-bertscore`, one call of bert-score a pair,
one call for all, and each text encoded once by hand.

Each answer is the implication of another stressed fragment, of the released data or of our samples.

    python -m benchmarks.bertscore CASES OUT     # be the judge
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.turns import Command, Way

Case = tuple[str, list[str]]
ROOT = Path(__file__).parent.parent


def by_judge(cases: Sequence[Case]) -> list[float]:
    """The judge minilm-bertscore, called from Python."""
    from harness import core
    from harness.judges.nearness import BertScoreJudge
    from harness.specs.judges import BertScoreSpec

    spec = BertScoreSpec(about="MiniLM.", encoder="minilm", reference="implication")
    read = [
        core.Case(
            core.Sample(id=str(i), fields={}, references={"implication": tuple(references)}),
            core.Response(key=str(i), texts=(answer,)),
        )
        for i, (answer, references) in enumerate(cases)
    ]
    verdicts = BertScoreJudge("minilm-bertscore", spec).read(read)
    return [verdict.value for verdict in verdicts if verdict.value is not None]


def read_cases(data: Path | None) -> list[Case]:
    """The implications of each sample, and as its answer the first one of the next sample."""
    from harness.data.readers import emphasized_talk, samples_jsonl

    path = (data or Path(os.environ.get("HARNESS_DATA", "none"))) / "emphasized_talk" / "data.json"
    if path.exists():
        samples = emphasized_talk.read([path], None)
    else:
        samples = samples_jsonl.read([ROOT / "tasks/samples/emphasized_talk.jsonl"], None)
    references = [list(sample.references["implication"]) for sample in samples]
    return [(references[i - 1][0], texts) for i, texts in enumerate(references)]


def command(cases: Sequence[Case], folder: Path, words: Sequence[str], *more: str) -> Command:
    """A process that reads cases from a file and writes scores into another."""
    (folder / "cases.json").write_text(json.dumps(cases), "utf-8")
    out = folder / "out.json"
    command = [sys.executable, *words, str(folder / "cases.json"), str(out), *more]
    environment = {"PYTHONPATH": str(ROOT)}
    return Command(command, folder, environment, read=lambda: json.loads(out.read_text("utf-8")))


def ways(cases: Sequence[Case]) -> list[Way]:
    """The ways, this program first."""
    script = [str(Path(__file__).parent / "by_hand" / "bertscore.py")]
    judge = ["-m", "benchmarks.bertscore"]
    return [
        Way("program", "judge `minilm-bertscore`", lambda to: command(cases, to, judge)),
        Way("loop", "bert-score, a call a pair", lambda to: command(cases, to, script, "loop")),
        Way("library", "bert-score, one call", lambda to: command(cases, to, script, "library")),
        Way("hand", "by hand", lambda to: command(cases, to, script)),
    ]


if __name__ == "__main__":
    CASES, OUT = map(Path, sys.argv[1:])
    OUT.write_text(json.dumps(by_judge(json.loads(CASES.read_text("utf-8")))), "utf-8")
