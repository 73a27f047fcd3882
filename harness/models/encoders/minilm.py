"""Texts to tokens and tokens to pooled rows: the packaged MiniLM's own tokenizer and weights.

It takes a folder for what it should be: who calls it has checked the files.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.errors import ModelError
from harness.models.vectors import Vectors, without_surrogates

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

REMEDY: Final = (
    'install it with pip install "pragmatics-harness[embed]", '
    "or use the judge ngram-cosine, which needs no weights"
)


class Network:
    """The loaded tokenizer and weights: texts to tokens, tokens to pooled rows."""

    def __init__(self, folder: Path, max_tokens: int, layers: tuple[int, ...]) -> None:
        """Load both from `folder`, without the layers above the last that is read.

        Weights come from safetensors alone.
        """
        try:
            import torch
            from safetensors.torch import load_file
            from transformers import AutoConfig, AutoModel, AutoTokenizer
        except ImportError as error:
            raise ModelError(f"MiniLM needs the package {error.name}, missing; {REMEDY}") from error
        # Not from_pretrained, which draws a progress bar and takes its dtype from its version.
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        model = AutoModel.from_config(config)  # type: ignore[no-untyped-call]  # theirs
        weights = load_file(folder / "model.safetensors")
        weights.pop("embeddings.position_ids")  # stored by old versions, computed by new ones
        model.load_state_dict(weights)
        if layers:
            del model.encoder.layer[max(layers) :]
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model: PreTrainedModel = model.to(device, torch.float32).eval()
        self._tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, local_files_only=True
        )
        self._max_tokens = max_tokens
        self._layers = layers
        self.width: int = config.hidden_size * len(layers) + 1 if layers else config.hidden_size

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The token numbers of each text, cut at the longest the model was trained for."""
        clean = [without_surrogates(text) for text in texts]
        encoded = self._tokenizer(
            clean, truncation=True, max_length=self._max_tokens, padding=False
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def is_longer(self, text: str) -> bool:
        """Whether a text has more tokens than are read of it."""
        return token_count(self._tokenizer, text) > self._max_tokens

    def pool(self, batch: Sequence[Sequence[int]]) -> Vectors:
        """The mean of each text's token vectors, or one a layer, scaled to length 1."""
        import torch
        from torch.nn.functional import normalize

        device = self._model.device
        lengths = torch.tensor([len(ids) for ids in batch], device=device)
        padded = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(ids, device=device) for ids in batch], batch_first=True
        )
        mask = torch.arange(padded.shape[1], device=device) < lengths[:, None]
        with torch.inference_mode():
            parts = [
                normalize((states * mask[:, :, None]).sum(dim=1), dim=1)
                for states in self._states(padded, mask)
            ]
            if self._layers:
                parts.append(torch.ones(len(batch), 1, device=device))
            rows: Vectors = normalize(torch.cat(parts, dim=1), dim=1).cpu().numpy()
        return rows

    def _states(self, padded: "Tensor", mask: "Tensor") -> "list[Tensor]":
        """The token vectors behind each layer that is read."""
        found = self._model(
            input_ids=padded, attention_mask=mask.long(), output_hidden_states=bool(self._layers)
        )
        return [found.hidden_states[layer] for layer in self._layers] or [found[0]]


def token_count(tokenizer: "PreTrainedTokenizerBase", text: str) -> int:
    """How many tokens a text has in all, those that the tokenizer adds among them."""
    ids: list[int] = tokenizer(without_surrogates(text), truncation=False, verbose=False)[
        "input_ids"
    ]
    return len(ids)
