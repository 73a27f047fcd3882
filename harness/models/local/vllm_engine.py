"""A checkpoint to vLLM's engine in this process, quiet and without telemetry, and its feeding."""

import os
import warnings
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from logging import getLogger
from typing import TYPE_CHECKING, Any

from harness.core import Response
from harness.errors import ModelError, install
from harness.models.local.checkpoints import Checkpoint
from harness.specs.models import VllmSpec

if TYPE_CHECKING:
    from vllm.engine.llm_engine import LLMEngine
    from vllm.outputs import RequestOutput
    from vllm.sampling_params import SamplingParams

MOST_ROWS = 4096
"""Rows an engine has at once: more than it computes at a time, few enough to save memory."""


EngineRow = tuple[tuple[int, ...], Any]
"""Token ids for the engine, and the engine's own parameters for them."""


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """The rows of one request, and the function from their outputs to the response."""

    rows: Sequence[EngineRow]
    read: Callable[[list[Any]], Response]


def answered(
    requests: Iterator[EngineRequest | Response], open_engine: Callable[[], "VllmEngine"]
) -> Generator[Response, None, None]:
    """Yield each request's response once it is complete; a response passes through.

    The engine never waits for rows. Closing the generator drops its rows.
    """
    waiting: _Waiting = {}
    try:
        yield from _stepped(requests, open_engine, waiting)
    finally:
        for name, (engine, *_) in waiting.items():
            engine.drop(name)


_Waiting = dict[str, tuple["VllmEngine", EngineRequest, list[Any], int]]
"""By the name of a row its engine, its request, the outputs of all rows of that, and its place."""


def _stepped(
    requests: Iterator[EngineRequest | Response],
    open_engine: Callable[[], "VllmEngine"],
    waiting: _Waiting,
) -> Iterator[Response]:
    while True:
        for name in [name for name, (engine, *_) in waiting.items() if name in engine.done]:
            engine, request, outputs, place = waiting.pop(name)
            outputs[place] = engine.done.pop(name)
            if None not in outputs:
                yield request.read(outputs)
        while len(waiting) < MOST_ROWS and (one := next(requests, None)) is not None:
            if isinstance(one, Response):
                yield one
                continue
            outputs = [None] * len(one.rows)
            for place, row in enumerate(one.rows):
                engine = open_engine()
                waiting[engine.add(row)] = engine, one, outputs, place
        if not waiting:
            return
        next(iter(waiting.values()))[0].step()


CPU_CACHE_BYTES = 4 << 30
"""The cache of prompts on a CPU, unless the YAML or VLLM_CPU_KVCACHE_SPACE sets another size."""
PASSED_ON = (
    *("quantization", "max_model_len", "gpu_memory_utilization", "trust_remote_code"),
    *("tensor_parallel_size", "pipeline_parallel_size", "enforce_eager"),
)
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
_NAMES = count()


class VllmEngine:
    """vLLM's engine; it runs until `stop`, or until nobody refers to it."""

    def __init__(self, engine: "LLMEngine") -> None:
        """Take over a running engine."""
        self._engine = engine
        self.done: dict[str, RequestOutput] = {}
        self.positions: int = engine.model_config.max_model_len
        self.stop = weakref.finalize(self, engine.engine_core.shutdown)
        _RUNNING.add(self)

    def add(self, row: EngineRow) -> str:
        """Add a row; return its name."""
        name, (prompt, wanted) = str(next(_NAMES)), row
        self._engine.add_request(name, {"prompt_token_ids": list(prompt)}, wanted)
        return name

    def step(self) -> None:
        """Advance all rows; the outputs of those that are finished are in `done`."""
        try:
            outputs: Sequence[RequestOutput] = self._engine.step()
        except TROUBLE as error:
            self.stop()
            raise ModelError(
                f"vLLM broke down: {_fact(error)}; finished answers are stored: repeat the command "
                "to resume, with a lower gpu_memory_utilization or max_model_len if memory ran out"
            ) from error
        self.done |= {output.request_id: output for output in outputs if output.finished}

    def drop(self, name: str) -> None:
        """Remove a row."""
        if self.done.pop(name, None) is None and self.stop.alive:
            self._engine.abort_request([name])

    def give_way(self) -> None:
        """Stop, unless there are rows to work on."""
        if self.stop.alive and self._engine.has_unfinished_requests():
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


def start(spec: VllmSpec, checkpoint: Checkpoint, *, dtype: str) -> VllmEngine:
    """Start the engine; one that runs in this process is stopped: the two would share memory."""
    for other in list(_RUNNING):
        other.give_way()
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"])
    with _explained(checkpoint.source):
        from vllm.engine.arg_utils import EngineArgs
        from vllm.engine.llm_engine import LLMEngine

        options = _options(spec, checkpoint)
        return VllmEngine(LLMEngine.from_engine_args(EngineArgs(dtype=dtype, **options)))


def sampling(**wanted: Any) -> "SamplingParams":  # noqa: ANN401 - fields of SamplingParams
    """Parameters of a row that samples or scores: token ids only, returned once it is done."""
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    kind = RequestOutputKind.FINAL_ONLY
    return SamplingParams(**wanted, detokenize=False, output_kind=kind)


def _options(spec: VllmSpec, checkpoint: Checkpoint) -> dict[str, Any]:
    """The engine's arguments; vLLM decides what the YAML leaves open."""
    from vllm.platforms import current_platform

    given = {name: getattr(spec, name) for name in PASSED_ON}
    given |= {"revision": checkpoint.commit, "tokenizer_revision": checkpoint.commit}
    options = {name: value for name, value in given.items() if value is not None}
    options |= {"model": checkpoint.source, "runner": "generate", "generation_config": "vllm"}
    options |= {"disable_log_stats": True, "use_tqdm_on_load": False}
    if current_platform.is_cpu():
        # Sampling with a seed fails there where a prompt is read in two pieces (vLLM 0.32), and
        # vLLM would take nearly all memory.
        options["enable_chunked_prefill"] = False
        if not (spec.gpu_memory_utilization or os.environ.get("VLLM_CPU_KVCACHE_SPACE")):
            options["kv_cache_memory_bytes"] = CPU_CACHE_BYTES
    return options


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
