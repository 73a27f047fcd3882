"""Requests to responses through a checkpoint run by transformers in this process.

A response depends on its request and the model alone, not on the order of requests or on the
batch; log-probabilities of choices do so up to rounding. Prompts are never truncated.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import isfinite
from typing import Any

from jinja2 import TemplateError

from harness.core import Request, Response
from harness.errors import DataError, ModelError
from harness.lazy import PreTrainedModel, Tensor, torch
from harness.models.extras import require
from harness.models.local.checkpoints import Checkpoint, device_of, load_weights, open_spec
from harness.models.local.choice_scoring import (
    ChoiceScorer,
    is_rounding,
    split,
    token_batches,
)
from harness.models.local.prefix_tree import ScoredRow
from harness.models.local.tokenization import (
    CheckpointModel,
    ChoiceTokens,
    prompt_tokens,
    reply_seed,
)
from harness.models.spread import Part
from harness.parts import UNBATCHED, Mode, Reason
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


@dataclass(frozen=True, slots=True)
class Sampled:
    """The tokens sampled for one row; the end token is last, unless `is_cut`."""

    tokens: tuple[int, ...]
    is_cut: bool


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
                logits_processor=[RowNoise(rows)],
            )
        replies = []
        for tokens in sampled[:, width:].tolist():
            end = next((at for at, token in enumerate(tokens, start=1) if token in self.ends), None)
            replies.append(Sampled(tuple(tokens[:end]), is_cut=end is None))
        return replies


class RowNoise:
    """Gumbel noise on the logits of each row whose temperature is not 0.

    The likeliest token of noisy logits is a sample from their softmax (Maddison, Tarlow and Minka
    2014, "A* sampling"). Uniforms come from one CPU generator a row, so they are equal on every
    device, whatever else is in the batch.
    """

    def __init__(self, rows: Sequence[SamplingRow]) -> None:
        """Seed the generators of the rows with a temperature."""
        self._noisy = [at for at, row in enumerate(rows) if row.temperature > 0]
        self._temperatures = [[rows[at].temperature] for at in self._noisy]
        self._generators = [torch.Generator().manual_seed(rows[at].seed) for at in self._noisy]

    def __call__(self, tokens: Tensor, logits: Tensor) -> Tensor:
        """Logits whose argmax is the next token."""
        if not self._noisy:
            return logits
        uniform = torch.stack([torch.rand(logits.shape[1], generator=g) for g in self._generators])
        gumbel = -torch.log(-torch.log(uniform.to(logits.device)))
        temperatures = torch.tensor(self._temperatures, device=logits.device)
        noisy = logits.clone()
        noisy[self._noisy] = logits[self._noisy] / temperatures + gumbel
        return noisy


WINDOW = 2048  # requests held at once: enough to sort by length, few enough to save memory
CHOICES = 256
"""Requests to choose that are scored at once: enough to share what their prompts share."""
CHECKED = 100
"""Of one request in so many the longest choice is also scored without batches. Which requests
these are is decided by their keys: what is stored, was killed or has another shard is the same."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Scoring:
    """Rows to score, and those that are also scored without batches."""

    rows: Sequence[ScoredRow]
    checked: Sequence[ScoredRow]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Rows that are computed together, and their results to responses; a refusal has no rows."""

    part: "Sequence[SamplingRow] | _Scoring"
    answered: Callable[[Sequence[Any]], Iterator[Response]]


_Choice = tuple[Request, ChoiceTokens]
_Writing = tuple[Request, Sequence[SamplingRow]]


def _refusal(response: Response) -> _Batch:
    return _Batch([], lambda _: iter([response]))


def _rows(tokens: ChoiceTokens) -> list[ScoredRow]:
    return [*map(ScoredRow, tokens.rows, tokens.firsts)]


def _longest(tokens: ChoiceTokens) -> int:
    """The index of the choice with the most tokens, which has the most to differ in."""
    lengths = [*map(len, tokens.rows)]
    return lengths.index(max(lengths))


class TransformersModel(CheckpointModel[TransformersSpec]):
    """A checkpoint on this machine."""

    kind = "transformers"
    modes = frozenset({Mode.GENERATE, Mode.CHOOSE})

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
        begun: deque[_Batch] = deque()

        def parts() -> Iterator[Part]:
            for batch in self._batches(requests):
                begun.append(batch)
                if batch.part:
                    yield batch.part

        for result in self._computed(parts()):
            while not begun[0].part:
                yield from begun.popleft().answered([])
            yield from begun.popleft().answered(result)
        for batch in begun:
            yield from batch.answered([])

    def _batches(self, requests: Iterable[Request]) -> Iterator[_Batch]:
        """The rows that are computed together; refusals are batches without rows."""
        window: list[Request] = []
        choices: list[_Choice] = []
        for request in requests:
            if request.mode is not Mode.CHOOSE:
                window.append(request)
            elif isinstance(choice := self._choice(request), Response):
                yield _refusal(choice)
            else:
                choices.append(choice)
            if len(window) == WINDOW:
                yield from self._written(window)
                window = []
            if len(choices) == CHOICES:
                yield self._scoring(choices)
                choices = []
        yield from self._written(window)
        if choices:
            yield self._scoring(choices)

    def compute(self, part: Part) -> Any:  # noqa: ANN401 - as the rows of the part are
        """Sample a reply for each row, or sum its log-probabilities; None for a row too big.

        With them come the sums of the rows that are also scored without batches.
        """
        if isinstance(part, _Scoring):
            return self._scorer.sums(part.rows), [*map(self._scorer.alone, part.checked)]
        return self._sampled(part)

    def _choice(self, request: Request) -> _Choice | Response:
        try:
            tokens = self._choice_tokens(request)
        except (TemplateError, DataError) as error:
            return self._refused(request, error)
        if min(tokens.firsts) < 1:
            return self._failed(
                request,
                "there is nothing before the choices, and this model's tokenizer puts no BOS "
                "there; put words before them, or use another model",
            )
        if (fed := max(map(len, tokens.rows)) - 1) > self._positions:
            return self._failed(
                request,
                f"context and choice have {fed + 1} tokens, and the model has "
                f"{self._positions} positions; shorten them or use another model",
            )
        return request, tokens

    def _scoring(self, choices: Sequence[_Choice]) -> _Batch:
        checked = [one for one in choices if int(one[0].key[:8], 16) % CHECKED == 0]

        def answered(result: Sequence[Any]) -> Iterator[Response]:
            sums, alone = iter(result[0]), dict(zip(map(id, checked), result[1], strict=True))
            chosen = [self._chosen(*each, [next(sums) for _ in each[1].rows]) for each in choices]
            for each, response in zip(choices, chosen, strict=True):
                yield self._checked(response, _longest(each[1]), alone.get(id(each)))

        rows = [row for _, tokens in choices for row in _rows(tokens)]
        part = _Scoring(rows, [_rows(tokens)[_longest(tokens)] for _, tokens in checked])
        return _Batch(part, answered)

    def _checked(self, response: Response, place: int, alone: float | None) -> Response:
        """The response, with how far a choice is from its unbatched score where there is one."""
        scores = response.choice_scores
        if scores is None or alone is None:
            return response
        apart = abs(scores[place].logprob - alone)
        if not is_rounding(apart, self._dtype):
            _log.warning(
                "%s: choices scored together are up to %.2g nats from the same scored one by one; "
                "compare with a smaller batch_tokens, or with another dtype",
                self.name,
                apart,
            )
        return replace(response, detail={**response.detail, UNBATCHED: round(apart, 9)})

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

    def _written(self, window: Sequence[Request]) -> Iterator[_Batch]:
        """The batches of a window: requests with equally many replies, of like length."""
        asked: dict[int, list[_Writing]] = {}
        for request in window:
            if isinstance(prepared := self._prepare(request), Response):
                yield _refusal(prepared)
            else:
                asked.setdefault(len(prepared[1]), []).append(prepared)
        for replies, group in asked.items():
            budget = max(self._spec.batch_tokens // replies, 1)
            for batch in token_batches(group, budget, shape=lambda each: each[1][0].shape):
                yield self._writing(batch)

    def _writing(self, batch: Sequence[_Writing]) -> _Batch:
        def answered(result: Sequence[Any]) -> Iterator[Response]:
            replies = iter(result)
            for request, rows in batch:
                yield self._response(request, rows[0], [next(replies) for _ in rows])

        return _Batch([row for _, rows in batch for row in rows], answered)

    def _prepare(self, request: Request) -> _Writing | Response:
        if request.mode not in self.modes:
            fact = f"{self.name} cannot {request.mode}; it can {', '.join(sorted(self.modes))}"
            return Response.failed(request.key, Reason.UNSUPPORTED, fact)
        try:
            prompt = tuple(prompt_tokens(request.messages, self._checkpoint.tokenizer))
        except TemplateError as error:
            return self._refused(request, error)
        room = self._positions - len(prompt)
        if room < 1:
            return self._failed(
                request,
                f"the prompt has {len(prompt)} tokens and must leave room for an answer within "
                f"the model's {self._positions}; shorten it or use another model",
            )
        decoding = request.decoding
        row = partial(SamplingRow, prompt, min(decoding.max_tokens, room), decoding.temperature)
        return request, [row(reply_seed(request, at)) for at in range(decoding.n)]

    def _sampled(self, rows: Sequence[SamplingRow]) -> list[Sampled | None]:
        from torch import OutOfMemoryError

        found: dict[int, Sampled | None] = {}

        def sample(places: Sequence[int]) -> list[Sampled]:
            return self._sampler.sample([rows[place] for place in places])

        budget = self._spec.batch_tokens  # which one request with many replies may exceed
        for batch in token_batches(range(len(rows)), budget, shape=lambda at: rows[at].shape):
            found |= split(batch, sample, too_big=OutOfMemoryError)
        return [found[place] for place in range(len(rows))]

    def _response(
        self, request: Request, row: SamplingRow, sampled: Sequence[Sampled | None]
    ) -> Response:
        replies = [reply for reply in sampled if reply is not None]
        if len(replies) < len(sampled):
            fact = f"with one prompt of {len(row.prompt)} tokens and {row.max_tokens} to draw"
            return self._out_of_memory(request, fact)
        return self._replied(request, len(row.prompt), [(r.tokens, r.is_cut) for r in replies])

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

    @property
    def _device(self) -> str:
        return device_of(self._spec.device)
