"""The command slurm: a plan to a bash script that Slurm runs, one task a shard, then the merge."""

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from harness.cli.options import ExitCode, Only, Where, argument, option
from harness.cli.output import echo
from harness.errors import SpecError
from harness.text.cleanup import for_display

if TYPE_CHECKING:
    from harness.pipeline.studies.plans import PlanCell
    from harness.workspace import Workspace

_OWN = frozenset({"--array", "--dependency", "--job-name", "--output", "--parsable", "--wrap"})
_SBATCH = re.compile(r"--[a-z][a-z-]*(=[\w.,:%/@+\[\]-]+)?")
_TIME = re.compile(r"(\d+-)?\d+(:\d+){0,2}")
SERVED = "HARNESS_SERVER_URL"
"""The variable that tells models where the server of a task is."""
WAIT_S = 1800
"""How long a task waits for its vLLM server: large checkpoints are loaded for minutes."""


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """What each task of the array asks of Slurm, and what it serves."""

    shards: int = option("How many shards, each a task of the array.", 4, min=1)
    serve: str | None = option(
        "Checkpoint that vLLM serves in each task, on this machine alone; model local-server asks "
        "it.",
        None,
        metavar="CHECKPOINT",
    )
    gpus: int | None = option("GPUs of each task. Default: 1 with --serve, else none.", None, min=1)
    time: str | None = option("Time limit of a task, as 04:00:00.", None, metavar="TIME")
    sbatch: list[str] | None = option(
        "Further option of sbatch, as --sbatch=--partition=gpu; may be repeated.",
        None,
        metavar="OPTION",
    )
    budget: float | None = option(
        "US dollars that all shards may cost together, in place of the plan's.", None, min=0
    )

    @property
    def directives(self) -> list[str]:
        """The options for sbatch of the tasks and of the merge; SpecError for one that is none."""
        for text in self.sbatch or ():
            if not _SBATCH.fullmatch(text):
                raise SpecError(f"--sbatch {text!r}: give an option of sbatch, as --partition=gpu")
            if text.partition("=")[0] in _OWN:
                raise SpecError(f"--sbatch {text!r}: the script sets it itself; leave it out")
        if self.serve is not None and self.serve.startswith("-"):
            raise SpecError(f"--serve {self.serve!r}: give a checkpoint, not an option of vLLM")
        if self.time is not None and not _TIME.fullmatch(self.time):
            raise SpecError(f"--time {self.time!r}: give hours, minutes and seconds, as 04:00:00")
        return [*(self.sbatch or ()), *([f"--time={self.time}"] if self.time else ())]


def slurm(
    name: str = argument("PLAN", "Plan: a name in configs/plans/, or the path of a YAML file."),
    *,
    job: JobOptions,
    where: Annotated[Where, Only("data data_mode prompts results home")],
) -> int:
    """Print a bash script that has Slurm run a plan in shards, then merge them.

    Nothing is submitted: save the script on a file system that all nodes share, read it, and
    submit it with `bash SCRIPT submit`.

    \b
    Example:
      harness slurm night.yaml --shards 8 --serve my/checkpoint > night.sh
    """
    from harness.pipeline.studies import plans

    space = where.workspace()
    registry = space.registry
    spec = registry.load("configs/plans", name)
    cells = plans.plan_cells(space, spec, name=Path(name).stem)  # refuses what is wrong in it
    if job.serve is not None:
        _refuse_idle_servers(space, cells)
    is_name = name in registry.names("configs/plans")
    words = [name if is_name else str(Path(name).resolve()), *_folders(where)]
    script = _script(re.sub(r"[^\w.-]", "_", Path(name).stem), words, job, where, registry.cache)
    if for_display(script) != script:
        raise SpecError("a path or option has control characters; use plain names")
    echo(script)
    return ExitCode.DONE


def _refuse_idle_servers(space: "Workspace", cells: "Sequence[PlanCell]") -> None:
    """Refuse to have each task serve a checkpoint that no run of the plan would ask."""
    from harness.pipeline.studies import shards

    asked = shards.asked_of(space.registry, [cell.options for cell in cells])
    found = [space.registry.hosted(model) for model in asked]
    if not any(model and model.base_url_env == SERVED for model in found):
        raise SpecError(
            f"--serve: no model of the plan asks the server that each task would start "
            f"({', '.join(asked)}); name local-server, or a model with base_url_env: {SERVED}, in "
            "the plan, or leave --serve out"
        )


def _folders(where: Where) -> list[str]:
    """The options of the folders, whole: a task may start elsewhere."""
    named = {"--data": where.data, "--prompts": where.prompts}
    named |= {"--results": where.results, "--home": where.home}
    found = [part for flag, path in named.items() if path for part in (flag, str(path.resolve()))]
    return [*found, "--data-mode", where.data_mode]


def _script(job_name: str, words: list[str], job: JobOptions, where: Where, cache: Path) -> str:
    gpus = job.gpus or (1 if job.serve else None)
    own = [*job.directives, *([f"--gpus={gpus}"] if gpus else ())]
    asked = [*words, *(["--budget", f"{job.budget:g}"] if job.budget is not None else ())]
    asked += ["--wait-for-server", str(WAIT_S)] if job.serve else []
    return _TEXT.format(
        job=job_name,
        count=job.shards,
        last=job.shards - 1,
        directives="".join(f"#SBATCH {text}\n" for text in own),
        python=shlex.quote(sys.executable),
        results=shlex.quote(str(where.results.resolve())),
        cache=shlex.quote(str(cache.resolve())),
        merge_options="".join(f" {shlex.quote(text)}" for text in job.directives),
        merged=shlex.join(words),
        asked=shlex.join(asked),
        server=_SERVER.format(checkpoint=shlex.quote(job.serve)) if job.serve else "",
        awaited=_AWAITED if job.serve else "",
    ).rstrip("\n")


_TEXT = """\
#!/bin/bash
# Runs a plan in {count} shards, then makes its runs of them. `harness slurm` printed it.
#
#     bash THIS submit                    the array, and the merge when all of its tasks are done
#     SLURM_ARRAY_TASK_ID=0 bash THIS     one shard by hand, without Slurm
#     bash THIS merge                     the merge by hand
#
# A task that was stopped goes on where it was when it is submitted again: nothing is asked twice.
#SBATCH --job-name={job}
#SBATCH --array=0-{last}
{directives}set -euo pipefail

python={python}
results={results}
# caches that all nodes share
export HARNESS_CACHE="${{HARNESS_CACHE:-{cache}}}"
export HF_HOME="${{HF_HOME:-$HOME/.cache/huggingface}}"

case "${{1:-shard}}" in
submit)
    here=$(realpath -- "$0")
    logs=${{results//%/%%}}/slurm # Slurm reads % in the names of logs
    mkdir -p "$results/slurm"
    array=$(sbatch --parsable --output="$logs/%x-%A-%a.log" "$here")
    sbatch --dependency="afterok:${{array%%;*}}" --kill-on-invalid-dep=yes \\
        --output="$logs/%x-%j.log" --job-name={job}-merge{merge_options} \\
        --wrap "bash $(printf %q "$here") merge"
    exit
    ;;
merge)
    code=0
    "$python" -m harness merge {merged} || code=$?
    exit $((code == 1 ? 0 : code)) # 1 is done with missing items: for Slurm that is no failure
    ;;
esac

task=${{SLURM_ARRAY_TASK_ID:?is not set: say submit or merge, as the head of this file has it}}
shard=$((task + 1))/{count}
{server}code=0
"$python" -m harness run {asked} --shard "$shard"{awaited} || code=$?
# 1 is done with missing items, which the merge counts: for Slurm that is no failure
if [ "$code" -eq 1 ]; then code=0; fi
exit "$code"
"""
_SERVER = """\
port=$("$python" -c '
from socket import socket
one = socket()
one.bind(("127.0.0.1", 0))
print(one.getsockname()[1])')
mkdir -p "$results/slurm"
log="$results/slurm/vllm-${{SLURM_ARRAY_JOB_ID:-0}}-$SLURM_ARRAY_TASK_ID.log"
"${{VLLM:-vllm}}" serve {checkpoint} --host 127.0.0.1 --port "$port" --generation-config vllm \\
    >"$log" 2>&1 &
server=$!
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
export HARNESS_SERVER_URL="http://127.0.0.1:$port/v1"
"""
_AWAITED = """ &
run=$!
# a server that has ended will not answer: nobody waits for it, and the node is free again
while kill -0 "$run" 2>/dev/null; do
    if ! kill -0 "$server" 2>/dev/null; then
        echo "the server has ended, and its task with it; the last lines of $log:" >&2
        tail -n 20 "$log" >&2
        exit 2
    fi
    sleep 1
done
wait "$run"\
"""
