"""Calls of a hosted model five ways, whole processes in turn, against a server on loopback that
answers after 200 ms (`--delay`): this program, Inspect AI, lm-evaluation-harness, and two bare
loops, over the official client and over aiohttp.

Every way asks the same short questions with so many calls in flight, and ends with a score. Prints
medians of the seconds of the whole process, of calls a second between the first question and the
last answer, of the client's CPU time a call, and of the most memory it held; then medians of the
ratios of this program's seconds, and of its CPU time, to those of each bare loop in the same turn.
"""

import argparse
import asyncio
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.server import ServerProcess  # noqa: E402

MOST_TOKENS = 8
TASK = """
about: Short questions to a server.
data: {source: bench, reader: samples_jsonl, files: [bench.jsonl], sample: samples/bench.jsonl}
decodings: [{temperature: 0, max_tokens: 8}]
default_variants: [base]
variants:
  base: {about: one question, steps: [{name: response, template: bench/ask}]}
judges: [near]
controls: {}
"""
JUDGE = """
about: By spelling.
kind: cosine
encoder: {kind: char-ngrams}
options: {accept: right, reject: wrong}
"""
MODEL = """
kind: openai
model: stub-model
base_url_env: OPENAI_BASE_URL
concurrency: CALLS
"""
INSPECT = """
from inspect_ai import Task, task
from inspect_ai.dataset import json_dataset
from inspect_ai.scorer import match
from inspect_ai.solver import generate

@task
def bench():
    return Task(json_dataset("QUESTIONS"), solver=generate(), scorer=match(location="begin"))
"""
LM_EVAL = """
task: bench
dataset_path: json
dataset_kwargs: {data_files: {test: QUESTIONS}}
test_split: test
output_type: generate_until
doc_to_text: "{{input}}"
doc_to_target: "{{target}}"
generation_kwargs: {until: [], do_sample: false, max_gen_toks: 8}
num_fewshot: 0
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""


@dataclass(frozen=True)
class Job:
    """So many questions in a folder, and how many calls may be in flight."""

    folder: Path
    calls: int
    concurrency: int

    @property
    def questions(self) -> Path:
        """One object a line, of input and target."""
        return self.folder / "questions.jsonl"


def question(number: int) -> str:
    """The words of one question."""
    return f"Someone says the words of number {number}. What do they mean? Answer in one word."


def prepare(job: Job) -> None:
    """Lay out the questions in each way's own form."""
    numbers = range(job.calls)
    rows = [{"id": str(n), "input": question(n), "target": "yes"} for n in numbers]
    sides = {"right": ["yes"], "wrong": ["no"]}
    samples = [
        {"group": "all", "fields": {"words": question(n)}, "references": sides} for n in numbers
    ]
    texts = {
        "questions.jsonl": "\n".join(map(json.dumps, rows)),
        "home/tasks/bench.yaml": TASK,
        "home/tasks/samples/bench.jsonl": "\n".join(map(json.dumps, samples)),
        "home/prompts/bench/ask.user.j2": "{{ words }}",
        "home/configs/judges/near.yaml": JUDGE,
        "home/configs/models/stub.yaml": MODEL.replace("CALLS", str(job.concurrency)),
        "bench.py": INSPECT.replace("QUESTIONS", str(job.questions)),
        "lm_eval/bench.yaml": LM_EVAL.replace("QUESTIONS", str(job.questions)),
    }
    for name, text in texts.items():
        path = job.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def by_program(job: Job) -> list[str]:
    """This program, from its data to its table of scores."""
    command = [sys.executable, "-m", "harness", "run", "--task", "bench", "--model", "stub"]
    return [*command, "--home", str(job.folder / "home"), "--results", str(job.folder / "results")]


def by_inspect(job: Job) -> list[str]:
    """Inspect AI with as many connections and samples as calls may be in flight."""
    width = str(job.concurrency)
    return [
        *(str(Path(sys.executable).with_name("inspect")), "eval", "bench.py"),
        *("--model", "openai/stub-model", "-M", "responses_api=false", "--display", "none"),
        *("--max-connections", width, "--max-samples", width),
        *("--temperature", "0", "--max-tokens", str(MOST_TOKENS)),
        *("--log-dir", str(job.folder / "logs")),
    ]


def by_lm_eval(job: Job) -> list[str]:
    """lm-evaluation-harness's model `local-chat-completions`."""
    url = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
    settings = f"model=stub-model,base_url={url},num_concurrent={job.concurrency},max_retries=3"
    return [
        *(str(Path(sys.executable).with_name("lm_eval")), "run", "--tasks", "bench"),
        *("--model", "local-chat-completions", "--model_args", settings),
        *("--include_path", str(job.folder / "lm_eval"), "--apply_chat_template"),
        *("--output_path", str(job.folder / "logs"), "--log_samples"),
    ]


def by_loop(client: str) -> Callable[[Job], list[str]]:
    """This script itself, as a loop over one client."""

    def command(job: Job) -> list[str]:
        asked = ["--loop", client, "--folder", str(job.folder)]
        return [
            sys.executable,
            str(Path(__file__).absolute()),
            *asked,
            "--concurrency",
            str(job.concurrency),
        ]

    return command


WAYS: dict[str, tuple[str, Callable[[Job], list[str]]]] = {
    "program": ("(a) this program", by_program),
    "inspect": ("(b) Inspect AI", by_inspect),
    "lm_eval": ("(c) lm-evaluation-harness", by_lm_eval),
    "sdk": ("(d) bare loop, official client", by_loop("sdk")),
    "aiohttp": ("(e) bare loop, aiohttp", by_loop("aiohttp")),
}


Ask = Callable[[dict[str, Any]], Awaitable[str]]


@asynccontextmanager
async def sdk(_: int) -> AsyncIterator[Ask]:
    """The official client as it comes."""
    import openai

    # Its own five seconds for a connection are too few where the machine has other work.
    async with openai.AsyncOpenAI(timeout=600) as client:

        async def ask(body: dict[str, Any]) -> str:
            reply = await client.chat.completions.create(**body)
            return reply.choices[0].message.content or ""

        yield ask


@asynccontextmanager
async def raw(connections: int) -> AsyncIterator[Ask]:
    """aiohttp alone, as a script would use it."""
    import aiohttp

    url = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
    connector = aiohttp.TCPConnector(limit=connections)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def ask(body: dict[str, Any]) -> str:
            async with session.post(url, json=body) as reply:
                reply = await reply.json()
            return str(reply["choices"][0]["message"]["content"])

        yield ask


LOOPS = {"sdk": sdk, "aiohttp": raw}


async def loop(client: str, questions: Iterable[str], concurrency: int) -> int:
    """Ask with one client, so many at a time; the number of answers."""
    left, answers = iter(questions), list[str]()

    async def work(ask: Ask) -> None:
        for words in left:
            messages = [{"role": "user", "content": words}]
            asked = {"model": "stub-model", "messages": messages}
            answers.append(await ask({**asked, "temperature": 0, "max_tokens": MOST_TOKENS}))

    async with LOOPS[client](concurrency) as ask:
        await asyncio.gather(*(work(ask) for _ in range(concurrency)))
    return len(answers)


@dataclass(frozen=True)
class Seen:
    """One process, its children with it: its seconds, those between its first question and last
    answer, its CPU seconds and those of the server, and the most memory that a process held.
    """

    whole_s: float
    span_s: float
    cpu_s: float
    server_s: float
    most_mb: float


def measure(way: str, job: Job, server: ServerProcess) -> Seen:
    """Run one way in a process of its own; all questions must have been answered."""
    server.configure(float(os.environ["DELAY_S"]))
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(WAYS[way][1](job), stdout=output, stderr=output, cwd=job.folder)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        whole_s, stats = time.monotonic() - start, server.stats()
        if stats["answered"] < job.calls or process.returncode not in (0, 1):
            output.seek(0)
            raise SystemExit(
                f"{way} ended with {process.returncode}, {stats}: {output.read()[-500:]!r}"
            )
    cpu_s = used.ru_utime + used.ru_stime
    return Seen(whole_s, stats["span_s"], cpu_s, stats["cpu_s"], used.ru_maxrss / 1024)


def compare(calls: int, concurrency: int, *, ways: list[str], rounds: int) -> None:
    """Print a table of the ways for so many calls."""
    found: list[dict[str, Seen]] = []
    with ServerProcess() as server:
        os.environ |= {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
        os.environ["PYTHONPATH"] = str(ROOT)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a user's second start compiles nothing
        for _ in range(rounds):
            seen = {}
            for way in ways:
                with tempfile.TemporaryDirectory() as name:
                    job = Job(Path(name), calls, concurrency)
                    prepare(job)
                    seen[way] = measure(way, job, server)
            found.append(seen)
    print(f"{calls} calls, {concurrency} in flight, medians of {rounds} rounds")
    heads = f"{'process s':>10}{'x (a)':>8}{'calls/s':>9}{'x (a)':>8}{'CPU ms/call':>13}"
    print(f"{'':32}{heads}{'server':>8}{'MB':>7}")
    for way in ways:
        whole = statistics.median(seen[way].whole_s for seen in found)
        ratio = statistics.median(seen[way].whole_s / seen[ways[0]].whole_s for seen in found)
        rate = statistics.median(calls / seen[way].span_s for seen in found)
        speed = statistics.median(seen[ways[0]].span_s / seen[way].span_s for seen in found)
        spent = statistics.median(1000 * seen[way].cpu_s / calls for seen in found)
        held = statistics.median(seen[way].most_mb for seen in found)
        print(f"{WAYS[way][0]:32}{whole:10.2f}{ratio:8.2f}{rate:9.0f}{speed:8.2f}", end="")
        served = statistics.median(1000 * seen[way].server_s / calls for seen in found)
        print(f"{spent:13.2f}{served:8.3f}{held:7.0f}", flush=True)
    for bare in [way for way in ways if way in LOOPS and "program" in ways]:
        pairs = [(seen["program"], seen[bare]) for seen in found]
        wall = statistics.median(ours.whole_s / limit.whole_s for ours, limit in pairs)
        spent = statistics.median(ours.cpu_s / limit.cpu_s for ours, limit in pairs)
        against = f"this program against {WAYS[bare][0]}"
        print(f"{against}: {wall:.2f} of its seconds, {spent:.2f} of its CPU", flush=True)


def main() -> None:
    """Compare the ways, or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", default="1000", help="how many; several after commas")
    parser.add_argument("--concurrency", default="10,50,200", help="in flight; several")
    parser.add_argument("--ways", default=",".join(WAYS), help="the first is what others are to")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay", default="0.2", help="seconds until the server answers")
    parser.add_argument("--loop", choices=LOOPS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    widths = [int(width) for width in options.concurrency.split(",")]
    if options.loop:
        lines = Job(options.folder, 0, 0).questions.read_text("utf-8").splitlines()
        asked = [json.loads(line)["input"] for line in lines]
        print(asyncio.run(loop(options.loop, asked, widths[0])))
        return
    os.environ["DELAY_S"] = options.delay
    counts = [int(count) for count in options.calls.split(",")]
    for calls, width in itertools.product(counts, widths):
        compare(calls, width, ways=options.ways.split(","), rounds=options.rounds)


if __name__ == "__main__":
    main()
