"""A transformer read as an encoder: means of its token vectors."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from harness.errors import ModelError, install
from harness.lazy import PreTrainedModel, PreTrainedTokenizerBase, Tensor, torch
from harness.models.local.checkpoints import device_of
from harness.models.spread import Elsewhere
from harness.models.vectors import Vectors, rows_in_batches, without_surrogates

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
        """One row a text, cut at `max_tokens`; `compute` has `pool` compute each batch."""
        clean = [without_surrogates(text) for text in texts]
        read = self.tokenizer(clean, truncation=True, max_length=self.max_tokens)["input_ids"]
        keys = [*zip(map(len, read), texts, strict=True)]
        return rows_in_batches(read, keys, compute, width=self.width, budget=batch_tokens)

    def pool(self, batch: Sequence[Sequence[int]]) -> Vectors:
        """The mean of each text's token vectors, or one a layer, scaled to length 1."""
        from torch.nn.functional import normalize

        device = self._model.device
        ids, lengths = padded(batch, device)
        mask = torch.arange(ids.shape[1], device=device) < lengths
        with torch.inference_mode():
            output = self._model(
                input_ids=ids, attention_mask=mask.long(), output_hidden_states=bool(self._layers)
            )
            states = [output.hidden_states[layer] for layer in self._layers] or [output[0]]
            parts = [normalize((each * mask[:, :, None]).sum(dim=1), dim=1) for each in states]
            if self._layers:
                parts.append(torch.ones(len(batch), 1, device=device))
            rows: Vectors = normalize(torch.cat(parts, dim=1), dim=1).cpu().numpy()
        return rows


def padded(batch: Sequence[Sequence[int]], device: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    """Token ids padded on the right, and the lengths of the rows."""
    rows = [torch.tensor(ids, device=device) for ids in batch]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return ids, torch.tensor([len(row) for row in rows], device=device)[:, None]
