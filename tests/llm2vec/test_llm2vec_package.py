"""Our vectors against the llm2vec package itself, on a tiny random checkpoint.

Runs where HARNESS_LLM2VEC_VENV names the environment that tests/llm2vec/install.sh builds.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tiny_llm2vec import LLAMA_3, TinyLlm2Vec, build_tiny_llm2vec

from harness.models.encoders.llm2vec import Llm2Vec
from harness.models.vectors import Vectors

pytestmark = pytest.mark.llm2vec

INSTRUCTIONS = ("", "Tell what the speaker means:")
PARTING = " She put down the tray, looked at the clock and said that the last bus had gone."
TEXTS = (
    *("", "Yes.", "  Blanks at both ends ", "It is cold in here.", "Could you close the window?"),
    "Two lines,\nthen a third.\n\nAnd a fourth.",
    "你能把窗户关上吗?",
    "naïve café 🙂",
    "<|eot_id|> is only a marker",
    "¿Qué quieres decir?",
    *(f"He waited {count} hours." + PARTING * count for count in range(1, 8)),
    "word " * 380,
    "word " * 450,
    "long sentences run on and on " * 150,
)
TOLERANCE = 1e-4
Rows = list[list[float]]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """With and without turn, later adapter and instruction."""
    tinies: list[TinyLlm2Vec] = [
        build_tiny_llm2vec(tmp_path_factory.mktemp("tiny"), trained_on=name)
        for name in (LLAMA_3, "some/base")
    ]
    return [
        {"base": tiny.mntp, "adapter": adapter, "instruction": instruction, "texts": TEXTS}
        for tiny in tinies
        for adapter in (None, tiny.supervised)
        for instruction in INSTRUCTIONS
    ]


@pytest.fixture(scope="module")
def theirs(jobs: list[dict[str, Any]]) -> list[Rows]:
    """The package's rows of each job."""
    venv = os.environ.get("HARNESS_LLM2VEC_VENV")
    if not venv:
        pytest.skip("HARNESS_LLM2VEC_VENV is not set: build it with tests/llm2vec/install.sh VENV")
    script = Path(__file__).with_name("dump_vectors.py")
    done = subprocess.run(
        [Path(venv).absolute() / "bin/python", script],
        input=json.dumps(jobs),
        text=True,
        capture_output=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows: list[Rows] = json.loads(done.stdout)
    return rows


def ours(job: dict[str, Any], texts: tuple[str, ...]) -> Vectors:
    adapters = (job["adapter"],) if job["adapter"] else ()
    encoder = Llm2Vec(job["base"], adapters, instruction=job["instruction"], device="cpu")
    return encoder.encode(texts)


def comparable(job: dict[str, Any]) -> tuple[str, ...]:
    """The texts; without a turn the package pools the padding of the empty one."""
    return TEXTS if LLAMA_3 in (Path(job["base"]) / "config.json").read_text() else TEXTS[1:]


@pytest.mark.parametrize("place", range(8))
def test_vectors_and_scores_are_the_package_s(
    jobs: list[dict[str, Any]], theirs: list[Rows], place: int
) -> None:
    texts = comparable(jobs[place])
    expected = np.array(theirs[place])[-len(texts) :]

    rows = ours(jobs[place], texts)

    off, apart = np.abs(rows - expected).max(), np.abs(rows @ rows.T - expected @ expected.T).max()
    print(f"job {place}: vectors differ by {off:.1e}, cosines by {apart:.1e}")
    assert max(off, apart) < TOLERANCE


def test_the_tolerance_would_show_a_missing_adapter(jobs: list[dict[str, Any]]) -> None:
    without, under = ours(jobs[0], TEXTS), ours(jobs[2], TEXTS)
    assert np.abs(without @ without.T - under @ under.T).max() > 1000 * TOLERANCE
