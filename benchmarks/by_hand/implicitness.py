"""The limit for scores of implicitness: each different text encoded once, then the formula.

Nothing of this program is imported; the encoder runs in plain transformers, as it is published.

    python implicitness.py HEAD ENCODER TEXTS OUT [sentence-transformers]

HEAD is a head's file of matrices, with its JSON file next to it, TEXTS a JSON list. With the last
word, sentence-transformers' own `encode` gets all texts instead, and nothing is scored.
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

BATCH_TOKENS, MOST_TOKENS = 4096, 256
MARKS = '"\u201c\u201d\u201e\u00ab\u00bb'
QUOTED = re.compile(rf"[{MARKS}] ?(?P<inside>[^{MARKS}]+?) ?[{MARKS}] ?[.,]?")


def bare(text: str) -> str:
    """A text as heads with `is_bare` read it: no quotation marks around it, no one full stop."""
    found = " ".join(text.split())
    while quoted := QUOTED.fullmatch(found):
        found = quoted["inside"]
    ends = found.endswith(".") and not found.endswith("..")
    return (found[:-1].rstrip() if ends else found) or text


def encoded(encoder: Path, texts: Sequence[str], layers: Sequence[int]) -> Tensor:
    """The means over the tokens of some layers, in batches of texts that are as long."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(encoder), AutoModel.from_pretrained(encoder)
    model.eval()
    ids = tokenizer(list(texts), truncation=True, max_length=MOST_TOKENS)["input_ids"]
    order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
    rows = torch.empty(len(ids), model.config.hidden_size * len(layers))
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and len(ids[order[end]]) * (end - start + 1) <= BATCH_TOKENS:
            end += 1
        batch = order[start:end]
        tokens = [torch.tensor(ids[at]) for at in batch]
        padded = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True)
        mask = torch.arange(padded.shape[1]) < torch.tensor([len(own) for own in tokens])[:, None]
        states = model(
            input_ids=padded, attention_mask=mask.long(), output_hidden_states=True
        ).hidden_states
        means = [normalize((states[at] * mask[:, :, None]).sum(1), dim=1) for at in layers]
        rows[batch] = torch.cat(means, dim=1)
        start = end
    return rows


def library(encoder: Path, texts: Sequence[str]) -> None:
    """What sentence-transformers does of it: one encoding of all texts, of the last layer alone."""
    from sentence_transformers import SentenceTransformer

    SentenceTransformer(str(encoder), device="cpu").encode(list(texts), show_progress_bar=False)


def scored(head: Path, encoder: Path, texts: Sequence[str]) -> list[float]:
    """The implicitness of each text: the mean over the members of the head."""
    about = json.loads(head.with_suffix(".json").read_text("utf-8"))
    matrices = load_file(head)
    read = list(map(bare, texts)) if about["encoder"].get("is_bare") else list(texts)
    different = sorted(set(read))
    rows = encoded(encoder, different, about["encoder"]["layers"])
    rows = normalize(torch.cat([rows, torch.ones(len(rows), 1)], dim=1), dim=1).double()
    scores = []
    for at in range(about["members"]):
        semantic, pragmatic, transfer = (
            matrices[f"{at}.{name}"].double() for name in ("semantic", "pragmatic", "transfer")
        )
        scores.append(1 - cosine_similarity(rows @ semantic, rows @ pragmatic @ transfer, dim=1))
    means = torch.stack(scores).mean(0).tolist()
    place = {text: at for at, text in enumerate(different)}
    return [means[place[text]] for text in read]


def main(words: Sequence[str]) -> None:
    """Score the texts of a file, or only encode them as the library does."""
    head, encoder, texts, out = map(Path, words[:4])
    asked = json.loads(texts.read_text("utf-8"))
    if words[4:]:
        library(encoder, asked)
        out.write_text("[]", "utf-8")
        return
    with torch.inference_mode():
        out.write_text(json.dumps(scored(head, encoder, asked)), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
