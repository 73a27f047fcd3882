"""Models asked in batches, of both providers' shapes, on a stub server and in a folder."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.core import Request, Response
from harness.models.anthropic.model import AnthropicBatches, AnthropicModel
from harness.models.client.batches import BatchFiles, BatchModel, BatchServer
from harness.models.openai.model import OpenAIBatches, OpenAIModel
from support.hosted import KEY as KEY
from support.hosted import Api, hosted
from support.hosted import request as request
from support.stub_server import StubServer

Kind = Literal["openai", "anthropic"]
BATCHES = {"openai": "/v1/batches", "anthropic": "/v1/messages/batches"}


class Killed(BaseException):
    """The end of a process at a moment of a test's choosing."""


def requests(count: int, **changes: Any) -> list[Request]:  # noqa: ANN401 - fields of Request
    return [request(f"question {number}", **changes) for number in range(count)]


@dataclass
class Bench:
    """A stub server, a folder of batches, and what was waited and told."""

    kind: Kind
    stub: StubServer
    folder: Path
    waits: list[float] = field(default_factory=list)
    told: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def path(self) -> str:
        return BATCHES[self.kind]

    @property
    def files(self) -> BatchFiles:
        return BatchFiles(self.folder)

    @property
    def submitted(self) -> list[list[str]]:
        return self.stub.batches.submitted()

    def live(self, **spec: Any) -> OpenAIModel | AnthropicModel:  # noqa: ANN401 - of its spec
        """The model as it is asked without batches."""
        api: Api = spec.pop("api", "chat") if self.kind == "openai" else "anthropic"
        return hosted(api, self.stub.url, attempts=6, **spec)

    def server(self, **spec: Any) -> BatchServer[Any]:  # noqa: ANN401 - of its spec
        live = self.live(**spec)
        return OpenAIBatches(live) if isinstance(live, OpenAIModel) else AnthropicBatches(live)

    def model(
        self,
        sleep: Callable[[float], None] | None = None,
        *,
        attempts: int = 3,
        server: BatchServer[Any] | None = None,
        **spec: Any,  # noqa: ANN401 - of its spec
    ) -> BatchModel:
        """A new model on the same folder, as another process would make it."""
        return BatchModel(
            server or self.server(**spec),
            files=self.files,
            progress=lambda *told: self.told.append(told),
            attempts=attempts,
            sleep=sleep or self.waits.append,
        )

    def answers(self, asked: Iterable[Request], **how: Any) -> dict[str, Response]:  # noqa: ANN401 - of `model`
        """The responses by key, each of which comes once."""
        found = list(self.model(**how).answer(asked))
        assert len({response.key for response in found}) == len(found)
        return {response.key: response for response in found}


def killed(_: float) -> None:
    raise Killed
