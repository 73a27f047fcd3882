"""A run, or a plan of runs, that tests kill and repeat, and the files it leaves."""

import json
import os
import subprocess
import sys
from pathlib import Path

from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import BOTH_PRICED, Toy

CONCURRENCY = 64  # of kind openai
SCRIPT = Script(delay_s=0.01, replies={"Option 2": ("1", "2", "neither")})
ASKED = (
    *("--task", "intent_resolution", "--limit", "36"),
    *("--model", "local-server", "--judge", "gpt4-contextual"),
    *("--judge-model", "local-server", "--allow-self-judge"),
)
RUN = (sys.executable, "-m", "harness", "run", *ASKED)


def begun(stub: StubServer, *words: str) -> subprocess.Popen[bytes]:
    """A command begun, with a server for its model and no data."""
    environ = {k: v for k, v in os.environ.items() if k != "HARNESS_DATA"}
    return subprocess.Popen(
        [sys.executable, "-m", "harness", *words],
        env=environ | {"HARNESS_SERVER_URL": stub.url},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def start(
    stub: StubServer, results: Path, *words: str, command: str = "run"
) -> subprocess.Popen[bytes]:
    """Start the run, or the command that makes it of its shards."""
    return begun(stub, command, *ASKED, "--results", str(results), *words)


PLAN_USD = 0.5
PLAN = f"""
    about: Three models, one of them paid, on four tasks.
    models: [alpha, beta, local-server]
    tasks:
      - {{task: toy, judges: [near, choice/alpha]}}
      - {{task: quiz, answers: written}}
      - {{task: intent_resolution, judges: [ngram-cosine], variants: [base, cot0], limit: 8}}
      - {{task: intent_detection_pairs, answers: written, limit: 8}}
    allow_self_judge: true
    budget_usd: {PLAN_USD}
"""


def start_plan(
    stub: StubServer,
    toy: Toy,
    results: str,
    *words: str,
    command: str = "run",
    has_budget: bool = True,
) -> subprocess.Popen[bytes]:
    toy.write("configs/prices.yaml", BOTH_PRICED)
    budget = f"    budget_usd: {PLAN_USD}\n"
    path = toy.write("night.yaml", PLAN if has_budget else PLAN.replace(budget, ""))
    places = ("--home", str(toy.home), "--results", str(toy.folder / results))
    return begun(stub, command, str(path), *places, *words)


def stored_cost(results: Path) -> float:
    files = (results / "calls").rglob("*.jsonl")
    lines = [json.loads(line) for file in files for line in file.read_bytes().splitlines()]
    return sum(line["response"]["usage"].get("cost_usd") or 0.0 for line in lines)


def final_files(results: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(results)): path.read_bytes()
        for place in ("runs", "plans")
        for path in results.glob(f"{place}/**/*")
        if path.is_file()
    }
