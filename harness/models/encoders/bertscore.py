"""Pairs of texts to BERTScore by the bert-score package, its models, layers and preparation."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from harness.errors import ModelError, SpecError
from harness.models.encoders.encoders import MiniLM
from harness.models.extras import require
from harness.models.local.checkpoints import ResolvedCheckpoint, device_of, explain, resolve
from harness.models.vectors import without_surrogates
from harness.parts import digest

PACKAGED: Final = "minilm"
MOST_TOKENS: Final = 512  # where a tokenizer states no limit of its own
# One text, and one pair, at a time: the package gives a token whose cosines are all negative the 0
# of the padding, so in a batch a verdict would depend on its neighbours.
BATCH: Final = 1


class BertScorer:
    """A model (minilm: the packaged one) at a layer; None is the recommended one, or the last."""

    def __init__(self, source: str, layer: int | None) -> None:
        """Keep what to read; the model is loaded with the first pairs."""
        self._source, self._asked = source, layer

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
        require("bert_score", what="BERTScore needs")
        return digest((weights, layer, "leading space", "float32", version("bert-score")))

    @cached_property
    def layer(self) -> int:
        """The layer that is read; a layer that the model does not have is an error."""
        is_packaged = self._source == PACKAGED
        layers = MiniLM.depth if is_packaged else getattr(self._config, "num_hidden_layers", None)
        if layers is None:
            raise ModelError(f"{self._source}: its config.json has no num_hidden_layers")
        layer = self._asked or layers
        if not self._asked and not is_packaged:
            layer = _library().model2layers.get(self._source, layer)
        if layer > layers:
            fact = f"{self._source} has no layer {layer}"
            raise SpecError(f"{fact}; give `layer` a number from 1 to {layers}, or leave it out")
        return int(layer)

    def figures(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Precision, recall and F1 [pairs, 3] of pairs of answer and reference."""
        library, (tokenizer, model) = _library(), self._network
        marks = (tokenizer.sep_token_id, tokenizer.cls_token_id)
        weights = defaultdict(lambda: 1.0, dict.fromkeys(marks, 0.0))
        answers, references = (
            [*map(without_surrogates, side)] for side in zip(*pairs, strict=True)
        )
        found = library.bert_cos_score_idf(
            *(model, references, answers, tokenizer, weights), batch_size=BATCH, device=model.device
        )
        return np.asarray(found.numpy(), dtype=np.float64)

    @cached_property
    def _resolved(self) -> ResolvedCheckpoint:
        return resolve(self._source, revision=None)

    @cached_property
    def _place(self) -> str:
        if self._source == PACKAGED:
            return str(MiniLM().checked_folder())
        return self._resolved.source

    @cached_property
    def _config(self) -> Any:  # noqa: ANN401  # a configuration has what its model needs
        from transformers import AutoConfig

        place = self._place
        with explain(self._source):
            return AutoConfig.from_pretrained(place)

    @cached_property
    def _network(self) -> tuple[Any, Any]:
        """The tokenizer, and the model up to its layer, on a GPU if there is one."""
        library, layer, config = _library(), self.layer, self._config
        if "t5" in self._place and "t5" not in config.model_type:
            raise ModelError(
                f"{self._place}: bert-score takes every name with t5 in it for a T5, which this is "
                "not; point `encoder:` to a folder on a path without t5"
            )
        with explain(self._source):
            tokenizer = library.get_tokenizer(self._place)
            model = library.get_model(self._place, layer).to(device_of("auto")).float().eval()
        # The package asks for a leading space by an option that transformers 5 ignores.
        if type(tokenizer).__name__.removesuffix("Fast") in ("GPT2Tokenizer", "RobertaTokenizer"):
            tokenizer.backend_tokenizer.pre_tokenizer.add_prefix_space = True
        if tokenizer.model_max_length >= 10**6:
            positions = getattr(config, "max_position_embeddings", None) or MOST_TOKENS
            tokenizer.model_max_length = min(positions, MOST_TOKENS)
        return tokenizer, model


def _library() -> ModuleType:
    require("bert_score", what="BERTScore needs")
    return import_module("bert_score.utils")
