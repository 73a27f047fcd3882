"""A local model's YAML to that of the same model run by another back end.

What changes answers is carried over or refused, never dropped. Nothing here runs a model.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from harness.errors import SpecError
from harness.specs.models import ModelSpec, TransformersSpec, VllmSpec
from harness.specs.schema import check

Backend = Literal["transformers", "vllm", "server"]
VLLM_ALONE = frozenset(VllmSpec.__struct_fields__) - set(TransformersSpec.__struct_fields__)
CHANGE_ANSWERS = ("lora", "pooling", "quantization")


def rebacked(content: Mapping[str, Any], backend: Backend, *, where: Path) -> dict[str, Any]:
    """A local model's YAML, to be run by another back end."""
    if content.get("kind") not in ("transformers", "vllm"):
        raise SpecError(
            f"{where}: --backend {backend} is for kinds transformers and vllm, not for "
            f"{content.get('kind')!r}; leave it out"
        )
    if backend == "vllm":
        return {**content, "kind": backend}
    for key in CHANGE_ANSWERS:
        if content.get("kind") == "vllm" and content.get(key) is not None:
            raise SpecError(
                f"{where}: --backend {backend} knows no {key}, which changes answers; run the "
                "model as it is, or serve it so and write a model of kind openai"
            )
    if backend == "server":
        return _served(content, where=where)
    kept = {key: value for key, value in content.items() if key not in VLLM_ALONE}
    return (kept if content["kind"] == "vllm" else dict(content)) | {"kind": backend}


def _served(content: Mapping[str, Any], *, where: Path) -> dict[str, Any]:
    """The YAML of the server that has a local model; it is given no chat template for choices."""
    local = check(dict(content), ModelSpec, where=str(where))
    return {
        "kind": "openai",
        "about": local.about,
        "model": local.model,
        "base_url": local.server_url,
        "base_url_env": "HARNESS_SERVER_URL",
        "key_env": None,
        "choices": "echo" if local.choice_prompt == "plain" else "none",
    }
