"""Requests to responses through a checkpoint run by transformers in this process.

A response depends on its request and the model alone, not on the order of requests or on the
batch; log-probabilities of choices do so up to rounding. Prompts are never truncated.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from harness.core import Request, Response
from harness.errors import DataError, ModelError
from harness.models.custom import ModelContext
from harness.models.extras import require
from harness.models.identity import Resolvable
from harness.models.local.checkpoints import (
    Checkpoint,
    device_of,
    dtype_of,
    load_weights,
    open_spec,
    position_limit,
)
from harness.models.local.choice_scoring import ChoiceScorer, split, token_batches
from harness.models.local.prefix_tree import ScoredRow
from harness.models.local.sampling import Sampled, Sampler, SamplingRow, reply_seed
from harness.models.local.token_report import prompt_size
from harness.models.local.tokenization import (
    ChoiceTokens,
    choice_tokens,
    prompt_tokens,
    reply_text,
)
from harness.parts import Mode, Reason, Usage
from harness.specs.models import TransformersSpec

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WINDOW = 2048
"""Requests held at once: enough to sort by length, few enough to save memory."""
CHOICES = 256
"""Requests to choose that are scored at once: enough to share what their prompts share."""


@dataclass(frozen=True, slots=True)
class _ReplyRow:
    place: int
    reply: int
    row: SamplingRow


@dataclass(frozen=True, slots=True)
class _Choice:
    """A request to choose that can be scored, and its choices' tokens."""

    request: Request
    tokens: ChoiceTokens

    @property
    def rows(self) -> list[ScoredRow]:
        pairs = zip(self.tokens.rows, self.tokens.firsts, strict=True)
        return [ScoredRow(row, first) for row, first in pairs]


class TransformersModel(Resolvable):
    """A checkpoint on this machine; tokenizer and weights are opened when needed.

    `cache` is the folder for checkpoints that are built, not downloaded.
    """

    kind = "transformers"
    modes = frozenset({Mode.GENERATE, Mode.CHOOSE})

    def __init__(self, name: str, spec: TransformersSpec, cache: Path) -> None:
        """Keep what to run; nothing is opened yet."""
        self.name = name
        self._spec = spec
        self._cache = cache

    @classmethod
    def build(cls, name: str, spec: TransformersSpec, context: ModelContext) -> "TransformersModel":
        """Build the model of a spec."""
        return cls(name, spec, context.cache / "checkpoints")

    def _identify(self) -> tuple[str, str | None]:
        """Version and tokenizer of the checkpoint, its dtype, and `chat-choices` if set.

        The revision is seven digits of the hub's commit or of the folder's fingerprint.
        """
        chat = ":chat-choices" if self._is_chat else ""
        identity = f"{self.kind}:{self._checkpoint.identity}:{self._dtype}{chat}"
        return identity, self._checkpoint.version[:7]

    def prompt_size(self, request: Request) -> int:
        """Count the tokens of a request's prompt; no weights are loaded."""
        return prompt_size(request, self._checkpoint.tokenizer, is_chat=self._is_chat)

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once, longest first within a window.

        Requests to choose are scored in groups of 256, in their order; all of a group are answered
        before the next is scored. One that cannot be scored is not counted, so that a run that
        breaks off and is repeated scores the same requests together.
        """
        window: list[Request] = []
        choices: list[_Choice] = []
        for request in requests:
            if request.mode is not Mode.CHOOSE:
                window.append(request)
            elif isinstance(choice := self._choice(request), Response):
                yield choice
            else:
                choices.append(choice)
            if len(window) == WINDOW:
                yield from self._answer_window(window)
                window = []
            if len(choices) == CHOICES:
                yield from self._choose(choices)
                choices = []
        yield from self._answer_window(window)
        yield from self._choose(choices)

    def _choice(self, request: Request) -> _Choice | Response:
        unsupported = partial(Response.failed, request.key, Reason.UNSUPPORTED)
        try:
            tokens = choice_tokens(
                request.messages,
                request.choices,
                self._checkpoint.tokenizer,
                is_chat=self._is_chat,
            )
        except TemplateError as error:
            return unsupported(f"{self.name}: its chat template refuses these turns: {error}")
        except DataError as error:
            return unsupported(f"{self.name}: {error}")
        if min(tokens.firsts) < 1:
            return unsupported(
                f"{self.name}: nothing stands before the choices, and this model's tokenizer puts "
                "no BOS there; put words before them, or use another model"
            )
        if (fed := max(map(len, tokens.rows)) - 1) > self._positions:
            return unsupported(
                f"{self.name}: context and choice have {fed + 1} tokens, and the model has "
                f"{self._positions} positions; shorten them or use another model"
            )
        return _Choice(request, tokens)

    def _choose(self, choices: Sequence[_Choice]) -> Iterator[Response]:
        if not choices:
            return
        sums = iter(self._scorer.sums([row for each in choices for row in each.rows]))
        yield from [self._scored(each, [next(sums) for _ in each.rows]) for each in choices]

    def _scored(self, choice: _Choice, sums: Sequence[float | None]) -> Response:
        request, tokens = choice.request, choice.tokens
        failed = partial(Response.failed, request.key, Reason.FAILED)
        totals = [total for total in sums if total is not None]
        if len(totals) < len(sums):
            return failed(
                f"{self.name}: out of memory on {self._device} with one row of "
                f"{max(map(len, tokens.rows))} tokens; use a smaller dtype"
            )
        if not all(map(isfinite, totals)):
            return failed(
                f"{self.name}: a choice's log-probability is {min(totals)} in {self._dtype}; "
                "use another dtype"
            )
        return Response(
            key=request.key,
            choice_scores=tokens.scored(totals, request.choices),
            usage=Usage(min(tokens.firsts), 0),
        )

    def _answer_window(self, window: Sequence[Request]) -> Iterator[Response]:
        """Yield each response once its last reply is sampled."""
        rows: list[_ReplyRow] = []
        for place, request in enumerate(window):
            prepared = self._prepare(place, request)
            if isinstance(prepared, Response):
                yield prepared
            else:
                rows += prepared
        replies: dict[int, dict[int, Sampled | None]] = {each.place: {} for each in rows}
        for each, sampled in self._sample(rows):
            request, gathered = window[each.place], replies[each.place]
            gathered[each.reply] = sampled
            if len(gathered) == request.decoding.n:
                del replies[each.place]
                yield self._response(request, each.row, [gathered[at] for at in sorted(gathered)])

    def _prepare(self, place: int, request: Request) -> list[_ReplyRow] | Response:
        unsupported = partial(Response.failed, request.key, Reason.UNSUPPORTED)
        if request.mode not in self.modes:
            able = ", ".join(sorted(self.modes))
            return unsupported(f"{self.name} cannot {request.mode}; it can {able}")
        try:
            prompt = prompt_tokens(request.messages, self._checkpoint.tokenizer)
        except TemplateError as error:
            return unsupported(f"{self.name}: its chat template refuses these turns: {error}")
        room = self._positions - len(prompt)
        if room < 1:
            return unsupported(
                f"{self.name}: the prompt has {len(prompt)} tokens and must leave room for an "
                f"answer within the model's {self._positions}; shorten it or use another model"
            )
        return [
            _ReplyRow(place, reply, _row(request, reply, prompt=prompt, room=room))
            for reply in range(request.decoding.n)
        ]

    def _sample(self, asked: Sequence[_ReplyRow]) -> Iterator[tuple[_ReplyRow, Sampled | None]]:
        """Each row with its sampled tokens, None where it does not fit in memory."""
        if not asked:
            return
        from torch import OutOfMemoryError

        sampler = self._sampler
        for batch in token_batches(
            asked, self._spec.batch_tokens, shape=lambda each: each.row.shape
        ):
            yield from split(
                batch,
                lambda part: sampler.sample([each.row for each in part]),
                too_big=OutOfMemoryError,
            )

    def _response(
        self, request: Request, row: SamplingRow, sampled: Sequence[Sampled | None]
    ) -> Response:
        replies = [reply for reply in sampled if reply is not None]
        if len(replies) < len(sampled):
            return Response.failed(
                request.key,
                Reason.FAILED,
                f"{self.name}: out of memory on {self._device} with one prompt of "
                f"{len(row.prompt)} tokens and {row.max_tokens} to draw; use a smaller dtype",
            )
        return Response(
            key=request.key,
            texts=tuple(
                reply_text(reply.tokens, self._checkpoint.tokenizer, is_cut=reply.is_cut)
                for reply in replies
            ),
            stop="length" if any(reply.is_cut for reply in replies) else "stop",
            usage=Usage(len(row.prompt), sum(len(reply.tokens) for reply in replies)),
        )

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
    def _weights(self) -> "PreTrainedModel":
        return load_weights(self._checkpoint, dtype=self._dtype, device=self._device)

    @cached_property
    def _sampler(self) -> Sampler:
        return Sampler(self._weights, end=self._checkpoint.tokenizer.eos_token_id)

    @cached_property
    def _scorer(self) -> ChoiceScorer:
        return ChoiceScorer(self._weights, batch_tokens=self._spec.batch_tokens)

    @property
    def _is_chat(self) -> bool:
        return self._spec.choice_prompt == "chat"

    @property
    def _device(self) -> str:
        return device_of(self._spec.device)

    @property
    def _dtype(self) -> str:
        return dtype_of(self._spec.dtype, self._device, self._checkpoint.config)

    @property
    def _positions(self) -> int:
        return position_limit(self._checkpoint.config)


def _row(request: Request, reply: int, *, prompt: Sequence[int], room: int) -> SamplingRow:
    decoding = request.decoding
    length = min(decoding.max_tokens, room)
    seed = reply_seed(request, reply)
    return SamplingRow(tuple(prompt), length, decoding.temperature, seed)
