"""Requests to responses through vLLM's engine, as token ids, without its sampling defaults."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import fsum, isfinite
from typing import TYPE_CHECKING, Any

from harness.core import Request, Response
from harness.models.local import tokenization, vllm_engine
from harness.models.local.checkpoints import Checkpoint, open_spec
from harness.models.local.tokenization import ChoiceTokens
from harness.models.local.vllm_engine import EngineRequest, sampling, start
from harness.models.spread import Needs, Part
from harness.models.vectors import chunks
from harness.parts import Reason
from harness.specs.models import VllmSpec

if TYPE_CHECKING:
    from vllm.outputs import RequestOutput

AT_ONCE = 512
"""Requests that another process is handed at once: many, since an engine runs empty after them."""
MOST_NEXTS = 128  # next tokens asked about at once: vLLM's limit


@dataclass(frozen=True, slots=True)
class ScoringPrompt:
    """A prompt, the next tokens that are scored, and whether its own tokens are scored too."""

    prompt: tuple[int, ...]
    nexts: tuple[int, ...]
    is_scored: bool


Logprobs = tuple[Sequence[float], Mapping[int, float]]
"""Log-probabilities of one prompt, in nats, given all tokens before: its own but for the first's,
where it is scored, and of next tokens."""


def scoring_prompts(tokens: ChoiceTokens) -> list[ScoringPrompt]:
    """List the distinct prompts of a request's choices; each choice needs a token before it."""
    nexts_by_prompt: dict[tuple[int, ...], dict[int, bool]] = {}
    for row, first in zip(tokens.rows, tokens.firsts, strict=True):
        nexts_by_prompt.setdefault(row[:-1], {})[row[-1]] = first < len(row) - 1
    return [
        ScoringPrompt(prompt, tuple(nexts), any(wanted.values()))
        for prompt, wanted in nexts_by_prompt.items()
        for nexts in chunks(wanted, MOST_NEXTS)
    ]


def total_logprobs(
    tokens: ChoiceTokens, prompts: Iterable[ScoringPrompt], found: Iterable[Logprobs]
) -> list[float]:
    """Sum the log-probability of each choice over its scored tokens."""
    pairs = zip(prompts, found, strict=True)
    known = {(each.prompt, token): logprobs for each, logprobs in pairs for token in each.nexts}
    totals = []
    for row, first in zip(tokens.rows, tokens.firsts, strict=True):
        all_own, nexts = known[row[:-1], row[-1]]
        wanted, own = len(row) - 1 - first, all_own[first - 1 :]
        if len(own) != wanted:
            raise ValueError(f"{wanted} log-probabilities of a prompt are needed, got {len(own)}")
        totals.append(fsum([*own, nexts[row[-1]]]))
    return totals


class VllmModel(tokenization.CheckpointModel[VllmSpec]):
    """A checkpoint in vLLM's engine, which runs from the first request until `close`."""

    kind = "vllm"

    _running: vllm_engine.VllmEngine | None = None

    def _identify(self) -> tuple[str, str | None]:
        """Version, tokenizer and dtype of the checkpoint, and settings that change answers."""
        spec, parts = self._spec, [self.kind, self._checkpoint.identity, self._dtype]
        parts += [f"quantization={spec.quantization}"] if spec.quantization else []
        parts += ["chat-choices"] if self._is_chat else []
        return ":".join(parts), self._checkpoint.version[:7]

    def answer(self, requests: Iterable[Request]) -> Generator[Response, None, None]:
        """Answer each request once, in the order in which the engine finishes them."""
        if self.elsewhere is None:
            yield from vllm_engine.answered(map(self._prepared, requests), self._engine)
            return
        for responses in self.elsewhere(chunks(requests, AT_ONCE)):
            yield from responses

    def compute(self, part: Part) -> list[Response]:
        """The responses to some requests, in their order."""
        made = vllm_engine.answered(map(self._prepared, part), self._engine)
        found = {each.key: each for each in made}
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

    def _writing(self, request: Request) -> EngineRequest | Response:
        decoding = request.decoding
        prompt = tuple(tokenization.prompt_tokens(request.messages, self._checkpoint.tokenizer))
        longest = min(len(prompt) + decoding.max_tokens, self._positions)
        if refusal := self._too_long(request, max(longest, len(prompt) + 1)):
            return refusal
        wanted = {"temperature": decoding.temperature, "max_tokens": longest - len(prompt)}
        seeds = [tokenization.reply_seed(request, at) for at in range(decoding.n)]
        rows = [(prompt, sampling(**wanted, seed=seed)) for seed in seeds]
        return EngineRequest(rows, partial(self._written, request))

    def _choosing(self, request: Request, tokens: ChoiceTokens) -> EngineRequest | Response:
        if refusal := self._too_long(request, max(map(len, tokens.rows))):
            return refusal
        prompts, rows = scoring_prompts(tokens), list[vllm_engine.EngineRow]()
        shared = {"temperature": 0.0, "max_tokens": 1, "skip_reading_prefix_cache": True}
        for each in prompts:
            own = 0 if each.is_scored else None
            wanted = sampling(logprob_token_ids=list(each.nexts), prompt_logprobs=own, **shared)
            rows.append((each.prompt, wanted))
        return EngineRequest(rows, partial(self._chosen, request, tokens, prompts))

    def _too_long(self, request: Request, length: int) -> Response | None:
        made_for, room = self._positions, self._engine().positions
        if length <= min(made_for, room):
            return None
        fact = f"the model takes at most {made_for}; shorten the prompt or use another model"
        if length <= made_for:
            fact = f"its engine takes at most {room}; raise max_model_len in the model's YAML"
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
        totals = total_logprobs(tokens, prompts, map(_logprobs, prompts, outputs))
        if not all(map(isfinite, totals)):
            return self._failed(request, "some log-probabilities are not finite", Reason.FAILED)
        return self._scored(request, tokens, totals)

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        vllm_engine.need_vllm(self.name)
        return open_spec(self._spec, self._cache)

    def _engine(self) -> vllm_engine.VllmEngine:
        """The running engine; restarted if another model's engine replaced it."""
        if self._running is None or not self._running.stop.alive:
            self._running = start(self._spec, self._checkpoint, dtype=self._dtype)
        return self._running


def _logprobs(read: ScoringPrompt, output: "RequestOutput") -> Logprobs:
    [nexts] = output.outputs[0].logprobs
    pairs: Iterable[tuple[Any, int]] = zip(output.prompt_logprobs or (), read.prompt, strict=False)
    own = [entry[token].logprob for entry, token in [*pairs][1:]]
    return own, {token: nexts[token].logprob for token in read.nexts}
