"""What the YAML of a model may say, one class a kind; and its prices."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from harness.errors import SpecError
from harness.specs.implicitness import LocalEncoderSpec
from harness.specs.schema import Spec, kinds_of, load_spec

# The fields of a request's body that the program fills itself.
OWN_FIELDS = frozenset(
    {
        *("best_of", "encoding_format", "function_call", "functions", "input", "instructions"),
        *("logprobs", "max_completion_tokens", "max_output_tokens", "max_tokens", "messages"),
        *("model", "n", "output_config.format", "prompt", "response_format", "seed", "stop"),
        *("stop_sequences", "store", "stream", "stream_options", "system", "temperature"),
        *("text.format", "tool_choice", "tools", "top_logprobs"),
    }
)


def check_body(extra: Mapping[str, Any]) -> None:
    """Refuse further fields that no JSON can hold, or that are the request's own."""
    try:
        json.dumps(extra, allow_nan=False)
    except (TypeError, ValueError) as error:  # .nan, .inf, a date
        fact = f"extra_body cannot be sent ({error})"
        raise ValueError(f"{fact}; write finite numbers, texts, true, false and null") from error
    nested = {name: value for name, value in extra.items() if isinstance(value, dict)}
    inner = {f"{name}.{part}" for name, value in nested.items() for part in value}
    if found := sorted(OWN_FIELDS & (extra.keys() | inner)):
        raise ValueError(
            f"extra_body would override what each request says ({', '.join(found)}); leave it out: "
            "prompts and the YAML of the task, the judge and the model say it (docs/models.md)"
        )


Usd = Annotated[float, Meta(ge=0)]


class PriceSpec(Spec, frozen=True, kw_only=True):
    """US dollars for a million tokens of one model; null if no price is known.

    `source` may say who had this price, `read` on which day; `batch_share` is a batch's share.
    """

    input_usd: Usd | None = None
    output_usd: Usd | None = None
    batch_share: Annotated[float, Meta(gt=0, le=1)] | None = None
    read: str | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        if (self.input_usd is None) is not (self.output_usd is None):
            raise ValueError("give both input_usd and output_usd, or none of them")


class PricesSpec(Spec, frozen=True, kw_only=True):
    """Prices by the provider's name of the model."""

    about: str = ""
    prices: dict[str, PriceSpec] = field(default_factory=dict)


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
AtLeastOne = Annotated[int, Meta(ge=1)]
Concurrency = Annotated[int, Meta(ge=1, le=10_000)]
Seconds = Annotated[float, Meta(gt=0, le=30 * 24 * 3600)]
NotNegative = Annotated[int, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]


class TransformersSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="transformers"):
    """A checkpoint run through transformers: a hub name or a folder.

    `revision`, `dtype`, `build` and `choice_prompt` change answers and belong to the identity; the
    rest does not. Choices follow the `plain` text of a prompt, as published, or open the model's
    turn, as `chat`. `batch_tokens` are those of prompts and answers in one batch. A copy of it on a
    cluster takes `cpus`, each with a thread, and `gpus`; null: on a GPU one core and as many GPUs
    as its engine uses, else as many cores as torch uses threads.
    """

    model: str
    about: str = ""
    revision: str | None = None
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    trust_remote_code: bool = False
    build: Literal["tiny-llama"] | None = None
    choice_prompt: Literal["plain", "chat"] = "plain"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    batch_tokens: AtLeastOne = 16384
    cpus: AtLeastOne | None = None
    gpus: Annotated[float, Meta(ge=0)] | None = None
    server_url: str = "http://localhost:8000/v1"


class VllmSpec(TransformersSpec, frozen=True, kw_only=True, tag_field="kind", tag="vllm"):
    """A checkpoint run through vLLM in this process.

    `quantization` changes answers and belongs to the identity; the rest, null where vLLM decides,
    does not. What does not fit `max_model_len` is refused, not cut.
    """

    quantization: str | None = None
    max_model_len: Annotated[int, Meta(ge=2)] | None = None
    tensor_parallel_size: AtLeastOne = 1
    pipeline_parallel_size: AtLeastOne = 1
    gpu_memory_utilization: Annotated[float, Meta(gt=0, le=1)] | None = None
    enforce_eager: bool = False


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_OWN_HEADERS = frozenset(
    {
        *("accept", "accept-encoding", "authorization", "connection", "content-encoding"),
        *("content-length", "content-type", "cookie", "host", "transfer-encoding", "x-api-key"),
    }
)
_USUAL = re.compile(r"[A-Z][A-Z0-9]{0,15}(?:_[A-Z0-9]{1,15})+|[A-Z]{1,6}")


def is_usual_variable(name: str) -> bool:
    """Whether a variable's name, as OPENAI_API_KEY, is one that nobody would take for a key."""
    return bool(_USUAL.fullmatch(name))


class ServerSpec(Spec, frozen=True, kw_only=True):
    """A model behind a server: its name there, timeouts and attempts.

    `base_url_env` names an environment variable that overrides `base_url`, `key_env` the one that
    holds the key, null for a server without one. `timeout_s` is for one attempt, `total_s` for all
    of a request, in seconds. `headers_env` names further headers, and for each the variable that
    holds its value; no other is sent.
    """

    model: str
    about: str = ""
    base_url: str
    base_url_env: str | None = None
    key_env: str | None
    concurrency: Concurrency = 64
    timeout_s: Seconds = 120.0
    total_s: Seconds = 900.0
    attempts: AtLeastOne = 6
    headers_env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cannot be the name of an environment variable, without a word of it."""
        named = {f"headers_env.{header}": name for header, name in self.headers_env.items()}
        for place, name in (named | {"key_env": self.key_env or "_"}).items():
            if not _VARIABLE.fullmatch(name):
                raise ValueError(
                    f"`{place}` is no name of an environment variable; name there the variable "
                    "that holds the key, and never write the key itself into a file"
                )
        for header in self.headers_env:
            if not _HEADER.fullmatch(header) or header.lower() in _OWN_HEADERS:
                raise ValueError(
                    f"`headers_env` has {header!r}, which is no header of yours to set; name "
                    "others, such as OpenAI-Organization, and the key's variable as key_env"
                )


OPENAI_URL = "https://api.openai.com/v1"


class OpenAISpec(ServerSpec, frozen=True, kw_only=True, tag_field="kind", tag="openai"):
    """A model behind an OpenAI-compatible server.

    `model: auto` takes the only model that the server lists. `sends_n` is false for servers that
    return one reply a call. `is_structured_output` is false for those that cannot enforce a JSON
    schema. `choices` says what log-probabilities the server returns: `echo`, those of the prompt;
    `top_logprobs`, those of the most probable next tokens of a chat; or `none`, as with
    `api: responses`. `reasoning_max_tokens` are tokens for reasoning, besides the max_tokens of a
    decoding.
    """

    base_url: str = OPENAI_URL
    key_env: str | None = "OPENAI_API_KEY"
    api: Literal["chat", "responses"] = "chat"
    extra_body: dict[str, Any] = field(default_factory=dict)
    reasoning_effort: Effort | None = None
    reasoning_max_tokens: NotNegative = 0
    token_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"  # noqa: S105 - a field name, no secret
    sends_temperature: bool = True
    sends_seed: bool = True
    sends_n: bool = True
    is_structured_output: bool = True
    choices: Literal["none", "echo", "top_logprobs"] = "top_logprobs"

    def __post_init__(self) -> None:
        ServerSpec.__post_init__(self)
        check_body(self.extra_body)
        if self.api == "responses" and self.choices == "echo":
            raise ValueError("api: responses says nothing of choices; leave out choices: echo")
        if self.reasoning_effort and {"reasoning", "reasoning_effort"} & set(self.extra_body):
            raise ValueError("give reasoning_effort by itself or within extra_body, not both")

    @property
    def is_one_by_one(self) -> bool:
        """Whether several replies are as many calls; the responses API knows no other way."""
        return self.api == "responses" or not self.sends_n


class AnthropicSpec(ServerSpec, frozen=True, kw_only=True, tag_field="kind", tag="anthropic"):
    """A model behind Anthropic's API.

    `form` is how a request enforces the form of a reply: by a `tool` that must be called, or by a
    JSON `schema`. If a model supports neither, `is_structured_output` is false.
    """

    base_url: str = "https://api.anthropic.com"
    key_env: str | None = "ANTHROPIC_API_KEY"
    extra_body: dict[str, Any] = field(default_factory=dict)
    reasoning_max_tokens: NotNegative = 0
    sends_temperature: bool = True
    is_structured_output: bool = True
    form: Literal["tool", "schema"] = "tool"

    def __post_init__(self) -> None:
        ServerSpec.__post_init__(self)
        check_body(self.extra_body)


class ScriptedSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="scripted"):
    """A control model: answers from the task's own fields and references."""

    policy: str
    about: str = ""


class SklearnSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="sklearn"):
    """A classifier of scikit-learn on the vectors of an encoder; `harness train` trains it.

    `head` is a support vector machine, linear or with a radial kernel (`svm-rbf`), which has
    decision scores and no probabilities, or a logistic regression. `class_weight: balanced` weighs
    each class by the inverse of its frequency. `c` is the inverse strength of regularisation.
    `gamma` is the radial kernel's, null for 1 / (width x variance of the vectors). `max_iter` ends
    the training of a linear head. `trained` is the folder of the trained model, null for that in
    the results folder.
    """

    head: Literal["svm", "svm-rbf", "logistic"]
    encoder: LocalEncoderSpec
    about: str = ""
    class_weight: Literal["none", "balanced"] = "none"
    c: Positive = 1.0
    gamma: Positive | None = None
    max_iter: AtLeastOne = 1000
    trained: str | None = None

    def __post_init__(self) -> None:
        if self.gamma is not None and self.head != "svm-rbf":
            raise ValueError("`gamma` is of a radial kernel; leave it out, or set head: svm-rbf")


class FlagSpec(Spec, frozen=True, kw_only=True):
    """How a checkpoint whose outputs do not exclude each other gives one of two labels.

    A text is `positive` if one of `outputs`, by default any, has a probability of `threshold`.
    """

    positive: str = "hateful"
    outputs: tuple[str, ...] = ()
    threshold: Annotated[float, Meta(gt=0, le=1)] = 0.5


class ClassifierSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="classifier"):
    """A sequence classifier run through transformers: a hub name or a folder.

    `harness train` trains it, with AdamW and a learning rate that falls linearly to 0. It is used
    untrained with `labels`, from each label of a task to the checkpoint's, or with `flags`, for
    outputs that do not exclude each other. Texts are cut at `max_tokens`; `trained` as for sklearn.
    """

    model: str
    about: str = ""
    revision: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    flags: FlagSpec | None = None
    epochs: AtLeastOne = 4
    learning_rate: Positive = 2e-5
    batch: AtLeastOne = 32
    weight_decay: Annotated[float, Meta(ge=0)] = 0.01
    max_tokens: Annotated[int, Meta(ge=8)] = 256
    device: Literal["auto", "cpu", "cuda"] = "auto"
    trained: str | None = None

    def __post_init__(self) -> None:
        if self.labels and self.flags:
            raise ValueError("give `labels`, one of them right, or `flags`, not both")
        named = [*self.labels.values()]
        if twice := [name for name in named if named.count(name) > 1]:
            raise ValueError(f"`labels` names the checkpoint's label {twice[0]!r} twice")


class ModerationSpec(ServerSpec, frozen=True, kw_only=True, tag_field="kind", tag="moderation"):
    """OpenAI's moderation endpoint: of two labels a text flagged in any category is `positive`."""

    positive: str = "hateful"
    base_url: str = OPENAI_URL
    key_env: str | None = "OPENAI_API_KEY"
    concurrency: Concurrency = 16
    timeout_s: Seconds = 60.0


class PythonModelSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="python"):
    """A model of one's own: a class in a Python file, or in an installed module.

    `entry: file.py:Class` counts from this file's folder, `entry: package.module:Class` is
    imported. `settings` are for the class to read.
    """

    entry: str
    about: str = ""
    settings: dict[str, Any] = field(default_factory=dict)


LocalSpec = TransformersSpec | VllmSpec  # models that answer prompts on this machine
TrainedSpec = SklearnSpec | ClassifierSpec  # models that `harness train` trains
HostedSpec = OpenAISpec | AnthropicSpec  # models that answer prompts elsewhere, mostly for money
# Models that read a text and give it a label: they answer the choices of tasks, and no prompt.
LabellingSpec = TrainedSpec | ModerationSpec
CLASSIFIERS = frozenset(kinds_of(LabellingSpec))  # their kinds
IMPORTED = "replay"  # the kind of a model whose answers others stored: it is never asked
# Plugins add specs to these.
ModelSpec = LocalSpec | HostedSpec | ScriptedSpec | LabellingSpec | PythonModelSpec
Backend = Literal["transformers", "vllm", "server"]


def rebacked(content: Mapping[str, Any], backend: Backend, *, where: Path) -> dict[str, Any]:
    """A local model's YAML, to be run by another back end."""
    if (kind := content.get("kind")) not in ("transformers", "vllm"):
        fact = f"{where}: --backend {backend} is for kinds transformers and vllm, not for {kind!r}"
        raise SpecError(f"{fact}; leave it out")
    if kind == "vllm" != backend and content.get("quantization") is not None:
        raise SpecError(
            f"{where}: --backend {backend} knows no quantization, which changes answers; run the "
            "model as it is, or serve it so and write a model of kind openai"
        )
    if backend == "server":
        local = load_spec(dict(content), ModelSpec, where=str(where))
        # A server is given no chat template for choices.
        choices = "echo" if local.choice_prompt == "plain" else "none"
        address = {"base_url": local.server_url, "base_url_env": "HARNESS_SERVER_URL"}
        own = {"kind": "openai", "about": local.about, "model": local.model}
        return {**own, **address, "key_env": None, "choices": choices}
    alone = {*VllmSpec.__struct_fields__} - {*TransformersSpec.__struct_fields__}
    left = alone if kind == "vllm" != backend else set[str]()
    return {key: value for key, value in content.items() if key not in left} | {"kind": backend}
