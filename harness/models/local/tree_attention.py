"""Attention along a prefix tree, put into a transformers model in the place of its own.

A node attends to what it stands behind and to nothing else, in packs, over the keys and values
kept of the packs above. What else the model holds to, such as a sliding window, is asked of the
mask it wants, by the nodes' depths. A model that wants what is not known here is refused.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from harness.models.local.prefix_tree import Pack, PrefixTree

if TYPE_CHECKING:
    from torch import Tensor, device, dtype
    from torch.nn import Module
    from transformers import PreTrainedModel

NAME = "prefix_tree"
WITHOUT_EFFECT = frozenset({"dropout", "is_causal", "position_ids", "sliding_window", "use_cache"})
"""Options of attention functions that say nothing the mask does not say, or nothing here."""

Sees = Callable[[int, int, "Tensor", "Tensor"], "Tensor"]
"""Whether a position may attend to another: of a batch row, a head, positions of both."""

_following: ContextVar["TreeAttention"] = ContextVar("_following")


class TreeRefusal(Exception):
    """Why a model cannot follow a prefix tree."""


class TreeAttention:
    """The attention of the nodes of one tree, pass by pass, packs above first."""

    def __init__(self, tree: PrefixTree, parts: Sequence[Pack], device: "device") -> None:
        """Note the tree; `parts` are its packs."""
        import torch

        self._parts, self._ends_of = parts, tree.ends
        self._depths = torch.tensor(tree.depths, device=device)
        self._ends = torch.tensor(tree.ends, device=device)
        self._kept: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        self._masks: dict[tuple[int, Sees], Tensor] = {}
        self._batch: Sequence[int] = ()
        self._layers = 0

    @contextmanager
    def computing(self, batch: Sequence[int], layers: int) -> Iterator[None]:
        """One forward pass over the packs, which must ask for attention once a layer.

        Packs above others may be in the same pass, before them, or in an earlier one.
        """
        self._batch, self._layers, self._masks = batch, 0, {}
        before = _following.set(self)
        try:
            yield
        finally:
            _following.reset(before)
        self._forget(before=self._parts[batch[-1]].stop)
        if self._layers != layers:
            raise TreeRefusal(f"{self._layers} of its {layers} layers attend as they are told to")

    def _forget(self, before: int) -> None:
        """Let go of what only nodes before one attend to."""
        ends = {place: self._ends_of[self._parts[place].start] for place, _ in self._kept}
        self._kept = {key: pair for key, pair in self._kept.items() if ends[key[0]] > before}

    def attend(
        self, query: "Tensor", key: "Tensor", value: "Tensor", *, scale: float | None, sees: Sees
    ) -> "Tensor":
        """What each node of the pass takes from those it stands behind: (1, nodes, heads, size)."""
        import torch

        sdpa = torch.nn.functional.scaled_dot_product_attention
        layer, self._layers = self._layers, self._layers + 1
        groups, start = query.shape[1] // key.shape[1], 0
        found = query.new_empty(1, query.shape[2], query.shape[1], value.shape[3])
        for place in self._batch:
            span = slice(start, start := start + self._parts[place].size)
            keys, values = self._with_above(place, layer, key[:, :, span], value[:, :, span])
            if groups > 1:
                keys = keys.repeat_interleave(groups, dim=1)
                values = values.repeat_interleave(groups, dim=1)
            mask = self._mask(place, sees, query.dtype)
            taken = sdpa(query[:, :, span], keys, values, attn_mask=mask, scale=scale)
            found[:, span] = taken.transpose(1, 2)
        return found

    def _with_above(
        self, place: int, layer: int, key: "Tensor", value: "Tensor"
    ) -> tuple["Tensor", "Tensor"]:
        """Keys and values of a pack behind those of the packs above it; kept where wanted."""
        import torch

        part = self._parts[place]
        if part.is_above:
            self._kept[place, layer] = key.clone(), value.clone()
        if not part.above:
            return key, value
        above = [self._kept[each, layer] for each in part.above]
        keys, values = zip(*above, (key, value), strict=True)
        return torch.cat(keys, dim=2), torch.cat(values, dim=2)

    def _mask(self, place: int, sees: Sees, dtype: "dtype") -> "Tensor":
        """What the nodes of a pack see of those above and of one another, to be added."""
        import torch

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
def attending(model: "PreTrainedModel") -> Iterator[None]:
    """The model with its attention exchanged; it has its own again after.

    Layers look their attention up in the configuration of the model they are part of. The method
    that sets it does more: it warns, checks packages, and refuses what has no name in the hub.
    """
    from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, _wanted_mask)
    inner = [part.config for part in model.modules() if isinstance(part, PreTrainedModel)]
    own = {id(config): (config, config._attn_implementation_internal) for config in inner}
    try:
        for config, _ in own.values():
            config._attn_implementation_internal = NAME
        yield
    finally:
        for config, attention in own.values():
            config._attn_implementation_internal = attention


def _wanted_mask(*, mask_function: Sees, **_: object) -> Sees:
    """The mask a model wants: not a tensor, but the rule, which the attention applies to depths."""
    return mask_function


def _attention(
    module: "Module",
    query: "Tensor",
    key: "Tensor",
    value: "Tensor",
    attention_mask: Sees | None,
    scaling: float | None = None,
    **options: object,
) -> tuple["Tensor", None]:
    """What transformers calls in every layer, with what a model wants beyond the usual."""
    wanted = [name for name, value in options.items() if value is not None and value is not False]
    if unknown := sorted(set(wanted) - WITHOUT_EFFECT):
        raise TreeRefusal(f"its attention has {' and '.join(unknown)}")
    if not callable(attention_mask):
        raise TreeRefusal("it makes its own masks")
    following = _following.get()
    return following.attend(query, key, value, scale=scaling, sees=attention_mask), None
