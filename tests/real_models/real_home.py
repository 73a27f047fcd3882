"""A home folder with the real weights in it: the commands that run there, and what they leave."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.storage.find_runs import run_folders
from harness.storage.runs import ScoreRow

ROOT = Path(__file__).parents[2]
LOGPROB = "logprob"
"""Choices scored by their log-probabilities, as runs have it for their decoding."""


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of tests/real_models/home with the weights, and what was run in it."""

    folder: Path
    servers: dict[str, str]

    def harness(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command in the folder."""
        given = self.servers | {"HF_HUB_OFFLINE": "1", "COLUMNS": "200"}
        given |= {"PYTHONPATH": str(ROOT), "VLLM_CPU_KVCACHE_SPACE": "1"}
        return subprocess.run(
            [sys.executable, "-m", "harness", *words],
            cwd=self.folder,
            env=os.environ | given,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def results(self) -> Path:
        """Where its runs are."""
        return self.folder / "results"

    def score(self, task: str, model: str, decoding: str) -> ScoreRow:
        """The overall accuracy of a model's answers to a task, of the widest variant."""
        found = [
            row
            for run in run_folders(self.results)
            for row in run.read_scores()
            if (row.task, row.model, row.score.decoding) == (task, model, decoding)
            and (row.score.group, row.score.metric) == ("all", "accuracy")
        ]
        return max(found, key=lambda row: row.score.n)
