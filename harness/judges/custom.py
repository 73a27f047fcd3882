"""What judges are built with, derived from, wrapped in and called."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from harness.core import Case, Judge, Request, Response, Sample, Verdict
from harness.errors import SpecError, did_you_mean
from harness.models.spread import HERE, Executor
from harness.parts import Decoding, Failure, Message, digest
from harness.specs.implicitness import LocalEncoderSpec
from harness.specs.plugins import Extension, foreign_code, source_digest, spec_digest
from harness.text.prompts import Prompts

if TYPE_CHECKING:
    from harness.models.encoders.encoders import Encoder


@dataclass(frozen=True, slots=True)
class JudgeContext:
    """What a judge may use besides its spec; `model` is the identity of the one it asks."""

    prompts: Prompts
    encoder: "Callable[[LocalEncoderSpec], Encoder]"
    model: str | None = None
    executor: Executor = HERE

    def asked_model(self, judge: str) -> str:
        """Return the identity of the judge's model; SpecError where there is none."""
        if self.model is None:
            fact = f"judge {judge} asks a model, and asked none when it read this run"
            raise SpecError(f"{fact}; judge again")
        return self.model


def reads_each_alone(judge: Judge) -> bool:
    """Whether a judge's verdict on a case is the same whatever other cases it reads with it."""
    own = judge.judge if isinstance(judge, SourcedJudge) else judge
    return getattr(own, "reads_alone", False) is True


class ComputedJudge:
    """A judge that asks nothing: a subclass sets `metric` and writes `read`.

    One with a `name` of its own needs no YAML: the digest of its code and attributes is its recipe,
    or of its `version`.
    """

    name: str
    metric: str
    version = ""
    reads_alone = False
    _spec: Any = None

    def __init__(self, name: str | None = None, spec: Any = None) -> None:  # noqa: ANN401 - each subclass has its own
        """Judge as `spec` says under `name`, or under the name of the class."""
        if name is not None:
            self.name, self._spec = name, spec
        elif not isinstance(getattr(self, "name", None), str):
            raise SpecError(f"judge class {type(self).__name__}: set `name`, the judge's name")

    @classmethod
    def build(cls, name: str, spec: Any, context: JudgeContext) -> Self:  # noqa: ANN401 - as above
        """Build the judge of a spec."""
        return cls(name, spec)

    @property
    def recipe(self) -> str:
        """Name, digest and kind, as signatures show them."""
        if self._spec is None:
            return f"{self.name}:{source_digest(self, is_strict=not self.version)[:8]}|python"
        return f"{self.name}:{spec_digest(self._spec)[:8]}|{type(self._spec).__struct_config__.tag}"

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        """Ask nothing: the verdict is computed."""
        return ()

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """Give one verdict a case, in the order of the cases."""
        raise NotImplementedError(f"{type(self).__name__} has no method `read`")


class AskingJudge:
    """A judge that asks a model: a subclass sets `metric`, writes `ask` and `read`."""

    metric: str
    reads_alone = False

    def __init__(self, name: str, spec: Any, *, prompts: Prompts, model: str) -> None:  # noqa: ANN401 - as above
        """Judge as `spec` says; `model` is the identity of the judge model."""
        self.name = name
        self._spec = spec
        self._prompts = prompts
        self._model = model
        changes = digest((spec_digest(spec), model))
        self.recipe = f"{name}:{changes[:8]}|{type(spec).__struct_config__.tag}"

    @classmethod
    def build(cls, name: str, spec: Any, context: JudgeContext) -> Self:  # noqa: ANN401 - as above
        """Build the judge of a spec; it needs the identity of a judge model."""
        return cls(name, spec, prompts=context.prompts, model=context.asked_model(name))

    def _request(
        self,
        sample: Sample,
        step: str,
        messages: tuple[Message, ...],
        decoding: Decoding,
        schema: Mapping[str, object] | None = None,
    ) -> Request:
        name, model = self.name, self._model
        return Request(sample.id, name, step, model, messages, decoding, schema=schema)

    def _reference(self, sample: Sample, name: str) -> tuple[str, ...]:
        if not sample.references.get(name):
            raise SpecError(
                f"judge {self.name} needs the reference {name!r}, which sample {sample.id} has not"
                f"{did_you_mean(name, list(sample.references))}"
            )
        return sample.references[name]


def served_by(replies: Sequence[Response]) -> str | None:
    """Name the snapshots that replies say they come from; None where none says so."""
    return "+".join(sorted({reply.served for reply in replies if reply.served})) or None


def missing(response: Response, judge: str, why: Failure, served: str | None = None) -> Verdict:
    """A verdict without a value, for a reason, with its message as the note."""
    return Verdict(response.key, judge, None, why.reason, note=why.message, served=served)


@dataclass(frozen=True, slots=True)
class SourcedJudge:
    """A judge of other people's code: the digest of its source goes into the recipe."""

    name: str
    judge: Judge
    made_by: Extension

    @property
    def metric(self) -> str:
        """What the mean of the judge's verdicts is called."""
        return self.judge.metric

    @property
    def recipe(self) -> str:
        """The judge's recipe with a digest that its source is part of."""
        recipe = self.judge.recipe
        way = recipe.partition("|")[2].replace("|", "/") or "own"
        return f"{self.name}:{digest((recipe, self.made_by.source))[:8]}|{way}"

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        """What the judge asks; SpecError where its code raises."""
        with foreign_code(f"judge {self.name}: ask"):
            asked = tuple(self.judge.ask(sample, response))
            if odd := [one for one in asked if not isinstance(one, Request)]:
                raise TypeError(f"gives {odd[0]!r}, which is no harness.core.Request")
            return asked

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """The judge's verdicts; SpecError where its code raises, or gives too few or too many."""
        with foreign_code(f"judge {self.name}: read"):
            verdicts = self.judge.read(cases)
            if len(verdicts) != len(cases):
                raise ValueError(f"{len(verdicts)} verdicts on {len(cases)} cases")
            return verdicts


@dataclass(frozen=True, slots=True)
class JudgeLabel:
    """What a judge is called: the name of its YAML, and the model that it asks, if not its own."""

    name: str
    model: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """The label that is printed so."""
        name, _, model = text.partition("/")
        return cls(name, model or None)

    def __str__(self) -> str:
        """The label as files, tables and the command line have it."""
        return f"{self.name}/{self.model}" if self.model else self.name
