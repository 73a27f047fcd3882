"""Texts to unit vectors by LLM2Vec checkpoints: a Llama that attends both ways, tuned by adapters.

Texts are prepared as by llm2vec 0.2.3 (BehnamGhader et al., 2024, arXiv:2404.05961).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, Final, Literal
from warnings import catch_warnings, simplefilter

from harness.errors import ModelError
from harness.lazy import PreTrainedModel, PreTrainedTokenizerBase, torch
from harness.models.encoders.networks import padded
from harness.models.extras import require
from harness.models.local import checkpoints
from harness.models.local.checkpoints import Checkpoint, ResolvedCheckpoint, explain
from harness.models.spread import Needs, Part, Spreadable
from harness.models.vectors import Vectors, row_of_each, rows_in_batches, without_surrogates
from harness.parts import digest

SEPARATOR: Final = "!@#$%^&*()"
"""What the package puts between instruction and text, then takes out again."""
TEXT_TOKENS: Final = 400  # the package's `doc_max_length`: a longer text loses words at its end
TURNS: Final = {
    "meta-llama/Meta-Llama-3-8B-Instruct": (
        "<|start_header_id|>user<|end_header_id|>\n\n",
        "<|eot_id|>",
    ),
    "meta-llama/Llama-2-7b-chat-hf": ("[INST] ", " [/INST]"),
}
"""What the package writes around instruction and text, by the model the adapters were tuned on."""


Tokens = tuple[list[int], int]
"""The tokens of a prepared text, and how many of the last ones are pooled."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """The package's text preparation; `turn` is the text before and after, or None."""

    tokenizer: PreTrainedTokenizerBase
    turn: tuple[str, str] | None
    instruction: str
    max_length: int

    def read(self, text: str) -> Tokens:
        """Tokenize all; pooled are the text and the turn's end, or everything without them."""
        lead = f"{self.instruction.strip()} " if self.instruction.strip() else ""
        whole = lead + SEPARATOR + self._shortened(text)
        if self.turn is not None:
            whole = self.turn[0] + whole.strip() + self.turn[1]
        before, after, *rest = whole.split(SEPARATOR)
        ids = self._ids("".join([before, after, *rest]), has_start=True)
        ids = ids or [self.tokenizer.eos_token_id]
        return ids, min(len(self._ids(after)), len(ids)) or len(ids)

    def _shortened(self, text: str) -> str:
        """The text without the words beyond the package's limit; it is cut if it has no blanks."""
        while (length := len(self._ids(text))) > TEXT_TOKENS:
            words = text.split()
            kept = int(len(words) * TEXT_TOKENS / length)
            if kept == 0:
                # Before the last token within the limit, which may be part of a character.
                read = self.tokenizer(
                    text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
                )
                return text[: read["offset_mapping"][TEXT_TOKENS - 1][0]]
            text = " ".join(words[:kept])
        return text

    def _ids(self, text: str, *, has_start: bool = False) -> list[int]:
        ids: list[int] = self.tokenizer(
            text, add_special_tokens=has_start, truncation=True, max_length=self.max_length
        )["input_ids"]
        return ids


@dataclass(frozen=True)
class Llm2Vec(Spreadable):
    """Mean of a text's states under bidirectional attention, instruction left out, length 1.

    `base` and `adapters` are hub names or folders; an adapter's hub name may end in `@` and a
    version, else main. The first adapter (MNTP) is merged before the next is added. A base that
    is an adapter itself is that adapter on the base it names, as in the package.
    """

    base: str
    adapters: tuple[str, ...] = ()
    revision: str | None = None
    instruction: str = ""
    max_length: int = 512
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    batch_tokens: int = 4096

    name: ClassVar[str] = "llm2vec"

    @cached_property
    def digest(self) -> str:
        """Digest of base, adapters, text preparation, pooling and dtype, without weights."""
        base, adapters, turn = self._stack
        reading = (turn, self.instruction.strip(), self.max_length, TEXT_TOKENS)
        weights = (base.identity, [one.version for one in adapters], self._dtype)
        return digest((self.name, "native", weights, reading, "mean over text tokens", "l2"))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encode texts into unit-norm rows; a lone surrogate is read as a question mark."""
        return row_of_each(texts, self._rows)

    @property
    def needs(self) -> Needs:
        """What a copy takes on the device of the YAML."""
        return Needs.on(self._device)

    def compute(self, part: Part) -> Vectors:
        """The rows of a batch of prepared texts."""
        return _pool(self._model, part)

    def _rows(self, texts: list[str]) -> Vectors:
        base, _, turn = self._stack
        preparation = Preparation(base.tokenizer, turn, self.instruction, self.max_length)
        tokens = [preparation.read(without_surrogates(text)) for text in texts]
        keys = [(len(ids), text) for (ids, _), text in zip(tokens, texts, strict=True)]
        width: int = base.config.hidden_size
        return rows_in_batches(tokens, keys, self._computed, width=width, budget=self.batch_tokens)

    @cached_property
    def _stack(self) -> tuple[Checkpoint, list[ResolvedCheckpoint], tuple[str, str] | None]:
        """The base, the adapters upon it, and the turn that they were tuned in."""
        require("torch", "transformers", "peft")
        from transformers.utils.peft_utils import find_adapter_config_file

        opened = partial(checkpoints.open_checkpoint, trust_remote_code=False)
        given = base = opened(self.base, revision=self.revision)
        adapters = [*map(_resolved_adapter, self.adapters)]
        with explain(given.source):
            is_adapter = find_adapter_config_file(given.source, revision=given.commit)
        if is_adapter:
            inner = opened(_tuned_on(given), revision=None)
            base, adapters = replace(inner, tokenizer=given.tokenizer), [given, *adapters]
        if base.config.model_type != "llama":
            raise ModelError(f"{self.base} is a {base.config.model_type}; LLM2Vec here runs Llamas")
        names = [given.source, _former_name(given), *map(_tuned_on, adapters)]
        turn = next((TURNS[name] for name in names if name in TURNS), None)
        return base, adapters, turn

    @cached_property
    def _model(self) -> PreTrainedModel:
        base, adapters, _ = self._stack
        model = checkpoints.load_weights(
            base, dtype=self._dtype, device=self._device, has_head=False
        )
        for place, adapter in enumerate(adapters):  # all but the last are merged, as in the package
            model = _with_adapter(model, adapter, is_merged=place in (0, *range(len(adapters) - 1)))
        model.to(self._device)  # type: ignore[arg-type]  # its wrapper's annotation loses self
        model.train(False)
        return model

    @property
    def _device(self) -> str:
        return checkpoints.device_of(self.device)

    @property
    def _dtype(self) -> str:
        return checkpoints.dtype_of(self.dtype, self._device, self._stack[0].config)


def _pool(model: PreTrainedModel, batch: Sequence[Tokens]) -> Vectors:
    """The mean state of each text's pooled tokens, of length 1; only the padding is masked."""
    device, dtype = model.device, model.dtype
    ids, lengths = padded([ids for ids, _ in batch], device)
    pooled = torch.tensor([last for _, last in batch], device=device)[:, None]
    places = torch.arange(ids.shape[1], device=device)
    is_padding, is_text = places >= lengths, (places >= lengths - pooled) & (places < lengths)
    mask = torch.zeros(*ids.shape, dtype=dtype, device=device)
    mask = mask.masked_fill(is_padding, torch.finfo(dtype).min)[:, None, None, :]
    whole = mask.expand(-1, 1, ids.shape[1], -1)
    with torch.inference_mode():
        states = model(input_ids=ids, attention_mask=whole, use_cache=False)[0].float()
        sums = (states * is_text[:, :, None]).sum(dim=1)
        rows: Vectors = torch.nn.functional.normalize(sums, dim=1).cpu().numpy()
    return rows


def _with_adapter(
    model: PreTrainedModel, adapter: ResolvedCheckpoint, *, is_merged: bool
) -> PreTrainedModel:
    from peft import PeftConfig, PeftModel

    with explain(adapter.source):
        config = PeftConfig.from_pretrained(adapter.source, revision=adapter.commit)
        if config.peft_type != "LORA":
            raise ModelError(f"{adapter.source}: a {config.peft_type} adapter; give a LoRA adapter")
        with catch_warnings():
            # peft asks transformers for things by names the latter is about to drop.
            simplefilter("ignore", FutureWarning)
            tuned = PeftModel(model, config)
        loading = tuned.load_adapter(adapter.source, "default", revision=adapter.commit)
    missing = [name for name in loading.missing_keys if "lora_" in name]
    if strays := missing + list(loading.unexpected_keys):
        raise ModelError(
            f"{adapter.source}: {len(strays)} weights of the adapter and of the model do not match "
            f"({', '.join(strays[:2])}, ...); give the adapters of this base, in their order"
        )
    finish = tuned.merge_and_unload if is_merged else tuned.get_base_model
    under: PreTrainedModel = finish()  # type: ignore[assignment]  # peft calls it a Module
    if is_merged:
        vars(under).pop("peft_config", None)  # old versions leave it, then warn of the next one
    return under


def _resolved_adapter(source: str) -> ResolvedCheckpoint:
    name, mark, revision = source.rpartition("@")
    if not mark or Path(source).expanduser().is_dir():
        name, revision = source, "main"
    return checkpoints.resolve(name, revision=revision, file="adapter_config.json")


def _tuned_on(adapter: ResolvedCheckpoint) -> str:
    from peft import PeftConfig

    with explain(adapter.source):
        config = PeftConfig.from_pretrained(adapter.source, revision=adapter.commit)
    return str(config.base_model_name_or_path)


def _former_name(checkpoint: Checkpoint) -> str:
    """The name a folder's checkpoint was saved from; empty if not configured."""
    if checkpoint.commit is not None:
        return ""
    settings = json.loads((Path(checkpoint.source) / "config.json").read_text("utf-8"))
    return str(settings.get("_name_or_path", ""))
