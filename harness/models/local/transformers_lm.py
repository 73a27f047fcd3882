"""Requests to responses through a checkpoint run by transformers in this process.

An answer depends on its request and the model alone: not on the order of requests, on the
batch size or on what else is in the batch; log-probabilities of choices do so up to rounding.
Prompts are never truncated.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from harness.core import Request, Response
from harness.errors import DataError, ModelError
from harness.models.extras import require
from harness.models.local.checkpoints import Checkpoint, load_weights, open_checkpoint, stored_dtype
from harness.models.local.choice_scoring import ChoiceScorer, split, token_batches
from harness.models.local.prefix_tree import ScoredRow
from harness.models.local.sampling import Sampled, Sampler, SamplingRow
from harness.models.local.tiny_llama import build_tiny_llama
from harness.models.local.token_report import prompt_size
from harness.models.local.tokenization import ChoiceTokens, choice_tokens, prompt_tokens
from harness.parts import Mode, Reason, Usage, digest
from harness.specs.models import TransformersSpec

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WINDOW = 2048
"""Requests held at once: enough to sort by length, few enough to stay flat in memory."""
CHOICES = 256
"""Requests to choose that are scored at once: enough to share what their prompts share."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """One row of a request; a request for n replies has n."""

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


class TransformersModel:
    """A checkpoint on this machine; its version, tokenizer and weights are opened when needed.

    `cache` is the folder for checkpoints that are built, not downloaded.
    """

    kind = "transformers"
    modes = frozenset({Mode.GENERATE, Mode.CHOOSE})

    def __init__(self, name: str, spec: TransformersSpec, cache: Path) -> None:
        """Note what to run; nothing is opened yet."""
        self.name = name
        self._spec = spec
        self._cache = cache

    @cached_property
    def identity(self) -> str:
        """The checkpoint's exact version, its tokenizer and the type it is computed in.

        And where choices stand, unless it is behind the plain prompt.
        """
        chat = ":chat-choices" if self._is_chat else ""
        return f"{self.kind}:{self._checkpoint.identity}:{self._dtype}{chat}"

    @property
    def revision(self) -> str:
        """Seven digits of the hub's commit or of the folder's fingerprint."""
        return self._checkpoint.version[:7]

    def prompt_size(self, request: Request) -> int:
        """How many tokens the prompt of a request is; weights stay closed."""
        return prompt_size(request, self._checkpoint.tokenizer, is_chat=self._is_chat)

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once, longest first within a window.

        Requests to choose are scored by the 256, in the order they come in, and all of them are
        answered before the next are scored. One that cannot be scored is not counted, so that a
        run that breaks off and is repeated without what was answered scores the same together.
        """
        drawn: list[Request] = []
        chosen: list[_Choice] = []
        for request in requests:
            if request.mode is not Mode.CHOOSE:
                drawn.append(request)
            elif isinstance(ready := self._choice(request), Response):
                yield ready
            else:
                chosen.append(ready)
            if len(drawn) == WINDOW:
                yield from self._answer_window(drawn)
                drawn = []
            if len(chosen) == CHOICES:
                yield from self._choose(chosen)
                chosen = []
        yield from self._answer_window(drawn)
        yield from self._choose(chosen)

    def _choice(self, request: Request) -> _Choice | Response:
        """A request's choices as tokens, or why they cannot be scored."""
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

    def _choose(self, chosen: Sequence[_Choice]) -> Iterator[Response]:
        """The responses to requests scored together, once all of them are."""
        if not chosen:
            return
        sums = iter(self._chooser.sums([row for each in chosen for row in each.rows]))
        yield from [self._scored(each, [next(sums) for _ in each.rows]) for each in chosen]

    def _scored(self, choice: _Choice, sums: Sequence[float | None]) -> Response:
        """The response to a request whose choices are scored, as far as they fit in memory."""
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
        """Prepare all requests, then yield each response once its last reply is drawn."""
        asked: list[_Asked] = []
        for place, request in enumerate(window):
            prepared = self._prepare(place, request)
            if isinstance(prepared, Response):
                yield prepared
            else:
                asked += prepared
        replies: dict[int, dict[int, Sampled | None]] = {each.place: {} for each in asked}
        for each, drawn in self._draw(asked):
            request, gathered = window[each.place], replies[each.place]
            gathered[each.reply] = drawn
            if len(gathered) == request.decoding.n:
                del replies[each.place]
                yield self._response(request, each.row, [gathered[at] for at in sorted(gathered)])

    def _prepare(self, place: int, request: Request) -> list[_Asked] | Response:
        """The rows of a request, or why it cannot be asked."""
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
            _Asked(place, reply, _row(request, reply, prompt=prompt, room=room))
            for reply in range(request.decoding.n)
        ]

    def _draw(self, asked: Sequence[_Asked]) -> Iterator[tuple[_Asked, Sampled | None]]:
        """Each row with what was drawn for it, null where it does not fit in memory by itself."""
        if not asked:
            return
        from torch import OutOfMemoryError

        drawer = self._drawer
        for batch in token_batches(
            asked, self._spec.batch_tokens, shape=lambda each: each.row.shape
        ):
            yield from split(
                batch,
                lambda part: drawer.draw([each.row for each in part]),
                too_big=OutOfMemoryError,
            )

    def _response(
        self, request: Request, row: SamplingRow, drawn: Sequence[Sampled | None]
    ) -> Response:
        """The response to a request all of whose replies are drawn."""
        replies = [reply for reply in drawn if reply is not None]
        if len(replies) < len(drawn):
            return Response.failed(
                request.key,
                Reason.FAILED,
                f"{self.name}: out of memory on {self._device} with one prompt of "
                f"{len(row.prompt)} tokens and {row.max_tokens} to draw; use a smaller dtype",
            )
        return Response(
            key=request.key,
            texts=tuple(self._text(reply) for reply in replies),
            stop="length" if any(reply.is_cut for reply in replies) else "stop",
            usage=Usage(len(row.prompt), sum(len(reply.tokens) for reply in replies)),
        )

    def _text(self, reply: Sampled) -> str:
        """A reply's text, without the end token and other markers."""
        tokens = list(reply.tokens if reply.is_cut else reply.tokens[:-1])
        return str(
            self._checkpoint.tokenizer.decode(
                tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        """The checkpoint without its weights."""
        require("torch", "transformers")
        spec = self._spec
        source = spec.model if spec.build is None else str(build_tiny_llama(self._cache))
        found = open_checkpoint(
            source, revision=spec.revision, trust_remote_code=spec.trust_remote_code
        )
        if getattr(found.config, "is_encoder_decoder", False):
            raise ModelError(
                f"{source}: {found.config.model_type} is an encoder with a decoder, and local "
                "models are causal ones alone; use another checkpoint, or a server that runs it"
            )
        return found

    @cached_property
    def _weights(self) -> "PreTrainedModel":
        """The checkpoint with its weights."""
        return load_weights(self._checkpoint, dtype=self._dtype, device=self._device)

    @cached_property
    def _drawer(self) -> Sampler:
        """What draws replies."""
        return Sampler(self._weights, end=self._checkpoint.tokenizer.eos_token_id)

    @cached_property
    def _chooser(self) -> ChoiceScorer:
        """What scores choices."""
        return ChoiceScorer(self._weights, batch_tokens=self._spec.batch_tokens)

    @property
    def _is_chat(self) -> bool:
        """Whether choices open the model's turn in its chat template."""
        return self._spec.choice_prompt == "chat"

    @property
    def _device(self) -> str:
        """Where the model runs."""
        import torch

        if self._spec.device != "auto":
            return self._spec.device
        return "cuda" if torch.cuda.is_available() else "cpu"

    @property
    def _dtype(self) -> str:
        """The type it is computed in."""
        if self._spec.dtype != "auto":
            return self._spec.dtype
        return "float32" if self._device == "cpu" else stored_dtype(self._checkpoint.config)

    @property
    def _positions(self) -> int:
        """The most tokens of prompt and answer together the model was made for."""
        text_config = self._checkpoint.config.get_text_config()
        return int(getattr(text_config, "max_position_embeddings", None) or sys.maxsize)


def _row(request: Request, reply: int, *, prompt: Sequence[int], room: int) -> SamplingRow:
    """What is drawn for one reply: its seed is its own, and covers decoding.seed by the key."""
    decoding = request.decoding
    seed = int(digest((request.key, reply))[:15], 16)
    return SamplingRow(tuple(prompt), min(decoding.max_tokens, room), decoding.temperature, seed)
