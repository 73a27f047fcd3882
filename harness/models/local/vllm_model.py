"""Requests to responses through vLLM's engine in this process.

Prompts go in as token ids, made as for transformers, and answers come out as token ids: neither
vLLM's templates nor its sampling defaults have a say. Prompts are never truncated. Choices and
texts to embed are read without what the engine keeps of other prompts.
"""

import sys
from collections.abc import Generator, Iterable, Sequence
from functools import cached_property, partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import TemplateError

from harness.core import Request, Response
from harness.errors import DataError
from harness.models.local.checkpoints import (
    Checkpoint,
    ResolvedCheckpoint,
    fingerprint_of_modules,
    open_checkpoint,
    resolve,
    stored_dtype,
)
from harness.models.local.tiny_llama import build_tiny_llama
from harness.models.local.token_report import prompt_size
from harness.models.local.tokenization import ChoiceTokens, choice_tokens, prompt_tokens
from harness.models.local.vllm_engine import VllmEngine, embedding, need_vllm, sampling, start
from harness.models.local.vllm_rows import (
    EngineRequest,
    EngineRow,
    PromptLogprobs,
    RequestQueue,
    ScoringPrompt,
    scoring_prompts,
    total_logprobs,
)
from harness.models.vectors import without_surrogates
from harness.parts import Mode, Reason, Usage, digest
from harness.specs.models import VllmSpec

if TYPE_CHECKING:
    from vllm.outputs import PoolingRequestOutput, RequestOutput


class VllmModel:
    """A checkpoint in vLLM's engine, which starts with the first request and runs till `close`.

    `cache` is the folder for checkpoints that are built, not downloaded.
    """

    kind = "vllm"

    def __init__(self, name: str, spec: VllmSpec, cache: Path) -> None:
        """Note what to run; nothing is opened yet."""
        self.name = name
        self._spec = spec
        self._cache = cache
        self._running: VllmEngine | None = None
        self._line = RequestQueue(self._engine)

    @property
    def modes(self) -> frozenset[Mode]:
        """Texts and choices, or where the YAML says how to pool, vectors: no engine gives both."""
        return frozenset({Mode.EMBED} if self._spec.pooling else {Mode.GENERATE, Mode.CHOOSE})

    @cached_property
    def identity(self) -> str:
        """Version, tokenizer and type of the checkpoint, and what else changes its answers."""
        spec, parts = self._spec, [self.kind, self._checkpoint.identity, self._dtype]
        parts += [f"quantization={spec.quantization}"] if spec.quantization else []
        parts += [f"lora={self._adapter.version[:16]}"] if self._adapter else []
        parts += ["chat-choices"] if spec.choice_prompt == "chat" else []
        parts += [f"pooling={spec.pooling}", *self._modules] if spec.pooling else []
        return ":".join(parts)

    @property
    def revision(self) -> str:
        """Seven digits of the hub's commit or of the folder's fingerprint."""
        return self._checkpoint.version[:7]

    def prompt_size(self, request: Request) -> int:
        """How many tokens the prompt of a request is; no engine starts."""
        is_chat = self._spec.choice_prompt == "chat"
        return prompt_size(request, self._checkpoint.tokenizer, is_chat=is_chat)

    def answer(self, requests: Iterable[Request]) -> Generator[Response, None, None]:
        """Answer each request once, in the order in which the engine finishes them."""
        return self._line.worked(map(self._prepare, requests))

    def close(self) -> None:
        """Stop the engine; another request would start another."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    def _prepare(self, request: Request) -> EngineRequest | Response:
        """The rows of a request, or why it cannot be asked."""
        if request.mode not in self.modes:
            can = ", ".join(sorted(self.modes))
            return self._unsupported(request, f"cannot {request.mode}; it can {can}")
        try:
            if request.mode is Mode.EMBED:
                return self._embedding(request)
            if request.mode is Mode.CHOOSE:
                return self._choosing(request)
            return self._writing(request)
        except TemplateError as error:
            return self._unsupported(request, f"its chat template refuses these turns: {error}")
        except DataError as error:
            return self._unsupported(request, str(error))

    def _unsupported(self, request: Request, fact: str) -> Response:
        """The response to a request this model cannot answer."""
        return Response.failed(request.key, Reason.UNSUPPORTED, f"{self.name}: {fact}")

    def _writing(self, request: Request) -> EngineRequest | Response:
        """The replies of a request, a row each, with a seed of its own."""
        decoding = request.decoding
        prompt = tuple(prompt_tokens(request.messages, self._checkpoint.tokenizer))
        longest = min(len(prompt) + decoding.max_tokens, self._positions)
        if refusal := self._too_long(request, max(longest, len(prompt) + 1)):
            return refusal
        wanted = {"temperature": decoding.temperature, "max_tokens": longest - len(prompt)}
        rows = [
            EngineRow(prompt, sampling(**wanted, seed=_seed(request, at)))
            for at in range(decoding.n)
        ]
        return EngineRequest(rows, partial(self._written, request))

    def _choosing(self, request: Request) -> EngineRequest | Response:
        """The choices of a request, a row for each prompt that is read."""
        tokens = choice_tokens(
            request.messages,
            request.choices,
            self._checkpoint.tokenizer,
            is_chat=self._spec.choice_prompt == "chat",
        )
        if min(tokens.firsts) < 1:
            return self._unsupported(
                request, "nothing stands before the choices to score them by; give them a prompt"
            )
        if refusal := self._too_long(request, max(map(len, tokens.rows))):
            return refusal
        # With an adapter vLLM scores prompts as if they were the last rows of its batch.
        read = scoring_prompts(tokens, is_stepwise=self._adapter is not None)
        rows = [
            EngineRow(
                each.prompt,
                sampling(
                    temperature=0.0,
                    max_tokens=1,
                    logprob_token_ids=list(each.nexts),
                    prompt_logprobs=0 if each.is_scored else None,
                    skip_reading_prefix_cache=True,
                ),
            )
            for each in read
        ]
        return EngineRequest(rows, partial(self._chosen, request, tokens, read))

    def _embedding(self, request: Request) -> EngineRequest | Response:
        """The text of a request, a row with the marks its tokenizer puts around texts."""
        text = without_surrogates("\n".join(message.content for message in request.messages))
        text = text.lower() if self._engine().lowers else text
        prompt = tuple(self._checkpoint.tokenizer(text, verbose=False)["input_ids"])
        if not prompt:
            return self._unsupported(request, "the text is empty, and nothing has no vector")
        if refusal := self._too_long(request, len(prompt)):
            return refusal
        return EngineRequest([EngineRow(prompt, embedding())], partial(self._embedded, request))

    def _too_long(self, request: Request, length: int) -> Response | None:
        """Why so many tokens, of prompt and answer or of a text, cannot be asked for, if so."""
        what = "the text has" if request.mode is Mode.EMBED else "prompt and answer may have"
        if length > self._positions:
            return self._unsupported(
                request,
                f"{what} {length} tokens, and the model was made for {self._positions}; "
                "shorten the prompt or use another model",
            )
        if length > (room := self._engine().positions):
            return self._unsupported(
                request,
                f"{what} {length} tokens, and its engine has room for {room}; raise "
                "max_model_len, which never cuts anything",
            )
        return None

    def _written(self, request: Request, outputs: Sequence["RequestOutput"]) -> Response:
        """The response of the replies."""
        replies = [output.outputs[0] for output in outputs]
        ends = {reply.finish_reason for reply in replies}
        if not ends <= {"stop", "length"}:
            return Response.failed(request.key, Reason.FAILED, f"{self.name}: vLLM ended by {ends}")
        return Response(
            key=request.key,
            texts=tuple(
                self._text(reply.token_ids, is_cut=reply.finish_reason == "length")
                for reply in replies
            ),
            stop="length" if "length" in ends else "stop",
            usage=Usage(
                len(outputs[0].prompt_token_ids or ()),
                sum(len(reply.token_ids) for reply in replies),
            ),
        )

    def _text(self, tokens: Sequence[int], *, is_cut: bool) -> str:
        """A reply's text, without the end token and other markers."""
        told = list(tokens if is_cut else tokens[:-1])
        return str(
            self._checkpoint.tokenizer.decode(
                told, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )

    def _chosen(
        self,
        request: Request,
        tokens: ChoiceTokens,
        read: Sequence[ScoringPrompt],
        outputs: Sequence["RequestOutput"],
    ) -> Response:
        """The response of the choices."""
        totals = total_logprobs(tokens, map(_told, read, outputs))
        if not all(map(isfinite, totals)):
            return Response.failed(
                request.key, Reason.FAILED, f"{self.name}: log-probabilities are not finite"
            )
        return Response(
            key=request.key,
            choice_scores=tokens.scored(totals, request.choices),
            usage=Usage(min(tokens.firsts), 0),
        )

    def _embedded(self, request: Request, outputs: Sequence["PoolingRequestOutput"]) -> Response:
        """The response of a text's vector, its numbers as short as float32 allows."""
        vector = outputs[0].outputs.data.float().numpy()
        if not (np.isfinite(vector).all() and vector.any()):
            told = "not finite" if vector.any() else "all zeros"
            return Response.failed(request.key, Reason.FAILED, f"{self.name}: a vector is {told}")
        return Response(
            key=request.key,
            vectors=(tuple(float(str(number)) for number in vector),),
            usage=Usage(len(outputs[0].prompt_token_ids), 0),
        )

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        """The checkpoint without its weights."""
        need_vllm(self.name)
        spec = self._spec
        source = spec.model if spec.build is None else str(build_tiny_llama(self._cache))
        return open_checkpoint(
            source, revision=spec.revision, trust_remote_code=spec.trust_remote_code
        )

    @property
    def _modules(self) -> list[str]:
        """What stands beside the weights in a folder and says how they are pooled."""
        checkpoint = self._checkpoint
        if checkpoint.commit is not None:
            return []
        found = fingerprint_of_modules(Path(checkpoint.source))
        return [f"modules={digest(found)[:12]}"] if found else []

    @cached_property
    def _adapter(self) -> ResolvedCheckpoint | None:
        """The adapter's exact version."""
        if self._spec.lora is None:
            return None
        return resolve(self._spec.lora, revision=None, file="adapter_config.json")

    def _engine(self) -> VllmEngine:
        """The checkpoint with its weights; started again where another model's took its place."""
        if self._running is None or not self._running.is_running:
            self._running = start(
                self._spec, self._checkpoint, dtype=self._dtype, adapter=self._adapter
            )
        return self._running

    @property
    def _dtype(self) -> str:
        """The type it is computed in: told, else as stored, on a CPU in float32."""
        import torch

        if self._spec.dtype != "auto":
            return self._spec.dtype
        is_cpu = not torch.cuda.is_available()
        return "float32" if is_cpu else stored_dtype(self._checkpoint.config)

    @property
    def _positions(self) -> int:
        """The most tokens of prompt and answer together the model was made for."""
        text_config = self._checkpoint.config.get_text_config()
        return int(getattr(text_config, "max_position_embeddings", None) or sys.maxsize)


def _seed(request: Request, reply: int) -> int:
    """The seed of one reply: its own, and decoding.seed is covered by the key."""
    return int(digest((request.key, reply))[:15], 16)


def _told(read: ScoringPrompt, output: "RequestOutput") -> PromptLogprobs:
    """What the engine tells of a reading."""
    [nexts] = output.outputs[0].logprobs
    own: list[Any] = list(output.prompt_logprobs or ())[1:]
    return PromptLogprobs(
        read,
        [entry[token].logprob for entry, token in zip(own, read.prompt[1:], strict=False)],
        {token: nexts[token].logprob for token in read.nexts},
    )
