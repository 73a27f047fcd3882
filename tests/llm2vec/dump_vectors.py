"""Vectors of the llm2vec package, for the test beside it, in the environment of install.sh.

Reads a list of jobs from standard input as JSON and writes, for each, the rows of the package
called as its own page shows and those of Llm2VecPackage, both of length 1.
"""

import json
import sys
from importlib import import_module
from typing import Any

import torch

from harness.models.encoders.llm2vec import Llm2VecPackage


def rows_of_the_package(job: dict[str, Any]) -> list[list[float]]:
    model = import_module("llm2vec").LLM2Vec.from_pretrained(
        job["base"], peft_model_name_or_path=job["adapter"], torch_dtype=torch.float32
    )
    pairs = [[job["instruction"], text] for text in job["texts"]]
    rows = model.encode(pairs, batch_size=8, show_progress_bar=False, device="cpu")
    unit: list[list[float]] = torch.nn.functional.normalize(rows, dim=1).tolist()
    return unit


def rows_of_the_engine(job: dict[str, Any]) -> list[list[float]]:
    adapters = (job["adapter"],) if job["adapter"] else ()
    encoder = Llm2VecPackage(job["base"], adapters, instruction=job["instruction"], device="cpu")
    rows: list[list[float]] = encoder.encode(job["texts"]).tolist()
    return rows


json.dump(
    [
        {"package": rows_of_the_package(job), "engine": rows_of_the_engine(job)}
        for job in json.load(sys.stdin)
    ],
    sys.stdout,
)
