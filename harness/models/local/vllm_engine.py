"""A checkpoint and what its YAML says of the engine to vLLM's engine, running in this process.

The only module that opens vLLM. What it says of itself goes nowhere, and it says nothing to
anybody else. Nothing here knows requests or prompts.
"""

import json
import os
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import ModelError
from harness.models.local.checkpoints import Checkpoint, ResolvedCheckpoint
from harness.models.local.vllm_rows import EngineRow
from harness.specs.models import VllmSpec

if TYPE_CHECKING:
    from vllm.engine.llm_engine import LLMEngine
    from vllm.lora.request import LoRARequest
    from vllm.outputs import PoolingRequestOutput, RequestOutput
    from vllm.pooling_params import PoolingParams
    from vllm.sampling_params import SamplingParams

CPU_CACHE_BYTES = 4 << 30
"""What is kept of prompts on a CPU, unless the YAML or VLLM_CPU_KVCACHE_SPACE says otherwise."""
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks of adapters an engine can be built for."""
SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}
"""Set where the environment does not say: one process, quiet, no telemetry."""
TROUBLE: tuple[type[Exception], ...] = (
    *(OSError, ValueError, KeyError, ImportError, RuntimeError, StopIteration),
    *(AssertionError, AttributeError, TypeError),
)
"""What vLLM raises where it cannot run what it is told to."""


_RUNNING: "weakref.WeakSet[VllmEngine]" = weakref.WeakSet()


class VllmEngine:
    """vLLM's engine, told of rows; it runs until `stop`, or until nobody holds it any more."""

    def __init__(self, engine: "LLMEngine", adapter: "LoRARequest | None") -> None:
        """Take over an engine that runs."""
        self._engine = engine
        self._adapter = adapter
        self.positions: int = engine.model_config.max_model_len
        # Some sentence-transformers checkpoints read all texts in small letters.
        self.lowers = bool((engine.model_config.encoder_config or {}).get("do_lower_case"))
        self.stop = weakref.finalize(self, engine.engine_core.shutdown)
        _RUNNING.add(self)

    @property
    def is_running(self) -> bool:
        """Whether it has not been stopped."""
        return self.stop.alive

    def add(self, name: str, row: EngineRow) -> None:
        """Take a row on."""
        prompt = {"prompt_token_ids": list(row.prompt)}
        self._engine.add_request(name, prompt, row.wanted, lora_request=self._adapter)

    def step(self) -> "Sequence[RequestOutput | PoolingRequestOutput]":
        """Move all rows on; the outputs of some."""
        try:
            outputs: Sequence[RequestOutput | PoolingRequestOutput] = self._engine.step()
        except TROUBLE as error:
            self.stop()
            raise ModelError(
                f"vLLM broke down: {_told(error)}; what was answered is stored: repeat the command "
                "to go on, with a lower gpu_memory_utilization or max_model_len if memory ran out"
            ) from error
        return outputs

    def drop(self, names: Sequence[str]) -> None:
        """Forget rows."""
        if self.is_running:
            self._engine.abort_request(list(names))

    def give_way(self) -> None:
        """Stop, unless there are rows to work on."""
        if self.is_running and self._engine.has_unfinished_requests():
            raise ModelError(
                "two models of kind vllm cannot answer at the same time in one process; serve one "
                "of them and add --backend server (docs/vllm.md)"
            )
        self.stop()


def has_vllm() -> bool:
    """Whether vLLM is installed; a folder that happens to bear its name is not it."""
    found = find_spec("vllm")
    return found is not None and found.origin is not None


def need_vllm(name: str) -> None:
    """Refuse to go on without vLLM, with what else would run the model `name`."""
    if not has_vllm():
        raise ModelError(
            f"model {name}: kind vllm needs vLLM, not installed here; add --backend transformers "
            "to run it without, or --backend server to ask a server that has it, or install "
            'vLLM in an environment of its own: pip install "pragmatics-harness[vllm]" (on a CPU '
            "see docs/vllm.md)"
        )


def start(
    spec: VllmSpec, checkpoint: Checkpoint, *, dtype: str, adapter: ResolvedCheckpoint | None
) -> VllmEngine:
    """The engine with the checkpoint's weights, and the adapter's where there is one.

    The engine that runs in this process so far is stopped: they would share memory and more.
    """
    for other in list(_RUNNING):
        other.give_way()
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"])
    with _explained(checkpoint.source):
        from vllm.engine.arg_utils import EngineArgs
        from vllm.engine.llm_engine import LLMEngine
        from vllm.lora.request import LoRARequest

        folder = None if adapter is None else _folder(adapter)
        options = _options(spec, checkpoint) | ({} if folder is None else _room_for(folder))
        engine = LLMEngine.from_engine_args(EngineArgs(dtype=dtype, **options))
        return VllmEngine(engine, folder and LoRARequest("adapter", 1, str(folder)))


def sampling(**wanted: Any) -> "SamplingParams":  # noqa: ANN401 - fields of SamplingParams
    """What is wanted of a row: token ids alone, told once it is done."""
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    kind = RequestOutputKind.FINAL_ONLY
    return SamplingParams(**wanted, detokenize=False, output_kind=kind)


def embedding() -> "PoolingParams":
    """What is wanted of a row: its vector, from the whole row and nothing kept of others."""
    from vllm.pooling_params import PoolingParams

    return PoolingParams(task="embed", skip_reading_prefix_cache=True)


def _options(spec: VllmSpec, checkpoint: Checkpoint) -> dict[str, Any]:
    """What the engine is built with; vLLM decides what the YAML leaves open."""
    from vllm.platforms import current_platform

    told = {
        "revision": checkpoint.commit,
        "tokenizer_revision": checkpoint.commit,
        "quantization": spec.quantization,
        "max_model_len": spec.max_model_len,
        "gpu_memory_utilization": spec.gpu_memory_utilization,
    }
    return {
        **(_on_cpu(spec) if current_platform.is_cpu() else {}),
        **{name: value for name, value in told.items() if value is not None},
        **_running(spec),
        "model": checkpoint.source,
        "trust_remote_code": checkpoint.trust_remote_code,
        "tensor_parallel_size": spec.tensor_parallel_size,
        "pipeline_parallel_size": spec.pipeline_parallel_size,
        "enforce_eager": spec.enforce_eager,
        "generation_config": "vllm",
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
    }


def _running(spec: VllmSpec) -> dict[str, Any]:
    """What the engine is for: texts, or vectors pooled in some way."""
    from vllm.config import PoolerConfig

    if spec.pooling is None:
        return {"runner": "generate"}
    if spec.pooling == "auto":
        return {"runner": "pooling"}
    pooler = PoolerConfig(seq_pooling_type=spec.pooling.upper())
    return {"runner": "pooling", "pooler_config": pooler}


def _on_cpu(spec: VllmSpec) -> dict[str, Any]:
    """What a CPU needs: prompts read in one piece, and a bound on what is kept of them.

    Draws with a seed fail there where a prompt is read in two pieces (vLLM 0.32), and of memory
    vLLM would take nearly all there is.
    """
    options: dict[str, Any] = {"enable_chunked_prefill": False}
    if not (spec.gpu_memory_utilization or os.environ.get("VLLM_CPU_KVCACHE_SPACE")):
        options["kv_cache_memory_bytes"] = CPU_CACHE_BYTES
    return options


def _folder(adapter: ResolvedCheckpoint) -> Path:
    """Where an adapter's files lie, fetched from the hub where they are not here yet."""
    if adapter.commit is None:
        return Path(adapter.source).resolve()
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(adapter.source, revision=adapter.commit))


def _room_for(folder: Path) -> dict[str, Any]:
    """What lets the engine hold an adapter of its rank."""
    rank = int(json.loads((folder / "adapter_config.json").read_text("utf-8"))["r"])
    return {"enable_lora": True, "max_lora_rank": next(room for room in RANKS if room >= rank)}


def _told(error: Exception) -> str:
    """What an error says, in one line that is not too long."""
    return (" ".join(str(error).split()) or type(error).__name__)[:400]


@contextmanager
def _explained(source: str) -> Iterator[None]:
    """Loading without warnings, whose errors say what to do."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except TROUBLE as error:
        raise ModelError(
            f"{source}: vLLM cannot run it: {_told(error)}; see dtype, max_model_len, "
            "gpu_memory_utilization, tensor_parallel_size, quantization and pooling in the "
            "model's YAML (docs/models.md), or add --backend transformers"
        ) from error
