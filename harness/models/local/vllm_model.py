"""Requests to responses through vLLM's engine in this process.

Prompts go in as token ids, made as for transformers, and replies come out as token ids: neither
vLLM's templates nor its sampling defaults apply. Prompts are never truncated. Choices are read
without the engine's cache of other prompts.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import fsum, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from harness.core import Request, Response
from harness.errors import DataError
from harness.models.local.checkpoints import (
    Checkpoint,
    ResolvedCheckpoint,
    open_spec,
    resolve,
)
from harness.models.local.tokenization import (
    CheckpointModel,
    ChoiceTokens,
    prompt_tokens,
    reply_seed,
)
from harness.models.local.vllm_engine import (
    EngineRequest,
    EngineRow,
    RequestQueue,
    VllmEngine,
    need_vllm,
    sampling,
    start,
)
from harness.models.spread import Needs, Part
from harness.models.vectors import chunks
from harness.parts import Mode, Reason
from harness.specs.models import VllmSpec

if TYPE_CHECKING:
    from vllm.outputs import RequestOutput

AT_ONCE = 512
"""Requests that another process is handed at once: many, since an engine runs empty after them."""
MOST_NEXTS = 128  # next tokens asked about at once: vLLM's limit


@dataclass(frozen=True, slots=True)
class ScoringPrompt:
    """One prompt, and the tokens whose log-probability as its next one is wanted.

    `is_scored` asks for the log-probabilities of the prompt's own tokens too.
    """

    prompt: tuple[int, ...]
    nexts: tuple[int, ...]
    is_scored: bool


@dataclass(frozen=True, slots=True)
class PromptLogprobs:
    """The engine's log-probabilities for a prompt, in nats, given all tokens before.

    `own` has an entry for each token of a scored prompt but the first.
    """

    reading: ScoringPrompt
    own: Sequence[float]
    nexts: Mapping[int, float]


def scoring_prompts(tokens: ChoiceTokens, *, is_stepwise: bool = False) -> list[ScoringPrompt]:
    """List the distinct prompts of a request's choices; each choice needs a token before it.

    With `is_stepwise` no prompt is scored: each token of a choice is the next one of a prompt.
    """
    nexts_by_prompt: dict[tuple[int, ...], dict[int, bool]] = {}
    for row, first in zip(tokens.rows, tokens.firsts, strict=True):
        last = len(row) - 1
        for at in range(first if is_stepwise else last, last + 1):
            nexts_by_prompt.setdefault(row[:at], {})[row[at]] = not is_stepwise and first < last
    return [
        ScoringPrompt(prompt, tuple(nexts), any(wanted.values()))
        for prompt, wanted in nexts_by_prompt.items()
        for nexts in chunks(wanted, MOST_NEXTS)
    ]


def total_logprobs(tokens: ChoiceTokens, logprobs: Iterable[PromptLogprobs]) -> list[float]:
    """Sum the log-probability of each choice over its scored tokens."""
    known = {
        (each.reading.prompt, token): each for each in logprobs for token in each.reading.nexts
    }
    totals = []
    for row, first in zip(tokens.rows, tokens.firsts, strict=True):
        whole = known[row[:-1], row[-1]]
        wanted, own = len(row) - 1 - first, whole.own[first - 1 :]
        if not whole.reading.is_scored:
            own = [known[row[:at], row[at]].nexts[row[at]] for at in range(first, len(row) - 1)]
        if len(own) != wanted:
            raise ValueError(f"{wanted} log-probabilities of a prompt are needed, got {len(own)}")
        totals.append(fsum([*own, whole.nexts[row[-1]]]))
    return totals


class VllmModel(CheckpointModel[VllmSpec]):
    """A checkpoint in vLLM's engine, which runs from the first request until `close`."""

    kind = "vllm"
    modes = frozenset({Mode.GENERATE, Mode.CHOOSE})

    def __init__(self, name: str, spec: VllmSpec, cache: Path) -> None:
        """Keep what to run; nothing is opened yet."""
        super().__init__(name, spec, cache)
        self._running: VllmEngine | None = None
        self._queue = RequestQueue(self._engine)

    def _identify(self) -> tuple[str, str | None]:
        """Version, tokenizer and dtype of the checkpoint, and settings that change answers."""
        spec, parts = self._spec, [self.kind, self._checkpoint.identity, self._dtype]
        parts += [f"quantization={spec.quantization}"] if spec.quantization else []
        parts += [f"lora={self._adapter.version[:16]}"] if self._adapter else []
        parts += ["chat-choices"] if self._is_chat else []
        return ":".join(parts), self._checkpoint.version[:7]

    def answer(self, requests: Iterable[Request]) -> Generator[Response, None, None]:
        """Answer each request once, in the order in which the engine finishes them."""
        if self.elsewhere is None:
            yield from self._queue.answer(map(self._prepare, requests))
            return
        for responses in self.elsewhere(chunks(requests, AT_ONCE)):
            yield from responses

    def compute(self, part: Part) -> list[Response]:
        """The responses to some requests, in their order."""
        found = {each.key: each for each in self._queue.answer(map(self._prepare, part))}
        return [found[request.key] for request in part]

    @property
    def needs(self) -> Needs:
        """What a copy takes, as the YAML says: as many GPUs as the engine is split over."""
        spec = self._spec
        on_gpu = self._device.startswith("cuda")
        split = float(spec.tensor_parallel_size * spec.pipeline_parallel_size) if on_gpu else None
        gpus = split if spec.gpus is None else spec.gpus
        return Needs.on(self._device, cpus=spec.cpus, gpus=gpus)

    def close(self) -> None:
        """Stop the engine; another request would start another."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    def _prepare(self, request: Request) -> EngineRequest | Response:
        if request.mode not in self.modes:
            can = ", ".join(sorted(self.modes))
            return self._failed(request, f"cannot {request.mode}; it can {can}")
        try:
            if request.mode is Mode.CHOOSE:
                return self._choosing(request)
            return self._writing(request)
        except (TemplateError, DataError) as error:
            return self._refused(request, error)

    def _writing(self, request: Request) -> EngineRequest | Response:
        decoding = request.decoding
        prompt = tuple(prompt_tokens(request.messages, self._checkpoint.tokenizer))
        longest = min(len(prompt) + decoding.max_tokens, self._positions)
        if refusal := self._too_long(request, max(longest, len(prompt) + 1)):
            return refusal
        wanted = {"temperature": decoding.temperature, "max_tokens": longest - len(prompt)}
        rows = [
            EngineRow(prompt, sampling(**wanted, seed=reply_seed(request, at)))
            for at in range(decoding.n)
        ]
        return EngineRequest(rows, partial(self._written, request))

    def _choosing(self, request: Request) -> EngineRequest | Response:
        tokens = self._choice_tokens(request)
        if min(tokens.firsts) < 1:
            fact = "there is nothing before the choices to score them by; give them a prompt"
            return self._failed(request, fact)
        if refusal := self._too_long(request, max(map(len, tokens.rows))):
            return refusal
        # With an adapter vLLM scores prompts as if they were the last rows of its batch.
        prompts = scoring_prompts(tokens, is_stepwise=self._adapter is not None)
        shared = {"temperature": 0.0, "max_tokens": 1, "skip_reading_prefix_cache": True}
        rows = []
        for each in prompts:
            own = 0 if each.is_scored else None
            wanted = sampling(logprob_token_ids=list(each.nexts), prompt_logprobs=own, **shared)
            rows.append(EngineRow(each.prompt, wanted))
        return EngineRequest(rows, partial(self._chosen, request, tokens, prompts))

    def _too_long(self, request: Request, length: int) -> Response | None:
        if length > (made_for := self._positions):
            fact = f"the model takes at most {made_for}; shorten the prompt or use another model"
        elif length > (room := self._engine().positions):
            fact = f"its engine takes at most {room}; raise max_model_len in the model's YAML"
        else:
            return None
        return self._failed(request, f"prompt and answer may have {length} tokens, and {fact}")

    def _written(self, request: Request, outputs: Sequence["RequestOutput"]) -> Response:
        replies = [output.outputs[0] for output in outputs]
        ends = {reply.finish_reason for reply in replies}
        if not ends <= {"stop", "length"}:
            fact = f"vLLM gave the finish reason {', '.join(sorted(map(str, ends)))}"
            return self._failed(request, fact, Reason.FAILED)
        prompt = len(outputs[0].prompt_token_ids or ())
        tokens = [(reply.token_ids, reply.finish_reason == "length") for reply in replies]
        return self._replied(request, prompt, tokens)

    def _chosen(
        self,
        request: Request,
        tokens: ChoiceTokens,
        prompts: Sequence[ScoringPrompt],
        outputs: Sequence["RequestOutput"],
    ) -> Response:
        totals = total_logprobs(tokens, map(_prompt_logprobs, prompts, outputs))
        if not all(map(isfinite, totals)):
            return self._failed(request, "some log-probabilities are not finite", Reason.FAILED)
        return self._scored(request, tokens, totals)

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        need_vllm(self.name)
        return open_spec(self._spec, self._cache)

    @cached_property
    def _adapter(self) -> ResolvedCheckpoint | None:
        if self._spec.lora is None:
            return None
        return resolve(self._spec.lora, revision=None, file="adapter_config.json")

    def _engine(self) -> VllmEngine:
        """The running engine; restarted if another model's engine replaced it."""
        if self._running is None or not self._running.is_running:
            self._running = start(
                self._spec, self._checkpoint, dtype=self._dtype, adapter=self._adapter
            )
        return self._running


def _prompt_logprobs(read: ScoringPrompt, output: "RequestOutput") -> PromptLogprobs:
    [nexts] = output.outputs[0].logprobs
    own: list[Any] = list(output.prompt_logprobs or ())[1:]
    return PromptLogprobs(
        read,
        [entry[token].logprob for entry, token in zip(own, read.prompt[1:], strict=False)],
        {token: nexts[token].logprob for token in read.nexts},
    )
