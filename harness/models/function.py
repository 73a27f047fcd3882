"""Any Python callable of a notebook as a model: messages in, a text or choices' scores out."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from inspect import isawaitable, iscoroutinefunction, signature
from math import isfinite
from typing import Any

from harness.core import Request, Response
from harness.errors import ModelError, SpecError
from harness.models.client.retry import Call, RetryPolicy, send_all
from harness.parts import ChoiceScore, Mode, Reason
from harness.specs.plugins import source_digest
from harness.text.cleanup import repair_surrogates

Reply = Callable[..., str | Awaitable[str | None] | None]
Scores = Callable[..., Sequence[float] | Awaitable[Sequence[float]]]
# A call of the user's own function is bounded by nothing shorter than a day.
LONGEST_S = 24 * 3600.0


class FunctionModel:
    """A model that calls `reply(messages)` for texts and `score(messages, choices)` for choices.

    `messages` is a list of dictionaries with `role` and `content`, as chat servers take them. A
    function with a parameter named `decoding` also gets the Decoding (temperature, max_tokens,
    seed). `reply` returns a text, or None where there is no answer; `score` returns one natural
    log-probability for each choice. Both may be `async`. An exception is a failed call, with its
    message. `concurrency` is how many calls run at a time: one, in the calling thread, unless more
    are allowed. Answers are stored under the digest of the functions' code and of what they hold,
    and under `version`: change `version` when weights or data behind them change.
    """

    kind = "function"

    def __init__(
        self,
        name: str,
        reply: Reply | None = None,
        *,
        score: Scores | None = None,
        concurrency: int = 1,
        version: str = "",
    ) -> None:
        """Keep the arguments."""
        if reply is None and score is None:
            raise SpecError(f"FunctionModel {name}: give a function `reply` or `score`")
        if concurrency < 1:
            raise SpecError(f"FunctionModel {name}: concurrency is at least 1, not {concurrency}")
        self.name = name
        self._reply, self._score, self._concurrency = reply, score, concurrency
        given = [part for part in (reply, score) if part is not None]
        digests = [source_digest(part, is_strict=not version)[:12] for part in given]
        self.revision = "+".join([*digests, *([version] if version else [])])
        self.identity = f"function:{name}@{self.revision}"

    @property
    def modes(self) -> frozenset[Mode]:
        """GENERATE where there is `reply`, CHOOSE where there is `score`."""
        able = {Mode.GENERATE: self._reply, Mode.CHOOSE: self._score}
        return frozenset(mode for mode, function in able.items() if function is not None)

    def resolve(self) -> None:
        """Do nothing: the code is known from the start."""

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once; failed calls are Responses with a failure."""
        is_async = any(
            iscoroutinefunction(one) or iscoroutinefunction(getattr(one, "__call__", None))  # noqa: B004 - whether it is async
            for one in (self._reply, self._score)
        )
        if self._concurrency == 1 and not is_async:
            yield from map(self._answer, requests)
            return

        @asynccontextmanager
        async def connect() -> AsyncIterator[Call]:
            with ThreadPoolExecutor(self._concurrency) as threads:
                run = asyncio.get_running_loop().run_in_executor
                yield self._answer_async if is_async else lambda r: run(threads, self._answer, r)

        policy = RetryPolicy(self._concurrency, 1, LONGEST_S, total_s=LONGEST_S)
        yield from send_all(requests, connect, policy)

    async def _answer_async(self, request: Request) -> Response:
        try:
            returned = self._called(request)
            return self._read(request, await returned if isawaitable(returned) else returned)
        except Exception as error:  # the user's own code may raise anything
            return _failed(request, error)

    def _answer(self, request: Request) -> Response:
        try:
            return self._read(request, self._called(request))
        except Exception as error:  # the user's own code may raise anything
            return _failed(request, error)

    def _called(self, request: Request) -> Any:  # noqa: ANN401 - the user's
        function = self._score if request.mode is Mode.CHOOSE else self._reply
        if function is None or request.mode not in (Mode.GENERATE, Mode.CHOOSE):
            raise ModelError(f"model {self.name}: has no function for {request.mode}")
        given: list[object] = [[{"role": m.role, "content": m.content} for m in request.messages]]
        given += [list(request.choices)] if request.mode is Mode.CHOOSE else []
        try:
            takes_decoding = "decoding" in signature(function).parameters
        except ValueError:  # of a built-in function
            takes_decoding = False
        return function(*given, **({"decoding": request.decoding} if takes_decoding else {}))

    def _read(self, request: Request, returned: Any) -> Response:  # noqa: ANN401 - the user's
        if request.mode is not Mode.CHOOSE:
            if returned is None or returned == "":
                return Response.failed(request.key, Reason.EMPTY, "the function returned no text")
            if not isinstance(returned, str):
                raise TypeError(f"reply returns a text or None, not {type(returned).__name__}")
            return Response(request.key, texts=(repair_surrogates(returned),))
        values, count = [float(value) for value in returned], len(request.choices)
        if len(values) != count or not all(map(isfinite, values)):
            fact = f"score returns a finite log-probability for each of {count} choices"
            raise ValueError(f"{fact}, not {values}")
        pairs = zip(request.choices, values, strict=True)
        scores = tuple(ChoiceScore(value, None, len(text.encode())) for text, value in pairs)
        return Response(request.key, choice_scores=scores)


def _failed(request: Request, error: Exception) -> Response:
    message = repair_surrogates(f"{type(error).__name__}: {error}")
    return Response.failed(request.key, Reason.FAILED, message)
