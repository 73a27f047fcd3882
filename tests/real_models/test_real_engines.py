"""One real model through transformers, vLLM and llama.cpp: the same texts and log-probabilities.

Three have the same weights in float32 and differ by rounding alone. The fourth, llama.cpp on the
file in four bits, multiplies them with activations of eight bits, and differs by more.
"""

from statistics import median

import pytest
from agreement import agreement
from real_home import LOGPROB, Home

pytest_plugins = ["real_fixtures"]
pytestmark = pytest.mark.real

TRANSFORMERS, VLLM, LLAMACPP, Q4 = (
    f"gemma-270m{name}" for name in ("", "-vllm", "-llamacpp", "-q4")
)
ROUNDED = {VLLM: 1e-3, LLAMACPP: 2e-2}
"""Nats by which the log-probability of a choice may differ from that of transformers."""
FAR, USUALLY = 1.0, 0.25
"""The same for weights in four bits: of any choice, and in the median."""


@pytest.fixture(scope="session")
def ran(home: Home) -> Home:
    """The plan engines.yaml, carried out."""
    done = home.harness("run", "engines")
    assert done.returncode in (0, 1), done.stderr[-3000:]
    return home


@pytest.mark.parametrize("other", [VLLM, LLAMACPP])
def test_engines_with_the_same_weights_write_the_same_greedy_texts(ran: Home, other: str) -> None:
    found = agreement(ran.results, TRANSFORMERS, other)
    assert found.texts == 24
    assert found.alike >= 23  # one may part where the two likeliest tokens are as good as equal


@pytest.mark.parametrize("other", [VLLM, LLAMACPP])
def test_engines_with_the_same_weights_score_choices_alike(ran: Home, other: str) -> None:
    found = agreement(ran.results, TRANSFORMERS, other)
    assert len(found.apart) >= (24 * 8 if other == VLLM else 24)
    assert max(found.apart) <= ROUNDED[other]


def test_weights_in_four_bits_part_from_them_sooner(ran: Home) -> None:
    found = agreement(ran.results, TRANSFORMERS, Q4)

    assert found.begun_alike >= 20
    assert 24 > found.alike >= 4
    assert max(found.apart) <= FAR
    assert median(found.apart) <= USUALLY


def test_a_server_that_echoes_no_prompt_is_refused_with_what_to_do(home: Home) -> None:
    done = home.harness("run", "--task", "capitals", "--model", "gemma-270m-llamacpp-echo")
    assert done.returncode == 2
    assert "no log-probabilities of the prompt" in " ".join(done.stderr.split())


@pytest.mark.parametrize("model", [TRANSFORMERS, VLLM])
def test_choices_are_above_chance_where_the_model_knows(ran: Home, model: str) -> None:
    row = ran.score("capitals", model, LOGPROB)

    assert row.chance == pytest.approx(0.25)
    assert row.score.low is not None
    assert row.score.low > 0.25


def test_a_base_model_that_chooses_by_place_raises_the_alarm(home: Home) -> None:
    done = home.harness(
        *("run", "--task", "intent_detection", "--model", TRANSFORMERS, "--limit", "28")
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert "of its choices are at one position" in done.stderr
    assert home.score("intent_detection", TRANSFORMERS, LOGPROB).score.n == 28 * 5
