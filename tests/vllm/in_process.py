"""vLLM in this process: models of the tiny checkpoint, and requests to write."""

from collections.abc import Iterable
from pathlib import Path

from support.sketches import resolved

from harness.core import Model, Request, Response
from harness.models.local.vllm_model import VllmModel
from harness.parts import Decoding, Message, Mode, Reason
from harness.specs.models import VllmSpec


def model(folder: Path, **settings: object) -> VllmModel:
    """A model of a checkpoint, whose engine is not started yet."""
    spec = VllmSpec(model=str(folder), enforce_eager=True, **settings)  # type: ignore[arg-type]  # by key
    return resolved(VllmModel("tiny", spec, folder.parent))


def ask(text: str, *, repeat: int = 0, **decoding: float | None) -> Request:
    chosen = Decoding(**{"max_tokens": 24, **decoding})  # type: ignore[arg-type]  # ints
    words = (Message("user", text),)
    return Request("s", "base", "answer", "tiny", words, chosen, repeat=repeat)


def embed(text: str) -> Request:
    words = (Message("user", text),)
    return Request("s", "base", "embed", "tiny", words, Decoding(max_tokens=1), Mode.EMBED)


def answers(model: Model, requests: Iterable[Request]) -> dict[str, Response]:
    return {response.key: response for response in model.answer(requests)}


def failure_of(response: Response) -> tuple[Reason, str]:
    assert response.failure is not None
    return response.failure.reason, response.failure.message
