"""Vectors of the llm2vec package, for the test beside it, in the environment of install.sh.

Reads a list of jobs from standard input as JSON and writes, for each, the rows of the package
called as its own page shows, of length 1.
"""

import json
import sys
from importlib import import_module
from typing import Any

import torch


def rows_of_the_package(job: dict[str, Any]) -> list[list[float]]:
    model = import_module("llm2vec").LLM2Vec.from_pretrained(
        job["base"], peft_model_name_or_path=job["adapter"], torch_dtype=torch.float32
    )
    pairs = [[job["instruction"], text] for text in job["texts"]]
    rows = model.encode(pairs, batch_size=8, show_progress_bar=False, device="cpu")
    unit: list[list[float]] = torch.nn.functional.normalize(rows, dim=1).tolist()
    return unit


json.dump([rows_of_the_package(job) for job in json.load(sys.stdin)], sys.stdout)
