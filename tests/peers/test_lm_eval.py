"""Log-probabilities of choices against those of lm-evaluation-harness's back end `hf`.

Runs in the environment that tests/peers/install.sh builds: `python -m pytest -m peers tests/peers`.
The prompts are those released by Hu et al., the models random ones of two sizes.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.choice import Case, build_model, read_cases
from harness.core import Request
from harness.models.local.tokenization import choice_tokens
from harness.models.local.transformers_lm import TransformersModel
from harness.parts import Decoding, Message, Mode
from harness.specs.models import TransformersSpec

DATA = os.environ.get("HARNESS_DATA")
pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(DATA is None, reason="HARNESS_DATA is unset: the folder of released data"),
]


def cases(answers: str, items: int | None) -> list[Case]:
    return read_cases(Path(DATA or ""), answers, items)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    texts = [context for context, _ in cases("digits", None)]
    folder = tmp_path_factory.mktemp
    return {shape: build_model(folder(shape), texts, shape) for shape in ("tiny", "small")}


def logprobs(folder: Path, asked: Sequence[Case]) -> list[float]:
    """The log-probabilities of the kind transformers, asked as the pipeline asks it."""
    model = TransformersModel("random", TransformersSpec(model=str(folder)), folder)
    decoding, mode = Decoding(max_tokens=1), Mode.CHOOSE
    requests = [
        Request(str(at), "", "", "", (Message("user", context),), decoding, mode, tuple(choices))
        for at, (context, choices) in enumerate(asked)
    ]
    found = {response.key: response.choice_scores or () for response in model.answer(requests)}
    return [score.logprob for request in requests for score in found[request.key]]


def is_alike(peer: Any, context: str, choices: Sequence[str]) -> bool:  # noqa: ANN401 - an HFLM
    """Whether both score the same tokens given the same ones."""
    turns = (Message("user", context),)
    own = choice_tokens(turns, choices, peer.tokenizer, is_chat=False)
    theirs = [peer._encode_pair(context, choice) for choice in choices]
    cut = [(row[:first], row[first:]) for row, first in zip(own.rows, own.firsts, strict=True)]
    return cut == [(tuple(before), tuple(scored)) for before, scored in theirs]


@pytest.mark.parametrize("answers", ["digits", "texts"])
@pytest.mark.parametrize(("shape", "items"), [("tiny", None), ("small", 4)])
def test_choices_have_the_log_probabilities_that_lm_eval_gives_them(
    models: dict[str, Path], shape: str, items: int | None, answers: str
) -> None:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    asked = cases(answers, items)
    peer = HFLM(pretrained=str(models[shape]), dtype="float32", device="cpu", batch_size=8)
    alike = [case for case in asked if is_alike(peer, *case)]
    pairs = [(context, choice) for context, choices in alike for choice in choices]

    own = logprobs(models[shape], alike)
    theirs = peer.loglikelihood(
        [Instance("loglikelihood", {}, pair, 0) for pair in pairs], disable_tqdm=True
    )

    apart = [abs(one - other) for one, (other, _) in zip(own, theirs, strict=True)]
    print(
        f"{shape}, {answers}: {len(alike)} of {len(asked)} prompts tokenised alike, apart by at "
        f"most {max(apart):.1e} nats over {len(apart)} choices"
    )
    assert len(alike) == len(asked) == (845 if items is None else 5 * items)
    assert max(apart) < 1e-4
