"""A checkpoint and its YAML to vLLM's engine in this process, and the queue that feeds it rows.

The only module that opens vLLM, which is kept quiet and sends no telemetry. The queue adds rows as
long as there is room, so that the engine never waits, and yields each request's response as soon
as its last row is done. Nothing here knows prompts or what a row asks for.
"""

import json
import os
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core import Response
from harness.errors import ModelError, install
from harness.models.local.checkpoints import Checkpoint, ResolvedCheckpoint
from harness.specs.models import VllmSpec

if TYPE_CHECKING:
    from vllm.engine.llm_engine import LLMEngine
    from vllm.lora.request import LoRARequest
    from vllm.outputs import RequestOutput
    from vllm.sampling_params import SamplingParams

MOST_ROWS = 4096
"""Rows an engine has at once: more than it computes at a time, few enough to save memory."""


@dataclass(frozen=True, slots=True)
class EngineRow:
    """Token ids for the engine, and the engine's own parameters for them."""

    prompt: tuple[int, ...]
    wanted: Any


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """The rows of one request, and the function from their outputs to the response."""

    rows: Sequence[EngineRow]
    read: Callable[[list[Any]], Response]


@dataclass(slots=True)
class _Open:
    """A request under way: its outputs by place, and the queue it joins when all are there."""

    request: EngineRequest
    finished: deque["_Open"]
    outputs: dict[int, Any] = field(default_factory=dict)


class RequestQueue:
    """The rows an engine works on, of all requests under way.

    `open_engine` returns the engine for a row; it changes only when all rows are done.
    """

    def __init__(self, open_engine: Callable[[], "VllmEngine"]) -> None:
        """Start with no rows."""
        self._open_engine = open_engine
        self._engine: VllmEngine | None = None
        self._names = map(str, count())
        self._waiting: dict[str, tuple[_Open, int]] = {}

    def answer(
        self, requests: Iterator[EngineRequest | Response]
    ) -> Generator[Response, None, None]:
        """Yield each request's response once it is complete; a response passes through.

        Closing the generator drops its rows from the engine.
        """
        finished, mine = deque[_Open](), set[str]()
        try:
            while True:
                while finished:
                    done = finished.popleft()
                    places = range(len(done.request.rows))
                    yield done.request.read([done.outputs[place] for place in places])
                yield from self._filled(requests, finished, mine)
                mine &= self._waiting.keys()
                if not (mine or finished):
                    return
                self._step()
        finally:
            left = mine & self._waiting.keys()
            if left and self._engine:
                self._engine.drop(sorted(left))
            for name in left:
                del self._waiting[name]

    def _filled(
        self, requests: Iterator[EngineRequest | Response], finished: deque[_Open], mine: set[str]
    ) -> Iterator[Response]:
        while len(self._waiting) < MOST_ROWS and (request := next(requests, None)) is not None:
            if isinstance(request, Response):
                yield request
                continue
            open_request = _Open(request, finished)
            for place, row in enumerate(request.rows):
                name = next(self._names)
                self._engine = self._open_engine()
                self._engine.add(name, row)
                self._waiting[name] = (open_request, place)
                mine.add(name)

    def _step(self) -> None:
        for output in self._engine.step() if self._engine else ():
            if output.finished and output.request_id in self._waiting:
                open_request, place = self._waiting.pop(output.request_id)
                open_request.outputs[place] = output
                if len(open_request.outputs) == len(open_request.request.rows):
                    open_request.finished.append(open_request)


CPU_CACHE_BYTES = 4 << 30
"""The cache of prompts on a CPU, unless the YAML or VLLM_CPU_KVCACHE_SPACE sets another size."""
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # the ranks of adapters an engine can be built for
SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}
"""Defaults of the environment: one process, quiet, no telemetry."""
TROUBLE: tuple[type[Exception], ...] = (
    *(OSError, ValueError, KeyError, ImportError, RuntimeError, StopIteration),
    *(AssertionError, AttributeError, TypeError),
)
"""What vLLM raises where it cannot run with its arguments."""

_RUNNING: "weakref.WeakSet[VllmEngine]" = weakref.WeakSet()


class VllmEngine:
    """vLLM's engine; it runs until `stop`, or until nobody refers to it."""

    def __init__(self, engine: "LLMEngine", adapter: "LoRARequest | None") -> None:
        """Take over a running engine."""
        self._engine = engine
        self._adapter = adapter
        self.positions: int = engine.model_config.max_model_len
        self.stop = weakref.finalize(self, engine.engine_core.shutdown)
        _RUNNING.add(self)

    @property
    def is_running(self) -> bool:
        """Whether it has not been stopped."""
        return self.stop.alive

    def add(self, name: str, row: EngineRow) -> None:
        """Add a row."""
        prompt = {"prompt_token_ids": list(row.prompt)}
        self._engine.add_request(name, prompt, row.wanted, lora_request=self._adapter)

    def step(self) -> "Sequence[RequestOutput]":
        """Advance all rows; return the outputs of some."""
        try:
            outputs: Sequence[RequestOutput] = self._engine.step()
        except TROUBLE as error:
            self.stop()
            raise ModelError(
                f"vLLM broke down: {_fact(error)}; finished answers are stored: repeat the command "
                "to resume, with a lower gpu_memory_utilization or max_model_len if memory ran out"
            ) from error
        return outputs

    def drop(self, names: Sequence[str]) -> None:
        """Remove rows."""
        if self.is_running:
            self._engine.abort_request(list(names))

    def give_way(self) -> None:
        """Stop, unless there are rows to work on."""
        if self.is_running and self._engine.has_unfinished_requests():
            raise ModelError(
                "two models of kind vllm cannot answer at the same time in one process; start a "
                "server for one of them and add --backend server (docs/vllm.md)"
            )
        self.stop()


def need_vllm(name: str) -> None:
    """Refuse to go on without vLLM; the message names other ways to run the model `name`."""
    installed = find_spec("vllm")
    if installed is None or installed.origin is None:  # a folder of that name is not enough
        raise ModelError(
            f"model {name}: kind vllm needs vLLM, which is not installed; add --backend "
            "transformers to run it without vLLM, or --backend server to ask a server, or "
            f"install vLLM in its own environment: {install('vllm')} (on a CPU see docs/vllm.md)"
        )


def start(
    spec: VllmSpec, checkpoint: Checkpoint, *, dtype: str, adapter: ResolvedCheckpoint | None
) -> VllmEngine:
    """Start the engine with the checkpoint's weights, and the adapter's if there is one.

    An engine that already runs in this process is stopped: the two would share memory and more.
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

        options = _options(spec, checkpoint)
        folder = None if adapter is None else _folder(adapter)
        if folder is not None:
            rank = json.loads((folder / "adapter_config.json").read_text("utf-8"))["r"]
            options |= {"enable_lora": True}
            options["max_lora_rank"] = next(room for room in RANKS if room >= int(rank))
        engine = LLMEngine.from_engine_args(EngineArgs(dtype=dtype, **options))
        return VllmEngine(engine, folder and LoRARequest("adapter", 1, str(folder)))


def sampling(**wanted: Any) -> "SamplingParams":  # noqa: ANN401 - fields of SamplingParams
    """Parameters of a row that samples or scores: token ids only, returned once it is done."""
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    kind = RequestOutputKind.FINAL_ONLY
    return SamplingParams(**wanted, detokenize=False, output_kind=kind)


def _options(spec: VllmSpec, checkpoint: Checkpoint) -> dict[str, Any]:
    """The engine's arguments; vLLM decides what the YAML leaves open."""
    from vllm.platforms import current_platform

    on_cpu: dict[str, Any] = {}
    if current_platform.is_cpu():
        # Sampling with a seed fails there where a prompt is read in two pieces (vLLM 0.32), and
        # vLLM would take nearly all memory.
        on_cpu = {"enable_chunked_prefill": False}
        if not (spec.gpu_memory_utilization or os.environ.get("VLLM_CPU_KVCACHE_SPACE")):
            on_cpu["kv_cache_memory_bytes"] = CPU_CACHE_BYTES
    limits = {
        "revision": checkpoint.commit,
        "tokenizer_revision": checkpoint.commit,
        "quantization": spec.quantization,
        "max_model_len": spec.max_model_len,
        "gpu_memory_utilization": spec.gpu_memory_utilization,
    }
    return {
        **on_cpu,
        **{name: value for name, value in limits.items() if value is not None},
        "runner": "generate",
        "model": checkpoint.source,
        "trust_remote_code": checkpoint.trust_remote_code,
        "tensor_parallel_size": spec.tensor_parallel_size,
        "pipeline_parallel_size": spec.pipeline_parallel_size,
        "enforce_eager": spec.enforce_eager,
        "generation_config": "vllm",
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
    }


def _folder(adapter: ResolvedCheckpoint) -> Path:
    if adapter.commit is None:
        return Path(adapter.source).resolve()
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(adapter.source, revision=adapter.commit))


def _fact(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:240]


@contextmanager
def _explained(source: str) -> Iterator[None]:
    """Load without warnings; turn vLLM's errors into a ModelError with a remedy."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except TROUBLE as error:
        raise ModelError(
            f"{source}: vLLM cannot run this model: {_fact(error)}; change dtype, max_model_len, "
            "gpu_memory_utilization, tensor_parallel_size or quantization in the "
            "model's YAML (docs/models.md), or add --backend transformers"
        ) from error
