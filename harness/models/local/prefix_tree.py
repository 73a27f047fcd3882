"""Rows of tokens to their prefix tree, and the attention that follows the tree.

Each node is computed once, and attends to the nodes before it in its rows: in packs, over the keys
and values kept of the packs above. Other limits of a model, such as a sliding window, come from the
mask it asks for, applied to the nodes' depths. A model with other demands is refused.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os.path import commonprefix
from typing import TYPE_CHECKING

from harness.lazy import PreTrainedModel, torch

if TYPE_CHECKING:
    from torch import Tensor, device, dtype
    from torch.nn import Module


@dataclass(frozen=True, slots=True, order=True)
class ScoredRow:
    """Token ids of context and choice; the tokens from place `first` on are scored."""

    tokens: tuple[int, ...]
    first: int

    @property
    def fed(self) -> int:
        """How many tokens the model reads: all but the last, which nothing follows."""
        return len(self.tokens) - 1


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """Nodes in depth-first order: the subtree of a node is the nodes before its `ends`.

    `reads` are the pairs of a node and a token that is scored after it; `reads_of` those of a row.
    """

    tokens: tuple[int, ...]
    depths: tuple[int, ...]
    ends: tuple[int, ...]
    reads: tuple[tuple[int, int], ...]
    reads_of: tuple[tuple[int, ...], ...]

    def read_within(self, start: int, stop: int) -> range:
        """The places in `reads` of the nodes from `start` to before `stop`."""
        return range(bisect_left(self.reads, (start,)), bisect_left(self.reads, (stop,)))


@dataclass(frozen=True, slots=True)
class Pack:
    """Nodes from `start` to before `stop`, and the packs `above`, which hold their ancestors."""

    start: int
    stop: int
    above: tuple[int, ...]
    is_above: bool

    @property
    def size(self) -> int:
        """The number of nodes."""
        return self.stop - self.start


def prefix_tree(rows: Sequence[ScoredRow]) -> PrefixTree:
    """Build the tree of the rows' tokens; the last token of a row is scored, not a node."""
    tokens, depths, ends, path = list[int](), list[int](), list[int](), list[int]()
    wanted, before = dict[int, list[tuple[int, int]]](), tuple[int, ...]()
    for place in sorted(range(len(rows)), key=lambda place: rows[place].tokens):
        row, first = rows[place].tokens, rows[place].first
        shared = len(commonprefix([before, row[:-1]]))  # noqa: RUF071 - of token ids
        for node in path[shared:]:
            ends[node] = len(tokens)
        fresh = range(len(tokens), len(tokens) + len(row) - 1 - shared)
        path[shared:] = fresh
        tokens += row[shared:-1]
        depths += range(shared, len(row) - 1)
        ends += fresh
        wanted[place] = list(zip(path[first - 1 :], row[first:], strict=True))
        before = row[:-1]
    for node in path:
        ends[node] = len(tokens)
    reads = sorted({pair for pairs in wanted.values() for pair in pairs})
    number = {pair: at for at, pair in enumerate(reads)}
    reads_of = (tuple(number[pair] for pair in wanted[place]) for place in range(len(rows)))
    return PrefixTree(tuple(tokens), tuple(depths), tuple(ends), tuple(reads), tuple(reads_of))


def packs(tree: PrefixTree, cap: int) -> list[Pack]:
    """Cut the tree into packs of at most `cap` nodes, or unbranched ones: a stem up to its fork."""
    cut, ends = list[Pack](), tree.ends
    pending: list[tuple[int, int, tuple[int, ...]]] = [(0, len(ends), ())]
    while pending:
        start, stop, above = pending.pop()
        for first, last in _gathered(tree, start, stop, cap):
            end, inner, fork = ends[first], range(first + 1, ends[first]), last
            if last - first > cap:  # up to the end of its stem
                fork = next((node for node in inner if ends[node] != end), end)
            cut.append(Pack(first, fork, above, is_above=fork < last))
            if fork < last:
                pending.append((fork, last, (*above, len(cut) - 1)))
    return cut


def _gathered(tree: PrefixTree, start: int, stop: int, cap: int) -> Iterator[tuple[int, int]]:
    """Join neighbouring branches up to `cap` nodes; a larger one stays by itself."""
    first = node = start
    while node < stop:
        end = tree.ends[node]
        if end - first > cap and first < node:
            yield first, node
            first = node
        node = end
    if first < stop:
        yield first, stop


def passes(
    tree: PrefixTree, parts: Sequence[Pack], *, most_nodes: int, most_reads: int
) -> Iterator[list[int]]:
    """Group packs into passes, packs above first, of so many nodes and reads or of one pack."""
    batch, nodes, reads = list[int](), 0, 0
    for place in sorted(range(len(parts)), key=lambda place: parts[place].start):
        part = parts[place]
        size = part.size
        read = len({tree.reads[at][0] for at in tree.read_within(part.start, part.stop)})
        if batch and (nodes + size > most_nodes or reads + read > most_reads):
            yield batch
            batch, nodes, reads = [], 0, 0
        batch.append(place)
        nodes, reads = nodes + size, reads + read
    if batch:
        yield batch


NAME = "prefix_tree"
WITHOUT_EFFECT = frozenset({"dropout", "is_causal", "position_ids", "sliding_window", "use_cache"})
"""Options of attention functions that say nothing the mask does not say, or nothing here."""
Sees = Callable[[int, int, "Tensor", "Tensor"], "Tensor"]
"""Whether a position may attend to another: of a batch row, a head, positions of both."""


class TreeRefusal(Exception):
    """A model cannot follow a prefix tree; the message says why."""


class TreeAttention:
    """The attention of the nodes of one tree, pass by pass, packs above first."""

    def __init__(self, tree: PrefixTree, parts: Sequence[Pack], device: "device") -> None:
        """Keep the tree; `parts` are its packs."""
        self._parts, self._ends_of = parts, tree.ends
        self._depths = torch.tensor(tree.depths, device=device)
        self._ends = torch.tensor(tree.ends, device=device)
        self._kept: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        self._masks: dict[tuple[int, Sees], Tensor] = {}
        self._batch: Sequence[int] = ()
        self._layers = 0

    def begin(self, batch: Sequence[int]) -> None:
        """Begin a forward pass over some packs; each layer must ask for attention once."""
        self._batch, self._layers, self._masks = batch, 0, {}

    def finish(self, layers: int) -> None:
        """Check a forward pass of so many layers, and drop what no later pass reads."""
        done = self._parts[self._batch[-1]].stop
        ends = {place: self._ends_of[self._parts[place].start] for place, _ in self._kept}
        self._kept = {key: pair for key, pair in self._kept.items() if ends[key[0]] > done}
        if self._layers != layers:
            raise TreeRefusal(f"{self._layers} of its {layers} layers use the exchanged attention")

    def attend(
        self,
        module: "Module",
        query: "Tensor",
        key: "Tensor",
        value: "Tensor",
        attention_mask: Sees | None,
        scaling: float | None = None,
        **options: object,
    ) -> tuple["Tensor", None]:
        """Attend from each node of the pass to its ancestors: transformers asks each layer."""
        wanted = [
            name for name, given in options.items() if given is not None and given is not False
        ]
        if unknown := sorted({*wanted} - WITHOUT_EFFECT):
            raise TreeRefusal(f"its attention has {' and '.join(unknown)}")
        if not callable(attention_mask):
            raise TreeRefusal("it makes its own masks")
        sdpa = torch.nn.functional.scaled_dot_product_attention
        layer, self._layers = self._layers, self._layers + 1
        groups, start = query.shape[1] // key.shape[1], 0
        attended = query.new_empty(1, query.shape[2], query.shape[1], value.shape[3])
        for place in self._batch:
            part = self._parts[place]
            span = slice(start, start := start + part.size)
            keys, values = key[:, :, span], value[:, :, span]
            if part.is_above:
                self._kept[place, layer] = keys.clone(), values.clone()
            if part.above:
                above = [self._kept[each, layer] for each in part.above]
                pairs = zip(*above, (keys, values), strict=True)
                keys, values = (torch.cat(sides, dim=2) for sides in pairs)
            if groups > 1:
                keys = keys.repeat_interleave(groups, dim=1)
                values = values.repeat_interleave(groups, dim=1)
            mask = self._mask(place, attention_mask, query.dtype)
            heads = sdpa(query[:, :, span], keys, values, attn_mask=mask, scale=scaling)
            attended[:, span] = heads.transpose(1, 2)
        return attended, None

    def _mask(self, place: int, sees: Sees, dtype: "dtype") -> "Tensor":
        if (place, sees) in self._masks:
            return self._masks[place, sees]
        parts, device = self._parts, self._depths.device
        spans = [parts[each] for each in (*parts[place].above, place)]
        nodes = torch.cat([torch.arange(s.start, s.stop, device=device) for s in spans])
        own = nodes[-parts[place].size :, None]
        seen = (nodes <= own) & (own < self._ends[nodes])
        seen &= sees(0, 0, self._depths[own], self._depths[nodes][None])
        mask = torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill_(~seen, -torch.inf)
        return self._masks.setdefault((place, sees), mask)


@contextmanager
def attending(model: PreTrainedModel, tree: TreeAttention) -> Iterator[None]:
    """Exchange the model's attention for the tree's inside the block."""
    # Layers look their attention up in the configuration of the model they are part of. The method
    # that sets it does more: it warns, checks packages, and refuses names the hub does not know.
    from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

    AttentionInterface.register(NAME, tree.attend)
    # The mask a model asks for is not a tensor but the rule, which is applied to depths.
    AttentionMaskInterface.register(NAME, lambda *, mask_function, **_: mask_function)
    inner = [part.config for part in model.modules() if isinstance(part, PreTrainedModel)]
    own = {id(config): (config, config._attn_implementation_internal) for config in inner}
    try:
        for config, _ in own.values():
            config._attn_implementation_internal = NAME
        yield
    finally:
        for config, attention in own.values():
            config._attn_implementation_internal = attention
