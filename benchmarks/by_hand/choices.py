"""The limit for log-probabilities of choices: a Llama in plain torch over one prefix tree.

Nothing of this program and nothing of transformers is imported. It can do this one thing: a Llama
with plain rotary embeddings, as many key heads as query heads, no biases, in float32, on a CPU.

    python choices.py MODEL CASES OUT     # CASES: a JSON list of [context, [choice, ...]]
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

PACK, PASS, BLOCK = 256, 2048, 64
"""Nodes of a pack and of a pass at most; states whose logits are computed at a time."""

Pack = tuple[int, int, tuple[int, ...], bool]
"""First node, the one behind the last, the packs above, and whether others are below."""


class Tree:
    """All rows in one prefix tree: nodes in depth-first order, each computed once."""

    def __init__(self, rows: Sequence[tuple[list[int], int]]) -> None:
        """Take rows of tokens, each with the place of its first scored token."""
        tokens, depths, ends = list[int](), list[int](), list[int]()
        path, before = list[int](), list[int]()
        self.reads: list[tuple[int, int, int]] = []  # node, token behind it, row
        for place in sorted(range(len(rows)), key=lambda at: rows[at][0]):
            row, first = rows[place]
            fed = row[:-1]
            shared = 0
            while shared < min(len(fed), len(before)) and fed[shared] == before[shared]:
                shared += 1
            for node in path[shared:]:
                ends[node] = len(tokens)
            path = [*path[:shared], *range(len(tokens), len(tokens) + len(fed) - shared)]
            tokens += fed[shared:]
            depths += range(shared, len(fed))
            ends += [0] * (len(fed) - shared)
            ahead = zip(path[first - 1 :], row[first:], strict=True)
            self.reads += [(node, token, place) for node, token in ahead]
            before = fed
        for node in path:
            ends[node] = len(tokens)
        self.reads.sort()
        self.tokens, self.depths, self.ends = map(torch.tensor, (tokens, depths, ends))
        self.packs = list(cut(ends))


def cut(ends: Sequence[int]) -> Iterator[Pack]:
    """Packs of nodes that are computed together; stems of branches that do not fit alone."""
    pending: list[tuple[int, int, tuple[int, ...]]] = [(0, len(ends), ())]
    count = 0
    while pending:
        first, last, above = pending.pop()
        while first < last:
            stop = ends[first]
            if stop - first > PACK:
                fork = first + 1
                while fork < stop and ends[fork] == stop:
                    fork += 1
                yield first, fork, above, fork < stop
                if fork < stop:
                    pending.append((fork, stop, (*above, count)))
            else:
                while stop < last and ends[stop] - first <= PACK:
                    stop = ends[stop]
                yield first, stop, above, False
            count += 1
            first = stop


class Llama:
    """The model, weights of a layer joined where they read the same states."""

    def __init__(self, folder: Path) -> None:
        """Read configuration and weights."""
        config = json.loads((folder / "config.json").read_text("utf-8"))
        weights = load_file(folder / "model.safetensors")
        self.heads, self.width = config["num_attention_heads"], config["hidden_size"]
        self.size, self.eps = self.width // self.heads, config["rms_norm_eps"]
        self.embedding = weights["model.embed_tokens.weight"]
        self.head = weights.get("lm_head.weight", self.embedding)
        self.norm = weights["model.norm.weight"]
        turns = 1e4 ** (-torch.arange(0, self.size, 2) / self.size)
        angles = torch.arange(config["max_position_embeddings"])[:, None] * turns
        self.cosine = torch.cat([angles.cos(), angles.cos()], -1)
        self.sine = torch.cat([-angles.sin(), angles.sin()], -1)
        self.layers = [self._layer(weights, at) for at in range(config["num_hidden_layers"])]
        self.kept: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    @staticmethod
    def _layer(weights: dict[str, Tensor], number: int) -> dict[str, Tensor]:
        lead = f"model.layers.{number}."
        own = {
            name.removeprefix(lead).removesuffix(".weight"): part
            for name, part in weights.items()
            if name.startswith(lead)
        }
        own["qkv"] = torch.cat([own[f"self_attn.{name}_proj"] for name in "qkv"])
        own["gate_up"] = torch.cat([own["mlp.gate_proj"], own["mlp.up_proj"]])
        return own

    def states(self, tree: Tree, batch: Sequence[int]) -> tuple[Tensor, ...]:
        """The last states of the nodes of some packs, pack by pack."""
        packs = [tree.packs[place] for place in batch]
        sizes = [stop - start for start, stop, _, _ in packs]
        nodes = torch.cat([torch.arange(start, stop) for start, stop, _, _ in packs])
        masks = [mask(tree, pack) for pack in packs]
        cosine = self.cosine[tree.depths[nodes]][:, None]
        sine = self.sine[tree.depths[nodes]][:, None]
        x = self.embedding[tree.tokens[nodes]]
        for layer, own in enumerate(self.layers):
            mixed = functional.linear(self._normed(x, own["input_layernorm"]), own["qkv"])
            query, key, value = mixed.view(-1, 3, self.heads, self.size).unbind(1)
            query, key = (p * cosine + p.roll(self.size // 2, -1) * sine for p in (query, key))
            turned = [part.transpose(0, 1) for part in (query, key, value)]
            split = zip(*(torch.split(part, sizes, 1) for part in turned), strict=True)
            taken = [
                self._taken(tree, (place, layer), qkv=qkv, seen=seen)
                for place, qkv, seen in zip(batch, split, masks, strict=True)
            ]
            x = x + functional.linear(torch.cat(taken), own["self_attn.o_proj"])
            inner = functional.linear(
                self._normed(x, own["post_attention_layernorm"]), own["gate_up"]
            )
            gate, up = inner.chunk(2, -1)
            x = x + functional.linear(functional.silu(gate) * up, own["mlp.down_proj"])
        return torch.split(self._normed(x, self.norm), sizes)

    def _taken(
        self, tree: Tree, where: tuple[int, int], *, qkv: Sequence[Tensor], seen: Tensor
    ) -> Tensor:
        query, key, value = qkv
        place, layer = where
        _, _, above, is_above = tree.packs[place]
        if is_above:
            self.kept[where] = key, value
        over = [self.kept[each, layer] for each in above]
        keys = torch.cat([*(pair[0] for pair in over), key], 1)[None]
        values = torch.cat([*(pair[1] for pair in over), value], 1)[None]
        found = functional.scaled_dot_product_attention(query[None], keys, values, attn_mask=seen)
        return found[0].transpose(0, 1).reshape(-1, self.width)

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, (self.width,), weight, self.eps)

    def logprobs(self, states: Tensor, places: Tensor, tokens: Tensor) -> Tensor:
        """Log-probabilities of tokens behind the states at some places, which are in order."""
        distinct, line = torch.unique_consecutive(places, return_inverse=True)
        logprobs = torch.empty(len(places))
        for start in range(0, len(distinct), BLOCK):
            logits = functional.linear(states[distinct[start : start + BLOCK]], self.head)
            of = (line >= start) & (line < start + BLOCK)
            rows = line[of] - start
            logprobs[of] = logits[rows, tokens[of]] - logits.logsumexp(-1)[rows]
        return logprobs


def mask(tree: Tree, pack: Pack) -> Tensor:
    """What each node of a pack may attend to: its ancestors, here and in the packs above."""
    start, stop, above, _ = pack
    spans = [*((tree.packs[each][0], tree.packs[each][1]) for each in above), (start, stop)]
    nodes = torch.cat([torch.arange(first, last) for first, last in spans])
    own = torch.arange(start, stop)[:, None]
    seen = (nodes <= own) & (own < tree.ends[nodes])
    return torch.zeros(seen.shape).masked_fill_(~seen, -torch.inf)


def passes(tree: Tree) -> Iterator[list[int]]:
    """Packs that one forward pass takes, those above first."""
    batch, size = list[int](), 0
    for place in sorted(range(len(tree.packs)), key=lambda at: tree.packs[at][0]):
        own = tree.packs[place][1] - tree.packs[place][0]
        if batch and size + own > PASS:
            yield batch
            batch, size = [], 0
        batch.append(place)
        size += own
    yield batch


def scored(folder: Path, cases: Sequence[tuple[str, list[str]]]) -> list[float]:
    """The log-probability of each choice of each case, in order."""
    tokenizer, llama = Tokenizer.from_file(str(folder / "tokenizer.json")), Llama(folder)
    firsts = [len(one.ids) for one in tokenizer.encode_batch_fast([c for c, _ in cases])]
    texts = [context + choice for context, choices in cases for choice in choices]
    owners = [first for first, (_, part) in zip(firsts, cases, strict=True) for _ in part]
    encoded = tokenizer.encode_batch_fast(texts)
    tree = Tree([(one.ids, first) for one, first in zip(encoded, owners, strict=True)])
    nodes, tokens, rows = torch.tensor(tree.reads).T.contiguous().unbind(0)
    values: Any = torch.empty(len(nodes))
    for batch in passes(tree):
        for place, states in zip(batch, llama.states(tree, batch), strict=True):
            start, stop, _, _ = tree.packs[place]
            low, high = torch.searchsorted(nodes, torch.tensor([start, stop])).tolist()
            if low < high:
                read = nodes[low:high] - start, tokens[low:high]
                values[low:high] = llama.logprobs(states, *read)
    sums = torch.zeros(len(texts), dtype=torch.float64)
    return sums.index_add_(0, rows, values.double()).tolist()  # type: ignore[no-any-return]


if __name__ == "__main__":
    MODEL, CASES, OUT = map(Path, sys.argv[1:])
    with torch.inference_mode():
        found = scored(MODEL, json.loads(CASES.read_text("utf-8")))
    OUT.write_text(json.dumps(found), "utf-8")
