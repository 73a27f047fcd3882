"""What computes in parts: the same answers and vectors wherever a part is computed."""

import pickle
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.packages import lacks

from harness.core import Request
from harness.errors import ModelError
from harness.models.encoders.encoders import MiniLM
from harness.models.local.tiny_llama import build_tiny_llama
from harness.models.local.transformers_lm import TransformersModel
from harness.models.ray.executor import RayExecutor, RayWorker, copies, what_computes
from harness.models.spread import Needs, Part, Spreadable
from harness.parts import Decoding, Message, Mode
from harness.specs.models import TransformersSpec

TEXTS = [f"It is {'very ' * (n % 5)}cold in room {n}." for n in range(40)]


class Elsewhere:
    """Another process, as far as a model can tell: parts are sent there and results are sent back.

    Of `ahead` parts that are composed early the last is computed first.
    """

    def __init__(self, copy: Spreadable, ahead: int = 3) -> None:
        self.copy, self.ahead = copy, ahead
        self.parts = 0

    def __call__(self, parts: Iterable[Part]) -> Iterator[object]:
        sent = [pickle.dumps(part) for part in parts]
        self.parts = len(sent)
        for start in range(0, len(sent), self.ahead):
            some = sent[start : start + self.ahead]
            results = [pickle.dumps(self.copy.compute(pickle.loads(one))) for one in some[::-1]]
            yield from map(pickle.loads, results[::-1])


def ask(text: str, mode: Mode, *, n: int = 1, temperature: float = 0.0) -> Request:
    words, choices = (Message("user", text),), (" yes", " no", " not at all")
    decoding = Decoding(max_tokens=6, n=n, temperature=temperature, seed=3)
    given = choices if mode is Mode.CHOOSE else ()
    return Request("s", "base", "answer", "m", words, decoding, mode, given)


REQUESTS = [
    *(ask(text, Mode.GENERATE) for text in TEXTS[:9]),
    *(ask(text, Mode.CHOOSE) for text in TEXTS[:9]),
    ask("word " * 5000, Mode.GENERATE),  # too long for the model
    *(ask(text, Mode.GENERATE, n=3, temperature=0.7) for text in TEXTS[:9]),
    ask("What?", Mode.EMBED),  # which it cannot
]


def test_a_model_that_computes_elsewhere_gives_the_same_responses(tmp_path: Path) -> None:
    spec = TransformersSpec(model=str(build_tiny_llama(tmp_path)), batch_tokens=150)
    here, there, sent = (TransformersModel("tiny", spec, tmp_path) for _ in range(3))
    elsewhere = Elsewhere(there)
    sent.send(elsewhere)

    assert list(sent.answer(REQUESTS)) == list(here.answer(REQUESTS))
    assert elsewhere.parts > 5


@pytest.mark.slow
def test_vectors_that_are_computed_elsewhere_have_the_same_bytes() -> None:
    here, there, sent = (MiniLM(batch_tokens=100) for _ in range(3))
    elsewhere = Elsewhere(there)
    sent.send(elsewhere)

    assert np.array_equal(sent.encode(TEXTS), here.encode(TEXTS))
    assert elsewhere.parts > 3


@pytest.mark.parametrize(
    ("needs", "count"),
    [
        *((Needs(cpus=2), 2 + 4), (Needs(cpus=1, gpus=1), 0 + 4), (Needs(cpus=1, gpus=0.5), 0 + 8)),
        (Needs(cpus=1, gpus=8), 0),
    ],
)
def test_as_many_copies_as_fit_on_each_machine(needs: Needs, count: int) -> None:
    assert copies([{"CPU": 5.0}, {"CPU": 8.0, "GPU": 4.0}], needs) == count


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"torch": "0.1"}, r"for torch .* '0\.1'.*same versions"),
        (
            {"the model": "another"},
            r"for the model .* 'another'.*same versions and files on all machines",
        ),
    ],
)
def test_a_worker_that_may_answer_otherwise_refuses(expected: dict[str, str], message: str) -> None:
    worker = RayWorker(partial(MiniLM), what_computes(MiniLM()) | expected, Needs())
    with pytest.raises(ModelError, match=message):
        worker.compute([])


@lacks("ray")
def test_without_ray_it_says_what_to_install() -> None:
    with pytest.raises(ModelError, match=r'needs ray, .* pip install -e "\.\[ray\]"'):
        RayExecutor()
