"""What a model's YAML may say, one class a kind."""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from harness.specs.checked import Spec


class LocalSpec(Spec, frozen=True, kw_only=True):
    """A checkpoint run on this machine: a hub name or a folder.

    `revision`, `dtype`, `build` and `choice_prompt` change answers and belong to the identity;
    `device` and `batch_tokens` (prompt and answer tokens in one batch) do not. Choices stand
    behind the `plain` text of a prompt, as published protocols have it, or open the model's turn
    in its `chat` template.
    """

    model: str
    about: str = ""
    revision: str | None = None
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    trust_remote_code: bool = False
    build: Literal["tiny-llama"] | None = None
    choice_prompt: Literal["plain", "chat"] = "plain"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    batch_tokens: Annotated[int, Meta(ge=1)] = 16384
    server_url: str = "http://localhost:8000/v1"


class TransformersSpec(LocalSpec, frozen=True, kw_only=True, tag_field="kind", tag="transformers"):
    """A checkpoint run through transformers."""


class VllmSpec(LocalSpec, frozen=True, kw_only=True, tag_field="kind", tag="vllm"):
    """A checkpoint run through vLLM in this process.

    `quantization` and `lora`, an adapter's folder or hub name, change answers and belong to the
    identity; the rest, null where vLLM decides, does not. What does not fit `max_model_len` is
    refused, not cut.
    """

    quantization: str | None = None
    lora: str | None = None
    max_model_len: Annotated[int, Meta(ge=2)] | None = None
    tensor_parallel_size: Annotated[int, Meta(ge=1)] = 1
    pipeline_parallel_size: Annotated[int, Meta(ge=1)] = 1
    gpu_memory_utilization: Annotated[float, Meta(gt=0, le=1)] | None = None
    enforce_eager: bool = False


class OpenAISpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="openai"):
    """A model behind an OpenAI-compatible server.

    `model: auto` takes the one model the server says it serves. `key_env` names the
    environment variable that holds the key; null for servers without one. `base_url_env`
    names a variable that overrides `base_url`. `is_structured_output` is false for servers that
    cannot hold a reply to a JSON schema. `choices` says what the server tells of choices: `echo`,
    the log-probabilities of a prompt it is given; `top_logprobs`, those of the likeliest next
    tokens of a chat; or `none`.
    """

    model: str
    about: str = ""
    base_url: str = "https://api.openai.com/v1"
    base_url_env: str | None = None
    key_env: str | None = "OPENAI_API_KEY"
    extra_body: dict[str, Any] = field(default_factory=dict)
    token_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"  # noqa: S105 - a field name, no secret
    sends_temperature: bool = True
    sends_seed: bool = True
    is_structured_output: bool = True
    choices: Literal["none", "echo", "top_logprobs"] = "top_logprobs"
    concurrency: Annotated[int, Meta(ge=1)] = 16
    timeout_s: Annotated[float, Meta(gt=0)] = 120.0
    total_s: Annotated[float, Meta(gt=0)] = 900.0
    attempts: Annotated[int, Meta(ge=1)] = 6


class AnthropicSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="anthropic"):
    """A model behind Anthropic's API.

    `is_structured_output` is false for models that cannot be forced to fill in a form; the other
    keys are as those of kind openai.
    """

    model: str
    about: str = ""
    base_url: str = "https://api.anthropic.com"
    base_url_env: str | None = None
    key_env: str | None = "ANTHROPIC_API_KEY"
    extra_body: dict[str, Any] = field(default_factory=dict)
    sends_temperature: bool = True
    is_structured_output: bool = True
    concurrency: Annotated[int, Meta(ge=1)] = 64
    timeout_s: Annotated[float, Meta(gt=0)] = 120.0
    total_s: Annotated[float, Meta(gt=0)] = 900.0
    attempts: Annotated[int, Meta(ge=1)] = 6


class ScriptedSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="scripted"):
    """A control model: answers from the task's own fields and references."""

    policy: str
    about: str = ""


ModelSpec = TransformersSpec | VllmSpec | OpenAISpec | AnthropicSpec | ScriptedSpec
