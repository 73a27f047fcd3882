"""What every model is built with, and what a model of one's own may be derived from."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from harness.core import Model, Request, Response, Sample
from harness.parts import Message, Mode
from harness.specs.plugins import Extension, foreign_code, spec_digest
from harness.specs.tasks import TaskSpec


@dataclass(frozen=True, slots=True)
class ModelContext:
    """What a model may use; `task` is None for a model that a judge or a builder asks."""

    environ: Mapping[str, str]
    cache: Path
    task: TaskSpec | None = None
    samples: Sequence[Sample] = ()


class TextModel:
    """A model that writes texts: a subclass writes `reply`."""

    revision: str | None = None
    modes = frozenset({Mode.GENERATE})

    def __init__(self, name: str, spec: Any) -> None:  # noqa: ANN401 - each subclass has its own
        """Keep the arguments."""
        self.name = name
        self._spec = spec

    @classmethod
    def build(cls, name: str, spec: Any, context: ModelContext) -> Self:  # noqa: ANN401 - as above
        """Build the model of a spec."""
        return cls(name, spec)

    def resolve(self) -> None:
        """Do nothing: the YAML and the source say which model it is."""

    @property
    def kind(self) -> str:
        """The kind that its YAML names."""
        return str(type(self._spec).__struct_config__.tag)

    @property
    def identity(self) -> str:
        """Kind, name and a digest of what the YAML says, but for `about` and `entry`."""
        return f"{self.kind}:{self.name}@{spec_digest(self._spec)[:12]}"

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request as it comes; `decoding.n` replies to each."""
        for request in requests:
            texts = [self.reply(request.messages) for _ in range(request.decoding.n)]
            yield Response(request.key, tuple(texts))

    def reply(self, messages: Sequence[Message]) -> str:
        """Write one reply to a prompt."""
        raise NotImplementedError(f"{type(self).__name__} has no method `reply`")


@dataclass(frozen=True, slots=True)
class SourcedModel:
    """A model of other people's code: the digest of its source goes into identity and revision."""

    name: str
    kind: str
    model: Model
    made_by: Extension

    def resolve(self) -> None:
        """Let the model find out which version it is; SpecError where its code raises."""
        with foreign_code(f"model {self.name}: resolve"):
            self.model.resolve()

    @property
    def identity(self) -> str:
        """The model's identity and its source."""
        return f"{self.model.identity}|source={self.made_by.source[:12]}"

    @property
    def revision(self) -> str:
        """The model's revision, if any, and the start of its source's digest."""
        parts = (self.model.revision, self.made_by.source[:7])
        return "+".join(part.replace("|", "/") for part in parts if part)

    @property
    def modes(self) -> frozenset[Mode]:
        """What it can be asked for."""
        return frozenset(self.model.modes)

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """The model's answers; SpecError where its code raises."""
        with foreign_code(f"model {self.name}: answer"):
            yield from self.model.answer(requests)


class Resolvable(ABC):
    """A model with an identity that `resolve` finds out; before that, reading it is a bug."""

    name: str
    _found: tuple[str, str | None] | None = None

    def resolve(self) -> None:
        """Find out, once, which exact model this is, by files or its server; ModelError if not."""
        if self._found is None:
            self._found = self._identify()

    @property
    def identity(self) -> str:
        """Everything about the model that changes its answers; part of request keys."""
        return self._known[0]

    @property
    def revision(self) -> str | None:
        """A short name of the exact version; None where only the served snapshot shows it."""
        return self._known[1]

    @property
    def _known(self) -> tuple[str, str | None]:
        if self._found is None:
            raise RuntimeError(f"bug: model {self.name} is used before its resolve() was called")
        return self._found

    @abstractmethod
    def _identify(self) -> tuple[str, str | None]:
        """Find the identity and the revision."""
