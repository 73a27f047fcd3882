"""Rows of tokens to the log-probabilities of their scored ends, through a loaded causal model.

A model scores in the fastest mode in which a few short rows equal the same rows scored one by one.
"""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from functools import cached_property
from inspect import signature
from itertools import islice
from math import fsum
from typing import Any, TypeVar

from harness.errors import ModelError
from harness.lazy import PretrainedConfig, PreTrainedModel, Tensor, torch
from harness.models.local import prefix_tree as trees
from harness.models.local.prefix_tree import PrefixTree, ScoredRow, TreeRefusal

Item = TypeVar("Item")
Result = TypeVar("Result")


def token_batches(
    rows: Iterable[Item], budget: int, *, shape: Callable[[Item], tuple[int, int]]
) -> Iterator[list[Item]]:
    """Split rows into batches, longest first; only a single row may exceed the budget.

    `shape` returns a row's tokens to sample, equal in a batch, and its prompt tokens; a batch costs
    its number of rows times its longest row.
    """
    batch: list[Item] = []
    sampled, cost = 0, 0
    for row in sorted(rows, key=shape, reverse=True):
        if batch and (shape(row)[0] != sampled or (len(batch) + 1) * cost > budget):
            yield batch
            batch = []
        if not batch:
            sampled, cost = shape(row)[0], sum(shape(row))
        batch.append(row)
    if batch:
        yield batch


def split(
    batch: Sequence[Item],
    run: Callable[[Sequence[Item]], Sequence[Result]],
    *,
    too_big: type[Exception],
) -> Iterator[tuple[Item, Result | None]]:
    """Run a batch, halving it when `run` raises `too_big`; None for a row too big by itself."""
    pending = [batch]
    while pending:
        rows, results = pending.pop(), None
        with suppress(too_big):  # which frees what the exception refers to
            results = run(rows)
        if results is not None:
            yield from zip(rows, results, strict=True)
        elif len(rows) == 1:
            yield rows[0], None
        else:
            pending += [rows[len(rows) // 2 :], rows[: len(rows) // 2]]


CPU_TOKENS = 2048  # tokens of one pass on a CPU: more gain nothing there
PACK_NODES = 256
"""Larger packs attend to more that is then masked; smaller ones leave more of a fork to stems."""
MOST_LOGITS = 1 << 27
BLOCK = 64  # positions whose logits are normalised at a time: few enough to stay in a CPU's cache
EXACT = 1e-4
TOLERANCES = {"float16": 0.05, "bfloat16": 0.3}
"""How far apart the sums of a short row may be in half types, in nats: by rounding alone."""
LEAK = 0.5  # nats that no rounding makes: some models round so coarsely that 0.2 is nothing

_log = logging.getLogger(__name__)


class ScoringMode(Enum):
    """How rows are scored together; the values complete `choices are scored ...`."""

    TREE = "as a prefix tree"
    PADDED = "in padded batches"
    ALONE = "one by one"


class ChoiceScorer:
    """Sum the log-probabilities of the scored tokens of rows, by a loaded causal model."""

    def __init__(self, model: PreTrainedModel, *, batch_tokens: int) -> None:
        """Wrap a model; `batch_tokens` bounds the tokens of a pass, with padding."""
        text = model.config.get_text_config()
        self._model, self._layers, self._vocabulary = model, text.num_hidden_layers, text.vocab_size
        is_cpu = model.device.type == "cpu"
        self._most_nodes = min(batch_tokens, CPU_TOKENS) if is_cpu else batch_tokens
        self._most_reads = max(MOST_LOGITS // self._vocabulary, 1)
        self._stretched = _stretched_beyond(text)
        self._takes = set(signature(model.forward).parameters)
        # Kept for rows that refuse a tree, and no others: what computes elsewhere knows none.
        self._fallback: ScoringMode | None = None

    def sums(self, rows: Sequence[ScoredRow]) -> list[float | None]:
        """Sum each row's log-probabilities, in nats; None where it does not fit in memory."""
        try:
            return self._sums(rows, self.mode)
        except TreeRefusal as refusal:  # of these long rows: short ones have been tried
            self._fallback = self._fallback or self._mode_without_tree(str(refusal))
            return self._sums(rows, self._fallback)

    def _sums(self, rows: Sequence[ScoredRow], mode: ScoringMode) -> list[float | None]:
        from torch import OutOfMemoryError

        sums: dict[ScoredRow, float | None] = {}
        run = self._as_tree if mode is ScoringMode.TREE else self._padded
        for batch in self._batches(sorted(set(rows)), mode):
            sums |= split(batch, run, too_big=OutOfMemoryError)
        return [sums[row] for row in rows]

    def _batches(self, rows: Sequence[ScoredRow], mode: ScoringMode) -> Iterator[list[ScoredRow]]:
        """Rows that are computed together; a tree is cut into passes later."""
        together = [row for row in rows if row.fed <= self._stretched]
        yield from ([row] for row in rows if row.fed > self._stretched)
        if mode is ScoringMode.TREE:
            yield from [together] if together else []
        else:
            most = min(self._most_nodes, self._most_reads) if mode is ScoringMode.PADDED else 1
            yield from token_batches(together, most, shape=lambda row: (0, row.fed))

    @cached_property
    def mode(self) -> ScoringMode:
        """The fastest mode whose sums equal those of short rows scored one by one."""
        reason = self._unfit()
        return ScoringMode.TREE if reason is None else self._mode_without_tree(reason)

    def _mode_without_tree(self, reason: str) -> ScoringMode:
        rows, plain = self._trial
        for row, total in zip(rows, plain, strict=True):
            self._check_causal(row, total)
        mode = ScoringMode.PADDED if self._is_near(self._padded(rows), plain) else ScoringMode.ALONE
        name = self._model.config.model_type
        _log.warning("choices are scored %s by this %s model: %s", mode.value, name, reason)
        return mode

    @cached_property
    def _trial(self) -> tuple[list[ScoredRow], list[float]]:
        tokens = [(31 * at * at + 7 * at + 11) % self._vocabulary for at in range(32)]
        stem, branch = tokens[:8], tokens[8:12]
        ends = [[*branch, *tokens[12:17]], [*branch, *tokens[17:20]], tokens[20:26]]
        rows = [ScoredRow((*stem, *end), len(stem) + 2) for end in ends]
        return rows, [self._padded([row])[0] for row in rows]

    def _unfit(self) -> str | None:
        """Why the model cannot follow a tree, tried in passes of a few nodes; None if it can."""
        if not getattr(self._model, "_supports_attention_backend", False):
            return "its attention cannot be exchanged"
        if missing := sorted({"position_ids", "logits_to_keep"} - self._takes):
            return f"it takes no {' and '.join(missing)}"
        rows, plain = self._trial
        try:
            sums = self._as_tree(rows, pack_nodes=6, most_nodes=12)
        except (TreeRefusal, RuntimeError, TypeError, ValueError, LookupError, AttributeError) as e:
            return " ".join(str(e).split())[:200] or type(e).__name__
        return None if self._is_near(sums, plain) else "a prefix tree gives other values"

    def _check_causal(self, row: ScoredRow, plain: float) -> None:
        ends = range(row.first + 1, len(row.tokens) + 1)
        steps = [self._padded([ScoredRow(row.tokens[:end], end - 1)])[0] for end in ends]
        if abs(fsum(steps) - plain) > LEAK:
            raise ModelError(
                f"{self._model.name_or_path}: this {self._model.config.model_type} model is not "
                "causal: what follows a token changes its probability; use another checkpoint"
            )

    def _is_near(self, sums: Sequence[float], plain: Sequence[float]) -> bool:
        most = TOLERANCES.get(str(self._model.dtype).removeprefix("torch."), EXACT)
        return all(abs(one - other) <= most for one, other in zip(sums, plain, strict=True))

    def _as_tree(
        self, rows: Sequence[ScoredRow], pack_nodes: int = PACK_NODES, most_nodes: int | None = None
    ) -> list[float]:
        tree = trees.prefix_tree(rows)
        parts = trees.packs(tree, pack_nodes)
        attention = trees.TreeAttention(tree, parts, self._model.device)
        values = torch.empty(len(tree.reads))
        budget = {"most_nodes": most_nodes or self._most_nodes, "most_reads": self._most_reads}
        with torch.inference_mode(), trees.attending(self._model, attention):
            for batch in trees.passes(tree, parts, **budget):
                spans = [(parts[place].start, parts[place].stop) for place in batch]
                nodes = [node for start, stop in spans for node in range(start, stop)]
                reads = [at for start, stop in spans for at in tree.read_within(start, stop)]
                attention.begin(batch)
                values[reads] = self._pass(tree, nodes, reads)
                attention.finish(self._layers)
        logprobs = values.tolist()
        return [fsum(logprobs[at] for at in ids) for ids in tree.reads_of]

    def _pass(self, tree: PrefixTree, nodes: Sequence[int], reads: Sequence[int]) -> Tensor:
        wanted = [tree.reads[at] for at in reads]
        kept = sorted({node for node, _ in wanted}) or nodes[:1]
        place, number = ({node: at for at, node in enumerate(some)} for some in (nodes, kept))
        logits = self._logits(
            torch.tensor([[tree.tokens[node] for node in nodes]]),
            [place[node] for node in kept],
            attention_mask=torch.ones(1, len(nodes), dtype=torch.long),
            position_ids=torch.tensor([[tree.depths[node] for node in nodes]]),
        )
        tokens = [token for _, token in wanted]
        return _log_probabilities(logits[0], [number[node] for node, _ in wanted], tokens)

    def _padded(self, rows: Sequence[ScoredRow]) -> list[float]:
        """The sums of rows in one batch, padded on the right, where no token attends."""
        width = max(row.fed for row in rows)
        lines = {tokens: at for at, tokens in enumerate(dict.fromkeys(r.tokens[:-1] for r in rows))}
        fed = [[*tokens, *[0] * (width - len(tokens))] for tokens in lines]
        mask = [[1] * len(tokens) + [0] * (width - len(tokens)) for tokens in lines]
        reads = [(row, place) for row in rows for place in range(row.first - 1, row.fed)]
        kept = sorted({place for _, place in reads})
        number = {place: at for at, place in enumerate(kept)}
        places = [lines[row.tokens[:-1]] * len(kept) + number[place] for row, place in reads]
        tokens = [row.tokens[place + 1] for row, place in reads]
        with torch.inference_mode():
            logits = self._logits(torch.tensor(fed), kept, attention_mask=torch.tensor(mask))
            logprobs = iter(_log_probabilities(logits.flatten(0, 1), places, tokens).tolist())
        return [fsum(islice(logprobs, len(row.tokens) - row.first)) for row in rows]

    def _logits(self, ids: Tensor, kept: Sequence[int], **given: Tensor) -> Tensor:
        """The model's logits at some positions only: (rows, positions, vocabulary)."""
        device = self._model.device
        options: dict[str, Any] = {name: tensor.to(device) for name, tensor in given.items()}
        wanted = torch.tensor(kept, device=device)
        if "logits_to_keep" in self._takes:
            options["logits_to_keep"] = wanted
        logits: Tensor = self._model(input_ids=ids.to(device), use_cache=False, **options).logits
        return logits if logits.shape[1] == len(kept) else logits[:, wanted]


def _log_probabilities(logits: Tensor, places: Sequence[int], tokens: Sequence[int]) -> Tensor:
    """The log-probability, in float32, of a token at each of (places, vocabulary)."""
    totals = torch.cat([block.float().logsumexp(-1) for block in torch.split(logits, BLOCK)])
    return (logits[places, tokens].float() - totals[places]).cpu()


def _stretched_beyond(config: PretrainedConfig) -> int:
    """The longest row that leaves the rotary frequencies of its batch as they are (longrope)."""
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    parts = [part for part in rope.values() if isinstance(part, dict)] or [rope]
    stretched = [part for part in parts if part.get("rope_type", part.get("type")) == "longrope"]
    own = getattr(config, "original_max_position_embeddings", None)
    limits = [part.get("original_max_position_embeddings") or own for part in stretched]
    return min((limit for limit in limits if limit), default=sys.maxsize)
