"""Requests to responses through a checkpoint run by transformers in this process.

A response depends on its request and the model alone, not on the order of requests or on the
batch; log-probabilities of choices do so up to rounding.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from math import isfinite
from typing import Any

from harness.core import Request, Response
from harness.errors import ModelError
from harness.lazy import PreTrainedModel, Tensor, torch
from harness.models.extras import require
from harness.models.local import tokenization
from harness.models.local.checkpoints import Checkpoint, load_weights, open_spec
from harness.models.local.choice_scoring import ChoiceScorer, split, token_batches
from harness.models.local.prefix_tree import ScoredRow
from harness.models.local.tokenization import ChoiceTokens
from harness.models.spread import Part
from harness.parts import Mode, Reason
from harness.specs.models import TransformersSpec


@dataclass(frozen=True, slots=True)
class SamplingRow:
    """One reply to sample; temperature 0 takes the likeliest token at each step."""

    prompt: tuple[int, ...]
    max_tokens: int
    temperature: float
    seed: int

    @property
    def shape(self) -> tuple[int, int]:
        """The most tokens to sample, and the number of prompt tokens."""
        return self.max_tokens, len(self.prompt)


Sampled = tuple[tuple[int, ...], bool]
"""The tokens sampled for one row, and whether they are cut; else the end token is last."""


class Sampler:
    """A loaded model that samples by our settings and keeps only its own end tokens."""

    def __init__(self, model: PreTrainedModel, *, end: int | None) -> None:
        """Take a model; `end` is the tokenizer's end token, the model may name more."""
        from transformers import GenerationConfig

        named = model.generation_config.eos_token_id
        ends = named if isinstance(named, list) else [named]
        self.ends = sorted({token for token in [end, *ends] if token is not None})
        self.model = model
        model.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]  # unannotated

    def sample(self, rows: Sequence[SamplingRow]) -> list[Sampled]:
        """Sample for rows of equal max_tokens in one batch, prompts padded on the left."""
        from transformers import GenerationConfig

        width = max(len(row.prompt) for row in rows)
        padding = self.ends[0] if self.ends else 0
        ids = [[padding] * (width - len(row.prompt)) + list(row.prompt) for row in rows]
        mask = [[0] * (width - len(row.prompt)) + [1] * len(row.prompt) for row in rows]
        settings = GenerationConfig(  # type: ignore[no-untyped-call]  # unannotated
            max_new_tokens=rows[0].max_tokens,
            do_sample=False,
            eos_token_id=self.ends or None,
            pad_token_id=padding,
        )
        with torch.inference_mode():
            sampled = self.model.generate(  # type: ignore[operator]  # mixed in by subclasses
                torch.tensor(ids, device=self.model.device),
                attention_mask=torch.tensor(mask, device=self.model.device),
                generation_config=settings,
                logits_processor=[row_noise(rows)],
            )
        replies = list[Sampled]()
        for tokens in sampled[:, width:].tolist():
            end = next((at for at, token in enumerate(tokens, start=1) if token in self.ends), None)
            replies.append((tuple(tokens[:end]), end is None))
        return replies


def row_noise(rows: Sequence[SamplingRow]) -> Callable[[Tensor, Tensor], Tensor]:
    """Add Gumbel noise to the logits of each row whose temperature is not 0.

    Their likeliest token is then a sample from the softmax (Maddison, Tarlow and Minka 2014, "A*
    sampling"). Uniforms come from one CPU generator a row: they are equal on every device.
    """
    noisy = [at for at, row in enumerate(rows) if row.temperature > 0]
    generators = [torch.Generator().manual_seed(rows[at].seed) for at in noisy]

    def add(_: Tensor, logits: Tensor) -> Tensor:
        if not noisy:
            return logits
        uniform = torch.stack([torch.rand(logits.shape[1], generator=g) for g in generators])
        gumbel = -torch.log(-torch.log(uniform.to(logits.device)))
        temperatures = torch.tensor([[rows[at].temperature] for at in noisy], device=logits.device)
        changed = logits.clone()
        changed[noisy] = logits[noisy] / temperatures + gumbel
        return changed

    return add


WINDOW = 2048  # requests to write at once: enough to sort by length, few enough to save memory
CHOICES = 256  # requests to choose at once: enough to share what their prompts share
Batch = tuple[Sequence[SamplingRow] | Sequence[ScoredRow], Callable[[Any], Iterator[Response]]]
"""Rows that are computed together, and their results to responses; a refusal has no rows."""
_Choosing = tuple[Request, ChoiceTokens]
_Writing = tuple[Request, Sequence[SamplingRow]]


class TransformersModel(tokenization.CheckpointModel[TransformersSpec]):
    """A checkpoint on this machine."""

    kind = "transformers"

    def _identify(self) -> tuple[str, str | None]:
        """Version and tokenizer of the checkpoint, its dtype, and `chat-choices` if set."""
        # The revision is seven digits of the hub's commit or of the folder's fingerprint.
        chat = ":chat-choices" if self._is_chat else ""
        identity = f"{self.kind}:{self._checkpoint.identity}:{self._dtype}{chat}"
        return identity, self._checkpoint.version[:7]

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once, longest first within a window.

        Requests to choose are scored in groups of 256, in their order; all of a group are answered
        before the next is scored. One that cannot be scored is not counted, so that a run that
        breaks off and is repeated scores the same requests together.
        """
        begun = deque[Batch]()

        def parts() -> Iterator[Part]:
            for rows, answered in self._batches(requests):
                begun.append((rows, answered))
                if rows:
                    yield rows

        for result in self._computed(parts()):
            while not begun[0][0]:
                yield from begun.popleft()[1]([])
            yield from begun.popleft()[1](result)
        for _, answered in begun:
            yield from answered([])

    def _batches(self, requests: Iterable[Request]) -> Iterator[Batch]:
        texts, choices = list[_Writing](), list[_Choosing]()
        for request in requests:
            if isinstance(prepared := self._prepared(request), Response):
                yield [], partial(chain, [prepared])
            elif request.mode is Mode.CHOOSE:
                choices.append((request, prepared))
            else:
                texts.append((request, prepared))
            if len(texts) == WINDOW:
                yield from self._written(texts)
                texts = []
            if len(choices) == CHOICES:
                yield self._scored_together(choices)
                choices = []
        yield from self._written(texts)
        if choices:
            yield self._scored_together(choices)

    def compute(self, part: Part) -> Any:  # noqa: ANN401 - as the rows of the part are
        """Sample a reply for each row, or sum its log-probabilities; None for a row too big."""
        if isinstance(part[0], ScoredRow):
            return self._scorer.sums(part)
        return self._sampled(part)

    def _choosing(self, request: Request, tokens: ChoiceTokens) -> ChoiceTokens | Response:
        if (fed := max(map(len, tokens.rows)) - 1) > self._positions:
            return self._failed(
                request,
                f"context and choice have {fed + 1} tokens, and the model has "
                f"{self._positions} positions; shorten them or use another model",
            )
        return tokens

    def _writing(self, request: Request) -> Sequence[SamplingRow] | Response:
        prompt = tuple(tokenization.prompt_tokens(request.messages, self._checkpoint.tokenizer))
        room = self._positions - len(prompt)
        if room < 1:
            return self._failed(
                request,
                f"the prompt has {len(prompt)} tokens and must leave room for an answer within "
                f"the model's {self._positions}; shorten it or use another model",
            )
        decoding = request.decoding
        row = partial(SamplingRow, prompt, min(decoding.max_tokens, room), decoding.temperature)
        return [row(tokenization.reply_seed(request, at)) for at in range(decoding.n)]

    def _scored_together(self, choices: Sequence[_Choosing]) -> Batch:
        def answered(sums: Sequence[float | None]) -> Iterator[Response]:
            left = iter(sums)
            for request, tokens in choices:
                yield self._chosen(request, tokens, [*islice(left, len(tokens.rows))])

        rows = [row for _, tokens in choices for row in map(ScoredRow, tokens.rows, tokens.firsts)]
        return rows, answered

    def _chosen(
        self, request: Request, tokens: ChoiceTokens, sums: Sequence[float | None]
    ) -> Response:
        totals = [total for total in sums if total is not None]
        if len(totals) < len(sums):
            fact = f"with one row of {max(map(len, tokens.rows))} tokens"
            return self._out_of_memory(request, fact)
        if not all(map(isfinite, totals)):
            fact = f"a choice's log-probability is {min(totals)} in {self._dtype}"
            return self._failed(request, f"{fact}; use another dtype", Reason.FAILED)
        return self._scored(request, tokens, totals)

    def _out_of_memory(self, request: Request, fact: str) -> Response:
        fact = f"out of memory on {self._device} {fact}; use a smaller dtype"
        return self._failed(request, fact, Reason.FAILED)

    def _written(self, texts: Sequence[_Writing]) -> Iterator[Batch]:
        """The batches of a window: requests with equally many replies, of like length."""
        asked: dict[int, list[_Writing]] = {}
        for each in texts:
            asked.setdefault(len(each[1]), []).append(each)
        for replies, group in asked.items():
            budget = max(self._spec.batch_tokens // replies, 1)
            for batch in token_batches(group, budget, shape=lambda each: each[1][0].shape):
                rows = [row for _, own in batch for row in own]
                yield rows, partial(self._replies, batch)

    def _replies(
        self, batch: Sequence[_Writing], sampled: Sequence[Sampled | None]
    ) -> Iterator[Response]:
        left = iter(sampled)
        for request, rows in batch:
            found = [*islice(left, len(rows))]
            replies, prompt = [reply for reply in found if reply is not None], len(rows[0].prompt)
            if len(replies) < len(found):
                fact = f"with one prompt of {prompt} tokens and {rows[0].max_tokens} to draw"
                yield self._out_of_memory(request, fact)
            else:
                yield self._replied(request, prompt, replies)

    def _sampled(self, rows: Sequence[SamplingRow]) -> list[Sampled | None]:
        from torch import OutOfMemoryError

        budget = self._spec.batch_tokens  # which one request with many replies may exceed
        batches = token_batches(rows, budget, shape=lambda row: row.shape)
        parts = (split(batch, self._sampler.sample, too_big=OutOfMemoryError) for batch in batches)
        found = {id(row): sampled for part in parts for row, sampled in part}
        return [found[id(row)] for row in rows]

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        require("torch", "transformers")
        checkpoint = open_spec(self._spec, self._cache)
        if getattr(checkpoint.config, "is_encoder_decoder", False):
            raise ModelError(
                f"{checkpoint.source}: {checkpoint.config.model_type} is an encoder with a "
                "decoder, and local models are causal ones alone; use another checkpoint, or a "
                "server that runs it"
            )
        return checkpoint

    @cached_property
    def _weights(self) -> PreTrainedModel:
        return load_weights(self._checkpoint, dtype=self._dtype, device=self._device)

    @cached_property
    def _sampler(self) -> Sampler:
        return Sampler(self._weights, end=self._checkpoint.tokenizer.eos_token_id)

    @cached_property
    def _scorer(self) -> ChoiceScorer:
        return ChoiceScorer(self._weights, batch_tokens=self._spec.batch_tokens)
