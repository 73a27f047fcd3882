"""The eight nouns: what is asked, what came back, how it was read, what it amounts to.

Frozen records, two protocols, all checked when built. First file to read; it does nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Protocol

from harness import parts
from harness.parts import ChoiceScore, Decoding, Failure, Message, Mode, Reason, Usage, digest


@dataclass(frozen=True, slots=True)
class Sample:
    """One thing to be asked about; `id` comes from its content, `gold` is one of its choices."""

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
        if both := sorted(set(self.fields) & set(self.references)):
            raise ValueError(f"sample {self.id}: {both} stand in fields and in references")
        if self.choices and (self.choices.count(self.gold or "") != 1 or len(self.choices) < 2):
            raise ValueError(f"sample {self.id}: {self.gold!r} is not one of {self.choices}")
        object.__setattr__(self, "cluster", self.cluster or self.id)


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the model of this identity; a reply follows the JSON `schema`, if any."""

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

    @property
    def key(self) -> str:
        """Digest of all that changes the answer, and of nothing else."""
        shape = (self.mode, self.choices, self.repeat, self.schema)
        return digest((self.model, self.messages, self.decoding, *shape))


@dataclass(frozen=True, slots=True)
class Response:
    """What came back for one request: texts, choice scores, vectors or a failure.

    `stop` is "length" where an answer was cut at max_tokens; it still counts. `served` is the
    snapshot a server says it used, or null; `detail` further numbers by name, as of categories.
    `lost` says of each of several replies that holds no answer why; the texts are the others.
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
        held = [self.texts, self.choice_scores, self.vectors, self.failure]
        if sum(part is not None for part in held) != 1 or self.texts == ():
            raise ValueError(f"give exactly one of texts, choices, vectors and failure: {held!r}")

    @classmethod
    def failed(cls, key: str, reason: Reason, message: str) -> "Response":
        """The response of a request that has no answer."""
        return cls(key=key, failure=Failure(reason, message))


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judge's reading of one response, on the judge's scale, or why there is none.

    `detail` holds further numbers (a margin, consistency), each a metric of its own; `shares` the
    probability of each of the sample's choices; `served` the judge model's snapshots, or null.
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
    """One number of a table, with its interval and what is missing from it."""

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
    """What is to be done: one task, some variants, one model; `digest` names its folder."""

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
        """Digest of these fields; judges, clock, host and version are not in it."""
        return digest(self)


@dataclass(frozen=True, slots=True)
class Case:
    """What a judge reads; options: the choices as laid out, neutral: scored without the sample."""

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
        """The name it is called by on the command line."""

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
        """A short name of its exact version; None where only the served snapshot shows it."""

    @property
    def modes(self) -> frozenset[Mode]:
        """What it can be asked for."""

    def answer(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Answer each request once."""


class Judge(Protocol):
    """A way of reading responses: `ask` is pure, `read` makes no network call."""

    @property
    def name(self) -> str:
        """The name it is called by on the command line."""

    @property
    def metric(self) -> str:
        """What the mean of its verdicts is called: accuracy, mean_rating, mean_f1."""

    @property
    def recipe(self) -> str:
        """The two fields `name:digest|way` that stand for it in every signature."""

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        """The questions this judge needs answered about one response; often none."""

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict a case, in the order of the cases."""
