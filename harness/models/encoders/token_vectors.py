"""Texts to unit vectors of their tokens, from the layer of a model that BERTScore reads.

Models, layers and baselines are those of the bert-score package, and so is the preparation of
texts, done here for all texts at once. Nothing here compares two texts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from harness.errors import ModelError, SpecError, install
from harness.models.encoders.encoders import MiniLM
from harness.models.local.checkpoints import ResolvedCheckpoint, device_of, explain, resolve
from harness.models.spread import Elsewhere, Part, Spreadable
from harness.models.vectors import Vectors, rising_batches, without_surrogates
from harness.parts import digest
from harness.storage.tables import read_text

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PACKAGED: Final = "minilm"
PACKAGED_LAYERS: Final = 6
MOST_TOKENS: Final = 512  # where a tokenizer states no limit of its own

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """The tokens of some texts, one text after the other.

    `vectors` and `ids` have a row a token; text i has the `lengths[i]` rows from `starts[i]` on.
    `markers` are the ids of the tokens that open and close a text.
    """

    vectors: Vectors
    ids: Indices
    starts: Indices
    lengths: Indices
    markers: tuple[int, ...]

    def tokens(self, text: int) -> Indices:
        """The token ids of one text."""
        start = self.starts[text]
        return self.ids[start : start + self.lengths[text]]


class TokenEncoder(Spreadable):
    """The packaged MiniLM, a hub name or a folder, read at one layer.

    Float32, on a CUDA device if there is one, else on the CPU. Texts of one length share a batch,
    so that no vector depends on padding.
    """

    def __init__(self, source: str, layer: int | None, *, batch_tokens: int = 4096) -> None:
        """Read `source` at `layer`, counted from 1; None is the recommended one, or the last.

        `batch_tokens` bounds a batch; it changes speed and float noise.
        """
        self._source, self._asked, self._batch_tokens = source, layer, batch_tokens

    @property
    def name(self) -> str:
        """The last part of the model's name, and the layer."""
        return f"{Path(self._source).name}-L{self.layer}"

    @property
    def digest(self) -> str:
        """Digest of the weights, the layer, and the package that defines the reading."""
        is_packaged = self._source == PACKAGED
        weights = digest(MiniLM.files) if is_packaged else self._resolved.origin
        layer = self.layer
        try:
            package = version("bert-score")
        except PackageNotFoundError as error:
            raise _missing("bert-score") from error
        return digest((weights, layer, "leading space", "float32", package))

    @cached_property
    def layer(self) -> int:
        """The layer that is read; a layer that the model does not have is an error."""
        layer = self._asked or self._layers
        if not self._asked and self._source != PACKAGED:
            layer = int(_library().model2layers.get(self._source, layer))
        if layer > self._layers:
            raise SpecError(
                f"{self._source} has no layer {layer}; give `layer` a number from 1 to "
                f"{self._layers}, or leave it out"
            )
        return layer

    @property
    def baseline(self) -> tuple[float, float, float]:
        """P, R and F of unrelated English texts at this layer, from the package."""
        folder = Path(_library().__file__ or "").parent / "rescale_baseline" / "en"
        path = folder / f"{self._source}.tsv"
        if self._source == PACKAGED or not path.is_file():
            raise SpecError(
                f"bert-score has no baseline for {self._source}; set `is_rescaled: false`"
            )
        row = read_text(path).splitlines()[self.layer + 1]  # after the header and layer 0
        precision, recall, f1 = (float(part) for part in row.split(",")[1:])
        return precision, recall, f1

    def encode(self, texts: Sequence[str]) -> TokenVectors:
        """Encode the tokens of each text, in the order of the texts; repeats cost time."""
        return self._network.encode(texts, budget=self._batch_tokens, compute=self._computed)

    def compute(self, part: Part) -> Vectors:
        """The unit vectors [texts, tokens, width] of a batch of token ids of one length."""
        return self._network.states(part)

    @cached_property
    def _resolved(self) -> ResolvedCheckpoint:
        return resolve(self._source, revision=None)

    @cached_property
    def _config(self) -> Any:  # noqa: ANN401  # a configuration has what its model needs
        from transformers import AutoConfig

        with explain(self._source):
            return AutoConfig.from_pretrained(self._resolved.source)

    @property
    def _layers(self) -> int:
        if self._source == PACKAGED:
            return PACKAGED_LAYERS
        count = getattr(self._config, "num_hidden_layers", None)
        if count is None:
            raise ModelError(f"{self._source}: its config.json has no num_hidden_layers")
        return int(count)

    @cached_property
    def _network(self) -> "_Network":
        layer = self.layer
        with explain(self._source):
            if self._source == PACKAGED:
                return _packaged(layer)
            place = self._resolved.source
            if "t5" in place and "t5" not in self._config.model_type:
                raise ModelError(
                    f"{place}: bert-score takes every name with t5 in it for a T5, which this is "
                    "not; point `encoder:` to a folder on a path without t5"
                )
            library = _library()
            tokenizer = library.get_tokenizer(place)
            return _Network(self._config, tokenizer, lambda: self._cut(library, place, layer))

    def _cut(self, library: ModuleType, place: str, layer: int) -> "PreTrainedModel":
        with explain(self._source):
            model: PreTrainedModel = library.get_model(place, layer)
        return model


class _Network:
    def __init__(
        self,
        config: Any,  # noqa: ANN401  # a configuration has what its model needs
        tokenizer: "PreTrainedTokenizerBase",
        load: "Callable[[], PreTrainedModel]",
    ) -> None:
        """Read texts by a tokenizer; the model is loaded with the first batch."""
        self._tokenizer, self._load, self._width = tokenizer, load, int(config.hidden_size)
        # bert-score asks for a leading space by an option that transformers 5 ignores.
        family = type(tokenizer).__name__.removesuffix("Fast")
        self._lead = " " if family in ("GPT2Tokenizer", "RobertaTokenizer") else ""
        positions = getattr(config, "max_position_embeddings", None) or MOST_TOKENS
        stated = tokenizer.model_max_length
        self._limit = stated if stated < 10**6 else min(positions, MOST_TOKENS)

    @cached_property
    def _model(self) -> "PreTrainedModel":
        """The model, on a GPU if there is one."""
        import torch

        model: Any = self._load()
        placed: PreTrainedModel = model.to(device_of("auto"), torch.float32).eval()
        return placed

    def encode(self, texts: Sequence[str], *, budget: int, compute: Elsewhere) -> TokenVectors:
        """Encode the tokens of each text; `compute` has `states` compute each batch."""
        ids = self._tokens(texts)
        lengths = np.array([len(part) for part in ids], dtype=np.int64)
        starts = np.cumsum(lengths) - lengths
        rows = np.empty((lengths.sum(), self._width), dtype=np.float32)
        batches = [
            batch
            for length in np.unique(lengths[lengths > 0])  # texts without tokens have no rows
            for batch in rising_batches(
                np.flatnonzero(lengths == length).tolist(), lengths.tolist(), budget=budget
            )
        ]
        found = compute([ids[i] for i in batch] for batch in batches)
        for batch, states in zip(batches, found, strict=True):
            rows[starts[batch][:, None] + np.arange(lengths[batch[0]])] = states
        marks = (self._tokenizer.sep_token_id, self._tokenizer.cls_token_id)
        return TokenVectors(
            vectors=rows,
            ids=np.array([token for part in ids for token in part], dtype=np.int64),
            starts=starts,
            lengths=lengths,
            markers=tuple(mark for mark in marks if mark is not None),
        )

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        bare = [without_surrogates(text).strip() for text in texts]
        led = [self._lead + text if text else text for text in bare]
        ids: list[list[int]] = self._tokenizer(led, truncation=True, max_length=self._limit)[
            "input_ids"
        ]
        return ids

    def states(self, ids: Sequence[Sequence[int]]) -> Vectors:
        """The unit vectors of the tokens of texts of one length."""
        import torch

        tokens = torch.tensor(ids, device=self._model.device)
        with torch.inference_mode():
            states = self._model(tokens, attention_mask=torch.ones_like(tokens))[0]
            units: Vectors = torch.nn.functional.normalize(states, dim=-1).cpu().numpy()
        return units


def _missing(package: str) -> ModelError:
    return ModelError(f"BERTScore needs the package {package}, missing; run: {install('local')}")


def _library() -> ModuleType:
    try:
        return import_module("bert_score.utils")
    except ImportError as error:
        raise _missing((error.name or "bert-score").replace("_", "-")) from error


def _packaged(layer: int) -> _Network:
    """MiniLM up to a layer, as bert-score cuts it, without the plotting that it imports."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    folder = MiniLM().checked_folder()

    def load() -> "PreTrainedModel":
        with explain(PACKAGED):
            model: Any = AutoModel.from_pretrained(folder, local_files_only=True)
        model.encoder.layer = model.encoder.layer[:layer]
        cut: PreTrainedModel = model
        return cut

    own = {"local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(folder, **own)
    return _Network(AutoConfig.from_pretrained(folder, **own), tokenizer, load)
