"""The nine nouns, from samples to scores; read this file first."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import Protocol

from harness import parts
from harness.parts import ChoiceScore, Decoding, Failure, Message, Mode, Reason, Usage, digest


@dataclass(frozen=True, slots=True)
class Sample:
    """One item of a data set; its `id` depends on its content, `gold` is one of its `choices`."""

    id: str
    fields: Mapping[str, str]
    references: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    choices: tuple[str, ...] = ()
    gold: str | None = None
    group: str = "all"
    cluster: str = ""
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError(f"a sample needs an id (fields: {sorted(self.fields)})")
        if self.references and (both := sorted(set(self.fields) & set(self.references))):
            raise ValueError(f"sample {self.id}: {both} are in fields and in references")
        if self.choices and (self.choices.count(self.gold or "") != 1 or len(self.choices) < 2):
            raise ValueError(f"sample {self.id}: {self.gold!r} is not one of {self.choices}")
        if not self.cluster:
            object.__setattr__(self, "cluster", self.id)


@dataclass(frozen=True)  # without slots, so that its key is computed once
class Request:
    """One question to the model with this identity; a reply follows the JSON `schema`, if any."""

    sample_id: str
    variant: str
    step: str
    model: str
    messages: tuple[Message, ...]
    decoding: Decoding
    mode: Mode = Mode.GENERATE
    choices: tuple[str, ...] = ()
    repeat: int = 0
    schema: Mapping[str, object] | None = None

    @cached_property
    def key(self) -> str:
        """Digest of everything that changes the answer, and of nothing else."""
        shape = (self.mode, self.choices, self.repeat, self.schema)
        return digest((self.model, self.messages, self.decoding, *shape))


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to one request: texts, choice scores, vectors or a failure.

    `stop` is "length" where an answer was cut at max_tokens; it still counts. `served` is the
    snapshot the server names; `detail` has further numbers. Of several replies, `texts` has those
    with an answer, and `lost` why each other has none.
    """

    key: str
    texts: tuple[str, ...] | None = None
    choice_scores: tuple[ChoiceScore, ...] | None = None
    vectors: tuple[tuple[float, ...], ...] | None = None
    failure: Failure | None = None
    stop: str | None = None
    usage: Usage = field(default_factory=Usage)
    served: str | None = None
    detail: Mapping[str, float] = field(default_factory=dict)
    lost: tuple[Reason, ...] = ()

    def __post_init__(self) -> None:
        given = [self.texts, self.choice_scores, self.vectors, self.failure]
        if given.count(None) != len(given) - 1 or self.texts == ():
            raise ValueError(f"give exactly one of texts, choices, vectors and failure: {given!r}")

    @classmethod
    def failed(cls, key: str, reason: Reason, message: str) -> "Response":
        """The response to a request that has no answer."""
        return cls(key, failure=Failure(reason, message))


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judge's value for one response, on the judge's scale, or the reason why there is none.

    `detail` has further numbers, each a separate metric; `shares` the probability of each choice.
    """

    response_key: str
    judge: str
    value: float | None
    reason: Reason | None = None
    note: str = ""
    detail: Mapping[str, float] = field(default_factory=dict)
    served: str | None = None
    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if (self.value is None) == (self.reason is None):
            fact = f"give a value or a reason, not {self.value!r} and {self.reason!r}"
            raise ValueError(f"verdict on {self.response_key[:12]} by {self.judge}: {fact}")
        if not all(map(isfinite, (self.value or 0.0, *self.detail.values(), *self.shares))):
            raise ValueError(f"verdict by {self.judge}, not finite: {self.value} {self.detail}")


@dataclass(frozen=True, slots=True)
class Score:
    """One number of a table, its interval and the counts of missing values; None where n is 0."""

    judge: str
    variant: str
    decoding: str
    group: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    clusters: int
    missing: Mapping[Reason, int]

    def __post_init__(self) -> None:
        if (self.n == 0) != (self.value is None):
            raise ValueError(f"score {self.metric} of {self.group}: n {self.n}, {self.value!r}")


@dataclass(frozen=True, slots=True)
class Run:
    """What defines a run: one task, some variants, one model; its `digest` names its folder."""

    task: str
    variants: tuple[str, ...]
    model: str
    decodings: tuple[Decoding, ...]
    seed: int
    limit: int | None
    prompts: str
    data: str

    @property
    def digest(self) -> str:
        """Digest of these fields; it depends on no judge, clock, host or version."""
        return digest(self)


@dataclass(frozen=True, slots=True)
class Case:
    """What a judge reads; `neutral` scores the choices (`options`) without the sample's text."""

    sample: Sample
    response: Response
    replies: tuple[Response, ...] = ()
    block: str = ""
    variant: str = ""
    options: tuple[parts.Option, ...] = ()
    neutral: Response | None = None


class Model(Protocol):
    """Anything that answers requests: one response, or failure, a request; a bug propagates."""

    @property
    def name(self) -> str:
        """Its name on the command line."""

    @property
    def kind(self) -> str:
        """The kind of back end."""

    def resolve(self) -> None:
        """Find out which exact model this is, once, before it is used. Raises ModelError."""

    @property
    def identity(self) -> str:
        """Everything about the model that changes its answers; part of request keys."""

    @property
    def revision(self) -> str | None:
        """Its exact version for signatures; None where only responses name the snapshot."""

    @property
    def modes(self) -> frozenset[Mode]:
        """The kinds of answer it can give."""

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """One response for each request; what fails is a response too, while bugs propagate."""


class Judge(Protocol):
    """Anything that turns responses into verdicts: `ask` is pure, `read` uses no network."""

    @property
    def name(self) -> str:
        """Its name on the command line."""

    @property
    def metric(self) -> str:
        """The name of the mean of its verdicts, such as accuracy, mean_rating or mean_f1."""

    @property
    def recipe(self) -> str:
        """The two fields `name:digest|way` that describe it in every signature."""

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        """The requests about one response that this judge's model must answer; often none."""

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict for each case, in the order of the cases."""
