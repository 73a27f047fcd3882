"""Log-probabilities of choices from OpenAI-compatible servers, exact or by the likeliest tokens.

Exact: the server is given context and choice as one prompt and tells the log-probability of each
of its tokens; the choice's are told apart by what the tokens spell. By the likeliest tokens: a chat
server tells the next tokens of one reply. Where a number would be a guess, there is none.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.core import Request, Response
from harness.errors import ModelError
from harness.models.client.endpoint import Endpoint
from harness.models.client.retry import PermanentError, attach_usage
from harness.models.openai.chat import read_object, read_served, read_usage
from harness.models.openai.logprobs import (
    Echo,
    Logprobs,
    are_alike,
    echo_of,
    echo_scores,
    places,
    read_echoes,
    read_nexts,
    refuse_long,
    refuse_wordless,
    spellings,
    token_scores,
)
from harness.parts import Decoding, Message, Mode, Reason
from harness.specs.models import OpenAISpec

if TYPE_CHECKING:
    import openai

MOST_TOLD = 20
"""Next tokens a server is asked to tell: the most that OpenAI and vLLM do."""
LACKING = frozenset({400, 404, 405, 415, 422, 501})
"""Statuses by which servers say that they cannot do what they were asked for."""
REMEDIES = {
    Mode.CHOOSE: (
        "serve the model with vLLM, whose completions echo a prompt's log-probabilities, or run it "
        "here with kind: vllm or transformers, or set `choices: top_logprobs` or `choices: none`"
    ),
    Mode.CHOOSE_TOKEN: (
        "use a model whose chat completions tell log-probabilities, or serve an open model with "
        "vLLM and set `choices: echo`, or set `choices: none`"
    ),
}


class OpenAIChoiceScorer:
    """Asks one server for choices, after a tiny call that shows whether it can tell of them."""

    def __init__(
        self, client: "openai.AsyncOpenAI", model: str, *, server: Endpoint, spec: OpenAISpec
    ) -> None:
        """Take over an open client."""
        self._client = client
        self._model = model
        self._server = server
        self._spec = spec
        self._lacking: dict[Mode, str] = {}

    async def probe(self, mode: Mode) -> None:
        """Refuse a server that does not tell what `mode` needs, with what would; ask it once."""
        import openai

        if mode in self._lacking:
            raise ModelError(self._lacking[mode])
        try:
            await self.answer(_probe(mode))
            return
        except PermanentError as error:
            if error.reason not in (Reason.FAILED, Reason.UNSUPPORTED):
                return
            fact = str(error)
        except openai.APIStatusError as error:
            if error.status_code not in LACKING:
                raise
            fact = f"it answered {error.status_code}: {self._server.told(error.message)}"
        self._lacking[mode] = (
            f"{self._server.address} cannot score choices with model {self._model!r}: {fact}; "
            f"{REMEDIES[mode]}"
        )
        raise ModelError(self._lacking[mode])

    async def answer(self, request: Request) -> Response:
        """One attempt at one request."""
        if request.mode is Mode.CHOOSE:
            return await self._echoed(request)
        return await self._listed(request)

    async def _echoed(self, request: Request) -> Response:
        """Every choice by the log-probabilities of its own tokens, in one call."""
        refuse_wordless(request.choices)
        context = "\n".join(message.content for message in request.messages)
        prompts = [context + choice for choice in request.choices]
        reply = await self._client.completions.with_raw_response.create(
            model=self._model,
            prompt=prompts,
            max_tokens=1,
            temperature=0.0,
            echo=True,
            logprobs=1,
            extra_body=self._spec.extra_body or None,
        )
        body = read_object(reply.http_response.content, self._server, key="choices")
        usage = read_usage(body.get("usage"))
        with attach_usage(usage):
            echoes = await self._placed(prompts, read_echoes(body, len(prompts)))
            scores = echo_scores(request.choices, echoes, boundary=len(context))
        return Response(request.key, choice_scores=scores, usage=usage, served=read_served(body))

    async def _placed(self, prompts: Sequence[str], told: Sequence[Logprobs]) -> list[Echo]:
        """The tokens of prompts with their places, all by their texts or all by the tokenizer."""
        pairs = list(zip(prompts, told, strict=True))
        known = [echo for prompt, tokens in pairs if (echo := echo_of(prompt, tokens))]
        if len(known) == len(pairs):
            return known
        return [await self._by_tokenizer(prompt, tokens) for prompt, tokens in pairs]

    async def _by_tokenizer(self, prompt: str, told: Logprobs) -> Echo:
        """A prompt's tokens with their places, as the server's tokenizer spells them."""
        pieces = await self._pieces(prompt)
        for spelled in spellings(pieces):
            if (found := places(spelled, prompt)) and are_alike(spelled, told.tokens):
                return Echo(spelled, told.token_logprobs, found)
        raise PermanentError(
            Reason.UNSUPPORTED,
            f"the {len(told.tokens)} token texts of {self._server.address} do not spell the prompt"
            f"{' and neither do those of /tokenize' if pieces else ', and it has no /tokenize'}, "
            "so that nobody can tell which are a choice's; serve the model with vLLM, or run it "
            "here with kind: vllm or transformers",
        )

    async def _pieces(self, prompt: str) -> list[str]:
        """A prompt's tokens as the server's vocabulary writes them; none where it does not say."""
        import openai

        root = self._server.url.rstrip("/").removesuffix("/v1")
        asked = {"model": self._model, "prompt": prompt, "return_token_strs": True}
        try:
            told = await self._client.post(f"{root}/tokenize", body=asked, cast_to=object)
        except openai.APIStatusError as error:
            if error.status_code not in LACKING:
                raise
            return []
        pieces = told.get("token_strs") if isinstance(told, dict) else None
        is_list = isinstance(pieces, list) and all(isinstance(piece, str) for piece in pieces)
        return pieces if is_list and pieces else []

    async def _listed(self, request: Request) -> Response:
        """Every choice by the likeliest first tokens of one reply."""
        refuse_long(request.choices)
        arguments: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
            self._spec.token_field: 1,
            "logprobs": True,
            "top_logprobs": MOST_TOLD,
            "extra_body": self._spec.extra_body or None,
        }
        if self._spec.sends_temperature:
            arguments["temperature"] = 0.0
        if self._spec.reasoning_effort is not None:
            arguments["reasoning_effort"] = self._spec.reasoning_effort
        reply = await self._client.chat.completions.with_raw_response.create(**arguments)
        body = read_object(reply.http_response.content, self._server, key="choices")
        usage = read_usage(body.get("usage"))
        with attach_usage(usage):
            scores = token_scores(request.choices, read_nexts(body, self._server))
        return Response(request.key, choice_scores=scores, usage=usage, served=read_served(body))


def _probe(mode: Mode) -> Request:
    """A request as small as can be."""
    words = (Message("user", "One, two,"),)
    decoding = Decoding(max_tokens=1)
    return Request("probe", "base", "answer", "", words, decoding, mode, (" three", " four"))
