from pathlib import Path
from typing import Any

import pytest
from support.each import each

from harness.errors import SpecError
from harness.specs import models
from harness.specs.models import Backend, ModelSpec, TransformersSpec, VllmSpec, rebacked
from harness.specs.schema import load_spec

FILE = Path("configs/models/m.yaml")
KNOBS = {
    "max_model_len": 2048,
    "tensor_parallel_size": 2,
    "pipeline_parallel_size": 2,
    "gpu_memory_utilization": 0.5,
    "enforce_eager": True,
}
LOCAL = {"model": "maker/m", "revision": "v1", "dtype": "bfloat16", "choice_prompt": "chat"}


def spec(backend: Backend, **content: object) -> Any:  # noqa: ANN401 - whichever kind it is
    return load_spec(rebacked(content, backend, where=FILE), ModelSpec, where="m.yaml")


@pytest.mark.parametrize("kind", ["transformers", "vllm"])
@pytest.mark.parametrize(
    ("backend", "made"), [("transformers", TransformersSpec), ("vllm", VllmSpec)]
)
def test_what_changes_answers_is_carried_to_another_back_end(
    kind: str, backend: Backend, made: type
) -> None:
    assert spec(backend, kind=kind, **LOCAL) == made(**LOCAL)


def test_settings_of_the_engine_are_left_behind_with_it() -> None:
    assert spec("transformers", kind="vllm", model="m", **KNOBS) == TransformersSpec(model="m")
    assert spec("vllm", kind="vllm", model="m", **KNOBS) == VllmSpec(model="m", **KNOBS)  # type: ignore[arg-type]  # by key


@each("backend", ["transformers", "server"])
def test_what_another_back_end_lacks_and_answers_depend_on_is_refused(backend: Backend) -> None:
    with pytest.raises(SpecError, match=f"--backend {backend} knows no quantization, which"):
        spec(backend, kind="vllm", model="m", quantization="fp8")


@pytest.mark.parametrize("backend", ["transformers", "vllm", "server"])
def test_a_mistyped_key_stays_a_mistake(backend: Backend) -> None:
    with pytest.raises(SpecError, match="enforce_eagr"):
        spec(backend, kind="vllm", model="m", enforce_eagr=True)


@pytest.mark.parametrize(("form", "choices"), [("plain", "echo"), ("chat", "none")])
def test_a_local_models_server_scores_choices_in_plain_form_alone(form: str, choices: str) -> None:
    made: models.OpenAISpec = spec("server", kind="vllm", model="m", choice_prompt=form)
    assert (made.choices, made.base_url_env, made.key_env) == (choices, "HARNESS_SERVER_URL", None)


@pytest.mark.parametrize("kind", ["openai", "scripted", None])
def test_only_local_models_have_another_back_end(kind: str | None) -> None:
    with pytest.raises(SpecError, match="for kinds transformers and vllm"):
        rebacked({"kind": kind}, "vllm", where=FILE)
