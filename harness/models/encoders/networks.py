"""A transformer read as an encoder: means of its token vectors, and what it barely reads."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from harness.errors import ModelError, install
from harness.lazy import PreTrainedModel, PreTrainedTokenizerBase, torch
from harness.models.local.checkpoints import device_of
from harness.models.spread import Elsewhere
from harness.models.vectors import Vectors, rising_batches, without_surrogates
from harness.text.languages import is_foreign

REMEDY: Final = f"run: {install('embed')}, or use the judge ngram-cosine, which needs no weights"


class Network:
    """A transformer with its tokenizer, whose token vectors are averaged."""

    def __init__(self, folder: Path, max_tokens: int, layers: tuple[int, ...]) -> None:
        """Read a checked folder; its weights are loaded with the first batch."""
        try:
            import safetensors.torch
            from transformers import AutoConfig, AutoTokenizer
        except ImportError as error:
            raise ModelError(f"it needs the package {error.name}, missing; {REMEDY}") from error
        _ = torch, safetensors
        self._folder, self.max_tokens, self._layers = folder, max_tokens, layers
        self._config: Any = AutoConfig.from_pretrained(folder, local_files_only=True)
        self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, local_files_only=True
        )
        width: int = self._config.hidden_size
        self.width = width * len(layers) + 1 if layers else width

    @cached_property
    def _model(self) -> PreTrainedModel:
        """The transformer, without the layers above the last that is read."""
        from safetensors.torch import load_file
        from transformers import AutoModel

        # Not from_pretrained, which draws a progress bar and takes its dtype from its version.
        model: Any = AutoModel.from_config(self._config)  # type: ignore[no-untyped-call]  # theirs
        weights = load_file(self._folder / "model.safetensors")
        weights.pop("embeddings.position_ids", None)  # stored by old versions, computed by new
        model.load_state_dict(weights)
        if self._layers:
            del model.encoder.layer[max(self._layers) :]
        placed: PreTrainedModel = model.to(device_of("auto"), torch.float32).eval()
        return placed

    def rows(self, texts: list[str], batch_tokens: int, compute: Elsewhere) -> Vectors:
        """One row a text, in batches that depend on which texts there are, not on their order.

        `compute` has `pool` compute each batch of token ids.
        """
        tokens = self.tokens(texts)
        rows = np.empty((len(texts), self.width), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda i: (len(tokens[i]), texts[i]))
        batches = [*rising_batches(order, [len(t) for t in tokens], budget=batch_tokens)]
        found = compute([tokens[i] for i in batch] for batch in batches)
        for batch, vectors in zip(batches, found, strict=True):
            rows[batch] = vectors
        return rows

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, cut at `max_tokens`."""
        clean = [without_surrogates(text) for text in texts]
        ids: list[list[int]] = self.tokenizer(clean, truncation=True, max_length=self.max_tokens)[
            "input_ids"
        ]
        return ids

    def pool(self, batch: Sequence[Sequence[int]]) -> Vectors:
        """The mean of each text's token vectors, or one a layer, scaled to length 1."""
        from torch.nn.functional import normalize

        device = self._model.device
        lengths = torch.tensor([len(ids) for ids in batch], device=device)
        padded = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(ids, device=device) for ids in batch], batch_first=True
        )
        mask = torch.arange(padded.shape[1], device=device) < lengths[:, None]
        with torch.inference_mode():
            output = self._model(
                input_ids=padded,
                attention_mask=mask.long(),
                output_hidden_states=bool(self._layers),
            )
            states = [output.hidden_states[layer] for layer in self._layers] or [output[0]]
            parts = [normalize((each * mask[:, :, None]).sum(dim=1), dim=1) for each in states]
            if self._layers:
                parts.append(torch.ones(len(batch), 1, device=device))
            rows: Vectors = normalize(torch.cat(parts, dim=1), dim=1).cpu().numpy()
        return rows


def exceed(
    texts: Sequence[str], most: int | None, tokenizer: Callable[[], PreTrainedTokenizerBase]
) -> list[bool]:
    """Whether each text has more than `most` tokens, special ones included; None is no limit."""

    def is_longer(text: str) -> bool:
        if most is None or len(text.encode("utf-8", "replace")) <= most - 8:
            return False  # a token is a byte or more
        read = tokenizer()(without_surrogates(text), truncation=False, verbose=False)
        return len(read["input_ids"]) > most

    return [is_longer(text) for text in texts]


SPELLED: Final = 0.75  # tokens a letter from which on a word is read letter by letter


def barely_read(
    texts: Sequence[str], tokenizer: Callable[[], PreTrainedTokenizerBase]
) -> list[bool]:
    """Whether a tokenizer knows too little of each text: no token, or not the script.

    It does not know a script other than Latin that most letters of a text are of, where half the
    tokens are unknown or there are SPELLED tokens a letter or more.
    """

    def is_barely(text: str) -> bool:
        if text.isascii() and max(map(len, text.split()), default=0) < 100:
            return False
        read = tokenizer()(without_surrogates(text), add_special_tokens=False, verbose=False)
        tokens = read["input_ids"]
        unknown = tokens.count(tokenizer().unk_token_id)
        if unknown == len(tokens):
            return True
        letters = sum(map(str.isalpha, text))
        is_spelled = 2 * unknown >= len(tokens) or len(tokens) >= SPELLED * letters
        return is_spelled and is_foreign(text)

    return [is_barely(text) for text in texts]
