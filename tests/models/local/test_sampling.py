from collections import Counter

import pytest

from harness.models.local.checkpoints import load_weights, open_checkpoint
from harness.models.local.tiny_llama import build_tiny_llama
from harness.models.local.transformers_lm import Sampler, SamplingRow, row_noise

PROMPT = (0, 2, 40, 50, 60, 1, 3)


@pytest.fixture(scope="module")
def drawer(tmp_path_factory: pytest.TempPathFactory) -> Sampler:
    folder = build_tiny_llama(tmp_path_factory.mktemp("cache"))
    checkpoint = open_checkpoint(str(folder), revision=None, trust_remote_code=False)
    return Sampler(load_weights(checkpoint, dtype="float32", device="cpu"), end=1)


def likeliest(drawer: Sampler, prompt: tuple[int, ...], steps: int) -> tuple[int, ...]:
    """A loop without a cache, a batch or padding."""
    import torch

    tokens = list(prompt)
    with torch.inference_mode():
        for _ in range(steps):
            logits = drawer.model(torch.tensor([tokens])).logits[0, -1]
            tokens.append(int(logits.argmax()))
            if tokens[-1] in drawer.ends:
                break
    return tuple(tokens[len(prompt) :])


@pytest.mark.parametrize("prompt", [PROMPT, (0, 2, 99, 1, 3), (0, *range(5, 200), 1, 3)])
def test_temperature_0_takes_what_a_loop_takes(drawer: Sampler, prompt: tuple[int, ...]) -> None:
    rows = [SamplingRow(p, 40, 0.0, 0) for p in (PROMPT, prompt)]
    assert drawer.sample(rows)[1][0] == likeliest(drawer, prompt, 40)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_draws_follow_the_softmax_of_the_logits(drawer: Sampler, temperature: float) -> None:
    import torch

    with torch.inference_mode():
        logits = drawer.model(torch.tensor([PROMPT])).logits[0, -1]
    expected, order = torch.softmax(logits / temperature, 0).sort(descending=True)

    drawn = drawer.sample([SamplingRow(PROMPT, 1, temperature, seed) for seed in range(2000)])

    counts = Counter(tokens[0] for tokens, _ in drawn)
    shares = [counts[int(token)] / 2000 for token in order[:8]]
    gaps = [abs(share - float(p)) for share, p in zip(shares, expected, strict=False)]
    rest = abs(sum(shares) - float(expected[:8].sum()))
    # Nine cells and 2,000 draws: the total variation is about 0.02, and under 0.05 surely.
    assert (sum(gaps) + rest) / 2 < 0.05


def test_a_row_at_temperature_0_is_untouched_with_a_row_that_is_drawn() -> None:
    import torch

    logits = torch.zeros(2, 7)

    noisy = row_noise([SamplingRow((), 1, 0.0, 1), SamplingRow((), 1, 1.0, 1)])(
        torch.zeros(2, 1), logits
    )

    assert noisy[0].tolist() == [0.0] * 7
    assert len(set(noisy[1].tolist())) == 7


def test_noise_is_equal_on_every_machine() -> None:
    import torch

    noise = row_noise([SamplingRow((), 1, 1.0, 123)])(torch.zeros(1, 1), torch.zeros(1, 3))
    assert noise[0].tolist() == pytest.approx([-0.196403, 0.414668, -0.321818], abs=1e-5)


def test_an_answer_ends_with_its_end_token_or_is_cut(drawer: Sampler) -> None:
    drawn = drawer.sample([SamplingRow(PROMPT, 60, 1.0, seed) for seed in range(20)])

    assert {is_cut for _, is_cut in drawn} == {True, False}
    for tokens, is_cut in drawn:
        assert (tokens[-1] in drawer.ends) is not is_cut
        assert not set(tokens[:-1]) & set(drawer.ends)
        assert not is_cut or len(tokens) == 60
