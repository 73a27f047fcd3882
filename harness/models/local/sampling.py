"""Prompts' token ids to sampled tokens, through a loaded transformers model.

The tokens sampled for a row depend on that row and the model alone, not on its batch: each row has
its own temperature and its own noise. Nothing here knows texts or tokenizers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.core import Request
from harness.parts import digest

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class SamplingRow:
    """One reply to sample; temperature 0 takes the likeliest token at each step."""

    prompt: tuple[int, ...]
    max_tokens: int
    temperature: float
    seed: int

    @property
    def shape(self) -> tuple[int, int]:
        """The most tokens to sample, and the number of prompt tokens."""
        return self.max_tokens, len(self.prompt)


@dataclass(frozen=True, slots=True)
class Sampled:
    """The tokens sampled for one row; the end token is last, unless `is_cut`."""

    tokens: tuple[int, ...]
    is_cut: bool


def reply_seed(request: Request, reply: int) -> int:
    """The seed of one reply of a request; decoding.seed is part of the request's key."""
    return int(digest((request.key, reply))[:15], 16)


class Sampler:
    """A loaded model that samples by our settings and keeps only its own end tokens."""

    def __init__(self, model: "PreTrainedModel", *, end: int | None) -> None:
        """Take a model; `end` is the tokenizer's end token, the model may name more."""
        from transformers import GenerationConfig

        named = model.generation_config.eos_token_id
        ends = named if isinstance(named, list) else [named]
        self.ends = sorted({token for token in [end, *ends] if token is not None})
        self.model = model
        model.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]  # unannotated

    def sample(self, rows: Sequence[SamplingRow]) -> list[Sampled]:
        """Sample for rows of equal max_tokens in one batch, prompts padded on the left."""
        import torch
        from transformers import GenerationConfig

        width = max(len(row.prompt) for row in rows)
        padding = self.ends[0] if self.ends else 0
        ids = [[padding] * (width - len(row.prompt)) + list(row.prompt) for row in rows]
        mask = [[0] * (width - len(row.prompt)) + [1] * len(row.prompt) for row in rows]
        settings = GenerationConfig(  # type: ignore[no-untyped-call]  # unannotated
            max_new_tokens=rows[0].max_tokens,
            do_sample=False,
            eos_token_id=self.ends or None,
            pad_token_id=padding,
        )
        with torch.inference_mode():
            sampled = self.model.generate(  # type: ignore[operator]  # mixed in by subclasses
                torch.tensor(ids, device=self.model.device),
                attention_mask=torch.tensor(mask, device=self.model.device),
                generation_config=settings,
                logits_processor=[RowNoise(rows)],
            )
        return [self._up_to_end(tokens) for tokens in sampled[:, width:].tolist()]

    def _up_to_end(self, tokens: list[int]) -> Sampled:
        for at, token in enumerate(tokens, start=1):
            if token in self.ends:
                return Sampled(tuple(tokens[:at]), is_cut=False)
        return Sampled(tuple(tokens), is_cut=True)


class RowNoise:
    """Gumbel noise on the logits of each row whose temperature is not 0.

    The likeliest token of noisy logits is a sample from their softmax (Maddison, Tarlow and Minka
    2014, "A* sampling"). Uniforms come from one CPU generator a row, so they are equal on every
    device, whatever else is in the batch.
    """

    def __init__(self, rows: Sequence[SamplingRow]) -> None:
        """Seed the generators of the rows with a temperature."""
        import torch

        self._noisy = [at for at, row in enumerate(rows) if row.temperature > 0]
        self._temperatures = [[rows[at].temperature] for at in self._noisy]
        self._generators = [torch.Generator().manual_seed(rows[at].seed) for at in self._noisy]

    def __call__(self, tokens: "Tensor", logits: "Tensor") -> "Tensor":
        """Logits whose argmax is the next token."""
        import torch

        if not self._noisy:
            return logits
        uniform = torch.stack([torch.rand(logits.shape[1], generator=g) for g in self._generators])
        gumbel = -torch.log(-torch.log(uniform.to(logits.device)))
        temperatures = torch.tensor(self._temperatures, device=logits.device)
        noisy = logits.clone()
        noisy[self._noisy] = logits[self._noisy] / temperatures + gumbel
        return noisy
